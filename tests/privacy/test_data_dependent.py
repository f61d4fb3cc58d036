"""Data-dependent costs against the exact laws of every neighbour of every small histogram.

Tightness measured at 4 labels, 6 teachers and on random laws: gap selection 1.000 given the largest probability, one
bit 1.000.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logit, softmax

from pate.accounting import Adjacency, BoundedRangeEvent
from pate.accounting.data_dependent import gap_selection_rdp, one_bit_cost, top_log_odds
from pate.mechanisms import StabilityTest
from tests.privacy.divergences import ORDERS, assert_covered
from tests.privacy.histograms import gap_pairs

Array = NDArray[np.float64]


def renyi_of_each(first: Array, second: Array) -> Array:
    """D_a(first || second) of each pair of laws `[N, n]`, at every order: `[N, A]`."""
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(first)[:, :, None], np.log(second)[:, :, None]
    moments = np.logaddexp.reduce(ORDERS * log_p - (ORDERS - 1) * log_q, axis=1)
    return np.asarray(np.maximum(moments, 0.0) / (ORDERS - 1))


def selection_costs(adjacency: Adjacency, *, scale: float, padded: bool) -> tuple[Array, Array, Array, Array]:
    """Exact divergences of each pair, and the cost of its first member: forward and backward `[N, A]` each."""
    pairs = gap_pairs(4, 6, adjacency, padded=padded)
    utilities = [gaps / scale for gaps in (pairs.first, pairs.second)]
    first, second = (softmax(side, axis=1) for side in utilities)
    event = BoundedRangeEvent(adjacency.gap_range / scale)
    forward, backward = gap_selection_rdp(top_log_odds(utilities[0]), event=event, orders=ORDERS)
    return renyi_of_each(first, second), forward, renyi_of_each(second, first), backward


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("scale", [0.5, 2.0])
@pytest.mark.parametrize("adjacency", tuple(Adjacency))
def test_gap_selection_covers_every_neighbour(adjacency: Adjacency, scale: float, padded: bool) -> None:
    exact_forward, forward, exact_backward, backward = selection_costs(adjacency, scale=scale, padded=padded)
    assert_covered(exact_forward, forward)
    assert_covered(exact_backward, backward)


def test_gap_selection_charged_ten_percent_less_is_found_out() -> None:
    exact, forward, exact_back, backward = selection_costs(Adjacency.ADD_REMOVE, scale=2.0, padded=False)
    with pytest.raises(AssertionError, match="of its price"):
        assert_covered(exact, 0.9 * forward)
    with pytest.raises(AssertionError, match="of its price"):
        assert_covered(exact_back, 0.9 * backward)


def test_gap_selection_in_one_direction_does_not_cover_the_other() -> None:
    """At p = 0.9, range 0.5, order 4 the golden values are 0.059 and 0.081."""
    forward, backward = gap_selection_rdp(logit(np.array([0.9])), event=BoundedRangeEvent(0.5), orders=[4.0])
    assert backward[0, 0] > 1.3 * forward[0, 0]


def test_gap_selection_is_attained_by_a_law_with_the_same_largest_probability() -> None:
    p, epsilon = 0.9, 0.5
    first = np.array([[p, 1 - p]])
    second = [first * np.exp([0.0, sign * epsilon]) for sign in (-1, 1)]
    second = [law / law.sum() for law in second]
    forward, backward = gap_selection_rdp(logit(np.array([p])), event=BoundedRangeEvent(epsilon), orders=ORDERS)
    some = (ORDERS >= 4) & (ORDERS <= 16)  # elsewhere a part of the 0.1 does worse
    there, back = ([renyi_of_each(*pair)[0, some] for pair in pairs] for pairs in both_ways(first, second))
    np.testing.assert_allclose(np.max(there, axis=0), forward[0, some])
    np.testing.assert_allclose(np.max(back, axis=0), backward[0, some])


def both_ways(first: Array, second: list[Array]) -> tuple[list[tuple[Array, Array]], list[tuple[Array, Array]]]:
    return [(first, law) for law in second], [(law, first) for law in second]


def test_the_likeliest_candidates_log_odds_move_by_at_most_the_range() -> None:
    for adjacency in Adjacency:
        pairs = gap_pairs(4, 6, adjacency, padded=True)
        moves = np.abs(top_log_odds(pairs.first / 2.0) - top_log_odds(pairs.second / 2.0))
        assert moves.max() <= adjacency.gap_range / 2.0 + 1e-12
        assert moves.max() > 0.5 * adjacency.gap_range / 2.0


@pytest.mark.parametrize("adjacency", tuple(Adjacency))
def test_one_bit_covers_every_gap_within_reach_and_is_attained(adjacency: Adjacency) -> None:
    test = StabilityTest.gaussian(test_std=2.0, failure_prob=0.01, num_teachers=12, adjacency=adjacency)
    bit = test.event.event  # type: ignore[attr-defined]
    for gap in range(13):
        near = np.arange(max(0, gap - bit.reach), min(12, gap + bit.reach) + 1)
        p, q = (np.array(test.pass_probs)[gaps][:, None] for gaps in (np.full_like(near, gap), near))
        first, second = np.hstack([p, 1 - p]), np.hstack([q, 1 - q])
        exact = np.maximum(renyi_of_each(first, second), renyi_of_each(second, first)).max(axis=0)
        cost = one_bit_cost(np.array([gap]), event=bit, orders=ORDERS).rdp
        assert_covered(exact, cost)
        if cost.max() > 0:
            with pytest.raises(AssertionError, match="of its price"):
                assert_covered(exact, 0.9 * cost)
