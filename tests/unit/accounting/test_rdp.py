"""The Renyi accountant: its grid of Renyi orders against a denser one, refused orders, and exact sums of rho."""

import math
from typing import Any

import numpy as np
import pytest

from pate import accounting
from pate.aggregators import Aggregator, GaussianVotes, StableTopK
from tests.refusals import ANY, refused_parameter

AGGREGATORS: dict[str, Aggregator] = {
    "gumbel + gaussian": StableTopK(
        selection_scale=38.985, test_std=60.0, adjacency=accounting.Adjacency.ADD_REMOVE
    ),
    "gumbel + table": StableTopK(
        selection_scale=100.0, test="table", table_order=7.7, table_budget=2e-3
    ),
    "table of a high order": StableTopK(
        selection_scale=2e4, test="table", table_order=333.0, table_budget=1e-6
    ),
    "gaussian + gaussian": StableTopK(
        selection_noise="gaussian", selection_scale=50.0, test_std=60.0
    ),
    "laplace": StableTopK(
        selection_noise="laplace", selection_scale=200.0, test="laplace", test_std=100.0
    ),
    "gaussian votes": GaussianVotes(noise_std=100.0),
    "nearly no noise": GaussianVotes(noise_std=0.5),
    "very much noise": GaussianVotes(noise_std=1e5),
}
EVENTS: dict[str, accounting.Event] = {
    name: aggregator.event_for(num_queries=600, num_labels=40, num_teachers=800)
    for name, aggregator in AGGREGATORS.items()
} | {
    "pure": accounting.PureDpEvent(epsilon=0.7),
    "pure many": accounting.SelfComposedEvent(
        event=accounting.PureDpEvent(epsilon=0.01), count=600
    ),
    "pure large": accounting.PureDpEvent(epsilon=40.0),
    "gaussian": accounting.GaussianEvent(noise_multiplier=0.3),
    "gaussian small": accounting.GaussianEvent(noise_multiplier=1000.0),
    "zcdp": accounting.ZCdpEvent(rho=1e-4),
    "mixed": accounting.ComposedEvent(
        (
            accounting.GaussianEvent(noise_multiplier=3.0),
            accounting.PureDpEvent(epsilon=1.0),
            accounting.SelfComposedEvent(
                event=accounting.BoundedRangeEvent(epsilon=0.05), count=600
            ),
        )
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EVENTS)
def test_twice_as_many_orders_change_epsilon_by_at_most_a_thousandth(name: str) -> None:
    """The default grid of Renyi orders gives an epsilon at most 0.1% above that of a grid with
    twice as many Renyi orders.

    The finer grid also has 401 Renyi orders close to the best one.
    """
    event = EVENTS[name]
    accountant = accounting.RdpAccountant().compose(event)
    with_twice_the_orders = accounting.RdpAccountant(
        orders=1 + np.geomspace(1e-3, 1e6, 2 * len(accounting.DEFAULT_ORDERS) - 1)
    ).compose(event)
    for delta in (1e-5, 2e-6):
        epsilon = accountant.get_epsilon(delta)
        best_order = accountant.best_order(delta)
        with_orders_near_the_best = accounting.RdpAccountant(
            orders=1 + (best_order - 1) * np.geomspace(0.8, 1.25, 401)
        ).compose(event)
        finer_epsilon = min(
            with_twice_the_orders.get_epsilon(delta), with_orders_near_the_best.get_epsilon(delta)
        )
        assert finer_epsilon <= epsilon * (1 + 1e-9) + 1e-12
        assert epsilon <= finer_epsilon * 1.001 + 1e-9


def test_a_table_is_priced_at_an_order_between_those_of_the_grid() -> None:
    """The accountant's best Renyi order for `StableTopK` with a table is within 0.3% of 7.7, the order of the table.

    The table is that of the stability test. Every order in the accountant's default grid is more than 0.1 away from
    7.7.
    """
    accountant = accounting.RdpAccountant().compose(EVENTS["gumbel + table"])
    assert accountant.best_order(target_delta=1e-6) == pytest.approx(7.7, rel=0.003)
    assert min(abs(accounting.DEFAULT_ORDERS - 7.7)) > 0.1


@pytest.mark.parametrize(
    ("name", "orders"),
    [
        ("orders.shape", []),
        ("orders.shape", np.ones((2, 2)) * 2),
        ("orders", [1.0]),
        ("orders", [2.0, 0.5, 0.25]),
        ("orders", [2.0, math.nan]),
        ("orders", [2.0, math.inf]),
    ],
    ids=["none", "a matrix", "order 1", "orders below 1", "not a number", "infinity"],
)
def test_impossible_orders_are_refused(name: str, orders: Any) -> None:
    """`RdpAccountant` refuses an empty or two-dimensional list of Renyi orders, and Renyi orders
    that are not finite and above 1.
    """
    with refused_parameter(name, value=ANY):
        accounting.RdpAccountant(orders)


def test_sums_of_rho_are_exact_and_foreign_events_have_no_curve() -> None:
    """30,000 zCDP events of rho 0.1 have exactly the Renyi divergence 6000 at Renyi order 2.

    A user's subclass of an event is refused, because its price is unknown.
    """
    spent = accounting.RdpAccountant(orders=[2.0]).compose(
        accounting.ComposedEvent((accounting.ZCdpEvent(rho=0.1),) * 30_000)
    )
    assert spent.rdp[0] == 6000  # one after the other would be less

    class OwnEvent(accounting.PureDpEvent):
        """A subclass of an event, whose price `pate` cannot know."""

    with refused_parameter("event", value="OwnEvent"):
        accounting.RdpAccountant().compose(OwnEvent(epsilon=1.0)).get_epsilon(target_delta=1e-6)
