"""The pairs of distributions of an event that dominate all others.

Between two neighbors, a release is a pair of distributions (P, Q). The neighbors are chosen by an adversary, so an
event is a family of pairs. Most pairs have two outcomes, with the losses `up` > 0 > `down`. Their probabilities follow
from the losses: P(up) = (e^down - 1) / (e^(down - up) - 1). A pair with a larger `up` and a smaller `down` dominates:
post-processing turns the dominating pair into the other (docs/proofs/exact_composition.md).
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np

from pate.accounting import events
from pate.accounting.bit_pairs import bit_pairs
from pate.accounting.events import LeafEvent
from pate.accounting.gaussian_pairs import SampledPair, ShiftedMaximum
from pate.accounting.noisy_maximum import NoisyMaximum
from pate.accounting.special import log_expit
from pate.accounting.winner import (
    LARGEST_MULTIPLIER,
    SMALLEST_MULTIPLIER,
    WinnerPairs,
    winner_pairs,
)
from pate.array_types import FloatArray
from pate.validation import InvalidValue

# Four times the relative rounding error of `log_expit`.
_LOG_EXPIT_ROUNDING = 2.0**-50
# The number of binary digits of a loss. Two computations of one loss then agree to the last digit, so that a box has no
# pairs that are nearly equal.
_LOSS_DIGITS = 36


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class Box:
    """A set of two-point pairs of an event, represented by one pair that dominates all of them.

    A two-point pair is a pair of distributions with two outcomes, with the privacy losses up > 0 > down. The dominating
    pair has the largest `up` and the smallest `down` of the set. `dominated_pairs` are two boxes with one half of the
    pairs each.
    """

    up_losses: FloatArray  # the loss `up` of each pair, falling, `[num_pairs]`
    down_losses: FloatArray  # the loss `down` of each pair, falling, `[num_pairs]`

    @cached_property
    def largest_up_loss(self) -> float:
        """The largest loss of all pairs."""
        return float(self.up_losses[0])

    @cached_property
    def smallest_down_loss(self) -> float:
        """The smallest loss of all pairs."""
        return float(self.down_losses[-1])  # the losses fall, so the last is farthest below 0

    @property
    def largest_loss(self) -> float:
        """The largest absolute value of a loss."""
        return max(self.largest_up_loss, -self.smallest_down_loss)

    @cached_property
    def dominated_pairs(self) -> tuple[Self, ...]:
        """The boxes with the first and the second half of the pairs; empty for a single pair."""
        middle = len(self.up_losses) // 2
        halves = (slice(middle), slice(middle, None)) if middle else ()
        return tuple(
            replace(self, up_losses=self.up_losses[half], down_losses=self.down_losses[half])
            for half in halves
        )

    @cached_property
    def variance(self) -> float:
        """The largest second moment of the loss of a pair; used to choose grids, and not a rigorous bound."""
        with np.errstate(over="ignore", invalid="ignore"):
            p_up, p_down = two_point_probabilities(
                up_loss=self.up_losses, down_loss=self.down_losses
            )
            return float(
                np.fmax.reduce(
                    p_up * self.up_losses * self.up_losses
                    + p_down * self.down_losses * self.down_losses
                )
            )


@dataclass(frozen=True)
class Span:
    """A span holds each pair of distributions on two outcomes whose privacy losses are t and t - `length`.

    Here t is any number from 0 to `length`. Together these pairs dominate a mechanism whose bounded range is `length`:
    between two neighbors, the losses of all its outcomes lie in an interval of this length.
    """

    length: float  # > 0

    @property
    def variance(self) -> float:
        """The largest variance that a loss between t - length and t can have."""
        return self.length * self.length / 4


SteppedPairs = Box | Span | ShiftedMaximum | WinnerPairs
"""Pairs of distributions that are composed step by step. One `ShiftedMaximum` stands for all Gaussian releases."""

FixedPair = SampledPair | NoisyMaximum
"""A single pair that dominates an event: the adversary has no choice, so the losses of several steps are summed."""

DominatingPairs = SteppedPairs | FixedPair
"""The pairs of distributions that together dominate one event."""


def two_point_probabilities(up_loss: Any, down_loss: Any) -> tuple[Any, Any]:
    """Returns the probabilities, under P, of both outcomes of two-point pairs, given their privacy losses.

    Q has the probabilities P e^-loss. Both distributions sum to 1 if P of the first outcome is
    (1 - e^down_loss) / (1 - e^(down_loss - up_loss)).

    Args:
        up_loss: the loss of the first outcome, > 0; a number or an array.
        down_loss: the loss of the second outcome, < 0.
    """
    scale = np.expm1(down_loss - up_loss)
    return np.expm1(down_loss) / scale, np.exp(down_loss) * np.expm1(-up_loss) / scale


@lru_cache(maxsize=256)  # each total of a ledger composes equal events anew
def dominating_pairs(event: LeafEvent) -> DominatingPairs | None:
    """Returns the pairs of distributions that together dominate an event; None for an event that costs nothing.

    Raises `InvalidValue` for an event whose dominating pairs are not known.
    """
    match event:
        case events.NoOpEvent():
            return None
        case events.GaussianEvent() | events.SampledGaussianEvent(sampling_prob=1):
            return ShiftedMaximum(num_normals=1, shift_of_maximum=1 / event.noise_multiplier)
        case events.NoisyMaxGaussianEvent():
            return NoisyMaximum(event) if event.num_candidates > 1 else None
        case events.WinnerEvent():
            num_moving_counts = event.num_moving
            if SMALLEST_MULTIPLIER < event.noise_multiplier < LARGEST_MULTIPLIER:
                return winner_pairs(event.noise_multiplier, num_moving_counts)
            return ShiftedMaximum(
                num_normals=1, shift_of_maximum=num_moving_counts**0.5 / event.noise_multiplier
            )
        case events.SampledGaussianEvent():
            # The pair of a removed unit where a unit may come or go (docs/proofs/alternatives.md).
            lower_mean = -event.shift if event.is_replaced else 0.0
            return SampledPair(
                sampling_prob=event.sampling_prob, upper_mean=event.shift, lower_mean=lower_mean
            )
        case events.PureDpEvent():
            if event.epsilon == 0:
                return None
            # Randomized response dominates (Kairouz, Oh & Viswanath 2015).
            return Box(up_losses=np.array([event.epsilon]), down_losses=np.array([-event.epsilon]))
        case events.BoundedRangeEvent():
            return Span(length=event.epsilon) if event.epsilon > 0 else None
        case events.BitEvent():
            return _bit_box(event)
    rule = "an event that the exact accountant can compose (the rdp accountant may know it)"
    raise InvalidValue("event", type(event).__name__, rule=rule)


def _bit_box(event: events.BitEvent) -> Box | None:
    """Returns the pairs of distributions of a released bit on any two neighbors, in either order of the neighbors.

    Pairs that another pair dominates are left out. Returns None where no neighbors differ.
    """
    lower_logits, higher_logits = bit_pairs(event)
    if lower_logits.size == 0:
        return None
    loss_of_one = _rounded_up_difference(
        larger_log_prob=log_expit(higher_logits), smaller_log_prob=log_expit(lower_logits)
    )
    loss_of_zero = _rounded_up_difference(
        larger_log_prob=log_expit(-lower_logits), smaller_log_prob=log_expit(-higher_logits)
    )
    up_losses_of_pairs = np.concatenate([loss_of_one, loss_of_zero])
    down_losses_of_pairs = -np.concatenate([loss_of_zero, loss_of_one])
    # by falling `up`; among equal ones the smallest `down` comes first
    order_of_pairs = np.lexsort((down_losses_of_pairs, -up_losses_of_pairs))
    up_losses_of_pairs = up_losses_of_pairs[order_of_pairs]
    down_losses_of_pairs = down_losses_of_pairs[order_of_pairs]
    # A pair is dominated where an earlier pair, whose `up` is larger, has a `down` that is no larger.
    smallest_down_before = np.append(np.inf, np.minimum.accumulate(down_losses_of_pairs)[:-1])
    is_undominated = down_losses_of_pairs < smallest_down_before
    return Box(
        up_losses=up_losses_of_pairs[is_undominated],
        down_losses=down_losses_of_pairs[is_undominated],
    )


def _rounded_up_difference(larger_log_prob: FloatArray, smaller_log_prob: FloatArray) -> FloatArray:
    """Returns the larger logarithm of a probability less the smaller one, rounded upwards to 36 binary digits."""
    # Both logarithms are at most 0, so the slack is at least 0.
    rounding_slack = -_LOG_EXPIT_ROUNDING * (larger_log_prob + smaller_log_prob)
    difference = larger_log_prob - smaller_log_prob + rounding_slack + np.finfo(np.float64).tiny
    digits, exponent = np.frexp(difference)
    return np.asarray(np.ldexp(np.ceil(np.ldexp(digits, _LOSS_DIGITS)), exponent - _LOSS_DIGITS))
