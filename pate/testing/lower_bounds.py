"""Lower bounds on the epsilon of a mechanism, from its exact distributions on pairs of neighboring histograms.

No valid price is smaller than such a bound. The distribution of a mechanism on one histogram is called its *law*.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import attrgetter
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pate.array_types import FloatArray, IntArray
from pate.testing.composition import compose
from pate.testing.divergences import hockey_stick, logs, renyi
from pate.validation import require_count, require_probability

# A function that returns the probability of each outcome, for counts `[num_labels]`.
OutcomeProbs = Callable[[IntArray], Mapping[Any, float]]
# The counts of two neighbors, `[num_labels]` each.
Pair = tuple[IntArray, IntArray]
# The Renyi orders at which pairs are compared before any pair is composed.
_ORDERS = (1.2, 3.0, 8.0)
# The Renyi order at which a local search compares pairs.
_SEARCH_ORDER = 3.0
# The number of ordered pairs that are composed for each order.
_NUM_FINALISTS = 2
# The largest number of outcomes with finite likelihood ratios to which those of a composition are merged. With more
# outcomes, the bound is a little larger, but takes longer.
_NUM_CELLS = 512
# The largest lower bound, and the number of halvings of the search for it.
_MAX_EPSILON = 200.0
_NUM_BISECTIONS = 40
# The numbers of votes by which a local search moves counts.
_VOTE_STEPS = (1, 2, 5, 12, 40)
# The number of calls with the second outcome is followed up to so many standard deviations above its mean, plus so many
# calls.
_NUM_DEVIATIONS = 9.0
_EXTRA_CALLS = 40
# The place of the second outcome that is no hit, among the outcomes of a call.
_SECOND_OUTCOME = 1


@dataclass(frozen=True)
class LowerBound:
    """A lower bound on every valid epsilon of a number of releases, and the pair of neighbors that proves it.

    Attributes:
        epsilon: the bound for all releases together, at the target delta; rounded down.
        first: the counts of the first neighbor, on which some set of outcomes is likelier than a smaller epsilon
            allows.
        second: the counts of the second neighbor.
        num_releases: the number of independent releases on this pair.
    """

    epsilon: float
    first: tuple[int, ...]
    second: tuple[int, ...]
    num_releases: int


@dataclass(frozen=True)
class _OrderedPair:
    """An ordered pair of neighbors, with the distributions (laws) of the outcome of one release on both.

    Attributes:
        first_counts: the counts of the first neighbor.
        second_counts: the counts of the second neighbor.
        first_law: the probabilities of all outcomes on the first neighbor, `[n]`.
        second_law: the probabilities of the same outcomes on the second neighbor, `[n]`.
    """

    first_counts: tuple[int, ...]
    second_counts: tuple[int, ...]
    first_law: FloatArray
    second_law: FloatArray

    def reversed(self) -> Self:
        """Returns the pair with the first and the second neighbor exchanged."""
        return replace(
            self,
            first_counts=self.second_counts,
            second_counts=self.first_counts,
            first_law=self.second_law,
            second_law=self.first_law,
        )

    def divergences(self) -> FloatArray:
        """Returns the Renyi divergences D_a(first law || second law) at a low, a middle and a high order, `[3]`."""
        (divergences_by_order,) = renyi(
            logs(self.first_law[None]),
            log_second_laws=logs(self.second_law[None]),
            renyi_orders=_ORDERS,
        )
        return np.asarray(divergences_by_order)


def lower_bound(
    outcome_probs_of: OutcomeProbs, pairs: Iterable[Pair], *, num_releases: int, target_delta: float
) -> LowerBound:
    """Returns a lower bound on epsilon: the largest that the most promising of several pairs of neighbors prove.

    All releases are independent and on the same pair. Each pair is taken in both directions. The ordered pairs with the
    largest Renyi divergences of one release, at a low, a middle and a high order, are composed. Outcomes with nearly
    equal likelihood ratios are merged, which can only lower the bound.

    Args:
        outcome_probs_of: returns the probability of each outcome of one release, for counts `[L]`.
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
    def cached_outcome_probs(counts: tuple[int, ...]) -> Mapping[Any, float]:
        """Returns the probability of each outcome for some counts, from a cache for counts of several pairs."""
        return outcome_probs_of(np.array(counts))

    candidate_pairs: list[_OrderedPair] = []
    for first_counts, second_counts in pairs:
        first_histogram = tuple(map(int, first_counts))
        second_histogram = tuple(map(int, second_counts))
        first_law, second_law = _aligned_laws(
            cached_outcome_probs(first_histogram), cached_outcome_probs(second_histogram)
        )
        candidate_pair = _OrderedPair(
            first_counts=first_histogram,
            second_counts=second_histogram,
            first_law=first_law,
            second_law=second_law,
        )
        candidate_pairs += [candidate_pair, candidate_pair.reversed()]
    if not candidate_pairs:
        raise ValueError("pairs: expected at least one")
    divergences = np.array([candidate_pair.divergences() for candidate_pair in candidate_pairs])
    finalist_indices = np.unique(np.argsort(-divergences, axis=0)[:_NUM_FINALISTS])
    lower_bounds = []
    for index in finalist_indices.tolist():
        finalist_pair = candidate_pairs[index]
        composed_first_law, composed_second_law = compose(
            finalist_pair.first_law,
            finalist_pair.second_law,
            count=num_releases,
            num_cells=_NUM_CELLS,
        )
        delta_at = partial(hockey_stick, composed_first_law[None], composed_second_law[None])
        pair_bound = LowerBound(
            epsilon=_largest_epsilon(delta_at, target_delta=target_delta),
            first=finalist_pair.first_counts,
            second=finalist_pair.second_counts,
            num_releases=num_releases,
        )
        lower_bounds.append(pair_bound)
    return max(lower_bounds, key=attrgetter("epsilon"))


