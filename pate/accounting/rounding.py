"""Formatting of epsilons and deltas for people: rounded up, with the same number of digits everywhere.

A printed bound must not be smaller than the bound itself. Files that programs read hold the unrounded numbers.
"""

import math
from decimal import ROUND_CEILING, Context, Decimal

from pate.validation import require, require_count

# With so many digits every float is exact in decimals, so that quantizing is the only rounding.
_EXACT = Context(prec=700)


def round_up(value: float, digits: int) -> str:
    """Returns a number as text, rounded toward plus infinity to `digits` decimals; infinity becomes `inf`.

    The shortest decimal form of the float is rounded, so that 3.6 becomes `3.60`. The text, read as a float, is never
    below `value`. Raises `InvalidValue` for NaN, minus infinity, or a negative number of decimals.

    >>> round_up(7.9912, 2), round_up(3.6, 2), round_up(float("inf"), 2)
    ('8.00', '3.60', 'inf')
    """
    require_count("digits", digits, minimum=0)
    require(value > -math.inf, "value", value, "a number or plus infinity")
    if math.isinf(value):
        return "inf"
    step = Decimal(1).scaleb(-digits)
    rounded = Decimal(repr(float(value))).quantize(step, rounding=ROUND_CEILING, context=_EXACT)
    return f"{rounded if rounded else abs(rounded):f}"  # never `-0`


def format_epsilon(epsilon: float) -> str:
    """Returns an epsilon for print, rounded up: two decimals from 1 on, four decimals below 1; `0` is exact.

    >>> format_epsilon(18.0608), format_epsilon(0.03121), format_epsilon(0.0)
    ('18.07', '0.0313', '0')
    """
    if epsilon == 0:
        return "0"
    return round_up(epsilon, digits=2 if epsilon >= 1 else 4)


def format_delta(delta: float) -> str:
    """Returns a delta in [0, 1] for print, rounded upwards, with at most three digits, such as `1e-6` or `1.61e-6`."""
    require(0 <= delta <= 1, "delta", delta, "a number in [0, 1]")
    rounded = (
        Context(prec=3, rounding=ROUND_CEILING).create_decimal(repr(abs(float(delta)))).normalize()
    )
    return f"{rounded:f}" if rounded == 0 or rounded >= Decimal("0.001") else f"{rounded:e}"
