"""Pairs of distributions of one real number, for Gaussian releases, noisy maxima and sums over a random sample.

Both distributions P and Q of a pair have closed forms, and the privacy loss log(dP/dQ)(x) rises in x. So the loss is
above a given value exactly for all x above some place:

    ShiftedMaximum   M + mean_shift against M, the largest of n standard normals; n = 1 is a Gaussian release,
    SampledPair      (1 - q) N(0, 1) + q N(upper_mean, 1) against (1 - q) N(0, 1) + q N(lower_mean, 1), of a sample
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from pate.accounting.special import log_ndtr, ndtr
from pate.array_types import FloatArray

_FARTHEST = 39.0  # standard deviations beyond which a normal has no mass in double precision
_LOSS_ROUNDING = 2.0**-50  # relative rounding error of the terms of a loss
_NEAR = 9.0  # standard deviations that the sum of a variance goes over


class Tails(NamedTuple):
    """The probabilities below and above given places x, `[num_places]` each, accurate also where they are tiny."""

    below: FloatArray  # P(X <= x)
    above: FloatArray  # P(X > x)


@dataclass(frozen=True)
class ShiftedMaximum:
    """The pair of the distributions of M + mean_shift and M, with M the largest of `num_normals` standard normals."""

    num_normals: int  # the number of normals, >= 1; one is a Gaussian release
    mean_shift: float  # > 0

    @property
    def variance(self) -> float:
        """The sum, over both distributions, of the second moment of positive losses; used to choose grids, no bound."""
        x = np.linspace(-_NEAR, self.mean_shift + _NEAR, 1001)
        mass = np.diff(self.first(x).below + self.second(x).below)
        return float(np.sum(mass * np.maximum(self.loss(x[1:]), 0.0) ** 2))

    def loss(self, x: FloatArray) -> FloatArray:
        """Returns log density(M + mean_shift) - log density(M) at places x, which rises in x.

        The density of M is n phi(x) Phi(x)^(n - 1).
        """
        loss_of_normal = x * self.mean_shift - self.mean_shift * self.mean_shift / 2
        log_ratio = log_ndtr(x - self.mean_shift) - log_ndtr(x)
        return np.asarray(loss_of_normal + (self.num_normals - 1) * log_ratio)

    def loss_rounding(self, x: FloatArray) -> FloatArray:
        """Returns a bound on the rounding errors of the losses at places x."""
        size_of_normal = np.abs(x) * self.mean_shift + self.mean_shift * self.mean_shift / 2
        size_of_ratio = (self.num_normals - 1) * (log_ndtr(x - self.mean_shift) + log_ndtr(x))
        return np.asarray(_LOSS_ROUNDING * (size_of_normal - size_of_ratio))

    @property
    def farthest(self) -> float:
        """The distance from 0 beyond which neither distribution has mass in double precision."""
        return self.mean_shift + _FARTHEST

    def first(self, x: FloatArray) -> Tails:
        """Returns the tails of M + mean_shift at places x."""
        return self.second(x - self.mean_shift)

    def second(self, x: FloatArray) -> Tails:
        """Returns the tails of M at places x."""
        log_below = self.num_normals * log_ndtr(x)
        return Tails(below=np.asarray(np.exp(log_below)), above=np.asarray(-np.expm1(log_below)))


@dataclass(frozen=True)
class SampledPair:
    """The pair that dominates a sum over a random sample with Gaussian noise.

    Both distributions are mixtures: N(0, 1) with N(upper_mean, 1), and N(0, 1) with N(lower_mean, 1).
    """

    sampling_prob: float  # the weight of the second part of both mixtures, in (0, 1)
    upper_mean: float  # >= 0
    lower_mean: float  # <= 0, below upper_mean

    @property
    def exchanged(self) -> Self:
        """The pair with both distributions exchanged and x replaced by -x.

        It is equal to this pair if upper_mean = -lower_mean.
        """
        return replace(self, upper_mean=-self.lower_mean, lower_mean=-self.upper_mean)

    @property
    def variance(self) -> float:
        """The second moment of the privacy loss under the first distribution; used to choose grids, and no bound."""
        x = np.linspace(self.lower_mean - _NEAR, self.upper_mean + _NEAR, 2001)
        return float(np.sum(np.diff(self.first(x).below) * self.loss(x[1:]) ** 2))

    def loss(self, x: FloatArray) -> FloatArray:
        """Returns the privacy losses at places x, which rise in x."""
        first = log_mixture_ratio(x, mean_shift=self.upper_mean, sampling_prob=self.sampling_prob)
        return np.asarray(
            first
            - log_mixture_ratio(x, mean_shift=self.lower_mean, sampling_prob=self.sampling_prob)
        )

    def loss_rounding(self, x: FloatArray) -> FloatArray:
        """Returns a bound on the rounding errors of the losses at places x."""
        sizes = [
            2 * np.abs(shift * x) + shift * shift for shift in (self.upper_mean, self.lower_mean)
        ]
        return np.asarray(_LOSS_ROUNDING * sum(sizes))

    @property
    def farthest(self) -> float:
        """The distance from 0 beyond which neither distribution has mass in double precision."""
        return max(self.upper_mean, -self.lower_mean) + _FARTHEST

    def first(self, x: FloatArray) -> Tails:
        """Returns the tails of the mixture with N(upper_mean, 1) at places x."""
        return self._tails(x, self.upper_mean)

    def second(self, x: FloatArray) -> Tails:
        """Returns the tails of the mixture with N(lower_mean, 1) at places x."""
        return self._tails(x, self.lower_mean)

    def _tails(self, places: FloatArray, mean_shift: float) -> Tails:
        sampling_prob = self.sampling_prob
        return Tails(
            below=mixture_tail(places, mean_shift=-mean_shift, sampling_prob=sampling_prob),
            above=mixture_tail(-places, mean_shift=mean_shift, sampling_prob=sampling_prob),
        )


def mixture_tail(places: FloatArray, mean_shift: float, sampling_prob: float) -> FloatArray:
    """Returns P(X > -x) at each place x, where X is from a mixture of two normals.

    X is from N(mean_shift, 1) with probability `sampling_prob`, and else from N(0, 1).
    """
    return np.asarray(
        (1 - sampling_prob) * ndtr(places) + sampling_prob * ndtr(places + mean_shift)
    )


def log_mixture_ratio(places: FloatArray, mean_shift: float, sampling_prob: float) -> FloatArray:
    """Returns the log density ratio, at places x, of the mixture (1 - q) N(0, 1) + q N(mean_shift, 1) and N(0, 1).

    The ratio is 1 - q + q e^(C x - C^2 / 2) with q = `sampling_prob` and C = `mean_shift`. Its logarithm is accurate
    near 0, where log1p is used, and for large powers, which are taken out of the logarithm.
    """
    power = mean_shift * places - mean_shift * mean_shift / 2
    far = power > 1
    log_near = np.log1p(sampling_prob * np.expm1(np.where(far, 0.0, power)))
    log_far = power + np.log(
        sampling_prob + (1 - sampling_prob) * np.exp(-np.where(far, power, 0.0))
    )
    return np.where(far, log_far, log_near)
