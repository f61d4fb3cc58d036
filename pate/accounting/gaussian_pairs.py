"""Pairs of distributions of one real number, for Gaussian releases, noisy maxima and sums over a random sample.

A release on two neighboring data sets has two distributions P and Q. The privacy loss of an output x is log(dP/dQ)(x).
For the pairs here both distributions have closed forms, and the loss rises in x. So the outputs whose loss is above a
given value are all x above some point, and their probability under P or Q is a tail of that distribution:

    ShiftedMaximum   P is the distribution of M + shift_of_maximum, and Q that of M, the largest of n standard normals.
                     The pair with n = 1 is that of a Gaussian release.

    SampledPair      P = (1 - q) N(0, 1) + q N(upper_mean, 1) and Q = (1 - q) N(0, 1) + q N(lower_mean, 1). The pair is
                     that of a sum with Gaussian noise over a random sample.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from pate.accounting.special import log_ndtr, ndtr
from pate.array_types import FloatArray

# Beyond so many standard deviations a normal has no mass in double precision.
_FARTHEST = 39.0
# The relative rounding error of the terms of a loss.
_LOSS_ROUNDING = 2.0**-50
# The sum of a variance goes so many standard deviations beyond the means.
_NEAR = 9.0


class Tails(NamedTuple):
    """The probabilities below and above some points x, `[num_points]` each, accurate also where they are tiny."""

    below: FloatArray  # P(X <= x)
    above: FloatArray  # P(X > x)


@dataclass(frozen=True)
class ShiftedMaximum:
    """The distributions of M + shift_of_maximum and M, a pair, with M the largest of `num_normals` standard normals."""

    num_normals: int  # the number of normals, >= 1; one is a Gaussian release
    shift_of_maximum: float  # > 0

    @property
    def variance(self) -> float:
        """The second moment of max(loss, 0), summed over both distributions; used to choose grids, and no bound."""
        outcomes = np.linspace(-_NEAR, self.shift_of_maximum + _NEAR, 1001)
        masses_between_points = np.diff(
            self.first_tails(outcomes).below + self.second_tails(outcomes).below
        )
        return float(np.sum(masses_between_points * np.maximum(self.loss(outcomes[1:]), 0.0) ** 2))

    def loss(self, outcomes: FloatArray) -> FloatArray:
        """Returns log density(M + shift_of_maximum) - log density(M) at each outcome x, `[num_points]`; it rises in x.

        M is the largest of n = num_normals standard normals, with the density n phi(x) Phi(x)^(n - 1).
        """
        loss_of_normal = (
            outcomes * self.shift_of_maximum - self.shift_of_maximum * self.shift_of_maximum / 2
        )
        log_ratio = log_ndtr(outcomes - self.shift_of_maximum) - log_ndtr(outcomes)
        return np.asarray(loss_of_normal + (self.num_normals - 1) * log_ratio)

    def loss_rounding(self, outcomes: FloatArray) -> FloatArray:
        """Returns a bound on the rounding error of the loss at each outcome, `[num_points]`."""
        size_of_normal = (
            np.abs(outcomes) * self.shift_of_maximum
            + self.shift_of_maximum * self.shift_of_maximum / 2
        )
        size_of_ratio = (self.num_normals - 1) * (
            log_ndtr(outcomes - self.shift_of_maximum) + log_ndtr(outcomes)
        )
        return np.asarray(_LOSS_ROUNDING * (size_of_normal - size_of_ratio))

    @property
    def farthest(self) -> float:
        """The distance from 0 beyond which both distributions of the pair have a probability that rounds to 0."""
        return self.shift_of_maximum + _FARTHEST

    def first_tails(self, outcomes: FloatArray) -> Tails:
        """Returns the tails of the first distribution, that of M + shift_of_maximum, at each outcome."""
        return self.second_tails(outcomes - self.shift_of_maximum)

    def second_tails(self, outcomes: FloatArray) -> Tails:
        """Returns the tails of the second distribution, that of the maximum M of all normals, at each outcome."""
        log_below = self.num_normals * log_ndtr(outcomes)
        return Tails(below=np.asarray(np.exp(log_below)), above=np.asarray(-np.expm1(log_below)))


@dataclass(frozen=True)
class SampledPair:
    """The pair that dominates a sum over a random sample with Gaussian noise.

    The first distribution is N(upper_mean, 1) with the probability `sampling_prob`, and else N(0, 1). The second has
    N(lower_mean, 1) in the place of N(upper_mean, 1).
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
        outcomes = np.linspace(self.lower_mean - _NEAR, self.upper_mean + _NEAR, 2001)
        return float(
            np.sum(np.diff(self.first_tails(outcomes).below) * self.loss(outcomes[1:]) ** 2)
        )

    def loss(self, outcomes: FloatArray) -> FloatArray:
        """Returns the privacy loss at each outcome x, `[num_points]`; it rises in x."""
        log_first = log_mixture_ratio(
            outcomes, mean_shift=self.upper_mean, sampling_prob=self.sampling_prob
        )
        log_second = log_mixture_ratio(
            outcomes, mean_shift=self.lower_mean, sampling_prob=self.sampling_prob
        )
        return np.asarray(log_first - log_second)

    def loss_rounding(self, outcomes: FloatArray) -> FloatArray:
        """Returns a bound on the rounding error of the loss at each outcome, `[num_points]`."""
        sizes = [
            2 * np.abs(shift * outcomes) + shift * shift
            for shift in (self.upper_mean, self.lower_mean)
        ]
        return np.asarray(_LOSS_ROUNDING * sum(sizes))

    @property
    def farthest(self) -> float:
        """The distance from 0 beyond which both distributions of the pair have a probability that rounds to 0."""
        return max(self.upper_mean, -self.lower_mean) + _FARTHEST

    def first_tails(self, outcomes: FloatArray) -> Tails:
        """Returns the tails of the first distribution, a mixture of N(0, 1) and N(upper_mean, 1), at each outcome."""
        return self._tails(outcomes, mean_shift=self.upper_mean)

    def second_tails(self, outcomes: FloatArray) -> Tails:
        """Returns the tails of the second distribution, a mixture of N(0, 1) and N(lower_mean, 1), at each outcome."""
        return self._tails(outcomes, mean_shift=self.lower_mean)

    def _tails(self, outcomes: FloatArray, mean_shift: float) -> Tails:
        """Returns the tails of a mixture at each outcome: N(mean_shift, 1) with `sampling_prob`, and else N(0, 1)."""
        # P(X <= x) is the upper tail of -X, from the mixture with N(-mean_shift, 1).
        return Tails(
            below=mixture_tail(
                x=outcomes, mean_shift=-mean_shift, sampling_prob=self.sampling_prob
            ),
            above=mixture_tail(
                x=-outcomes, mean_shift=mean_shift, sampling_prob=self.sampling_prob
            ),
        )


