"""The events of sessions that end with their last hit."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace

from pate.accounting.events import ApproximateEvent, ComposedEvent, Event, LeafEvent, SelfComposedEvent, kinds_of
from pate.validation import require, require_count, require_kind, require_positive, require_probability


@dataclass(frozen=True, slots=True)
class SessionEvent(LeafEvent):
    """Calls under target charging, until a number of them have hit; priced by what one hit can have cost.

    Attributes:
        epsilon: pure DP of one access to the data, > 0.
        hit_prob: q, the least probability of a hit given an access, in (0, 1).
        target_hits: tau, >= 1; the hit of that number is the last outcome.
        num_calls: at most so many, >= 0; infinity is allowed.
        accesses: the price of the same session as a number of accesses with an overrun, for accountants that do not
            price hits.
    """

    epsilon: float
    hit_prob: float
    target_hits: int
    num_calls: float
    accesses: Event

    def __post_init__(self) -> None:
        require_positive("epsilon", self.epsilon)
        require_probability("hit_prob", self.hit_prob)
        require_count("target_hits", self.target_hits)
        whole = self.num_calls == math.inf or (self.num_calls >= 0 and float(self.num_calls).is_integer())
        require(whole, "num_calls", self.num_calls, "a whole number >= 0 or infinity")
        require_kind("accesses", self.accesses, Event, "an event of pate.accounting")


@dataclass(frozen=True, slots=True)
class BoundarySessionEvent(SessionEvent):
    """The same at a smaller or equal price, for calls in the boundary wrapper.

    Attributes:
        call_epsilon: pure DP of one call before it is wrapped, > 0; `epsilon` and `hit_prob` are those of the wrapped
            call.
        bounded_range: whether the call's log-likelihood ratios also span at most `call_epsilon`.
    """

    call_epsilon: float
    bounded_range: bool

    def __post_init__(self) -> None:
        super(BoundarySessionEvent, self).__post_init__()
        require_positive("call_epsilon", self.call_epsilon)
        require_kind("bounded_range", self.bounded_range, bool, "True or False")


def by_accesses(event: Event) -> Event:
    """The event with every session replaced by its accesses: for accountants that do not price hits."""
    if isinstance(event, SessionEvent):
        return event.accesses
    if isinstance(event, ComposedEvent):
        kinds = kinds_of(event.events)
        if all(issubclass(kind, LeafEvent) and not issubclass(kind, SessionEvent) for kind in kinds):
            return event  # by its kinds; looking at 100,000 parts takes long
        parts = tuple(map(by_accesses, event.events))
        return event if all(map(operator.is_, parts, event.events)) else replace(event, events=parts)
    if isinstance(event, (SelfComposedEvent, ApproximateEvent)):
        part = by_accesses(event.event)
        return event if part is event.event else replace(event, event=part)
    return event
