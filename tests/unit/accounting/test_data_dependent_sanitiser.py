"""The sanitisers: their sensitivity, their price, and what they release."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pate.accounting import BoundedRangeEvent, GaussianEvent, RdpAccountant
from pate.accounting.data_dependent import (
    GapCostSanitiser,
    GnmaxCostSanitiser,
    gap_selection_cost,
    gap_selection_rdp,
    gnmax_cost,
)
from pate.validation import InvalidValue

GAP = GapCostSanitiser(query=BoundedRangeEvent(2 / 39), num_queries=600, order=8.0, noise_multiplier=3.0)
GNMAX = GnmaxCostSanitiser(noise_std=4.0, num_teachers=50, order=4.0, noise_multiplier=3.0, beta=0.05)


def test_global_sensitivity_is_near_the_specified_figure_and_a_fiftieth_of_the_price() -> None:
    assert GAP.sensitivity == pytest.approx(0.0303, rel=0.04)
    assert GAP.sensitivity < 0.02 * 1.576


@pytest.mark.parametrize("epsilon", [0.01, 2 / 39, 0.5, 4.0])
def test_no_pair_of_log_odds_within_the_range_differs_by_more(epsilon: float) -> None:
    query = BoundedRangeEvent(epsilon)
    sanitiser = GapCostSanitiser(query=query, num_queries=1, order=8.0, noise_multiplier=1.0)
    odds = np.random.default_rng(1).uniform(-5, 40, 20_000)
    cost = np.maximum(*gap_selection_rdp(np.r_[odds, odds + epsilon], event=query, orders=8.0))[:, 0]
    moved = np.abs(cost[:20_000] - cost[20_000:]).max()
    assert 0.9 * sanitiser.sensitivity <= moved <= sanitiser.sensitivity


def test_the_release_of_a_gap_cost_is_priced_as_gaussian_noise() -> None:
    assert GAP.event == GaussianEvent(3.0)
    assert math.isfinite(RdpAccountant().compose(GAP.event).get_epsilon(1e-6))
    assert GAP.noise_std == pytest.approx(3 * GAP.sensitivity)


def test_a_gap_cost_is_released_with_noise_of_that_size_around_it() -> None:
    utilities = np.random.default_rng(2).uniform(0, 12, (600, 5))
    cost = gap_selection_cost(utilities, event=GAP.query, orders=8.0).rdp[0]
    rng = np.random.default_rng(3)
    errors = np.array([GAP(utilities, rng=rng) - cost for _ in range(400)])
    assert abs(errors.mean()) < 4 * GAP.noise_std / 20
    assert errors.std() == pytest.approx(GAP.noise_std, rel=0.15)
    covered = np.array([GAP.upper_bound(cost + error, failure_prob=0.1) >= cost for error in errors])
    assert 0.84 < covered.mean() < 0.96


def test_another_number_of_queries_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"utilities\.shape=\(599, 5\): expected 600 queries"):
        GAP(np.zeros((599, 5)), rng=np.random.default_rng(0))


def test_a_gnmax_cost_is_released_with_noise_around_it_and_a_price_that_is_no_event() -> None:
    votes = np.array([[40, 7, 3], [20, 25, 5]] * 20)
    cost = gnmax_cost(votes, noise_std=4.0, num_teachers=50, orders=4.0).rdp[0]
    rng = np.random.default_rng(4)
    errors = np.array([GNMAX(votes, rng=rng) - cost for _ in range(200)])
    assert abs(errors.mean()) < 4 * errors.std() / math.sqrt(200)
    assert errors.std() > 0
    price = GNMAX.rdp([2.0, 4.0, 1000.0])
    assert 0 < price[0] < price[1]
    assert np.isposinf(price[2])


@pytest.mark.parametrize("sanitiser", [GAP, GNMAX])
def test_a_seed_is_refused(sanitiser: GapCostSanitiser | GnmaxCostSanitiser) -> None:
    with pytest.raises(InvalidValue, match=r"rng=0: expected a numpy\.random\.Generator, not a seed"):
        sanitiser(np.zeros((600, 5)), rng=0)  # type: ignore[arg-type]


@pytest.mark.parametrize(("field", "value"), [("order", 1.0), ("noise_multiplier", 0.0), ("num_queries", 0)])
def test_parameters_out_of_range_are_refused(field: str, value: float) -> None:
    fields = {"query": BoundedRangeEvent(0.1), "num_queries": 5, "order": 2.0, "noise_multiplier": 1.0}
    with pytest.raises(InvalidValue, match=f"{field}={value}: expected"):
        GapCostSanitiser(**(fields | {field: value}))  # type: ignore[arg-type]
