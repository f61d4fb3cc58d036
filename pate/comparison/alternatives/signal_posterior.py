"""The Gaussian posterior of the weights of a linear model, given noisy gradients with noise of known variance."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from pate.array_types import FloatArray

# The scales of the prior variances that are tried.
_SCALES = 2.0 ** np.arange(-6, 7)


@dataclass(frozen=True, eq=False)
class SignalPosterior:
    """The Gaussian posterior of the weights of L labels along D axes.

    Rule: the weights are independent with mean 0, and their variances along the axes are known up to a scale. The scale
    is the same for all labels. The one of thirteen scales that makes the observations most likely is taken. So the
    ridge that shrinks a weight follows from the known variance of the noise.

    Formal guarantee: the posterior reads nothing but what was released, and public numbers.

    Attributes:
        prior_variances: the variance of a weight along each axis, up to a scale, > 0, `[D]`.
        precision: the sum over the observations of 1 / variance, `[D, L]`.
        weighted_sum: the sum over the observations of weight / variance, `[D, L]`.
    """

    prior_variances: FloatArray
    precision: FloatArray
    weighted_sum: FloatArray

    @classmethod
    def before_observations(cls, prior_variances: FloatArray, num_labels: int) -> Self:
        """Returns the posterior without any observation, which is the prior."""
        nothing = np.zeros((len(prior_variances), num_labels))
        return cls(prior_variances=prior_variances, precision=nothing, weighted_sum=nothing)

    def with_observation(self, weights: FloatArray, variances: FloatArray) -> Self:
        """Returns the posterior with one more observation.

        Args:
            weights: the observed weights, with noise, `[D, L]`.
            variances: the variances of their noise, > 0, `[D, L]`.
        """
        return type(self)(
            prior_variances=self.prior_variances,
            precision=self.precision + 1 / variances,
            weighted_sum=self.weighted_sum + weights / variances,
        )

    @cached_property
    def scale(self) -> float:
        """The scale of the prior variances that makes the observations most likely, of thirteen from 1/64 to 64."""
        log_likelihoods = []
        for scale in _SCALES:
            # of all observations of a weight together, which are as good as their weighted mean
            variances = scale * self.prior_variances[:, None] + 1 / self.precision
            squares = np.square(self.weighted_sum / self.precision)
            log_likelihoods.append(-np.sum(np.log(variances) + squares / variances))
        return float(_SCALES[int(np.argmax(log_likelihoods))])

    @property
    def mean(self) -> FloatArray:
        """The mean of the weights, `[D, L]`."""
        variances = self.scale * self.prior_variances[:, None]
        return np.asarray(self.weighted_sum * variances / (1 + self.precision * variances))

    @property
    def variances(self) -> FloatArray:
        """The variances of the weights, `[D, L]`."""
        variances = self.scale * self.prior_variances[:, None]
        return np.asarray(variances / (1 + self.precision * variances))
