"""Clipped sums by hand, on any cut into blocks, and what is refused."""

from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency
from pate.validation import InvalidValue
from pate.votes.clipping import ClippedSum, LowRankVotes

SPAN = np.array([[0.6, 0.0], [0.8, 0.0], [0.0, 1.0]])


def total(clipped: ClippedSum, votes: Any, num_teachers: int, center: Any = 0.0) -> Any:
    return clipped.total(votes, center=center, num_teachers=num_teachers) * clipped.step


def test_votes_within_the_clip_are_added_and_longer_ones_scaled() -> None:
    clipped = ClippedSum(5.0, (1, 2))
    np.testing.assert_allclose(total(clipped, np.array([[[3.0, 4.0]]]), 1), [[3, 4]], atol=1e-3)
    np.testing.assert_allclose(total(clipped, np.array([[[6.0, 8.0]]]), 1), [[3, 4]], atol=1e-3)
    np.testing.assert_allclose(total(clipped, np.array([[[1.0, 0.0]], [[0.0, 2.0]]]), 2), [[1, 2]], atol=1e-3)


def test_the_center_is_taken_off_first() -> None:
    clipped = ClippedSum(1.0, (2, 2))
    votes = np.array([[[True, False], [True, True]]])
    np.testing.assert_allclose(total(clipped, votes, 1, 0.5), np.array([[1, -1], [1, 1]]) / 2, atol=1e-3)
    np.testing.assert_allclose(total(clipped, votes, 1, [1.0, 0.0]), [[0, 0], [0, 1]], atol=1e-3)


def test_one_clip_for_all_queries_together() -> None:
    clipped = ClippedSum(1.0, (4, 1))
    np.testing.assert_allclose(total(clipped, np.ones((1, 4, 1)), 1), np.full((4, 1), 0.5), atol=1e-3)


def test_blocks_and_order_make_no_difference() -> None:
    rng = np.random.default_rng(0)
    votes = rng.random((50, 3, 4)).astype(np.float32)
    clipped = ClippedSum(0.4, (3, 4))
    expected = clipped.total(votes, center=0.2, num_teachers=50)
    assert expected.dtype == np.int64
    for cut in ([votes[:1], votes[1:33], votes[33:]], [votes[::-1]], [one[None] for one in votes]):
        np.testing.assert_array_equal(clipped.total(iter(cut), center=0.2, num_teachers=50), expected)


def test_factored_votes_are_the_votes_they_stand_for() -> None:
    weights = np.random.default_rng(1).normal(size=(20, 2, 3))
    block, clipped = LowRankVotes(SPAN, weights), ClippedSum(1.5, (3, 3))
    assert len(block) == 20
    dense = total(clipped, block.votes(), 20)
    np.testing.assert_allclose(total(clipped, block, 20), dense, atol=1e-2)
    cut = iter([LowRankVotes(SPAN, weights[:7]), LowRankVotes(SPAN.copy(), weights[7:])])
    np.testing.assert_array_equal(total(clipped, cut, 20), total(clipped, block, 20))


def test_the_grid_costs_little() -> None:
    for shape in ((1, 1), (600, 40), (10_000, 40)):
        for clip in (1e-6, 0.9, 1e6):
            clipped = ClippedSum(clip, shape)
            exact = 2 * clip / clipped.step
            assert exact < clipped.l2_sensitivity < 1.0002 * exact
            assert np.log2(clipped.step) % 1 == 0
            fewer = ClippedSum(clip, shape, Adjacency.ADD_REMOVE)
            assert 0.5 * clipped.l2_sensitivity < fewer.l2_sensitivity < 1.0002 * exact / 2