def mixture_tail(x: FloatArray, mean_shift: float, sampling_prob: float) -> FloatArray:
    """Returns P(X > -x) at each point x, `[num_points]`, where X is from a mixture of two normals.

    X is from N(mean_shift, 1) with probability `sampling_prob`, and else from N(0, 1).
    """
    return np.asarray((1 - sampling_prob) * ndtr(x) + sampling_prob * ndtr(x + mean_shift))


def log_mixture_ratio(x: FloatArray, mean_shift: float, sampling_prob: float) -> FloatArray:
    """Returns the log density ratio of the mixture (1 - q) N(0, 1) + q N(mean_shift, 1) and N(0, 1) at each point x.

    The ratio is 1 - q + q e^(C x - C^2 / 2) with q = `sampling_prob` and C = `mean_shift`. Its logarithm is accurate
    near 0, where log1p is used, and for large powers, which are taken out of the logarithm.
    """
    log_likelihood_ratio = mean_shift * x - mean_shift * mean_shift / 2
    is_far = log_likelihood_ratio > 1
    log_near = np.log1p(sampling_prob * np.expm1(np.where(is_far, 0.0, log_likelihood_ratio)))
    log_far = log_likelihood_ratio + np.log(
        sampling_prob + (1 - sampling_prob) * np.exp(-np.where(is_far, log_likelihood_ratio, 0.0))
    )
    return np.where(is_far, log_far, log_near)
