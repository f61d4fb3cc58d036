"""Accountants, which compose events and convert once; Renyi's adds curves, zCDP's a number, others stand beside."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, Self

import numpy as np

from pate.accounting import events, renyi
from pate.accounting.conversion import (
    Curve,
    rdp_to_deltas,
    rdp_to_epsilons,
    zcdp_to_delta,
    zcdp_to_epsilon,
)
from pate.accounting.event_tree import (
    LeafCounts,
    by_accesses,
    count_leaves,
    failure_probability,
    leaves,
)
from pate.accounting.events import Event, LeafEvent
from pate.accounting.gaussian_pairs import sampled_gaussian_rdp
from pate.accounting.special import Array
from pate.accounting.winner import winner_rdp
from pate.validation import InvalidValue, require, require_count, require_each, require_probability

DEFAULT_ORDERS: Array = 1 + np.geomspace(1e-3, 1e6, 461)
"""Orders from 1.001 to a million, 4.6% apart in a - 1."""

_REFINEMENT = 24
_MOST_COUNTED = 1000  # different events of one composition that are looked up among those before


_LONGEST = 100  # characters of a value in a `repr`


def shortened(text: str) -> str:
    """Cuts a text that is too long to be read in a line."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


class Accountant(ABC):
    """Composes events and converts what was spent into (epsilon, delta).

    Every figure is an upper bound for the adjacency that the events were made for.
    """

    name: ClassVar[str]  # as in the configuration and in reports
    # Whether its figures hold for whatever order the releases had, and not for the order that it is given alone.
    any_order: bool = False
    failure_prob: float  # the sum of the failure probabilities of what was composed

    @abstractmethod
    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event, `count` times, and returns itself; raises, and adds nothing, where it cannot price a part."""

    @abstractmethod
    def get_epsilon(self, target_delta: float) -> float:
        """The epsilon spent at `target_delta`; raises if failure probabilities alone reach that."""

    @abstractmethod
    def get_delta(self, target_epsilon: float) -> float:
        """The delta spent at `target_epsilon`, failure probabilities included, at most 1."""

    def winner(self, target_delta: float) -> str:
        """The name of the accountant whose figure `get_epsilon` returns: its own, unless it asks others."""
        return self.name

    def resolution(self, target_delta: float) -> float:
        """The relative error of `get_epsilon`, where it is searched for: nearly equal releases may differ by that."""
        return 0.0

    @property
    def parameters(self) -> dict[str, Any]:
        """What beside its name decides its figures, in JSON's types; a ledger refuses an accountant of others."""
        return {}

    def __repr__(self) -> str:
        """Its settings and what it has counted; an epsilon needs a delta, and may take seconds."""
        shown = {
            name: shortened(repr(value)) for name, value in self.parameters.items()
        } | self._counted
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in shown.items())})"

    @property
    def _counted(self) -> dict[str, str]:
        """What was composed so far, by name, as `repr` shows it."""
        return {"failure_prob": f"{self.failure_prob:g}"} if hasattr(self, "failure_prob") else {}

    def copy(self) -> Self:
        """An accountant of its own to which the same events were added."""
        return copy.deepcopy(self)

    def compose_all(self, counted: Iterable[tuple[Event, int]]) -> Self:
        """Adds events with how often each happens."""
        for event, count in counted:
            self.compose(event, count)
        return self

    def remaining_delta(self, target_delta: float) -> float:
        """What failure probabilities leave of `target_delta`, > 0, or raises."""
        left = require_probability("target_delta", target_delta) - self.failure_prob
        if left <= 0:
            rule = (
                f"a sum over all queries below target_delta, and {self.failure_prob:.3g} in all "
                f"uses up target_delta={target_delta}"
            )
            raise InvalidValue("failure_prob", rule=rule)
        return left


