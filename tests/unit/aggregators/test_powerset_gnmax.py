"""PowersetGNMax: counting sets, blocks, prices, sizes."""

from __future__ import annotations

import numpy as np
import pytest

from pate.accounting import Adjacency, RdpAccountant
from pate.aggregators import PowersetGNMax

SHAPE = {"num_queries": 600, "num_labels": 40, "num_teachers": 800}


def test_spec_figure_for_any_number_of_labels() -> None:
    """Two counts move: 600 queries at std 50 cost 3.46 as counts and 2.71 as winners, for any number of labels."""
    event = PowersetGNMax(noise_std=50.0).event_for(**SHAPE)
    assert RdpAccountant().compose(event).get_epsilon(1e-6) == pytest.approx(2.72, abs=0.03)
    assert event == PowersetGNMax(noise_std=50.0).event_for(**SHAPE | {"num_labels": 2})
    cheaper = PowersetGNMax(noise_std=50.0 / 2**0.5, adjacency=Adjacency.ADD_REMOVE).event_for(**SHAPE)
    assert RdpAccountant().compose(cheaper).get_epsilon(1e-6) == pytest.approx(2.70, abs=0.03)


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


def test_little_noise_releases_the_most_named_set_or_the_empty_one() -> None:
    votes = np.array([[[1, 1, 0], [0, 0, 0]], [[1, 1, 0], [0, 0, 0]], [[0, 1, 1], [1, 0, 0]]], dtype=bool)
    release = PowersetGNMax(noise_std=1e-3).aggregate(votes, num_teachers=3, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(release.labels, [[True, True, False], [False, False, False]])
    assert release.answered.all()


def test_much_noise_releases_sets_of_all_kinds_but_none_too_large() -> None:
    votes = np.repeat(np.array([[[1, 1, 1] + 37 * [0]]] * 4, dtype=bool), 300, axis=1)
    for max_size in (2, None):
        release = PowersetGNMax(noise_std=100.0, max_size=max_size).aggregate(
            votes, num_teachers=4, rng=np.random.default_rng(0)
        )
        sizes = release.labels.sum(axis=1)
        assert sizes.max() <= (max_size or 40)
        assert sizes.mean() == pytest.approx(1.95 if max_size else 20, abs=0.7)
        assert len(np.unique(release.labels, axis=0)) > 200


@pytest.mark.slow
def test_more_labels_than_a_float_can_count_sets_of() -> None:
    votes = np.zeros((5, 2, 2000), dtype=bool)
    release = PowersetGNMax(noise_std=1.0).aggregate(votes, num_teachers=5, rng=np.random.default_rng(0))
    assert (release.labels.sum(axis=1) > 800).all()  # about 50 standard deviations for the unseen ones
