"""The exact trade of a Gaussian release: delta at an epsilon, epsilon at a delta, rounded up, for any noise.

The usual difference of two normal probabilities loses all its digits where the noise is enormous. Here it is a density
times a difference of Mills ratios, which for small mu is an integral of positive terms (docs/proofs/conversion.md).
"""

from __future__ import annotations

import math

import numpy as np

from pate.accounting.special import few_erfcx, few_ndtr, gauss_legendre
from pate.validation import require_non_negative, require_probability

_NODES = 12
_SMALL_MU = 0.5  # up to here the difference of Mills ratios is integrated
_LEFT = -5.0  # farther left the first probability is nearly 1, and nothing cancels
_FAR = 50.0  # farther right 1 - x R(x) has too few digits; there its bound 1 / x**2 will do
_FARTHEST = 40.0  # of thresholds; beyond, delta is below any double
_ULP = 2.0**-52
_ROUNDING = 2.0**-49  # relative, of the final products


def gaussian_delta(mu: float, *, epsilon: float) -> float:
    """The exact delta of a Gaussian release with mu = l2 sensitivity / noise std (Balle & Wang 2018), rounded up.

    Args:
        mu: l2 sensitivity / noise std, >= 0; 0 costs nothing.
        epsilon: >= 0.
    """
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
    """The exact epsilon of a Gaussian release, rounded up; Q releases with std s each have mu * sqrt(Q).

    Args:
        mu: l2 sensitivity / noise std, >= 0; 0 costs nothing.
        target_delta: in (0, 1).
    """
    require_non_negative("mu", mu)
    require_probability("target_delta", target_delta)
    log_delta, lowest = math.log(target_delta), max(-mu / 2, -40.0)  # further left delta is 1
    log_delta -= _ULP * abs(log_delta)
    if mu == 0 or _log_delta(mu, lowest) <= log_delta:
        return 0.0
    highest = math.sqrt(-2 * log_delta) + 1e-3  # there delta is less than half
    while highest - lowest > 1e-14 + 4 * _ULP * abs(highest):  # delta is too large at the lowest alone
        middle = (lowest + highest) / 2
        lowest, highest = (middle, highest) if _log_delta(mu, middle) > log_delta else (lowest, middle)
    return mu * (highest + mu / 2) * (1 + _ROUNDING)


def _log_delta(mu: float, place: float) -> float:
    """An upper bound for log delta at epsilon = mu (place + mu / 2), above it by rounding errors alone; mu > 0.

    delta = Φ(-a) - e^epsilon Φ(-a - mu) = φ(a) (R(a) - R(a + mu)) at a = place, with R(x) = Φ(-x) / φ(x) and
    R' = x R - 1.
    """
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
        log_difference, lost = math.log(difference), 16 * near / difference
    return log_density + log_difference + _ULP * (place * place + abs(log_density + log_difference) + lost + 16)


def _mills(x: float | np.ndarray) -> np.ndarray:
    """R(x) = Φ(-x) / φ(x), for x not far below 0."""
    return np.asarray(math.sqrt(math.pi / 2) * few_erfcx(x / math.sqrt(2)))
