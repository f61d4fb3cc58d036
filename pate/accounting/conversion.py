"""Conversions between notions of privacy: Renyi, zero-concentrated, Gaussian, and (epsilon, delta).

Every epsilon and delta that a function returns is an upper bound. The formula `rho + sqrt(2 rho log(1/delta))`, printed
as Theorem 11 of Zhu & Wang (2022), is false and deliberately absent (docs/proofs/conversion.md).
"""

import math
from collections.abc import Callable

import numpy as np

from pate.accounting.special import erfcx_without_scipy, gauss_legendre, ndtr_without_scipy
from pate.array_types import FloatArray
from pate.validation import require_choice, require_non_negative, require_probability

Curve = Callable[[FloatArray], FloatArray]
"""A Renyi curve: a function from orders, `[num_orders]`, to the Renyi divergences of these orders, `[num_orders]`."""

# The orders a of `epsilon_as_in_papers`; each a - 1 is 0.4% above that of the order before.
_FINE_GRID_OF_ORDERS: FloatArray = 1 + np.geomspace(1e-3, 1e4, 4001)
# The exponential of a larger number may be no float.
_LARGEST_EXPONENT = 700.0
# For a larger rho the best order is so near to 1 that a float loses digits of the difference.
_LARGEST_RHO = 1e20
# A smaller rho is rounded up, because its best order for a delta could exceed the largest float.
_SMALLEST_RHO = 1e-290
# The number of nodes of the quadrature in `_log_gaussian_delta`.
_NUM_NODES = 12
# Below this mu the difference of Mills ratios is integrated.
_SMALL_MU = 0.5
# Left of this a the first of the two probabilities is nearly 1, and nothing cancels in their difference.
_LEFT = -5.0
# Right of this x, 1 - x R(x) has too few digits, and is replaced by its bound 1 / x**2.
_FAR = 50.0
# Right of this a, delta is below the smallest float.
_FARTHEST = 40.0
# The distance from 1 to the next larger float.
_ULP = 2.0**-52
# The relative rounding error of the final products.
_ROUNDING = 2.0**-49


def rdp_to_epsilons(orders: FloatArray, rdp: FloatArray, *, target_delta: float) -> FloatArray:
    """Converts the Renyi divergence at each order into an epsilon, and returns the epsilons, `[num_orders]`.

    Each epsilon is a valid bound at `target_delta`, so the smallest is too.

    Args:
        orders: the orders, each > 1, `[num_orders]`.
        rdp: the Renyi divergence at each order, `[num_orders]`.
        target_delta: the delta of the epsilons, in (0, 1).
    """
    return np.maximum(rdp + conversion_penalty(orders, target_delta=target_delta), 0.0)


def conversion_penalty(orders: FloatArray, *, target_delta: float) -> FloatArray:
    """Returns the penalty of each order: the epsilon at `target_delta` less the Renyi divergence, `[num_orders]`.

    The penalty falls as the order a rises up to 1/delta, and is at most the classic log(1/delta) / (a - 1) of Mironov
    (2017).

    Args:
        orders: the orders, each > 1, `[num_orders]`.
        target_delta: the delta of the epsilon, in (0, 1).
    """
    # Canonne, Kamath & Steinke 2020, Proposition 12; Balle et al. 2020
    require_probability("target_delta", target_delta)
    return np.log1p(-1 / orders) - (math.log(target_delta) + np.log(orders)) / (orders - 1)


def rdp_to_deltas(orders: FloatArray, rdp: FloatArray, *, target_epsilon: float) -> FloatArray:
    """Converts the Renyi divergence at each order into a delta, and returns the deltas, at most 1, `[num_orders]`.

    Each delta is a valid bound at `target_epsilon`, so the smallest is too.

    Args:
        orders: the orders, each > 1, `[num_orders]`.
        rdp: the Renyi divergence at each order, `[num_orders]`.
        target_epsilon: the epsilon of the deltas, >= 0.
    """
    require_non_negative("target_epsilon", target_epsilon)
    with np.errstate(over="ignore"):
        log_delta = (orders - 1) * (rdp - target_epsilon + np.log1p(-1 / orders)) - np.log(orders)
    return np.exp(np.minimum(log_delta, 0.0))


