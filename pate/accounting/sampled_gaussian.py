"""A Gaussian release of a secret Poisson sample: its event, its privacy profile and its Renyi curve.

All of it follows from one bound (docs/proofs/alternatives.md): between neighbors that differ in one unit, replaced or
added or removed, the hockey stick at 1 + q (γ - 1) is at most q times that of the release without sampling at γ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting.events import LeafEvent
from pate.accounting.special import log_ndtr, ndtr
from pate.validation import require, require_non_negative

Array = NDArray[np.float64]

_NUM_CELLS = 2000
_FARTHEST = 40.0  # standard deviations of the loss: beyond it a closed form bounds the rest
_LEAST = 1e-300
_ROUNDING = 1e-9  # relative


@dataclass(frozen=True, slots=True)
class SampledGaussianEvent(LeafEvent):
    """A sum over units, each of which takes part with a probability, independently and in secret, with Gaussian noise.

    Attributes:
        noise_multiplier: noise std / l2 sensitivity of the sum over all units, >= 0; 0 costs infinity.
        sampling_prob: in (0, 1].
    """

    noise_multiplier: float
    sampling_prob: float

    def __post_init__(self) -> None:
        require_non_negative("noise_multiplier", self.noise_multiplier)
        require(0 < self.sampling_prob <= 1, "sampling_prob", self.sampling_prob, "a number in (0, 1]")

    def to_dp_event(self) -> Any:
        """`dp_accounting.PoissonSampledDpEvent` of a Gaussian, whose price is for units added or removed."""
        import dp_accounting

        return dp_accounting.PoissonSampledDpEvent(
            self.sampling_prob, dp_accounting.GaussianDpEvent(self.noise_multiplier)
        )


def sampled_gaussian_profile(event: SampledGaussianEvent, epsilons: Array) -> Array:
    """Upper bounds for the largest hockey stick between neighbors, at epsilons of either sign: `[E]`."""
    size = np.abs(epsilons)
    with np.errstate(over="ignore"):
        inner = np.where(size < 1, np.log1p(np.expm1(size) / event.sampling_prob), _log_scaled(size, event))
    above = event.sampling_prob * _gaussian_profile(1 / event.noise_multiplier, inner)
    exchanged = 1 - np.exp(-size) + np.exp(-size) * above  # H at 1/γ, the two neighbors exchanged
    return np.asarray(np.where(epsilons < 0, exchanged, above))


def sampled_gaussian_rdp(event: SampledGaussianEvent, orders: Array) -> Array:
    """The Renyi curve `[A]` of that profile, never above that of the release without sampling.

    E_Q[(P/Q)^a] - 1 is the integral of a (a - 1) (γ^(a-2) + γ^(-a-1)) h(γ) over γ > 1. On a cell h is at most its
    chord; what the weight does within the cell is bounded, and so is the integral beyond the last cell.
    """
    if event.noise_multiplier == 0:
        return np.full_like(orders, np.inf)
    mu, q = 1 / event.noise_multiplier, event.sampling_prob
    whole = orders * mu * mu / 2
    if q == 1:
        return np.asarray(whole)
    inner = np.linspace(0.0, mu * mu / 2 + _FARTHEST * mu, _NUM_CELLS + 1)  # log γ without sampling
    outer = np.log1p(q * np.expm1(np.minimum(inner, 600.0)))
    profile = q * _gaussian_profile(mu, inner)
    width, low = np.diff(outer), outer[:-1]
    a = orders[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        rising = a * np.exp((a - 1) * low) * np.expm1((a - 1) * width)
        falling = (a - 1) * np.exp(-a * low) * -np.expm1(-a * width)
        total = (rising * _chord(profile, (a - 2) * width)).sum(axis=1)
        total += (falling * _chord(profile, -(a + 1) * width)).sum(axis=1)
        total += _beyond(orders, mu, q, float(inner[-1])) + (orders - 1) * profile[-1]
        found = np.log1p(total) / (orders - 1) * (1 + _ROUNDING)
    return np.asarray(np.fmin(found, whole))


def _chord(profile: Array, slope: Array) -> Array:
    """A bound `[A, C]` on the weighted mean of a falling convex function over cells; the weight's log moves by slope.

    The weight's center of mass, as a share of the cell, is at least 1/2 where it rises and e^slope / 2 where it falls.
    """
    share = np.exp(np.minimum(slope, 0.0)) / 2
    return np.asarray(profile[:-1] + share * np.diff(profile))


def _beyond(orders: Array, mu: float, q: float, last: float) -> Array:
    """The first integral from `last` on: H is below P(loss > log γ), and the sampled γ below γ."""
    power = np.maximum(orders - 1, 1.0)
    log_mass = log_ndtr(-(last - mu * mu / 2 - power * mu * mu) / mu)
    log_tail = power * (power + 1) * mu * mu / 2 + log_mass
    return np.asarray(q * q * orders * (orders - 1) / power * np.exp(log_tail))


def _gaussian_profile(mu: float, epsilons: Array) -> Array:
    """The hockey stick of two Gaussians mu apart at epsilons >= 0, rounded up (Balle & Wang 2018)."""
    near, far = -epsilons / mu + mu / 2, -epsilons / mu - mu / 2
    rounding = 2.0**-50 * (1 + np.abs(near)) * ndtr(near)  # of the difference below
    return np.asarray(np.maximum(ndtr(near) - np.exp(epsilons + log_ndtr(far)), 0.0) + rounding + _LEAST)


def _log_scaled(size: Array, event: SampledGaussianEvent) -> Array:
    """log(1 + (e^size - 1) / q) for large sizes, without overflow and a little too small."""
    return np.asarray(size + np.log(-np.expm1(-size) / event.sampling_prob + np.exp(-size)) - 2.0**-48 * size)
