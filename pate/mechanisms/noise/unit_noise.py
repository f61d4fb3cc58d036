"""Kinds of noise at scale 1 whose survival function falls no faster than exp(-x), for Lipschitz and canonical top-k."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import expit

Array = NDArray[np.float64]
Curve = Callable[[Array], Array]

_SMALL = -34.0  # below this, log(1 - exp(-q)) is log q to the last digit


@dataclass(frozen=True)
class UnitNoise:
    """One kind of noise, at scale 1.

    Attributes:
        density: elementwise.
        cdf: elementwise.
        quantile: from log q, where exp(-q) is the probability below the value.
        low: the probability below it is lost in double precision.
        high: the probability above it is lost in double precision.
        kinks: where the density is not smooth.
        panel: width of the intervals on which quadrature takes the density as a polynomial; infinity where it is one.
    """

    density: Curve
    cdf: Curve
    quantile: Curve
    low: float
    high: float = 42.0
    kinks: tuple[float, ...] = (0.0,)
    panel: float = 0.5


def _log_above(log_q: Array) -> Array:
    """log(1 - exp(-q)): the logarithm of the probability above the value."""
    with np.errstate(divide="ignore"):
        return np.where(log_q < _SMALL, log_q, np.log(-np.expm1(-np.exp(log_q))))


def _laplace_quantile(log_q: Array) -> Array:
    q = np.exp(log_q)
    return np.where(q > math.log(2), math.log(2) - q, -math.log(2) - _log_above(log_q))


def _positive(curve: Curve) -> Curve:
    """The curve for x >= 0, and 0 below."""
    return lambda x: np.where(x >= 0, curve(np.maximum(x, 0.0)), 0.0)


def _gumbel_cdf(x: Array) -> Array:
    return np.exp(-np.exp(np.minimum(-x, 600.0)))


def _gumbel_density(x: Array) -> Array:
    exponent = np.minimum(-x, 600.0)
    return np.asarray(np.exp(exponent - np.exp(exponent)))


def _laplace_cdf(x: Array) -> Array:
    tail = 0.5 * np.exp(-np.abs(x))
    return np.where(x < 0, tail, 1 - tail)


UNIT_NOISES = {
    "exponential": UnitNoise(
        density=_positive(lambda x: np.exp(-x)),
        cdf=_positive(lambda x: -np.expm1(-x)),
        quantile=lambda log_q: -_log_above(log_q),
        low=0.0,
    ),
    "gumbel": UnitNoise(density=_gumbel_density, cdf=_gumbel_cdf, quantile=np.negative, low=-7.0),
    "half_logistic": UnitNoise(
        density=_positive(lambda x: 2 * expit(x) * expit(-x)),
        cdf=_positive(lambda x: np.tanh(x / 2)),
        quantile=lambda log_q: np.log1p(np.exp(-np.exp(log_q))) - _log_above(log_q),
        low=0.0,
    ),
    "laplace": UnitNoise(
        density=lambda x: 0.5 * np.exp(-np.abs(x)), cdf=_laplace_cdf, quantile=_laplace_quantile, low=-42.0
    ),
    "logistic": UnitNoise(
        density=lambda x: np.asarray(expit(x) * expit(-x)),
        cdf=lambda x: np.asarray(expit(x)),
        quantile=lambda log_q: -np.exp(log_q) - _log_above(log_q),
        low=-42.0,
    ),
}
"""The kinds of noise by name; the hazard rate of each is at most 1."""
