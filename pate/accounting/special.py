"""Special functions under SciPy's names; a few without `scipy.special`, which takes as long to load as a price."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

_DEEP = -35.0  # below, four terms of a series have all digits
# of the continued fraction of erfcx: there it has all digits
_FRACTION_FROM = 2.5
_FRACTION_DEPTH = 40
_LARGE = 20
# of 1 / x, 1 / x^3 and so on: all digits where x is large
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680)
_LOG_FACTORIALS = np.array([math.log(math.factorial(n)) for n in range(_LARGE)])


def expit(x: ArrayLike) -> Any:
    """The probability of a bit from its logit, small ones with all digits."""
    small = np.exp(-np.abs(x))
    return np.where(np.less(x, 0), small, 1.0) / (1 + small)


def log_expit(x: ArrayLike) -> Any:
    """The log of the probability of a bit from its logit."""
    return -np.logaddexp(0.0, np.negative(x))


def softmax(x: Array, axis: int = -1) -> Array:
    """Probabilities in proportion to exponentials."""
    weights = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(weights / weights.sum(axis=axis, keepdims=True))


def log_choices(n: int) -> Array:
    """Logs of n over k for k = 0..n, `[n + 1]`; the error is at most 2^-50 log n!."""
    k = np.arange(n + 1.0)
    x = np.maximum(k, _LARGE)
    series = sum(factor * x ** (-1 - 2 * i) for i, factor in enumerate(_STIRLING))
    stirling = (x + 0.5) * np.log(x) - x + 0.5 * math.log(2 * math.pi) + series
    ofs = np.where(k < _LARGE, np.resize(_LOG_FACTORIALS, n + 1), stirling)
    return np.asarray(ofs[-1] - ofs - ofs[::-1])


def few_ndtr(x: ArrayLike) -> Any:
    """The standard normal distribution function, of a few values."""
    return _erfc(np.multiply(x, -math.sqrt(0.5))) / 2


def few_log_ndtr(x: ArrayLike) -> Any:
    """Its log, of a few values."""
    below = few_ndtr(np.maximum(x, _DEEP))
    above = few_ndtr(np.negative(np.maximum(x, 0.0)))
    far = np.minimum(x, _DEEP)
    with np.errstate(over="ignore"):
        square = far * far
    series = -1 / square * (1 - 3 / square * (1 - 5 / square * (1 - 7 / square)))
    deep = np.log1p(series) - square / 2 - np.log(-far) - 0.5 * math.log(2 * math.pi)
    return np.where(
        np.less(x, _DEEP), deep, np.where(np.less(x, 0), np.log(below), np.log1p(-above))
    )


def few_erfcx(x: ArrayLike) -> Any:
    """exp(x^2) erfc(x), of a few values: the error is at most 2^-49 from -3.6 on."""
    near = np.minimum(x, _FRACTION_FROM)
    far = np.maximum(x, _FRACTION_FROM)
    fraction = far
    for k in range(_FRACTION_DEPTH, 0, -1):
        fraction = far + k / 2 / fraction
    return np.where(
        np.less(x, _FRACTION_FROM),
        np.exp(near * near) * _erfc(near),
        1 / (math.sqrt(math.pi) * fraction),
    )


@lru_cache
def gauss_legendre(count: int) -> tuple[Array, Array]:
    """The nodes in -1..1 and weights of Gauss and Legendre; made when used, as numpy loads them slowly."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights


_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _of_scipy(name: str) -> Callable[..., Any]:
    def called(*x: Any) -> Any:
        from scipy import special  # loads slowly

        return getattr(special, name)(*x)

    return called


_OF_SCIPY = (
    "betaincc",
    "gammaincinv",
    "gammainccinv",
    "gammaln",
    "log_ndtr",
    "ndtr",
    "ndtri",
    "ndtri_exp",
)
betaincc, gammaincinv, gammainccinv, gammaln, log_ndtr, ndtr, ndtri, ndtri_exp = map(
    _of_scipy, _OF_SCIPY
)


def lower_hull(x: Any, y: Any) -> NDArray[np.int64]:
    """The points `[H]`, by index, of the largest convex function through or below the points (x, y), x rising."""
    kept: list[int] = []
    # numbers of Python: the same and faster
    x = x.tolist()
    y = y.tolist()
    for i in range(len(x)):
        while len(kept) > 1:
            first = kept[-2]
            second = kept[-1]
            if (y[second] - y[first]) * (x[i] - x[first]) < (y[i] - y[first]) * (
                x[second] - x[first]
            ):
                break
            kept.pop()
        kept.append(i)
    return np.array(kept, dtype=np.int64)


def convex_minorant(x: Array, y: Array) -> Array:
    """That function at the points: `[len(x)]`."""
    kept = lower_hull(x, y)
    return np.asarray(np.interp(x, x[kept], y[kept]))
