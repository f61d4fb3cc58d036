"""A descent from a public start: never far below the start or the private part alone, whatever the start says."""

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
    """Returns the mean squared error of log-odds per label after all steps, on rows of the pool.

    Args:
        start: the public start; None for a descent without one.
        noise_std: the standard deviation of the noise of all steps together in an entry of the mean gradient.
    """
    rules = descent()
    rows = features(num_rows=8000, seed=4)
    rng = np.random.default_rng(5)
    labels = rng.random((len(rows), NUM_LABELS)) < expit(rows[:, :-1] @ true_weights() - 1)
    rate = np.full(NUM_LABELS, noise_std**2)
    started = None if start is None else StartedDescent(rules, start)
    weights = rules.start() if started is None else started.start()
    times = rules.pace(rate)
    for _ in range(rules.num_steps):
        gradient = rows.T @ (labels - expit(rows @ weights)) / len(rows)
        gradient += noise_std * np.sqrt(rules.num_steps) * rng.normal(size=gradient.shape)
        if started is None:
            weights = rules.moved(weights, gradient, times)
        else:
            weights = started.moved(weights, rules.probabilities(weights), gradient, rate)
    if started is None:
        weights = rules.finished(weights, times, rate, rules.prevalence)
    else:
        weights = started.finished(weights, rate, rules.prevalence)
    return error_of_weights(weights=weights[:-1])


def error_of_weights(weights: FloatArray) -> float:
    """Returns the mean squared error of log-odds along the features, per label."""
    public = descent().public_features[:, :-1]
    return float(((public @ (weights - true_weights())) ** 2).mean())


def start_with_error(std: float, stated: float | None = None) -> PublicStart:
    """Returns the true weights plus noise, with the variance of that noise or a stated one."""
    noise = np.random.default_rng(6).normal(size=true_weights().shape) * std
    variances = np.full(noise.shape, (std if stated is None else stated) ** 2)
    return PublicStart(weights=true_weights() + noise, variances=variances)


@pytest.mark.slow
@pytest.mark.parametrize("noise_std", [0.01, 0.003])
@pytest.mark.parametrize("std", [0.3, 1.0])
def test_start_and_rounds_together_are_better_than_either_alone(
    noise_std: float, std: float
) -> None:
    """With an honest start the error is below that of the start and below that of rounds without a start."""
    start = start_with_error(std=std)
    together = error_after(start=start, noise_std=noise_std)
    assert together < 1.02 * error_of_weights(weights=start.weights)
    assert together < error_after(start=None, noise_std=noise_std)


@pytest.mark.slow
@pytest.mark.parametrize("noise_std", [0.01, 0.003])
def test_a_start_of_other_labels_costs_little(noise_std: float) -> None:
    """A start whose labels are exchanged, and which states small variances, costs less than a tenth."""
    exchanged = start_with_error(std=0.3)
    wrong = PublicStart(np.roll(exchanged.weights, 1, axis=1), exchanged.variances)
    assert error_after(start=wrong, noise_std=noise_std) < 1.1 * error_after(
        start=None, noise_std=noise_std
    )


@pytest.mark.slow
def test_trust_tells_the_right_labels_of_a_start_from_wrong_ones() -> None:
    """Where the weights of four labels are exchanged, their trust is low, and that of all others high."""
    start = start_with_error(std=0.3)
    weights = start.weights.copy()
    weights[:, :4] = np.roll(weights[:, :4], 1, axis=1)
    started = StartedDescent(descent(), PublicStart(weights, start.variances))
    rows = features(num_rows=8000, seed=4)
    rng = np.random.default_rng(5)
    probabilities = expit(rows[:, :-1] @ true_weights() - 1)
    labels = rng.random(probabilities.shape) < probabilities
    student = started.start()
    gradient = rows.T @ (labels - expit(rows @ student)) / len(rows)
    public_probabilities = descent().probabilities(student)
    started.moved(student, public_probabilities, gradient, noise_rate=np.full(NUM_LABELS, 1e-6))
    assert started.trust[:4].max() < 0.5 < 0.8 < started.trust[4:].min()


@pytest.mark.parametrize("seed", range(5))
def test_gradients_of_noise_alone_leave_the_trust_in_a_start(seed: int) -> None:
    """Where noise drowns the private records, no label's start is thrown away."""
    started = StartedDescent(descent(), start_with_error(std=0.3))
    student = started.start()
    noise_std = 10 ** np.random.default_rng(8).uniform(1, 3, NUM_LABELS)  # of the mean of all steps
    noise = np.random.default_rng(seed).normal(size=student.shape) * noise_std
    gradient = noise * np.sqrt(descent().num_steps)
    started.moved(student, descent().probabilities(student), gradient, noise_rate=noise_std**2)
    assert started.trust.min() > 0.7


def test_a_start_of_zeros_begins_at_the_prevalence() -> None:
    """A start without weights has a student without weights, and finite numbers after a step."""
    zeros = np.zeros((NUM_FEATURES - 1, NUM_LABELS))
    started = StartedDescent(descent(), PublicStart(zeros, zeros + 1.0))
    weights = started.start()
    np.testing.assert_allclose(weights[-1], descent().start()[-1], rtol=1e-4)
    gradient = np.random.default_rng(0).normal(size=weights.shape) * 0.01
    probabilities = descent().probabilities(weights)
    noise_rate = np.full(NUM_LABELS, 1e-5)
    moved = started.moved(weights, probabilities, gradient, noise_rate)
    finished = started.finished(moved, noise_rate, descent().prevalence)
    assert np.isfinite(finished).all()


def test_without_noise_the_student_is_the_one_after_the_last_step() -> None:
    """Without noise no posterior is taken: the weights of all features but the constant stay as they are."""
    start = start_with_error(std=0.3)
    started = StartedDescent(descent(), start)
    weights = started.start()
    no_noise = np.zeros(NUM_LABELS)
    gradient = np.full(weights.shape, 0.001)
    moved = started.moved(weights, descent().probabilities(weights), gradient, no_noise)
    finished = started.finished(moved, no_noise, descent().prevalence)
    np.testing.assert_array_equal(finished[:-1], moved[:-1])
