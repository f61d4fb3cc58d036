"""The Gaussian posterior of the weights of a linear model, given noisy gradients with noise of known variance."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from pate.array_types import FloatArray

# The scales of the prior variances among which the most likely one is found: the powers of 2 from 1/64 to 64.
_SCALES = 2.0 ** np.arange(-6, 7)


@dataclass(frozen=True, eq=False)
class SignalPosterior:
    """The Gaussian posterior of the weights of L labels along D axes.

    Rule: the weights are independent with mean 0, and their variances along the axes are known up to a scale, which is
    the same for all labels. Of thirteen scales the one with the largest likelihood is taken (empirical Bayes). The mean
    of the posterior is then a ridge estimate, whose ridge follows from the known variance of the noise. Scale, mean
    and variances need at least one observation of every weight.

    Formal guarantee: the posterior reads nothing but what was released, and public numbers.

    Attributes:
        prior_variances: the variance of a weight along each axis, up to a scale, > 0, `[D]`.
        precision: the sum of 1 / variance over the observations of a weight, `[D, L]`.
        weighted_sum: the sum of observation / variance over the observations of a weight, `[D, L]`.
    """

    prior_variances: FloatArray
    precision: FloatArray
    weighted_sum: FloatArray

    @classmethod
    def before_observations(cls, prior_variances: FloatArray, num_labels: int) -> Self:
        """Returns the posterior without any observation, which is the prior.

        Args:
            prior_variances: the variance of a weight along each axis, up to a scale, `[D]`.
            num_labels: the number of labels L.
        """
        zero_of_each_weight = np.zeros((len(prior_variances), num_labels))
        return cls(
            prior_variances=prior_variances,
            precision=zero_of_each_weight,
            weighted_sum=zero_of_each_weight,
        )

    def with_observation(
        self, observed_weights: FloatArray, observation_variances: FloatArray
    ) -> Self:
        """Returns the posterior with one more observation.

        Args:
            observed_weights: the observed weights, which have noise, `[D, L]`.
            observation_variances: the variance of the noise of each weight, > 0, `[D, L]`.
        """
        return type(self)(
            prior_variances=self.prior_variances,
            precision=self.precision + 1 / observation_variances,
            weighted_sum=self.weighted_sum + observed_weights / observation_variances,
        )

    @cached_property
    def scale(self) -> float:
        """The scale of the prior variances with the largest likelihood, one of thirteen from 1/64 to 64."""
        log_likelihoods_of_weights = []
        # The weighted mean of all observations of a weight is a sufficient statistic. It is normal with mean 0.
        observed_mean_of_weights = self.weighted_sum / self.precision
        squared_mean_of_weights = np.square(observed_mean_of_weights)
        for scale in _SCALES:
            variance_of_means = scale * self.prior_variances[:, None] + 1 / self.precision
            log_likelihoods_of_weights.append(
                -np.sum(np.log(variance_of_means) + squared_mean_of_weights / variance_of_means)
            )
        return float(_SCALES[int(np.argmax(log_likelihoods_of_weights))])

    @property
    def mean(self) -> FloatArray:
        """The posterior mean of the weights, `[D, L]`."""
        scaled_prior_variances = self.scale * self.prior_variances[:, None]
        return np.asarray(
            self.weighted_sum
            * scaled_prior_variances
            / (1 + self.precision * scaled_prior_variances)
        )

    @property
    def variances(self) -> FloatArray:
        """The posterior variances of the weights, `[D, L]`."""
        scaled_prior_variances = self.scale * self.prior_variances[:, None]
        return np.asarray(scaled_prior_variances / (1 + self.precision * scaled_prior_variances))
