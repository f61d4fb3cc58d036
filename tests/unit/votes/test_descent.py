"""The descent by noisy gradients: the learned weights, learning times by noise, constants, and the threshold for F1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from pate.array_types import FloatArray
from pate.votes.descent import Descent
from pate.votes.f1_threshold import expected_f1_threshold
from pate.votes.learning_times import LearningTimes
from pate.votes.recipe import DEFAULT_RECIPE

CONSTANT = DEFAULT_RECIPE.constant_feature

TRUE_WEIGHTS = np.array([[3.0, 0.0], [-2.0, 1.0], [0.0, 4.0], [-5.0, -10.0]])


def features(num_records: int, seed: int = 0) -> FloatArray:
    """Returns random features `[num_records, 4]` of length 1, the last of which is the constant feature."""
    rows = np.random.default_rng(seed).normal(size=(num_records, 3))
    rows *= np.sqrt(1 - CONSTANT**2) / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.append(rows, np.full((num_records, 1), CONSTANT), axis=1)


def descended_weights(
    descent: Descent,
    gradient_noise_std: float,
    seed: int = 0,
    true_weights: FloatArray = TRUE_WEIGHTS,
) -> FloatArray:
    """Returns the weights after all steps on many private records.

    The mean gradient of each step is multiplied by the descent's clip factor. `gradient_noise_std` is the standard
    deviation of the noise in the mean of all steps' gradients.
    """
    rows = features(num_records=40_000, seed=5)
    rng = np.random.default_rng(seed)
    labels = rng.random(size=(len(rows), 2)) < expit(rows @ true_weights)
    gradient_noise_variance_by_label = np.full(2, gradient_noise_std**2)
    step_noise_std = gradient_noise_std * np.sqrt(descent.num_steps)
    learning_times_of_labels = descent.learning_times(
        noise_variance_rates=gradient_noise_variance_by_label
    )
    weights = descent.initial_weights()
    for _ in range(descent.num_steps):
        gradient = descent.clip_factor * rows.T @ (labels - expit(rows @ weights)) / len(rows)
        gradient += step_noise_std * rng.standard_normal(gradient.shape)
        weights = descent.take_step(
            weights, gradient=gradient, learning_times_of_labels=learning_times_of_labels
        )
    return descent.final_weights(
        weights,
        learning_times_of_labels=learning_times_of_labels,
        noise_variance_rates=gradient_noise_variance_by_label,
        prevalence=descent.prevalence,
    )


@pytest.fixture
def descent() -> Descent:
    """Returns a descent of 20 steps for two labels, whose prevalence is the true one."""
    prevalence = expit(features(num_records=100_000, seed=7) @ TRUE_WEIGHTS).mean(axis=0)
    return Descent(
        public_features=features(num_records=4000).astype(np.float32),
        feature_variances=np.ones(3),
        prevalence=prevalence,
        clip_factor=0.5,
        num_steps=20,
    )


@pytest.mark.slow
def test_without_noise_more_steps_come_nearer_to_the_true_weights(descent: Descent) -> None:
    """Without noise, the weights after 20 steps are nearer to the true ones than after 5, and after 80 nearer still.

    After 80 steps they are within 0.15. The error of a constant is multiplied by the constant feature.
    """
    feature_scales = np.array([[1], [1], [1], [CONSTANT]])

    def largest_error(num_steps: int) -> float:
        weights = descended_weights(
            descent=replace(descent, num_steps=num_steps), gradient_noise_std=0.0
        )
        return float((np.abs(weights - TRUE_WEIGHTS) * feature_scales).max())

    errors = [largest_error(num_steps=num_steps) for num_steps in (5, 20, 80)]
    assert 1.5 * errors[2] < errors[1] < errors[0] / 1.5 < 1, errors
    assert errors[2] < 0.15


@pytest.mark.parametrize("gradient_noise_std", [0.0, 1e-3, 1e-2, 1.0])
def test_mean_probabilities_equal_the_prevalence(
    descent: Descent, gradient_noise_std: float
) -> None:
    """After a descent with or without noise, the mean probability of each label on public rows is the prevalence.

    The constant of each label is fitted to it after the steps.
    """
    weights = descended_weights(descent=descent, gradient_noise_std=gradient_noise_std)
    np.testing.assert_allclose(
        descent.probabilities(weights).mean(axis=0), descent.prevalence, atol=1e-5
    )


def test_weighted_mean_probabilities_equal_the_prevalence(descent: Descent) -> None:
    """If public rows have weights, the weighted mean probability of each label, not the plain one, is the prevalence.

    A step whose gradient is 0 suggests the weighted mean as the prevalence, too.
    """
    public_row_weights = np.exp(3 * descent.public_features[:, 0])
    weighted_descent = replace(descent, public_row_weights=public_row_weights)
    weights = weighted_descent.with_constants(
        weights_without_constants=TRUE_WEIGHTS[:-1], prevalence=descent.prevalence
    )
    probabilities = weighted_descent.probabilities(weights)
    mean_probabilities = public_row_weights @ probabilities / public_row_weights.sum()
    np.testing.assert_allclose(mean_probabilities, descent.prevalence, atol=1e-5)
    assert np.abs(probabilities.mean(axis=0) - descent.prevalence).max() > 0.05
    suggested_prevalence = weighted_descent.suggested_prevalence(
        probabilities, gradient=np.zeros((4, 2))
    )
    np.testing.assert_allclose(suggested_prevalence, mean_probabilities, atol=1e-6)


@pytest.mark.slow
def test_learning_times_fall_with_the_noise(descent: Descent) -> None:
    """The larger the noise, the shorter the learning time of every direction.

    Weights that are learned from labels without a signal stay small.
    """
    times = [
        descent.learning_times(noise_variance_rates=np.full(2, noise_std**2)).times
        for noise_std in (1e-4, 1e-2, 1.0)
    ]
    assert (times[0] > times[1]).all() and (times[1] > times[2]).all()
    start_weights = descent.initial_weights()
    weights_by_seed = [
        descended_weights(
            descent=descent, gradient_noise_std=0.1, seed=seed, true_weights=start_weights
        )
        for seed in range(5)
    ]
    assert (
        np.square([weights[:-1] for weights in weights_by_seed]).mean() < 0.4
    )  # of TRUE_WEIGHTS: 5


def test_steps_correct_a_noisy_prevalence(descent: Descent) -> None:
    """The gradients of the constant feature correct a released prevalence that is off by 0.15 and -0.1 to within 0.02.

    The prevalence stays if its own variance is 0, and nearly if the gradients' noise is large.
    """
    true_prevalence = descent.prevalence
    rng = np.random.default_rng(1)
    noisy_descent = replace(descent, prevalence=true_prevalence + np.array([0.15, -0.1]))
    constant_gradient = 0.5 * CONSTANT * (true_prevalence - noisy_descent.prevalence)
    exact_gradient = np.append(np.zeros((3, 2)), constant_gradient[None], axis=0)
    suggested_prevalence = noisy_descent.suggested_prevalence(
        noisy_descent.probabilities(noisy_descent.initial_weights()),
        gradient=exact_gradient + 1e-3 * rng.standard_normal(size=(4, 2)),
    )
    small_noise_variances = np.full(2, 1e-6)
    large_noise_variances = np.full(2, 1.0)
    corrected_prevalence = noisy_descent.average_prevalence(
        released_variance=0.02,
        suggested_prevalence=suggested_prevalence,
        noise_variance_rates=small_noise_variances,
    )
    assert np.abs(corrected_prevalence - true_prevalence).max() < 0.02
    prevalence_with_exact_release = noisy_descent.average_prevalence(
        released_variance=0.0,
        suggested_prevalence=suggested_prevalence,
        noise_variance_rates=small_noise_variances,
    )
    np.testing.assert_array_equal(prevalence_with_exact_release, noisy_descent.prevalence)
    prevalence_with_noisy_gradients = noisy_descent.average_prevalence(
        released_variance=0.02,
        suggested_prevalence=suggested_prevalence,
        noise_variance_rates=large_noise_variances,
    )
    assert np.abs(prevalence_with_noisy_gradients - noisy_descent.prevalence).max() < 1e-3


def test_each_label_learns_by_its_own_noise(descent: Descent) -> None:
    """The learning times of two labels with different noise are those of each noise alone."""
    small_noise_variances = np.full(2, 1e-6)
    large_noise_variances = np.full(2, 1e-3)
    both_noise_variances = np.array([1e-6, 1e-3])
    times_of_both = descent.learning_times(noise_variance_rates=both_noise_variances).times
    times_of_small_noise = descent.learning_times(noise_variance_rates=small_noise_variances).times
    times_of_large_noise = descent.learning_times(noise_variance_rates=large_noise_variances).times
    np.testing.assert_array_equal(times_of_both, [times_of_small_noise[0], times_of_large_noise[1]])


def best_times() -> LearningTimes:
    """Returns the best learning times for 7 labels and 3 directions."""
    return LearningTimes.best(
        public_mean_squares=np.array([0.2, 0.1, 0.05]),
        signal_variances=np.array([1.0, 0.5, 0.1]),
        prevalence=np.linspace(0.05, 0.5, 7),
        noise_rate=1e-4,
        clip_factor=0.5,
    )


def test_learning_times_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The learning times are the same if they are searched in blocks of 600 entries or in one block."""
    together = best_times()
    monkeypatch.setattr("pate.votes.learning_times._BLOCK_ENTRIES", 600)
    in_blocks = best_times()
    np.testing.assert_array_equal(in_blocks.times, together.times)
    np.testing.assert_array_equal(
        in_blocks.log_odds_noise_variance, together.log_odds_noise_variance
    )


