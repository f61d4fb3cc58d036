"""Rounding of numbers for texts: epsilons and deltas are rounded up, so that no text promises too much."""

import math
from fractions import Fraction

import numpy as np
import pytest

from pate.accounting.rounding import (
    ceil_to_decimals,
    ceil_to_digits,
    floor_to_digits,
    format_delta,
    format_epsilon,
)
from pate.validation import InvalidValue
from tests.refusals import refused_parameter


@pytest.mark.parametrize(
    ("value", "num_decimals", "text"),
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
def test_rounds_towards_plus_infinity(value: float, num_decimals: int, text: str) -> None:
    """`ceil_to_decimals` writes a value with a number of decimals, rounded towards plus infinity."""
    assert ceil_to_decimals(value, num_decimals) == text


@pytest.mark.parametrize("num_decimals", range(10))
def test_never_below_and_less_than_one_unit_above(num_decimals: int) -> None:
    """The text of `ceil_to_decimals` is never below the value, and above it by less than a unit of the last digit."""
    rng = np.random.default_rng(num_decimals)
    for value in (
        0.0,
        5e-324,
        1e15,
        *(10.0 ** rng.uniform(-12, 15, 200)).tolist(),
        *rng.integers(0, 99, size=20) / 100,
    ):
        text = ceil_to_decimals(value=float(value), num_decimals=num_decimals)
        assert float(text) >= value
        assert Fraction(text) - Fraction(repr(float(value))) < Fraction(1, 10**num_decimals)
        assert len(text.partition(".")[2]) == num_decimals


def test_epsilon_below_one_keeps_four_decimals() -> None:
    """Epsilon 0.03121 is written 0.0313, and 1.0001 is written 1.01."""
    assert (format_epsilon(epsilon=0.03121), format_epsilon(epsilon=1.0001)) == ("0.0313", "1.01")


def test_values_that_are_no_numbers_or_probabilities_are_refused() -> None:
    """NaN, negative infinity, a negative number of decimals, and a delta above 1 are refused."""
    for value, num_decimals, name in (
        (math.nan, 2, "value"),
        (-math.inf, 2, "value"),
        (1.0, -1, "num_decimals"),
    ):
        with pytest.raises(InvalidValue) as caught:
            ceil_to_decimals(value, num_decimals)
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
    """`format_delta` writes a delta with at most three digits, rounded up."""
    assert format_delta(delta) == text
    assert float(text) >= delta


@pytest.mark.parametrize(
    ("value", "num_digits", "above", "below"),
    [
        (7.9912, 3, "8", "7.99"),
        (0.00123456, 3, "0.00124", "0.00123"),
        (123456.0, 2, "1.3e+05", "1.2e+05"),
        (-1.239, 3, "-1.23", "-1.24"),
        (0.3, 1, "0.3", "0.3"),
        (0.1 + 0.2, 1, "0.4", "0.3"),  # the float is above 0.3
        (0.0, 2, "0", "0"),
        (math.inf, 2, "inf", "inf"),
    ],
)
def test_significant_digits_are_rounded_up_or_down(
    value: float, num_digits: int, above: str, below: str
) -> None:
    """`ceil_to_digits` writes a number that is at least the value, and `floor_to_digits` one that is at most it."""
    assert ceil_to_digits(value, num_digits) == above
    assert floor_to_digits(value, num_digits) == below
