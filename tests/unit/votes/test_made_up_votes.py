"""Votes of nobody: the model that plans are judged by, as its docstring states it."""

import numpy as np
import pytest

from pate.votes.histogram import histogram
from pate.votes.made_up_votes import MadeUpVotes


def made_up(agreement: float, **changes: int) -> MadeUpVotes:
    size = {"num_queries": 9, "num_labels": 8, "num_teachers": 50, "num_present": 3} | changes
    return MadeUpVotes(agreement=agreement, **size)


@pytest.mark.parametrize("agreement", [1.0, 0.9, 0.5, 0.0])
def test_every_teacher_names_as_many_labels_as_a_query_has(agreement: float) -> None:
    votes = made_up(agreement)
    bits = np.concatenate(list(votes.bits()))
    np.testing.assert_array_equal(histogram(bits), votes.counts())
    assert (votes.counts()[votes.labels] == round(50 * agreement)).all()
    assert (votes.counts().sum(axis=1) == 3 * 50).all()
    named = bits.sum(axis=2)
    assert named.min() >= 2 and named.max() <= 4, "runs of teachers that wrap around may meet at their ends"


def test_no_teacher_misses_a_second_label_before_each_has_missed_one() -> None:
    votes = made_up(0.9)
    bits = np.concatenate(list(votes.bits()))
    whole = np.array([(bits[:, query] | ~votes.labels[query]).all(axis=1).sum() for query in range(9)])
    assert (whole == 50 - 3 * 5).all()


def test_a_teachers_votes_can_be_limited() -> None:
    assert made_up(1.0).counts(1).sum(axis=1).max() == 50
    np.testing.assert_array_equal(made_up(1.0).counts(3), made_up(1.0).counts())
