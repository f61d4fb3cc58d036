"""Noisy moments: the covariances of features and labels that rounds of votes released, averaged over releases.

A round of a release publishes the noisy mean, over private records, of features times the student's errors. The mean of
features times the student's own predictions is known from the public pool. The sum of both is a noisy estimate of the
covariance of features and labels. The mean of these estimates over all rounds, with known variances, is called the
*moments*. The moments hold all that the rounds released, whatever the students of the rounds were. So moments of
several releases are averaged, weighted by the inverse of their variances, and a student learns once, from the average
(`MomentStudent`).

This file reads only public and released values. Source: docs/proofs/renewal.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pate.array_types import FloatArray

# The least share of a new feature's mean square that features of an earlier release are taken to explain.
_MIN_EXPLAINED = 1e-3
# Singular values below this share of the largest one count as 0 in the least squares fit of features.
_RELATIVE_CUT_OFF = 1e-6
# The least mean square of moments without noise, in units of the expected squares.
_MIN_MEAN_SQUARE = 1e-12
# The prior standard deviation of the slope around 1, and the range of the slope.
_PRIOR_STD = 0.5
_MIN_SLOPE = 0.01
_MAX_SLOPE = 2.0


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class NoisyMoments:
    """These moments are noisy covariances of features and labels, each with a variance; every field may be published.

    Attributes:
        values: float64 `[num_features - 1, num_labels]`, for every feature but the constant: the noisy mean of feature
            times label over records, less the feature's mean on public rows times the label's prevalence. The
            prevalence is the share of records that have the label, which is public or was released with noise.
        variances: float64 of the same shape, > 0, the variance of each value. It includes the variance of the noise,
            and that of a mean over few records, which differs by chance from the mean over all people.
    """

    values: FloatArray
    variances: FloatArray

    def average_with(
        self, other_moments: NoisyMoments, *, expected_squared_moments: FloatArray
    ) -> NoisyMoments:
        """Returns the average of these moments and those of an earlier release of other people, by their variances.

        Other people may differ. Their moments without noise are assumed to be b times the moments of these people, plus
        an independent remainder. The slope b is the regression of the earlier moments on these ones, corrected for the
        noise of these. It has a prior around 1, which decides if the noise is large, and is cut to 0.01..2. The earlier
        moments are divided by b, and the remainder is a part of their variance. People who have nothing in common with
        these have b near 0.01, and hardly count.

        Args:
            other_moments: the moments of the earlier release, for the same features.
            expected_squared_moments: `[num_features - 1, num_labels]`, > 0, the square that each value is expected to
                have, up to a common factor.
        """
        entry_weights = expected_squared_moments / (self.variances + other_moments.variances) ** 2
        total_weight = float((entry_weights * expected_squared_moments).sum())
        # The mean squares and the mean product of both without noise, in units of `expected_squared_moments`.
        mean_square_of_moments = (
            float((entry_weights * (self.values**2 - self.variances)).sum()) / total_weight
        )
        mean_square_of_others = (
            float((entry_weights * (other_moments.values**2 - other_moments.variances)).sum())
            / total_weight
        )
        mean_product = (
            float((entry_weights * self.values * other_moments.values).sum()) / total_weight
        )
        mean_square_of_moments = max(mean_square_of_moments, _MIN_MEAN_SQUARE)
        slope_estimate = mean_product / mean_square_of_moments
        # The variance of the estimate, from the variance of each entry of the two sums.
        signal = mean_square_of_moments * expected_squared_moments
        product_variances = self.variances * other_moments.variances + signal * (
            self.variances + other_moments.variances
        )
        square_variances = 2 * self.variances * (self.variances + 2 * signal)
        entry_variances = product_variances + square_variances
        estimate_variance = (
            float((entry_weights**2 * entry_variances).sum())
            / (total_weight * mean_square_of_moments) ** 2
        )
        # The posterior mean of the slope.
        slope = (slope_estimate * _PRIOR_STD**2 + estimate_variance) / (
            _PRIOR_STD**2 + estimate_variance
        )
        slope = min(max(slope, _MIN_SLOPE), _MAX_SLOPE)
        remainder_mean_square = max(0.0, mean_square_of_others - slope**2 * mean_square_of_moments)
        others_variances = (
            other_moments.variances + remainder_mean_square * expected_squared_moments
        ) / slope**2
        precisions = 1 / self.variances
        others_precisions = 1 / others_variances
        variances = 1 / (precisions + others_precisions)
        weighted_sum = self.values * precisions + other_moments.values / slope * others_precisions
        return NoisyMoments(values=weighted_sum * variances, variances=variances)

    def in_features(
        self,
        earlier_release_features: FloatArray,
        *,
        new_features: FloatArray,
        weight_variances: FloatArray,
        curvature: FloatArray,
    ) -> NoisyMoments:
        """Returns these moments for other features, of which the earlier ones may explain only a part.

        Each new feature is fitted by the earlier features on public rows, by least squares. The fit explains a share of
        the new feature's mean square. The new moment is the same combination of the earlier moments, divided by this
        share, or by 0.001 if the share is smaller. The part that the fit does not explain is an error, whose variance
        is computed for labels of a linear model with random weights. If the fit explains nothing, the combination is
        about 0, and so is the new moment. Its variance is then about the square that the moment is expected to have. If
        the new features equal the earlier ones, these moments are returned.

        Args:
            earlier_release_features: `[num_public, num_earlier]`, the features of these moments on public rows, without
                a constant.
            new_features: `[num_public, num_features]`, the new features on the same rows, without a constant.
            weight_variances: `[num_features]`, the variance that a weight of each new feature is expected to have.
            curvature: `[num_labels]`, p (1 - p) for a label with prevalence p.
        """
        if np.array_equal(earlier_release_features, new_features):
            return self
        combination = np.linalg.lstsq(
            earlier_release_features, new_features, rcond=_RELATIVE_CUT_OFF
        )[0]
        feature_products = (
            new_features.T @ new_features / len(new_features)
        )  # [num_features, num_features]
        fitted_products = (
            (earlier_release_features @ combination).T @ new_features / len(new_features)
        )
        smallest_positive = np.finfo(np.float64).tiny
        explained_shares = np.diag(fitted_products) / np.maximum(
            np.diag(feature_products), smallest_positive
        )
        explained_shares = np.maximum(explained_shares, _MIN_EXPLAINED)[:, None]
        unexplained_feature_products = fitted_products / explained_shares - feature_products
        error_variances = np.outer(unexplained_feature_products**2 @ weight_variances, curvature**2)
        noise_variances = (combination**2).T @ self.variances / explained_shares**2
        return NoisyMoments(
            values=combination.T @ self.values / explained_shares,
            variances=np.maximum(error_variances + noise_variances, smallest_positive),
        )
