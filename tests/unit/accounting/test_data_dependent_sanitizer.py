"""The sanitizers: their sensitivity, their price, and what they release."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pate.accounting as pa
from pate.accounting.data_dependent import (
    GapCostSanitizer,
    GnmaxCostSanitizer,
    estimated_epsilon,
    gap_selection_cost,
    gap_selection_rdp,
    gnmax_cost,
    gnmax_smooth_sensitivity,
    statement,
)
from pate.report.tables import round_up
from pate.validation import InvalidValue

GAP = GapCostSanitizer(query=pa.BoundedRangeEvent(2 / 39), num_queries=600, order=8.0, noise_multiplier=3.0)
GNMAX = GnmaxCostSanitizer(noise_std=4.0, num_teachers=50, order=4.0, noise_multiplier=3.0, beta=0.05)


def largest_drop(epsilon: float, over: float) -> float:
    """Of the 600-query backward cost at order 8, from the closed form written a second time, on a fine grid."""

    def cost(log_odds: np.ndarray) -> np.ndarray:
        best = 1 / np.expm1(epsilon) / 7 - 8 / np.expm1(8 * epsilon) / 7
        mass = np.minimum(1 / (1 + np.exp(log_odds)), best)
        return 600 / 7 * (np.log1p(mass * np.expm1(8 * epsilon)) - 8 * np.log1p(mass * np.expm1(epsilon)))

    odds = np.linspace(0, 20, 200_001)
    return float((cost(odds) - cost(odds + over)).max())


def test_global_sensitivity_is_the_drop_over_the_whole_range_and_a_fiftieth_of_the_price() -> None:
    assert GAP.sensitivity == pytest.approx(largest_drop(2 / 39, 2 / 39), rel=1e-3)
    assert GAP.sensitivity >= largest_drop(2 / 39, 2 / 39)
    assert GAP.sensitivity == pytest.approx(0.0310, abs=5e-5)
    assert GAP.sensitivity < 0.02 * 1.576


@pytest.mark.parametrize("epsilon", [0.01, 2 / 39, 0.5, 4.0])
def test_no_pair_of_log_odds_within_the_range_differs_by_more(epsilon: float) -> None:
    query = pa.BoundedRangeEvent(epsilon)
    sanitizer = GapCostSanitizer(query=query, num_queries=1, order=8.0, noise_multiplier=1.0)
    odds = np.random.default_rng(1).uniform(-5, 40, 20_000)
    cost = np.maximum(*gap_selection_rdp(np.r_[odds, odds + epsilon], event=query, orders=8.0))[:, 0]
    moved = np.abs(cost[:20_000] - cost[20_000:]).max()
    assert 0.9 * sanitizer.sensitivity <= moved <= sanitizer.sensitivity


def test_a_gap_cost_is_released_with_noise_of_that_size_around_it() -> None:
    utilities = np.random.default_rng(2).uniform(0, 12, (600, 5))
    cost = gap_selection_cost(utilities, event=GAP.query, orders=8.0).rdp[0]
    rng = np.random.default_rng(3)
    errors = np.array([GAP(utilities, rng=rng) - cost for _ in range(400)])
    assert abs(errors.mean()) < 4 * GAP.noise_std / 20
    assert errors.std() == pytest.approx(GAP.noise_std, rel=0.15)
    covered = np.array([GAP.upper_bound(cost + error, failure_prob=0.1) >= cost for error in errors])
    assert 0.84 < covered.mean() < 0.96


UTILITIES = np.random.default_rng(5).uniform(0, 12, (600, 5))
VOTES = np.array([[40, 7, 3], [20, 25, 5]] * 20)
RNG = np.random.default_rng(0)
RELEASES = [(GAP, UTILITIES), (GNMAX, VOTES)]


@pytest.mark.parametrize(("sanitizer", "data"), RELEASES)
def test_the_ledger_is_charged_with_the_event_before_the_draw(
    sanitizer: GapCostSanitizer | GnmaxCostSanitizer, data: np.ndarray
) -> None:
    ledger = pa.Ledger(target_delta=1e-6)
    first = sanitizer(data, rng=np.random.default_rng(0), ledger=ledger)
    assert [entry.event for entry in ledger.entries] == [sanitizer.event]
    assert sanitizer(data, rng=np.random.default_rng(0), ledger=ledger) == first
    assert sanitizer(data, rng=np.random.default_rng(1), ledger=ledger) != first
    assert [entry.event for entry in ledger.entries] == [sanitizer.event] * 3  # each call is paid for


@pytest.mark.parametrize(("sanitizer", "data"), RELEASES)
def test_a_refused_charge_draws_nothing(sanitizer: GapCostSanitizer | GnmaxCostSanitizer, data: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    with pytest.raises(pa.BudgetExceeded, match=r"max_epsilon=0\.01: expected at least"):
        sanitizer(data, rng=rng, ledger=pa.Ledger(target_delta=1e-6, max_epsilon=0.01))
    assert rng.bit_generator.state == before


def test_an_estimate_holds_the_cost_and_the_price_of_its_release_at_one_order() -> None:
    expected = 0.5 + 8 / (2 * 3.0**2) + math.log(7 / 8) - (math.log(1e-6) + math.log(8)) / 7
    assert estimated_epsilon(GAP, 0.5, target_delta=1e-6) == pytest.approx(expected, rel=1e-12)
    assert estimated_epsilon(GAP, -0.5, target_delta=1e-6) == estimated_epsilon(GAP, 0.0, target_delta=1e-6)


class One(np.random.Generator):
    """Every normal number is one standard deviation."""

    def standard_normal(self, size: Any = None) -> Any:
        return 1.0


def test_the_noise_has_the_std_that_the_event_says() -> None:
    rng = One(np.random.PCG64(0))
    at_order: dict[str, Any] = {"noise_std": GNMAX.noise_std, "num_teachers": GNMAX.num_teachers}
    scale = gnmax_smooth_sensitivity(VOTES, order=GNMAX.order, beta=GNMAX.beta, **at_order)
    cost = gnmax_cost(VOTES, orders=GNMAX.order, **at_order).rdp[0]
    assert GNMAX(VOTES, rng=rng) - cost == pytest.approx(GNMAX.event.noise_multiplier * scale, rel=1e-9)
    gap_cost = gap_selection_cost(UTILITIES, event=GAP.query, orders=GAP.order).rdp[0]
    assert GAP(UTILITIES, rng=rng) - gap_cost == pytest.approx(GAP.event.noise_multiplier * GAP.sensitivity, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("utilities.shape", lambda: GAP(np.zeros((599, 5)), rng=RNG)),
        ("rng", lambda: GAP(UTILITIES, rng=0)),
        ("rng", lambda: GNMAX(VOTES, rng=0)),
        ("order", lambda: replace(GAP, order=1.0)),
        ("noise_multiplier", lambda: replace(GAP, noise_multiplier=0.0)),
        ("num_queries", lambda: replace(GAP, num_queries=0)),
        ("adjacency", lambda: GNMAX(VOTES, rng=RNG, ledger=pa.Ledger(target_delta=1e-6, adjacency="add_remove"))),
        ("event", lambda: pa.ExactAccountant().compose(GNMAX.event)),
    ],
)
def test_what_cannot_be_released_is_refused(name: str, make: Callable[[], object]) -> None:
    with pytest.raises(InvalidValue, match=": expected ") as refused:
        make()
    assert refused.value.name == name


@pytest.mark.parametrize("sanitizer", [GAP, GNMAX, replace(GAP, noise_multiplier=3.7)])
def test_the_statement_is_an_estimate_and_rounds_its_own_guarantee_up(
    sanitizer: GapCostSanitizer | GnmaxCostSanitizer,
) -> None:
    text = statement(sanitizer, 0.5, target_delta=1e-6)
    epsilon = estimated_epsilon(sanitizer, 0.5, target_delta=1e-6)
    assert text.startswith(f"Estimate, not a guarantee: epsilon = {round_up(epsilon, 2)} at delta = 1e-06")
    own = pa.RdpAccountant().compose(sanitizer.event).get_epsilon(1e-6)
    assert f"it alone is ({round_up(own, 2)}, 1e-06)-DP (replace_one)" in text
