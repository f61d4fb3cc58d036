"""FixedTopK: labels by a top-k mechanism, its exact distribution, and its price."""

import numpy as np
import pytest

from pate.accounting import Adjacency, BoundedRangeEvent, NoOpEvent, PureDpEvent, RdpAccountant, SelfComposedEvent
from pate.aggregators import FixedTopK
from pate.aggregators.fixed_top_k import MECHANISMS

VOTES = np.array([9, 4, 8, 0])


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_draws_follow_the_exact_distribution(mechanism: str, adjacency: Adjacency) -> None:
    aggregator, draws = FixedTopK(k=2, epsilon=1.0, mechanism=mechanism, adjacency=adjacency), 8_000
    release = aggregator.aggregate(np.tile(VOTES, (draws, 1)), num_teachers=10, rng=np.random.default_rng(5))
    assert release.answered.all()
    assert (release.labels.sum(axis=1) == 2).all()
    distribution = aggregator.distribution(VOTES, num_teachers=10)
    assert sum(distribution.values()) == pytest.approx(1)
    for labels, probability in distribution.items():
        seen = release.labels[:, list(labels or ())].all(axis=1).mean()
        assert abs(seen - probability) < 5 * np.sqrt(probability * (1 - probability) / draws) + 1e-9


def test_prices() -> None:
    shape = {"num_queries": 6, "num_labels": 4, "num_teachers": 10}
    ranged, pure = BoundedRangeEvent(1.0), PureDpEvent(1.0)
    for k, mechanism, event in ((2, "joint", ranged), (2, "permute_and_flip_joint", pure), (4, "peeling", NoOpEvent())):
        made = FixedTopK(k=k, epsilon=1.0, mechanism=mechanism)
        assert made.event_for(**shape) == SelfComposedEvent(event, 6)
    one, four = (FixedTopK(k=1, epsilon=0.1).scaled(factor).event_for(**shape) for factor in (1.0, 4.0))
    prices = [RdpAccountant().compose(event).get_epsilon(1e-5) for event in (one, four)]
    assert prices[1] < prices[0] / 2
