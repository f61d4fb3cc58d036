"""What rounds released about the relation of features and labels: noisy moments, which add up over releases.

A round of a release tells the noisy mean of features times the errors of the student of that round, over the people of
the release. Together with the student's own predictions on the public pool it is a noisy estimate of the covariance of
features and labels. The mean over all rounds is one estimate with one known variance: the *moments*. They hold all that
the rounds released, whatever the students of the rounds were. So moments of several releases are averaged by their
variances, and a student learns once, from the average (`MomentStudent`).

This file reads only public and released values. Source: docs/proofs/renewal.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pate.votes.weighted import Array

_LEAST_EXPLAINED = 1e-3  # of a new feature's mean square, by features of an earlier release
_CUT_OFF = 1e-6  # of the largest singular value, in the least squares fit of features
_SURE_ERRORS = (
    2.0  # standard errors by which moments of two releases differ where chance does not explain it
)


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """Noisy covariances of features and labels, with the variance of their noise; every field may be published.

    Attributes:
        values: float64 `[num_features - 1, num_labels]`, the mean of feature times (label minus prevalence), for every
            feature but the constant.
        variances: float64 of the same shape, > 0, the variance of the noise and of the choice of people in each value.
    """

    values: Array
    variances: Array

    def with_others(self, others: NoisyMoments, expected_squares: Array) -> NoisyMoments:
        """Returns the average of these moments and those of an earlier release of other people, by their variances.

        Other people may be unlike. Let the squared differences of both be larger than the variances explain, by a part
        that is in proportion to `expected_squares`. This part, if it is more than two standard errors from 0, is added
        to the variances of the earlier release.

        Args:
            others: the moments of the earlier release, for the same features.
            expected_squares: `[num_features - 1, num_labels]`, > 0, the square that each value is expected to have, up
                to a common factor.
        """
        chance = self.variances + others.variances
        excess = (self.values - others.values) ** 2 - chance
        weights = expected_squares / chance**2
        total = float((weights * expected_squares).sum())
        # The square of a Gaussian has twice its squared variance as variance.
        error = math.sqrt(2 * float((weights**2 * chance**2).sum())) / total
        drift = float((weights * excess).sum()) / total
        others_variances = others.variances
        if drift > _SURE_ERRORS * error:
            others_variances = others_variances + drift * expected_squares
        precision = 1 / self.variances
        others_precision = 1 / others_variances
        variances = 1 / (precision + others_precision)
        values = (self.values * precision + others.values * others_precision) * variances
        return NoisyMoments(values=values, variances=variances)

    def in_features(
        self,
        earlier_features: Array,
        features: Array,
        *,
        weight_variances: Array,
        curvature: Array,
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
