"""The Renyi curve of a session that ends with its last hit: what one hit can have cost, and one call."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pate.accounting.renyi import bounded_range_rdp, pure_dp_rdp
from pate.accounting.session_event import BoundarySessionEvent, SessionEvent

Array = NDArray[np.float64]

_RELATIVE = 2.0**-40
"""Of costs of hits and calls: added, it covers the rounding of what is made without differences."""
_OF_POWERS = 2.0**-44
"""Per order: added to differences of a few powers, it covers their rounding, as powers lose digits with the order."""


def session_rdp(event: SessionEvent, orders: Array) -> Array:
    """An upper bound on every divergence between neighbors of a whole session, `[len(orders)]`.

    With `hit_cost` u and any u' from 0 to u, a call's moment is at most `1 + (u - u') call / u` where its hits weigh
    1 - u' (docs/proofs/hits.md). A session of n calls and tau hits then has a moment of at most
    (1 + (u - u') call / u)**n (1 - u')**-tau. The best u' is a quotient; 0 is plain composition, and u the price by
    hits alone, whatever the number of calls.

    Args:
        event: the session.
        orders: > 1.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        whole, call = hit_cost(event, orders), call_cost(event, orders)
        limited = whole < 1
        most = np.where(limited, whole, 0.0)
        by_hits = np.where(limited, _of_hits(event, most), np.inf)
        if math.isinf(event.num_calls):
            return np.asarray(by_hits / (orders - 1))
        per_cost = np.where(limited, call / whole, 0.0)
        weight = event.target_hits * (1 - (1 - most) * per_cost) / (per_cost * (event.num_calls - event.target_hits))
        less = np.clip(np.nan_to_num(1 - weight, nan=0.0), 0.0, most)
        between = event.num_calls * np.log1p((most - less) * per_cost) * (1 + _RELATIVE) + _of_hits(event, less)
        by_order = (orders - 1) * pure_dp_rdp(event.epsilon, orders)  # finite where a moment is not
        plain = event.num_calls * np.fmin(np.log1p(call), by_order) * (1 + _RELATIVE)
        best = np.fmin(np.fmin(by_hits, plain), np.where(limited, between, np.inf))
        return np.asarray(best / (orders - 1))


def hit_cost(event: SessionEvent, orders: Array) -> Array:
    """The largest u for which some call has a moment above 1 although its hits weigh 1 - u, from above.

    `[len(orders)]`; at 1 and beyond, hits do not limit a session at that order.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # of orders at which hits limit nothing
        cost = _target_cost(event.epsilon, event.hit_prob, orders)
        if isinstance(event, BoundarySessionEvent):
            of_call = _range_cost if event.bounded_range else _pure_cost
            cost = np.fmin(cost, of_call(event.call_epsilon, orders))
    return np.asarray(np.where(np.isnan(cost), np.inf, cost))


def call_cost(event: SessionEvent, orders: Array) -> Array:
    """The largest moment of one call less 1, from above: `[len(orders)]`."""
    with np.errstate(over="ignore", invalid="ignore"):
        cost = _excess(pure_dp_rdp(event.epsilon, orders), orders)
        if isinstance(event, BoundarySessionEvent) and event.bounded_range:
            cost = np.fmin(cost, _range_call_cost(event.call_epsilon, orders))
        elif isinstance(event, BoundarySessionEvent):
            cost = np.fmin(cost, _excess(bounded_range_rdp(2 * event.call_epsilon, orders), orders))
    return np.asarray(cost)


def _target_cost(epsilon: float, hit_prob: float, orders: Array) -> Array:
    """Of any q-target of epsilon-DP accesses."""
    least = min(hit_prob, 1 / (math.exp(epsilon) + 1))
    excess = _excess(pure_dp_rdp(epsilon, orders), orders)
    return np.asarray(excess * np.exp((orders - 1) * epsilon) / least * (1 + _RELATIVE))


def _range_cost(epsilon: float, orders: Array) -> Array:
    """Of a boundary around calls of a bounded range: rare alternatives to a nearly certain outcome, or near ties."""
    gained, lost = (orders - 1) * epsilon, (orders - 1) * math.expm1(epsilon)
    rare = np.where(lost < 1, -2 * np.expm1(gained + np.log1p(-np.where(lost < 1, lost, 0))), np.inf)
    rare = rare * (1 + _RELATIVE) + 2.0**-48 * (gained + lost)
    return np.maximum(
        rare, _tie_cost(_excess(bounded_range_rdp(epsilon, orders), orders), 1 / (math.exp(epsilon) + 1), orders)
    )


def _pure_cost(epsilon: float, orders: Array) -> Array:
    """Of a boundary around calls of pure DP; infinite at orders for which it is not proved."""
    least = math.exp(-epsilon) / 2
    inside, outside = _weighed(0.5, 1 - least, orders), _weighed(1.5, 1 + least, orders)
    rises = 2 - (_weighed(1 + least, 1.5, orders) - _weighed(1 - least, 0.5, orders)) / _weighed(least, 0.5, orders)
    falls = 2 - (outside - inside) / _weighed(0.5, least, orders)
    ties = _tie_cost(_excess(pure_dp_rdp(epsilon, orders), orders), least, orders)
    rounding = _OF_POWERS * orders
    cost = np.maximum(ties, np.maximum(rises, falls) + rounding)
    concave = (orders - 2) * math.atanh(0.5) <= (orders + 1) * math.atanh(least) * (1 - _RELATIVE)
    convex = outside / (1 + least) ** 2 * (1 + _RELATIVE + rounding) <= inside / (1 - least) ** 2 + 2 * (1 - cost)
    return np.where(concave & convex & (cost < 1), cost, np.inf)


def _tie_cost(excess: Array, least: float, orders: Array) -> Array:
    """Of calls with no outcome that is likelier than all others together for both neighbors.

    Args:
        excess: the call's largest moment less 1.
        least: of the boundary's weight in such calls, which is 1/2 at most.
        orders: > 1.
    """
    corners = [_short(excess, *at, orders) / _weighed(*at, orders) for at in ((0.5, least), (least, 0.5))]
    return np.maximum(excess / least * (1 + _RELATIVE), np.maximum(*corners) + _OF_POWERS * orders)


def _range_call_cost(epsilon: float, orders: Array) -> Array:
    """The excess moment of a wrapped call of a bounded range: that of the call, or of near ties if it is larger."""
    excess, least = _excess(bounded_range_rdp(epsilon, orders), orders), 1 / (math.exp(epsilon) + 1)
    corners = [
        _short(excess, one, other, orders) / _weighed(1 + one, 1 + other, orders)
        for one, other in ((0.5, least), (least, 0.5))
    ]
    return np.maximum(excess, np.maximum(*corners) + _OF_POWERS * orders)


def _short(excess: Array, one: float, other: float, orders: Array) -> Array:
    """By how much a call's moment and the boundary's, before both are divided by their sum, exceed the sum's."""
    return 1 + excess + _weighed(one, other, orders) - _weighed(1 + one, 1 + other, orders)


def _weighed(one: float, other: float, orders: Array) -> Array:
    """one**a * other**(1 - a)."""
    return np.asarray(np.exp(orders * math.log(one) + (1 - orders) * math.log(other)))


def _excess(divergence: Array, orders: Array) -> Array:
    """A moment less 1, from a Renyi divergence."""
    return np.asarray(np.expm1((orders - 1) * divergence) * (1 + _RELATIVE))


def _of_hits(event: SessionEvent, cost: Array) -> Array:
    """The log-moment that all hits together may take, each weighed by 1 - cost."""
    return np.asarray(-event.target_hits * np.log1p(-cost) * (1 + _RELATIVE))