def epsilon_as_in_papers(
    curve: Curve, *, count: int, target_delta: float, conversion: str
) -> float:
    """Returns the smallest epsilon of `count` equal releases over a grid of orders, to reproduce numbers of papers.

    The number is not meant as a guarantee.

    Args:
        curve: the Renyi curve of one release.
        count: the number of releases, >= 0.
        target_delta: the delta of the epsilon, in (0, 1).
        conversion: `tight` (`rdp_to_epsilons`), or `classic`, the looser rdp + log(1/delta) / (a - 1) of Mironov
            (2017).
    """
    require_choice("conversion", conversion, choices=("classic", "tight"))
    require_probability("target_delta", target_delta)
    orders = _FINE_GRID_OF_ORDERS
    rdp = count * curve(_FINE_GRID_OF_ORDERS)
    if conversion == "tight":
        return float(rdp_to_epsilons(orders, rdp, target_delta=target_delta).min())
    return float((rdp + math.log(1 / target_delta) / (orders - 1)).min())


def zcdp_to_epsilon(rho: float, *, target_delta: float) -> float:
    """Returns the epsilon of a rho-zCDP release, rho >= 0, at `target_delta`: the smallest over all real orders.

    For a rho above 1e20 it is the slightly larger epsilon of `zcdp_to_epsilon_classic`.
    """
    require_non_negative("rho", rho)
    require_probability("target_delta", target_delta)
    if rho == 0:
        return 0.0
    if rho > _LARGEST_RHO:
        return zcdp_to_epsilon_classic(rho=rho, target_delta=target_delta)
    rho = max(rho, _SMALLEST_RHO)

    def epsilon_at_log_order(log_order_less_one: float) -> float:
        order = np.array([1 + math.exp(log_order_less_one)])
        return float(rdp_to_epsilons(order, rdp=rho * order, target_delta=target_delta)[0])

    # The best order of the classic conversion, from which the best order of the tight conversion is not far.
    log_classic_order = math.log(math.sqrt(math.log(1 / target_delta) / rho))
    return _minimum(
        epsilon_at_log_order, smallest_x=log_classic_order - 8, largest_x=log_classic_order + 3
    )


def zcdp_to_delta(rho: float, *, target_epsilon: float) -> float:
    """Returns the delta of a rho-zCDP release, rho >= 0, at `target_epsilon`: the smallest over all real orders.

    The function is the inverse of `zcdp_to_epsilon` for rho from 1e-290 to 1e20. For a larger rho it returns 1.
    """
    require_non_negative("rho", rho)
    require_non_negative("target_epsilon", target_epsilon)
    if rho == 0 or rho > _LARGEST_RHO:
        return float(rho > 0)
    rho = max(rho, _SMALLEST_RHO)

    def log_delta_at_log_order(log_order_less_one: float) -> float:
        """Returns the log delta at `target_epsilon` of a rho-zCDP release by the order 1 + e^log_order_less_one.

        As a function of the order this delta has one minimum.
        """
        order_less_one = math.exp(log_order_less_one)
        order = 1 + order_less_one
        # log(1 - 1 / order), in two forms that keep their digits
        log_ratio_near_one = log_order_less_one - math.log(order)
        log_ratio = log_ratio_near_one if order_less_one < 1 else math.log1p(-1 / order)
        return order_less_one * (rho * order - target_epsilon + log_ratio) - math.log(order)

    largest_log_order_less_one = math.log(target_epsilon + rho + 1) - math.log(2 * rho) + 1
    clipped_log_order_less_one = min(max(largest_log_order_less_one, 1.0), _LARGEST_EXPONENT)
    log_delta = _minimum(
        log_delta_at_log_order, smallest_x=-40.0, largest_x=clipped_log_order_less_one
    )
    return math.exp(min(log_delta, 0.0))


def _minimum(function: Callable[[float], float], smallest_x: float, largest_x: float) -> float:
    """Returns the smallest value of a function between `smallest_x` and `largest_x`; it has one local minimum there."""
    from scipy.optimize import minimize_scalar  # loads slowly

    result = minimize_scalar(
        function, bounds=(smallest_x, largest_x), method="bounded", options={"xatol": 1e-10}
    )
    return float(result.fun)


def zcdp_to_epsilon_classic(rho: float, *, target_delta: float) -> float:
    """Returns the epsilon of a rho-zCDP release by the simple, looser bound rho + 2 sqrt(rho log(1/delta)).

    Source: Bun & Steinke 2016.
    """
    require_non_negative("rho", rho)
    require_probability("target_delta", target_delta)
    return rho + 2 * math.sqrt(rho * math.log(1 / target_delta))


def gaussian_delta(mu: float, *, epsilon: float) -> float:
    """Returns the exact delta of a release with Gaussian noise at an epsilon, rounded up.

    Args:
        mu: the l2 sensitivity / noise std, >= 0.
        epsilon: the epsilon, >= 0.

    Source: Balle & Wang 2018, Theorem 8.
    """
    require_non_negative("mu", mu)
    require_non_negative("epsilon", epsilon)
    if mu == 0:
        return 0.0
    rounding = (epsilon / mu + mu / 2) * _ULP
    standardized_epsilon = epsilon / mu - mu / 2 - rounding
    if math.isnan(standardized_epsilon):
        return 1.0
    log_delta = -math.inf
    if standardized_epsilon < _FARTHEST:
        log_delta = min(_log_gaussian_delta(mu, standardized_epsilon=standardized_epsilon), 0.0)
    return math.nextafter(math.exp(log_delta), 1.0)