def test_no_teacher_may_be_missing_unless_teachers_come_and_go() -> None:
    votes = np.zeros((3, 2, 2))
    with pytest.raises(InvalidValue, match="num_teachers=4: expected 3, the teachers in votes"):
        ClippedSum(1.0, (2, 2)).total(votes, center=0.0, num_teachers=4)
    assert not ClippedSum(1.0, (2, 2), Adjacency.ADD_REMOVE).total(votes, center=0.0, num_teachers=4).any()
    with pytest.raises(InvalidValue, match="num_teachers=2: expected 3, the teachers in votes"):
        ClippedSum(1.0, (2, 2), Adjacency.ADD_REMOVE).total(votes, center=0.0, num_teachers=2)


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        (np.full((1, 2, 2), np.nan), r"votes=NaN or infinity: expected finite numbers"),
        (np.full((1, 2, 2), -np.inf), r"votes=NaN or infinity: expected finite numbers"),
        (np.full((1, 2, 2), 1e200), r"votes=NaN or infinity: expected finite numbers below 1e150"),
        (np.zeros((1, 2, 3)), r"votes\.shape=\(1, 2, 3\): expected \[c, 2, 2\]"),
        (np.zeros((2, 2)), r"votes\.shape=\(2, 2\): expected \[num_teachers, 2, 2\]"),
        (np.zeros((1, 2, 2), dtype=int), r"votes\.dtype=int64: expected bool votes or floats"),
        (np.zeros((1, 2, 2), dtype=complex), r"votes\.dtype=complex128: expected bool votes or floats"),
        (np.zeros((0, 2, 2)), r"votes\.shape=\(0, 2, 2\): expected at least one teacher"),
        (3, r"votes=int: expected an array \[N, Q, L\] or blocks of one"),
        ([[[0.0, 1.0], [0.0]]], r"votes: expected rows of equal length"),
        (LowRankVotes(SPAN, np.zeros((1, 2, 2))), r"votes\.shape=\(3, 2\): expected \(2, 2\), queries and labels"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_impossible_votes_are_refused(votes: Any, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        ClippedSum(1.0, (2, 2)).total(votes, center=0.0, num_teachers=1)


@pytest.mark.parametrize("clip", [0.51, 1.0, 1.99])
def test_as_many_queries_as_are_said_to_be_exact_are_summed(clip: float) -> None:
    most = ClippedSum.most_queries(2**26, 40)
    assert most > 8
    with pytest.raises(InvalidValue, match="votes"):  # there are none; the sum would be exact
        ClippedSum(clip, (most, 40)).total([], center=0.0, num_teachers=2**26)
    with pytest.raises(InvalidValue, match="sums of 53 bits"):
        ClippedSum(clip, (2 * most, 40)).total([], center=0.0, num_teachers=2**26)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(InvalidValue, match=r"clip=0: expected a number > 0"):
        ClippedSum(0, (2, 2))
    with pytest.raises(InvalidValue, match=r"num_labels=0: expected a whole number >= 1"):
        ClippedSum(1.0, (2, 0))
    with pytest.raises(InvalidValue, match="center=NaN or infinity: expected finite numbers"):
        ClippedSum(1.0, (2, 2)).total(np.zeros((1, 2, 2)), center=np.nan, num_teachers=1)
    with pytest.raises(InvalidValue, match=r"num_teachers=.*: expected fewer teachers for sums of 53 bits"):
        ClippedSum(1.0, (600, 40)).total([], center=0.0, num_teachers=10**9)


def test_impossible_spans_are_refused() -> None:
    with pytest.raises(InvalidValue, match=r"span=.* off: expected orthonormal columns"):
        LowRankVotes(2 * SPAN, np.zeros((1, 2, 3)))
    with pytest.raises(InvalidValue, match=r"weights\.shape=\(1, 3, 3\): expected \[c, 2, num_labels\]"):
        LowRankVotes(SPAN, np.zeros((1, 3, 3)))
    other = LowRankVotes(SPAN[::-1].copy(), np.zeros((1, 2, 3)))
    with pytest.raises(InvalidValue, match=r"span=.*: expected the same span in every block"):
        ClippedSum(1.0, (3, 3)).total(iter([LowRankVotes(SPAN, np.zeros((1, 2, 3))), other]), center=0, num_teachers=2)


def test_a_clip_whose_square_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"clip=1e-165: expected at least 1e-100, whose square is a number"):
        ClippedSum(1e-165, (2, 2))
