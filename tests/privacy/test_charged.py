"""Aggregators that are charged for hits: calls, hit probabilities, failures and sessions on neighboring counts."""

import math
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import softmax

from pate.accounting import Adjacency, PureDpEvent, RdpAccountant, SessionEvent
from pate.accounting.event_tree import failure_probability, leaves, priced_by_accesses
from pate.accounting.target_charging import exact_hit_prob, not_prior, tight_boundary
from pate.aggregators import BoundaryMax, BoundaryTopK, NotPriorTopK
from pate.aggregators.not_prior import margins
from pate.aggregators.session_event import bit_epsilon, session_event
from pate.array_types import FloatArray, IntArray
from tests.privacy.histograms import GapPairs, gap_pairs, gaps_of, neighbors

ADJACENCIES = tuple(Adjacency)


class TopKNoise(NamedTuple):
    """The noise of a boundary top-k call.

    Attributes:
        selection_scale: the scale of the Gumbel noise that selects a size.
        test_std: the standard deviation of the Laplace noise of the stability test.
        failure_prob: the failure probability of the stability test.
    """

    selection_scale: float
    test_std: float
    failure_prob: float


NOISES = [
    TopKNoise(selection_scale=3.0, test_std=1.0, failure_prob=0.05),
    TopKNoise(selection_scale=0.8, test_std=2.0, failure_prob=0.2),
    TopKNoise(selection_scale=6.0, test_std=0.4, failure_prob=1e-3),
]


class TopKCalls(NamedTuple):
    """Boundary top-k calls on all pairs of neighboring histograms of six teachers, without the boundary wrapper.

    The outcomes of a call are the n sizes k whose label set may be released, and a refusal. `wrap_in_boundary` adds the
    boundary. Of pairs with equal gaps and equal top-k sets in the same places, one is kept.

    Attributes:
        aggregator: the aggregator that makes the call.
        gaps_of_pairs: the gaps of both histograms of each of N pairs, `[N, n]` for either histogram.
        first_laws: the probability of each outcome on the first histogram of each pair, `[N, n + 1]`; the refusal is
            last.
        second_laws: the same on the second histogram of each pair, `[N, n + 1]`.
    """

    aggregator: BoundaryTopK
    gaps_of_pairs: GapPairs
    first_laws: FloatArray
    second_laws: FloatArray


def boundary_top_k_calls(
    noise: TopKNoise, adjacency: Adjacency, *, padded: bool = False, num_labels: int = 3
) -> TopKCalls:
    """Returns the calls of boundary top-k on all neighbors, with distributions that are computed from the gaps here."""
    aggregator = BoundaryTopK(
        selection_scale=noise.selection_scale,
        test_std=noise.test_std,
        failure_prob=noise.failure_prob,
        padded=padded,
        adjacency=adjacency,
    )
    gaps_of_pairs = gap_pairs(num_labels, num_teachers=6, adjacency=adjacency, padded=padded)

    def call_laws(gaps: IntArray) -> FloatArray:
        selection_probs = softmax(gaps / noise.selection_scale, axis=1)
        excess = np.maximum(gaps - adjacency.gap_sensitivity, 0)
        log_odds = excess * math.sqrt(2) / noise.test_std + math.log(2 * noise.failure_prob)
        tail = np.exp(-np.abs(log_odds)) / 2
        pass_probs = np.minimum(np.where(log_odds < 0, tail, 1 - tail), 1 - 2.0**-40)
        if padded:
            pass_probs[:, [0, -1]] = 1.0  # these sizes name no label, or all labels
        refusal_probs = (selection_probs * (1 - pass_probs)).sum(axis=1, keepdims=True)
        return np.concatenate([selection_probs * pass_probs, refusal_probs], axis=1)

    return TopKCalls(
        aggregator,
        gaps_of_pairs=gaps_of_pairs,
        first_laws=call_laws(gaps_of_pairs.first),
        second_laws=call_laws(gaps_of_pairs.second),
    )


def wrap_in_boundary(laws: FloatArray) -> FloatArray:
    """Returns the distributions `[N, n + 1]` of calls inside the boundary wrapper.

    The boundary is the last outcome.

    Args:
        laws: the distributions of the calls without the wrapper, `[N, n]`.
    """
    boundary_weight = np.minimum(laws.sum(axis=1) - laws.max(axis=1), 0.5)[:, None]
    return np.concatenate([laws, boundary_weight], axis=1) / (1 + boundary_weight)


