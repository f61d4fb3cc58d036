"""Lower bounds on every sound epsilon, from pairs of neighbors."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from pate.testing.composition import compose
from pate.testing.divergences import Array, hockey_stick, logs, renyi
from pate.validation import require_count, require_probability

Law = Callable[[NDArray[np.int64]], Mapping[Any, float]]
Pair = tuple[NDArray[np.int64], NDArray[np.int64]]
_ORDERS = (1.2, 3.0, 8.0)  # at which pairs are compared before any is composed
_FINALISTS = 2  # of each order
_FEWER_CELLS = 512  # outcomes that are kept in composition; more are slower and lower less
_HIGHEST = 200.0
_BISECTIONS = 40
_CLIMBS = (1, 2, 5, 12, 40)  # votes
# a count is followed up to so many standard deviations above its mean, and so many calls more
_WIDTH = 9.0
_BEYOND = 40


@dataclass(frozen=True)
class LowerBound:
    """A lower bound on every sound epsilon, from one pair of neighbors."""

    epsilon: float  # of all releases together, at the target delta; rounded down
    first: tuple[int, ...]  # counts, of which some outcomes are more likely than of `second`
    second: tuple[int, ...]
    num_releases: int  # the number of independent releases of this pair


def lower_bound(
    law: Law, pairs: Iterable[Pair], *, num_releases: int, target_delta: float
) -> LowerBound:
    """Returns the largest epsilon that one of the pairs of counts needs, for independent releases of the same pair.

    The pairs that are the worst in one release, at a low, a middle and a high order, are composed in both directions.
    Outcomes with nearly equal ratios are merged, which can only lower the bound.

    Args:
        law: takes counts `[L]` and returns the probability of each outcome.
        pairs: of neighboring counts, `[L]` each.
        num_releases: >= 1.
        target_delta: in (0, 1).

    Raises:
        ValueError: there is no pair.

    >>> def coin(counts):
    ...     return {"yes": (1 + counts[0]) / 4, "no": (3 - counts[0]) / 4}
    >>> found = lower_bound(coin, [(np.array([1]), np.array([0]))], num_releases=1, target_delta=0.1)
    >>> round(found.epsilon, 4), found.first, found.second
    (0.47, (1,), (0,))
    """
    require_count("num_releases", num_releases)
    require_probability("target_delta", target_delta)
    law_of = cache(lambda counts: law(np.array(counts)))
    candidates: list[tuple[tuple[int, ...], tuple[int, ...], Array, Array]] = []
    for pair in pairs:
        one, other = (tuple(map(int, counts)) for counts in pair)
        p, q = _aligned(law_of(one), law_of(other))
        candidates += [(one, other, p, q), (other, one, q, p)]
    if not candidates:
        raise ValueError("pairs: expected at least one")
    costs = np.array([renyi(logs(x[None]), logs(y[None]), _ORDERS)[0] for _, _, x, y in candidates])
    places = np.unique(np.argsort(-costs, axis=0)[:_FINALISTS])
    bounds = []
    for first, second, x, y in (candidates[place] for place in places.tolist()):
        composed_x, composed_y = compose(x, y, num_releases, num_cells=_FEWER_CELLS)
        delta_of = partial(hockey_stick, composed_x[None], composed_y[None])
        epsilon = _largest_epsilon(delta_of, target_delta)
        bounds.append(LowerBound(epsilon, first, second, num_releases))
    return max(bounds, key=lambda bound: bound.epsilon)


def climbed(law: Law, pair: Pair, *, moves: tuple[int, int], num_teachers: int, steps: int) -> Pair:
    """Returns a pair of neighbors whose divergence at a middle order is at least that of a given pair.

    Args:
        law: as in `lower_bound`.
        pair: where the search begins.
        moves: the two moves that a count may make between neighbors.
        num_teachers: the largest count.
        steps: the number of random changes that are tried, with a fixed seed.
    """
    rng = np.random.default_rng(0)
    counts = pair[0]
    moved = pair[1] - pair[0]
    best = _cost(law, counts, counts + moved)
    for _ in range(steps):
        new = counts.copy()
        new_moved = moved.copy()
        label = int(rng.integers(len(counts)))
        choice = rng.random()
        step = int(rng.choice(_CLIMBS)) * int(rng.choice([-1, 1]))
        if choice < 0.25:  # the other move for a label
            new_moved[label] = moves[0] if moved[label] == moves[1] else moves[1]
        elif choice < 0.55:  # one count moved by a few votes
            new[label] += step
        elif choice < 0.85:  # all counts that are at least as large moved alike
            new[new >= new[label]] += step
        else:  # a label with the count and the move of another
            other = int(rng.integers(len(counts)))
            new[label] = counts[other]
            new_moved[label] = moved[other]
        all_counts = np.concatenate([new, new + new_moved])
        if all_counts.min() < 0 or all_counts.max() > num_teachers:
            continue
        cost = _cost(law, new, new + new_moved)
        if cost >= best:
            counts = new
            moved = new_moved
            best = cost
    return counts, counts + moved


def _cost(law: Law, one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """Returns the larger Renyi divergence of the two directions, at a middle order."""
    p, q = _aligned(law(one), law(other))
    log_p = logs(p[None])
    log_q = logs(q[None])
    forward = renyi(log_p, log_q, _ORDERS[1])
    backward = renyi(log_q, log_p, _ORDERS[1])
    return max(float(forward[0, 0]), float(backward[0, 0]))


def _aligned(one: Mapping[Any, float], other: Mapping[Any, float]) -> tuple[Array, Array]:
    """Returns two distributions as arrays `[n]` over all outcomes."""
    outcomes = [*one, *(outcome for outcome in other if outcome not in one)]
    first, second = (
        np.array([law.get(outcome, 0.0) for outcome in outcomes]) for law in (one, other)
    )
    return first, second


def _largest_epsilon(delta_of: Callable[[float], Any], delta: float) -> float:
    """Returns the epsilon at which a falling curve reaches delta, rounded down."""
    low = 0.0
    high = _HIGHEST
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle) > delta else (low, middle)
    return low


def session_epsilon(
    first: ArrayLike, second: ArrayLike, *, num_calls: int, target_hits: int, target_delta: float
) -> float:
    """Returns a lower bound on the epsilon of a session of calls that have the same distributions on two neighbors.

    Args:
        first: `[3]`, positive probabilities of two outcomes that cost nothing, and of a hit.
        second: those on the neighbor.
        num_calls: the session ends after that many calls, or with the last hit.
        target_hits: the number of the last hit.
        target_delta: in (0, 1).
    """
    # Calls are exchangeable up to the last one, so the counts of the three outcomes decide the probability of a
    # session. Rare counts are left out, which can only lower the bound.
    calls = require_count("num_calls", num_calls)
    hits = require_count("target_hits", target_hits)
    require_probability("target_delta", target_delta)
    law, neighbor = np.log(np.array([first, second], dtype=np.float64))
    mean = calls * float(max(np.exp(law[1]), np.exp(neighbor[1])))
    counts_of_other = np.arange(
        min(calls, math.ceil(mean + _WIDTH * math.sqrt(mean)) + _BEYOND) + 1.0
    )
    length, other, hit = np.meshgrid(
        np.arange(hits, calls + 1.0), counts_of_other, float(hits), indexing="ij"
    )
    ended = length - other - hit, other, hit  # by a hit
    hit, other, length = np.meshgrid(
        np.arange(min(hits, calls + 1.0)), counts_of_other, float(calls), indexing="ij"
    )
    chances = []
    losses = []
    for outcomes, last in ((ended, 1), ((length - other - hit, other, hit), 0)):
        counts = np.stack(outcomes)
        counts = counts[:, counts[0] >= 0]  # [3, n] of those that are possible
        ways = scipy.special.gammaln(counts.sum(axis=0) + 1 - last) - scipy.special.gammaln(
            counts[:2] + 1
        ).sum(axis=0)
        ways -= scipy.special.gammaln(counts[2] + 1 - last)
        chances.append(np.exp(ways + np.tensordot(law, counts, 1)).ravel())
        losses.append(np.tensordot(law - neighbor, counts, 1).ravel())
    probability = np.concatenate(chances)
    loss = np.concatenate(losses)
    return _largest_epsilon(
        lambda epsilon: float((probability * -np.expm1(np.minimum(epsilon - loss, 0))).sum()),
        target_delta,
    )
