"""Sums of clipped votes: values computed by hand, any blocks of teachers, and refused votes."""

from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency
from pate.votes.blocks import LowRankVotes
from pate.votes.clipping import ClippedSum
from tests.refusals import Refusal, refused_parameter

SPAN = np.array([[0.6, 0.0], [0.8, 0.0], [0.0, 1.0]])


def clipped_total(
    clipped_sum: ClippedSum, votes: Any, num_teachers: int, label_center: Any = 0.0
) -> Any:
    """Returns the clipped sum of all votes, in units of a vote."""
    return (
        clipped_sum.total(votes, center=label_center, num_teachers=num_teachers) * clipped_sum.step
    )


def test_only_votes_longer_than_the_clip_are_scaled() -> None:
    """With a clip of 5, a vote of length 10 is scaled to length 5, and votes of length 5, 1 and 2 are unchanged."""
    clipped_sum = ClippedSum(clip=5.0, sum_shape=(1, 2))
    as_long_as_clip = clipped_total(
        clipped_sum=clipped_sum, votes=np.array([[[3.0, 4.0]]]), num_teachers=1
    )
    np.testing.assert_allclose(as_long_as_clip, [[3, 4]], atol=1e-3)
    twice_as_long = clipped_total(
        clipped_sum=clipped_sum, votes=np.array([[[6.0, 8.0]]]), num_teachers=1
    )
    np.testing.assert_allclose(twice_as_long, [[3, 4]], atol=1e-3)
    total_of_two_teachers = clipped_total(
        clipped_sum=clipped_sum, votes=np.array([[[1.0, 0.0]], [[0.0, 2.0]]]), num_teachers=2
    )
    np.testing.assert_allclose(total_of_two_teachers, [[1, 2]], atol=1e-3)


def test_center_is_subtracted_before_the_clip() -> None:
    """Votes of length 1.7 are not shortened to the clip of 1 if they are at distance 1 from the center.

    The center is one number for all labels, or one for each label.
    """
    clipped_sum = ClippedSum(clip=1.0, sum_shape=(2, 2))
    votes = np.array([[[True, False], [True, True]]])
    total_around_half = clipped_total(
        clipped_sum=clipped_sum, votes=votes, num_teachers=1, label_center=0.5
    )
    np.testing.assert_allclose(total_around_half, np.array([[1, -1], [1, 1]]) / 2, atol=1e-3)
    total_around_labels = clipped_total(
        clipped_sum=clipped_sum, votes=votes, num_teachers=1, label_center=[1.0, 0.0]
    )
    np.testing.assert_allclose(total_around_labels, [[0, 0], [0, 1]], atol=1e-3)


def test_low_rank_votes_sum_like_their_products() -> None:
    """Votes given as a span and weights sum like the matrices that they stand for, in one block and in two."""
    weight_matrices_of_teachers = np.random.default_rng(1).normal(size=(20, 2, 3))
    block = LowRankVotes(span=SPAN, weights=weight_matrices_of_teachers)
    clipped_sum = ClippedSum(clip=1.5, sum_shape=(3, 3))
    assert len(block) == 20
    total_of_products = clipped_total(
        clipped_sum=clipped_sum, votes=block.span @ block.weights, num_teachers=20
    )
    total_of_one_block = clipped_total(clipped_sum=clipped_sum, votes=block, num_teachers=20)
    np.testing.assert_allclose(total_of_one_block, total_of_products, atol=1e-2)
    first_block = LowRankVotes(span=SPAN, weights=weight_matrices_of_teachers[:7])
    second_block = LowRankVotes(span=SPAN.copy(), weights=weight_matrices_of_teachers[7:])
    total_of_two_blocks = clipped_total(
        clipped_sum=clipped_sum, votes=iter([first_block, second_block]), num_teachers=20
    )
    np.testing.assert_array_equal(total_of_two_blocks, total_of_one_block)


def test_no_teacher_may_be_missing_unless_teachers_come_and_go() -> None:
    """If a declared teacher has no votes, the sum is refused under replace-one and accepted under add-remove.

    Three of four teachers have votes. More votes than declared teachers are refused.
    """
    votes_of_three = np.zeros((3, 2, 2))
    sum_under_replace_one = ClippedSum(clip=1.0, sum_shape=(2, 2))
    sum_under_add_remove = ClippedSum(clip=1.0, sum_shape=(2, 2), adjacency=Adjacency.ADD_REMOVE)
    with refused_parameter("num_teachers", value=4, rule_words="3"):
        sum_under_replace_one.total(votes_of_three, center=0.0, num_teachers=4)
    assert not sum_under_add_remove.total(votes_of_three, center=0.0, num_teachers=4).any()
    with refused_parameter("num_teachers", value=2, rule_words="3"):
        sum_under_add_remove.total(votes_of_three, center=0.0, num_teachers=2)


@pytest.mark.parametrize(
    ("votes", "refusal"),
    [
        (np.full((1, 2, 2), np.nan), refused_parameter("votes", value="NaN or infinity")),
        (np.full((1, 2, 2), -np.inf), refused_parameter("votes", value="NaN or infinity")),
        (np.full((1, 2, 2), 1e200), refused_parameter("votes", value="NaN or infinity")),
        (np.zeros((1, 2, 3)), refused_parameter("votes.shape", value=(1, 2, 3))),
        (
            np.zeros((2, 2)),
            refused_parameter("votes.shape", value=(2, 2)),
        ),
        (
            np.zeros((1, 2, 2), dtype=int),
            refused_parameter("votes.dtype", value="int64", rule_words="bool votes or floats"),
        ),
        (
            np.zeros((1, 2, 2), dtype=complex),
            refused_parameter("votes.dtype", value="complex128"),
        ),
        (np.zeros((0, 2, 2)), refused_parameter("votes.shape", value=(0, 2, 2))),
        (3, refused_parameter("votes", value="int")),
        ([[[0.0, 1.0], [0.0]]], refused_parameter("votes", rule_words="rows of equal")),
        (
            LowRankVotes(span=SPAN, weights=np.zeros((1, 2, 2))),
            refused_parameter("votes.shape", value=(1, 3, 2)),
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_impossible_votes_are_refused(votes: Any, refusal: Refusal) -> None:
    """Votes that are NaN, infinite or 1e200, or of a wrong shape or type, are refused."""
    with refusal:
        ClippedSum(clip=1.0, sum_shape=(2, 2)).total(votes, center=0.0, num_teachers=1)


@pytest.mark.parametrize("clip", [0.51, 1.0, 1.99])
def test_most_queries_are_summed_exactly(clip: float) -> None:
    """`most_queries` returns a number of queries that can be summed exactly for 2^26 teachers.

    Twice as many are refused.
    """
    num_teachers = 2**26
    most_queries = ClippedSum.most_queries(num_teachers, num_labels=40)
    assert most_queries > 8
    exact_sum = ClippedSum(clip=clip, sum_shape=(most_queries, 40))
    with refused_parameter(
        "votes.shape", value=(0,)
    ):  # The sum would be exact, but there are no votes.
        exact_sum.total([], center=0.0, num_teachers=num_teachers)
    inexact_sum = ClippedSum(clip=clip, sum_shape=(2 * most_queries, 40))
    with refused_parameter("num_teachers", value=num_teachers):
        inexact_sum.total([], center=0.0, num_teachers=num_teachers)


def test_clip_whose_square_underflows_is_refused() -> None:
    """A clip of 1e-165, whose square is no float above 0, is refused."""
    with refused_parameter("clip", value=1e-165, rule_words="at least 1e-100"):
        ClippedSum(clip=1e-165, sum_shape=(2, 2))