def test_direction_absent_from_public_rows_is_harmless(descent: Descent) -> None:
    """A feature that is 0 in all public rows leaves the weights finite."""
    public_features = descent.public_features.copy()
    public_features[:, 1] = 0
    weights = descended_weights(
        descent=Descent(
            public_features=public_features,
            feature_variances=np.ones(3),
            prevalence=descent.prevalence,
            clip_factor=0.5,
            num_steps=20,
        ),
        gradient_noise_std=1e-3,
    )
    assert np.isfinite(weights).all()


def expected_f1(probabilities: FloatArray, threshold: float) -> float:
    """Returns the expected F1 of predicting each label whose probability is at least the threshold."""
    predicted = probabilities[probabilities >= threshold]
    return float(2 * predicted.sum() / (len(predicted) + probabilities.sum()))


@pytest.mark.parametrize("seed", range(20))
def test_threshold_maximizes_the_expected_f1(seed: int) -> None:
    """`expected_f1_threshold` of random probabilities attains the largest expected F1 over all thresholds."""
    probabilities = np.random.default_rng(seed).beta(0.4, 2.0, size=(30, 4))
    scores = [
        expected_f1(probabilities=probabilities, threshold=threshold)
        for threshold in probabilities.ravel()
    ]
    best_threshold = expected_f1_threshold(probabilities)
    assert expected_f1(probabilities=probabilities, threshold=best_threshold) == pytest.approx(
        max(scores)
    )


def test_threshold_for_zero_probabilities_is_positive() -> None:
    """If all probabilities are 0, the threshold is above 0, so that no label is predicted."""
    assert expected_f1_threshold(probabilities=np.zeros((2, 2))) > 0
