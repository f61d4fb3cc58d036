"""The zCDP accountant: every event's rho against its curve at orders between those that were searched."""

import math

import numpy as np
import pytest

import pate.accounting as pa
from pate.accounting.conversion import zcdp_to_delta
from pate.accounting.events import LeafEvent
from pate.accounting.rdp import rdp_curve, zcdp_rho
from pate.aggregators import StableTopK
from pate.mechanisms import StabilityTest

TEST = StabilityTest.gaussian(
    test_std=60.0, failure_prob=1e-9, num_teachers=800, adjacency="add_remove"
).event.event
SEARCHED: dict[str, LeafEvent] = {
    "test": TEST,
    "bits": pa.OneBitEvent((-6.0, -4.0, -1.0, 0.0, 2.0, 5.0), reach=1),
    "small range": pa.BoundedRangeEvent(0.05),
    "large range": pa.BoundedRangeEvent(3.0),
    "pure": pa.PureDpEvent(0.3),
    "large pure": pa.PureDpEvent(9.0),
    "maximum": pa.NoisyMaxGaussianEvent(50.0, num_candidates=39),
    "little noise": pa.NoisyMaxGaussianEvent(0.5, num_candidates=39),
    "hardly any noise": pa.NoisyMaxGaussianEvent(0.02, num_candidates=39),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHED)
def test_rho_bounds_the_curve_at_all_orders_and_little_more(name: str) -> None:
    event = SEARCHED[name]
    between = 1 + np.geomspace(1e-6, 1e6, 1777)
    ratios = rdp_curve({type(event): ([event], [1])}, between) / between
    rho = zcdp_rho(event)
    # whose curve is not a divergence's but a looser bound near order 1
    if name != "hardly any noise":
        assert ratios.max() <= rho * (1 + 1e-9)
        assert ratios.max() >= rho * 0.998


def test_the_paper_s_experiment_with_gumbel_noise() -> None:
    """Above the Renyi figure, and below the 3.92 of a test that is charged as a Gaussian."""
    aggregator = StableTopK(
        selection_scale=38.985, test_std=60.0, failure_prob=1e-9, adjacency="add_remove"
    )
    event = aggregator.event_for(num_queries=600, num_labels=40, num_teachers=800)
    epsilon = pa.ZCdpAccountant().compose(event).get_epsilon(1e-6)
    assert pa.RdpAccountant().compose(event).get_epsilon(1e-6) <= epsilon < 3.92


@pytest.mark.parametrize("rho", [1e-9, 1e-3, 0.1, 1.0, 1e2, 1e6])
def test_delta_is_the_inverse_of_epsilon_and_of_no_grid_above_it(rho: float) -> None:
    orders = 1 + np.geomspace(1e-6, 1e9, 30001)
    for delta in (1e-12, 1e-6, 1e-2):
        epsilon = pa.zcdp_to_epsilon(rho, target_delta=delta)
        if epsilon > 0:
            assert zcdp_to_delta(rho, target_epsilon=epsilon) == pytest.approx(delta, rel=1e-6)
            logs = (orders - 1) * (rho * orders - epsilon + np.log1p(-1 / orders)) - np.log(orders)
            assert zcdp_to_delta(rho, target_epsilon=epsilon) <= math.exp(logs.min()) * (1 + 1e-9)
