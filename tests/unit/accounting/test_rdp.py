"""The Renyi accountant against dp-accounting on the same orders, and its own grid against a denser one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pate.accounting import (
    DEFAULT_ORDERS,
    Adjacency,
    ApproximateEvent,
    BoundedRangeEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    NoOpEvent,
    OneBitEvent,
    PureDpEvent,
    RdpAccountant,
    SelfComposedEvent,
    ZCdpEvent,
)
from pate.accounting.events import count_leaves
from pate.accounting.rdp import rdp_curve
from pate.aggregators import Aggregator, GaussianVotes, StableTopK
from pate.validation import InvalidValue

ORDERS = [1.1, 1.5, 2.0, 4.5, 8.0, 16.0, 64.0, 512.0]
SHAPE = {"num_queries": 600, "num_labels": 40, "num_teachers": 800}

AGGREGATORS: dict[str, Aggregator] = {
    "gumbel + gaussian": StableTopK(selection_scale=38.985, test_std=60.0, adjacency=Adjacency.ADD_REMOVE),
    "gumbel + table": StableTopK(selection_scale=100.0, test="table", table_order=7.7, table_budget=2e-3),
    "table of a high order": StableTopK(selection_scale=2e4, test="table", table_order=333.0, table_budget=1e-6),
    "gaussian + gaussian": StableTopK(selection_noise="gaussian", selection_scale=50.0, test_std=60.0),
    "laplace": StableTopK(selection_noise="laplace", selection_scale=200.0, test="laplace", test_std=100.0),
    "gaussian votes": GaussianVotes(noise_std=100.0),
    "nearly no noise": GaussianVotes(noise_std=0.5),
    "very much noise": GaussianVotes(noise_std=1e5),
}
EVENTS: dict[str, Event] = {name: aggregator.event_for(**SHAPE) for name, aggregator in AGGREGATORS.items()} | {
    "pure": PureDpEvent(0.7),
    "pure many": SelfComposedEvent(PureDpEvent(0.01), 600),
    "pure large": PureDpEvent(40.0),
    "gaussian": GaussianEvent(0.3),
    "gaussian small": GaussianEvent(1000.0),
    "zcdp": ZCdpEvent(1e-4),
    "mixed": ComposedEvent((GaussianEvent(3.0), PureDpEvent(1.0), SelfComposedEvent(BoundedRangeEvent(0.05), 600))),
}


def test_gaussians_agree_with_dp_accounting() -> None:
    dp_accounting: Any = pytest.importorskip("dp_accounting")
    rdp: Any = pytest.importorskip("dp_accounting.rdp")
    event = ComposedEvent((GaussianEvent(1.3), SelfComposedEvent(GaussianEvent(20.0), 600), GaussianEvent(5.0)))
    theirs = rdp.RdpAccountant(ORDERS, dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    theirs.compose(event.to_dp_event())
    ours = RdpAccountant(ORDERS).compose(event)
    for delta in (1e-9, 1e-6, 1e-2):
        assert ours.get_epsilon(delta) == pytest.approx(theirs.get_epsilon(delta), rel=1e-9)
    for epsilon in (0.5, 2.0, 8.0):
        assert ours.get_delta(epsilon) == pytest.approx(theirs.get_delta(epsilon), rel=1e-9)


def test_pure_dp_agrees_with_dp_accounting() -> None:
    dp_accounting: Any = pytest.importorskip("dp_accounting")
    rdp: Any = pytest.importorskip("dp_accounting.rdp")
    theirs = rdp.RdpAccountant(ORDERS, dp_accounting.NeighboringRelation.REPLACE_ONE)
    response = dp_accounting.RandomizedResponseDpEvent(2 / (1 + math.exp(0.8)), 2)
    theirs.compose(response, 12)
    ours = RdpAccountant(ORDERS).compose(PureDpEvent(0.8), 12)
    assert ours.get_epsilon(1e-6) == pytest.approx(theirs.get_epsilon(1e-6), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVENTS)
def test_doubling_the_orders_moves_no_epsilon_by_more_than_a_thousandth(name: str) -> None:
    """The default grid and its refinement, against four times the default grid around the best order."""
    event = EVENTS[name]
    accountant = RdpAccountant().compose(event)
    doubled = RdpAccountant(1 + np.geomspace(1e-3, 1e6, 2 * len(DEFAULT_ORDERS) - 1)).compose(event)
    for delta in (1e-5, 2e-6):
        epsilon = accountant.get_epsilon(delta)
        best = accountant.best_order(delta)
        near = RdpAccountant(1 + (best - 1) * np.geomspace(0.8, 1.25, 2001)).compose(event)
        finer = min(doubled.get_epsilon(delta), near.get_epsilon(delta))
        assert finer <= epsilon * (1 + 1e-9) + 1e-12
        assert epsilon <= finer * 1.001 + 1e-9


def test_every_grid_gives_an_upper_bound_of_a_finer_one() -> None:
    for event in EVENTS.values():
        coarse = RdpAccountant([2.0, 8.0, 32.0]).compose(event)
        assert coarse.get_epsilon(1e-5) >= RdpAccountant().compose(event).get_epsilon(1e-5)


def test_a_table_is_priced_at_its_own_order_between_the_grid_s() -> None:
    accountant = RdpAccountant().compose(EVENTS["gumbel + table"])
    assert accountant.best_order(1e-6) == pytest.approx(7.7, rel=0.003)
    assert min(abs(DEFAULT_ORDERS - 7.7)) > 0.1


def test_headline_figures_of_the_papers_setting() -> None:
    """3.67 under add/remove and 8.02 under replace-one; Gaussian selection noise by two opposed maxima."""
    event = EVENTS["gumbel + gaussian"]
    assert RdpAccountant().compose(event).get_epsilon(1e-6) == pytest.approx(3.67, abs=0.02)
    record = StableTopK(selection_scale=38.985, test_std=60.0).event_for(**SHAPE)
    assert RdpAccountant().compose(record).get_epsilon(1e-6) == pytest.approx(8.02, abs=0.03)
    noisy_max = StableTopK(
        selection_noise="gaussian", selection_scale=50.0, test_std=60.0, adjacency=Adjacency.ADD_REMOVE
    )
    assert RdpAccountant().compose(noisy_max.event_for(**SHAPE)).get_epsilon(1e-6) == pytest.approx(9.19, abs=0.01)


def test_curve_adds_kinds_and_counts() -> None:
    orders = np.array([2.0, 8.0])
    bit = OneBitEvent((-1.0, 1.0), reach=1)
    mixed = ComposedEvent((SelfComposedEvent(GaussianEvent(2.0), 3), bit, ZCdpEvent(0.25), bit, NoOpEvent()))
    expected = 3 * orders / 8 + 2 * rdp_curve(count_leaves(bit), orders) + 0.25 * orders
    np.testing.assert_allclose(rdp_curve(count_leaves(mixed), orders), expected, rtol=1e-12)


def test_approximate_events_add_their_curve_and_their_failure() -> None:
    accountant = RdpAccountant([2.0]).compose(ApproximateEvent(GaussianEvent(1.0), 1e-6), 3)
    assert accountant.rdp == pytest.approx([3.0], rel=1e-12)
    assert accountant.failure_prob == pytest.approx(3e-6, rel=1e-12)


@pytest.mark.parametrize(
    ("orders", "message"),
    [
        ([], r"orders\.shape=\(0,\): expected \[num_orders\], at least one order"),
        ([1.0], r"orders=1\.0: expected finite numbers > 1"),
        ([2.0, 0.5, 0.25], r"orders=0\.5: expected finite numbers > 1"),
        ([2.0, math.nan], r"orders=nan: expected finite numbers > 1"),
        ([2.0, math.inf], r"orders=inf: expected finite numbers > 1"),
        (np.ones((2, 2)) * 2, r"orders\.shape=\(2, 2\): expected \[num_orders\], at least one order"),
    ],
)
def test_impossible_orders_are_refused(orders: Any, message: str) -> None:
    with pytest.raises(InvalidValue, match=f"^{message}$"):
        RdpAccountant(orders)


def test_failures_that_use_up_all_of_delta_leave_no_epsilon() -> None:
    spent = RdpAccountant().compose(ApproximateEvent(PureDpEvent(0.1), 1e-5))
    with pytest.raises(InvalidValue, match=r"failure_prob: 1e-05 in all uses up target_delta=1e-05"):
        spent.get_epsilon(1e-5)
    assert spent.get_epsilon(1.1e-5) > 0
