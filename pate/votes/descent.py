"""Gradient descent of a logistic student on noisy gradients, with rules for its length and for its noise.

Each round of centered votes releases one noisy mean gradient, and the *student* takes a step along it
(docs/how-centered-votes-work.md). This file reads only public and released values, and nothing in it is random. Three
rules decide the rest:

- **How long a label learns.** Longer learning finds more of the signal and gathers more noise. For each label,
  `LearningTimes` computes the time at which the expected sum of both errors is smallest.
- **How the noise is removed.** At the end the weights are replaced by their posterior mean (`posterior_rows`). It uses
  the known variance of the noise, and the covariance of the labels' weights.
- **How the constant of a label is set.** The mean probability of a label on the public rows is made equal to the
  prevalence.

docs/proofs/vote_rounds.md explains why none of this costs privacy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pate.accounting.special import expit
from pate.array_types import Float32Array, FloatArray
from pate.votes.learning_times import LearningTimes
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.shrinkage import posterior_rows

# The row of the constant feature, the last one, in weights and gradients.
_CONSTANT = -1

# The least mean square of a feature, in place of the 0 of a feature that no public row has.
_MIN_MEAN_SQUARE = 1e-12
# The number of bisections that find a constant: to a billionth of the range of the logits.
_NUM_BISECTIONS = 30


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class Descent:
    """The gradient descent of a logistic model, the student, on noisy gradients.

    Rule: the model starts with the prevalence of each label as its probability on all inputs. A step moves the weights
    of a label along the noisy mean of features times the model's errors, for an equal part of the label's learning
    time. The learning time is `Recipe.longer` times the time of `LearningTimes`, which assumes that the variance of
    log-odds along a direction is in proportion to the root of the direction's variance. At the end the weights become
    their posterior mean (`posterior_rows`), divided by a power of the share that the label had time to learn. The
    constants are set such that a label's mean probability on the public rows, weighted by `public_row_weights`, is its
    prevalence. This prevalence is the average of the released prevalence and of the ones that the steps suggest
    (`suggested_prevalence`), weighted by their noise.

    Attributes:
        public_features: float32 `[num_public, num_features]`, features of public inputs, of length 1; the last feature
            is the constant `recipe.constant_feature`.
        feature_variances: `[num_features - 1]`, public: the variance that each feature but the constant is expected to
            explain.
        prevalence: `[num_labels]`, in (0, 1), public or released.
        clip_factor: the clip as a multiple of the usual length of a gradient.
        num_steps: the number of steps, >= 1.
        recipe: the tuned constants.
        public_row_weights: `[num_public]`, > 0: the weights of public rows in a label's mean probability; None where
            all rows count alike.
    """

    public_features: Float32Array
    feature_variances: FloatArray
    prevalence: FloatArray
    clip_factor: float
    num_steps: int
    recipe: Recipe = DEFAULT_RECIPE
    public_row_weights: FloatArray | None = None

    def initial_weights(self) -> FloatArray:
        """Returns the weights `[num_features, num_labels]` that give each label its prevalence on all inputs."""
        weights = np.zeros((self.public_features.shape[1], len(self.prevalence)))
        weights[_CONSTANT] = (
            np.log(self.prevalence / (1 - self.prevalence)) / self._constant_feature
        )
        return weights

    def probabilities(self, weights: FloatArray) -> Float32Array:
        """Returns the model's probabilities on the public rows, float32 `[num_public, num_labels]`."""
        return np.asarray(expit(self.public_features @ weights.astype(np.float32)))

    def learning_times(
        self, noise_variance_rates: FloatArray, *, weight_variances: FloatArray | None = None
    ) -> LearningTimes:
        """Returns the learning time of each label, times `recipe.longer`, at most what `num_steps` steps can take.

        The noise and the error in the result are still those of the times before the factor.

        Args:
            noise_variance_rates: `[num_labels]`, the variance of the noise in a label's mean gradient, divided by the
                number of steps.
            weight_variances: `[num_features - 1, num_labels]`, the variance that is expected of what each weight still
                has to learn; None for a descent that begins at the prevalence, with all other weights 0.
        """
        if weight_variances is None:
            signal_variances = self._signal_variances
        else:
            signal_variances = weight_variances.T * self.public_mean_squares
        best_times = LearningTimes.best(
            public_mean_squares=self.public_mean_squares,
            signal_variances=signal_variances,
            prevalence=self.prevalence,
            noise_rate=noise_variance_rates,
            clip_factor=self.unclipped_share,
        )
        return replace(
            best_times,
            times=best_times.within(num_steps=self.num_steps, time_factor=self.recipe.longer),
        )

    def take_step(
        self, weights: FloatArray, *, gradient: FloatArray, learning_times_of_labels: LearningTimes
    ) -> FloatArray:
        """Returns the weights `[num_features, num_labels]` after one step.

        The weight of the constant moves for at most the time in which one step removes its error, so it does not
        overshoot. `LearningTimes.within` bounds the steps of all other weights in this way.

        Args:
            weights: `[num_features, num_labels]`, before the step.
            gradient: `[num_features, num_labels]`, the noisy mean gradient.
            learning_times_of_labels: the learning time of each label.
        """
        times = np.broadcast_to(learning_times_of_labels.times, weights.shape).copy()
        speed_of_constant = (
            self.unclipped_share
            * self.prevalence
            * (1 - self.prevalence)
            * self._constant_feature**2
        )
        times[_CONSTANT] = np.minimum(times[_CONSTANT], self.num_steps / speed_of_constant)
        return np.asarray(weights + times / self.num_steps * gradient)

    def suggested_prevalence(
        self, probabilities: Float32Array, *, gradient: FloatArray
    ) -> FloatArray:
        """Returns the prevalence that one step suggests, `[num_labels]`.

        The suggestion is the model's mean probability plus the gradient of the constant, with the effect of the clip
        undone.

        Args:
            probabilities: `[num_public, num_labels]`, of the model before the step.
            gradient: `[num_features, num_labels]`, the noisy mean gradient.
        """
        mean_error = gradient[_CONSTANT] / (self._constant_feature * self.unclipped_share)
        return np.asarray(self._public_mean(probabilities) + mean_error)

    def average_prevalence(
        self,
        *,
        released_variance: FloatArray | float,
        suggested_prevalence: FloatArray,
        noise_variance_rates: FloatArray,
    ) -> FloatArray:
        """Returns the average of `prevalence` and of the prevalence that the steps suggest, `[num_labels]`.

        Each is weighted by the inverse of its variance. The result is at least `recipe.matched_floor`, and at most 1
        minus it.

        Args:
            released_variance: the variance of the noise in the released prevalence, one number or `[num_labels]`; 0
                where it is public.
            suggested_prevalence: `[num_labels]`, the mean of `suggested_prevalence` over all steps.
            noise_variance_rates: `[num_labels]`, as in `learning_times`.
        """
        noise_variance = noise_variance_rates / (self._constant_feature * self.unclipped_share) ** 2
        suggested_variance = noise_variance + self.recipe.clip_bias**2
        weighted = self.prevalence * suggested_variance + suggested_prevalence * released_variance
        average_prevalence = weighted / (suggested_variance + released_variance)
        least_prevalence = self.recipe.matched_floor
        return np.asarray(average_prevalence.clip(least_prevalence, 1 - least_prevalence))

    def final_weights(
        self,
        weights: FloatArray,
        *,
        learning_times_of_labels: LearningTimes,
        noise_variance_rates: FloatArray,
        prevalence: FloatArray,
    ) -> FloatArray:
        """Returns the weights at the end of the descent, `[num_features, num_labels]`, from those after the last step.

        The weights of all features but the constant become their posterior mean (`_posterior_mean`). If any label has
        no noise, the weights of all labels stay as they are. The constants are set such that each label's mean
        probability on the public rows is its prevalence.

        Args:
            weights: `[num_features, num_labels]`, after the last step.
            learning_times_of_labels: how long the descent learned each label, as the method `learning_times` returns
                it.
            noise_variance_rates: `[num_labels]`, the variance of the noise in a label's mean gradient, divided by the
                number of steps; 0 without noise.
            prevalence: `[num_labels]`, in (0, 1), to which the mean probabilities are matched.
        """
        weights_without_constants = weights[:-1]
        if noise_variance_rates.all():
            weights_without_constants = self._posterior_mean(
                weights_without_constants,
                learning_times_of_labels=learning_times_of_labels,
                noise_variance_rates=noise_variance_rates,
            )
        return self.with_constants(weights_without_constants, prevalence=prevalence)

    def with_constants(
        self, weights_without_constants: FloatArray, *, prevalence: FloatArray
    ) -> FloatArray:
        """Returns the weights with constants that make each label's mean probability on public rows its prevalence.

        Args:
            weights_without_constants: `[num_features - 1, num_labels]`, the weights of all features but the constant.
            prevalence: `[num_labels]`.
        """
        constants = self._matched_constants(weights_without_constants, prevalence=prevalence)
        return np.append(weights_without_constants, constants[None], axis=0)

    def _posterior_mean(
        self,
        weights_without_constants: FloatArray,
        *,
        learning_times_of_labels: LearningTimes,
        noise_variance_rates: FloatArray,
    ) -> FloatArray:
        """Returns the posterior mean of the weights of all features but the constant, `[num_features - 1, num_labels]`.

        The result is rescaled to make up for what the descent had no time to learn. The share of a weight that it has
        learned follows from the feature's speed and the label's learning time. The weights of a label are divided by
        the mean of these shares to the power `recipe.missed_power`.

        Args:
            weights_without_constants: `[num_features - 1, num_labels]`, after the last step.
            learning_times_of_labels: the learning time of each label.
            noise_variance_rates: `[num_labels]`, the noise that `learning_times` was computed for, > 0.
        """
        speeds = learning_times_of_labels.speeds.T  # [num_features - 1, num_labels]
        times = learning_times_of_labels.times  # [num_labels]
        learned_shares = -np.expm1(-speeds * times)
        # The variance of the noise in each weight; `LearningTimes` has the formula.
        noise_variance = (
            noise_variance_rates * times * -np.expm1(-2 * speeds * times) / (2 * speeds)
        )
        relative_signals = self.feature_variances**self.recipe.signal_power
        weight_variances = (relative_signals / self.public_mean_squares)[
            :, None
        ] * learned_shares**2
        noise_std = np.sqrt(noise_variance)
        posterior = noise_std * posterior_rows(
            noisy_matrix=weights_without_constants / noise_std,
            prior_row_variances=(weight_variances / noise_variance).mean(axis=1),
        )
        mean_learned_share = relative_signals @ learned_shares / relative_signals.sum()
        return np.asarray(posterior / mean_learned_share**self.recipe.missed_power)

    def _matched_constants(
        self, weights_without_constants: FloatArray, *, prevalence: FloatArray
    ) -> FloatArray:
        """Returns weights of the constant, `[num_labels]`, with which mean probabilities equal the prevalence.

        The mean is over the public rows, weighted by `public_row_weights`; the weights are found by bisection.

        Args:
            weights_without_constants: `[num_features - 1, num_labels]`, the weights of all other features.
            prevalence: `[num_labels]`.
        """
        logits_of_public_rows = self.public_features[:, :-1] @ weights_without_constants.astype(
            np.float32
        )
        log_odds = np.log(prevalence / (1 - prevalence))
        low_offsets = log_odds - logits_of_public_rows.max(axis=0)
        high_offsets = log_odds - logits_of_public_rows.min(axis=0)
        for _ in range(_NUM_BISECTIONS):
            middle_offsets = (low_offsets + high_offsets) / 2
            mean_probabilities = self._public_mean(
                expit(logits_of_public_rows + middle_offsets.astype(np.float32))
            )
            is_too_low = mean_probabilities < prevalence
            low_offsets = np.where(is_too_low, middle_offsets, low_offsets)
            high_offsets = np.where(is_too_low, high_offsets, middle_offsets)
        return np.asarray((low_offsets + high_offsets) / 2 / self._constant_feature)

    def _public_mean(self, probabilities_of_rows: Float32Array) -> FloatArray:
        """Returns the mean over public rows, weighted by `public_row_weights`, of probabilities; `[num_labels]`.

        Args:
            probabilities_of_rows: `[num_public, num_labels]`.
        """
        if self.public_row_weights is None:
            return np.asarray(probabilities_of_rows.mean(axis=0, dtype=np.float64))
        return np.asarray(
            np.average(probabilities_of_rows, axis=0, weights=self.public_row_weights)
        )

    @property
    def _constant_feature(self) -> float:
        """The value of the last feature, which is the same for all inputs."""
        return self.recipe.constant_feature

    @property
    def unclipped_share(self) -> float:
        """The approximate share of a gradient that is left after the clip: `clip_factor`, but at most 1."""
        return min(self.clip_factor, 1.0)

    @cached_property
    def weight_variances(self) -> FloatArray:
        """The variance that is expected of the weight of each feature but the constant, `[num_features - 1]`.

        It is the variance of log-odds along the feature, divided by the feature's mean square.
        """
        return np.asarray(self._signal_variances / self.public_mean_squares)

    @property
    def _signal_variances(self) -> FloatArray:
        """The variance of log-odds that is expected along each feature but the constant, `[num_features - 1]`.

        The variances are in proportion to the roots of `feature_variances`, and add up to `recipe.signal_variance`.
        """
        relative_signals = np.sqrt(self.feature_variances)
        return np.asarray(self.recipe.signal_variance * relative_signals / relative_signals.sum())

    @cached_property
    def public_mean_squares(self) -> FloatArray:
        """The mean square on the public rows of each feature but the constant, `[num_features - 1]`, > 0."""
        mean_squares = np.square(self.public_features[:, :-1]).mean(axis=0, dtype=np.float64)
        return np.asarray(mean_squares.clip(_MIN_MEAN_SQUARE))
