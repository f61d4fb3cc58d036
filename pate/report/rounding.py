"""Rounding of privacy parameters for print: upwards, so that no printed bound is below the computed one."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal

from pate.validation import require, require_count

_DELTA_DIGITS = 3
_EXACT = Context(prec=700)  # holds any float's decimals, so that quantizing is the only rounding


def round_up(value: float, digits: int) -> str:
    """Formats a number with a fixed count of decimals, rounded toward plus infinity.

    The number is taken by its shortest decimal form, so that 3.6 prints as `3.60`; reading the result back
    as a float never gives less than `value`.

    Args:
        value: a number, plus infinity included; NaN is refused.
        digits: decimals to print, at least 0.

    Returns:
        The decimal string, or `inf`.

    Raises:
        InvalidValue: NaN, minus infinity, or a negative count of decimals.

    Example:
        >>> round_up(7.9912, 2), round_up(3.6, 2), round_up(float("inf"), 2)
        ('8.00', '3.60', 'inf')
    """
    require_count("digits", digits, minimum=0)
    require(value > -math.inf, "value", value, "a number or plus infinity")
    if math.isinf(value):
        return "inf"
    return _ceiling(Decimal(repr(float(value))), -digits)


def format_epsilon(epsilon: float) -> str:
    """Formats an epsilon for print, rounded up: two decimals from 1 on, four below; `0` is exact."""
    return "0" if epsilon == 0 else round_up(epsilon, 2 if epsilon >= 1 else 4)


def format_claim(epsilon: float) -> str:
    """Formats what others print, to the nearest: two decimals, two digits where these would be none."""
    return f"{epsilon:.2f}" if epsilon == 0 or epsilon >= 0.01 else f"{epsilon:.2g}"


def format_delta(delta: float) -> str:
    """Formats a delta for print, rounded up to three significant digits, such as `1e-6` or `1.61e-6`.

    Raises:
        InvalidValue: delta outside [0, 1].
    """
    require(0 <= delta <= 1, "delta", delta, "a number in [0, 1]")
    exact = Decimal(repr(float(delta)))
    if exact == 0:
        return "0"
    rounded = Decimal(_ceiling(exact, exact.adjusted() - _DELTA_DIGITS + 1)).normalize()
    if rounded >= Decimal("0.001"):
        return f"{rounded:f}"
    exponent = rounded.adjusted()
    return f"{rounded.scaleb(-exponent).normalize():f}e{exponent}"


def _ceiling(value: Decimal, exponent: int) -> str:
    """`value` rounded up to a multiple of 10^exponent, in positional notation, never `-0`."""
    rounded = value.quantize(Decimal(1).scaleb(exponent), rounding=ROUND_CEILING, context=_EXACT)
    return f"{rounded if rounded else abs(rounded):f}"
