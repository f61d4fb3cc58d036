"""The Renyi accountant: adds curves over a grid of orders and converts once."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting.accountant import Accountant
from pate.accounting.conversion import rdp_to_deltas, rdp_to_epsilons
from pate.accounting.events import (
    BoundarySessionEvent,
    BoundedRangeEvent,
    Event,
    GaussianEvent,
    LeafCounts,
    LeafEvent,
    NoisyMaxGaussianEvent,
    NonPrivateEvent,
    NoOpEvent,
    OneBitEvent,
    OpposedMaximaEvent,
    PureDpEvent,
    SampledGaussianEvent,
    SessionEvent,
    SmoothSensitivityEvent,
    WinnerEvent,
    ZCdpEvent,
    by_accesses,
    count_leaves,
    failure_probability,
)
from pate.accounting.renyi import (
    bounded_range_rdp,
    noisy_max_gaussian_rdp,
    one_bit_rdp,
    opposed_maxima_rdp,
    pure_dp_rdp,
    session_rdp,
    smooth_sensitivity_rdp,
)
from pate.accounting.sampled_gaussian import sampled_gaussian_rdp
from pate.accounting.winner import winner_rdp
from pate.validation import InvalidValue, require, require_count, require_each

Array = NDArray[np.float64]

DEFAULT_ORDERS: Array = 1 + np.geomspace(1e-3, 1e6, 461)
"""Orders from 1.001 to a million, 4.6% apart in a - 1."""

_REFINEMENT = 24
_MOST_COUNTED = 1000  # different events of one composition that are looked up among those before


class RdpAccountant(Accountant):
    """Adds Renyi curves; the quickest accountant that knows every event.

    Epsilon and delta are the smallest over a grid of orders (Canonne, Kamath & Steinke 2020), so every grid gives a
    valid bound. On the default grid the neighborhood of the best order is searched once more, 24 times as densely: a
    stability table is cheap at its own order alone. Failure probabilities of approximate events are taken from delta
    first.

    Args:
        orders: orders > 1 to use, and no others; None for the default grid and its refinement.

    Attributes:
        orders: `[A]` the grid.
        rdp: `[A]` what has been spent at each.
        failure_prob: what approximate events have taken from delta.
    """

    name = "rdp"

    def __init__(self, orders: Iterable[float] | Array | None = None) -> None:
        self._refine = orders is None
        grid = DEFAULT_ORDERS if orders is None else orders
        self.orders = np.array(grid if isinstance(grid, np.ndarray) else list(grid), dtype=np.float64)
        shape = self.orders.shape
        require(len(shape) == 1 and shape[0] > 0, "orders.shape", shape, "[num_orders], at least one order")
        require_each("orders", self.orders, (self.orders > 1) & np.isfinite(self.orders), "finite numbers > 1")
        self.rdp: Array = np.zeros_like(self.orders)
        self.failure_prob = 0.0
        self._spent: LeafCounts = {}
        self._places: dict[LeafEvent, int] = {}  # in the lists of `_spent`

    @property
    def parameters(self) -> dict[str, Any]:
        """The orders, where they are not the default ones."""
        return {} if self._refine else {"orders": self.orders.tolist()}

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds the event `count` times; nothing is added if any part of it is unknown."""
        spent = count_leaves(event, count=require_count("count", count, minimum=0))
        self.rdp = self.rdp + rdp_curve(spent, self.orders)
        self.failure_prob += count * failure_probability(event)
        self._count(spent)
        return self

    def copy(self) -> Self:
        """An accountant of its own to which the same events were added."""
        made = copy.copy(self)
        made._spent = {kind: (events.copy(), times.copy()) for kind, (events, times) in self._spent.items()}
        made._places = self._places.copy()
        return made

    def get_epsilon(self, target_delta: float) -> float:
        """The smallest epsilon over the orders; infinity where something was released without noise."""
        return self._best_epsilon(target_delta)[0]

    def get_delta(self, target_epsilon: float) -> float:
        """The smallest delta over the orders, failure probabilities included, at most 1."""
        delta, _ = self._best(lambda orders, rdp: rdp_to_deltas(orders, rdp, target_epsilon=target_epsilon))
        return min(1.0, delta + self.failure_prob)

    def curve(self, orders: Array) -> Array:
        """What has been spent at other orders > 1, `[len(orders)]`."""
        return rdp_curve(self._spent, orders)

    def best_order(self, target_delta: float) -> float:
        """The order at which `get_epsilon` attains its value."""
        return self._best_epsilon(target_delta)[1]

    def _count(self, spent: LeafCounts) -> None:
        """Keeps the events; one that an earlier composition had is counted there, not listed again."""
        for kind, (events, times) in spent.items():
            all_events, all_times = self._spent.setdefault(kind, ([], []))
            if len(events) > _MOST_COUNTED:
                all_events += events
                all_times += times
                continue
            known = [self._places.get(event) for event in events]
            for event, count, place in zip(events, times, known, strict=True):
                if place is None:
                    self._places[event] = len(all_events)
                    all_events.append(event)
                    all_times.append(count)
                else:
                    all_times[place] += count

    def _best_epsilon(self, target_delta: float) -> tuple[float, float]:
        left = self.remaining_delta(target_delta)
        return self._best(lambda orders, rdp: rdp_to_epsilons(orders, rdp, target_delta=left))

    def _best(self, convert: Callable[[Array, Array], Array]) -> tuple[float, float]:
        """The smallest value that a conversion gives at any order, and that order; 0 while nothing was spent."""
        if self._spent.keys() <= {NoOpEvent}:
            return 0.0, float(self.orders[-1])
        values = convert(self.orders, self.rdp)
        best = int(np.argmin(values))
        if not self._refine or not 0 < values[best] < math.inf:
            return float(values[best]), float(self.orders[best])
        low, high = self.orders[max(best - 1, 0)], self.orders[min(best + 1, len(self.orders) - 1)]
        near = 1 + np.geomspace(low - 1, high - 1, 2 * _REFINEMENT + 1)
        near_values = convert(near, rdp_curve(self._spent, near))
        nearest = int(np.argmin(near_values))
        if near_values[nearest] >= values[best]:
            return float(values[best]), float(self.orders[best])
        return float(near_values[nearest]), float(near[nearest])


