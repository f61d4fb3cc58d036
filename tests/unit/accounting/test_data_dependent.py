"""The type of a data-dependent cost, the closed forms of gap selection and of one bit, and realized sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import pate.accounting as pa
from pate.accounting.data_dependent import (
    DataDependentCost,
    gap_selection_cost,
    gap_selection_rdp,
    one_bit_cost,
    top_log_odds,
)
from pate.accounting.events import Event, event_to_json
from pate.accounting.renyi import bounded_range_rdp
from pate.files.values import to_json
from pate.validation import InvalidValue

ORDERS = np.array([1.05, 2.0, 8.0, 64.0, 4096.0])
BIT = pa.OneBitEvent(logits=(-5.0, -3.0, 0.0, 2.0, 2.5), reach=2)
COST = DataDependentCost(ORDERS, np.arange(5.0))
ENDS = (math.nan, math.inf, -math.inf)


def test_a_ledger_refuses_it_and_writes_nothing(tmp_path: Path) -> None:
    ledger = pa.Ledger(tmp_path / "ledger.db", target_delta=1e-6)
    before = (tmp_path / "ledger.db").read_bytes()
    with pytest.raises(InvalidValue, match="event=DataDependentCost: expected an event"):
        ledger.charge(COST, adjacency=ledger.adjacency, key="a")
    assert ledger.entries == []
    assert (tmp_path / "ledger.db").read_bytes() == before


def test_costs_add_and_a_repr_shows_no_number() -> None:
    assert "private" in repr(COST)
    assert not any(character.isdigit() for character in f"{COST!r}{COST}")
    other = DataDependentCost(ORDERS, np.ones(5), failure_prob=1e-3)
    np.testing.assert_array_equal((COST + other).rdp, np.arange(5.0) + 1)
    assert (COST + other).failure_prob == 1e-3


def test_gap_selection_costs_the_full_price_where_nothing_is_likely_and_vanishes_where_all_agree() -> None:
    event = pa.BoundedRangeEvent(0.3)
    forward, backward = gap_selection_rdp(np.array([-1.0, 0.0, 40.0, 700.0]), event=event, orders=ORDERS)
    price = bounded_range_rdp(0.3, ORDERS)
    np.testing.assert_allclose(np.maximum(forward, backward)[:2], [price, price], rtol=1e-9)
    assert (np.maximum(forward, backward)[2, :3] < 1e-8 * price[:3]).all()
    assert (forward[3] > 0).all()  # no cancellation: 1 - p is 1e-304


def test_gap_selection_never_exceeds_the_price_and_falls_with_consensus() -> None:
    log_odds = np.linspace(-3, 30, 200)
    for epsilon in (1e-9, 1e-3, 0.1, 2.0, 50.0):
        curves = gap_selection_rdp(log_odds, event=pa.BoundedRangeEvent(epsilon), orders=ORDERS)
        for curve in curves:
            assert (curve <= bounded_range_rdp(epsilon, ORDERS)).all()
            assert (np.diff(curve, axis=0) <= 1e-15).all()


def test_gap_selection_cost_is_the_sum_over_all_queries_asked() -> None:
    event = pa.BoundedRangeEvent(0.4)
    shares = np.log(np.array([[0.2, 0.7, 0.1], [0.25, 0.25, 0.5]]))
    np.testing.assert_allclose(top_log_odds(shares), [np.log(7 / 3), 0.0], atol=1e-15)
    utilities = np.array([[1.0, 5.0, 2.0], [3.0, 3.0, 0.0], [1.0, 5.0, 2.0]])
    each = np.array([gap_selection_rdp(top_log_odds(row[None]), event=event, orders=ORDERS) for row in utilities])
    cost = gap_selection_cost(utilities, event=event, orders=ORDERS)
    np.testing.assert_allclose(cost.rdp, each.sum(axis=0)[:, 0].max(axis=0), rtol=1e-12)


def test_orders_need_not_rise() -> None:
    utilities, orders = np.random.default_rng(0).uniform(0, 9, (20, 4)), np.array([8.0, 1.5, 1e5, 2.0])
    event = pa.BoundedRangeEvent(0.4)
    cost = gap_selection_cost(utilities, event=event, orders=orders).rdp
    each = [gap_selection_cost(utilities, event=event, orders=order).rdp[0] for order in orders]
    np.testing.assert_allclose(cost, each, rtol=1e-12)


def test_a_candidate_that_is_certain_in_double_precision_still_costs_at_large_orders() -> None:
    """The others have e**-1000 in all, and order 1e6 multiplies it by e**1e5."""
    cost = gap_selection_cost(np.array([[1000.0, 0.0]]), event=pa.BoundedRangeEvent(0.1), orders=[8.0, 1e6]).rdp
    assert cost[0] < 1e-200
    assert cost[1] == pytest.approx((1e5 - 1000) / 1e6, rel=1e-3)


def test_one_bit_at_the_actual_statistic() -> None:
    """Statistic 1, reach 2: the worst neighbor is 3 for these logits; computed from the probabilities."""
    p, q = 1 / (1 + np.exp(3.0)), 1 / (1 + np.exp(-2.0))
    expected = max(np.log(p**2 / q + (1 - p) ** 2 / (1 - q)), np.log(q**2 / p + (1 - q) ** 2 / (1 - p)))
    assert one_bit_cost(np.array([1]), event=BIT, orders=[2.0]).rdp[0] == pytest.approx(expected, rel=1e-12)


def test_one_bit_adds_over_queries_whatever_came_out() -> None:
    both = one_bit_cost(np.array([1, 4, 1]), event=BIT, orders=ORDERS, failure_prob=3e-9)
    single = [one_bit_cost(np.array([level]), event=BIT, orders=ORDERS).rdp for level in (1, 4)]
    assert (both.rdp <= (2 * single[0] + single[1]) * (1 + 1e-14)).all()
    np.testing.assert_allclose(both.rdp, 2 * single[0] + single[1], rtol=0.2)  # the larger of the sums either way
    assert both.failure_prob == 3e-9


def test_a_bit_that_is_certain_somewhere_costs_infinity_only_within_reach() -> None:
    event = pa.OneBitEvent(logits=(-np.inf, -np.inf, -np.inf, 0.0, 1.0), reach=1)
    each = [one_bit_cost(np.array([level]), event=event, orders=[2.0]).rdp[0] for level in range(5)]
    assert each[:2] == [0.0, 0.0]
    assert np.isposinf(each[2:4]).all()
    assert 0 < each[4] < 1


@pytest.mark.parametrize(
    "take",
    [
        lambda cost: pa.RdpAccountant().compose(cost),
        lambda cost: pa.ExactAccountant().compose(cost),
        lambda cost: event_to_json(cost),
        lambda cost: pa.SelfComposedEvent(cost, 2),
        lambda cost: pa.ApproximateEvent(cost, 1e-9),
        lambda cost: pa.ComposedEvent((cost,)),
    ],
)
def test_nothing_takes_it_for_an_event(take: Callable[[DataDependentCost], object]) -> None:
    assert not isinstance(COST, Event)
    with pytest.raises(InvalidValue, match=r"^events?=DataDependentCost: expected an event"):
        take(COST)


def test_it_is_written_by_no_report_added_to_no_number_and_never_changed() -> None:
    with pytest.raises(TypeError, match="no JSON form"):
        to_json(COST)
    with pytest.raises(TypeError, match="unsupported operand"):
        COST + 1.0
    with pytest.raises(ValueError, match="read-only"):
        COST.rdp[0] = 0.0


def one_order(rdp: float, failure_prob: float = 0.0) -> DataDependentCost:
    return DataDependentCost(np.array([2.0]), np.array([rdp]), failure_prob)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("orders", lambda: DataDependentCost(np.array([1.0]), np.array([0.1]))),
        ("rdp.shape", lambda: DataDependentCost(np.array([2.0]), np.array([0.1, 0.2]))),
        ("rdp", lambda: one_order(-0.1)),
        ("rdp", lambda: one_order(math.nan)),
        ("failure_prob", lambda: one_order(0.1, 1.0)),
        ("orders", lambda: COST + DataDependentCost(ORDERS + 1, np.ones(5))),
        ("utilities.shape", lambda: gap_selection_cost(np.zeros(3), event=pa.BoundedRangeEvent(1.0), orders=ORDERS)),
        ("utilities.shape", lambda: top_log_odds(np.zeros((2, 1)))),
        ("statistics[0]", lambda: one_bit_cost(np.array([5]), event=BIT, orders=ORDERS)),
        *(("utilities[1, 1]", lambda bad=bad: top_log_odds(np.array([[0.0, 1.0], [2.0, bad]]))) for bad in ENDS),
    ],
)
def test_what_makes_no_cost_is_refused(name: str, make: Callable[[], object]) -> None:
    with pytest.raises(InvalidValue, match=": expected ") as refused:
        make()
    assert refused.value.name == name
