"""A descent with fixed learning times takes all steps with the learning times of the first step's noise."""

import numpy as np

from pate.votes.descent import Descent
from pate.votes.fixed_times_descent import FixedTimesDescent

GRADIENT_NOISE_VARIANCES = np.array([1e-4, 1e-3])


def descent() -> Descent:
    """Returns a descent of two steps for two labels, on 50 public rows of two features and the constant."""
    features = np.random.default_rng(0).normal(size=(50, 3)) / 2
    features[:, -1] = 0.2
    return Descent(
        public_features=features.astype(np.float32),
        feature_variances=np.ones(2),
        prevalence=np.array([0.2, 0.4]),
        clip_factor=1.0,
        num_steps=2,
    )


def test_learning_times_of_the_first_step_stay() -> None:
    """Both steps and the final weights are computed with the learning times of the first step's noise.

    The second step has 100 times the noise rate of the first.
    """
    plain_descent = descent()
    fixed_times_descent = FixedTimesDescent(plain_descent)
    learning_times_of_labels = plain_descent.learning_times(
        noise_variance_rates=GRADIENT_NOISE_VARIANCES
    )
    weights = expected_weights = plain_descent.initial_weights()
    gradient = np.full(weights.shape, 0.01)
    for gradient_noise_variance_by_label in (
        GRADIENT_NOISE_VARIANCES,
        100 * GRADIENT_NOISE_VARIANCES,
    ):
        weights = fixed_times_descent.take_step(
            weights,
            probabilities=plain_descent.probabilities(weights),
            gradient=gradient,
            noise_variance_rates=gradient_noise_variance_by_label,
        )
        expected_weights = plain_descent.take_step(
            expected_weights, gradient=gradient, learning_times_of_labels=learning_times_of_labels
        )
    np.testing.assert_array_equal(weights, expected_weights)
    np.testing.assert_array_equal(
        fixed_times_descent.final_weights(
            weights,
            noise_variance_rates=GRADIENT_NOISE_VARIANCES,
            prevalence=plain_descent.prevalence,
        ),
        plain_descent.final_weights(
            weights,
            learning_times_of_labels=learning_times_of_labels,
            noise_variance_rates=GRADIENT_NOISE_VARIANCES,
            prevalence=plain_descent.prevalence,
        ),
    )


def test_a_step_at_another_first_noise_differs() -> None:
    """Negative control: a first step at 100 times the noise rate changes the weights by less."""
    plain_descent = descent()
    weights = plain_descent.initial_weights()
    gradient = np.full(weights.shape, 0.01)
    changes = []
    for gradient_noise_variance_by_label in (
        GRADIENT_NOISE_VARIANCES,
        100 * GRADIENT_NOISE_VARIANCES,
    ):
        next_weights = FixedTimesDescent(plain_descent).take_step(
            weights,
            probabilities=plain_descent.probabilities(weights),
            gradient=gradient,
            noise_variance_rates=gradient_noise_variance_by_label,
        )
        changes.append(np.abs(next_weights - weights)[:-1].max(axis=0))
    assert (changes[1] < changes[0]).all()
