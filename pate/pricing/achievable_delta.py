"""How small a delta draws in double precision can keep."""

from __future__ import annotations

from pate.validation import require, require_count, rounded_up

_GRID = 2.0**-53


def smallest_delta(*, num_queries: int, num_labels: int) -> float:
    """The smallest delta that draws in double precision can keep: 2**-53 for every label of every query.

    Draws compare a multiple of 2**-53 with a probability, so whatever is rarer happens never or too often, by up to
    2**-53 per draw, and no accountant sees it.
    """
    return require_count("num_queries", num_queries) * require_count("num_labels", num_labels) * _GRID


def require_achievable_delta(target_delta: float, *, num_queries: int, num_labels: int) -> float:
    """Returns a delta that draws can keep, or raises."""
    lowest = smallest_delta(num_queries=num_queries, num_labels=num_labels)
    rule = f"at least {rounded_up(lowest, 3)}, below which draws in double precision are too coarse"
    require(target_delta >= lowest, "target_delta", target_delta, rule)
    return target_delta
