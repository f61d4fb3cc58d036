"""Conversions between notions of privacy: Renyi, zero-concentrated, Gaussian, and (epsilon, delta).

Every function returns an upper bound on what it names. The formula `rho + sqrt(2 rho log(1/delta))` printed as
Theorem 11 of Zhu & Wang (2022) is false and deliberately absent (docs/proofs/conversion.md).
"""

import math
from collections.abc import Callable

import numpy as np

from pate.accounting.special import Array, few_erfcx, few_ndtr, gauss_legendre
from pate.validation import require_choice, require_non_negative, require_probability

Curve = Callable[[Array], Array]
"""Renyi divergences as a function of the orders, `[A]` each."""

_ORDERS_OF_PAPERS: Array = 1 + np.geomspace(1e-3, 1e4, 4001)  # 0.4% apart
_LARGEST_EXPONENT = 700.0
_LARGEST_RHO = 1e20  # beyond it the best order cannot be told from 1
# a smaller one is rounded up: the best order would be none that a float holds
_SMALLEST_RHO = 1e-290
_NODES = 12
_SMALL_MU = 0.5  # up to here the difference of Mills ratios is integrated
_LEFT = -5.0  # farther left the first probability is nearly 1, and nothing cancels
_FAR = 50.0  # farther right 1 - x R(x) has too few digits; there its bound 1 / x**2 will do
_FARTHEST = 40.0  # of thresholds; beyond, delta is below any double
_ULP = 2.0**-52
_ROUNDING = 2.0**-49  # relative, of the final products


def rdp_to_epsilons(orders: Array, rdp: Array, *, target_delta: float) -> Array:
    """The epsilon that each order alone gives: `[len(orders)]`, the smallest is a valid bound."""
    return np.maximum(rdp + conversion_penalty(orders, target_delta=target_delta), 0.0)


def conversion_penalty(orders: Array, *, target_delta: float) -> Array:
    """What each order adds to its Renyi divergence to make an epsilon: `[len(orders)]`, falling in the order."""
    # Canonne, Kamath & Steinke 2020, Proposition 12; Balle et al. 2020. Never above the classic log(1/delta) / (a - 1).
    require_probability("target_delta", target_delta)
    return np.log1p(-1 / orders) - (math.log(target_delta) + np.log(orders)) / (orders - 1)


def rdp_to_deltas(orders: Array, rdp: Array, *, target_epsilon: float) -> Array:
    """The delta that each order alone gives at an epsilon: `[len(orders)]`, at most 1."""
    require_non_negative("target_epsilon", target_epsilon)
    with np.errstate(over="ignore"):
        log_delta = (orders - 1) * (rdp - target_epsilon + np.log1p(-1 / orders)) - np.log(orders)
    return np.exp(np.minimum(log_delta, 0.0))


def converted(curve: Curve, *, count: int, target_delta: float, conversion: str) -> float:
    """The smallest epsilon of `count` releases with that Renyi curve, as papers print it: never a guarantee.

    The classic conversion is rdp + log(1/delta) / (a - 1) of Mironov (2017), valid and looser than the tight one.
    """
    require_choice("conversion", conversion, ("classic", "tight"))
    require_probability("target_delta", target_delta)
    orders = _ORDERS_OF_PAPERS
    rdp = count * curve(_ORDERS_OF_PAPERS)
    if conversion == "tight":
        return float(rdp_to_epsilons(orders, rdp, target_delta=target_delta).min())
    return float((rdp + math.log(1 / target_delta) / (orders - 1)).min())


def zcdp_to_epsilon(rho: float, *, target_delta: float) -> float:
    """The best epsilon of a rho-zCDP release, rho >= 0, over all real orders."""
    require_non_negative("rho", rho)
    require_probability("target_delta", target_delta)
    if rho == 0:
        return 0.0
    if rho > _LARGEST_RHO:
        return zcdp_to_epsilon_classic(rho, target_delta=target_delta)
    rho = max(rho, _SMALLEST_RHO)

    def epsilon(log_order_less_one: float) -> float:
        order = np.array([1 + math.exp(log_order_less_one)])
        return float(rdp_to_epsilons(order, rho * order, target_delta=target_delta)[0])

    log_excess = math.log(math.sqrt(math.log(1 / target_delta) / rho))
    return _least(epsilon, log_excess - 8, log_excess + 3)