def prob_of_unstable_set(wrapped_laws: FloatArray, gaps_of_pairs: GapPairs) -> float:
    """Returns the largest probability, over all pairs, that the released set is one that the neighbor cannot release.

    Args:
        wrapped_laws: the distributions of wrapped calls on the first histograms, `[N, n + 2]`.
        gaps_of_pairs: the gaps of both histograms of each pair, and for which k their top-k sets agree.
    """
    return float(np.where(gaps_of_pairs.same_set, 0.0, wrapped_laws[:, :-2]).sum(axis=1).max())


def largest_log_ratio(first_laws: FloatArray, second_laws: FloatArray) -> float:
    """Returns the largest absolute logarithm of a ratio of probabilities."""
    return float(np.abs(np.log(first_laws / second_laws)).max())


def require_boundary_target(
    first_laws: FloatArray, second_laws: FloatArray, *, call_epsilon: float, pair_step: int
) -> None:
    """Fails unless calls inside the boundary wrapper keep the target of the wrapper.

    For all pairs, the log ratios are at most the target's epsilon. For each `pair_step`-th pair, the exact hit
    probability is at least the target's.

    Args:
        first_laws: the distributions of calls without the wrapper on the first histograms, `[N, n]`.
        second_laws: the distributions of these calls on the second histograms, `[N, n]`.
        call_epsilon: the epsilon of a call without the wrapper.
        pair_step: the distance between two pairs on which the hit probability is computed.
    """
    target = tight_boundary(call_epsilon)
    first_wrapped = wrap_in_boundary(first_laws)
    second_wrapped = wrap_in_boundary(second_laws)
    assert largest_log_ratio(first_wrapped, second_wrapped) <= target.epsilon
    num_outcomes = first_wrapped.shape[1]
    at_boundary = np.arange(num_outcomes) == num_outcomes - 1
    pairs_of_laws = zip(first_wrapped[::pair_step], second_wrapped[::pair_step], strict=True)
    for first_law, second_law in {
        (tuple(first_law), tuple(second_law)) for first_law, second_law in pairs_of_laws
    }:
        hit_prob = exact_hit_prob(
            first_law=first_law,
            second_law=second_law,
            in_target=at_boundary,
            epsilon=target.epsilon,
        )
        assert hit_prob >= target.hit_prob


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_boundary_call_keeps_its_epsilon_its_target_and_its_failure(
    adjacency: Adjacency, noise: TopKNoise, padded: bool
) -> None:
    """On all neighbors of six teachers, the log ratios of a boundary top-k call stay within its epsilon.

    On every seventh pair, the boundary outcomes, which are the hits, have at least the hit probability q of the target.
    The sets that only one neighbor can release have together at most the failure probability. For one histogram the
    package's distribution agrees with this test's own.
    """
    calls = boundary_top_k_calls(noise, adjacency, padded=padded)
    aggregator = calls.aggregator
    epsilon = aggregator.call_epsilon_for(num_labels=3, num_teachers=6)
    assert largest_log_ratio(calls.first_laws, calls.second_laws) <= epsilon * (1 + 1e-6)
    require_boundary_target(calls.first_laws, calls.second_laws, call_epsilon=epsilon, pair_step=7)
    wrapped_laws = wrap_in_boundary(calls.first_laws)
    unstable_prob = prob_of_unstable_set(wrapped_laws, calls.gaps_of_pairs)
    assert unstable_prob <= aggregator.failure_prob * (1 + 1e-12)
    counts = np.array([5, 3, 0])
    gaps = gaps_of(counts[None], num_teachers=6, padded=padded)
    first_pair = np.flatnonzero((calls.gaps_of_pairs.first == gaps).all(axis=1))[0]
    distribution = aggregator.distribution(counts, num_teachers=6)
    released = [p for labels, p in distribution.items() if not isinstance(labels, str)]
    np.testing.assert_allclose(
        [*released, distribution["refused"], distribution["boundary"]],
        wrapped_laws[first_pair],
        rtol=1e-9,
    )


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_call_epsilon_or_a_failure_10_percent_too_small_fails(adjacency: Adjacency) -> None:
    """Negative control: some pair of neighbors has a log ratio above 90% of the call's epsilon.

    On some pair, sets that only one neighbor can release have together over 90% of the failure probability.
    """
    calls = boundary_top_k_calls(
        TopKNoise(selection_scale=20.0, test_std=1.0, failure_prob=0.05),
        adjacency=adjacency,
        num_labels=4,
    )
    epsilon = calls.aggregator.call_epsilon_for(num_labels=4, num_teachers=6)
    log_ratio = largest_log_ratio(calls.first_laws, calls.second_laws)
    assert 0.9 * epsilon < log_ratio <= epsilon * (1 + 1e-6)
    calls = boundary_top_k_calls(
        TopKNoise(selection_scale=3.0, test_std=0.4, failure_prob=1e-3),
        adjacency=adjacency,
        num_labels=2,
    )
    unstable_prob = prob_of_unstable_set(wrap_in_boundary(calls.first_laws), calls.gaps_of_pairs)
    assert 0.9 * calls.aggregator.failure_prob < unstable_prob <= calls.aggregator.failure_prob


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("noise_scale", [1.0, 4.0])
def test_a_single_label_call_keeps_its_epsilon_and_its_target(
    adjacency: Adjacency, noise_scale: float
) -> None:
    """The log ratios of a call of boundary max stay within its epsilon, on all neighbors of five teachers.

    On every eleventh pair, hits have at least the hit probability q of the target. If 60 teachers all vote for one
    label, a log ratio exceeds 90% of the epsilon.
    """
    aggregator = BoundaryMax(selection_scale=noise_scale, adjacency=adjacency)
    epsilon = aggregator.call_epsilon
    first_counts, second_counts = neighbors(num_labels=3, num_teachers=5, adjacency=adjacency)
    first_laws, second_laws = (
        softmax(counts / noise_scale, axis=1) for counts in (first_counts, second_counts)
    )
    assert 0.6 * epsilon < largest_log_ratio(first_laws, second_laws) <= epsilon
    require_boundary_target(first_laws, second_laws, call_epsilon=epsilon, pair_step=11)
    np.testing.assert_allclose(
        aggregator.distribution(first_counts[17]), wrap_in_boundary(first_laws)[17], rtol=1e-12
    )
    unanimous_counts = [0, 60, 0]
    moved_counts = [1, 59, 0] if adjacency is Adjacency.REPLACE_ONE else [1, 60, 0]
    unanimous_law, moved_law = (
        softmax(np.array(counts) / noise_scale) for counts in (unanimous_counts, moved_counts)
    )
    log_ratio = largest_log_ratio(first_laws=unanimous_law, second_laws=moved_law)
    assert 0.9 * epsilon < log_ratio <= epsilon * (1 + 1e-12)