def climb(
    outcome_probs_of: OutcomeProbs,
    pair: Pair,
    *,
    count_moves: tuple[int, int],
    num_teachers: int,
    num_steps: int,
) -> Pair:
    """Searches for a pair of neighboring counts with a larger Renyi divergence, by random changes of a first pair.

    Args:
        outcome_probs_of: returns the probability of each outcome of one release, for counts `[L]`.
        pair: the pair of neighboring counts at which the search starts, `[L]` each.
        count_moves: the two numbers by which a count may differ between neighbors, such as (-1, 1).
        num_teachers: the largest allowed count.
        num_steps: the number of random changes that are tried, with a fixed seed.

    Returns:
        The best pair of the search. Its divergence, at order 3, is at least that of `pair`.
    """
    rng = np.random.default_rng(0)
    # The counts of the first neighbor, and their differences to the second neighbor.
    first_counts = pair[0]
    count_differences = pair[1] - pair[0]
    divergence = _search_divergence(
        outcome_probs_of, first_counts, first_counts + count_differences
    )
    for _ in range(num_steps):
        new_first_counts = first_counts.copy()
        new_differences = count_differences.copy()
        label = int(rng.integers(len(first_counts)))
        choice = rng.random()
        step = int(rng.choice(_VOTE_STEPS)) * int(rng.choice([-1, 1]))
        if choice < 0.25:
            # The label gets the other move.
            low_move, high_move = count_moves
            new_differences[label] = (
                low_move if count_differences[label] == high_move else high_move
            )
        elif choice < 0.55:
            # One count changes by a few votes.
            new_first_counts[label] += step
        elif choice < 0.85:
            # All counts that are at least as large change by the same number of votes.
            new_first_counts[new_first_counts >= new_first_counts[label]] += step
        else:
            # The label gets the count and the move of another label.
            other_label = int(rng.integers(len(first_counts)))
            new_first_counts[label] = first_counts[other_label]
            new_differences[label] = count_differences[other_label]
        all_counts = np.concatenate([new_first_counts, new_first_counts + new_differences])
        if all_counts.min() < 0 or all_counts.max() > num_teachers:
            continue
        new_divergence = _search_divergence(
            outcome_probs_of,
            first_counts=new_first_counts,
            second_counts=new_first_counts + new_differences,
        )
        if new_divergence >= divergence:
            first_counts = new_first_counts
            count_differences = new_differences
            divergence = new_divergence
    return first_counts, first_counts + count_differences


def _search_divergence(
    outcome_probs_of: OutcomeProbs, first_counts: IntArray, second_counts: IntArray
) -> float:
    """Returns the Renyi divergence of order 3 between the outcomes of one release on two counts, larger direction."""
    first_law, second_law = _aligned_laws(
        outcome_probs_of(first_counts), outcome_probs_of(second_counts)
    )
    log_first = logs(first_law[None])
    log_second = logs(second_law[None])
    forward = renyi(log_first, log_second_laws=log_second, renyi_orders=_SEARCH_ORDER)
    backward = renyi(log_second, log_second_laws=log_first, renyi_orders=_SEARCH_ORDER)
    return max(float(forward[0, 0]), float(backward[0, 0]))


def _aligned_laws(
    first_law: Mapping[Any, float], second_law: Mapping[Any, float]
) -> tuple[FloatArray, FloatArray]:
    """Returns two distributions as arrays `[n]` over the union of their outcomes, with 0 for a missing outcome."""
    outcomes = [*first_law, *(outcome for outcome in second_law if outcome not in first_law)]
    first_probs = np.array([first_law.get(outcome, 0.0) for outcome in outcomes])
    second_probs = np.array([second_law.get(outcome, 0.0) for outcome in outcomes])
    return first_probs, second_probs