def zcdp_to_delta(rho: float, *, target_epsilon: float) -> float:
    """The best delta of a rho-zCDP release over all real orders: `zcdp_to_epsilon` read the other way round."""
    require_non_negative("rho", rho)
    require_non_negative("target_epsilon", target_epsilon)
    if rho == 0 or rho > _LARGEST_RHO:
        return float(rho > 0)
    rho = max(rho, _SMALLEST_RHO)

    def log_delta(log_order_less_one: float) -> float:  # convex in the order, so it has one minimum
        less_one = math.exp(log_order_less_one)
        order = 1 + less_one
        share = log_order_less_one - math.log(order) if less_one < 1 else math.log1p(-1 / order)
        return less_one * (rho * order - target_epsilon + share) - math.log(order)

    highest = math.log(target_epsilon + rho + 1) - math.log(2 * rho) + 1
    return math.exp(min(_least(log_delta, -40.0, min(max(highest, 1.0), _LARGEST_EXPONENT)), 0.0))


def _least(function: Callable[[float], float], low: float, high: float) -> float:
    from scipy.optimize import minimize_scalar  # loads slowly

    return float(
        minimize_scalar(
            function, bounds=(low, high), method="bounded", options={"xatol": 1e-10}
        ).fun
    )


def zcdp_to_epsilon_classic(rho: float, *, target_delta: float) -> float:
    """The simple bound rho + 2 sqrt(rho log(1/delta)) of Bun & Steinke (2016): valid, looser."""
    require_non_negative("rho", rho)
    require_probability("target_delta", target_delta)
    return rho + 2 * math.sqrt(rho * math.log(1 / target_delta))


def gaussian_delta(mu: float, *, epsilon: float) -> float:
    """The exact delta of a Gaussian release with mu = l2 sensitivity / noise std (Balle & Wang 2018), rounded up."""
    require_non_negative("mu", mu)
    require_non_negative("epsilon", epsilon)
    if mu == 0:
        return 0.0
    lost = (epsilon / mu + mu / 2) * _ULP  # by the place of the threshold
    place = epsilon / mu - mu / 2 - lost
    if math.isnan(place):
        return 1.0
    log_delta = _log_delta(mu, place) if place < _FARTHEST else -math.inf
    return min(math.nextafter(math.exp(min(log_delta, 0.0)), 1.0), 1.0)


def gaussian_epsilon(mu: float, *, target_delta: float) -> float:
    """The exact epsilon of a Gaussian release with mu = l2 sensitivity / noise std >= 0, rounded up.

    Q releases have mu * sqrt(Q).
    """
    require_non_negative("mu", mu)
    require_probability("target_delta", target_delta)
    # further left delta is 1
    log_delta = math.log(target_delta)
    lowest = max(-mu / 2, -40.0)
    log_delta -= _ULP * abs(log_delta)
    if mu == 0 or _log_delta(mu, lowest) <= log_delta:
        return 0.0
    highest = math.sqrt(-2 * log_delta) + 1e-3  # there delta is less than half
    # delta is too large at the lowest alone
    while highest - lowest > 1e-14 + 4 * _ULP * abs(highest):
        middle = (lowest + highest) / 2
        lowest, highest = (
            (middle, highest) if _log_delta(mu, middle) > log_delta else (lowest, middle)
        )
    return mu * (highest + mu / 2) * (1 + _ROUNDING)


def _log_delta(mu: float, place: float) -> float:
    """An upper bound for log delta at epsilon = mu (place + mu / 2), above it by rounding errors alone; mu > 0."""
    # delta = Φ(-a) - e^epsilon Φ(-a - mu) = φ(a) (R(a) - R(a + mu)) at a = place, with R(x) = Φ(-x) / φ(x) and
    # R' = x R - 1.
    # The usual difference of two normal probabilities loses all its digits where the noise is enormous; that of Mills
    # ratios is for small mu an integral of positive terms.
    log_density = -place * place / 2 - math.log(2 * math.pi) / 2
    if place < _LEFT:
        second = math.exp(log_density) * _mills(place + mu) * (1 - 16 * _ULP)
        return min(math.log(few_ndtr(-place) - second) + 4 * _ULP, 0)
    if mu < _SMALL_MU:
        nodes, weights = gauss_legendre(_NODES)
        x = place + mu * (1 + nodes) / 2
        slopes = np.where(x > _FAR, 1 / np.maximum(x, 1.0) ** 2, 1 - x * _mills(x))
        log_difference = math.log(mu) + math.log(float(weights @ np.maximum(slopes, 0.0)) / 2)
        lost = 4 * (1 + min(place + mu, _FAR) ** 2)
    else:
        near = float(_mills(place))
        difference = near - float(_mills(place + mu))
        log_difference = math.log(difference)
        lost = 16 * near / difference
    return (
        log_density
        + log_difference
        + _ULP * (place * place + abs(log_density + log_difference) + lost + 16)
    )


def _mills(x: float | np.ndarray) -> np.ndarray:
    """R(x) = Φ(-x) / φ(x), for x not far below 0."""
    return np.asarray(math.sqrt(math.pi / 2) * few_erfcx(x / math.sqrt(2)))
