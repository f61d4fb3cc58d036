"""The Renyi curve of a session under target charging, computed from the number of its hits.

`pate.accounting.q_targets` explains calls, accesses and hits. Fix the order a > 1 and two neighbors, and let P and Q be
the distributions of the outcome of a call. Let M be the sum of P^a Q^(1-a) over all outcomes that are not hits, and H
the sum over all hits. Two numbers bound all calls that a session may make:

    hit cost u    The smallest number with M + (1 - u) H <= 1 for every call.
    call cost s   The smallest number with M + H <= 1 + s for every call.

A session of n calls that ends with hit number tau has, for every u' between 0 and u, a moment of at most

    (1 + (u - u') s / u)^n (1 - u')^-tau.

With u' = u this is the price by hits alone, for any number of calls. With u' = 0 it is the composition of n calls. The
u' with the smallest moment has a closed form (docs/proofs/hits.md).
"""

import math

import numpy as np

from pate.accounting import events
from pate.accounting.events import SessionEvent
from pate.accounting.renyi import bounded_range_rdp, pure_dp_rdp
from pate.array_types import FloatArray

# The relative rounding error of a cost that is computed without differences.
_COST_ROUNDING = 2.0**-40
# The rounding error of a difference of a few powers, divided by the order, because powers lose digits with the order.
_POWER_ROUNDING = 2.0**-44
# The rounding error of the cost where one outcome is nearly certain, relative to its exponents.
_RARE_ROUNDING = 2.0**-48


def session_rdp(session_event: SessionEvent, orders: FloatArray) -> FloatArray:
    """Returns an upper bound on the Renyi curve of a whole session under target charging, `[num_orders]`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        hit_costs = hit_cost(session_event, orders)
        call_costs = call_cost(session_event, orders)
        hits_limit_price = hit_costs < 1  # at other orders the number of hits limits nothing
        limiting_hit_costs = np.where(hits_limit_price, hit_costs, 0.0)
        log_moment_by_hits = np.where(
            hits_limit_price,
            _log_moment_of_hits(session_event, hit_costs=limiting_hit_costs),
            np.inf,
        )
        if math.isinf(session_event.num_calls):
            return np.asarray(log_moment_by_hits / (orders - 1))
        call_cost_per_hit_cost = np.where(hits_limit_price, call_costs / hit_costs, 0.0)
        # The derivative of the log moment in u' vanishes at u' = 1 - weight_of_hits.
        weight_of_hits = (
            session_event.target_hits
            * (1 - (1 - limiting_hit_costs) * call_cost_per_hit_cost)
            / (call_cost_per_hit_cost * (session_event.num_calls - session_event.target_hits))
        )
        best_hit_costs = np.clip(
            np.nan_to_num(1 - weight_of_hits, nan=0.0), 0.0, limiting_hit_costs
        )
        log_moment_of_calls = session_event.num_calls * np.log1p(
            (limiting_hit_costs - best_hit_costs) * call_cost_per_hit_cost
        )
        log_moment_by_both = log_moment_of_calls * (1 + _COST_ROUNDING) + _log_moment_of_hits(
            session_event, hit_costs=best_hit_costs
        )
        # The bound (a - 1) D_a of one call is finite also where its moment exceeds the largest float.
        log_moment_of_call = np.fmin(
            np.log1p(call_costs), (orders - 1) * pure_dp_rdp(session_event.epsilon, orders)
        )
        log_moment_by_calls = session_event.num_calls * log_moment_of_call * (1 + _COST_ROUNDING)
        log_moment = np.fmin(
            np.fmin(log_moment_by_hits, log_moment_by_calls),
            np.where(hits_limit_price, log_moment_by_both, np.inf),
        )
        return np.asarray(log_moment / (orders - 1))


def _log_moment_of_hits(session_event: SessionEvent, hit_costs: FloatArray) -> FloatArray:
    """Returns the logarithm of (1 - cost)^-tau, rounded up, `[num_orders]`.

    Args:
        session_event: the session, which ends with hit number tau.
        hit_costs: a part of the hit cost (`hit_cost`) for each order, in [0, 1), `[num_orders]`.
    """
    return np.asarray(-session_event.target_hits * np.log1p(-hit_costs) * (1 + _COST_ROUNDING))


def hit_cost(session_event: SessionEvent, orders: FloatArray) -> FloatArray:
    """Returns an upper bound on the hit cost u of the calls of a session at each order a, `[num_orders]`.

    Let M be the sum of P^a Q^(1-a) over all outcomes of a call that are no hits, and H the sum over all hits, with P
    and Q the distributions on two neighbors. The hit cost is the smallest number with M + (1 - u) H <= 1 for every
    call.

    For q-targets the bound is (S - 1) e^((a - 1) t) / q, where t is the epsilon of an access, S the largest sum of
    P^a Q^(1-a) of a t-DP pair, and q is replaced by 1 / (e^t + 1) where it is larger. For calls in the boundary wrapper
    it is the smaller of that and of a bound for this wrapper.
    """
    # Costs overflow at orders where the number of hits limits nothing.
    with np.errstate(over="ignore", invalid="ignore"):
        q = min(session_event.hit_prob, 1 / (math.exp(session_event.epsilon) + 1))
        excess_moment = _excess_moment(pure_dp_rdp(session_event.epsilon, orders), orders)
        hit_costs = (
            excess_moment * np.exp((orders - 1) * session_event.epsilon) / q * (1 + _COST_ROUNDING)
        )
        if isinstance(session_event, events.BoundarySessionEvent):
            if session_event.bounded_range:
                hit_costs_of_wrapper = _bounded_range_hit_cost(session_event.call_epsilon, orders)
            else:
                hit_costs_of_wrapper = _pure_dp_hit_cost(session_event.call_epsilon, orders)
            hit_costs = np.fmin(hit_costs, hit_costs_of_wrapper)
    return np.asarray(np.where(np.isnan(hit_costs), np.inf, hit_costs))


def call_cost(session_event: SessionEvent, orders: FloatArray) -> FloatArray:
    """Returns an upper bound on the call cost s of the calls of a session at each order a, `[num_orders]`.

    The call cost is the largest sum of P^a Q^(1-a) over all outcomes of a call, less 1, with P and Q the distributions
    on two neighbors.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        call_costs = _excess_moment(pure_dp_rdp(session_event.epsilon, orders), orders)
        if isinstance(session_event, events.BoundarySessionEvent) and session_event.bounded_range:
            # A wrapped call of a bounded range: the cost of the call, or that of near ties if it is larger.
            loss_range = session_event.call_epsilon
            unwrapped_call_cost = _excess_moment(bounded_range_rdp(loss_range, orders), orders)
            smallest_rest_prob = 1 / (math.exp(loss_range) + 1)
            near_tie_cost = _largest_corner(
                excess_moment=unwrapped_call_cost,
                smallest_rest_prob=smallest_rest_prob,
                orders=orders,
                denominator_offset=1,
            )
            call_costs = np.fmin(call_costs, np.maximum(unwrapped_call_cost, near_tie_cost))
        elif isinstance(session_event, events.BoundarySessionEvent):
            # A wrapped call of epsilon-DP has a range of 2 epsilon.
            range_rdp = bounded_range_rdp(2 * session_event.call_epsilon, orders)
            call_costs = np.fmin(call_costs, _excess_moment(range_rdp, orders))
    return np.asarray(call_costs)


