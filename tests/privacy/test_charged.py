"""Target-charged aggregators on all small neighboring histograms: calls, targets, failures, sessions."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.special import softmax

from pate.accounting import Adjacency, PureDpEvent, RdpAccountant, SessionEvent
from pate.accounting.event_tree import by_accesses, failure_probability, leaves
from pate.accounting.target_charging import exact_hit_prob, not_prior, tight_boundary
from pate.aggregators import BoundaryMax, BoundaryTopK, NotPriorTopK
from pate.aggregators.not_prior import margins
from pate.aggregators.session_event import bit_epsilon, session_event
from pate.array_types import FloatArray
from tests.privacy.histograms import GapPairs, gap_pairs, gaps_of, neighbors

ADJACENCIES = tuple(Adjacency)
# selection_scale, test_std, failure_prob
SETTINGS = [(3.0, 1.0, 0.05), (0.8, 2.0, 0.2), (6.0, 0.4, 1e-3)]


def boundary_top_k(
    setting: tuple[float, float, float],
    adjacency: Adjacency,
    *,
    padded: bool = False,
    num_labels: int = 3,
) -> tuple[BoundaryTopK, GapPairs, tuple[FloatArray, FloatArray]]:
    """Returns an aggregator, all pairs of neighboring histograms of six teachers, and the distributions of a
    call on both: each size k and a refusal, `[N, n + 1]`. The distributions are computed here from the gaps.
    """
    scale, std, failure_prob = setting
    aggregator = BoundaryTopK(
        selection_scale=scale,
        test_std=std,
        failure_prob=failure_prob,
        padded=padded,
        adjacency=adjacency,
    )
    pairs = gap_pairs(num_labels, num_teachers=6, adjacency=adjacency, padded=padded)
    laws = []
    for gaps in (pairs.first, pairs.second):
        chosen = softmax(gaps / scale, axis=1)
        x = (
            np.maximum(gaps - (2 if adjacency == Adjacency.REPLACE_ONE else 1), 0)
            * math.sqrt(2)
            / std
        )
        x += math.log(2 * failure_prob)
        passed = np.where(x < 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2)
        passed = np.minimum(passed, 1 - 2.0**-40)
        passed[:, [0, -1] if padded else []] = 1.0  # which name no label, or all
        laws.append(
            np.concatenate(
                [chosen * passed, (chosen * (1 - passed)).sum(axis=1, keepdims=True)], axis=1
            )
        )
    return aggregator, pairs, (laws[0], laws[1])


def inside_wrapper(distribution: FloatArray) -> FloatArray:
    """Returns the distributions `[N, n + 1]` of calls inside the boundary wrapper, given those of
    the calls, `[N, n]`.

    The boundary is the last outcome.
    """
    rest = np.minimum(distribution.sum(axis=1) - distribution.max(axis=1), 0.5)[:, None]
    return np.concatenate([distribution, rest], axis=1) / (1 + rest)


def prob_of_unstable_set(first_laws: FloatArray, pairs: GapPairs) -> float:
    """Returns the largest probability, over all pairs, that a set is released that the neighbor would not release."""
    return float(np.where(pairs.same_set, 0.0, first_laws[:, :-2]).sum(axis=1).max())


def largest_ratio(first_laws: FloatArray, second_laws: FloatArray) -> float:
    """Returns the largest absolute logarithm of a ratio of probabilities."""
    return float(np.abs(np.log(first_laws / second_laws)).max())


def wrapped_within_target(
    first_laws: FloatArray, second_laws: FloatArray, epsilon: float, *, checks_one_pair_of: int
) -> FloatArray:
    """Checks calls inside the boundary wrapper against the target of the wrapper, and returns their distributions.

    For all pairs, the log ratios are at most the target's epsilon. For one pair of `checks_one_pair_of`, the exact hit
    probability is at least the target's.
    """
    target = tight_boundary(epsilon)
    wrapped = inside_wrapper(first_laws)
    wrapped_neighbors = inside_wrapper(second_laws)
    assert largest_ratio(first_laws=wrapped, second_laws=wrapped_neighbors) <= target.epsilon
    at_boundary = np.arange(wrapped.shape[1]) == wrapped.shape[1] - 1
    for first_law, second_law in {
        (tuple(a), tuple(b))
        for a, b in zip(
            wrapped[::checks_one_pair_of], wrapped_neighbors[::checks_one_pair_of], strict=True
        )
    }:
        assert (
            exact_hit_prob(
                first_law=first_law,
                second_law=second_law,
                in_target=at_boundary,
                epsilon=target.epsilon,
            )
            >= target.hit_prob
        )
    return wrapped


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_boundary_call_keeps_its_epsilon_its_target_and_its_failure(
    adjacency: Adjacency, setting: tuple[float, float, float], padded: bool
) -> None:
    """All neighbors of six teachers: log ratios of a call stay below its epsilon.

    Hits (boundary outcomes) keep the probability q of the target, and a set that only one neighbor
    releases has at most the failure probability. The package's distribution equals this test's own.
    """
    aggregator, pairs, (first, second) = boundary_top_k(setting, adjacency, padded=padded)
    epsilon = aggregator.call_epsilon_for(num_labels=3, num_teachers=6)
    assert largest_ratio(first_laws=first, second_laws=second) <= epsilon * (1 + 1e-6)
    wrapped = wrapped_within_target(first, second, epsilon, checks_one_pair_of=7)
    assert prob_of_unstable_set(wrapped, pairs) <= aggregator.failure_prob * (1 + 1e-12)
    counts = [5, 3, 0]
    (row,) = np.flatnonzero(
        (pairs.first == gaps_of(np.array([counts]), num_teachers=6, padded=padded)).all(axis=1)
    )[:1]
    distribution = aggregator.distribution(np.array(counts), num_teachers=6)
    released = [p for labels, p in distribution.items() if not isinstance(labels, str)]
    found = [*released, distribution["refused"], distribution["boundary"]]
    np.testing.assert_allclose(found, wrapped[row], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_call_epsilon_or_a_failure_10_percent_too_small_fails(adjacency: Adjacency) -> None:
    """Negative control: some pair of neighbors has a log ratio above 90% of the call's epsilon.

    Another releases a set that its neighbor lacks with more than 90% of the failure probability.
    """
    aggregator, _, (first_law, second_law) = boundary_top_k(
        setting=(20.0, 1.0, 0.05), adjacency=adjacency, num_labels=4
    )
    epsilon = aggregator.call_epsilon_for(num_labels=4, num_teachers=6)
    assert (
        0.9 * epsilon
        < largest_ratio(first_laws=first_law, second_laws=second_law)
        <= epsilon * (1 + 1e-6)
    )
    aggregator, pairs, (first_law, second_law) = boundary_top_k(
        setting=(3.0, 0.4, 1e-3), adjacency=adjacency, num_labels=2
    )
    assert (
        0.9 * aggregator.failure_prob
        < prob_of_unstable_set(inside_wrapper(first_law), pairs)
        <= aggregator.failure_prob
    )


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_a_single_label_call_keeps_its_epsilon_and_its_target(
    adjacency: Adjacency, scale: float
) -> None:
    """A call of boundary max on all neighbors of five teachers: log ratios stay within its epsilon,
    and hits keep the probability q.

    With 60 votes for one label, a log ratio reaches 90% of the epsilon.
    """
    aggregator = BoundaryMax(selection_scale=scale, adjacency=adjacency)
    first, second = neighbors(num_labels=3, num_teachers=5, adjacency=adjacency)
    first_law, second_law = (softmax(counts / scale, axis=1) for counts in (first, second))
    assert 0.6 * aggregator.call_epsilon < largest_ratio(
        first_laws=first_law, second_laws=second_law
    )
    assert largest_ratio(first_laws=first_law, second_laws=second_law) <= aggregator.call_epsilon
    wrapped = wrapped_within_target(
        first_law, second_law, aggregator.call_epsilon, checks_one_pair_of=11
    )
    np.testing.assert_allclose(aggregator.distribution(first[17]), wrapped[17], rtol=1e-12)
    after = [1, 59, 0] if adjacency is Adjacency.REPLACE_ONE else [1, 60, 0]
    sure_law, moved_law = (softmax(np.array(counts) / scale) for counts in ([0, 60, 0], after))
    far = largest_ratio(first_laws=sure_law, second_laws=moved_law)
    assert 0.9 * aggregator.call_epsilon < far <= aggregator.call_epsilon * (1 + 1e-12)


def prior_check(
    adjacency: Adjacency,
    noise_scale: float,
    *,
    margin: float = -1.0,
    target_hits: int = 1,
    session_delta: float = 0.05,
    failure_prob: float = 1e-4,
    selection_scale: float = 3.0,
) -> NotPriorTopK:
    """Returns an aggregator that checks every query against the prior."""
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
    """The margin of a set is its smallest count inside minus the largest outside: one teacher moves
    it by at most the gap sensitivity, and by that much.
    """
    first, second = neighbors(num_labels=3, num_teachers=4, adjacency=adjacency)
    largest = 0
    for bits_of_set in product([False, True], repeat=3):
        label_sets = np.broadcast_to(np.array(bits_of_set), first.shape)
        largest = max(
            largest, int(np.abs(margins(first, label_sets) - margins(second, label_sets)).max())
        )
    assert largest == adjacency.gap_sensitivity


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("noise_scale", [0.7, 5.0])
def test_a_check_against_the_prior_keeps_its_target_probability(
    adjacency: Adjacency, noise_scale: float
) -> None:
    """A check is one bit: does the prior set keep its margin under noise? A hit is a prior that
    does not.

    Log ratios stay within the epsilon, hits keep the probability q, and 1.05 q would be refuted.
    """
    sensitivity = adjacency.gap_sensitivity
    aggregator = prior_check(adjacency, noise_scale)
    prob_kept = aggregator.agreement(num_teachers=40)
    epsilon = bit_epsilon(prob_kept, sensitivity=sensitivity)
    assert sensitivity / noise_scale <= epsilon <= sensitivity / noise_scale * (1 + 1e-3)
    event = aggregator.event_for(num_queries=40, num_labels=3, num_teachers=40)
    assert [
        leaf.epsilon for leaf, _ in leaves(by_accesses(event)) if isinstance(leaf, PureDpEvent)
    ] == [epsilon]
    target = not_prior(epsilon)
    least_hit_prob = math.inf
    for move in range(1, sensitivity + 1):
        for one, two in zip(prob_kept[move:], prob_kept[:-move], strict=True):
            first_law = np.array([one, 1 - one])
            second_law = np.array([two, 1 - two])
            assert largest_ratio(first_laws=first_law, second_laws=second_law) <= epsilon * (
                1 + 1e-12
            )
            hit_prob = exact_hit_prob(
                first_law=first_law.tolist(),
                second_law=second_law.tolist(),
                in_target=[False, True],
                epsilon=epsilon,
            )
            least_hit_prob = min(least_hit_prob, hit_prob)
    assert target.hit_prob <= least_hit_prob * (1 + 1e-6)
    assert 1.05 * target.hit_prob > least_hit_prob


def session_distribution(
    prob_kept: float, release: dict[tuple[int, ...] | None, float], num_queries: int
) -> dict[object, float]:
    """Returns the exact distribution of a session that ends with one hit: how many calls were not hits, and the
    release of the hit.
    """
    distribution: dict[object, float] = {"kept to the end": prob_kept**num_queries}
    for before in range(num_queries):
        for outcome, probability in release.items():
            distribution[before, outcome] = prob_kept**before * (1 - prob_kept) * probability
    return distribution


def hockey_stick_of_dicts(
    first_law: dict[object, float], second_law: dict[object, float], epsilon: float
) -> float:
    """Returns the hockey-stick divergence at epsilon of two distributions, given as dictionaries."""
    return sum(
        max(0.0, mass - math.exp(epsilon) * second_law.get(outcome, 0.0))
        for outcome, mass in first_law.items()
    )


@pytest.mark.parametrize("counted", [False, True], ids=["by hits", "by accesses"])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_whole_session_with_its_release_is_covered(adjacency: Adjacency, counted: bool) -> None:
    """The session has 40 queries with the same votes and ends with one hit, whose release follows.

    Its exact delta, a sum over all transcripts, is at most the claimed delta, priced by hits or by
    accesses (`counted`).
    """
    aggregator = prior_check(adjacency, noise_scale=6.0)
    num_queries = 40
    event = aggregator.event_for(num_queries=num_queries, num_labels=3, num_teachers=6)
    assert any(isinstance(leaf, SessionEvent) for leaf, _ in leaves(event))
    if counted:
        event = by_accesses(event)
        assert (
            next(count for leaf, count in leaves(event) if isinstance(leaf, PureDpEvent))
            < num_queries
        )
    assert 0 < failure_probability(event) < 0.05
    claimed = {
        epsilon: RdpAccountant().compose(event).get_delta(target_epsilon=epsilon)
        for epsilon in (0.5, 1.0, 2.0)
    }
    prob_kept_by_margin = aggregator.agreement(num_teachers=6)
    first, second = (
        side[::53] for side in neighbors(num_labels=3, num_teachers=6, adjacency=adjacency)
    )
    largest = 0.0
    for first_counts, second_counts in zip(first, second, strict=True):
        prior_set = np.array([[True, False, False]])
        laws = []
        for counts in (first_counts, second_counts):
            release_distribution = aggregator.release_step.distribution(counts, num_teachers=6)
            prob_kept = float(
                prob_kept_by_margin[margins(counts[None], label_sets=prior_set)[0] + 6]
            )
            laws.append(session_distribution(prob_kept, release_distribution, num_queries))
        first_law, second_law = laws
        for epsilon, delta in claimed.items():
            exact = hockey_stick_of_dicts(first_law, second_law, epsilon)
            largest = max(largest, exact / delta)
            assert exact <= delta
    assert largest > 0


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_paying_for_one_access_a_hit_is_refuted(adjacency: Adjacency) -> None:
    """Negative control: a session of one hit that is priced as a single check has an exact delta
    above 0.02, where the claim is 0.
    """
    prob_kept_by_margin = prior_check(adjacency, noise_scale=6.0, margin=-4.0).agreement(
        num_teachers=6
    )
    epsilon = bit_epsilon(prob_kept_by_margin, sensitivity=adjacency.gap_sensitivity)
    sensitivity = adjacency.gap_sensitivity
    low = prob_kept_by_margin[6 - sensitivity]
    high = prob_kept_by_margin[6]
    release_distribution: dict[tuple[int, ...] | None, float] = {None: 1.0}
    high_law, low_law = (
        session_distribution(
            prob_kept=float(probability), release=release_distribution, num_queries=100
        )
        for probability in (high, low)
    )
    assert (
        hockey_stick_of_dicts(high_law, low_law, epsilon) > 0.02
    )  # where one check has a delta of 0


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_session_of_boundary_calls_is_covered(adjacency: Adjacency) -> None:
    """The session has 30 queries with the same votes and ends with one boundary outcome.

    Its exact delta, a sum over how often each outcome occurred, is at most the claimed delta.
    """
    scale = 20.0
    num_queries = 30
    aggregator = BoundaryMax(
        selection_scale=scale, adjacency=adjacency, target_hits=1, session_delta=0.05
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
    up = [1, 0] if adjacency == Adjacency.ADD_REMOVE else [1, -1]
    for high in (0, 20, 60, 120):
        pair = [
            aggregator.distribution(np.array(counts))
            for counts in ([high, 0 + 1], [high + up[0], 1 + up[1]])
        ]
        for one, two in (pair, pair[::-1]):
            for epsilon, delta in claimed.items():
                assert (
                    boundary_excess(
                        first_law=one, second_law=two, num_queries=num_queries, epsilon=epsilon
                    )
                    <= delta
                )


def boundary_excess(
    first_law: FloatArray, second_law: FloatArray, num_queries: int, epsilon: float
) -> float:
    """Returns the hockey-stick divergence of a session of two labels and the boundary, which ends the session."""
    total = 0.0
    for asked in range(num_queries + 1):
        for firsts in range(asked + 1):
            ways = math.comb(asked, firsts)
            masses = [
                distribution[0] ** firsts * distribution[1] ** (asked - firsts)
                for distribution in (first_law, second_law)
            ]
            if asked < num_queries:
                masses = [
                    mass * distribution[2]
                    for mass, distribution in zip(masses, (first_law, second_law), strict=True)
                ]
            total += ways * max(0.0, masses[0] - math.exp(epsilon) * masses[1])
    return total
