"""Enclosures: fractions below and above exp, log and the normal distribution function, as close as a comparison needs.

A drawn number must be compared with a real number such as exp(-3). A float may round the real number to the wrong side
of the drawn number. So the real number is enclosed between two fractions, which are computed with more digits until the
drawn number lies outside of them. docs/proofs/floats.md, "Lazy uniform numbers".
"""

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

# Fractions below and above a real number.
Bounds = tuple[Fraction, Fraction]
# The same, where an end may be infinite.
Limits = tuple[Fraction | float, Fraction | float]
# Digits beyond the requested ones, which cover the rounding of up to 10**5 operations.
_SPARE_DIGITS = 12
# A bound above log(10).
_LOG_10_UP = Fraction(23026, 10_000)
_HALF = Fraction(1, 2)


def exp_bounds(exponent: Fraction, decimal_digits: int) -> Bounds:
    """Returns fractions below and above exp(exponent), each within about 10**-decimal_digits, for exponent <= 0."""
    decimal_context = _context(decimal_digits)
    value = Fraction(decimal_context.exp(_decimal(exponent, decimal_context)))
    slack = Fraction(1, 10**decimal_digits)
    return max(value - slack, Fraction(0)), value + slack


def log_bounds(number: Fraction, decimal_digits: int) -> Bounds:
    """Returns fractions below and above log(number), each within about 10**-decimal_digits, for number > 0."""
    num_bits = max(number.numerator.bit_length(), number.denominator.bit_length())
    num_digits_before_point = len(str(num_bits))
    decimal_context = _context(decimal_digits + num_digits_before_point)
    value = Fraction(decimal_context.ln(_decimal(number, decimal_context)))
    slack = Fraction(1, 10**decimal_digits)
    return value - slack, value + slack


def normal_bounds(x: Fraction, decimal_digits: int) -> Bounds:
    """Returns fractions below and above P[N(0, 1) <= x], each within about 10**-decimal_digits."""
    if x > 0:
        low, high = normal_bounds(-x, decimal_digits)
        return 1 - high, 1 - low
    slack = Fraction(1, 10**decimal_digits)
    if x * x > 2 * _LOG_10_UP * decimal_digits + 2:  # as P <= exp(-x**2 / 2) / 2
        return Fraction(0), slack
    # With t = -x and the density phi, P = 1/2 - phi(t) times the sum over n of t**(2 n + 1) / (1 3 5 … (2 n + 1)). All
    # terms of the sum are positive, so nothing cancels in it.
    decimal_context = _context(decimal_digits)
    t = _decimal(-x, decimal_context)
    t_squared = decimal_context.multiply(t, t)
    normal_cdf_term = t
    normal_cdf_series = t
    odd_number = 1
    while 2 * t_squared > odd_number or normal_cdf_series < decimal_context.multiply(
        normal_cdf_term, Decimal(10) ** (decimal_digits + 3)
    ):
        odd_number += 2
        normal_cdf_term = decimal_context.divide(
            decimal_context.multiply(normal_cdf_term, t_squared), Decimal(odd_number)
        )
        normal_cdf_series = decimal_context.add(normal_cdf_series, normal_cdf_term)
    exponent = decimal_context.divide(t_squared, Decimal(-2))
    two_pi = decimal_context.multiply(Decimal(2), _pi(decimal_context.prec))
    density = decimal_context.divide(decimal_context.exp(exponent), decimal_context.sqrt(two_pi))
    value = _HALF - Fraction(decimal_context.multiply(density, normal_cdf_series))
    return max(value - slack, Fraction(0)), value + slack


def _context(decimal_digits: int) -> Context:
    """Returns a context of decimal arithmetic with `decimal_digits` digits, plus spare digits for rounding errors."""
    return Context(prec=decimal_digits + _SPARE_DIGITS, Emin=-(10**9), Emax=10**9)


def _decimal(number: Fraction, decimal_context: Context) -> Decimal:
    """Returns a fraction as a decimal number, rounded to the digits of the context."""
    return decimal_context.divide(Decimal(number.numerator), Decimal(number.denominator))


# Few numbers of digits occur, and each is asked for many times.
@lru_cache(maxsize=16)
def _pi(decimal_digits: int) -> Decimal:
    """Returns pi with an error below 10**-decimal_digits."""
    # Machin's formula in whole numbers: pi = 16 arctan(1/5) - 4 arctan(1/239)
    scaled_pi = 0
    for factor, inverse in ((16, 5), (-4, 239)):
        # arctan(x) is the sum of x**odd / odd over odd numbers, with alternating signs
        sign = 1
        odd = 1
        power = 10 ** (decimal_digits + 10) // inverse
        while power:
            scaled_pi += sign * factor * (power // odd)
            sign = -sign
            odd += 2
            power //= inverse * inverse
    return Decimal(scaled_pi).scaleb(-decimal_digits - 10, Context(prec=decimal_digits + 12))


def is_below(
    compute_first_bounds: Callable[[], Limits],
    compute_second_bounds: Callable[[], Limits],
    refine_functions: Sequence[Callable[[], None]],
) -> bool:
    """Returns True if a first number is below a second number, each of which is known as an interval.

    Args:
        compute_first_bounds: returns the interval of the first number.
        compute_second_bounds: returns the interval of the second number.
        refine_functions: functions that narrow the intervals. All of them are called until the intervals are disjoint.
    """
    while True:
        first_low, first_high = compute_first_bounds()
        second_low, second_high = compute_second_bounds()
        if first_high <= second_low:
            return True
        if first_low >= second_high:
            return False
        for refine in refine_functions:
            refine()