def rdp_curve(counts: LeafCounts, orders: Array) -> Array:
    """The Renyi curve of counted events, `[len(orders)]`.

    Raises:
        InvalidValue: an event of a kind that has no Renyi curve.
    """
    unknown = [kind.__name__ for kind in counts if kind not in _CURVES]
    if unknown:
        raise InvalidValue(f"event={unknown[0]}: expected an event with a Renyi curve")
    total = np.zeros_like(orders)
    with np.errstate(over="ignore", invalid="ignore"):
        for kind, (events, times) in counts.items():
            total += _CURVES[kind](events, np.array(times, dtype=np.float64), orders)
    return np.where(np.isnan(total), np.inf, total)  # what double precision cannot say is charged as infinite


def _gaussian(events: list[Any], counts: Array, orders: Array) -> Array:
    multipliers = np.fromiter(map(attrgetter("noise_multiplier"), events), dtype=np.float64, count=len(events))
    if (multipliers == 0).any():
        return np.full_like(orders, np.inf)
    return orders * math.fsum(counts * (1 / multipliers) ** 2 / 2)


def _zcdp(events: list[Any], counts: Array, orders: Array) -> Array:
    return orders * math.fsum(count * event.rho for count, event in zip(counts, events, strict=True))


def _one_by_one(curve: Callable[[Any, Array], Array]) -> Callable[[list[Any], Array, Array], Array]:
    """Lifts the curve of one event to many; curves are remembered, as the same event comes again and again."""

    @lru_cache(maxsize=512)
    def remembered(event: LeafEvent, orders: bytes) -> Array:
        return curve(event, np.frombuffer(orders))

    def many(events: list[Any], counts: Array, orders: Array) -> Array:
        key = orders.tobytes()
        return np.asarray(sum(count * remembered(event, key) for event, count in zip(events, counts, strict=True)))

    return many


_CURVES: dict[type[LeafEvent], Callable[[list[Any], Array, Array], Array]] = {
    NoOpEvent: lambda events, counts, orders: np.zeros_like(orders),
    NonPrivateEvent: lambda events, counts, orders: np.full_like(orders, np.inf),
    GaussianEvent: _gaussian,
    ZCdpEvent: _zcdp,
    PureDpEvent: _one_by_one(lambda event, orders: pure_dp_rdp(event.epsilon, orders)),
    BoundedRangeEvent: _one_by_one(lambda event, orders: bounded_range_rdp(event.epsilon, orders)),
    NoisyMaxGaussianEvent: _one_by_one(
        lambda event, orders: noisy_max_gaussian_rdp(event.noise_multiplier, event.num_candidates, orders)
    ),
    OpposedMaximaEvent: _one_by_one(
        lambda event, orders: opposed_maxima_rdp(event.noise_multiplier, event.num_candidates, orders)
    ),
    WinnerEvent: _one_by_one(lambda event, orders: winner_rdp(event.noise_multiplier, event.num_moving, orders)),
    SmoothSensitivityEvent: _one_by_one(
        lambda event, orders: smooth_sensitivity_rdp(event.noise_multiplier, event.beta, orders)
    ),
    SessionEvent: _one_by_one(session_rdp),
    BoundarySessionEvent: _one_by_one(session_rdp),
    SampledGaussianEvent: _one_by_one(sampled_gaussian_rdp),
    OneBitEvent: _one_by_one(lambda event, orders: one_bit_rdp(np.array(event.logits), event.reach, orders)),
}


@dataclass(frozen=True)
class HitPrice:
    """The Renyi price of everything composed, each session by its hits; no price before the first session.

    Args:
        rdp: of everything composed; None before the first session.
    """

    rdp: RdpAccountant | None = None

    def beside(self, event: Event, count: int, *, before: RdpAccountant) -> HitPrice:
        """With an event more.

        Args:
            event: as it was composed.
            count: how often.
            before: what was composed before it, if no session was among that.
        """
        if self.rdp is None and by_accesses(event) is event:
            return self
        return HitPrice((self.rdp or before).copy().compose(event, count))

    def epsilon(self, target_delta: float) -> float:
        """At `target_delta`; infinity before the first session."""
        return math.inf if self.rdp is None else self.rdp.get_epsilon(target_delta)

    def delta(self, target_epsilon: float) -> float:
        """At `target_epsilon`; 1 before the first session."""
        return 1.0 if self.rdp is None else self.rdp.get_delta(target_epsilon)

    def suffices(self, failure_prob: float, target_delta: float) -> bool:
        """Whether overruns of accesses leave nothing of a delta, so that this is the only price."""
        return self.rdp is not None and failure_prob >= target_delta
