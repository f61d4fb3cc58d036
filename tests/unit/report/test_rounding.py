"""Rounding of epsilons and deltas for texts: always up, so that no text promises too much."""

import math
from fractions import Fraction

import numpy as np
import pytest

from pate.accounting.rounding import format_delta, format_epsilon, round_up
from pate.validation import InvalidValue
from tests.refusals import refused_parameter


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (7.9912, 2, "8.00"),
        (7.9900000001, 2, "8.00"),
        (3.6, 2, "3.60"),
        (1e-12, 3, "0.001"),
        (0.0, 2, "0.00"),
        (-0.001, 2, "0.00"),
        (-1.239, 2, "-1.23"),
        (12.0, 0, "12"),
        (12.1, 0, "13"),
        (math.inf, 2, "inf"),
        (0.1 + 0.2, 1, "0.4"),  # the float is above 0.3
    ],
)
def test_rounds_towards_plus_infinity(value: float, digits: int, text: str) -> None:
    """`round_up` writes a value with a number of decimals, rounded towards plus infinity."""
    assert round_up(value, digits) == text


@pytest.mark.parametrize("digits", range(10))
def test_never_below_and_less_than_one_unit_above(digits: int) -> None:
    """The text of `round_up` is never below the value, and above it by less than a unit of the last digit."""
    rng = np.random.default_rng(digits)
    for value in (
        0.0,
        5e-324,
        1e15,
        *(10.0 ** rng.uniform(-12, 15, 200)).tolist(),
        *rng.integers(0, 99, size=20) / 100,
    ):
        text = round_up(value=float(value), digits=digits)
        assert float(text) >= value
        assert Fraction(text) - Fraction(repr(float(value))) < Fraction(1, 10**digits)
        assert len(text.partition(".")[2]) == digits


def test_epsilon_below_one_keeps_four_decimals() -> None:
    """Epsilon 0.03121 is written 0.0313, and 1.0001 is written 1.01."""
    assert (format_epsilon(epsilon=0.03121), format_epsilon(epsilon=1.0001)) == ("0.0313", "1.01")


def test_values_that_are_no_numbers_or_probabilities_are_refused() -> None:
    """NaN, negative infinity, negative digits, and a delta above 1 are refused."""
    for value, digits, name in (
        (math.nan, 2, "value"),
        (-math.inf, 2, "value"),
        (1.0, -1, "digits"),
    ):
        with pytest.raises(InvalidValue) as caught:
            round_up(value, digits)
        assert caught.value.name == name
    with refused_parameter("delta", value=1.5):
        format_delta(delta=1.5)


@pytest.mark.parametrize(
    ("delta", "text"),
    [
        (0.0, "0"),
        (1e-6, "1e-6"),
        (1.6011e-6, "1.61e-6"),
        (9.999e-7, "1e-6"),
        (6e-7, "6e-7"),
        (0.05, "0.05"),
        (1.0, "1"),
        (5e-324, "5e-324"),
    ],
)
def test_delta_has_three_digits_rounded_up(delta: float, text: str) -> None:
    """`format_delta` writes a delta with three digits, and never below the delta."""
    assert format_delta(delta) == text
    assert float(text) >= delta
