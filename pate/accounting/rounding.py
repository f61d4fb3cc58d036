"""Numbers as text for people: bounds rounded up, and what is left of a budget rounded down.

A printed bound must not be smaller than the bound itself. Files that programs read hold the unrounded numbers.
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from pate.validation import require, require_count

# With so many digits any float has room for 390 decimals, so that quantizing is the only rounding.
_EXACT = Context(prec=700)
_THREE_DIGITS_UP = Context(prec=3, rounding=ROUND_CEILING)


def ceil_to_decimals(value: float, num_decimals: int) -> str:
    """Returns a number as text, rounded toward plus infinity to `num_decimals` decimals; infinity becomes `inf`.

    The shortest decimal form of the float is rounded, so that 3.6 becomes `3.60`. The text, read as a float, is never
    below `value`. Raises `InvalidValue` for NaN, minus infinity, or a negative number of decimals.

    >>> ceil_to_decimals(7.9912, 2), ceil_to_decimals(3.6, 2), ceil_to_decimals(float("inf"), 2)
    ('8.00', '3.60', 'inf')
    """
    require_count("num_decimals", num_decimals, minimum=0)
    require(value > -math.inf, "value", value, "a number or plus infinity")
    if math.isinf(value):
        return "inf"
    step = Decimal(1).scaleb(-num_decimals)
    rounded = Decimal(repr(float(value))).quantize(step, rounding=ROUND_CEILING, context=_EXACT)
    return f"{rounded if rounded else abs(rounded):f}"  # never `-0`


def ceil_to_digits(value: float, num_digits: int = 6) -> str:
    """Returns a number as text, rounded up to `num_digits` significant digits, so that it is never below the value.

    >>> ceil_to_digits(7.9912, 2), ceil_to_digits(1234.5, 2), ceil_to_digits(float("inf"))
    ('8', '1.3e+03', 'inf')
    """
    return _to_digits(value, num_digits, rounding=ROUND_CEILING)


def floor_to_digits(value: float, num_digits: int = 4) -> str:
    """Returns a number as text, rounded down to `num_digits` significant digits, so that it is never above the value.

    >>> floor_to_digits(7.9912, 2), floor_to_digits(0.00123456)
    ('7.9', '0.001234')
    """
    return _to_digits(value, num_digits, rounding=ROUND_FLOOR)


def _to_digits(value: float, num_digits: int, *, rounding: str) -> str:
    """Returns a number as text, rounded to significant digits; infinity and NaN are not rounded.

    Args:
        value: the number.
        num_digits: the number of significant digits.
        rounding: the mode of rounding, a constant of the module `decimal`.
    """
    if not math.isfinite(value):
        return f"{value:g}"
    context = Context(prec=num_digits, rounding=rounding)
    rounded = float(context.create_decimal(repr(float(value))))
    return f"{rounded:.{num_digits}g}"


def format_epsilon(epsilon: float) -> str:
    """Returns an epsilon for print, rounded up: two decimals from 1 on, four decimals below 1; `0` is exact.

    >>> format_epsilon(18.0608), format_epsilon(0.03121), format_epsilon(0.0)
    ('18.07', '0.0313', '0')
    """
    if epsilon == 0:
        return "0"
    return ceil_to_decimals(epsilon, num_decimals=2 if epsilon >= 1 else 4)


def format_delta(delta: float) -> str:
    """Returns a delta in [0, 1] for print, such as `1e-6` or `1.61e-6`, rounded up to three significant digits."""
    require(0 <= delta <= 1, "delta", delta, "a number in [0, 1]")
    rounded = _THREE_DIGITS_UP.create_decimal(repr(abs(float(delta)))).normalize()
    return f"{rounded:f}" if rounded == 0 or rounded >= Decimal("0.001") else f"{rounded:e}"
