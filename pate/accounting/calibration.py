"""From a target epsilon to the noise that meets it."""

from __future__ import annotations

import math
from collections.abc import Callable

from pate.accounting.accountant import Accountant
from pate.accounting.events import Event
from pate.accounting.rdp import RdpAccountant
from pate.validation import InvalidValue, require_count, require_positive

_RELATIVE_TOLERANCE = 1e-4
_LARGEST_DOUBLING = 60


def calibrate(
    event_for: Callable[[float], Event],
    *,
    target_epsilon: float,
    target_delta: float,
    accountant: Callable[[], Accountant] = RdpAccountant,
    start: float = 1.0,
) -> float:
    """The smallest noise whose price is at most `target_epsilon`, to a relative 1e-4 and never too small.

    Args:
        event_for: the price as a function of the noise > 0; more noise must not cost more.
        target_epsilon: > 0.
        target_delta: in (0, 1), above the sum of the failure probabilities.
        accountant: makes an empty accountant.
        start: where the search begins.

    Returns:
        A noise whose price, by a fresh accountant, is at most the target.

    Raises:
        InvalidValue: no noise reaches the target.
    """
    require_positive("target_epsilon", target_epsilon)

    def affordable(noise: float) -> bool:
        return accountant().compose(event_for(noise)).get_epsilon(target_delta) <= target_epsilon

    low, high = _bracket(affordable, start, target_epsilon)
    while high > low * (1 + _RELATIVE_TOLERANCE):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if affordable(middle) else (middle, high)
    return high


def largest_count(affordable: Callable[[int], bool], *, maximum: int) -> int:
    """The largest count in 0..maximum that is affordable, given that every smaller one then is, too."""
    require_count("maximum", maximum, minimum=0)
    low, high = 0, maximum
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if affordable(middle) else (low, middle - 1)
    return low


def _bracket(affordable: Callable[[float], bool], start: float, target_epsilon: float) -> tuple[float, float]:
    """Two noises, the first too small and the second enough (the first is tiny where any noise is enough)."""
    noise, grow = start, not affordable(start)
    for _ in range(_LARGEST_DOUBLING):
        following = noise * 2 if grow else noise / 2
        if affordable(following) is grow:
            return (noise, following) if grow else (following, noise)
        noise = following
    if grow:
        raise InvalidValue(f"target_epsilon={target_epsilon}: expected an epsilon that some noise can reach")
    return noise, noise
