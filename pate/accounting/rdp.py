"""The Renyi accountant: it adds Renyi curves, and converts the sum once, at the best order.

The Renyi curve of an event is D_a, a bound on the Renyi divergence of order a between the outputs of two neighbors, as
a function of the order a > 1. Curves of releases add up, also where each release was chosen after seeing the releases
before (Mironov 2017, Proposition 1). At every order the sum R(a) gives an epsilon (Canonne, Kamath & Steinke 2020):

    epsilon = R(a) + log(1 - 1/a) - (log delta + log a) / (a - 1).

So each grid of orders gives a valid bound, and a grid with more orders one that is no larger
(docs/proofs/composition.md, docs/proofs/conversion.md).
"""

import copy
import math
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any, NamedTuple, Self

import numpy as np

from pate.accounting import events, renyi
from pate.accounting.accountant import Accountant
from pate.accounting.bit_pairs import bit_rdp
from pate.accounting.conversion import Curve, rdp_to_deltas, rdp_to_epsilons
from pate.accounting.event_tree import LeafCounts, count_leaves, failure_probability
from pate.accounting.events import Event, LeafEvent
from pate.accounting.sampled_gaussian import sampled_gaussian_rdp
from pate.accounting.session_rdp import session_rdp
from pate.accounting.trade_off import DeltaFreeBounds
from pate.accounting.winner import winner_rdp
from pate.array_types import FloatArray
from pate.validation import InvalidValue, require, require_count, require_each

DEFAULT_ORDERS: FloatArray = 1 + np.geomspace(1e-3, 1e6, 461)
"""461 orders a, with a - 1 from 0.001 to a million; each a - 1 is 4.6% above that of the order before."""

# The search is repeated near the best order on a grid with so many steps for each step of the default grid.
_REFINEMENT = 24


class _BestOrder(NamedTuple):
    """The smallest epsilon or delta over a grid of orders, with the order that gives it."""

    value: float  # the smallest epsilon or delta
    order: float
    order_index: int  # the index of the order in its grid


