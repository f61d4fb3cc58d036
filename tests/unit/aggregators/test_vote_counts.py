"""Counting votes as far as a price lets each teacher vote."""

from __future__ import annotations

import numpy as np
import pytest

from pate.accounting import Adjacency, GaussianEvent, WinnerEvent
from pate.accounting.events import leaves
from pate.aggregators import ConfidentGNMax, FixedTopK, GNMax, counts_for
from pate.validation import InvalidValue
from pate.votes.histogram import histogram

VOTES = np.random.default_rng(0).random((30, 20, 8)) < 0.3


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("most", [1, 2])
def test_no_teacher_moves_more_counts_than_the_price_is_for(adjacency: Adjacency, most: int) -> None:
    """A teacher that votes for all labels, and for none or for others: what the paths of a run count."""
    aggregator = GNMax(noise_std=10.0, max_votes=most, adjacency=adjacency)
    (event, _), *_ = leaves(aggregator.event_for(num_queries=20, num_labels=8, num_teachers=30))
    if most == 1:
        assert isinstance(event, WinnerEvent)
        priced = float(event.num_moving)
    else:
        assert isinstance(event, GaussianEvent)
        priced = (10.0 / event.noise_multiplier) ** 2
    replaced = VOTES.copy()
    replaced[3] = ~VOTES[3] if adjacency is Adjacency.REPLACE_ONE else False
    first, second = (counts_for(aggregator, [votes[:11], votes[11:]]) for votes in (VOTES, replaced))
    moved = ((first - second) ** 2).sum(axis=1)
    assert moved.max() <= priced + 1e-9
    uncapped = ((histogram(VOTES) - histogram(replaced)) ** 2).sum(axis=1)
    assert uncapped.max() > priced  # plain counts would have broken the price


def test_teachers_within_the_limit_are_counted_as_they_voted() -> None:
    single = np.eye(8, dtype=bool)[np.random.default_rng(1).integers(0, 8, (30, 20))]
    for aggregator in (GNMax(noise_std=1.0), ConfidentGNMax(noise_std=1.0, screening_std=1.0, threshold_share=0.5)):
        np.testing.assert_array_equal(counts_for(aggregator, [single]), single.sum(axis=0))
    np.testing.assert_array_equal(counts_for(FixedTopK(k=1, epsilon=1.0), [VOTES]), VOTES.sum(axis=0))


def test_no_votes_are_refused() -> None:
    with pytest.raises(InvalidValue, match="votes: expected the votes of at least one teacher"):
        counts_for(GNMax(noise_std=1.0), [])
