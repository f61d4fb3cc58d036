"""GaussianVotes: threshold, price, refusals."""

import numpy as np
import pytest
from scipy.special import expit, ndtr

from pate.accounting import RdpAccountant, SelfComposedEvent, ThresholdEvent
from pate.aggregators import GaussianVotes


def test_price_is_one_bit_a_label_with_the_distribution_of_the_draw() -> None:
    event = GaussianVotes(noise_std=3.0).event_for(num_queries=5, num_labels=7, num_teachers=9)
    assert isinstance(event, SelfComposedEvent)
    assert event.count == 35
    assert isinstance(event.event, ThresholdEvent)
    assert event.event.reach == 1
    expected = ndtr((np.arange(10) - 4.5) / 3.0)
    np.testing.assert_allclose(expit(event.event.log_odds), expected, rtol=1e-12)


@pytest.mark.parametrize("num_teachers", [30_001, 10**6, 10**12])
def test_price_looks_only_at_counts_within_nine_stds_of_the_threshold(num_teachers: int) -> None:
    event = GaussianVotes(noise_std=100.0).event_for(num_queries=1, num_labels=1, num_teachers=num_teachers).event
    odd = num_teachers % 2
    assert event == ThresholdEvent(100.0, -900.0 - odd / 2, 1801 + odd)


def test_counts_beyond_are_drawn_as_if_they_were_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a window of half a std, counts 1..5 of 6; a count of 0 then passes like one of 1."""
    monkeypatch.setattr("pate.aggregators.gaussian_votes._FARTHEST", 0.5)
    votes = np.tile([0, 1, 6], (40_000, 1))
    aggregator, rng = GaussianVotes(noise_std=3.0), np.random.default_rng(0)
    found = aggregator.aggregate(votes, num_teachers=6, rng=rng).labels.mean(axis=0)
    bit = aggregator.event_for(num_queries=1, num_labels=1, num_teachers=6).event
    assert len(bit.log_odds) == 5
    np.testing.assert_allclose(found, expit(bit.log_odds[[0, 0, 4]]), atol=5 * 0.5 / 200)
    assert abs(found[0] - ndtr(-1.0)) > 5 * 0.5 / 200


@pytest.mark.parametrize("noise_std", [0.01, 1e-15, 1e-30])  # the last ones are nothing beside a threshold of 50
def test_every_query_is_answered_by_the_majority_where_it_is_clear(noise_std: float) -> None:
    votes = np.array([[100, 0, 51], [0, 100, 49]])
    release = GaussianVotes(noise_std=noise_std).aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
    assert release.answered.all()
    assert RdpAccountant().compose(release.event).get_epsilon(1e-6) > 1000
    np.testing.assert_array_equal(release.labels, [[True, False, True], [False, True, False]])