class RdpAccountant(Accountant):
    """An accountant that adds Renyi curves; the quickest accountant that can price every event.

    `rdp` is the sum of the Renyi curves of all events at the orders `orders`, both `[num_orders]`. Epsilon and delta
    are the smallest that any of these orders gives. On the default grid the search is repeated near the best order on a
    grid that is 24 times as dense. The reason is stability tests, whose best table is made for one order: above it, the
    divergence rises steeply (`pate/mechanisms/stability_table.py`). The failure probabilities of approximate events are
    subtracted from delta first.

    Source: Mironov 2017; Canonne, Kamath & Steinke 2020; docs/proofs/composition.md.

    Args:
        orders: the grid of orders, each finite and > 1; None for `DEFAULT_ORDERS`.
    """

    name = "rdp"
    # The total does not depend on the order of the events, because it is a sum of their curves.
    any_event_order = True

    def __init__(self, orders: Iterable[float] | FloatArray | None = None) -> None:
        self._refines = orders is None
        order_grid = DEFAULT_ORDERS if orders is None else orders
        self.orders = order_array(
            order_grid if isinstance(order_grid, np.ndarray) else list(order_grid)
        ).copy()
        self.rdp: FloatArray = np.zeros_like(self.orders)
        self.failure_prob = 0.0
        self._leaf_counts = LeafCounts()

    @property
    def parameters(self) -> dict[str, Any]:
        """The grid of orders under the key `orders`; empty if the accountant was made without a grid."""
        return {} if self._refines else {"orders": self.orders.tolist()}

    @property
    def _counts_in_words(self) -> dict[str, str]:
        """The number of releases (leaves of all events) and the sum of failure probabilities, as texts by name."""
        num_events = sum(count for _, count in self._leaf_counts)
        return {"num_events": f"{num_events:g}", **super()._counts_in_words}

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds the Renyi curve of an event to the total, `count` times, and returns this accountant.

        Raises `InvalidValue`, and adds nothing, where an event within `event` has no known Renyi curve.
        """
        leaf_counts = count_leaves(event, num_releases=require_count("count", count, minimum=0))
        self.rdp = self.rdp + rdp_curve(leaf_counts, self.orders)
        self.failure_prob += count * failure_probability(event)
        self._leaf_counts.add(leaf_counts)
        return self

    def copy(self) -> Self:
        """Returns an independent accountant with the same events; adding events to the copy leaves this one as is."""
        # The copy shares the array `rdp`. `compose` makes a new array and never changes this one.
        duplicate = copy.copy(self)
        duplicate._leaf_counts = self._leaf_counts.copy()
        return duplicate

    def get_epsilon(self, target_delta: float) -> float:
        """Returns the smallest epsilon that any order gives at `target_delta`.

        Raises `InvalidValue` where the failure probabilities of the events sum to `target_delta` or more.
        """
        return self._epsilon_at_best_order(target_delta).value

    def get_delta(self, target_epsilon: float) -> float:
        """Returns the smallest delta that any order gives at `target_epsilon`, failure probabilities included."""
        best = self._at_best_order(convert=partial(rdp_to_deltas, target_epsilon=target_epsilon))
        return min(1.0, best.value + self.failure_prob)

    def curve(self, orders: FloatArray) -> FloatArray:
        """Returns the sum of the Renyi curves of all events at any orders > 1, one entry for each of `orders`."""
        return rdp_curve(self._leaf_counts, orders)

    def _delta_free_bounds(self) -> DeltaFreeBounds:
        return DeltaFreeBounds.from_leaves(self._leaf_counts).with_failures(self.failure_prob)

    def best_order(self, target_delta: float) -> float:
        """Returns the order that gives the epsilon of `get_epsilon(target_delta)`."""
        return self._epsilon_at_best_order(target_delta).order

    def _epsilon_at_best_order(self, target_delta: float) -> _BestOrder:
        remaining_delta = self.remaining_delta(target_delta)
        return self._at_best_order(convert=partial(rdp_to_epsilons, target_delta=remaining_delta))

    def _at_best_order(self, convert: Callable[[FloatArray, FloatArray], FloatArray]) -> _BestOrder:
        """Returns the smallest epsilon or delta over all orders, and its order.

        Where there is no event but a `NoOpEvent`, these are 0 and the last order.

        Args:
            convert: a function from orders and Renyi divergences, both `[num_orders]`, to the epsilon or delta of each.
        """
        if self._leaf_counts.kinds <= {events.NoOpEvent}:
            last_index = len(self.orders) - 1
            return _BestOrder(
                value=0.0, order=float(self.orders[last_index]), order_index=last_index
            )
        best = _smallest(convert(self.orders, self.rdp), orders=self.orders)
        if not self._refines or not 0 < best.value < math.inf:
            return best
        lower_order = self.orders[max(best.order_index - 1, 0)]
        higher_order = self.orders[min(best.order_index + 1, len(self.orders) - 1)]
        fine_orders = _orders_between(float(lower_order), float(higher_order))
        refined = _smallest(convert(fine_orders, self.curve(fine_orders)), orders=fine_orders)
        return refined if refined.value < best.value else best


@lru_cache  # The points of one trade-off curve have best orders near each other, and numpy makes such grids slowly.
def _orders_between(lower_order: float, higher_order: float) -> FloatArray:
    """Returns a fine grid of orders from one order to another as a read-only array, `[2 * _REFINEMENT + 1]`."""
    orders = 1 + np.geomspace(lower_order - 1, higher_order - 1, 2 * _REFINEMENT + 1)
    orders.setflags(write=False)
    return np.asarray(orders)


def _smallest(values: FloatArray, orders: FloatArray) -> _BestOrder:
    """Returns the smallest epsilon or delta, with its order; `values` has one entry for each of the orders."""
    smallest_index = int(np.argmin(values))
    return _BestOrder(
        value=float(values[smallest_index]),
        order=float(orders[smallest_index]),
        order_index=smallest_index,
    )


def order_array(orders: object) -> FloatArray:
    """Returns orders as an array `[num_orders]`.

    Raises `InvalidValue` where there is no order, or an order is not a finite number > 1.
    """
    checked_orders = np.atleast_1d(np.asarray(orders, dtype=np.float64))
    is_list = checked_orders.ndim == 1 and checked_orders.size > 0
    require(is_list, "orders.shape", checked_orders.shape, "[num_orders], at least one order")
    is_order = (checked_orders > 1) & np.isfinite(checked_orders)
    require_each("orders", checked_orders, holds=is_order, rule="finite numbers > 1")
    return checked_orders


def rdp_curve(leaf_counts: LeafCounts, orders: FloatArray) -> FloatArray:
    """Returns the sum of the Renyi curves of counted events at some orders, `[num_orders]`.

    The curves of Gaussian and of zCDP events are lines in the order, so their slopes are summed first. The curves of
    other events are computed one by one, by the functions in `_RDP_BY_KIND`.

    Args:
        leaf_counts: the leaves of an event with their counts (`count_leaves`).
        orders: the orders, each > 1, `[num_orders]`.

    Raises:
        InvalidValue: a leaf has no known Renyi curve, because its class is not one of `pate`.
    """
    total_rdp = np.zeros_like(orders)
    orders_as_bytes = orders.tobytes()
    with np.errstate(over="ignore", invalid="ignore"):
        for leaf_class, counted_leaves in leaf_counts.counted_leaves_by_kind.items():
            counts = np.array(counted_leaves.counts, dtype=np.float64)
            if leaf_class in (events.GaussianEvent, events.ScoresEvent):
                multipliers = _field_values(
                    counted_leaves.leaf_events, field_name="noise_multiplier"
                )
                if (multipliers == 0).any():
                    total_rdp += np.inf
                else:
                    # D_a = a / (2 z^2) for noise multiplier z (Mironov 2017, Proposition 7)
                    total_rdp += orders * math.fsum(counts * (1 / multipliers) ** 2 / 2)
            elif leaf_class is events.ZCdpEvent:
                # D_a <= rho a, the definition of zCDP (Bun & Steinke 2016)
                total_rdp += orders * math.fsum(
                    counts * _field_values(counted_leaves.leaf_events, field_name="rho")
                )
            else:
                if leaf_class not in _RDP_BY_KIND:
                    rule = "an event with a Renyi curve"
                    raise InvalidValue("event", leaf_class.__name__, rule=rule)
                total_rdp += sum(
                    count * _cached_rdp(leaf, orders_as_bytes=orders_as_bytes)
                    for leaf, count in zip(counted_leaves.leaf_events, counts, strict=True)
                )
    # NaN comes from infinity less infinity: a price beyond double precision is charged as infinite.
    return np.where(np.isnan(total_rdp), np.inf, total_rdp)


def _field_values(leaves: list[LeafEvent], field_name: str) -> FloatArray:
    """Returns the value of one field of each leaf, `[num_leaves]`."""
    return np.array([getattr(leaf, field_name) for leaf in leaves], dtype=np.float64)


def _zero_rdp(event: events.NoOpEvent, orders: FloatArray) -> FloatArray:
    return np.zeros_like(orders)


def _infinite_rdp(event: events.NonPrivateEvent, orders: FloatArray) -> FloatArray:
    return np.full_like(orders, np.inf)


def _pure_dp_rdp(event: events.PureDpEvent, orders: FloatArray) -> FloatArray:
    return renyi.pure_dp_rdp(event.epsilon, orders)


def _bounded_range_rdp(event: events.BoundedRangeEvent, orders: FloatArray) -> FloatArray:
    return renyi.bounded_range_rdp(event.epsilon, orders)


def _winner_rdp(event: events.WinnerEvent, orders: FloatArray) -> FloatArray:
    return winner_rdp(event.noise_multiplier, num_moving_counts=event.num_moving, orders=orders)


def _tuning_rdp(event: events.TuningEvent, orders: FloatArray) -> FloatArray:
    from pate.accounting.tuning import tuning_rdp  # imported here, because it imports this module

    return tuning_rdp(event, orders)


_RDP_BY_KIND: dict[type[Event], Callable[[Any, FloatArray], FloatArray]] = {
    events.NoOpEvent: _zero_rdp,
    events.NonPrivateEvent: _infinite_rdp,
    events.PureDpEvent: _pure_dp_rdp,
    events.BoundedRangeEvent: _bounded_range_rdp,
    events.NoisyMaxGaussianEvent: renyi.noisy_max_gaussian_rdp,
    events.OpposedMaximaEvent: renyi.noisy_max_gaussian_rdp,
    events.WinnerEvent: _winner_rdp,
    events.SmoothSensitivityEvent: renyi.smooth_sensitivity_rdp,
    events.SessionEvent: session_rdp,
    events.BoundarySessionEvent: session_rdp,
    events.SampledGaussianEvent: sampled_gaussian_rdp,
    events.OneBitEvent: bit_rdp,
    events.ThresholdEvent: bit_rdp,
    events.TuningEvent: _tuning_rdp,
}
"""The function that computes the Renyi curve, by class of the leaf.

`rdp_curve` handles Gaussian and zCDP events itself.
"""


@lru_cache(maxsize=2048)
def _cached_rdp(leaf: LeafEvent, orders_as_bytes: bytes) -> FloatArray:
    """Returns the Renyi curve of one leaf, `[num_orders]`, from a cache, because releases often have equal leaves.

    Args:
        leaf: the leaf.
        orders_as_bytes: the bytes of the array of orders; unlike an array, bytes can be the key of a cache.
    """
    orders = np.frombuffer(orders_as_bytes)
    return _RDP_BY_KIND[type(leaf)](leaf, orders)


def rdp_curve_of(event: Event) -> Curve:
    """Returns the Renyi curve of an event, a function from orders to divergences, both `[num_orders]`."""
    return partial(rdp_curve, count_leaves(event))
