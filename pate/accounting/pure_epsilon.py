"""The epsilon of pure DP of an event, where it is known (docs/proofs/pure_dp.md)."""

import math

import numpy as np

from pate.accounting import events
from pate.accounting.bit_pairs import bit_pairs
from pate.accounting.events import LeafEvent
from pate.accounting.renyi import LOG_ROUNDING
from pate.accounting.special import log_expit
from pate.array_types import FloatArray
from pate.validation import InvalidValue


def pure_epsilon(event: LeafEvent) -> float:
    """Returns the smallest epsilon for which a release with this price is known to be epsilon-DP; it may be infinite.

    Raises `InvalidValue` for an event that is not known to be pure DP, such as a Gaussian or a tuned release.
    """
    match event:
        case events.NoOpEvent():
            return 0.0
        case events.NonPrivateEvent():
            return math.inf
        case events.PureDpEvent() | events.BoundedRangeEvent():
            return event.epsilon
        case events.SessionEvent():  # all calls, rounded up
            return event.num_calls * event.epsilon * (1 + 2.0**-50) if event.num_calls else 0.0
        case events.BitEvent():
            # the largest loss of a 1 or a 0 between statistics within reach, rounded up
            lower_logits, higher_logits = bit_pairs(event)
            loss_of_one = _rounded_up_difference(
                larger_log_prob=log_expit(higher_logits), smaller_log_prob=log_expit(lower_logits)
            )
            loss_of_zero = _rounded_up_difference(
                larger_log_prob=log_expit(-lower_logits), smaller_log_prob=log_expit(-higher_logits)
            )
            return max(
                float(np.max(loss_of_one, initial=0.0)), float(np.max(loss_of_zero, initial=0.0))
            )
    rule = "an event that is pure DP, or another accountant"
    raise InvalidValue("event", type(event).__name__, rule=rule)


def _rounded_up_difference(larger_log_prob: FloatArray, smaller_log_prob: FloatArray) -> FloatArray:
    """Returns the larger logarithm of a probability less the smaller one, rounded up."""
    return np.asarray(larger_log_prob - smaller_log_prob - LOG_ROUNDING * smaller_log_prob)
