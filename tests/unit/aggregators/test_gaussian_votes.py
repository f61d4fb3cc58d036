"""GaussianVotes: threshold, price, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, ndtr

from pate.accounting import OneBitEvent, RdpAccountant, SelfComposedEvent
from pate.aggregators import GaussianVotes


def test_price_is_one_bit_a_label_with_the_distribution_of_the_draw() -> None:
    event = GaussianVotes(noise_std=3.0).event_for(num_queries=5, num_labels=7, num_teachers=9)
    assert isinstance(event, SelfComposedEvent)
    assert event.count == 35
    assert isinstance(event.event, OneBitEvent)
    assert event.event.reach == 1
    expected = ndtr((np.arange(10) - 4.5) / 3.0)
    np.testing.assert_allclose(expit(np.array(event.event.logits)), expected, rtol=1e-12)


def test_every_query_is_answered_by_the_majority_where_it_is_clear() -> None:
    votes = np.array([[100, 0, 51], [0, 100, 49]])
    release = GaussianVotes(noise_std=0.01).aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
    assert release.answered.all()
    np.testing.assert_array_equal(release.labels, [[True, False, True], [False, True, False]])


def test_spec_figure_for_40_labels() -> None:
    """600 queries of 40 labels at std 100: 6.65 (spec section 7)."""
    event = GaussianVotes(noise_std=100.0).event_for(num_queries=600, num_labels=40, num_teachers=800)
    assert RdpAccountant().compose(event).get_epsilon(1e-6) == pytest.approx(6.65, abs=0.02)
    event = GaussianVotes(noise_std=50.0).event_for(num_queries=600, num_labels=40, num_teachers=800)
    assert RdpAccountant().compose(event).get_epsilon(1e-6) == pytest.approx(15.1, abs=0.05)
