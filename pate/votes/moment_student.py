"""A logistic student that learns from noisy moments, by a descent on public rows.

The moments of a release are noisy covariances of features and labels, which hold all that its rounds released
(`NoisyMoments`). The loss of a logistic model falls fastest along the moments minus the moments of the model's own
predictions on public rows. So a descent needs no further votes: it is a computation on public and released values. It
takes the learning time that is best for the noise of the moments, and its weights become their posterior mean
(`posterior_rows`), as in `Descent`. In `Descent` each round brings noise of its own. Here the noise is the same in all
steps. So a weight that has learned the share s of its signal has the noise of the moments times s / a, where a is the
rate at which the weight learns (`LearningTimes.speeds`).

This file reads only public and released values. Source: docs/proofs/renewal.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pate.array_types import Float32Array, FloatArray
from pate.votes.descent import Descent
from pate.votes.learning_times import LearningTimes
from pate.votes.noisy_moments import NoisyMoments
from pate.votes.public_start import PublicStart
from pate.votes.recipe import Recipe
from pate.votes.shrinkage import posterior_rows

# The number of steps of the descent on noisy moments.
_NUM_STEPS = 20
# The largest share of the remaining error of a weight that one step removes.
_MAX_STEP = 1 - 1e-9
# Any prevalence: the mean squares of features, for which a descent is made with it, do not depend on the prevalence.
_ANY_PREVALENCE = 0.5
# A weight is multiplied by this power of the share of its signal that it had time to learn, relative to other weights.
_UNLEARNED_POWER = 0.5


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class MomentStudent:
    """A student that learns from released moments: noisy covariances of the private records' features and labels.

    Attributes:
        public_features: the features of the public pool, float32 `[num_public, num_features]`; the last is constant.
        feature_variances: `[num_features - 1]`, the variance that each feature but the constant is expected to explain,
            as in `PublicPCA.feature_variances`.
        recipe: the tuned constants.
    """

    public_features: Float32Array
    feature_variances: FloatArray
    recipe: Recipe

    def fit(
        self,
        noisy_moments: NoisyMoments,
        *,
        prevalence: FloatArray,
        public_start: PublicStart | None = None,
    ) -> FloatArray:
        """Returns the weights of a student that learns from moments, `[num_features, num_labels]`.

        Args:
            noisy_moments: the moments that the student learns from.
            prevalence: `[num_labels]`, in (0, 1), to which the mean probabilities are matched.
            public_start: the weights at which the student begins, and what is unknown about them; None to begin at the
                prevalence.
        """
        descent = self._descent(prevalence)
        # The mean is the harmonic one, as features without any information may have variances beyond all bounds.
        noise_variance_rates = 1 / (1 / noisy_moments.variances).mean(axis=0)
        if public_start is None:
            learning_times_of_labels = descent.learning_times(noise_variance_rates)
            start_weights = np.zeros_like(noisy_moments.values)
            weights = descent.initial_weights()
        else:
            learning_times_of_labels = descent.learning_times(
                noise_variance_rates, weight_variances=public_start.variances
            )
            start_weights = public_start.weights
            weights = descent.with_constants(start_weights, prevalence=prevalence)
        target_products = np.outer(self._public_feature_means(), prevalence)
        target_products[:-1] += noisy_moments.values
        for _ in range(_NUM_STEPS):
            probabilities = descent.probabilities(weights)
            gradient = target_products - mean_products(
                self.public_features, probabilities=probabilities
            )
            weights = descent.take_step(
                weights, gradient=gradient, learning_times_of_labels=learning_times_of_labels
            )
        remainder = self._posterior_remainder(
            weights[:-1] - start_weights,
            noisy_moments=noisy_moments,
            learning_times_of_labels=learning_times_of_labels,
            public_start=public_start,
        )
        return descent.with_constants(start_weights + remainder, prevalence=prevalence)

    def _posterior_remainder(
        self,
        remainder: FloatArray,
        *,
        noisy_moments: NoisyMoments,
        learning_times_of_labels: LearningTimes,
        public_start: PublicStart | None,
    ) -> FloatArray:
        """Returns the change of the weights by the descent, with its noise reduced, `[num_features - 1, num_labels]`.

        The change is estimated by its posterior mean (`posterior_rows`). Then each weight is multiplied by the share of
        its signal that the descent had time to learn. In a descent from the prevalence the factor is the root of this
        share over the label's mean share, and all weights start at 0. Weights of the constant feature are left out.

        Args:
            remainder: `[num_features - 1, num_labels]`, the noisy weights after the last step minus those of the start.
            noisy_moments: the moments that the student learned from.
            learning_times_of_labels: the learning times of the descent: the learning rate times the number of steps.
            public_start: the start of the descent; None for a descent from the prevalence.
        """
        speeds = learning_times_of_labels.speeds.T  # [num_features - 1, num_labels]
        step_shares = np.minimum(speeds * learning_times_of_labels.times / _NUM_STEPS, _MAX_STEP)
        learned_shares = -np.expm1(_NUM_STEPS * np.log1p(-step_shares))
        noise_variances = noisy_moments.variances / speeds**2
        noise_std = np.sqrt(noise_variances)
        relative_signals = self.feature_variances**self.recipe.signal_power
        if public_start is None:
            weight_variances = relative_signals[:, None] / self.public_mean_squares[:, None]
        else:
            power_change = relative_signals / np.sqrt(self.feature_variances)
            weight_variances = public_start.variances * power_change[:, None]
        posterior = noise_std * posterior_rows(
            noisy_matrix=remainder / learned_shares / noise_std,
            prior_row_variances=(weight_variances / noise_variances).mean(axis=1),
        )
        if public_start is not None:
            # A weight keeps the value of the start as far as it had no time to learn.
            return np.asarray(posterior * learned_shares)
        mean_learned_share = relative_signals @ learned_shares / relative_signals.sum()
        return np.asarray(posterior * (learned_shares / mean_learned_share) ** _UNLEARNED_POWER)

    def as_start(self, noisy_moments: NoisyMoments, *, prevalence: FloatArray) -> PublicStart:
        """Returns the student that learns from moments as a start of another descent, with the variance of each weight.

        The variance is the posterior one; the start holds the moments, too.

        Args:
            noisy_moments: the moments that the student learns from.
            prevalence: `[num_labels]`, in (0, 1), of the people whose moments these are.
        """
        speeds = np.outer(self.public_mean_squares, prevalence * (1 - prevalence))
        prior_variances = self._descent(prevalence).weight_variances[:, None]
        weights = self.fit(noisy_moments, prevalence=prevalence)
        return PublicStart(
            weights=weights[:-1],
            variances=1 / (1 / prior_variances + speeds**2 / noisy_moments.variances),
            feature_label_moments=noisy_moments,
        )

    def convert_moments(
        self,
        noisy_moments: NoisyMoments,
        *,
        earlier_release_features: FloatArray,
        prevalence: FloatArray,
    ) -> NoisyMoments:
        """Returns moments of other features as moments of this student's features; see `NoisyMoments.in_features`.

        Args:
            noisy_moments: the moments of the other features.
            earlier_release_features: `[num_public, num_earlier]`, the other features on the public rows, without a
                constant.
            prevalence: `[num_labels]`, in (0, 1).
        """
        return noisy_moments.in_features(
            earlier_release_features,
            new_features=self.public_features[:, :-1].astype(np.float64),
            weight_variances=self._descent(prevalence).weight_variances,
            curvature=prevalence * (1 - prevalence),
        )

    def moments_from_products(
        self,
        noisy_products: FloatArray,
        *,
        prevalence: FloatArray,
        noise_variance: FloatArray,
        num_records: float,
    ) -> NoisyMoments:
        """Returns the moments of people, from the noisy mean products of their features and labels.

        Args:
            noisy_products: `[num_features, num_labels]`, the noisy mean over people of features times labels.
            prevalence: `[num_labels]`, the prevalence among these people.
            noise_variance: `[num_labels]`, the variance of the noise in each product.
            num_records: the number of records in the mean. The fewer there are, the more the moments of these people
                differ by chance from those of all people; this is a part of the variance.
        """
        moment_values = noisy_products - np.outer(self._public_feature_means(), prevalence)
        sampling_variances = (
            np.outer(self.public_mean_squares, prevalence * (1 - prevalence)) / num_records
        )
        return NoisyMoments(
            values=moment_values[:-1], variances=sampling_variances + noise_variance
        )

    def expected_squared_moments(self, prevalence: FloatArray) -> FloatArray:
        """Returns the square that each moment without noise is expected to have, `[num_features - 1, num_labels]`.

        Args:
            prevalence: `[num_labels]`, in (0, 1).
        """
        speeds = np.outer(self.public_mean_squares, prevalence * (1 - prevalence))
        return np.asarray(speeds**2 * self._descent(prevalence).weight_variances[:, None])

    @cached_property
    def public_mean_squares(self) -> FloatArray:
        """The mean square on the public rows of each feature but the constant, `[num_features - 1]`, > 0."""
        return self._descent(np.array([_ANY_PREVALENCE])).public_mean_squares

    def _descent(self, prevalence: FloatArray) -> Descent:
        """Returns the rules of a descent on public rows, without a clip, from a prevalence `[num_labels]`."""
        return Descent(
            public_features=self.public_features,
            feature_variances=self.feature_variances,
            prevalence=prevalence,
            clip_factor=1.0,
            num_steps=_NUM_STEPS,
            # Longer learning brings no further noise here, so no longer time than the best one is needed.
            recipe=replace(self.recipe, longer=1.0),
        )

    def _public_feature_means(self) -> FloatArray:
        """Returns the mean of each feature on the public rows, `[num_features]`."""
        return np.asarray(self.public_features.mean(axis=0, dtype=np.float64))


def mean_products(public_features: Float32Array, *, probabilities: Float32Array) -> FloatArray:
    """Returns the mean of features times probabilities, float64 `[num_features, num_labels]`.

    Args:
        public_features: `[num_public, num_features]`.
        probabilities: `[num_public, num_labels]`.
    """
    sums_of_products = public_features.T @ probabilities
    return sums_of_products.astype(np.float64) / len(public_features)
