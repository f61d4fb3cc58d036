"""Calibration: a search for the smallest noise whose epsilon is at most a target.

Let excess(noise) = log(epsilon(noise) / target), which falls as the noise grows. The smallest sufficient noise has an
excess of 0. The search narrows a *bracket* around that noise. The unsafe end of a bracket has an excess above 0, so its
noise is too small. The safe end has an excess of at most 0. The search returns a safe end, so the returned noise is
never too small. The module `mechanism_calibration` of dp_accounting has the same concepts.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from pate.accounting.accountant import Accountant, require_maker
from pate.accounting.auto import AutoAccountant
from pate.accounting.events import Event
from pate.accounting.rdp import RdpAccountant
from pate.validation import InvalidValue, require_positive

# The relative error of the noise, or else of its epsilon.
_TOLERANCE = 1e-4
# The search for a bracket multiplies or divides the noise at most so often, by a factor of at most 2.
_LARGEST_NUM_DOUBLINGS = 60
# The slope of log(epsilon) over log(1 / noise): a usual one, and the limits of the slope of a secant.
_USUAL_SLOPE = 1.17
_SMALLEST_SLOPE = 0.5
_LARGEST_SLOPE = 2.0
# The number of secant steps from the noise that the Renyi accountant finds.
_NUM_SECANTS = 4


@dataclass(frozen=True)
class PricedNoise:
    """A noise level > 0, with the logarithm of the epsilon of this noise over a target epsilon."""

    noise: float
    log_excess: float  # the logarithm of epsilon / target; at most 0 where the noise is enough

    @property
    def is_enough(self) -> bool:
        """Whether the epsilon is at most the target."""
        return self.log_excess <= 0


@dataclass(frozen=True)
class Bracket:
    """Two noise levels between which lies the smallest noise whose epsilon is at most a target.

    Both ends are equal where even the smallest noise that the search tried was sufficient.
    """

    unsafe_end: PricedNoise  # too little noise
    safe_end: PricedNoise  # enough noise


class NoisePrices:
    """A cache of the excess log(epsilon(noise) / target epsilon), by noise level.

    The attribute `tolerance` is the relative error of noise or epsilon at which the search may end: 1e-4, or the
    numerical error of the accountant's last epsilon where that is larger. `calibrate` explains the arguments.
    """

    def __init__(
        self,
        event_for: Callable[[float], Event],
        *,
        target_epsilon: float,
        target_delta: float,
        make_accountant: Callable[[], Accountant],
    ) -> None:
        self._event_for = event_for
        self._target_epsilon = target_epsilon
        self._target_delta = target_delta
        self._make_accountant = make_accountant
        self._by_noise: dict[float, PricedNoise] = {}
        self.tolerance = _TOLERANCE

    def priced(self, noise: float) -> PricedNoise:
        """Returns a noise level with its log(epsilon / target epsilon), which is computed once for each level."""
        if noise not in self._by_noise:
            self._by_noise[noise] = PricedNoise(noise=noise, log_excess=self._log_excess(noise))
        return self._by_noise[noise]

    def _log_excess(self, noise: float) -> float:
        """Returns the logarithm of epsilon(noise) / target epsilon."""
        accountant = self._make_accountant().compose(self._event_for(noise))
        epsilon = accountant.get_epsilon(self._target_delta)
        self.tolerance = max(_TOLERANCE, accountant.resolution(self._target_delta))
        return math.log(epsilon / self._target_epsilon) if epsilon > 0 else -math.inf


def calibrate(
    event_for: Callable[[float], Event],
    *,
    target_epsilon: float,
    target_delta: float,
    accountant: Callable[[], Accountant] = AutoAccountant,
    start: float = 1.0,
) -> float:
    """Returns nearly the smallest noise whose epsilon is at most `target_epsilon`.

    The noise is never too small. It is too large by at most a ten-thousandth, or else its epsilon is below the target
    by at most a ten-thousandth. Both figures are 0.3 percent where the event is a selection with its stability test,
    which the accountant bounds together. If even tiny noise is enough, a tiny noise is returned. The search first uses
    `RdpAccountant`, which is quick, and then continues with `accountant` from the noise that was found.

    Args:
        event_for: a function from the noise, > 0, to the event whose price is computed. The epsilon must not rise as
            the noise grows. The noise may be a common factor of several noise scales.
        target_epsilon: the largest epsilon, > 0.
        target_delta: the delta at which the epsilon is computed, in (0, 1).
        accountant: makes the empty accountant that computes the epsilon.
        start: the noise where the search begins, > 0.

    Raises:
        InvalidValue: no noise has an epsilon of at most `target_epsilon`, or the failure probabilities of the event sum
            to `target_delta` or more.
    """
    require_positive("target_epsilon", target_epsilon)
    require_maker(accountant)
    noise_prices = NoisePrices(
        event_for,
        target_epsilon=target_epsilon,
        target_delta=target_delta,
        make_accountant=accountant,
    )
    if not isinstance(accountant(), RdpAccountant):
        # The noise that the Renyi accountant finds is near, and costs little. From there a few secant steps follow.
        with suppress(InvalidValue):
            start = calibrate(
                event_for=event_for,
                accountant=RdpAccountant,
                target_epsilon=target_epsilon,
                target_delta=target_delta,
                start=start,
            )
            # Near the answer log(epsilon) falls by `slope` for each unit of log(noise):
            #     log_excess(noise) = log_excess(start) - slope * log(noise / start).
            # This line meets -tolerance / 2, the middle of the accepted values, at
            #     log(noise / start) = (log_excess(start) + tolerance / 2) / slope.
            # The slope is a usual one at first, and then that of the secant through the last two noises.
            slope = _USUAL_SLOPE
            for _ in range(_NUM_SECANTS):
                log_excess = noise_prices.priced(noise=start).log_excess
                if -noise_prices.tolerance <= log_excess <= 0:
                    return start
                if not -1 < log_excess < 1:
                    break
                next_noise = start * math.exp((log_excess + noise_prices.tolerance / 2) / slope)
                fall = log_excess - noise_prices.priced(noise=next_noise).log_excess
                secant_slope = fall / math.log(next_noise / start)
                slope = min(max(secant_slope, _SMALLEST_SLOPE), _LARGEST_SLOPE)
                start = next_noise
    bracket = _bracket(noise_prices, first_noise=start, target_epsilon=target_epsilon)
    return _narrow(noise_prices, bracket=bracket, tolerance=noise_prices.tolerance)


def _bracket(noise_prices: NoisePrices, first_noise: float, target_epsilon: float) -> Bracket:
    """Returns a bracket around the smallest sufficient noise: the least noise whose epsilon is at most the target.

    The noise is multiplied or divided by growing factors, at most 2, until its epsilon crosses the target. Both ends
    are one tiny noise where even that is sufficient.

    Args:
        noise_prices: the epsilons by noise level.
        first_noise: the noise of the first step.
        target_epsilon: the target, for the error message.

    Raises:
        InvalidValue: the epsilon is above the target after all steps.
    """
    last_priced_noise = noise_prices.priced(noise=first_noise)
    grows = not last_priced_noise.is_enough
    # Epsilon falls about as 1 / noise or faster: a change of log(noise) by the excess, and a little more, crosses the
    # target.
    factor = math.exp(min(1.05 * abs(last_priced_noise.log_excess) + 0.005, math.log(2)))
    for _ in range(_LARGEST_NUM_DOUBLINGS):
        next_noise = last_priced_noise.noise * factor if grows else last_priced_noise.noise / factor
        next_priced_noise = noise_prices.priced(noise=next_noise)
        if next_priced_noise.is_enough is grows:  # the target lies between the last two
            if grows:
                return Bracket(unsafe_end=last_priced_noise, safe_end=next_priced_noise)
            return Bracket(unsafe_end=next_priced_noise, safe_end=last_priced_noise)
        last_priced_noise = next_priced_noise
        factor = min(factor * factor, 2.0)
    if grows:
        rule = "an epsilon that some noise can reach"
        raise InvalidValue("target_epsilon", target_epsilon, rule=rule)
    # Even the smallest noise that was tried is enough.
    smallest_priced_noise = last_priced_noise
    return Bracket(unsafe_end=smallest_priced_noise, safe_end=smallest_priced_noise)


def _narrow(noise_prices: NoisePrices, bracket: Bracket, tolerance: float) -> float:
    """Returns the sufficient noise at the safe end of a bracket, after narrowing it to a width of `tolerance`.

    Widths are differences of log(noise). The excess of a noise is log(epsilon / target epsilon). A step prices a noise
    within the bracket, which then replaces one end. The position of that noise is a share of the width, counted from
    the unsafe end. The straight line through the excess at both ends crosses 0 at

        share = excess of the unsafe end / (excess of the unsafe end - excess of the safe end).

    Such secant steps alone would never move one of the ends. So each step aims a quarter of the tolerance beyond that
    crossing, towards the end that was not replaced last. Every third step halves the bracket instead. No step comes
    within an eighth of the tolerance of an end.
    """
    unsafe_end = bracket.unsafe_end
    safe_end = bracket.safe_end
    towards_safe = 1  # -1 where the safe end moved last
    num_steps = 0
    log_width = math.log(safe_end.noise / unsafe_end.noise)
    while log_width > math.log1p(tolerance):
        share_of_tolerance = tolerance / log_width
        fall = unsafe_end.log_excess - safe_end.log_excess
        if math.isfinite(fall) and num_steps % 3 != 2:
            share_of_width = unsafe_end.log_excess / fall + towards_safe * share_of_tolerance / 4
        else:
            share_of_width = 0.5
        margin = share_of_tolerance / 8
        share_of_width = min(max(share_of_width, margin), 1 - margin)
        noise_between = noise_prices.priced(
            noise=unsafe_end.noise * math.exp(log_width * share_of_width)
        )
        num_steps += 1
        if noise_between.is_enough:
            safe_end = noise_between
            towards_safe = -1
        else:
            unsafe_end = noise_between
            towards_safe = 1
        log_width = math.log(safe_end.noise / unsafe_end.noise)
    return safe_end.noise