def _bounded_range_hit_cost(loss_range: float, orders: FloatArray) -> FloatArray:
    """Returns a bound on the cost `hit_cost` of calls with a bounded range in the boundary wrapper, `[num_orders]`.

    With g = e^epsilon it is the larger of two costs: 2 - 2 g^(a-1) (a - (a-1) g), where one outcome is nearly certain,
    and the cost where no outcome has a probability of 1/2 or more on both neighbors (`_tie_cost`).

    Args:
        loss_range: the range of one call before it is wrapped.
        orders: a > 1, `[num_orders]`.
    """
    exponent = (orders - 1) * loss_range
    # a - (a - 1) g = 1 - (a - 1) (g - 1)
    decrease = (orders - 1) * math.expm1(loss_range)
    is_factor_positive = decrease < 1
    log_factor = np.log1p(-np.where(is_factor_positive, decrease, 0))
    rare_costs = np.where(is_factor_positive, -2 * np.expm1(exponent + log_factor), np.inf)
    rare_costs = rare_costs * (1 + _COST_ROUNDING) + _RARE_ROUNDING * (exponent + decrease)
    excess_moment = _excess_moment(bounded_range_rdp(loss_range, orders), orders)
    return np.maximum(
        rare_costs,
        _tie_cost(excess_moment, smallest_rest_prob=1 / (math.exp(loss_range) + 1), orders=orders),
    )


