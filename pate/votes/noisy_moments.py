"""What rounds released about the relation of features and labels: noisy moments, which add up over releases.

A round of a release tells the noisy mean of features times the errors of the student of that round, over the people of
the release. Together with the student's own predictions on the public pool it is a noisy estimate of the covariance of
features and labels. The mean over all rounds is one estimate with one known variance: the *moments*. They hold all that
the rounds released, whatever the students of the rounds were. So moments of several releases are averaged by their
variances, and a student learns once, from the average (`MomentStudent`).

This file reads only public and released values. Source: docs/proofs/renewal.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pate.array_types import FloatArray

_LEAST_EXPLAINED = 1e-3  # of a new feature's mean square, by features of an earlier release
_CUT_OFF = 1e-6  # of the largest singular value, in the least squares fit of features
_LEAST_SQUARE = 1e-12  # of values without noise, in units of the expected squares
_DOUBT = 0.5  # standard deviation of the slope around 1, before anything is known of two cohorts
_LEAST_SLOPE = 0.01
_LARGEST_SLOPE = 2.0


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """Noisy covariances of features and labels, with the variance of their noise; every field may be published.

    Attributes:
        values: float64 `[num_features - 1, num_labels]`, the mean of feature times (label minus prevalence), for every
            feature but the constant.
        variances: float64 of the same shape, > 0, the variance of the noise and of the choice of people in each value.
    """

    values: FloatArray
    variances: FloatArray

    def with_others(self, others: NoisyMoments, expected_squares: FloatArray) -> NoisyMoments:
        """Returns the average of these moments and those of an earlier release of other people, by their variances.

        Other people may be unlike. Their moments without noise are taken to be b times the ones of these people, plus
        an independent rest. The number b is the regression of the earlier moments on these ones, freed of the noise of
        both; where noise leaves it open, b is about 1. So the earlier moments are divided by b, and the rest is a part
        of their variance. People who have nothing in common with these have b = 0, and hardly count.

        Args:
            others: the moments of the earlier release, for the same features.
            expected_squares: `[num_features - 1, num_labels]`, > 0, the square that each value is expected to have, up
                to a common factor.
        """
        weights = expected_squares / (self.variances + others.variances) ** 2
        total = float((weights * expected_squares).sum())
        # mean squares and mean product of both without noise, in units of `expected_squares`
        square = float((weights * (self.values**2 - self.variances)).sum()) / total
        others_square = float((weights * (others.values**2 - others.variances)).sum()) / total
        product = float((weights * self.values * others.values).sum()) / total
        square = max(square, _LEAST_SQUARE)
        signal = square * expected_squares
        # of the estimate product / square
        spread = self.variances * others.variances + signal * (self.variances + others.variances)
        spread += 2 * self.variances * (self.variances + 2 * signal)
        error = float((weights**2 * spread).sum()) / (total * square) ** 2
        estimate = product / square
        slope = (estimate * _DOUBT**2 + error) / (_DOUBT**2 + error)
        slope = min(max(slope, _LEAST_SLOPE), _LARGEST_SLOPE)
        rest = max(0.0, others_square - slope**2 * square)
        others_variances = (others.variances + rest * expected_squares) / slope**2
        precision = 1 / self.variances
        others_precision = 1 / others_variances
        variances = 1 / (precision + others_precision)
        values = (self.values * precision + others.values / slope * others_precision) * variances
        return NoisyMoments(values=values, variances=variances)

    def in_features(
        self,
        earlier_features: FloatArray,
        features: FloatArray,
        *,
        weight_variances: FloatArray,
        curvature: FloatArray,
    ) -> NoisyMoments:
        """Returns these moments for other features, of which the earlier ones may explain only a part.

        Each new feature is fitted by the earlier features on public rows, by least squares. Its moment is the same
        combination of the earlier moments, divided by the share of its mean square that the fit explains. What the fit
        misses is an error, whose variance is computed for labels of a linear model with random weights. So a feature
        that the fit hardly explains has a variance that is as good as infinite. Equal features keep their moments.

        Args:
            earlier_features: `[num_public, num_earlier]`, the features of these moments on public rows.
            features: `[num_public, num_features]`, the new features on the same rows.
            weight_variances: `[num_features]`, the variance that a weight of each new feature is expected to have.
            curvature: `[num_labels]`, p (1 - p) for a label with prevalence p.
        """
        if np.array_equal(earlier_features, features):
            return self
        combination = np.linalg.lstsq(earlier_features, features, rcond=_CUT_OFF)[0]
        products = features.T @ features / len(features)  # [k, k]
        fitted_products = (earlier_features @ combination).T @ features / len(features)
        least = np.finfo(np.float64).tiny
        share = np.diag(fitted_products) / np.maximum(np.diag(products), least)
        share = np.maximum(share, _LEAST_EXPLAINED)[:, None]
        missed = fitted_products / share - products
        variances = np.outer(missed**2 @ weight_variances, curvature**2)
        variances += (combination**2).T @ self.variances / share**2
        return NoisyMoments(
            values=combination.T @ self.values / share, variances=np.maximum(variances, least)
        )
