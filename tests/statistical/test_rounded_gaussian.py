"""Rounded Gaussian noise against its distribution."""

from collections import Counter

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import kstest

from pate.mechanisms.noise.whole_numbers import RoundedGaussian
from tests.statistical.chi_square import p_value


def distribution(std: float) -> dict[int, float]:
    values = np.arange(-round(12 * std) - 2, round(12 * std) + 3)
    return dict(zip(values.tolist(), (ndtr((values + 0.5) / std) - ndtr((values - 0.5) / std)).tolist(), strict=True))


@pytest.mark.parametrize("std", [0.05, 0.3, 1.0, 2.7, 30.0])
def test_whole_numbers_have_the_mass_of_their_interval(std: float) -> None:
    drawn = Counter(RoundedGaussian(std).sample((60_000,), np.random.default_rng(5)).tolist())
    assert p_value(drawn, distribution(std)) > 1e-3
    if std > 0.1:
        assert p_value(drawn, distribution(std * 1.05)) < 1e-6


def test_wide_noise_is_normal() -> None:
    drawn = RoundedGaussian(2.0**36).sample((200_000,), np.random.default_rng(1)) / 2.0**36
    assert kstest(drawn, "norm").pvalue > 1e-3
    assert kstest(drawn * 1.02, "norm").pvalue < 1e-4


def test_entries_are_independent() -> None:
    drawn = RoundedGaussian(100.0).sample((2, 50_000), np.random.default_rng(2)) / 100.0
    for lag in (1, 2, 7):
        assert abs(np.mean(drawn[0, lag:] * drawn[0, :-lag])) < 5 / np.sqrt(50_000)
    assert abs(np.mean(drawn[0] * drawn[1])) < 5 / np.sqrt(50_000)
