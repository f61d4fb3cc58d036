"""Conversions between notions of privacy: Renyi, zero-concentrated, and (epsilon, delta).

Every function returns an upper bound on what it names. The formula `rho + sqrt(2 rho log(1/delta))` printed as
Theorem 11 of Zhu & Wang (2022) is false and deliberately absent (docs/proofs/conversion.md).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pate.accounting.exact.gaussian import gaussian_delta as gaussian_delta  # a conversion like the others
from pate.accounting.exact.gaussian import gaussian_epsilon as gaussian_epsilon
from pate.validation import require_non_negative, require_probability

Array = NDArray[np.float64]

_LARGEST_EXPONENT = 700.0
_LARGEST_RHO = 1e20  # beyond it the best order cannot be told from 1
_SMALLEST_RHO = 1e-290  # a smaller one is rounded up: the best order would be none that a float holds


def rdp_to_epsilons(orders: Array, rdp: Array, *, target_delta: float) -> Array:
    """The epsilon that each order alone gives: `[len(orders)]`, the smallest is a valid bound.

    epsilon = rdp + log(1 - 1/a) - (log delta + log a) / (a - 1), floored at 0 (Canonne, Kamath & Steinke 2020,
    Proposition 12; Balle et al. 2020). Never above the classic rdp + log(1/delta) / (a - 1).
    """
    return np.maximum(rdp + conversion_penalty(orders, target_delta=target_delta), 0.0)


def conversion_penalty(orders: Array, *, target_delta: float) -> Array:
    """What each order adds to its Renyi divergence to make an epsilon: `[len(orders)]`, falling in the order."""
    require_probability("target_delta", target_delta)
    return np.log1p(-1 / orders) - (math.log(target_delta) + np.log(orders)) / (orders - 1)


def rdp_to_deltas(orders: Array, rdp: Array, *, target_epsilon: float) -> Array:
    """The delta that each order alone gives at an epsilon: `[len(orders)]`, at most 1."""
    require_non_negative("target_epsilon", target_epsilon)
    with np.errstate(over="ignore"):
        log_delta = (orders - 1) * (rdp - target_epsilon + np.log1p(-1 / orders)) - np.log(orders)
    return np.exp(np.minimum(log_delta, 0.0))


def rdp_to_hockey_sticks(orders: Array, rdp: Array, *, epsilons: Array) -> Array:
    """The smallest such delta over the orders for each of several epsilons, of either sign: `[len(epsilons)]`."""
    log_deltas = (orders - 1) * (rdp - epsilons[:, None] + np.log1p(-1 / orders)) - np.log(orders)  # [E, A]
    return np.asarray(np.exp(np.minimum(log_deltas.min(axis=1), 0.0)))


def rdp_to_epsilons_classic(orders: Array, rdp: Array, *, target_delta: float) -> Array:
    """The epsilon of each order by the classic rdp + log(1/delta) / (a - 1) of Mironov (2017): valid, looser."""
    require_probability("target_delta", target_delta)
    return np.asarray(rdp + math.log(1 / target_delta) / (orders - 1))


def zcdp_to_epsilon(rho: float, *, target_delta: float) -> float:
    """The best epsilon of a rho-zCDP release over all real orders.

    Args:
        rho: >= 0.
        target_delta: in (0, 1).
    """
    require_non_negative("rho", rho)
    require_probability("target_delta", target_delta)
    if rho == 0:
        return 0.0
    if rho > _LARGEST_RHO:
        return zcdp_to_epsilon_classic(rho, target_delta=target_delta)
    from scipy.optimize import minimize_scalar  # loads slowly

    rho = max(rho, _SMALLEST_RHO)
    log_excess = math.log(math.sqrt(math.log(1 / target_delta) / rho))

    def epsilon(log_order_less_one: float) -> float:
        order = np.array([1 + math.exp(log_order_less_one)])
        return float(rdp_to_epsilons(order, rho * order, target_delta=target_delta)[0])

    best = minimize_scalar(epsilon, bounds=(log_excess - 8, log_excess + 3), method="bounded", options={"xatol": 1e-10})
    return float(best.fun)


def zcdp_to_delta(rho: float, *, target_epsilon: float) -> float:
    """The best delta of a rho-zCDP release over all real orders: `zcdp_to_epsilon` read the other way round.

    1 where rho is above 1e20.

    Args:
        rho: >= 0.
        target_epsilon: >= 0.
    """
    require_non_negative("rho", rho)
    require_non_negative("target_epsilon", target_epsilon)
    if rho == 0 or rho > _LARGEST_RHO:
        return float(rho > 0)
    from scipy.optimize import minimize_scalar  # loads slowly

    rho = max(rho, _SMALLEST_RHO)

    def log_delta(log_order_less_one: float) -> float:  # convex in the order, so it has one minimum
        less_one = math.exp(log_order_less_one)
        order = 1 + less_one
        share = log_order_less_one - math.log(order) if less_one < 1 else math.log1p(-1 / order)
        return less_one * (rho * order - target_epsilon + share) - math.log(order)

    highest = math.log(target_epsilon + rho + 1) - math.log(2 * rho) + 1
    best = minimize_scalar(
        log_delta, bounds=(-40.0, min(max(highest, 1.0), _LARGEST_EXPONENT)), method="bounded", options={"xatol": 1e-10}
    )
    return math.exp(min(float(best.fun), 0.0))


def zcdp_to_epsilon_classic(rho: float, *, target_delta: float) -> float:
    """The simple bound rho + 2 sqrt(rho log(1/delta)) of Bun & Steinke (2016): valid, looser.

    Args:
        rho: >= 0.
        target_delta: in (0, 1).
    """
    require_non_negative("rho", rho)
    require_probability("target_delta", target_delta)
    return rho + 2 * math.sqrt(rho * math.log(1 / target_delta))
