"""Discrete Laplace noise: its probabilities, the coins of its sampler, and rates that are refused."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from pate.mechanisms import DiscreteLaplace
from pate.mechanisms.noise.discrete_laplace import toss_exponential_coins
from tests.refusals import ANY, refused_parameter
from tests.statistical.chi_square import chi_square_p_value

NUM_DRAWS = 40_000


def masses_of(noise: DiscreteLaplace) -> dict[int, float]:
    """Returns the probability of each whole number in -400..400 under discrete Laplace noise."""
    return {number: float(noise.mass(number)) for number in range(-400, 401)}


@pytest.mark.parametrize("rate", [0.05, 0.7, Fraction(3), 4.5])
def test_draws_follow_the_masses(rate: float | Fraction) -> None:
    """40,000 draws follow the exact distribution by a chi-square test.

    The distribution of a rate 5% larger is rejected.
    """
    noise = DiscreteLaplace.at_most(rate)
    narrower_noise = DiscreteLaplace.at_most(float(rate) * 1.05)
    draws = noise.sample(shape=(NUM_DRAWS,), rng=np.random.default_rng(11))
    draw_counts = Counter(draws.tolist())
    assert chi_square_p_value(count_by_outcome=draw_counts, prob_by_outcome=masses_of(noise)) > 1e-4
    assert (
        chi_square_p_value(count_by_outcome=draw_counts, prob_by_outcome=masses_of(narrower_noise))
        < 1e-4
    )


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 7), (1, 3), (7, 7), (2**31, 2**32)])
def test_coins_show_true_as_often_as_the_exponential_says(numerator: int, denominator: int) -> None:
    """The frequency of True among 40,000 coins is within 4.5 standard deviations of exp(-numerator / denominator)."""
    numerators = np.full(NUM_DRAWS, numerator)
    coins = toss_exponential_coins(
        numerators, denominator=denominator, rng=np.random.default_rng(5)
    )
    expected = math.exp(-numerator / denominator)
    std = math.sqrt(expected * (1 - expected) / NUM_DRAWS)
    assert abs(coins.mean() - expected) <= 4.5 * std + 1e-12


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf, 1e-12, 1e6])
def test_a_rate_out_of_range_is_refused(rate: float) -> None:
    """`at_most`, which rounds a rate down to a multiple of 2**-32, refuses a rate outside [2**-32, 2**16]."""
    with refused_parameter("rate", value=ANY):
        DiscreteLaplace.at_most(rate)


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(-1, 2), 0.5])
def test_a_rate_off_the_grid_is_refused(rate: float | Fraction) -> None:
    """The constructor refuses a rate that is no positive fraction with a denominator that divides 2**32."""
    with refused_parameter("rate", value=ANY):
        DiscreteLaplace(rate)