class RdpAccountant(Accountant):
    """Adds Renyi curves; the quickest accountant that knows every event.

    Epsilon and delta are the smallest over a grid of orders `[A]`, each > 1 (Canonne, Kamath & Steinke 2020), so every
    grid gives a valid bound. `rdp` is what has been spent at each. On the default grid the neighborhood of the best
    order is searched once more, 24 times as densely: a stability table is cheap at its own order alone. Failure
    probabilities of approximate events are taken from delta first.
    """

    name = "rdp"
    any_order = True  # curves are added

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
        """The orders, where they were given rather than refined."""
        return {} if self._refine else {"orders": self.orders.tolist()}

    @property
    def _counted(self) -> dict[str, str]:
        total = sum(sum(times) for _, times in self._spent.values())
        return {"num_events": f"{total:g}", **super()._counted}

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event `count` times, by its Renyi curve."""
        spent = count_leaves(event, count=require_count("count", count, minimum=0))
        self.rdp = self.rdp + rdp_curve(spent, self.orders)
        self.failure_prob += count * failure_probability(event)
        for kind, (parts, times) in spent.items():
            all_leaves, all_times = self._spent.setdefault(kind, ([], []))
            if len(parts) > _MOST_COUNTED:
                all_leaves += parts
                all_times += times
                continue
            # one that was there before is counted, not listed again
            for leaf, more in zip(parts, times, strict=True):
                if (place := self._places.setdefault(leaf, len(all_leaves))) < len(all_leaves):
                    all_times[place] += more
                else:
                    all_leaves.append(leaf)
                    all_times.append(more)
        return self

    def copy(self) -> Self:
        """Returns an accountant that has spent the same, and goes its own way."""
        duplicate = copy.copy(self)
        duplicate._spent = {
            kind: (parts.copy(), times.copy()) for kind, (parts, times) in self._spent.items()
        }
        duplicate._places = self._places.copy()
        return duplicate

    def get_epsilon(self, target_delta: float) -> float:
        """Returns the epsilon at the order that makes it the least."""
        return self._best(
            partial(rdp_to_epsilons, target_delta=self.remaining_delta(target_delta))
        )[0]

    def get_delta(self, target_epsilon: float) -> float:
        """Returns the delta at the order that makes it the least."""
        return min(
            1.0,
            self._best(partial(rdp_to_deltas, target_epsilon=target_epsilon))[0]
            + self.failure_prob,
        )

    def curve(self, orders: Array) -> Array:
        """What has been spent at other orders > 1, `[len(orders)]`."""
        return rdp_curve(self._spent, orders)

    def best_order(self, target_delta: float) -> float:
        """The order at which `get_epsilon` attains its value."""
        return self._best(
            partial(rdp_to_epsilons, target_delta=self.remaining_delta(target_delta))
        )[1]

    def _best(self, convert: Callable[[Array, Array], Array]) -> tuple[float, float]:
        """The smallest value that a conversion gives at any order, and that order; 0 while nothing was spent."""
        if self._spent.keys() <= {events.NoOpEvent}:
            return 0.0, float(self.orders[-1])
        best, place = self._least(convert, self.orders, self.rdp)
        if not self._refine or not 0 < best[0] < math.inf:
            return best
        low = self.orders[max(place - 1, 0)]
        high = self.orders[min(place + 1, len(self.orders) - 1)]
        near = 1 + np.geomspace(low - 1, high - 1, 2 * _REFINEMENT + 1)
        return min(best, self._least(convert, near, self.curve(near))[0], key=itemgetter(0))

    @staticmethod
    def _least(
        convert: Callable[[Array, Array], Array], orders: Array, rdp: Array
    ) -> tuple[tuple[float, float], int]:
        values = convert(orders, rdp)
        place = int(np.argmin(values))
        return (float(values[place]), float(orders[place])), place


def order_array(orders: object) -> Array:
    """Orders as an array `[A]`, or raises unless there is one and all are finite and > 1."""
    array = np.atleast_1d(np.asarray(orders, dtype=np.float64))
    require(
        array.ndim == 1 and array.size > 0,
        "orders.shape",
        array.shape,
        "[num_orders], at least one order",
    )
    require_each("orders", array, (array > 1) & np.isfinite(array), "finite numbers > 1")
    return array


class AccountantBesideRenyi(Accountant):
    """An accountant with a bound of its own that is never above the Renyi accountant's."""

    def __init__(self) -> None:
        self._rdp = RdpAccountant()
        self.failure_prob = 0.0

    @property
    def _counted(self) -> dict[str, str]:
        return self._rdp._counted | super()._counted

    def copy(self) -> Self:
        """Returns an accountant that has spent the same, and goes its own way."""
        duplicate = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, (list, dict, Accountant)):
                setattr(duplicate, name, value.copy())
        return duplicate


