"""Lower bounds on the epsilon of a mechanism, from its exact distributions on pairs of neighboring histograms.

No valid price is smaller than such a bound.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pate.array_types import FloatArray, IntArray
from pate.testing.composition import compose
from pate.testing.divergences import hockey_stick, logs, renyi
from pate.validation import require_count, require_probability

Law = Callable[[IntArray], Mapping[Any, float]]
Pair = tuple[IntArray, IntArray]
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
    """A lower bound on every valid epsilon of a number of releases, and the pair of neighbors that proves it."""

    epsilon: float  # the bound for all releases together, at the target delta; rounded down
    # the counts of the first neighbor, on which some outcomes are more likely
    first: tuple[int, ...]
    second: tuple[int, ...]  # the counts of the second neighbor
    num_releases: int  # the number of independent releases on this pair


def lower_bound(
    law: Law, pairs: Iterable[Pair], *, num_releases: int, target_delta: float
) -> LowerBound:
    """Returns the largest lower bound on epsilon that one of several pairs of neighbors proves.

    All releases are independent and on the same pair. The pairs with the largest Renyi divergences of one release, at a
    low, a middle and a high order, are composed in both directions. Outcomes with nearly equal likelihood ratios are
    merged, which can only lower the bound.

    Args:
        law: returns the probability of each outcome of one release, for counts `[L]`.
        pairs: pairs of neighboring counts, `[L]` each.
        num_releases: the number of releases, >= 1.
        target_delta: the delta of the epsilon, in (0, 1).

    Raises:
        ValueError: there is no pair.

    >>> def coin(counts):
    ...     return {"yes": (1 + counts[0]) / 4, "no": (3 - counts[0]) / 4}
    >>> bound = lower_bound(coin, [(np.array([1]), np.array([0]))], num_releases=1, target_delta=0.1)
    >>> round(bound.epsilon, 4), bound.first, bound.second
    (0.47, (1,), (0,))
    """
    require_count("num_releases", num_releases)
    require_probability("target_delta", target_delta)

    @cache
    def law_of(counts: tuple[int, ...]) -> Mapping[Any, float]:
        return law(np.array(counts))

    candidates: list[tuple[tuple[int, ...], tuple[int, ...], FloatArray, FloatArray]] = []
    for pair in pairs:
        first_counts, second_counts = (tuple(map(int, counts)) for counts in pair)
        p, q = _aligned(law_of(first_counts), law_of(second_counts))
        candidates += [(first_counts, second_counts, p, q), (second_counts, first_counts, q, p)]
    if not candidates:
        raise ValueError("pairs: expected at least one")
    costs = np.array(
        [
            renyi(
                logs(first_law[None]), log_second_laws=logs(second_law[None]), renyi_orders=_ORDERS
            )[0]
            for _, _, first_law, second_law in candidates
        ]
    )
    places = np.unique(np.argsort(-costs, axis=0)[:_FINALISTS])
    bounds = []
    for first, second, first_law, second_law in (candidates[place] for place in places.tolist()):
        composed_first, composed_second = compose(
            first_law, second_law, count=num_releases, num_cells=_FEWER_CELLS
        )
        delta_at = partial(hockey_stick, composed_first[None], composed_second[None])
        epsilon = _largest_epsilon(delta_at, target_delta)
        bounds.append(
            LowerBound(epsilon=epsilon, first=first, second=second, num_releases=num_releases)
        )
    return max(bounds, key=attrgetter("epsilon"))


def climbed(
    law: Law, pair: Pair, *, count_moves: tuple[int, int], num_teachers: int, num_steps: int
) -> Pair:
    """Searches for a pair of neighboring counts with a larger Renyi divergence, by random changes of a first pair.

    Args:
        law: returns the probability of each outcome of one release, for counts `[L]`.
        pair: the pair of neighboring counts at which the search starts, `[L]` each.
        count_moves: the two numbers by which a count may differ between neighbors, such as (-1, 1).
        num_teachers: the largest allowed count.
        num_steps: the number of random changes that are tried, with a fixed seed.

    Returns:
        The best pair of the search. Its divergence, at order 3, is at least that of `pair`.
    """
    rng = np.random.default_rng(0)
    counts = pair[0]
    moved = pair[1] - pair[0]
    best = _cost(law, counts, counts + moved)
    for _ in range(num_steps):
        new = counts.copy()
        new_moved = moved.copy()
        label = int(rng.integers(len(counts)))
        choice = rng.random()
        step = int(rng.choice(_CLIMBS)) * int(rng.choice([-1, 1]))
        if choice < 0.25:  # the other move for a label
            new_moved[label] = count_moves[0] if moved[label] == count_moves[1] else count_moves[1]
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


def _cost(law: Law, first_counts: IntArray, second_counts: IntArray) -> float:
    """Returns the Renyi divergence of order 3 between the distributions on two counts, in the larger direction."""
    p, q = _aligned(law(first_counts), law(second_counts))
    log_p = logs(p[None])
    log_q = logs(q[None])
    forward = renyi(log_p, log_second_laws=log_q, renyi_orders=_ORDERS[1])
    backward = renyi(log_q, log_second_laws=log_p, renyi_orders=_ORDERS[1])
    return max(float(forward[0, 0]), float(backward[0, 0]))


def _aligned(
    first_law: Mapping[Any, float], second_law: Mapping[Any, float]
) -> tuple[FloatArray, FloatArray]:
    """Returns two distributions as arrays `[n]` over the union of their outcomes."""
    outcomes = [*first_law, *(outcome for outcome in second_law if outcome not in first_law)]
    first, second = (
        np.array([law.get(outcome, 0.0) for outcome in outcomes]) for law in (first_law, second_law)
    )
    return first, second


def _largest_epsilon(delta_at: Callable[[float], Any], target_delta: float) -> float:
    """Returns the epsilon up to 200 at which `delta_at`, a decreasing function, equals `target_delta`; rounded down."""
    low = 0.0
    high = _HIGHEST
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) > target_delta else (low, middle)
    return low


def session_epsilon(
    first: ArrayLike, second: ArrayLike, *, num_calls: int, target_hits: int, target_delta: float
) -> float:
    """Returns a lower bound on the epsilon of a session of target charging, whose calls all have the same distribution.

    The session ends after `num_calls` calls or with hit number `target_hits`, whichever comes first.

    Args:
        first: the probabilities of the three outcomes of a call on the first data set, all > 0: two outcomes that are
            no hits, and a hit.
        second: the probabilities of these outcomes on the neighboring data set.
        num_calls: the largest number of calls, >= 1.
        target_hits: the largest number of hits, >= 1.
        target_delta: the delta of the epsilon, in (0, 1).
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

    def delta_at(epsilon: float) -> float:
        return float((probability * -np.expm1(np.minimum(epsilon - loss, 0))).sum())

    return _largest_epsilon(delta_at, target_delta)