def gaussian_epsilon(mu: float, *, target_delta: float) -> float:
    """Returns the smallest epsilon of a release with Gaussian noise at a delta, rounded up.

    Q releases with the same mu cost as much as one release with sqrt(Q) * mu. The function finds the number a in
    epsilon = mu * (a + mu / 2) by bisection.

    Args:
        mu: the l2 sensitivity / noise std, >= 0.
        target_delta: the delta, in (0, 1).
    """
    require_non_negative("mu", mu)
    require_probability("target_delta", target_delta)
    log_delta = math.log(target_delta)
    log_delta -= _ULP * abs(log_delta)  # rounded down
    # the a of epsilon = 0; left of -40 delta is 1
    low_standardized_epsilon = max(-mu / 2, -_FARTHEST)
    if (
        mu == 0
        or _log_gaussian_delta(mu, standardized_epsilon=low_standardized_epsilon) <= log_delta
    ):
        return 0.0
    # there delta is less than half of the target
    high_standardized_epsilon = math.sqrt(-2 * log_delta) + 1e-3
    # Delta is too large at `low_standardized_epsilon`, and never at `high_standardized_epsilon`.
    while high_standardized_epsilon - low_standardized_epsilon > 1e-14 + 4 * _ULP * abs(
        high_standardized_epsilon
    ):
        middle_standardized_epsilon = (low_standardized_epsilon + high_standardized_epsilon) / 2
        if _log_gaussian_delta(mu, standardized_epsilon=middle_standardized_epsilon) > log_delta:
            low_standardized_epsilon = middle_standardized_epsilon
        else:
            high_standardized_epsilon = middle_standardized_epsilon
    return mu * (high_standardized_epsilon + mu / 2) * (1 + _ROUNDING)


def _log_gaussian_delta(mu: float, standardized_epsilon: float) -> float:
    """Returns log delta of a Gaussian release at epsilon = mu (standardized_epsilon + mu / 2), rounded up.

    With a = standardized_epsilon, the Mills ratio R(x) = Phi(-x) / phi(x), and R' = x R - 1,

        delta = Phi(-a) - e^epsilon Phi(-a - mu) = phi(a) (R(a) - R(a + mu)).

    The first form, a difference of two normal probabilities, loses all its digits where the noise is enormous. The
    difference of Mills ratios is, for small mu, computed as an integral of positive terms.

    Args:
        mu: the l2 sensitivity / noise std, > 0.
        standardized_epsilon: the number a = epsilon / mu - mu / 2, which stands for the epsilon.
    """
    log_density = -standardized_epsilon * standardized_epsilon / 2 - math.log(2 * math.pi) / 2
    if standardized_epsilon < _LEFT:
        second_term = (
            math.exp(log_density) * _mills_ratio(standardized_epsilon + mu) * (1 - 16 * _ULP)
        )
        return min(math.log(ndtr_without_scipy(-standardized_epsilon) - second_term) + 4 * _ULP, 0)
    if mu < _SMALL_MU:
        nodes, weights = gauss_legendre(_NUM_NODES)
        x = standardized_epsilon + mu * (1 + nodes) / 2
        slopes = np.where(x > _FAR, 1 / np.maximum(x, 1.0) ** 2, 1 - x * _mills_ratio(x))
        log_difference = math.log(mu) + math.log(float(weights @ np.maximum(slopes, 0.0)) / 2)
        num_ulps = 4 * (1 + min(standardized_epsilon + mu, _FAR) ** 2)
    else:
        mills_ratio = float(_mills_ratio(standardized_epsilon))
        mills_ratio_difference = mills_ratio - float(_mills_ratio(standardized_epsilon + mu))
        log_difference = math.log(mills_ratio_difference)
        num_ulps = 16 * mills_ratio / mills_ratio_difference
    log_delta = log_density + log_difference
    rounding = _ULP * (standardized_epsilon * standardized_epsilon + abs(log_delta) + num_ulps + 16)
    return log_delta + rounding


def _mills_ratio(x: float | np.ndarray) -> np.ndarray:
    """Returns the Mills ratio Phi(-x) / phi(x) of each entry of x; it overflows where x is far below 0."""
    return np.asarray(math.sqrt(math.pi / 2) * erfcx_without_scipy(x / math.sqrt(2)))
