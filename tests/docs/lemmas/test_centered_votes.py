"""Steps of docs/proofs/centered_votes.md."""

import math

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp, ndtr


def rounded_distribution(noise_std: float, mean: int = 0) -> np.ndarray:
    """Returns the probability of each whole number from -60 to 60 under a rounded Gaussian."""
    distances = np.abs(np.arange(-60, 61) - mean)
    return np.asarray(ndtr(-(distances - 0.5) / noise_std) - ndtr(-(distances + 0.5) / noise_std))


def hockey_stick(first_law: np.ndarray, second_law: np.ndarray, epsilon: float) -> float:
    """Returns the hockey-stick divergence of two distributions at epsilon."""
    return float(np.maximum(first_law - math.exp(epsilon) * second_law, 0).sum())


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Returns the exact privacy profile of N(0, 1) against N(mu, 1) at epsilon."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("noise_std", [0.6, 1.0, 2.5])
def test_rounded_noise_costs_no_more_than_the_gaussian(noise_std: float) -> None:
    """If a sum moves by 1, 2 or 3, rounded Gaussian noise has at most the delta of Gaussian noise.

    Epsilons are 25 numbers from 0 to 6. Negative control: with 10% less noise, delta is larger at epsilon 1 for a move
    of 1, if the standard deviation is 1 or more.
    """

    def rounded_delta(noise_std: float, mean_shift: int, epsilon: float) -> float:
        return hockey_stick(
            first_law=rounded_distribution(noise_std, mean=mean_shift),
            second_law=rounded_distribution(noise_std),
            epsilon=epsilon,
        )

    for mean_shift in (1, 2, 3):
        for epsilon in np.linspace(0, 6, 25):
            exact = rounded_delta(noise_std, mean_shift=mean_shift, epsilon=epsilon)
            assert exact <= gaussian_delta(mu=mean_shift / noise_std, epsilon=epsilon) + 1e-15
    if noise_std >= 1:  # on a coarser grid rounding hides more than a tenth of the noise
        exact = rounded_delta(noise_std=0.9 * noise_std, mean_shift=1, epsilon=1.0)
        assert exact > gaussian_delta(mu=1 / noise_std, epsilon=1.0)


def test_the_discrete_gaussian_exceeds_the_profile_of_the_continuous_one() -> None:
    """Renyi divergences of the discrete Gaussian are at most those of the continuous Gaussian.

    Some of its deltas are over 1% larger than those of the continuous one.
    """
    whole_numbers = np.arange(-60, 61)
    noise_std = 1.0
    largest_ratio = 0.0
    for mean_shift in (1, 2):
        log_shifted, log_unshifted = (
            log_softmax(-((whole_numbers - mean) ** 2) / (2 * noise_std**2))
            for mean in (mean_shift, 0)
        )
        for order in (1.5, 2.0, 8.0):
            log_terms = order * log_shifted + (1 - order) * log_unshifted
            renyi = logsumexp(log_terms) / (order - 1)
            assert renyi <= order * mean_shift**2 / (2 * noise_std**2) * (1 + 1e-9)
        for epsilon in np.linspace(0, 6, 121):
            discrete_delta = hockey_stick(
                first_law=np.exp(log_shifted), second_law=np.exp(log_unshifted), epsilon=epsilon
            )
            continuous_delta = gaussian_delta(mu=mean_shift / noise_std, epsilon=epsilon)
            largest_ratio = max(largest_ratio, discrete_delta / continuous_delta)
    assert largest_ratio > 1.01
