"""Special functions, most of them named as in SciPy.

Some do without `scipy.special`, whose import takes longer than many prices do.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pate.array_types import FloatArray

# Below this x, log Phi(x) has 15 digits by four terms of the asymptotic series of Phi(x) (Abramowitz & Stegun 1964,
# 26.2.12).
_SERIES_BELOW = -35.0
# From this x on, the continued fraction of erfcx (Abramowitz & Stegun 7.1.14) with so many terms has all digits.
_FRACTION_FROM = 2.5
_FRACTION_DEPTH = 40
# From this number on, Stirling's series has all digits.
_STIRLING_FROM = 20
# The coefficients of 1 / x, 1 / x^3 and so on in Stirling's series of log x! (Abramowitz & Stegun 6.1.41).
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680)
# The logarithms of the factorials of smaller numbers.
_LOG_FACTORIALS = np.array([math.log(math.factorial(n)) for n in range(_STIRLING_FROM)])

_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def expit(x: ArrayLike) -> Any:
    """Returns 1 / (1 + e^-x) of each entry of x, accurate also where the result is tiny."""
    small = np.exp(-np.abs(x))
    return np.where(np.less(x, 0), small, 1.0) / (1 + small)


def log_expit(x: ArrayLike) -> Any:
    """Returns log(1 / (1 + e^-x)) of each entry of x."""
    return -np.logaddexp(0.0, np.negative(x))


def softmax(x: FloatArray, axis: int = -1) -> FloatArray:
    """Returns e^x divided by the sum of e^x along an axis: probabilities that sum to 1 along this axis."""
    weights = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(weights / weights.sum(axis=axis, keepdims=True))


def log_binomials(n: int) -> FloatArray:
    """Returns the logarithms of the binomial coefficients "n choose k" for k = 0..n, `[n + 1]`.

    The error is at most 2^-50 log n!.
    """
    k = np.arange(n + 1.0)
    x = np.maximum(k, _STIRLING_FROM)
    series = sum(coefficient * x ** (-1 - 2 * i) for i, coefficient in enumerate(_STIRLING))
    stirling = (x + 0.5) * np.log(x) - x + 0.5 * math.log(2 * math.pi) + series
    # `np.resize` cuts the table to n + 1 entries, or repeats it; entries from `_STIRLING_FROM` on are not used.
    log_factorials = np.where(k < _STIRLING_FROM, np.resize(_LOG_FACTORIALS, n + 1), stirling)
    return np.asarray(log_factorials[-1] - log_factorials - log_factorials[::-1])


def ndtr_without_scipy(x: ArrayLike) -> Any:
    """Returns the standard normal distribution function Phi(x) of each entry of x.

    The function does not load scipy. It is slow for large arrays.
    """
    return _erfc(np.multiply(x, -math.sqrt(0.5))) / 2


def log_ndtr_without_scipy(x: ArrayLike) -> Any:
    """Returns log Phi(x) of each entry of x; it does not load scipy, and is slow for large arrays."""
    prob_below = ndtr_without_scipy(np.maximum(x, _SERIES_BELOW))
    prob_above = ndtr_without_scipy(np.negative(np.maximum(x, 0.0)))
    far_x = np.minimum(x, _SERIES_BELOW)
    with np.errstate(over="ignore"):
        square = far_x * far_x
    series = -1 / square * (1 - 3 / square * (1 - 5 / square * (1 - 7 / square)))
    log_prob_by_series = (
        np.log1p(series) - square / 2 - np.log(-far_x) - 0.5 * math.log(2 * math.pi)
    )
    return np.where(
        np.less(x, _SERIES_BELOW),
        log_prob_by_series,
        np.where(np.less(x, 0), np.log(prob_below), np.log1p(-prob_above)),
    )


def erfcx_without_scipy(x: ArrayLike) -> Any:
    """Returns exp(x^2) erfc(x) of each entry of x; it does not load scipy, and is slow for large arrays.

    The relative error is at most 2^-49 for x >= -3.6.
    """
    # numpy's loop around the computation of one number would take ten times as long as the computation.
    return _erfcx_of_number(float(x)) if isinstance(x, float) else _erfcx_of_numbers(x)


def _erfcx_of_number(x: float) -> float:
    if x < _FRACTION_FROM:
        return float(np.exp(x * x)) * math.erfc(x)
    fraction = x
    for k in range(_FRACTION_DEPTH, 0, -1):
        fraction = x + k / 2 / fraction
    return 1 / (math.sqrt(math.pi) * fraction)


_erfcx_of_numbers = np.vectorize(_erfcx_of_number, otypes=[np.float64])


def _normal_quantile(p: float) -> float:
    from statistics import NormalDist  # loads slowly

    if 0 < p < 1:
        return NormalDist().inv_cdf(p)
    return math.copysign(math.inf, p - 0.5)


_normal_quantiles = np.vectorize(_normal_quantile, otypes=[np.float64])


def ndtri_without_scipy(p: ArrayLike) -> Any:
    """Returns the inverse Phi^-1(p) of the standard normal distribution function for each entry of p, in [0, 1].

    The function does not load scipy. It is slow for large arrays.
    """
    return _normal_quantiles(np.asarray(p, dtype=np.float64))


@lru_cache
def gauss_legendre(num_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Returns the nodes in -1..1 and the weights of Gauss-Legendre quadrature, `[num_nodes]` each.

    They are computed at the first call, because numpy loads `numpy.polynomial` slowly.
    """
    nodes, weights = np.polynomial.legendre.leggauss(num_nodes)
    return nodes, weights


def _scipy_function(function_name: str) -> Callable[..., Any]:
    """Returns the function of `scipy.special` with this name; the first call of the function loads scipy."""

    @lru_cache
    def load_scipy_function() -> Any:
        from scipy import special  # loads slowly

        return getattr(special, function_name)

    def function(*function_arguments: Any) -> Any:
        return load_scipy_function()(*function_arguments)

    return function


betaincc = _scipy_function("betaincc")
gammaincinv = _scipy_function("gammaincinv")
gammainccinv = _scipy_function("gammainccinv")
gammaln = _scipy_function("gammaln")
log_ndtr = _scipy_function("log_ndtr")
ndtr = _scipy_function("ndtr")
ndtri = _scipy_function("ndtri")
ndtri_exp = _scipy_function("ndtri_exp")