def make_prior_check(
    adjacency: Adjacency,
    noise_scale: float,
    *,
    margin: float = -1.0,
    target_hits: int = 1,
    session_delta: float = 0.05,
    failure_prob: float = 1e-4,
    selection_scale: float = 3.0,
) -> NotPriorTopK:
    """Returns an aggregator that checks each query against the prior, a set of labels that is expected.

    Args:
        adjacency: the adjacency.
        noise_scale: the scale of the noise of a check.
        margin: the margin of the prior that a check requires: the smallest count in the set minus the largest outside.
        target_hits: the number of failed checks, which are the hits, after which a session ends.
        session_delta: the delta for which the price of a session is chosen.
        failure_prob: the failure probability of the release after a hit.
        selection_scale: the scale of the noise of the selection in this release.
    """
    return NotPriorTopK(
        prior_scale=noise_scale,
        prior_margin=margin,
        adjacency=adjacency,
        first_queries=0,
        target_hits=target_hits,
        session_delta=session_delta,
        failure_prob=failure_prob,
        selection_scale=selection_scale,
        table_order=3.0,
        table_budget=0.3,
    )


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_margin_of_every_set_moves_as_far_as_a_gap(adjacency: Adjacency) -> None:
    """One teacher moves the margin of a set of labels by at most the gap sensitivity, which some teacher reaches.

    The margin is the smallest count in the set minus the largest one outside.
    """
    first_counts, second_counts = neighbors(num_labels=3, num_teachers=4, adjacency=adjacency)
    largest_move = 0
    for bits_of_set in product([False, True], repeat=3):
        label_sets = np.broadcast_to(np.array(bits_of_set), first_counts.shape)
        margin_moves = margins(first_counts, label_sets) - margins(second_counts, label_sets)
        largest_move = max(largest_move, int(np.abs(margin_moves).max()))
    assert largest_move == adjacency.gap_sensitivity


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("noise_scale", [0.7, 5.0])
def test_a_check_against_the_prior_keeps_its_target_probability(
    adjacency: Adjacency, noise_scale: float
) -> None:
    """A check of the prior, a hit if the prior's margin fails under noise, keeps its epsilon and its hit probability q.

    Log ratios on neighbors stay within the epsilon. Negative control: 1.05 q is refuted.
    """
    sensitivity = adjacency.gap_sensitivity
    aggregator = make_prior_check(adjacency, noise_scale)
    keep_probs_by_margin = aggregator.check_probabilities(num_teachers=40)
    epsilon = bit_epsilon(keep_probs_by_margin, sensitivity=sensitivity)
    assert sensitivity / noise_scale <= epsilon <= sensitivity / noise_scale * (1 + 1e-3)
    event = aggregator.event_for(num_queries=40, num_labels=3, num_teachers=40)
    assert [
        leaf.epsilon
        for leaf, _ in leaves(priced_by_accesses(event))
        if isinstance(leaf, PureDpEvent)
    ] == [epsilon]
    target = not_prior(epsilon)
    hit_probs = []
    for move in range(1, sensitivity + 1):
        for first_keep_prob, second_keep_prob in zip(
            keep_probs_by_margin[move:], keep_probs_by_margin[:-move], strict=True
        ):
            first_law = np.array([first_keep_prob, 1 - first_keep_prob])
            second_law = np.array([second_keep_prob, 1 - second_keep_prob])
            assert largest_log_ratio(first_law, second_law) <= epsilon * (1 + 1e-12)
            hit_prob = exact_hit_prob(
                first_law=first_law.tolist(),
                second_law=second_law.tolist(),
                in_target=[False, True],
                epsilon=epsilon,
            )
            hit_probs.append(hit_prob)
    assert target.hit_prob <= min(hit_probs) * (1 + 1e-6)
    assert 1.05 * target.hit_prob > min(hit_probs)


