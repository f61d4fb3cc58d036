"""Gradient descent of a student of rounds from a public start, which finds out how much of the start is true.

A `PublicStart` has the weights that public data teach. Public labels may follow other rules than private labels do:
they may come from another model, or from people of another kind. So each label has a *trust* in [0, 1], the share of
the start's weights that the private records confirm. The trust is estimated anew in each round, from the noisy
gradients that the rounds have released. This costs no privacy, as it reads released values alone. The descent goes on
as if it had begun at the trusted share of the start. With trust 0 it is nearly a descent without a start.

docs/proofs/vote_rounds.md explains why a start costs no privacy.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pate.array_types import Float32Array, FloatArray
from pate.votes.descent import Descent
from pate.votes.public_start import PublicStart
from pate.votes.shrinkage import posterior_rows

# The number of iterations in which the mean and the variance of the trusts of all labels converge.
_NUM_ITERATIONS = 20
# The least information on a trust, in place of the 0 of a label for which a start has no weights; also the least sum of
# squared precisions.
_MIN_INFORMATION = 1e-300
# The prior standard deviation of the mean trust of all labels around 1.
_PRIOR_STD = 0.5
_MAX_VARIANCE = 0.25  # the largest variance of numbers in [0, 1]


class StartedDescent:
    """The descent of a logistic student from a public start, step by step.

    Model: let S be the start's weights of a label. The private records teach the weights b S + D, where b is the
    label's trust. An entry of D is Gaussian. Its variance is u - b^2 (u - v), where v is the variance that the start
    states, at most u, and u is the variance that a descent without a start expects.

    Rule: let r(W) be the gradient at a student that predicts the prevalence alone, if labels had the probabilities of
    the student W. It is the mean over public inputs of features x (probability - prevalence), scaled as the clip scales
    gradients. Each round gives a noisy mean gradient g at the present student W. So g + r(W) estimates the private
    gradient at a student that predicts the prevalence alone. In linear approximation, the mean of these estimates over
    rounds is b G + a D + noise. Here G is r of the start, and a the speed at which a weight is learned.
    `_estimate_trust` regresses the mean on G. If the trust changes, the weights are corrected by the part of the start
    that they still hold. The learning time follows from the variance of D. At the end D becomes its posterior mean, as
    in `Descent`.

    Args:
        descent: the rules and numbers of a descent without a start.
        public_start: the weights at which the descent starts, and what is unknown about them.

    Attributes:
        trust: `[num_labels]` in [0, 1], the trust in the start of each label.
    """

    def __init__(self, descent: Descent, *, public_start: PublicStart) -> None:
        self._descent = descent
        self._public_start = public_start
        num_labels = len(descent.prevalence)
        weights_shape = public_start.weights.shape
        self.trust = np.ones(num_labels)
        self._num_steps_taken = 0
        # The sum over all steps of g + r(W), the estimates of the private gradient at the prevalence.
        self._gradient_sum = np.zeros(weights_shape)
        self._elapsed_times = np.zeros(num_labels)  # the learning time of all steps, [num_labels]
        self._weight_noise_variances = np.zeros(weights_shape)  # of the noise in each weight

    def initial_weights(self) -> FloatArray:
        """Returns the weights `[num_features, num_labels]` before the first step: the whole start, as if trusted."""
        return self._descent.with_constants(
            self._public_start.weights, prevalence=self._descent.prevalence
        )

    @property
    def trusted_start(self) -> PublicStart:
        """The start with each label's weights multiplied by its trust, and the variance of what is left to learn."""
        return PublicStart(
            weights=self.trust * self._public_start.weights, variances=self._variances_beyond_start
        )

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
            probabilities: `[num_public, num_labels]`, of the model before the step.
            gradient: `[num_features, num_labels]`, the noisy mean gradient.
            noise_variance_rates: `[num_labels]`, the variance of the noise in a label's mean gradient, divided by the
                number of steps; 0 without noise.
        """
        num_steps = self._descent.num_steps
        self._num_steps_taken += 1
        self._gradient_sum += gradient[:-1] + self._gradient_toward(probabilities)
        trust_before = self.trust
        if noise_variance_rates.all():  # otherwise the trust stays as it is
            gradient_noise_variances = noise_variance_rates * num_steps / self._num_steps_taken
            self.trust = self._estimate_trust(gradient_noise_variances)
        learning_times_of_labels = self._descent.learning_times(
            noise_variance_rates, weight_variances=self._variances_beyond_start
        )
        next_weights = self._descent.take_step(
            weights, gradient=gradient, learning_times_of_labels=learning_times_of_labels
        )
        # A step of learning time t leaves exp(-a t) of the noise in a weight of speed a, and adds t times the noise of
        # one gradient.
        step_times = learning_times_of_labels.times / num_steps
        remaining_share = np.exp(-self._speeds * step_times)
        step_noise_variance = noise_variance_rates * num_steps * step_times**2
        self._weight_noise_variances = (
            self._weight_noise_variances * remaining_share**2 + step_noise_variance
        )
        self._elapsed_times = self._elapsed_times + step_times
        change_of_trust = self.trust - trust_before
        next_weights[:-1] += self._unlearned_shares * change_of_trust * self._public_start.weights
        return next_weights

    def final_weights(
        self, weights: FloatArray, *, noise_variance_rates: FloatArray, prevalence: FloatArray
    ) -> FloatArray:
        """Returns the weights at the end of the descent, `[num_features, num_labels]`, from those after the last step.

        The weights of all features but the constant are the sum of two parts. One part is `trusted_start`, which is the
        public start times each label's trust. The other part is noisy, and is replaced by its posterior mean. If any
        label has no noise, these weights stay as they are, for all labels. The weights of the constant are set in every
        case, such that each label's mean probability on the public rows is its prevalence.

        Args:
            weights: `[num_features, num_labels]`, after the last step.
            noise_variance_rates: `[num_labels]`, the variance of the noise in a label's mean gradient, divided by the
                number of steps; 0 without noise. This method only asks whether one of them is 0.
            prevalence: `[num_labels]`, to which the mean probabilities are matched.
        """
        weights_without_constants = weights[:-1]
        if noise_variance_rates.all():
            trusted_weights = self.trusted_start.weights
            weights_without_constants = trusted_weights + self._posterior_mean(
                weights_without_constants - trusted_weights
            )
        return self._descent.with_constants(weights_without_constants, prevalence=prevalence)

    def _posterior_mean(self, noisy_weights: FloatArray) -> FloatArray:
        """Returns the posterior mean of the weights minus those of the trusted start, `[num_features - 1, num_labels]`.

        The trusted start has the start's weights times the trust. The prior variances of weights follow another power
        of `feature_variances` (`recipe.signal_power`) than in the rule of the learning time, the root. The weights of a
        label are divided by a power of the share that the label had time to learn. At trust 0 this power is
        `recipe.missed_power`, as in `Descent`; at trust 1 it is 0.

        Args:
            noisy_weights: `[num_features - 1, num_labels]`, the noisy weights after the last step minus the
                trusted start.
        """
        descent = self._descent
        recipe = descent.recipe
        learned_shares = 1 - self._unlearned_shares
        variances = self._variances_beyond_start
        feature_variances = descent.feature_variances
        power_change = feature_variances**recipe.signal_power / np.sqrt(feature_variances)
        expected_squares = variances * power_change[:, None] * learned_shares**2
        noise_std = np.sqrt(self._weight_noise_variances)
        posterior = noise_std * posterior_rows(
            noisy_matrix=noisy_weights / noise_std,
            prior_row_variances=(expected_squares / self._weight_noise_variances).mean(axis=1),
        )
        signal_variances = variances * descent.public_mean_squares[:, None]
        mean_learned_share = (signal_variances * learned_shares).sum(axis=0) / signal_variances.sum(
            axis=0
        )
        posterior /= mean_learned_share ** (recipe.missed_power * (1 - self.trust))
        return np.asarray(posterior)

    def _estimate_trust(self, gradient_noise_variances: FloatArray) -> FloatArray:
        """Returns the posterior mean of each label's trust, cut to [0, 1], `[num_labels]`.

        The trust of a label is the share of the start's weights that the private records confirm. The trusts are
        modeled as Gaussian around a common mean, a random effect. Mean and variance solve the equations of maximum
        likelihood for all labels' estimates and their errors, by iteration (DerSimonian & Laird 1986; not their
        estimator by moments). The mean has a prior around 1. The variance is cut to 1/4, the largest variance of
        numbers in [0, 1]. Otherwise the noise of a few labels could take away the trust in every label's start.

        Args:
            gradient_noise_variances: `[num_labels]`, the variance of the noise in a label's gradient, averaged over the
                rounds so far.
        """
        mean_gradient = self._gradient_sum / self._num_steps_taken
        gradient_toward_start = self._gradient_toward_start
        # The trust is what is estimated here, so D has the variance that the model states for trust 1.
        error_variance = gradient_noise_variances + self._speeds**2 * self._public_start.variances
        # Each label's trust by weighted least squares, and the inverse of its variance, `[num_labels]`.
        information = (gradient_toward_start**2 / error_variance).sum(axis=0).clip(_MIN_INFORMATION)
        weighted_products = gradient_toward_start * mean_gradient / error_variance
        estimates = weighted_products.sum(axis=0) / information
        # The prior of the mean counts like one more label, whose trust is 1.
        prior_precision = 1 / _PRIOR_STD**2
        variance_of_trusts = 0.0
        for _ in range(_NUM_ITERATIONS):
            precisions = 1 / (1 / information + variance_of_trusts)
            mean_trust = (precisions @ estimates + prior_precision) / (
                precisions.sum() + prior_precision
            )
            excess_squares = (estimates - mean_trust) ** 2 - 1 / information
            squared_precisions = precisions**2
            variance_of_trusts = float(squared_precisions @ excess_squares) / max(
                float(squared_precisions.sum()), _MIN_INFORMATION
            )
            variance_of_trusts = min(max(variance_of_trusts, 0.0), _MAX_VARIANCE)
        relative_precision = information * variance_of_trusts
        posterior_trust = (estimates * relative_precision + mean_trust) / (relative_precision + 1)
        return np.asarray(posterior_trust.clip(0, 1))

    def _gradient_toward(self, probabilities: Float32Array) -> FloatArray:
        """Returns r(W) of the student W with these probabilities, `[num_features - 1, num_labels]`; see the class.

        It is the mean over public rows of features x (probability - prevalence), times the share of a gradient that the
        clip leaves.

        Args:
            probabilities: `[num_public, num_labels]`, of the student.
        """
        descent = self._descent
        probability_excess = probabilities - descent.prevalence.astype(np.float32)
        if descent.public_row_weights is not None:
            row_weights = descent.public_row_weights / descent.public_row_weights.mean()
            probability_excess = probability_excess * row_weights[:, None].astype(np.float32)
        unclipped_gradient = (
            descent.public_features[:, :-1].T @ probability_excess / len(probability_excess)
        )
        return np.asarray(descent.unclipped_share * unclipped_gradient, dtype=np.float64)

    @cached_property
    def _gradient_toward_start(self) -> FloatArray:
        """G, which is r of the start, `[num_features - 1, num_labels]`; see the class."""
        return self._gradient_toward(self._descent.probabilities(self.initial_weights()))

    @cached_property
    def _speeds(self) -> FloatArray:
        """The speed at which each weight is learned, `[num_features - 1, num_labels]`: a_i in `LearningTimes`."""
        descent = self._descent
        prevalence = descent.prevalence
        curvature = descent.unclipped_share * prevalence * (1 - prevalence)
        return np.asarray(curvature * descent.public_mean_squares[:, None])

    @property
    def _unlearned_shares(self) -> FloatArray:
        """The share exp(-speed x elapsed time) of each weight not yet learned, `[num_features - 1, num_labels]`.

        The student's weights still hold this share of the start, and lack this share of what private records teach.
        """
        return np.exp(-self._speeds * self._elapsed_times)

    @property
    def _variances_beyond_start(self) -> FloatArray:
        """The variance of the weights that private records teach, minus those of the trusted start.

        The shape is `[num_features - 1, num_labels]`. With trust 0 it is the variance without a start; with trust 1
        that of the start, if this is smaller.
        """
        variances_without_start = self._descent.weight_variances[:, None]
        explained_by_start = (variances_without_start - self._public_start.variances).clip(0)
        return np.asarray(variances_without_start - self.trust**2 * explained_by_start)
