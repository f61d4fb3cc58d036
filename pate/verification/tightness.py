"""Lower bounds: what single pairs of neighbors give away in many releases or in a session, by their exact laws."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from pate.validation import require_count, require_probability
from pate.verification.divergences import Array, compose, hockey_stick, logs, renyi

Law = Callable[[NDArray[np.int64]], Mapping[Any, float]]
Pair = tuple[NDArray[np.int64], NDArray[np.int64]]

_ORDERS = (1.2, 3.0, 8.0)  # at which pairs are compared before any is composed
_FINALISTS = 2  # of each order
_CELLS = 512  # outcomes that are kept in composition; more are slower and lower less
_HIGHEST = 200.0
_BISECTIONS = 40
_CLIMBS = (1, 2, 5, 12, 40)  # votes
_WIDTH, _BEYOND = 9.0, 40  # standard deviations of a count that are looked at, and more of it


@dataclass(frozen=True)
class LowerBound:
    """A lower bound on every sound epsilon, from one pair of neighbors."""

    epsilon: float  # of all releases at the delta that was asked for, rounded down
    first: tuple[int, ...]  # the counts whose law is the more likely one
    second: tuple[int, ...]
    num_releases: int  # how many independent releases of this pair were composed


def lower_bound(law: Law, pairs: Iterable[Pair], *, num_releases: int, target_delta: float) -> LowerBound:
    """The largest epsilon that one of these pairs needs, for independent releases of the same pair.

    The pairs of counts that are the worst in one release at a low, a middle and a high order are composed, both ways
    round. Outcomes with nearly equal ratios are merged, which only lowers what is found. `law` takes counts `[L]` and
    returns the probability of each outcome. No pair at all is a `ValueError`.

    >>> def coin(counts):
    ...     return {"yes": (1 + counts[0]) / 4, "no": (3 - counts[0]) / 4}
    >>> found = lower_bound(coin, [(np.array([1]), np.array([0]))], num_releases=1, target_delta=0.1)
    >>> round(found.epsilon, 4), found.first, found.second
    (0.47, (1,), (0,))
    """
    require_count("num_releases", num_releases)
    require_probability("target_delta", target_delta)
    known = cache(lambda counts: law(np.array(counts)))
    candidates: list[tuple[tuple[int, ...], tuple[int, ...], Array, Array]] = []
    for pair in pairs:
        one, other = (tuple(map(int, counts)) for counts in pair)
        p, q = _aligned(known(one), known(other))
        candidates += [(one, other, p, q), (other, one, q, p)]
    if not candidates:
        raise ValueError("pairs: expected at least one")
    costs = np.array([renyi(logs(x[None]), logs(y[None]), _ORDERS)[0] for _, _, x, y in candidates])
    places = np.unique(np.argsort(-costs, axis=0)[:_FINALISTS])
    bounds = []
    for first, second, x, y in (candidates[place] for place in places.tolist()):
        composed = [side[None] for side in compose(x, y, num_releases, num_cells=_CELLS)]
        epsilon = _largest_epsilon(partial(hockey_stick, *composed), target_delta)
        bounds.append(LowerBound(epsilon, first, second, num_releases))
    return max(bounds, key=lambda bound: bound.epsilon)


def climbed(law: Law, pair: Pair, *, moves: tuple[int, int], num_teachers: int, steps: int) -> Pair:
    """A pair of neighbors that gives away at least as much as this one at a middle order, by small changes.

    `moves` are the two ways in which a count may move; `steps` changes are tried, always the same.
    """
    rng = np.random.default_rng(0)
    counts, moved = pair[0], pair[1] - pair[0]
    best = _cost(law, counts, counts + moved)
    for _ in range(steps):
        new, new_moved, label = counts.copy(), moved.copy(), int(rng.integers(len(counts)))
        way, step = rng.random(), int(rng.choice(_CLIMBS)) * int(rng.choice([-1, 1]))
        if way < 0.25:  # a label's move turned
            new_moved[label] = moves[0] if moved[label] == moves[1] else moves[1]
        elif way < 0.55:  # one count moved by a few votes
            new[label] += step
        elif way < 0.85:  # all from one upwards
            new[new >= new[label]] += step
        else:  # two labels made alike
            other = int(rng.integers(len(counts)))
            new[label], new_moved[label] = counts[other], moved[other]
        both = np.concatenate([new, new + new_moved])
        if both.min() >= 0 and both.max() <= num_teachers and (cost := _cost(law, new, new + new_moved)) >= best:
            counts, moved, best = new, new_moved, cost
    return counts, counts + moved


def _cost(law: Law, one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    p, q = _aligned(law(one), law(other))
    return max(float(renyi(logs(x[None]), logs(y[None]), _ORDERS[1:2])[0, 0]) for x, y in ((p, q), (q, p)))


def _aligned(one: Mapping[Any, float], other: Mapping[Any, float]) -> tuple[Array, Array]:
    outcomes = [*one, *(outcome for outcome in other if outcome not in one)]
    first, second = (np.array([law.get(outcome, 0.0) for outcome in outcomes]) for law in (one, other))
    return first, second


def _largest_epsilon(delta_of: Callable[[float], Any], delta: float) -> float:
    """The epsilon at which a falling curve reaches delta, from below."""
    low, high = 0.0, _HIGHEST
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle) > delta else (low, middle)
    return low


def session_epsilon(
    first: ArrayLike, second: ArrayLike, *, num_calls: int, target_hits: int, target_delta: float
) -> float:
    """An epsilon that the session needs, from below, where every call has these distributions on two neighbors.

    Both are `[3]` positive probabilities: of two outcomes that cost nothing, and of a hit. The session ends with the
    hit of number `target_hits`, or after `num_calls`.
    """
    # Calls are exchangeable up to the last one: the law of a session is that of how often each outcome occurred. Rare
    # counts are left out, which only lowers what is found.
    calls, hits = require_count("num_calls", num_calls), require_count("target_hits", target_hits)
    require_probability("target_delta", target_delta)
    logs = np.log(np.array([first, second], dtype=np.float64))
    mean = calls * float(np.exp(logs[:, 1]).max())
    others = np.arange(min(calls, math.ceil(mean + _WIDTH * math.sqrt(mean)) + _BEYOND) + 1.0)
    length, other, hit = np.meshgrid(np.arange(hits, calls + 1.0), others, float(hits), indexing="ij")
    ended = length - other - hit, other, hit  # by a hit
    hit, other, length = np.meshgrid(np.arange(min(hits, calls + 1.0)), others, float(calls), indexing="ij")
    chances, losses = [], []
    for outcomes, last in ((ended, 1), ((length - other - hit, other, hit), 0)):
        counts = np.stack(outcomes)
        counts = counts[:, counts[0] >= 0]  # [3, n] of those that are possible
        ways = scipy.special.gammaln(counts.sum(axis=0) + 1 - last) - scipy.special.gammaln(counts[:2] + 1).sum(axis=0)
        ways -= scipy.special.gammaln(counts[2] + 1 - last)
        chances.append(np.exp(ways + np.tensordot(logs[0], counts, 1)).ravel())
        losses.append(np.tensordot(logs[0] - logs[1], counts, 1).ravel())
    probability, loss = np.concatenate(chances), np.concatenate(losses)
    return _largest_epsilon(
        lambda epsilon: float((probability * -np.expm1(np.minimum(epsilon - loss, 0))).sum()), target_delta
    )