class LossAccountant(AccountantBesideRenyi):
    """Composes losses, of sessions those of their accesses; the least of that, of Renyi's bound and of that by hits."""

    def __init__(self) -> None:
        super().__init__()
        self._by_hits: RdpAccountant | None = None  # of everything, from the first session on

    def _compose_renyi(self, event: Event, count: int) -> None:
        """Adds an event to both Renyi bounds, or to neither."""
        accesses = by_accesses(event)
        by_hits = self._by_hits
        if by_hits is not None or accesses is not event:
            by_hits = (by_hits or self._rdp).copy().compose(event, count)
        self._rdp.compose(accesses, count)
        self._by_hits = by_hits
        self.failure_prob = self._rdp.failure_prob

    @abstractmethod
    def _epsilon(self, target_delta: float, bound: float) -> float:
        """By losses, at what failures have left of delta; infinity if not known. `bound` is Renyi's."""

    @abstractmethod
    def _delta(self, target_epsilon: float, bound: float) -> float:
        """By losses, failures apart. `bound` is Renyi's, failures apart."""

    def get_epsilon(self, target_delta: float) -> float:
        """Returns the least epsilon of those by losses, by hits and by Renyi."""
        by_hits = math.inf if self._by_hits is None else self._by_hits.get_epsilon(target_delta)
        # by overruns of accesses
        if self._by_hits is not None and self.failure_prob >= target_delta:
            return by_hits
        left = self.remaining_delta(target_delta)
        bound = min(by_hits, self._rdp.get_epsilon(target_delta))
        return min(bound, self._epsilon(left, bound)) if 0 < bound < math.inf else bound

    def get_delta(self, target_epsilon: float) -> float:
        """Returns the least delta of those by losses, by hits and by Renyi."""
        by_hits = 1.0 if self._by_hits is None else self._by_hits.get_delta(target_epsilon)
        bound = min(by_hits, self._rdp.get_delta(target_epsilon))
        if not self.failure_prob < bound < 1:
            return bound
        return min(
            bound, self._delta(target_epsilon, bound - self.failure_prob) + self.failure_prob
        )


def rdp_curve(counts: LeafCounts, orders: Array) -> Array:
    """The Renyi curve of counted events, `[len(orders)]`."""
    total = np.zeros_like(orders)
    key = orders.tobytes()
    with np.errstate(over="ignore", invalid="ignore"):
        for kind, (parts, times) in counts.items():
            numbers = np.array(times, dtype=np.float64)
            if kind is events.GaussianEvent:
                each = map(attrgetter("noise_multiplier"), parts)
                multipliers = np.fromiter(each, dtype=np.float64, count=len(parts))
                bare = bool((multipliers == 0).any())
                total += (
                    np.inf if bare else orders * math.fsum(numbers * (1 / multipliers) ** 2 / 2)
                )
            elif kind is events.ZCdpEvent:
                rhos = np.fromiter(
                    map(attrgetter("rho"), parts), dtype=np.float64, count=len(parts)
                )
                total += orders * math.fsum(numbers * rhos)
            else:
                # of an event of somebody else the curve is not known, also where it is a subclass
                require(kind in _CURVES, "event", kind.__name__, "an event with a Renyi curve")
                total += sum(
                    number * _curve(leaf, key) for leaf, number in zip(parts, numbers, strict=True)
                )
    # what double precision cannot say is charged as infinite
    return np.where(np.isnan(total), np.inf, total)


_CURVES: dict[type[Event], Callable[[Any, Array], Array]] = {
    events.NoOpEvent: lambda event, orders: np.zeros_like(orders),
    events.NonPrivateEvent: lambda event, orders: np.full_like(orders, np.inf),
    events.PureDpEvent: lambda event, orders: renyi.pure_dp_rdp(event.epsilon, orders),
    events.BoundedRangeEvent: lambda event, orders: renyi.bounded_range_rdp(event.epsilon, orders),
    **dict.fromkeys(
        (events.NoisyMaxGaussianEvent, events.OpposedMaximaEvent), renyi.noisy_max_gaussian_rdp
    ),
    events.WinnerEvent: lambda event, orders: winner_rdp(
        event.noise_multiplier, event.num_moving, orders
    ),
    events.SmoothSensitivityEvent: renyi.smooth_sensitivity_rdp,
    **dict.fromkeys((events.SessionEvent, events.BoundarySessionEvent), renyi.session_rdp),
    events.SampledGaussianEvent: sampled_gaussian_rdp,
    **dict.fromkeys((events.OneBitEvent, events.ThresholdEvent), renyi.bit_rdp),
}


@lru_cache(maxsize=2048)  # the same event comes again and again
def _curve(leaf: LeafEvent, key: bytes) -> Array:
    return _CURVES[type(leaf)](leaf, np.frombuffer(key))


def curve_of(event: Event) -> Curve:
    """The Renyi curve of an event."""
    return partial(rdp_curve, count_leaves(event))


