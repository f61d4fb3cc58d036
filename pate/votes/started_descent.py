"""Gradient descent of a student of rounds from a public start, which finds out how much of the start is true.

A `PublicStart` says what public data teach of the weights. Public labels may follow other rules than private labels do:
they may come from another model, or from people of another kind. So each label has a *trust* in [0, 1], the share of
the start's weights that the private records bear out. The trust is estimated from the noisy gradients that the rounds
have released, anew in each round, and is free as all that reads released values alone. The descent goes on as if it had
begun at the trusted share of the start. With trust 0 it is about a descent without a start.

docs/proofs/vote_rounds.md explains why a start costs no privacy.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pate.array_types import Float32Array, FloatArray
from pate.votes.descent import Descent
from pate.votes.public_start import PublicStart
from pate.votes.shrinkage import posterior_rows

_SETTLING_ROUNDS = 20  # in which the mean and the spread of all trusts settle
_LEAST = 1e-300  # of information on a trust, where a start has no weights
# Standard deviation of the mean trust of all labels around 1, before anything is released.
_DOUBT = 0.5
_MOST_SPREAD = 0.25  # the largest variance of numbers in [0, 1]


class StartedDescent:
    """The descent of a logistic student from a public start, step by step.

    Model: let S be the start's weights of a label. The private records teach the weights a S + D, where a is the
    label's trust. An entry of D is Gaussian. Its variance is u - a^2 (u - v), where v is the variance that the start
    states, at most u, and u is the variance that a descent without a start expects.

    Rule: to the noisy mean gradient of each round the gradient is added by which public inputs lead from the student's
    probabilities back to the prevalence. The mean of these sums is the private gradient at a student that knows the
    prevalence alone. In linear approximation it is a G + s D + noise, where G is the gradient by which public inputs
    lead to the start, and s the speed at which a weight is learned. `_estimated_trust` regresses it on G. The weights
    are then moved by what the start would have left in them, and the learning time follows from the variance of D. At
    the end D becomes its posterior mean, as in `Descent`.

    Args:
        descent: the rules and numbers of a descent without a start.
        public_start: the weights at which the descent starts, and what is unknown about them.

    Attributes:
        trust: `[num_labels]` in [0, 1], the trust in the start of each label.
    """

    def __init__(self, descent: Descent, public_start: PublicStart) -> None:
        self._descent = descent
        self._public_start = public_start
        num_labels = len(descent.prevalence)
        shape = public_start.weights.shape
        self.trust = np.ones(num_labels)
        self._num_steps_taken = 0
        self._gradient_sum = np.zeros(shape)  # at the prevalence, over all steps
        self._elapsed = np.zeros(num_labels)  # learning time
        self._noise_variance = np.zeros(shape)  # of each weight

    def start(self) -> FloatArray:
        """Returns the weights `[num_features, num_labels]` before the first step."""
        return self._descent.with_constants(self._public_start.weights, self._descent.prevalence)

    @property
    def trusted_start(self) -> PublicStart:
        """The trusted share of the start, and the variance of what is unknown beyond it."""
        return PublicStart(
            weights=self.trust * self._public_start.weights, variances=self._variances
        )

    def moved(
        self,
        weights: FloatArray,
        probabilities: Float32Array,
        gradient: FloatArray,
        noise_rate: FloatArray,
    ) -> FloatArray:
        """Returns the weights `[num_features, num_labels]` after one step.

        Args:
            weights: `[num_features, num_labels]`, before the step.
            probabilities: `[num_public, num_labels]`, of the model before the step.
            gradient: `[num_features, num_labels]`, the noisy mean gradient.
            noise_rate: `[num_labels]`, the variance of the noise in a label's mean gradient, divided by the number of
                steps; 0 without noise.
        """
        num_steps = self._descent.num_steps
        self._num_steps_taken += 1
        self._gradient_sum += gradient[:-1] + self._gradient_from_prevalence(probabilities)
        trust_before = self.trust
        if noise_rate.all():
            self.trust = self._estimated_trust(noise_rate * num_steps / self._num_steps_taken)
        learning_times = self._descent.pace(noise_rate, weight_variances=self._variances)
        moved = self._descent.moved(weights, gradient, learning_times)
        time = learning_times.times / num_steps
        kept = np.exp(-self._speeds * time)
        self._noise_variance = self._noise_variance * kept**2 + noise_rate * num_steps * time**2
        self._elapsed = self._elapsed + time
        moved[:-1] += self._left * (self.trust - trust_before) * self._public_start.weights
        return moved

    def finished(
        self, weights: FloatArray, noise_rate: FloatArray, prevalence: FloatArray
    ) -> FloatArray:
        """Returns the published weights, `[num_features, num_labels]`, computed from those after the last step.

        Args:
            weights: `[num_features, num_labels]`, after the last step.
            noise_rate: `[num_labels]`, as in `moved`.
            prevalence: `[num_labels]`, to which the mean probabilities are matched.
        """
        feature_weights = weights[:-1]
        if noise_rate.all():
            trusted = self.trusted_start.weights
            feature_weights = trusted + self._posterior(feature_weights - trusted)
        return self._descent.with_constants(feature_weights, prevalence)

    def _posterior(self, remainder: FloatArray) -> FloatArray:
        """Returns the posterior mean of the weights beyond the trusted start, `[num_features - 1, num_labels]`.

        As in `Descent`, the variances of features follow a lower power than in the rule of the learning time. What a
        label had no time to learn is made up for, as far as the start is not trusted.

        Args:
            remainder: `[num_features - 1, num_labels]`, the noisy weights beyond the trusted start.
        """
        descent = self._descent
        recipe = descent.recipe
        learned = 1 - self._left
        variances = self._variances
        feature_variances = descent.feature_variances
        shape = feature_variances**recipe.signal_power / np.sqrt(feature_variances)
        expected = variances * shape[:, None] * learned**2 / self._noise_variance
        std = np.sqrt(self._noise_variance)
        posterior = posterior_rows(remainder / std, expected.mean(axis=1)) * std
        signals = variances * descent.feature_mean_squares[:, None]
        share_learned = (signals * learned).sum(axis=0) / signals.sum(axis=0)
        posterior /= share_learned ** (recipe.missed_power * (1 - self.trust))
        return np.asarray(posterior)

    def _estimated_trust(self, noise_variance: FloatArray) -> FloatArray:
        """Returns the posterior mean of each label's trust, cut to [0, 1], `[num_labels]`.

        The trusts of labels are Gaussian around a common mean. Mean and variance are estimated by the method of
        DerSimonian and Laird 1986 for a random effect, with all labels' estimates and their errors; the mean has a
        prior around 1. The variance is at most 1/4, the largest of numbers in [0, 1]: else the noise of a few labels
        could decide that no start is to be trusted.

        Args:
            noise_variance: `[num_labels]`, the variance of the noise in the mean of all gradients so far.
        """
        mean_gradient = self._gradient_sum / self._num_steps_taken
        lead = self._gradient_to_start
        variance = noise_variance + self._speeds**2 * self._public_start.variances
        information = (lead**2 / variance).sum(axis=0).clip(_LEAST)
        estimates = (lead * mean_gradient / variance).sum(axis=0) / information
        spread = 0.0
        for _ in range(_SETTLING_ROUNDS):
            weights = 1 / (1 / information + spread)
            center = (weights @ estimates + 1 / _DOUBT**2) / (weights.sum() + 1 / _DOUBT**2)
            excess = (estimates - center) ** 2 - 1 / information
            spread = float(weights**2 @ excess) / max(float((weights**2).sum()), _LEAST)
            spread = min(max(spread, 0.0), _MOST_SPREAD)
        precision = information * spread
        return np.asarray(((estimates * precision + center) / (precision + 1)).clip(0, 1))

    def _gradient_from_prevalence(self, probabilities: Float32Array) -> FloatArray:
        """Returns the mean gradient by which public inputs lead from the prevalence to a model's probabilities.

        Args:
            probabilities: `[num_public, num_labels]`, of the model.
        """
        descent = self._descent
        excess = probabilities - descent.prevalence.astype(np.float32)
        if descent.public_weights is not None:
            row_weights = descent.public_weights / descent.public_weights.mean()
            excess = excess * row_weights[:, None].astype(np.float32)
        gradient = descent.public_features[:, :-1].T @ excess / len(excess)
        return np.asarray(descent.unclipped * gradient, dtype=np.float64)

    @cached_property
    def _gradient_to_start(self) -> FloatArray:
        """G of the class, `[num_features - 1, num_labels]`."""
        return self._gradient_from_prevalence(self._descent.probabilities(self.start()))

    @cached_property
    def _speeds(self) -> FloatArray:
        """The speed at which each weight is learned, `[num_features - 1, num_labels]`."""
        descent = self._descent
        prevalence = descent.prevalence
        curvature = descent.unclipped * prevalence * (1 - prevalence)
        return np.asarray(curvature * descent.feature_mean_squares[:, None])

    @property
    def _left(self) -> FloatArray:
        """The share of the start, and of D, that the steps so far have left, `[num_features - 1, num_labels]`."""
        return np.exp(-self._speeds * self._elapsed)

    @property
    def _variances(self) -> FloatArray:
        """The variance of D for the present trust, `[num_features - 1, num_labels]`."""
        descent = self._descent
        without_start = descent.weight_variances[:, None]
        gained = (without_start - self._public_start.variances).clip(0)
        return np.asarray(without_start - self.trust**2 * gained)
