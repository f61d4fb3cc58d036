import numpy as np
import pytest

from pate.validation import InvalidValue
from pate.votes import histogram


def test_counts_a_hand_worked_case():
    votes = np.array([[[1, 0, 1], [0, 0, 0]], [[1, 1, 1], [0, 0, 1]]], dtype=bool)
    assert histogram(votes).tolist() == [[2, 1, 2], [0, 0, 1]]
    assert histogram(votes).dtype == np.int64


@pytest.mark.parametrize("num_teachers", [1, 255, 256, 511, 1000])
def test_no_overflow_where_bytes_would_wrap(num_teachers):
    assert (histogram(np.ones((num_teachers, 2, 3), bool)) == num_teachers).all()


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        (np.zeros((2, 3, 4)), r"teacher_votes\.dtype=float64: expected bool votes"),
        (np.zeros((3, 4), bool), r"teacher_votes\.shape=\(3, 4\): expected \[num_teachers"),
        (np.zeros((0, 3, 4), bool), r"teacher_votes\.shape=\(0, 3, 4\): expected at least one"),
    ],
)
def test_refuses_what_is_no_vote(votes, message):
    with pytest.raises(InvalidValue, match=message):
        histogram(votes)
