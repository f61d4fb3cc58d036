"""A logistic student that learns from noisy moments, by a descent on public rows.

The moments of a release are all that its rounds told (`NoisyMoments`). The gradient of a logistic model's loss is the
moments minus the model's own on public rows. So a descent needs no further votes: it is a computation on public and
released values. It takes the learning time that is best for the noise of the moments, and its weights become their
posterior mean (`posterior_rows`), as in `Descent`. In `Descent` each round brings noise of its own. Here the noise is
the same in all steps: a weight that has learned the share s of its signal holds the noise of the moments times s / a,
where a is its speed.

This file reads only public and released values. Source: docs/proofs/renewal.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pate.array_types import Float32Array, FloatArray
from pate.votes.descent import Descent
from pate.votes.noisy_moments import NoisyMoments
from pate.votes.public_start import PublicStart
from pate.votes.recipe import Recipe
from pate.votes.shrinkage import posterior_rows

_NUM_STEPS = 20
_LONGEST_STEP = 1 - 1e-9  # of the remaining error
_HALF = 0.5
_UNLEARNED_POWER = (
    0.5  # of the share that a weight had time to learn, which the weight is multiplied by
)


@dataclass(frozen=True, eq=False)
class MomentStudent:
    """A student of noisy moments, on the features of a public pool.

    Attributes:
        public_features: float32 `[num_public, num_features]`, as in `Descent`.
        feature_variances: `[num_features - 1]`, as in `Descent`.
        recipe: the tuned constants.
    """

    public_features: Float32Array
    feature_variances: FloatArray
    recipe: Recipe

    def weights(
        self, moments: NoisyMoments, prevalence: FloatArray, start: PublicStart | None = None
    ) -> FloatArray:
        """Returns the student's weights, `[num_features, num_labels]`.

        Args:
            moments: the moments that the student learns from.
            prevalence: `[num_labels]`, in (0, 1), to which the mean probabilities are matched.
            start: the weights at which the student begins, and what is unknown about them; None to begin at the
                prevalence.
        """
        descent = self._descent(prevalence)
        # the harmonic mean, as features without any information may have variances beyond all bounds
        noise_rate = 1 / (1 / moments.variances).mean(axis=0)
        if start is None:
            learning_times = descent.pace(noise_rate)
            start_weights = np.zeros_like(moments.values)
            weights = descent.start()
        else:
            learning_times = descent.pace(noise_rate, weight_variances=start.variances)
            start_weights = start.weights
            weights = descent.with_constants(start_weights, prevalence)
        target = np.outer(self._mean_features(), prevalence)
        target[:-1] += moments.values
        for _ in range(_NUM_STEPS):
            predicted = mean_products(self.public_features, descent.probabilities(weights))
            gradient = target - predicted
            weights = descent.moved(weights, gradient, learning_times)
        speeds = learning_times.speeds.T  # [K, L]
        step = np.minimum(speeds * learning_times.times / _NUM_STEPS, _LONGEST_STEP)
        learned = -np.expm1(_NUM_STEPS * np.log1p(-step))
        variances = moments.variances / speeds**2
        std = np.sqrt(variances)
        signal = self.feature_variances**self.recipe.signal_power
        if start is None:
            row_variances = (signal[:, None] / self.mean_squares[:, None] / variances).mean(axis=1)
        else:
            shape = signal / np.sqrt(self.feature_variances)
            row_variances = (start.variances * shape[:, None] / variances).mean(axis=1)
        found = (weights[:-1] - start_weights) / learned
        remainder = posterior_rows(found / std, row_variances) * std
        if start is None:
            mean_learned = signal @ learned / signal.sum()
            remainder *= (learned / mean_learned) ** _UNLEARNED_POWER
        else:  # what a weight had no time to learn stays as the start has it
            remainder *= learned
        return descent.with_constants(start_weights + remainder, prevalence)

    def start(self, moments: NoisyMoments, prevalence: FloatArray) -> PublicStart:
        """Returns the start of another descent: this student, and what its moments leave unknown of each weight.

        Args:
            moments: the moments that the student learns from.
            prevalence: `[num_labels]`, in (0, 1), of the people whose moments these are.
        """
        speeds = np.outer(self.mean_squares, prevalence * (1 - prevalence))
        expected = self._descent(prevalence).weight_variances[:, None]
        return PublicStart(
            weights=self.weights(moments, prevalence)[:-1],
            variances=1 / (1 / expected + speeds**2 / moments.variances),
            moments=moments,
        )

    def carried(
        self, moments: NoisyMoments, earlier_features: FloatArray, prevalence: FloatArray
    ) -> NoisyMoments:
        """Returns moments of other features as moments of this student's features; see `NoisyMoments.in_features`.

        Args:
            moments: the moments of the other features.
            earlier_features: `[num_public, num_earlier]`, the other features on the public rows, without a constant.
            prevalence: `[num_labels]`, in (0, 1).
        """
        return moments.in_features(
            earlier_features,
            features=self.public_features[:, :-1].astype(np.float64),
            weight_variances=self._descent(prevalence).weight_variances,
            curvature=prevalence * (1 - prevalence),
        )

    def moments_of(
        self,
        products: FloatArray,
        prevalence: FloatArray,
        *,
        noise_variance: FloatArray,
        num_records: float,
    ) -> NoisyMoments:
        """Returns the moments that noisy mean products of features and labels are.

        Args:
            products: `[num_features, num_labels]`, the noisy mean over people of features times labels.
            prevalence: `[num_labels]`, the prevalence among these people.
            noise_variance: `[num_labels]`, the variance of the noise in each product.
            num_records: the number of records that the mean is over, for the variance of their choice.
        """
        values = products - np.outer(self._mean_features(), prevalence)
        chance = np.outer(self.mean_squares, prevalence * (1 - prevalence)) / num_records
        return NoisyMoments(values=values[:-1], variances=chance + noise_variance)

    def expected_squares(self, prevalence: FloatArray) -> FloatArray:
        """Returns the square that each moment is expected to have, `[num_features - 1, num_labels]`.

        Args:
            prevalence: `[num_labels]`, in (0, 1).
        """
        speeds = np.outer(self.mean_squares, prevalence * (1 - prevalence))
        return np.asarray(speeds**2 * self._descent(prevalence).weight_variances[:, None])

    @cached_property
    def mean_squares(self) -> FloatArray:
        """The mean square on the public rows of each feature but the constant, `[num_features - 1]`, > 0."""
        return self._descent(np.array([_HALF])).feature_mean_squares

    def _descent(self, prevalence: FloatArray) -> Descent:
        return Descent(
            public_features=self.public_features,
            feature_variances=self.feature_variances,
            prevalence=prevalence,
            clip_factor=1.0,
            num_steps=_NUM_STEPS,
            recipe=replace(
                self.recipe, longer=1.0
            ),  # the noise is that of the moments, however long it takes
        )

    def _mean_features(self) -> FloatArray:
        return np.asarray(self.public_features.mean(axis=0, dtype=np.float64))


def mean_products(public_features: Float32Array, probabilities: Float32Array) -> FloatArray:
    """Returns the mean of features times probabilities, float64 `[num_features, num_labels]`.

    Args:
        public_features: `[num_public, num_features]`.
        probabilities: `[num_public, num_labels]`.
    """
    products = public_features.T @ probabilities
    return products.astype(np.float64) / len(public_features)
