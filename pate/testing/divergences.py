"""Divergences between pairs of finite distributions, row by row, also of several releases; lower bounds by them."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from pate.validation import require_count, require_probability

Array = NDArray[np.float64]
Law = Callable[[NDArray[np.int64]], Mapping[Any, float]]
Pair = tuple[NDArray[np.int64], NDArray[np.int64]]

SLACK = 1e-13
"""Absolute: differences of sums of probabilities below it are rounding."""
RELATIVE_SLACK = 1e-9
_LARGEST_EXPONENT = 700.0
_CELLS = 1024
_NEGLIGIBLE = 1e-20
_ORDERS = (1.2, 3.0, 8.0)  # at which pairs are compared before any is composed
_FINALISTS = 2  # of each order
_FEWER_CELLS = 512  # outcomes that are kept in composition; more are slower and lower less
_HIGHEST = 200.0
_BISECTIONS = 40
_CLIMBS = (1, 2, 5, 12, 40)  # votes
# standard deviations of a count that are looked at, and more of it
_WIDTH = 9.0
_BEYOND = 40


def logs(distributions: ArrayLike) -> Array:
    """Logarithms of probabilities, minus infinity for 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(distributions), dtype=np.float64)


def renyi(log_first: Array, log_second: Array, orders: ArrayLike) -> Array:
    """D_a(first || second) at every order > 1, `[N, len(orders)]`, from logarithms of distributions, `[N, n]` each."""
    with np.errstate(invalid="ignore"):
        # infinite where only first has mass
        ratio = np.where(np.isneginf(log_first), 0.0, log_first - log_second)
    array = np.atleast_1d(np.asarray(orders, dtype=np.float64))
    found = np.empty((len(log_first), len(array)))
    for place, order in enumerate(array):
        terms = log_first + (order - 1) * ratio
        peak = terms.max(axis=1)
        with np.errstate(invalid="ignore"):
            total = peak + np.log(np.exp(terms - peak[:, None]).sum(axis=1))
        found[:, place] = np.where(np.isposinf(peak), np.inf, total) / (order - 1)
    return np.maximum(found, 0.0)


def hockey_stick(first: Array, second: Array, epsilons: ArrayLike) -> Array:
    """The delta of each pair of distributions `[N, n]` at every epsilon: `[N, len(epsilons)]`.

    That is the largest P(S) - e^epsilon Q(S) over events, P being `first`.
    """
    factors = [
        math.exp(min(epsilon, _LARGEST_EXPONENT))
        for epsilon in np.atleast_1d(np.asarray(epsilons)).tolist()
    ]
    found = [np.maximum(first - factor * second, 0.0).sum(axis=1) for factor in factors]
    return np.array(found).reshape(len(factors), len(first)).T


def trimmed(first: Array, second: Array, failure_prob: float) -> tuple[Array, Array]:
    """The nearest distributions that are left when each side may give up an event of probability `failure_prob`.

    Of all A <= first / (1 - failure_prob) and A' <= second / (1 - failure_prob), the pair returned is the closest in
    every hockey-stick and Renyi divergence at once, both ways round (docs/proofs/verification.md). So a price outside
    of a failure holds for a pair of distributions exactly if it holds for their trimmed pair. One per row, `[N, n]`.
    """
    if failure_prob == 0:
        return first, second
    given_up = failure_prob * (1 + RELATIVE_SLACK) + SLACK
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(np.nan_to_num(-(first / second), nan=-1.0, neginf=-np.inf), axis=1)
        upper = _cap(
            np.take_along_axis(first, order, 1), np.take_along_axis(second, order, 1), given_up
        )
        order = order[:, ::-1]
        lower = _cap(
            np.take_along_axis(second, order, 1), np.take_along_axis(first, order, 1), given_up
        )
        kept_first = np.where(np.isinf(upper), first, np.minimum(first, upper * second))
        kept_second = np.where(np.isinf(lower), second, np.minimum(second, lower * first))
    near = ((upper <= 1) | (lower <= 1))[:, 0]
    common = np.minimum(first, second)
    kept_first[near] = common[near]
    kept_second[near] = common[near]
    return kept_first / kept_first.sum(axis=1, keepdims=True), kept_second / kept_second.sum(
        axis=1, keepdims=True
    )


def _cap(falling: Array, other: Array, given_up: float) -> Array:
    """The ratio c at which the sum of min(falling, c other) is 1 - given_up, the hockey stick given_up: `[N, 1]`."""
    # The columns stand in falling order of the ratio, so the hockey stick is the largest over prefixes of
    # P(prefix) - c Q(prefix), and c is the largest of their roots.
    excess = np.cumsum(falling, axis=1) - given_up
    below = np.cumsum(other, axis=1)
    roots = np.where(excess > 0, np.where(below > 0, excess / below, np.inf), 0.0)
    return np.asarray(roots.max(axis=1, keepdims=True))


