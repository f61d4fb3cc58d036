"""Gradient descent of a student of rounds, step by step, whose learning times are fixed in the first step.

It reads public and released values alone; docs/proofs/vote_rounds.md explains why this costs no privacy.
"""

from __future__ import annotations

from typing import ClassVar

from pate.array_types import Float32Array, FloatArray
from pate.votes.descent import Descent
from pate.votes.learning_times import LearningTimes


class FixedTimesDescent:
    """The descent of a logistic student from any weights, step by step.

    Callers use it in the same way as `StartedDescent`, which estimates the trust in a start anew in each step. A
    descent with fixed learning times does not ask where its weights began. The learning times follow from the noise of
    the first step.

    Args:
        descent: the rules and numbers of the descent.
    """

    # The trusted share of the start; there is none, as no start is known here.
    trusted_start: ClassVar[None] = None

    def __init__(self, descent: Descent) -> None:
        self._descent = descent
        self._learning_times_of_labels: LearningTimes | None = None

    def take_step(
        self,
        weights: FloatArray,
        *,
        probabilities: Float32Array,
        gradient: FloatArray,
        noise_variance_rates: FloatArray,
    ) -> FloatArray:
        """Returns the weights `[num_features, num_labels]` after one step.

        Args:
            weights: `[num_features, num_labels]`, before the step.
            probabilities: not read.
            gradient: `[num_features, num_labels]`, the noisy mean gradient.
            noise_variance_rates: `[num_labels]`, the variance of the noise in a label's mean gradient, divided by the
                number of steps; 0 without noise.
        """
        return self._descent.take_step(
            weights,
            gradient=gradient,
            learning_times_of_labels=self._learning_times_at(noise_variance_rates),
        )

    def final_weights(
        self, weights: FloatArray, *, noise_variance_rates: FloatArray, prevalence: FloatArray
    ) -> FloatArray:
        """Returns the weights at the end of the descent, `[num_features, num_labels]`, from those after the last step.

        They are those of `Descent.final_weights` for the learning times of the first step.

        Args:
            weights: `[num_features, num_labels]`, after the last step.
            noise_variance_rates: `[num_labels]`, as in `take_step`.
            prevalence: `[num_labels]`, to which the mean probabilities are matched.
        """
        return self._descent.final_weights(
            weights,
            learning_times_of_labels=self._learning_times_at(noise_variance_rates),
            noise_variance_rates=noise_variance_rates,
            prevalence=prevalence,
        )

    def _learning_times_at(self, noise_variance_rates: FloatArray) -> LearningTimes:
        """Returns the labels' learning times for the `noise_variance_rates` of the first call, in later calls too.

        Args:
            noise_variance_rates: `[num_labels]`, as in `take_step`.
        """
        if self._learning_times_of_labels is None:
            self._learning_times_of_labels = self._descent.learning_times(noise_variance_rates)
        return self._learning_times_of_labels
