"""Steps of docs/proofs/centered_votes.md."""

import math

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp, ndtr


def rounded_distribution(std: float, mean: int = 0) -> np.ndarray:
    """Returns the probability of each whole number from -60 to 60 under a rounded Gaussian with mean `mean`."""
    values = np.abs(np.arange(-60, 61) - mean)
    return np.asarray(ndtr(-(values - 0.5) / std) - ndtr(-(values + 0.5) / std))


def hockey_stick(first_law: np.ndarray, second_law: np.ndarray, epsilon: float) -> float:
    """Returns the hockey-stick divergence of two distributions at epsilon."""
    return float(np.maximum(first_law - math.exp(epsilon) * second_law, 0).sum())


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Returns the exact privacy profile of N(0, 1) against N(mu, 1) at epsilon."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("std", [0.6, 1.0, 2.5])
def test_rounded_noise_costs_no_more_than_the_gaussian(std: float) -> None:
    """The delta of a rounded Gaussian that moves by 1, 2 or 3 is at most that of the Gaussian, at 25 epsilons from 0 to
    6.

    Negative control: with 10% less noise it is larger at epsilon 1 for a move of 1, if the standard deviation is 1 or
    more.
    """
    for shift in (1, 2, 3):
        for epsilon in np.linspace(0, 6, 25):
            spent = hockey_stick(
                first_law=rounded_distribution(std, mean=shift),
                second_law=rounded_distribution(std),
                epsilon=epsilon,
            )
            assert spent <= gaussian_delta(mu=shift / std, epsilon=epsilon) + 1e-15
    if std >= 1:  # on a coarser grid rounding hides more than a tenth of the noise
        assert hockey_stick(
            first_law=rounded_distribution(std * 0.9, mean=1),
            second_law=rounded_distribution(std * 0.9),
            epsilon=1.0,
        ) > gaussian_delta(mu=1 / std, epsilon=1.0)


def test_the_discrete_gaussian_exceeds_the_profile_of_the_continuous_one() -> None:
    """Renyi divergences of the discrete Gaussian are at most those of the continuous Gaussian.

    Some of its deltas are over 1% larger than those of the continuous one.
    """
    values = np.arange(-60, 61)
    std = 1.0
    worst = 0.0
    for shift in (1, 2):
        logs = [log_softmax(-((values - at) ** 2) / (2 * std**2)) for at in (shift, 0)]
        shifted = np.exp(logs[0])
        unshifted = np.exp(logs[1])
        for order in (1.5, 2.0, 8.0):
            power = logsumexp(order * logs[0] + (1 - order) * logs[1]) / (order - 1)
            assert power <= order * shift**2 / (2 * std**2) * (1 + 1e-9)
        for epsilon in np.linspace(0, 6, 121):
            worst = max(
                worst,
                hockey_stick(first_law=shifted, second_law=unshifted, epsilon=epsilon)
                / gaussian_delta(mu=shift / std, epsilon=epsilon),
            )
    assert worst > 1.01