def compose(
    first: Array, second: Array, count: int, *, num_cells: int = _CELLS
) -> tuple[Array, Array]:
    """The distributions `[m]` of `count` releases from those of one, `[n]`; nearly equal ratios are merged.

    Merging is a function of the outcome, so no divergence of the merged distributions exceeds that of the true ones:
    what they refute is refuted. Nothing is lost while at most `num_cells` different ratios occur.
    """
    require_count("count", count)

    def product(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
        return merged(
            np.outer(one[0], other[0]).ravel(), np.outer(one[1], other[1]).ravel(), num_cells
        )

    base = merged(first, second, num_cells)
    result = (np.ones(1), np.ones(1))
    while count:
        if count % 2:
            result = product(result, base)
        count //= 2
        if count:
            base = product(base, base)
    return result


def merged(first: Array, second: Array, num_cells: int) -> tuple[Array, Array]:
    """Outcomes with equal ratios made one, and then those in the same of `num_cells` equal cells of the log-ratio.

    The cells are those of ratios that have mass; infinite ones have cells of their own.
    """
    seen = (first > 0) | (second > 0)
    first = first[seen]
    second = second[seen]
    with np.errstate(invalid="ignore"):
        ratio = logs(first) - logs(second)
    cells = np.unique(np.round(ratio, 12), return_inverse=True)[1].reshape(-1)
    if cells.max() >= num_cells:
        order = np.argsort(ratio)
        mass = (first + second)[order]
        kept = (np.cumsum(mass) > _NEGLIGIBLE) & (np.cumsum(mass[::-1])[::-1] > _NEGLIGIBLE)
        likely = ratio[order][np.isfinite(ratio[order]) & kept]
        cells = 1 + np.searchsorted(np.linspace(likely[0], likely[-1], num_cells - 1), ratio)
        cells = np.where(np.isneginf(ratio), 0, np.where(np.isposinf(ratio), num_cells + 1, cells))
    first, second = (
        np.asarray(np.bincount(cells, mass), dtype=np.float64) for mass in (first, second)
    )
    return first, second


@dataclass(frozen=True)
class LowerBound:
    """A lower bound on every sound epsilon, from one pair of neighbors."""

    epsilon: float  # of all releases at the delta that was asked for, rounded down
    first: tuple[int, ...]  # the counts whose law is the more likely one
    second: tuple[int, ...]
    num_releases: int  # how many independent releases of this pair were composed


def lower_bound(
    law: Law, pairs: Iterable[Pair], *, num_releases: int, target_delta: float
) -> LowerBound:
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
        composed = [side[None] for side in compose(x, y, num_releases, num_cells=_FEWER_CELLS)]
        epsilon = _largest_epsilon(partial(hockey_stick, *composed), target_delta)
        bounds.append(LowerBound(epsilon, first, second, num_releases))
    return max(bounds, key=lambda bound: bound.epsilon)


def climbed(law: Law, pair: Pair, *, moves: tuple[int, int], num_teachers: int, steps: int) -> Pair:
    """A pair of neighbors that gives away at least as much as this one at a middle order, by small changes.

    `moves` are the two ways in which a count may move; `steps` changes are tried, always the same.
    """
    rng = np.random.default_rng(0)
    counts = pair[0]
    moved = pair[1] - pair[0]
    best = _cost(law, counts, counts + moved)
    for _ in range(steps):
        new = counts.copy()
        new_moved = moved.copy()
        label = int(rng.integers(len(counts)))
        way = rng.random()
        step = int(rng.choice(_CLIMBS)) * int(rng.choice([-1, 1]))
        if way < 0.25:  # a label's move turned
            new_moved[label] = moves[0] if moved[label] == moves[1] else moves[1]
        elif way < 0.55:  # one count moved by a few votes
            new[label] += step
        elif way < 0.85:  # all from one upwards
            new[new >= new[label]] += step
        else:  # two labels made alike
            other = int(rng.integers(len(counts)))
            new[label] = counts[other]
            new_moved[label] = moved[other]
        both = np.concatenate([new, new + new_moved])
        if (
            both.min() >= 0
            and both.max() <= num_teachers
            and (cost := _cost(law, new, new + new_moved)) >= best
        ):
            counts = new
            moved = new_moved
            best = cost
    return counts, counts + moved


def _cost(law: Law, one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    p, q = _aligned(law(one), law(other))
    return max(
        float(renyi(logs(x[None]), logs(y[None]), _ORDERS[1:2])[0, 0]) for x, y in ((p, q), (q, p))
    )


def _aligned(one: Mapping[Any, float], other: Mapping[Any, float]) -> tuple[Array, Array]:
    outcomes = [*one, *(outcome for outcome in other if outcome not in one)]
    first, second = (
        np.array([law.get(outcome, 0.0) for outcome in outcomes]) for law in (one, other)
    )
    return first, second


def _largest_epsilon(delta_of: Callable[[float], Any], delta: float) -> float:
    """The epsilon at which a falling curve reaches delta, from below."""
    low = 0.0
    high = _HIGHEST
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
    calls = require_count("num_calls", num_calls)
    hits = require_count("target_hits", target_hits)
    require_probability("target_delta", target_delta)
    law, neighbor = np.log(np.array([first, second], dtype=np.float64))
    mean = calls * float(max(np.exp(law[1]), np.exp(neighbor[1])))
    others = np.arange(min(calls, math.ceil(mean + _WIDTH * math.sqrt(mean)) + _BEYOND) + 1.0)
    length, other, hit = np.meshgrid(
        np.arange(hits, calls + 1.0), others, float(hits), indexing="ij"
    )
    ended = length - other - hit, other, hit  # by a hit
    hit, other, length = np.meshgrid(
        np.arange(min(hits, calls + 1.0)), others, float(calls), indexing="ij"
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