def _largest_epsilon(delta_at: Callable[[float], Any], *, target_delta: float) -> float:
    """Returns the largest epsilon with `delta_at(epsilon)` > `target_delta`, rounded down; 0 if there is none.

    `delta_at` is a decreasing function. An epsilon above 200 is returned as about 200.
    """
    low_epsilon = 0.0
    high_epsilon = _MAX_EPSILON
    for _ in range(_NUM_BISECTIONS):
        middle_epsilon = (low_epsilon + high_epsilon) / 2
        if delta_at(middle_epsilon) > target_delta:
            low_epsilon = middle_epsilon
        else:
            high_epsilon = middle_epsilon
    return low_epsilon


def session_epsilon(
    first_law: ArrayLike,
    second_law: ArrayLike,
    *,
    num_calls: int,
    target_hits: int,
    target_delta: float,
) -> float:
    """Returns a lower bound on the epsilon of a session of target charging, whose calls all have the same distribution.

    Target charging charges hits alone (`pate.aggregators.session`). The session ends after `num_calls` calls or with
    hit number `target_hits`, whichever comes first.

    Args:
        first_law: the probabilities of the three outcomes of a call on the first data set, all > 0: two outcomes that
            are no hits, and a hit.
        second_law: the probabilities of these outcomes on the neighboring data set.
        num_calls: the largest number of calls, >= 1.
        target_hits: the largest number of hits, >= 1.
        target_delta: the delta of the epsilon, in (0, 1).
    """
    # Calls are exchangeable up to the last one, so the counts of the three outcomes decide the probability of a
    # session. Rare counts are left out, which can only lower the bound.
    require_count("num_calls", num_calls)
    require_count("target_hits", target_hits)
    require_probability("target_delta", target_delta)
    log_law, log_neighbor_law = np.log(np.array([first_law, second_law], dtype=np.float64))
    larger_log_prob = max(log_law[_SECOND_OUTCOME], log_neighbor_law[_SECOND_OUTCOME])
    mean_second_count = num_calls * float(np.exp(larger_log_prob))
    deviations = _NUM_DEVIATIONS * math.sqrt(mean_second_count)
    likely_count = math.ceil(mean_second_count + deviations) + _EXTRA_CALLS
    second_counts = np.arange(min(num_calls, likely_count) + 1.0)
    # Sessions that end with the last hit, of any length.
    length, second_count, num_hits = np.meshgrid(
        np.arange(target_hits, num_calls + 1.0), second_counts, float(target_hits), indexing="ij"
    )
    ended_counts = np.stack([length - second_count - num_hits, second_count, num_hits])
    # Sessions that have fewer hits when all calls are made.
    num_hits, second_count, length = np.meshgrid(
        np.arange(min(target_hits, num_calls + 1.0)),
        second_counts,
        float(num_calls),
        indexing="ij",
    )
    unended_counts = np.stack([length - second_count - num_hits, second_count, num_hits])
    session_prob_parts = []
    session_loss_parts = []
    for outcome_counts, num_fixed_hits in ((ended_counts, 1), (unended_counts, 0)):
        possible_outcome_counts = outcome_counts[:, outcome_counts[0] >= 0]  # [3, n]
        log_orders = _log_num_orders(possible_outcome_counts, num_fixed_hits=num_fixed_hits)
        session_prob_parts.append(
            np.exp(log_orders + np.tensordot(log_law, possible_outcome_counts, axes=1)).ravel()
        )
        session_loss_parts.append(
            np.tensordot(log_law - log_neighbor_law, possible_outcome_counts, axes=1).ravel()
        )
    session_probs = np.concatenate(session_prob_parts)
    session_losses = np.concatenate(session_loss_parts)

    def delta_at(epsilon: float) -> float:
        """Returns the delta of the session at an epsilon, from the distribution of its privacy loss."""
        return float((session_probs * -np.expm1(np.minimum(epsilon - session_losses, 0))).sum())

    return _largest_epsilon(delta_at, target_delta=target_delta)


def _log_num_orders(outcome_counts: FloatArray, *, num_fixed_hits: int) -> FloatArray:
    """Returns the logarithm of the number of orders in which the calls of a session may have their outcomes, `[n]`.

    Args:
        outcome_counts: how often each of three outcomes occurs in each of n sessions (`session_epsilon`), hits last,
            `[3, n]`.
        num_fixed_hits: 1 if the last call is a hit; 0 otherwise.
    """
    miss_counts_of_sessions = outcome_counts[:2]
    hit_counts_of_sessions = outcome_counts[2]
    log_orders = scipy.special.gammaln(outcome_counts.sum(axis=0) + 1 - num_fixed_hits)
    log_orders = log_orders - scipy.special.gammaln(miss_counts_of_sessions + 1).sum(axis=0)
    return np.asarray(
        log_orders - scipy.special.gammaln(hit_counts_of_sessions + 1 - num_fixed_hits)
    )
