"""The zCDP accountant: adds one number, rho, and converts once."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting import events
from pate.accounting.accountant import Accountant
from pate.accounting.conversion import zcdp_to_delta, zcdp_to_epsilon
from pate.accounting.events import Event, LeafEvent, by_accesses, failure_probability, leaves
from pate.accounting.rdp import DEFAULT_ORDERS, rdp_curve
from pate.accounting.renyi import pure_epsilon
from pate.validation import InvalidValue, require_count

Array = NDArray[np.float64]


class ZCdpAccountant(Accountant):
    """Adds the rho of every release and converts the sum, as in textbooks; its bound is larger than Renyi's.

    Formal guarantees, for the adjacency that the events were made for:
        * Every event is charged a rho with Renyi divergence at most rho * a at all orders a > 1 (`zcdp_rho`).
        * The conversion is the best over all real orders (Canonne, Kamath & Steinke 2020), not the classic
          rho + 2 sqrt(rho log(1/delta)).

    Attributes:
        rho: what has been spent.

    Source: Bun & Steinke 2016; docs/proofs/zcdp.md.

    >>> from pate.accounting import GaussianEvent
    >>> round(ZCdpAccountant().compose(GaussianEvent(10.0), 20).get_epsilon(1e-6), 3)
    2.142
    """

    name = "zcdp"

    def __init__(self) -> None:
        self.rho = 0.0
        self.failure_prob = 0.0

    def compose(self, event: Event, count: int = 1) -> Self:
        event = by_accesses(event)
        rho = total_rho(event, count=require_count("count", count, minimum=0))
        self.failure_prob += count * failure_probability(event)
        self.rho = math.fsum([self.rho, rho])
        return self

    def get_epsilon(self, target_delta: float) -> float:
        left = self.remaining_delta(target_delta)
        return math.inf if math.isinf(self.rho) else zcdp_to_epsilon(self.rho, target_delta=left)

    def get_delta(self, target_epsilon: float) -> float:
        delta = zcdp_to_delta(min(self.rho, float(np.finfo(float).max)), target_epsilon=target_epsilon)
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
        case events.PureDpEvent():
            return min(event.epsilon * event.epsilon / 2, _searched_rho(event))
        case events.SessionEvent():  # that of all its calls; the price by hits is no multiple of the order
            return event.num_calls * zcdp_rho(events.PureDpEvent(event.epsilon)) if event.num_calls else 0.0
        case events.BoundedRangeEvent():
            return min(event.epsilon * event.epsilon / 8, _searched_rho(event))
        case events.BitEvent():
            return _searched_rho(event)
        case events.NoisyMaxGaussianEvent():
            if event.noise_multiplier == 0:
                return math.inf
            # Beyond the last order by the bound a D**2 / 2 + log(n) / (a - 1), D = 2 / noise_multiplier.
            shift, order = 2 / event.noise_multiplier, float(DEFAULT_ORDERS[-1])
            beyond = shift * shift / 2 + math.log(event.num_candidates) / (order * (order - 1))
            return _searched_rho(event, beyond=beyond)
    raise InvalidValue(f"event={type(event).__name__}: expected an event with a zCDP price")


@lru_cache(maxsize=256)
def _searched_rho(event: LeafEvent, *, beyond: float | None = None) -> float:
    """The ratio over the accountant's orders; beyond the last one no divergence exceeds the largest loss."""
    rdp = rdp_curve({type(event): ([event], [1])}, DEFAULT_ORDERS)
    tail = pure_epsilon(event) / float(DEFAULT_ORDERS[-1]) if beyond is None else beyond
    return largest_ratio(DEFAULT_ORDERS, rdp, beyond=tail)


def largest_ratio(orders: Array, rdp: Array, *, beyond: float) -> float:
    """An upper bound for r(a) / a over all a > 1, from the values of a Renyi curve at some orders."""
    # (a - 1) r(a) is convex and 0 at a = 1, so it lies below its chords. On a chord c + s a the ratio is
    # -c / a + (c + s) / (a - 1), which has one maximum, at 1 - 1/a = sqrt((c + s) / c).
    with np.errstate(over="ignore"):
        moments = (orders - 1) * rdp
    if not np.isfinite(moments).all():
        return math.inf
    left, right = np.append(1.0, orders[:-1]), orders
    low = np.append(0.0, moments[:-1])
    slope = (moments - low) / (right - left)
    intercept = low - slope * left
    first, second = np.maximum(-intercept, 0.0), np.maximum(-(intercept + slope), 0.0)  # both >= 0 but for rounding
    with np.errstate(divide="ignore", invalid="ignore"):
        peak = 1 / (1 - np.sqrt(np.divide(second, first)))
    at = np.clip(np.where(np.isfinite(peak) & (peak > 0), peak, right), left, right)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = (intercept + slope * at) / (at * (at - 1))
    ratios[0] = rdp[0]  # the first chord begins at a = 1, where it vanishes: the ratio there is its slope
    return float(max(np.nanmax(ratios), (rdp / orders).max(), beyond))
