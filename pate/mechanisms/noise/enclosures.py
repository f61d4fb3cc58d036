"""Enclosures: fractions below and above exp, log and the normal distribution function, as close as a comparison needs.

A drawn number must be compared with a real number such as exp(-3). A float may round the real number to the wrong side
of the drawn number. So the real number is enclosed between two fractions, which are computed with more digits until the
drawn number lies outside of them. docs/proofs/floats.md, "Lazy uniform numbers".
"""

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

Bounds = tuple[Fraction, Fraction]
Limits = tuple[Fraction | float, Fraction | float]
_SPARE = 12  # digits beyond those asked for; they cover the rounding of up to 10**5 operations
_LOG_10 = Fraction(23026, 10_000)
_HALF = Fraction(1, 2)


def exp_bounds(exponent: Fraction, digits: int) -> Bounds:
    """Returns fractions below and above exp(exponent), each within 10**-digits, for exponent <= 0."""
    context = _context(digits)
    value = Fraction(context.exp(_decimal(exponent, context)))
    slack = Fraction(1, 10**digits)
    return max(value - slack, Fraction(0)), value + slack


def log_bounds(number: Fraction, digits: int) -> Bounds:
    """Returns fractions below and above log(number), each within 10**-digits, for number > 0."""
    before_the_point = len(str(max(number.numerator.bit_length(), number.denominator.bit_length())))
    context = _context(digits + before_the_point)
    value = Fraction(context.ln(_decimal(number, context)))
    slack = Fraction(1, 10**digits)
    return value - slack, value + slack


def normal_bounds(x: Fraction, digits: int) -> Bounds:
    """Returns fractions below and above P[N(0, 1) <= x], each within 10**-digits."""
    # P = 1/2 + phi(x) times the sum of x**(2 n + 1) / (1 3 5 … (2 n + 1)), whose terms have one sign
    if x > 0:
        low, high = normal_bounds(-x, digits)
        return 1 - high, 1 - low
    slack = Fraction(1, 10**digits)
    if x * x > 2 * _LOG_10 * digits + 2:  # P <= exp(-x**2 / 2) / 2
        return Fraction(0), slack
    context = _context(digits)
    t = _decimal(-x, context)
    square = context.multiply(t, t)
    term = t
    total = t
    odd = 1
    while 2 * square > odd or total < context.multiply(term, Decimal(10) ** (digits + 3)):
        odd += 2
        term = context.divide(context.multiply(term, square), Decimal(odd))
        total = context.add(total, term)
    exponent = context.divide(square, Decimal(-2))
    circle = context.multiply(Decimal(2), _pi(context.prec))
    density = context.divide(context.exp(exponent), context.sqrt(circle))
    value = _HALF - Fraction(context.multiply(density, total))
    return max(value - slack, Fraction(0)), value + slack


def _context(digits: int) -> Context:
    """Returns a context of decimal arithmetic with `digits` digits, plus spare digits for rounding errors."""
    return Context(prec=digits + _SPARE, Emin=-(10**9), Emax=10**9)


def _decimal(number: Fraction, context: Context) -> Decimal:
    """Returns a fraction as a decimal number, rounded to the digits of the context."""
    return context.divide(Decimal(number.numerator), Decimal(number.denominator))


@lru_cache(maxsize=16)
def _pi(digits: int) -> Decimal:
    """Returns pi, rounded to `digits` digits."""
    # Machin's formula in whole numbers: pi = 4 (4 arctan 1/5 - arctan 1/239)
    scaled = 0
    for factor, x in ((16, 5), (-4, 239)):
        power = 10 ** (digits + 10) // x
        odd = 1
        while power:
            scaled += factor * (power // odd)
            power = power // (x * x)
            odd = odd + 2
            factor = -factor
    return Decimal(scaled).scaleb(-digits - 10, Context(prec=digits + 12))


def is_below(
    first_bounds: Callable[[], Limits],
    second_bounds: Callable[[], Limits],
    refinements: Sequence[Callable[[], None]],
) -> bool:
    """Returns True if a first number is below a second number, each of which is known as an interval.

    Args:
        first_bounds: returns the interval of the first number.
        second_bounds: returns the interval of the second number.
        refinements: functions that narrow the intervals. All of them are called until the intervals are disjoint.
    """
    while True:
        (low, high) = first_bounds()
        (least, most) = second_bounds()
        if high <= least:
            return True
        if low >= most:
            return False
        for refine in refinements:
            refine()