def session_distribution(
    keep_prob: float, release_distribution: dict[tuple[int, ...] | None, float], num_queries: int
) -> dict[object, float]:
    """Returns the exact distribution of a session that ends with one hit.

    An outcome has the number of calls that were not hits, and the release of the hit.

    Args:
        keep_prob: the probability that a call is no hit.
        release_distribution: the distribution of the release that follows a hit.
        num_queries: the largest number of calls.
    """
    distribution: dict[object, float] = {"kept to the end": keep_prob**num_queries}
    for num_kept in range(num_queries):
        for outcome, probability in release_distribution.items():
            distribution[num_kept, outcome] = keep_prob**num_kept * (1 - keep_prob) * probability
    return distribution


def session_delta(
    first_session_law: dict[object, float], second_session_law: dict[object, float], epsilon: float
) -> float:
    """Returns the hockey-stick divergence at epsilon of two distributions of a session."""
    return sum(
        max(0.0, mass - math.exp(epsilon) * second_session_law.get(outcome, 0.0))
        for outcome, mass in first_session_law.items()
    )


@pytest.mark.parametrize("prices_accesses", [False, True], ids=["by hits", "by accesses"])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_whole_session_with_its_release_is_covered(
    adjacency: Adjacency, prices_accesses: bool
) -> None:
    """A session of 40 equal queries, which ends with the first hit and a release, has at most the claimed delta.

    The exact delta of every 53rd pair of neighbors is a sum over all transcripts. The price is computed by hits, or by
    the number of accesses to the private data, which is below the number of queries.
    """
    aggregator = make_prior_check(adjacency, noise_scale=6.0)
    num_queries = 40
    event = aggregator.event_for(num_queries=num_queries, num_labels=3, num_teachers=6)
    assert any(isinstance(leaf, SessionEvent) for leaf, _ in leaves(event))
    if prices_accesses:
        event = priced_by_accesses(event)
        num_accesses = next(count for leaf, count in leaves(event) if isinstance(leaf, PureDpEvent))
        assert num_accesses < num_queries
    assert 0 < failure_probability(event) < 0.05
    claimed = {
        epsilon: RdpAccountant().compose(event).get_delta(target_epsilon=epsilon)
        for epsilon in (0.5, 1.0, 2.0)
    }
    keep_probs_by_margin = aggregator.check_probabilities(num_teachers=6)  # by margin, from -6 to 6
    prior_set = np.array([[True, False, False]])

    def session_law(counts: IntArray) -> dict[object, float]:
        margin = margins(counts[None], label_set_of_query=prior_set)[0]
        return session_distribution(
            keep_prob=float(keep_probs_by_margin[margin + 6]),
            release_distribution=aggregator.release_step.distribution(counts, num_teachers=6),
            num_queries=num_queries,
        )

    some_first, some_second = (
        histograms[::53]
        for histograms in neighbors(num_labels=3, num_teachers=6, adjacency=adjacency)
    )
    deltas = []
    for first_counts, second_counts in zip(some_first, some_second, strict=True):
        first_session_law = session_law(first_counts)
        second_session_law = session_law(second_counts)
        for epsilon, claimed_delta in claimed.items():
            deltas.append(session_delta(first_session_law, second_session_law, epsilon))
            assert deltas[-1] <= claimed_delta
    assert max(deltas) > 0


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_paying_for_one_access_a_hit_is_refuted(adjacency: Adjacency) -> None:
    """Negative control: a session of one hit has a delta above 0.02 at the epsilon of a single check.

    A single check has delta 0 at this epsilon.
    """
    aggregator = make_prior_check(adjacency, noise_scale=6.0, margin=-4.0)
    keep_probs_by_margin = aggregator.check_probabilities(num_teachers=6)  # by margin, from -6 to 6
    sensitivity = adjacency.gap_sensitivity
    epsilon = bit_epsilon(keep_probs_by_margin, sensitivity=sensitivity)
    likely_kept_law, rarely_kept_law = (
        session_distribution(
            keep_prob=float(keep_probs_by_margin[margin + 6]),
            release_distribution={None: 1.0},
            num_queries=100,
        )
        for margin in (0, -sensitivity)
    )
    # one check alone has a delta of 0
    assert session_delta(likely_kept_law, rarely_kept_law, epsilon) > 0.02


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_session_of_boundary_calls_is_covered(adjacency: Adjacency) -> None:
    """A session of 30 equal queries, which ends with the first boundary outcome, has at most the claimed delta.

    The exact delta is a sum over how often each outcome occurred. Negative control: a single call is epsilon-DP for an
    epsilon below 0.2, and at epsilon 0.2 the delta of a session exceeds 1e-4.
    """
    num_queries = 30
    aggregator = BoundaryMax(
        selection_scale=20.0, adjacency=adjacency, target_hits=1, session_delta=0.05
    )
    event = session_event(
        tight_boundary,
        aggregator.call_epsilon,
        target_hits=1,
        num_calls=num_queries,
        session_delta=0.05,
    )
    assert failure_probability(event) > 0
    claimed = {
        epsilon: RdpAccountant().compose(event).get_delta(target_epsilon=epsilon)
        for epsilon in (0.2, 0.5, 1.0)
    }
    assert tight_boundary(aggregator.call_epsilon).epsilon < 0.2
    deltas = []
    move = np.array([1, 0] if adjacency == Adjacency.ADD_REMOVE else [1, -1])
    for first_count in (0, 20, 60, 120):
        counts = np.array([first_count, 1])
        law = aggregator.distribution(counts)
        moved_law = aggregator.distribution(counts + move)
        for first_law, second_law in ((law, moved_law), (moved_law, law)):
            for epsilon, claimed_delta in claimed.items():
                exact = boundary_session_delta(
                    first_law, second_law, num_queries=num_queries, epsilon=epsilon
                )
                assert exact <= claimed_delta
                if epsilon == 0.2:
                    deltas.append(exact)
    assert max(deltas) > 1e-4