class ZCdpAccountant(Accountant):
    """Adds the rho of every release and converts the sum, as in textbooks; its bound is larger than Renyi's.

    Every event is charged a rho with Renyi divergence at most rho * a at all orders a > 1, for its adjacency. The
    conversion is the best over all real orders (Canonne, Kamath & Steinke 2020), not the classic
    rho + 2 sqrt(rho log(1/delta)). Source: Bun & Steinke 2016; docs/proofs/zcdp.md.

    >>> from pate.accounting import GaussianEvent
    >>> round(ZCdpAccountant().compose(GaussianEvent(10.0), 20).get_epsilon(1e-6), 3)
    2.142
    """

    name = "zcdp"
    any_order = True

    def __init__(self) -> None:
        self.rho = 0.0
        self.failure_prob = 0.0

    @property
    def _counted(self) -> dict[str, str]:
        return {"rho": f"{self.rho:g}", **super()._counted}

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event `count` times, by its rho."""
        event = by_accesses(event)
        self.rho = math.fsum(
            [self.rho, total_rho(event, count=require_count("count", count, minimum=0))]
        )
        self.failure_prob += count * failure_probability(event)
        return self

    def get_epsilon(self, target_delta: float) -> float:
        """Returns the epsilon of the rho at `target_delta`."""
        left = self.remaining_delta(target_delta)
        return math.inf if math.isinf(self.rho) else zcdp_to_epsilon(self.rho, target_delta=left)

    def get_delta(self, target_epsilon: float) -> float:
        """Returns the delta of the rho at `target_epsilon`."""
        delta = zcdp_to_delta(
            min(self.rho, float(np.finfo(float).max)), target_epsilon=target_epsilon
        )
        return 1.0 if math.isinf(self.rho) else min(1.0, delta + self.failure_prob)


def total_rho(event: Event, *, count: int = 1) -> float:
    """The sum of the rhos of an event's parts."""
    return math.fsum(times * zcdp_rho(leaf) for leaf, times in leaves(event, count=count) if times)


def zcdp_rho(event: LeafEvent) -> float:
    """A rho for which the event is rho-zCDP."""
    match event:
        case events.NoOpEvent():
            return 0.0
        case events.NonPrivateEvent():
            return math.inf
        case events.ZCdpEvent():
            return event.rho
        case events.GaussianEvent():
            inverse = math.inf if event.noise_multiplier == 0 else 1 / event.noise_multiplier
            return inverse * inverse / 2
        case events.WinnerEvent():  # that of the counts: at high orders the winner costs no less
            return event.num_moving * zcdp_rho(events.GaussianEvent(event.noise_multiplier))
        case events.PureDpEvent() | events.BoundedRangeEvent():
            ratio = 2 if isinstance(event, events.PureDpEvent) else 8
            return min(event.epsilon * event.epsilon / ratio, _searched_rho(event))
        # that of all its calls; the price by hits is no multiple of the order
        case events.SessionEvent():
            return (
                event.num_calls * zcdp_rho(events.PureDpEvent(event.epsilon))
                if event.num_calls
                else 0.0
            )
        case events.BitEvent():
            return _searched_rho(event)
        case events.NoisyMaxGaussianEvent():
            if event.noise_multiplier == 0:
                return math.inf
            # Beyond the last order by the bound a D**2 / 2 + log(n) / (a - 1), D = 2 / noise_multiplier.
            shift = 2 / event.noise_multiplier
            order = float(DEFAULT_ORDERS[-1])
            beyond = shift * shift / 2 + math.log(event.num_candidates) / (order * (order - 1))
            return _searched_rho(event, beyond=beyond)
    raise InvalidValue("event", type(event).__name__, rule="an event with a zCDP price")


@lru_cache(maxsize=256)
def _searched_rho(event: LeafEvent, *, beyond: float | None = None) -> float:
    """An upper bound for r(a) / a over all a > 1, from the Renyi curve r at the accountant's orders."""
    orders = DEFAULT_ORDERS
    rdp = rdp_curve({type(event): ([event], [1])}, DEFAULT_ORDERS)
    if beyond is None:  # no divergence exceeds the largest loss
        beyond = renyi.pure_epsilon(event) / float(orders[-1])
    # (a - 1) r(a) is convex and 0 at a = 1, so it lies below its chords. On a chord c + s a the ratio is
    # -c / a + (c + s) / (a - 1), which has one maximum, at 1 - 1/a = sqrt((c + s) / c).
    with np.errstate(over="ignore"):
        moments = (orders - 1) * rdp
    if not np.isfinite(moments).all():
        return math.inf
    left = np.append(1.0, orders[:-1])
    low = np.append(0.0, moments[:-1])
    slope = (moments - low) / (orders - left)
    intercept = low - slope * left
    # both >= 0 but for rounding
    first = np.maximum(-intercept, 0.0)
    second = np.maximum(-(intercept + slope), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        peak = 1 / (1 - np.sqrt(np.divide(second, first)))
        at = np.clip(np.where(np.isfinite(peak) & (peak > 0), peak, orders), left, orders)
        ratios = (intercept + slope * at) / (at * (at - 1))
    # the first chord begins at a = 1, where it vanishes: the ratio there is its slope
    ratios[0] = rdp[0]
    return float(max(np.nanmax(ratios), (rdp / orders).max(), beyond))


def require_maker(accountant: Any) -> Callable[[], Accountant]:
    """Returns what makes an empty accountant, or raises: neither a name nor an accountant does."""
    if not callable(accountant):
        raise InvalidValue(
            "accountant", accountant, rule="a class such as pate.accounting.RdpAccountant, uncalled"
        )
    return accountant  # type: ignore[no-any-return]  # calling it tells
