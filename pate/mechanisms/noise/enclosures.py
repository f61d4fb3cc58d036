"""Numbers between two fractions, as close as asked for: exp, log and the normal distribution."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

Bounds = tuple[Fraction, Fraction]

_SPARE = 12  # digits beyond those asked for; they cover the rounding of up to 10**5 operations
_LOG_10 = Fraction(23026, 10_000)
_HALF = Fraction(1, 2)


def exp_bounds(exponent: Fraction, digits: int) -> Bounds:
    """exp(exponent) for exponent <= 0, within 10**-digits."""
    context = _context(digits)
    value, slack = Fraction(context.exp(_decimal(exponent, context))), Fraction(1, 10**digits)
    return max(value - slack, Fraction(0)), value + slack


def log_bounds(number: Fraction, digits: int) -> Bounds:
    """log(number) for number > 0, within 10**-digits."""
    context = _context(digits + _length(number))
    value, slack = Fraction(context.ln(_decimal(number, context))), Fraction(1, 10**digits)
    return value - slack, value + slack


def normal_bounds(x: Fraction, digits: int) -> Bounds:
    """P[N(0, 1) <= x], within 10**-digits.

    P = 1/2 + phi(x) times the sum of x**(2 n + 1) / (1 3 5 … (2 n + 1)), whose terms have one sign.
    """
    if x > 0:
        low, high = normal_bounds(-x, digits)
        return 1 - high, 1 - low
    slack = Fraction(1, 10**digits)
    if x * x > 2 * _LOG_10 * digits + 2:  # P <= exp(-x**2 / 2) / 2
        return Fraction(0), slack
    context = _context(digits)
    t = _decimal(-x, context)
    square, term, total, odd = context.multiply(t, t), t, t, 1
    while 2 * square > odd or total < context.multiply(term, Decimal(10) ** (digits + 3)):
        odd += 2
        term = context.divide(context.multiply(term, square), Decimal(odd))
        total = context.add(total, term)
    exponent, circle = context.divide(square, Decimal(-2)), context.multiply(Decimal(2), _pi(context.prec))
    density = context.divide(context.exp(exponent), context.sqrt(circle))
    value = _HALF - Fraction(context.multiply(density, total))
    return max(value - slack, Fraction(0)), value + slack


def _context(digits: int) -> Context:
    return Context(prec=digits + _SPARE, Emin=-(10**9), Emax=10**9)


def _decimal(number: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(number.numerator), Decimal(number.denominator))


def _length(number: Fraction) -> int:
    """Digits before the point of a logarithm, about."""
    return len(str(max(number.numerator.bit_length(), number.denominator.bit_length())))


@lru_cache(maxsize=16)
def _pi(digits: int) -> Decimal:
    """Machin's formula, in whole numbers."""
    unit = 10 ** (digits + 10)
    scaled = 4 * (4 * _arctan_of_inverse(5, unit) - _arctan_of_inverse(239, unit))
    return Decimal(scaled).scaleb(-digits - 10, Context(prec=digits + 12))


def _arctan_of_inverse(x: int, unit: int) -> int:
    term = total = unit // x
    odd, sign = 1, 1
    while term:
        term //= x * x
        odd, sign = odd + 2, -sign
        total += sign * (term // odd)
    return total
