"""GNMax and ConfidentGNMax: prices by hand, the promise of few votes, refusals."""

import numpy as np
import pytest

from pate.accounting import Adjacency
from pate.aggregators import ConfidentGNMax, GNMax, PowersetGNMax
from pate.aggregators.gaussian_votes import squared_sensitivity
from pate.validation import InvalidValue

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE


@pytest.mark.parametrize(
    ("max_votes", "num_labels", "replaced", "removed"), [(1, 40, 2, 1), (3, 40, 6, 3), (3, 5, 5, 3), (9, 5, 5, 5)]
)
def test_votes_that_one_change_moves(max_votes: int, num_labels: int, replaced: int, removed: int) -> None:
    assert squared_sensitivity(max_votes, num_labels=num_labels, adjacency=REPLACE) == replaced
    assert squared_sensitivity(max_votes, num_labels=num_labels, adjacency=ADD) == removed


def test_counts_that_such_teachers_cannot_have_cast_are_refused() -> None:
    votes = np.array([[4, 4, 0], [5, 4, 0]])
    rng = np.random.default_rng(0)
    assert GNMax(noise_std=1.0).aggregate(votes, num_teachers=9, rng=rng).num_answered == 2
    with pytest.raises(InvalidValue, match=r"votes\[\d\]: expected a sum of at most 8, 8 teachers with max_votes=1"):
        GNMax(noise_std=1.0).aggregate(votes, num_teachers=8, rng=rng)
    assert GNMax(noise_std=1.0, max_votes=2).aggregate(votes, num_teachers=8, rng=rng).num_answered == 2
    with pytest.raises(InvalidValue, match=r"votes\[1\]: expected a sum of at most 8"):
        ConfidentGNMax(screening_std=1.0, threshold_share=0.5, noise_std=1.0).aggregate(votes, num_teachers=8, rng=rng)


def test_blocks_of_teachers_are_merged_in_one_order() -> None:
    votes = np.random.default_rng(0).random((60, 7, 11)) < 0.15
    aggregator = PowersetGNMax(noise_std=1.0)
    whole = aggregator.gather(votes, num_teachers=60)
    parts = aggregator.gather(iter([votes[:13], votes[13:14], votes[14:]]), num_teachers=60)
    np.testing.assert_array_equal(whole, parts)
    assert np.bincount(whole["query"], weights=whole["count"]).tolist() == [60.0] * 7
    for query in range(7):
        sets = {tuple(row) for row in votes[:, query].tolist()}
        assert {tuple(row) for row in whole["labels"][whole["query"] == query].tolist()} == sets


@pytest.mark.slow
def test_more_labels_than_a_float_can_count_sets_of() -> None:
    votes = np.zeros((5, 2, 2000), dtype=bool)
    release = PowersetGNMax(noise_std=1.0).aggregate(votes, num_teachers=5, rng=np.random.default_rng(0))
    assert (release.labels.sum(axis=1) > 800).all()  # about 50 standard deviations for the unseen ones
