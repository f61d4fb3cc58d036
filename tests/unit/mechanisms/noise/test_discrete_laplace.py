"""Discrete Laplace noise: masses against their sum, draws against masses, and what is refused."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pate.mechanisms import DiscreteLaplace
from pate.mechanisms.noise.whole_numbers import exponential_coins
from pate.validation import InvalidValue
from tests.statistical.chi_square import p_value

DRAWS = 40_000


def distribution(noise: DiscreteLaplace) -> dict[int, float]:
    return {value: float(noise.mass(value)) for value in range(-400, 401)}


@pytest.mark.parametrize("rate", [1e-3, 0.05, 0.7, 3.0, 20.0])
def test_masses_are_normalized_exponentials_and_sum_to_the_tail(rate: float) -> None:
    noise = DiscreteLaplace.at_most(rate)
    exact = float(noise.rate)
    values = np.arange(-int(60 / exact) - 3, int(60 / exact) + 4)
    weights = np.exp(-exact * np.abs(values))
    np.testing.assert_allclose(noise.mass(values), weights / weights.sum(), rtol=1e-9)
    near = np.abs(values) * exact < 35  # the sum ends at 60 scales
    np.testing.assert_allclose(noise.tail(values)[near], np.cumsum(noise.mass(values)[::-1])[::-1][near], rtol=1e-9)


@pytest.mark.parametrize("rate", [0.05, 0.7, Fraction(3), 4.5])
def test_draws_follow_the_masses(rate: Any) -> None:
    noise = DiscreteLaplace.at_most(rate)
    drawn = Counter(noise.sample((DRAWS,), np.random.default_rng(11)).tolist())
    assert p_value(drawn, distribution(noise)) > 1e-4
    assert p_value(drawn, distribution(DiscreteLaplace.at_most(float(rate) * 1.05))) < 1e-4


def test_coins_show_true_as_often_as_the_exponential_says() -> None:
    for numerator, denominator in ((0, 7), (1, 3), (7, 7), (2**31, 2**32)):
        coins = exponential_coins(np.full(DRAWS, numerator), denominator, np.random.default_rng(5))
        expected = math.exp(-numerator / denominator)
        assert abs(coins.mean() - expected) <= 4.5 * math.sqrt(expected * (1 - expected) / DRAWS) + 1e-12


def test_the_rate_is_the_largest_on_the_grid() -> None:
    assert DiscreteLaplace.at_most(0.1).rate == Fraction(math.floor(Fraction(0.1) * 2**32), 2**32)
    assert DiscreteLaplace.at_most(2.0**-32).rate == Fraction(1, 2**32)
    assert DiscreteLaplace.at_most(Fraction(1, 3)).rate < Fraction(1, 3)


def test_shapes_and_an_empty_draw() -> None:
    noise = DiscreteLaplace.at_most(1.0)
    assert noise.sample((), np.random.default_rng(0)).shape == ()
    assert noise.sample((2, 3), np.random.default_rng(0)).shape == (2, 3)
    assert noise.sample((0,), np.random.default_rng(0)).shape == (0,)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_a_rate_that_is_no_positive_number_is_refused(rate: float) -> None:
    with pytest.raises(InvalidValue, match=r"rate=.*: expected a number > 0"):
        DiscreteLaplace.at_most(rate)


def test_a_rate_off_the_grid_is_refused() -> None:
    for rate in (1e-12, 1e6):
        with pytest.raises(InvalidValue, match=r"rate=.*: expected a number in \[2\*\*-32, 2\*\*16\]"):
            DiscreteLaplace.at_most(rate)
    for given in (Fraction(1, 3), Fraction(-1, 2), 0.5):
        with pytest.raises(InvalidValue, match=r"rate=.*: expected a multiple of 2\*\*-32 in \(0, 2\*\*16\]"):
            DiscreteLaplace(given)


def test_a_seed_is_no_generator() -> None:
    with pytest.raises(InvalidValue, match="rng=0: expected a numpy"):
        DiscreteLaplace.at_most(1.0).sample((1,), 0)
