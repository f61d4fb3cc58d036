"""The Renyi accountant: adds curves over a grid of orders and converts once. Others are built beside it."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting import events, renyi
from pate.accounting.accountant import Accountant
from pate.accounting.conversion import Curve, rdp_to_deltas, rdp_to_epsilons
from pate.accounting.events import Event, LeafCounts, LeafEvent, by_accesses, count_leaves, failure_probability
from pate.accounting.sampled_gaussian import sampled_gaussian_rdp
from pate.accounting.winner import winner_rdp
from pate.validation import require, require_count, require_each

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
    """

    name = "rdp"

    def __init__(self, orders: Iterable[float] | Array | None = None) -> None:
        self._refine = orders is None
        grid = DEFAULT_ORDERS if orders is None else orders
        self.orders = order_array(grid if isinstance(grid, np.ndarray) else list(grid)).copy()
        self.rdp: Array = np.zeros_like(self.orders)
        self.failure_prob = 0.0
        self._spent: LeafCounts = {}
        self._places: dict[LeafEvent, int] = {}  # in the lists of `_spent`

    @property
    def parameters(self) -> dict[str, Any]:
        return {} if self._refine else {"orders": self.orders.tolist()}

    def compose(self, event: Event, count: int = 1) -> Self:
        spent = count_leaves(event, count=require_count("count", count, minimum=0))
        self.rdp = self.rdp + rdp_curve(spent, self.orders)
        self.failure_prob += count * failure_probability(event)
        self._count(spent)
        return self

    def copy(self) -> Self:
        made = copy.copy(self)
        made._spent = {kind: (leaves.copy(), times.copy()) for kind, (leaves, times) in self._spent.items()}
        made._places = self._places.copy()
        return made

    def get_epsilon(self, target_delta: float) -> float:
        """The smallest epsilon over the orders; infinity where something was released without noise."""
        return self._best_epsilon(target_delta)[0]

    def get_delta(self, target_epsilon: float) -> float:
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
        for kind, (leaves, times) in spent.items():
            all_leaves, all_times = self._spent.setdefault(kind, ([], []))
            if len(leaves) > _MOST_COUNTED:
                all_leaves += leaves
                all_times += times
                continue
            known = [self._places.get(leaf) for leaf in leaves]
            for leaf, count, place in zip(leaves, times, known, strict=True):
                if place is None:
                    self._places[leaf] = len(all_leaves)
                    all_leaves.append(leaf)
                    all_times.append(count)
                else:
                    all_times[place] += count

    def _best_epsilon(self, target_delta: float) -> tuple[float, float]:
        left = self.remaining_delta(target_delta)
        return self._best(lambda orders, rdp: rdp_to_epsilons(orders, rdp, target_delta=left))

    def _best(self, convert: Callable[[Array, Array], Array]) -> tuple[float, float]:
        """The smallest value that a conversion gives at any order, and that order; 0 while nothing was spent."""
        if self._spent.keys() <= {events.NoOpEvent}:
            return 0.0, float(self.orders[-1])
        values = convert(self.orders, self.rdp)
        best = int(np.argmin(values))
        found = float(values[best]), float(self.orders[best])
        if not self._refine or not 0 < values[best] < math.inf:
            return found
        low, high = self.orders[max(best - 1, 0)], self.orders[min(best + 1, len(self.orders) - 1)]
        near = 1 + np.geomspace(low - 1, high - 1, 2 * _REFINEMENT + 1)
        values = convert(near, rdp_curve(self._spent, near))
        best = int(np.argmin(values))
        return found if values[best] >= found[0] else (float(values[best]), float(near[best]))


def order_array(orders: object) -> Array:
    """Orders as an array `[A]`, or raises unless there is one and all are finite and > 1."""
    array = np.atleast_1d(np.asarray(orders, dtype=np.float64))
    require(array.ndim == 1 and array.size > 0, "orders.shape", array.shape, "[num_orders], at least one order")
    require_each("orders", array, (array > 1) & np.isfinite(array), "finite numbers > 1")
    return array


class AccountantBesideRenyi(Accountant):
    """An accountant with a bound of its own that is never above the Renyi accountant's."""

    def __init__(self) -> None:
        self._rdp = RdpAccountant()
        self.failure_prob = 0.0

    def copy(self) -> Self:
        made = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, (list, dict, Accountant)):
                setattr(made, name, value.copy())
        return made


