"""The pure-DP accountant: composes events with a finite largest loss, and nothing else, optimally."""

from __future__ import annotations

import copy
import math
from functools import singledispatch
from typing import Self

import numpy as np

from pate.accounting.accountant import Accountant
from pate.accounting.events import (
    BoundedRangeEvent,
    Event,
    LeafEvent,
    NonPrivateEvent,
    NoOpEvent,
    OneBitEvent,
    PureDpEvent,
)
from pate.accounting.failure_probability import failure_probability
from pate.accounting.pure_composition import mixed_pure_dp_delta, mixed_pure_dp_epsilon
from pate.accounting.rdp import RdpAccountant, count_leaves
from pate.accounting.renyi import pairs_apart
from pate.accounting.session_event import SessionEvent, by_accesses
from pate.accounting.special import log_expit
from pate.validation import InvalidValue, require_count

_MOST_RELEASES = 1_000_000
_MOST_KINDS = 64
_ROUNDING = 2.0**-50


class PureDpAccountant(Accountant):
    """Composes epsilon-DP releases as randomized response; refuses noise that is not pure DP, such as a Gaussian.

    Formal guarantees, for the adjacency that the events were made for:
        * Every event is charged as the epsilon-DP release that it is: bounded range and one bit lose what they are
          better than that, so the other accountants are tighter for them.
        * Releases of one epsilon compose optimally (Kairouz, Oh & Viswanath 2015); of several epsilons up to a grid
          that errs upwards.
        * Never above the sum of the epsilons, and never above the Renyi bound of the same pure releases.

    Edge cases: above a million releases or 64 different epsilons the Renyi bound and the sum serve alone.

    Attributes:
        failure_prob: what approximate events have taken from delta.

    Source: Kairouz, Oh & Viswanath 2015, Theorem 3.3; docs/proofs/pure_dp.md.

    >>> round(PureDpAccountant().compose(PureDpEvent(0.05), 600).get_epsilon(1e-6), 3)
    6.142
    """

    name = "pure_dp"

    def __init__(self) -> None:
        self._counts: dict[float, int] = {}
        self._rdp = RdpAccountant()
        self.failure_prob = 0.0

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds the event `count` times; nothing is added if any part of it is not pure DP."""
        event = by_accesses(event)
        spent = count_leaves(event, count=require_count("count", count, minimum=0))
        epsilons = [
            (pure_epsilon(leaf), times)
            for events, all_times in spent.values()
            for leaf, times in zip(events, all_times, strict=True)
        ]
        for epsilon, times in epsilons:
            if epsilon > 0:
                self._counts[epsilon] = self._counts.get(epsilon, 0) + times
                self._rdp.compose(PureDpEvent(epsilon), times)
        self.failure_prob += count * failure_probability(event)
        return self

    def copy(self) -> Self:
        """An accountant of its own to which the same events were added."""
        made = copy.copy(self)
        made._counts, made._rdp = self._counts.copy(), self._rdp.copy()
        return made

    def get_epsilon(self, target_delta: float) -> float:
        """The smallest epsilon; infinity where something was released without protection."""
        left = self.remaining_delta(target_delta)
        bound = min(self._rdp.get_epsilon(left), self._sum())
        if not self._counts or math.isinf(bound) or not self._can_be_searched():
            return bound
        return min(bound, mixed_pure_dp_epsilon(self._counts, target_delta=left))

    def get_delta(self, target_epsilon: float) -> float:
        """The smallest delta, failure probabilities included, at most 1."""
        bound = 0.0 if self._sum() <= target_epsilon else self._rdp.get_delta(target_epsilon)
        if self._counts and bound > 0 and math.isfinite(self._sum()) and self._can_be_searched():
            bound = min(bound, mixed_pure_dp_delta(self._counts, target_epsilon=target_epsilon))
        return min(1.0, bound + self.failure_prob)

    def _sum(self) -> float:
        """Basic composition, rounded up."""
        with np.errstate(over="ignore"):
            total = sum(np.float64(epsilon) * count for epsilon, count in self._counts.items())
        return float(total * (1 + 1e-12))

    def _can_be_searched(self) -> bool:
        return sum(self._counts.values()) <= _MOST_RELEASES and len(self._counts) <= _MOST_KINDS


@singledispatch
def pure_epsilon(event: LeafEvent) -> float:
    """The smallest epsilon for which the event is known to be epsilon-DP; it may be infinite.

    Raises:
        InvalidValue: an event of a kind that is not pure DP, however much noise it has.
    """
    raise InvalidValue(f"event={type(event).__name__}: expected an event that is pure DP, or another accountant")


@pure_epsilon.register
def _(event: NoOpEvent) -> float:
    return 0.0


@pure_epsilon.register
def _(event: NonPrivateEvent) -> float:
    return math.inf


@pure_epsilon.register
def _(event: PureDpEvent | BoundedRangeEvent) -> float:
    return event.epsilon


@pure_epsilon.register
def _(event: SessionEvent) -> float:
    """That of all its calls, rounded up."""
    return event.num_calls * event.epsilon * (1 + 2.0**-50) if event.num_calls else 0.0


@pure_epsilon.register
def _(event: OneBitEvent) -> float:
    """The largest loss between statistics within reach, either outcome, either way round; rounded up."""
    near, far = pairs_apart(np.array(event.logits), event.reach)
    logs = [(log_expit(far), log_expit(near)), (log_expit(-near), log_expit(-far))]
    return max((float(np.max(more - less - _ROUNDING * less, initial=0.0)) for more, less in logs), default=0.0)
