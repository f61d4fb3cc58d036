"""From a target epsilon to the noise that meets it."""

import math
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from pate.accounting.auto import AutoAccountant
from pate.accounting.events import Event
from pate.accounting.rdp import Accountant, RdpAccountant, require_maker
from pate.validation import InvalidValue, require, require_positive

Point = tuple[float, float]  # A noise, and the logarithm of its epsilon over the target

_TOLERANCE = 1e-4  # relative
_LARGEST_DOUBLING = 60
_USUAL_SLOPE = 1.17  # of the logarithm of epsilon, over that of 1 / noise
_SECANTS = 4


def calibrate(
    event_for: Callable[[float], Event],
    *,
    target_epsilon: float,
    target_delta: float,
    accountant: Callable[[], Accountant] = AutoAccountant,
    start: float = 1.0,
) -> float:
    """The smallest noise whose price is at most `target_epsilon`, to a relative 1e-4 and never too small.

    Where the joint law of a selection and its test decides, it is to a relative 0.003.

    `event_for` is the price as a function of the noise > 0; more noise must not cost more. Raises where no noise
    reaches the epsilon, or failures use up delta. Renyi's accountant is cheap: the search begins with it, from `start`,
    and goes on with `accountant` from the noise that it leads to.
    """
    require_positive("target_epsilon", target_epsilon)
    require_maker(accountant)
    tolerance = _TOLERANCE

    @cache
    def excess(noise: float) -> float:
        """The logarithm of the price over the target; each noise is asked for once."""
        nonlocal tolerance
        made = accountant().compose(event_for(noise))
        epsilon = made.get_epsilon(target_delta)
        tolerance = max(_TOLERANCE, made.resolution(target_delta))
        return math.log(epsilon / target_epsilon) if epsilon > 0 else -math.inf

    if not isinstance(accountant(), RdpAccountant):
        # Renyi's answer is near and costs little: a few secants from there on
        with suppress(InvalidValue):
            start = calibrate(
                event_for,
                accountant=RdpAccountant,
                target_epsilon=target_epsilon,
                target_delta=target_delta,
                start=start,
            )
            slope = _USUAL_SLOPE
            for _ in range(_SECANTS):
                here = excess(start)
                if -tolerance <= here <= 0:
                    return start
                if not -1 < here < 1:
                    break
                there = start * math.exp((here + tolerance / 2) / slope)
                slope = min(max((here - excess(there)) / math.log(there / start), 0.5), 2.0)
                start = there
    return _narrowed(excess, *_bracket(excess, start, target_epsilon), tolerance)


def _bracket(
    excess: Callable[[float], float], start: float, target_epsilon: float
) -> tuple[Point, Point]:
    """Two noises, the first too small and the second enough (the first is tiny where any noise is enough)."""
    here = (start, excess(start))
    grow = here[1] > 0
    factor = math.exp(min(1.05 * abs(here[1]) + 0.005, math.log(2)))
    for _ in range(_LARGEST_DOUBLING):
        noise = here[0] * factor if grow else here[0] / factor
        following = (noise, excess(noise))
        if (following[1] > 0) is not grow:
            return (here, following) if grow else (following, here)
        here = following
        factor = min(factor * factor, 2.0)
    require(not grow, "target_epsilon", target_epsilon, "an epsilon that some noise can reach")
    return here, here


def _narrowed(excess: Callable[[float], float], low: Point, high: Point, tolerance: float) -> float:
    """The upper end once the bracket is narrow: by the secant, a little to the side that moved less lately."""
    beyond = 1
    number = 0
    while (width := math.log(high[0] / low[0])) > math.log1p(tolerance):
        step = tolerance / width
        linear = math.isfinite(low[1] - high[1]) and number % 3 != 2
        share = low[1] / (low[1] - high[1]) + beyond * step / 4 if linear else 0.5
        noise = low[0] * math.exp(width * min(max(share, step / 8), 1 - step / 8))
        middle = (noise, excess(noise))
        number += 1
        low, high, beyond = (middle, high, 1) if middle[1] > 0 else (low, middle, -1)
    return high[0]