class LossAccountant(AccountantBesideRenyi):
    """Composes losses, of sessions those of their accesses; the least of that, of Renyi's bound and of that by hits."""

    def __init__(self) -> None:
        super().__init__()
        self._by_hits: RdpAccountant | None = None  # of everything, from the first session on

    def _compose_renyi(self, event: Event, count: int) -> None:
        """Adds an event to both Renyi bounds, or to neither."""
        accesses, by_hits = by_accesses(event), self._by_hits
        if by_hits is not None or accesses is not event:
            by_hits = (by_hits or self._rdp).copy().compose(event, count)
        self._rdp.compose(accesses, count)
        self._by_hits, self.failure_prob = by_hits, self._rdp.failure_prob

    @abstractmethod
    def _epsilon(self, target_delta: float, bound: float) -> float:
        """By losses, at what failures have left of delta; infinity if not known. `bound` is Renyi's."""

    @abstractmethod
    def _delta(self, target_epsilon: float, bound: float) -> float:
        """By losses, failures apart. `bound` is Renyi's, failures apart."""

    def get_epsilon(self, target_delta: float) -> float:
        by_hits = math.inf if self._by_hits is None else self._by_hits.get_epsilon(target_delta)
        if self._by_hits is not None and self.failure_prob >= target_delta:  # by overruns of accesses
            return by_hits
        left = self.remaining_delta(target_delta)
        bound = min(by_hits, self._rdp.get_epsilon(target_delta))
        return min(bound, self._epsilon(left, bound)) if 0 < bound < math.inf else bound

    def get_delta(self, target_epsilon: float) -> float:
        by_hits = 1.0 if self._by_hits is None else self._by_hits.get_delta(target_epsilon)
        bound = min(by_hits, self._rdp.get_delta(target_epsilon))
        if not self.failure_prob < bound < 1:
            return bound
        return min(bound, self._delta(target_epsilon, bound - self.failure_prob) + self.failure_prob)


def rdp_curve(counts: LeafCounts, orders: Array) -> Array:
    """The Renyi curve of counted events, `[len(orders)]`."""
    for kind in counts:
        require(kind in _CURVES, "event", kind.__name__, "an event with a Renyi curve")
    total = np.zeros_like(orders)
    with np.errstate(over="ignore", invalid="ignore"):
        for kind, (leaves, times) in counts.items():
            total += _CURVES[kind](leaves, np.array(times, dtype=np.float64), orders)
    return np.where(np.isnan(total), np.inf, total)  # what double precision cannot say is charged as infinite


def curve_of(event: Event) -> Curve:
    """The Renyi curve of an event."""
    return partial(rdp_curve, count_leaves(event))


def gaussian_stand_in(*, selection_multiplier: float, test_multiplier: float) -> Event:
    """Selection and test as papers price them, both Gaussian. For the selection that is false, for any adjacency."""
    return events.ComposedEvent((events.GaussianEvent(selection_multiplier), events.GaussianEvent(test_multiplier)))


def _gaussian(leaves: list[Any], counts: Array, orders: Array) -> Array:
    multipliers = np.fromiter(map(attrgetter("noise_multiplier"), leaves), dtype=np.float64, count=len(leaves))
    if (multipliers == 0).any():
        return np.full_like(orders, np.inf)
    return orders * math.fsum(counts * (1 / multipliers) ** 2 / 2)


def _one_by_one(curve: Callable[[Any, Array], Array]) -> Callable[[list[Any], Array, Array], Array]:
    """Lifts the curve of one event to many; curves are remembered, as the same event comes again and again."""

    @lru_cache(maxsize=512)
    def remembered(leaf: LeafEvent, orders: bytes) -> Array:
        return curve(leaf, np.frombuffer(orders))

    def many(leaves: list[Any], counts: Array, orders: Array) -> Array:
        key = orders.tobytes()
        return np.asarray(sum(count * remembered(leaf, key) for leaf, count in zip(leaves, counts, strict=True)))

    return many


_OF_ONE: dict[type[LeafEvent], Callable[[Any, Array], Array]] = {
    events.PureDpEvent: lambda leaf, orders: renyi.pure_dp_rdp(leaf.epsilon, orders),
    events.BoundedRangeEvent: lambda leaf, orders: renyi.bounded_range_rdp(leaf.epsilon, orders),
    events.NoisyMaxGaussianEvent: renyi.noisy_max_gaussian_rdp,
    events.OpposedMaximaEvent: renyi.noisy_max_gaussian_rdp,
    events.WinnerEvent: lambda leaf, orders: winner_rdp(leaf.noise_multiplier, leaf.num_moving, orders),
    events.SmoothSensitivityEvent: renyi.smooth_sensitivity_rdp,
    events.SessionEvent: renyi.session_rdp,
    events.BoundarySessionEvent: renyi.session_rdp,
    events.SampledGaussianEvent: sampled_gaussian_rdp,
    events.OneBitEvent: renyi.bit_rdp,
    events.ThresholdEvent: renyi.bit_rdp,
}
_CURVES: dict[type[LeafEvent], Callable[[list[Any], Array, Array], Array]] = {
    events.NoOpEvent: lambda leaves, counts, orders: np.zeros_like(orders),
    events.NonPrivateEvent: lambda leaves, counts, orders: np.full_like(orders, np.inf),
    events.GaussianEvent: _gaussian,
    events.ZCdpEvent: lambda leaves, counts, orders: (
        orders * math.fsum(count * leaf.rho for count, leaf in zip(counts, leaves, strict=True))
    ),
} | {kind: _one_by_one(curve) for kind, curve in _OF_ONE.items()}
