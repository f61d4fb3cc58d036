"""Rounded and discrete Gaussian noise follow their exact distributions."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import kstest

from pate.mechanisms.noise.discrete_gaussian import DiscreteGaussian
from pate.mechanisms.noise.rounded_gaussian import RoundedGaussian
from tests.statistical.chi_square import chi_square_p_value


def rounded_gaussian(std: float) -> dict[int, float]:
    """Returns the probability of each whole number under a rounded Gaussian."""
    values = np.arange(-round(12 * std) - 2, round(12 * std) + 3)
    return dict(
        zip(
            values.tolist(),
            (ndtr((values + 0.5) / std) - ndtr((values - 0.5) / std)).tolist(),
            strict=True,
        )
    )


def discrete_gaussian(variance: float) -> dict[int, float]:
    """Returns the probability of each whole number under the discrete Gaussian."""
    values = np.arange(-round(12 * variance**0.5) - 2, round(12 * variance**0.5) + 3)
    weights = np.exp(-(values**2) / (2 * variance))
    return dict(zip(values.tolist(), (weights / weights.sum()).tolist(), strict=True))


LAWS = [*((RoundedGaussian, rounded_gaussian, std, 1.05) for std in (0.05, 0.3, 1.0, 2.7, 30.0))]
LAWS += [(DiscreteGaussian, discrete_gaussian, variance, 1.1) for variance in (1, 2, 7, 64, 900)]


@pytest.mark.parametrize(("noise_class", "compute_law", "std_or_variance", "widening"), LAWS)
def test_whole_numbers_have_their_mass_and_not_that_of_wider_noise(
    noise_class: Any, compute_law: Any, std_or_variance: float, widening: float
) -> None:
    """60,000 draws of whole-number noise follow their exact distribution by a chi-square test.

    For a std or a variance `widening` times as large, the distribution is rejected, except for the std 0.05.
    """
    drawn = Counter(
        noise_class(std_or_variance).sample(shape=(60_000,), rng=np.random.default_rng(5)).tolist()
    )
    assert (
        chi_square_p_value(count_by_outcome=drawn, prob_by_outcome=compute_law(std_or_variance))
        > 1e-3
    )
    assert (
        std_or_variance < 0.1
        or chi_square_p_value(
            count_by_outcome=drawn, prob_by_outcome=compute_law(std_or_variance * widening)
        )
        < 1e-6
    )


@pytest.mark.slow
def test_wide_noise_is_normal() -> None:
    """Rounded Gaussian noise of std 2^36, divided by its std, is standard normal by a Kolmogorov-Smirnov test.

    2% wider noise is rejected.
    """
    drawn = (
        RoundedGaussian(std=2.0**36).sample(shape=(200_000,), rng=np.random.default_rng(1))
        / 2.0**36
    )
    assert kstest(drawn, "norm").pvalue > 1e-3
    assert kstest(drawn * 1.02, "norm").pvalue < 1e-4


def test_entries_are_independent() -> None:
    """Entries of rounded Gaussian noise in one row and in two are uncorrelated within 5 standard deviations."""
    drawn = (
        RoundedGaussian(std=100.0).sample(shape=(2, 50_000), rng=np.random.default_rng(2)) / 100.0
    )
    for lag in (1, 2, 7):
        assert abs(np.mean(drawn[0, lag:] * drawn[0, :-lag])) < 5 / np.sqrt(50_000)
    assert abs(np.mean(drawn[0] * drawn[1])) < 5 / np.sqrt(50_000)
