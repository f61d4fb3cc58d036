"""Data-dependent costs against the exact distributions of every neighbor of every small histogram.

Tightness measured: gap selection 1.000 given the largest probability, one bit 1.000, GNMax up to 0.97 (3 classes, 30
teachers).
"""

import numpy as np
import pytest
from scipy.special import log_ndtr, logit, softmax

from pate import testing
from pate.accounting import Adjacency, BoundedRangeEvent
from pate.aggregators import GaussianVotes
from pate.array_types import FloatArray, IntArray
from pate.auditing.data_dependent import one_bit_cost
from pate.auditing.gap_selection_divergence import gap_selection_rdp, top_log_odds
from pate.auditing.gnmax_divergence import gnmax_log_q, gnmax_rdp, theorem_6_rdp
from pate.mechanisms import StabilityTest
from pate.mechanisms.vote_ranking import VoteRanking
from pate.testing.divergences import logs, renyi
from tests.privacy.divergences import ORDERS, assert_covered, assert_refuted
from tests.privacy.histograms import all_histograms, gap_pairs, gaps_of, neighbors, top_sets


@pytest.mark.parametrize("padded", [False, True])
def test_gaps_and_top_sets_agree_with_the_ranking(padded: bool) -> None:
    """`gaps_of` and `top_sets` of these tests agree with the package's `VoteRanking` on all histograms
    of four labels and teachers.
    """
    counts = all_histograms(num_labels=4, num_teachers=4)
    ranking = VoteRanking.from_counts(counts)
    sets = top_sets(counts)
    expected = gaps_of(counts, num_teachers=4, padded=padded)
    np.testing.assert_array_equal(ranking.gaps(padded=padded, num_teachers=4), expected)
    for k in range(5):
        np.testing.assert_array_equal(
            ranking.top(np.full(len(counts), k)) @ (1 << np.arange(4)), sets[:, k]
        )


def renyi_of_each(first_laws: FloatArray, second_laws: FloatArray) -> FloatArray:
    """Returns the Renyi divergence D_a(first_laws || second_laws) of each of N pairs of distributions at each
    Renyi order, `[N, A]`.
    """
    return np.asarray(
        renyi(logs(first_laws), log_second_laws=logs(second_laws), renyi_orders=ORDERS)
    )