def boundary_session_delta(
    first_law: FloatArray, second_law: FloatArray, *, num_queries: int, epsilon: float
) -> float:
    """Returns the hockey-stick divergence of a session on two labels, which ends with the boundary.

    Args:
        first_law: the probabilities of the first label, the second label and the boundary in one call, `[3]`.
        second_law: these probabilities on the neighbor, `[3]`.
        num_queries: the largest number of calls.
        epsilon: the epsilon of the divergence.
    """

    def transcript_prob(law: FloatArray, num_first: int, num_second: int) -> float:
        """Returns the probability of a transcript with these numbers of labels, in one order."""
        ends_at_boundary = num_first + num_second < num_queries
        labels_prob = law[0] ** num_first * law[1] ** num_second
        return float(labels_prob * law[2]) if ends_at_boundary else float(labels_prob)

    delta = 0.0
    for num_labels in range(num_queries + 1):
        for num_first in range(num_labels + 1):
            num_second = num_labels - num_first
            first_prob = transcript_prob(first_law, num_first=num_first, num_second=num_second)
            second_prob = transcript_prob(second_law, num_first=num_first, num_second=num_second)
            excess = max(0.0, first_prob - math.exp(epsilon) * second_prob)
            delta += math.comb(num_labels, num_first) * excess
    return delta
