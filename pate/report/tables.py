"""How figures read: privacy parameters rounded up, as no printed bound may be too small; the words of tables."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal

from pate.validation import require, require_count

_DELTA_DIGITS = 3
_EXACT = Context(prec=700)  # holds any float's decimals, so that quantizing is the only rounding

# Heading of each metric, by its key in report.json; the headline first.
METRIC_NAMES = {
    "mean_average_precision": "mean AP",
    "micro_f1": "micro-F1",
    "macro_f1": "macro-F1",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced acc.",
}
# Each model by its key in report.json, from what needs no data to what has no privacy.
MODEL_NAMES = {
    "prior": "prior",
    "best_constant": "best constant",
    "student": "private student",
    "majority_vote_student": "majority-vote student",
    "true_label_student": "true-label student",
    "all_records_model": "all-records model",
}
DASH = "\N{EN DASH}"  # where there is no number
SEEDED_WARNING = "seeded noise protects nobody who knows the seed"
PAPER_LABEL = "as the paper accounts; not a bound"
ADJACENCY_NAMES = {
    "replace_one": "one unit of privacy is replaced by any other",
    "add_remove": "one teacher, with all its records, is added or removed",
}


def round_up(value: float, digits: int) -> str:
    """A number with so many decimals, rounded toward plus infinity, or `inf`.

    The number is taken by its shortest decimal form, so that 3.6 prints as `3.60`; reading the result back
    as a float never gives less than `value`.

    Raises:
        InvalidValue: NaN, minus infinity, or a negative count of decimals.

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
    """Rounded up to a multiple of 10^exponent, in positional notation, never `-0`."""
    rounded = value.quantize(Decimal(1).scaleb(exponent), rounding=ROUND_CEILING, context=_EXACT)
    return f"{rounded if rounded else abs(rounded):f}"


def percent(share: float) -> str:
    """A share in [0, 1] as a percentage with one decimal."""
    return f"{100 * share:.1f}%"


FILTERS = {"claim": format_claim, "delta": format_delta, "epsilon": format_epsilon, "percent": percent}
"""Of templates."""