def _pure_dp_hit_cost(epsilon: float, orders: FloatArray) -> FloatArray:
    """Returns a bound on the hit cost (`hit_cost`) of epsilon-DP calls in the boundary wrapper, `[num_orders]`.

    The cost is max(rise, fall, tie) of docs/proofs/hits.md, with b = e^-epsilon / 2 and w(x, y) = x^a y^(1-a). What
    rises or falls between neighbors is the probability of all outcomes but the likeliest. The bound is infinite at
    orders for which the proof does not hold, and where it would be 1 or more.

    Args:
        epsilon: the epsilon of one call before it is wrapped.
        orders: a > 1, `[num_orders]`.
    """
    smallest_rest_prob = math.exp(-epsilon) / 2
    inside = _product_of_powers(p_base=0.5, q_base=1 - smallest_rest_prob, orders=orders)
    outside = _product_of_powers(p_base=1.5, q_base=1 + smallest_rest_prob, orders=orders)
    rising_rest_costs = 2 - (
        _product_of_powers(p_base=1 + smallest_rest_prob, q_base=1.5, orders=orders)
        - _product_of_powers(p_base=1 - smallest_rest_prob, q_base=0.5, orders=orders)
    ) / _product_of_powers(p_base=smallest_rest_prob, q_base=0.5, orders=orders)
    falling_rest_costs = 2 - (outside - inside) / _product_of_powers(
        p_base=0.5, q_base=smallest_rest_prob, orders=orders
    )
    excess_moment = _excess_moment(pure_dp_rdp(epsilon, orders), orders=orders)
    tie_costs = _tie_cost(excess_moment, smallest_rest_prob=smallest_rest_prob, orders=orders)
    rounding = _POWER_ROUNDING * orders
    hit_costs = np.maximum(tie_costs, np.maximum(rising_rest_costs, falling_rest_costs) + rounding)
    # The two conditions of the proof: D is concave, and F is convex.
    is_concave = (orders - 2) * math.atanh(0.5) <= (orders + 1) * math.atanh(smallest_rest_prob) * (
        1 - _COST_ROUNDING
    )
    is_convex = outside / (1 + smallest_rest_prob) ** 2 * (
        1 + _COST_ROUNDING + rounding
    ) <= inside / (1 - smallest_rest_prob) ** 2 + 2 * (1 - hit_costs)
    return np.where(is_concave & is_convex & (hit_costs < 1), hit_costs, np.inf)


def _tie_cost(
    excess_moment: FloatArray, smallest_rest_prob: float, orders: FloatArray
) -> FloatArray:
    """Returns the number `tie` of docs/proofs/hits.md, `[num_orders]`.

    It bounds the hit cost of wrapped calls in which no outcome has a probability of 1/2 or more under both P and Q.

    Args:
        excess_moment: the largest moment E_Q[(P/Q)^a] of the call before it is wrapped, less 1, `[num_orders]`.
        smallest_rest_prob: the number b of that proof: in such calls all outcomes but the likeliest have at least this
            probability together.
        orders: a > 1, `[num_orders]`.
    """
    corner_costs = _largest_corner(
        excess_moment=excess_moment,
        smallest_rest_prob=smallest_rest_prob,
        orders=orders,
        denominator_offset=0,
    )
    return np.asarray(
        np.maximum(excess_moment / smallest_rest_prob * (1 + _COST_ROUNDING), corner_costs)
    )


def _largest_corner(
    excess_moment: FloatArray,
    smallest_rest_prob: float,
    orders: FloatArray,
    *,
    denominator_offset: int,
) -> FloatArray:
    """Returns the larger of k(1/2, b) and k(b, 1/2), rounded up, `[num_orders]`.

    Here k(x, y) = (S + w(x, y) - w(1 + x, 1 + y)) / w(denominator_offset + x, denominator_offset + y), with
    S = 1 + excess_moment and w(p, q) = p^a q^(1 - a).

    Args:
        excess_moment: the largest moment E_Q[(P/Q)^a] of the call before it is wrapped, less 1, `[num_orders]`.
        smallest_rest_prob: the number b of docs/proofs/hits.md, as in `_tie_cost`.
        orders: a > 1, `[num_orders]`.
        denominator_offset: 0 for the hit cost, 1 for the call cost, as docs/proofs/hits.md derives them.
    """
    corner_costs = [
        (
            1
            + excess_moment
            + _product_of_powers(p_base=x, q_base=y, orders=orders)
            - _product_of_powers(p_base=1 + x, q_base=1 + y, orders=orders)
        )
        / _product_of_powers(
            p_base=denominator_offset + x, q_base=denominator_offset + y, orders=orders
        )
        for x, y in ((0.5, smallest_rest_prob), (smallest_rest_prob, 0.5))
    ]
    return np.asarray(np.maximum(corner_costs[0], corner_costs[1]) + _POWER_ROUNDING * orders)


def _product_of_powers(p_base: float, q_base: float, orders: FloatArray) -> FloatArray:
    """Returns w(p, q) = p^a q^(1 - a) of the bases p and q for each order a, `[num_orders]`."""
    return np.asarray(np.exp(orders * math.log(p_base) + (1 - orders) * math.log(q_base)))


def _excess_moment(rdp: FloatArray, orders: FloatArray) -> FloatArray:
    """Returns e^((a - 1) D_a) - 1, rounded up, `[num_orders]`, given the Renyi divergences D_a as `rdp`."""
    return np.asarray(np.expm1((orders - 1) * rdp) * (1 + _COST_ROUNDING))