def selection_costs(
    adjacency: Adjacency, *, noise_scale: float, padded: bool
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Returns four arrays `[N, A]` for the pairs of neighbors, all at A Renyi orders.

    They are the exact divergence of the first from the second histogram and the cost of this direction, then the
    exact divergence of the second from the first and the cost of that direction. Both costs are data-dependent costs
    of the first histogram.
    """
    pairs = gap_pairs(num_labels=4, num_teachers=6, adjacency=adjacency, padded=padded)
    utilities = [gaps / noise_scale for gaps in (pairs.first, pairs.second)]
    first, second = (softmax(side, axis=1) for side in utilities)
    event = BoundedRangeEvent(epsilon=adjacency.gap_range / noise_scale)
    forward, backward = gap_selection_rdp(top_log_odds(utilities[0]), event=event, orders=ORDERS)
    return (
        renyi_of_each(first_laws=first, second_laws=second),
        forward,
        renyi_of_each(first_laws=second, second_laws=first),
        backward,
    )


@pytest.mark.slow
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("scale", [0.5, 2.0])
@pytest.mark.parametrize("adjacency", tuple(Adjacency))
def test_gap_selection_covers_every_neighbor(
    adjacency: Adjacency, scale: float, padded: bool
) -> None:
    """The data-dependent cost at a histogram is at least the Renyi divergence from each of its
    neighbors, in both directions.

    Negative control: for one setting, 90% of the cost is exceeded.
    """
    exact_forward, forward, exact_backward, backward = selection_costs(
        adjacency, noise_scale=scale, padded=padded
    )
    for exact, costs_at_orders in ((exact_forward, forward), (exact_backward, backward)):
        assert_covered(exact, renyi_price=costs_at_orders)
        if (adjacency, scale, padded) == (Adjacency.ADD_REMOVE, 2.0, False):
            assert_refuted(exact, renyi_price=0.9 * costs_at_orders)


def test_gap_selection_in_one_direction_does_not_cover_the_other() -> None:
    """At largest probability 0.9, range 0.5 and Renyi order 4, the cost backward (0.081) exceeds
    the cost forward (0.059) by over 30%.
    """
    forward, backward = gap_selection_rdp(
        logit(np.array([0.9])), event=BoundedRangeEvent(epsilon=0.5), orders=[4.0]
    )
    assert backward[0, 0] > 1.3 * forward[0, 0]


def test_gap_selection_is_attained_by_a_distribution_with_the_same_largest_probability() -> None:
    """Tilting the likeliest outcome of (0.9, 0.1) by the range attains the cost, at Renyi orders
    from 4 to 16.
    """
    first = np.array([[0.9, 0.1]])
    epsilon = 0.5
    tilted = [first * np.exp([0.0, sign * epsilon]) for sign in (-1, 1)]
    second = [distribution / distribution.sum() for distribution in tilted]
    costs = gap_selection_rdp(logit(first[0, :1]), event=BoundedRangeEvent(epsilon), orders=ORDERS)
    some = (ORDERS >= 4) & (ORDERS <= 16)  # elsewhere a part of the 0.1 does worse
    divergences = (
        [renyi_of_each(first_laws=first, second_laws=neighbor)[0, some] for neighbor in second],
        [renyi_of_each(first_laws=neighbor, second_laws=first)[0, some] for neighbor in second],
    )
    for cost, exact in zip(costs, divergences, strict=True):
        np.testing.assert_allclose(np.max(exact, axis=0), cost[0, some])


@pytest.mark.slow
def test_the_likeliest_candidates_log_odds_move_by_at_most_the_range() -> None:
    """The log odds of the likeliest candidate against all others move between neighbors by at most
    the range, and by over half of it for some pair.
    """
    for adjacency in Adjacency:
        pairs = gap_pairs(num_labels=4, num_teachers=6, adjacency=adjacency, padded=True)
        moves = np.abs(top_log_odds(pairs.first / 2.0) - top_log_odds(pairs.second / 2.0))
        assert moves.max() <= adjacency.gap_range / 2.0 + 1e-12
        assert moves.max() > 0.5 * adjacency.gap_range / 2.0


@pytest.mark.parametrize("adjacency", tuple(Adjacency))
def test_one_bit_covers_every_gap_within_reach_and_is_attained(adjacency: Adjacency) -> None:
    """The cost of a test's bit at each gap is at least the divergences from all gaps within reach.

    Negative control: 90% of the cost is exceeded.
    """
    test = StabilityTest.gaussian(
        test_std=2.0, failure_prob=0.01, num_teachers=12, adjacency=adjacency
    )
    bit = test.event.event
    for gap in range(13):
        near = np.arange(max(0, gap - bit.reach), min(12, gap + bit.reach) + 1)
        p, q = (
            np.array(test.pass_probs)[gaps][:, None] for gaps in (np.full_like(near, gap), near)
        )
        first = np.hstack([p, 1 - p])
        second = np.hstack([q, 1 - q])
        exact = np.maximum(
            renyi_of_each(first_laws=first, second_laws=second),
            renyi_of_each(first_laws=second, second_laws=first),
        ).max(axis=0)
        costs_at_orders = one_bit_cost(np.array([gap]), event=bit, orders=ORDERS).rdp
        assert_covered(exact, renyi_price=costs_at_orders)
        if costs_at_orders.max() > 0:
            assert_refuted(exact, renyi_price=0.9 * costs_at_orders)


def votes_distributions(votes: IntArray, *, num_teachers: int, noise_std: float) -> FloatArray:
    """Returns the distribution over all bit vectors of the labels, `[N, 2**L]`.

    A bit tells whether a noisy count reaches half of the teachers.
    """
    num_labels = votes.shape[1]
    z = (votes - num_teachers / 2) / noise_std
    bits = (np.arange(2**num_labels)[:, None] >> np.arange(num_labels)) & 1  # [2**L, L]
    return np.exp(np.where(bits, log_ndtr(z)[:, None], log_ndtr(-z)[:, None]).sum(axis=2))


def votes_costs(
    num_teachers: int, num_labels: int, noise_std: float, adjacency: Adjacency
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns three arrays `[N, A]` for all pairs of neighbors, in which one teacher may change all its votes.

    They are the Renyi divergence of the first from the second histogram, that of the second from the first, and the
    data-dependent cost of the first histogram.
    """
    first, second = neighbors(num_labels, num_teachers, adjacency)
    first_laws, second_laws = (
        votes_distributions(votes=side, num_teachers=num_teachers, noise_std=noise_std)
        for side in (first, second)
    )
    event = GaussianVotes(noise_std=noise_std).event_for(
        num_queries=1, num_labels=1, num_teachers=num_teachers
    )
    bit = event.event
    rows, which = np.unique(first, axis=0, return_inverse=True)
    costs = np.array([one_bit_cost(row[None], event=bit, orders=ORDERS).rdp for row in rows])
    forward = renyi_of_each(first_laws, second_laws)
    backward = renyi_of_each(first_laws=second_laws, second_laws=first_laws)
    return forward, backward, costs[which.ravel()]


@pytest.mark.parametrize("std", [0.8, 3.0])
@pytest.mark.parametrize(("num_teachers", "num_labels"), [(5, 1), (4, 2), (3, 3)])
@pytest.mark.parametrize("adjacency", tuple(Adjacency))
def test_bits_of_all_labels_cover_a_teacher_who_changes_all_of_them(
    adjacency: Adjacency, num_teachers: int, num_labels: int, std: float
) -> None:
    """One teacher changes its votes for all labels: the cost, summed over labels, is at least the
    exact divergence, in both directions.

    Negative control: 90% of the cost, or half of it, is exceeded for one setting.
    """
    forward, backward, costs_at_orders = votes_costs(num_teachers, num_labels, std, adjacency)
    assert_covered(forward, renyi_price=costs_at_orders)
    assert_covered(backward, renyi_price=costs_at_orders)
    if (num_labels, std, adjacency) == (3, 3.0, Adjacency.REPLACE_ONE):
        assert_refuted(np.maximum(forward, backward), renyi_price=0.9 * costs_at_orders)
        with pytest.raises(AssertionError, match=r"the exact figure is [12]\.\d+ of its price"):
            # that of the dearest label alone
            assert_covered(np.maximum(forward, backward), renyi_price=costs_at_orders / 2)


def test_two_queries_at_once_cost_the_larger_sum() -> None:
    """One teacher changes its vote on two queries: the cost of both is at least the exact
    divergence, in both directions, and nearly attained.

    It is the larger of both directions' sums.
    """
    std = 1.0
    teachers = 3
    first, second = neighbors(num_labels=1, num_teachers=teachers, adjacency=Adjacency.REPLACE_ONE)
    distributions = [
        votes_distributions(votes=side, num_teachers=teachers, noise_std=std)
        for side in (first, second)
    ]
    event = GaussianVotes(noise_std=std).event_for(
        num_queries=1, num_labels=1, num_teachers=teachers
    )
    one, two = np.meshgrid(np.arange(len(first)), np.arange(len(first)))
    first_laws, second_laws = (
        (distribution[one.ravel(), :, None] * distribution[two.ravel(), None, :]).reshape(
            one.size, -1
        )
        for distribution in distributions
    )
    forward = renyi_of_each(first_laws, second_laws)
    backward = renyi_of_each(first_laws=second_laws, second_laws=first_laws)
    statistics = np.stack([first[one.ravel(), 0], first[two.ravel(), 0]], axis=1)
    bit = event.event
    costs_at_orders = np.array(
        [one_bit_cost(row, event=bit, orders=ORDERS).rdp for row in statistics]
    )
    assert_covered(forward, renyi_price=costs_at_orders)
    assert_covered(backward, renyi_price=costs_at_orders)
    ratio = np.maximum(forward, backward) / costs_at_orders
    assert ratio.max() > 0.999


def log_gnmax_distributions(votes: IntArray, noise_std: float) -> FloatArray:
    """Returns the log-probability of each label to have the largest noisy count, `[N, L]`, by a trapezoid sum
    over the largest value.
    """
    distributions = []
    for row in votes / noise_std:
        x = np.arange(row.min() - 14, row.max() + 14, 0.02)
        below = log_ndtr(x - row[:, None])
        moved = x - row[:, None]
        log_terms = below.sum(axis=0) - below - 0.5 * moved**2 + np.log(0.02 / np.sqrt(2 * np.pi))
        distributions.append(np.logaddexp.reduce(log_terms, axis=1))
    return np.array(distributions)


def gnmax_divergences(
    num_teachers: int, num_classes: int, noise_std: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns both exact Renyi divergences of every kind of pair, `[N, A]` each, and log q of the first histogram,
    `[N]`.

    The logarithms of the moments are lowered by 1e-12, for rounding errors. q is `gnmax_log_q`'s probability of
    another label than the likeliest.
    """
    pairs = testing.neighbors(
        num_classes, num_teachers, adjacency=Adjacency.REPLACE_ONE, one_vote=True
    ).up_to_names
    used, rows = np.unique(np.concatenate([pairs.first, pairs.second]), return_inverse=True)
    log_p, log_q = np.split(
        log_gnmax_distributions(pairs.histograms[used], noise_std=noise_std)[rows][:, :, None], 2
    )
    moments = [
        np.logaddexp.reduce(ORDERS * one - (ORDERS - 1) * two, axis=1)
        for one, two in ((log_p, log_q), (log_q, log_p))
    ]
    forward, backward = (np.maximum(moment - 1e-12, 0.0) / (ORDERS - 1) for moment in moments)
    return forward, backward, gnmax_log_q(pairs.histograms[pairs.first], noise_std=noise_std)


@pytest.mark.parametrize("std", [1.5, 3.0, 8.0])
@pytest.mark.parametrize(("num_teachers", "num_classes"), [(16, 2), (30, 3), (14, 4)])
def test_gnmax_covers_every_neighbor_both_ways_and_theorem_6_one_way(
    num_teachers: int, num_classes: int, std: float
) -> None:
    """The package's cost of GNMax is at least the exact divergence between the votes and every
    neighbor, in both directions.

    Theorem 6 of the paper bounds only the direction from the votes to the neighbor: the other
    direction exceeds it by more than 100 times.
    """
    forward, backward, log_q = gnmax_divergences(num_teachers, num_classes, std)
    costs_at_orders = gnmax_rdp(log_q, noise_std=std, orders=ORDERS)
    for exact in (forward, backward):
        assert_covered(exact, renyi_price=costs_at_orders)
        if (num_classes, std) == (3, 1.5):
            assert_refuted(exact, renyi_price=0.9 * costs_at_orders)
    if std == 1.5:
        assert_covered(forward, renyi_price=theorem_6_rdp(log_q, noise_std=std, orders=ORDERS))
        # 30 votes against 0 and 0, and a neighbor with 29, 1, 0: hundreds of times the bound
        if num_classes == 3:
            with pytest.raises(
                AssertionError, match=r"the exact figure is \d{3,}\.\d+ of its price"
            ):
                assert_covered(
                    backward, renyi_price=theorem_6_rdp(log_q, noise_std=std, orders=ORDERS)
                )
