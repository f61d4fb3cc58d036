"""Made-up votes by which plans are judged follow the model in the docstring of `MadeUpVotes`."""

import numpy as np
import pytest

from pate.votes import histogram
from pate.votes.made_up import MadeUpVotes
from tests.refusals import refused_parameter


def made_up_votes(agreement: float) -> MadeUpVotes:
    """Returns made-up votes of 50 teachers for 9 queries with 3 of 8 labels present."""
    return MadeUpVotes(
        agreement=agreement, num_queries=9, num_labels=8, num_teachers=50, num_present=3
    )


@pytest.mark.parametrize("agreement", [1.0, 0.9, 0.5, 0.0])
def test_made_up_teachers_vote_for_as_many_labels_as_a_query_has(agreement: float) -> None:
    """A present label has `agreement` times 50 votes, and all votes of a query add up to 3 for each teacher.

    A teacher who misses a present label votes for an absent one instead, so each names 3 labels.
    """
    votes = made_up_votes(agreement=agreement)
    vote_bits = np.concatenate(list(votes.bits()))
    np.testing.assert_array_equal(histogram(vote_bits), votes.counts())
    assert (votes.counts()[votes.labels] == round(50 * agreement)).all()
    assert (votes.counts().sum(axis=1) == 3 * 50).all()
    assert (vote_bits.sum(axis=2) == 3).all()


def test_missed_labels_are_spread_over_all_teachers() -> None:
    """At agreement 0.9, five of 50 teachers miss each of the 3 labels, and none misses two."""
    votes = made_up_votes(agreement=0.9)
    vote_bits = np.concatenate(list(votes.bits()))
    for query in range(9):
        names_all_present = (vote_bits[:, query] | ~votes.labels[query]).all(axis=1)
        assert names_all_present.sum() == 50 - 3 * 5


def test_a_teachers_votes_can_be_limited() -> None:
    """With a limit of 1, each query gets one vote of each teacher. A limit of 3 changes nothing."""
    votes = made_up_votes(agreement=1.0)
    assert votes.counts(max_votes=1).sum(axis=1).tolist() == [50] * 9
    np.testing.assert_array_equal(votes.counts(max_votes=3), votes.counts())


def test_counts_a_hand_worked_case():
    """`histogram` of the votes of two teachers on two queries is the sum of both, as int64."""
    vote_bits = np.array([[[1, 0, 1], [0, 0, 0]], [[1, 1, 1], [0, 0, 1]]], dtype=bool)
    assert histogram(vote_bits).tolist() == [[2, 1, 2], [0, 0, 1]]
    assert histogram(vote_bits).dtype == np.int64


@pytest.mark.parametrize("num_teachers", [1, 255, 256, 511, 1000])
def test_counts_above_255_do_not_overflow(num_teachers):
    """If all of up to 1000 teachers vote for every label, each count is the number of teachers."""
    assert (histogram(np.ones((num_teachers, 2, 3), bool)) == num_teachers).all()


@pytest.mark.parametrize(
    ("votes", "refusal"),
    [
        (np.zeros((2, 3, 4)), refused_parameter("teacher_votes.dtype", value="float64")),
        (np.zeros((3, 4), bool), refused_parameter("teacher_votes.shape", value=(3, 4))),
        (np.zeros((0, 3, 4), bool), refused_parameter("teacher_votes.shape", value=(0, 3, 4))),
    ],
)
def test_histogram_refuses_arrays_that_are_no_votes(votes, refusal):
    """`histogram` refuses votes that are floats, have two dimensions, or are those of no teacher."""
    with refusal:
        histogram(votes)
