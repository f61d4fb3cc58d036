"""A descent from a public start: its error is hardly above the smaller of two, that of the start and that without it.

The start has weights and states their variances. Trust is how much a label's start counts.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.special import expit

from pate.array_types import FloatArray
from pate.votes.descent import Descent
from pate.votes.public_start import PublicStart
from pate.votes.started_descent import StartedDescent

NUM_FEATURES = 30
NUM_LABELS = 12


@cache
def true_weights() -> FloatArray:
    """Returns the weights behind the private labels, `[num_features - 1, num_labels]`."""
    return np.random.default_rng(1).normal(size=(NUM_FEATURES - 1, NUM_LABELS)) * 1.4


def features(num_rows: int, seed: int) -> FloatArray:
    """Returns random features of length 1, the last of which is the constant feature."""
    rows = np.random.default_rng(seed).normal(size=(num_rows, NUM_FEATURES - 1))
    rows *= np.sqrt(0.96) / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.append(rows, np.full((num_rows, 1), 0.2), axis=1)


@cache
def descent() -> Descent:
    """Returns the descent of 20 steps for the true prevalence of the private labels."""
    public = features(num_rows=4000, seed=2)
    return Descent(
        public_features=public.astype(np.float32),
        feature_variances=np.ones(NUM_FEATURES - 1),
        prevalence=expit(public[:, :-1] @ true_weights() - 1).mean(axis=0),
        clip_factor=1.0,
        num_steps=20,
    )


def error_after(start: PublicStart | None, noise_std: float) -> float:
    """Returns the mean squared error of log-odds per label after all steps, on public rows.

    Args:
        start: the public start; None for a descent without one.
        noise_std: the standard deviation of the noise in an entry of the mean of all steps' gradients.
    """
    plain_descent = descent()
    rows = features(num_rows=8000, seed=4)
    rng = np.random.default_rng(5)
    labels = rng.random((len(rows), NUM_LABELS)) < expit(rows[:, :-1] @ true_weights() - 1)
    gradient_noise_variances = np.full(NUM_LABELS, noise_std**2)
    step_noise_std = noise_std * np.sqrt(plain_descent.num_steps)
    started = None if start is None else StartedDescent(plain_descent, public_start=start)
    weights = plain_descent.initial_weights() if started is None else started.initial_weights()
    learning_times_of_labels = plain_descent.learning_times(gradient_noise_variances)
    for _ in range(plain_descent.num_steps):
        gradient = rows.T @ (labels - expit(rows @ weights)) / len(rows)
        gradient += step_noise_std * rng.normal(size=gradient.shape)
        if started is None:
            weights = plain_descent.take_step(
                weights, gradient=gradient, learning_times_of_labels=learning_times_of_labels
            )
        else:
            weights = started.take_step(
                weights,
                probabilities=plain_descent.probabilities(weights),
                gradient=gradient,
                noise_variance_rates=gradient_noise_variances,
            )
    if started is None:
        weights = plain_descent.final_weights(
            weights,
            learning_times_of_labels=learning_times_of_labels,
            noise_variance_rates=gradient_noise_variances,
            prevalence=plain_descent.prevalence,
        )
    else:
        weights = started.final_weights(
            weights,
            noise_variance_rates=gradient_noise_variances,
            prevalence=plain_descent.prevalence,
        )
    return error_of_weights(weights=weights[:-1])


def error_of_weights(weights: FloatArray) -> float:
    """Returns the mean squared error of log-odds along the features, per label."""
    public = descent().public_features[:, :-1]
    return float(((public @ (weights - true_weights())) ** 2).mean())


def start_with_error(start_std: float) -> PublicStart:
    """Returns a start whose weights are the true ones plus noise, with the variance of that noise."""
    noise = np.random.default_rng(6).normal(size=true_weights().shape) * start_std
    variances = np.full(noise.shape, start_std**2)
    return PublicStart(weights=true_weights() + noise, variances=variances)


@pytest.mark.slow
@pytest.mark.parametrize("noise_std", [0.01, 0.003])
@pytest.mark.parametrize("start_std", [0.3, 1.0])
def test_start_and_rounds_together_are_no_worse_than_either_alone(
    noise_std: float, start_std: float
) -> None:
    """With an honest start, the error is less than 2% above that of the start, and below that without a start."""
    start = start_with_error(start_std=start_std)
    error_together = error_after(start=start, noise_std=noise_std)
    assert error_together < 1.02 * error_of_weights(weights=start.weights)
    assert error_together < error_after(start=None, noise_std=noise_std)


@pytest.mark.slow
@pytest.mark.parametrize("noise_std", [0.01, 0.003])
def test_a_start_of_other_labels_costs_little(noise_std: float) -> None:
    """A start with weights of other labels, and small variances, adds under a tenth to the error without a start."""
    honest_start = start_with_error(start_std=0.3)
    wrong_start = PublicStart(
        weights=np.roll(honest_start.weights, shift=1, axis=1), variances=honest_start.variances
    )
    error_with_start = error_after(start=wrong_start, noise_std=noise_std)
    error_without_start = error_after(start=None, noise_std=noise_std)
    assert error_with_start < 1.1 * error_without_start


@pytest.mark.slow
def test_trust_is_low_for_the_wrong_labels_of_a_start() -> None:
    """If the weights of four labels of a start are exchanged, the trust in these is low, and in all others high."""
    start = start_with_error(start_std=0.3)
    weights = start.weights.copy()
    weights[:, :4] = np.roll(weights[:, :4], shift=1, axis=1)
    started = StartedDescent(
        descent(), public_start=PublicStart(weights=weights, variances=start.variances)
    )
    rows = features(num_rows=8000, seed=4)
    rng = np.random.default_rng(5)
    probabilities = expit(rows[:, :-1] @ true_weights() - 1)
    labels = rng.random(probabilities.shape) < probabilities
    student_weights = started.initial_weights()
    gradient_noise_variances = np.full(NUM_LABELS, 1e-6)
    gradient = rows.T @ (labels - expit(rows @ student_weights)) / len(rows)
    started.take_step(
        student_weights,
        probabilities=descent().probabilities(student_weights),
        gradient=gradient,
        noise_variance_rates=gradient_noise_variances,
    )
    assert started.trust[:4].max() < 0.5 < 0.8 < started.trust[4:].min()


@pytest.mark.parametrize("seed", range(5))
def test_gradients_of_noise_alone_leave_the_trust_in_a_start(seed: int) -> None:
    """Gradients of noise alone, far larger than any signal, leave the trust in each label of the start above 0.7."""
    started = StartedDescent(descent(), public_start=start_with_error(start_std=0.3))
    student_weights = started.initial_weights()
    # The standard deviation of the noise in the mean gradient of all steps, for each label.
    noise_stds_of_labels = 10 ** np.random.default_rng(8).uniform(low=1, high=3, size=NUM_LABELS)
    noise = np.random.default_rng(seed).normal(size=student_weights.shape) * noise_stds_of_labels
    gradient = noise * np.sqrt(descent().num_steps)
    started.take_step(
        student_weights,
        probabilities=descent().probabilities(student_weights),
        gradient=gradient,
        noise_variance_rates=noise_stds_of_labels**2,
    )
    assert started.trust.min() > 0.7


def test_a_start_of_zeros_begins_at_the_prevalence() -> None:
    """A start of zero weights begins with the constants of the prevalence, and a step gives finite weights."""
    zeros = np.zeros((NUM_FEATURES - 1, NUM_LABELS))
    started = StartedDescent(
        descent(), public_start=PublicStart(weights=zeros, variances=np.ones_like(zeros))
    )
    initial_weights = started.initial_weights()
    np.testing.assert_allclose(initial_weights[-1], descent().initial_weights()[-1], rtol=1e-4)
    gradient = np.random.default_rng(0).normal(size=initial_weights.shape) * 0.01
    probabilities = descent().probabilities(initial_weights)
    gradient_noise_variances = np.full(NUM_LABELS, 1e-5)
    weights_after_step = started.take_step(
        initial_weights,
        probabilities=probabilities,
        gradient=gradient,
        noise_variance_rates=gradient_noise_variances,
    )
    final_weights = started.final_weights(
        weights_after_step,
        noise_variance_rates=gradient_noise_variances,
        prevalence=descent().prevalence,
    )
    assert np.isfinite(final_weights).all()


def test_without_noise_the_student_is_the_one_after_the_last_step() -> None:
    """Without noise, the final weights are those after the last step, except for the constant."""
    start = start_with_error(start_std=0.3)
    started = StartedDescent(descent(), public_start=start)
    initial_weights = started.initial_weights()
    zero_noise_variances = np.zeros(NUM_LABELS)
    gradient = np.full(initial_weights.shape, 0.001)
    weights_after_step = started.take_step(
        initial_weights,
        probabilities=descent().probabilities(initial_weights),
        gradient=gradient,
        noise_variance_rates=zero_noise_variances,
    )
    final_weights = started.final_weights(
        weights_after_step,
        noise_variance_rates=zero_noise_variances,
        prevalence=descent().prevalence,
    )
    np.testing.assert_array_equal(final_weights[:-1], weights_after_step[:-1])
