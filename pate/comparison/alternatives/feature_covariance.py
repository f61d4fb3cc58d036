"""The covariance of the features of a linear model, from the public pool or released with noise."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from pate.array_types import FloatArray, IntArray
from pate.comparison.alternatives.group_gradients import ROWS_AT_ONCE
from pate.comparison.alternatives.noisy_gradient import NoisyClippedSum

PUBLIC = "public"
NOISY = "noisy"
# The share of the covariance in 1 / noise_multiplier**2 of all that is released after the prevalence.
COVARIANCE_SHARE = 0.2
# The largest distance of the sums of two neighbors, which differ in one group. A group's mean of products x x^T of
# features of length 1 is positive semidefinite with trace 1. Two such matrices are at most sqrt(2) apart, as their
# inner product is >= 0.
_COVARIANCE_SUM_SENSITIVITY = math.sqrt(2)
# The smallest variance along an axis, as a share of the largest variance.
_SMALLEST_VARIANCE = 1e-9


@dataclass(frozen=True, eq=False)
class FeatureAxes:
    """The principal axes of the features, along which the weights of a linear model are learned independently.

    Attributes:
        axes: the axes, `[D, D]`, orthonormal; each column is an axis.
        variances: the mean square of the features along each axis, raised to a smallest one, `[D]`, > 0.
    """

    axes: FloatArray
    variances: FloatArray

    @classmethod
    def of_covariance(cls, covariance: FloatArray, *, noise_std: float = 0.0) -> Self:
        """Returns the axes of a covariance `[D, D]`.

        Args:
            covariance: the mean of the products x x^T of features x.
            noise_std: the standard deviation of the noise in each entry off the diagonal. Variances below the largest
                eigenvalue that noise alone is expected to have are raised to it, as their inverses would be noise.
                Without noise they are raised to 1e-9 of the largest variance.
        """
        variances, axes = np.linalg.eigh(covariance)
        # Wigner's semicircle: noise of std s in each entry of a symmetric matrix has eigenvalues up to 2 s sqrt(D).
        largest_noise_eigenvalue = 2 * noise_std * math.sqrt(len(variances))
        smallest_variance = max(_SMALLEST_VARIANCE * float(variances[-1]), largest_noise_eigenvalue)
        return cls(axes=axes, variances=np.maximum(variances, smallest_variance))


@dataclass(frozen=True)
class CovarianceRelease:
    """A mechanism that releases the covariance of the features of N groups with Gaussian noise.

    Rule: a group contributes the mean of x x^T over its records, where x are the features of a record. The sum over all
    groups gets noise and is divided by N.

    Formal guarantee: if one group is replaced, the sum moves by at most sqrt(2). The release is a
    `GaussianEvent(noise_multiplier)`; source: docs/proofs/alternatives.md.

    Attributes:
        noise_multiplier: the standard deviation of the noise divided by the sensitivity, > 0.
        num_groups: the number of groups N, public.
    """

    noise_multiplier: float
    num_groups: int

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise in an entry of the released mean off the diagonal.

        On the diagonal it is larger by a factor of sqrt(2).
        """
        return (
            self.noise_multiplier * _COVARIANCE_SUM_SENSITIVITY / (self.num_groups * math.sqrt(2))
        )

    def squared_error(self, num_features: int) -> float:
        """Returns an upper bound on the expected squared Frobenius error of the released mean of x x^T.

        It adds the error of noise in the D x D entries and the sampling error 1 / N of a mean over N groups.

        Args:
            num_features: D, the number of features.
        """
        num_entries = num_features * (num_features + 1) / 2
        # The factor 2: an entry off the diagonal counts twice, and one on the diagonal has twice the variance.
        return num_entries * 2 * self.noise_std**2 + 1 / self.num_groups

    def release(
        self, features: FloatArray, group_ids: IntArray, rng: np.random.Generator
    ) -> FloatArray:
        """Returns the noisy covariance: the mean over groups of a group's mean x x^T, with noise, `[D, D]`.

        Args:
            features: `[n, D]`, each row of length 1.
            group_ids: the group of each record, `[n]`.
            rng: draws the noise.
        """
        # `NoisyClippedSum` takes half of the sensitivity: a replaced unit moves its sums by up to two clips.
        noisy_entry_sum = NoisyClippedSum(
            clip=_COVARIANCE_SUM_SENSITIVITY / 2,
            noise_per_sensitivity=self.noise_multiplier,
            max_units=self.num_groups,
        )
        noisy_entries = noisy_entry_sum.release(summed_entries(features, group_ids), rng=rng)
        num_features = features.shape[1]
        upper_triangle = np.triu_indices(num_features)
        covariance = np.empty((num_features, num_features))
        covariance[upper_triangle] = noisy_entries / _entry_weights(num_features) / self.num_groups
        covariance.T[upper_triangle] = covariance[upper_triangle]
        return covariance


def summed_entries(features: FloatArray, group_ids: IntArray) -> FloatArray:
    """Returns the sum over groups of the mean of x x^T over the group's records, as a vector `[D (D + 1) / 2]`.

    The vector has the upper triangle of this symmetric matrix. An entry off the diagonal stands for two, and is
    multiplied by sqrt(2). So two vectors are as far apart in l2 as the two matrices.

    Args:
        features: `[n, D]`, the features x of each record.
        group_ids: the group of each record, `[n]`.
    """
    _, group_of_records, group_sizes = np.unique(group_ids, return_inverse=True, return_counts=True)
    weight_of_records = 1 / group_sizes[group_of_records]
    num_features = features.shape[1]
    product_total = np.zeros((num_features, num_features))
    for first_row in range(0, len(features), ROWS_AT_ONCE):
        feature_rows = features[first_row : first_row + ROWS_AT_ONCE]
        product_total += feature_rows.T @ (
            feature_rows * weight_of_records[first_row : first_row + ROWS_AT_ONCE, None]
        )
    return np.asarray(product_total[np.triu_indices(num_features)] * _entry_weights(num_features))


def _entry_weights(num_features: int) -> FloatArray:
    """Returns the factor of each entry of a matrix's upper triangle in `summed_entries`, `[D (D + 1) / 2]`.

    It is 1 on the diagonal and sqrt(2) elsewhere, for D features.
    """
    rows, columns = np.triu_indices(num_features)
    return np.where(rows == columns, 1.0, math.sqrt(2))
