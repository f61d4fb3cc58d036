"""PowersetGNMax on all ensembles of small instances, where the candidates are few enough to give each its noise."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from pate.accounting import Adjacency, GaussianEvent
from pate.aggregators import PowersetGNMax
from pate.verification import verify
from tests.privacy.case import Counts, Distribution
from tests.privacy.rival_distributions import noisy_max_distribution

SETS = np.array(list(product((False, True), repeat=2)))  # by the value of their bits


def distribution(counts: Counts) -> Distribution:
    return dict(enumerate(noisy_max_distribution(counts, 1.0).tolist()))


@pytest.mark.parametrize("num_teachers", [1, 2, 4])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_price_covers_all_histograms_of_sets(adjacency: Adjacency, num_teachers: int) -> None:
    event = PowersetGNMax(noise_std=1.0, adjacency=adjacency).event_for(num_queries=1, num_labels=2, num_teachers=9)
    shape = {"num_labels": 4, "num_teachers": num_teachers, "adjacency": adjacency, "one_vote": True}
    assert verify(distribution, event=event, **shape).require().ratio > 0.3


def test_a_price_of_one_count_does_not_cover_replace_one() -> None:
    """And a price too small by the part that the argmax hides is found out: the comparison can fail."""
    shape = {"num_labels": 4, "num_teachers": 4, "adjacency": Adjacency.REPLACE_ONE, "one_vote": True}
    assert not verify(distribution, event=GaussianEvent(1.0), **shape).sound
    ratio = verify(distribution, event=GaussianEvent(0.5**0.5), **shape).ratio
    assert 0.5 < ratio < 1


def test_a_histogram_of_sets_is_what_the_teachers_say() -> None:
    aggregator = PowersetGNMax(noise_std=1.0)
    for chosen in combinations_with_replacement(range(4), 3):
        summary = aggregator.gather(SETS[list(chosen)][:, None], num_teachers=3)
        counts = np.zeros(4, dtype=int)
        counts[summary["labels"] @ [2, 1]] = summary["count"]
        np.testing.assert_array_equal(counts, np.bincount(chosen, minlength=4))


@pytest.mark.parametrize("max_size", [1, 2, None])
def test_one_change_moves_one_count_down_and_one_up(max_size: int | None) -> None:
    aggregator = PowersetGNMax(noise_std=1.0, max_size=max_size)

    def counted(vector: tuple[bool, ...]) -> tuple[bool, ...]:
        summary = aggregator.gather(np.array(vector)[None, None], num_teachers=1)
        assert summary["count"].tolist() == [1]
        return tuple(summary["labels"][0].tolist())

    for vector in product((False, True), repeat=4):
        kept = counted(vector)
        assert sum(kept) == min(sum(vector), max_size or 4)
        assert all(own for own, after in zip(vector, kept, strict=True) if after)
