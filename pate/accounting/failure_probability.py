"""What failures take from delta."""

from __future__ import annotations

import math

from pate.accounting.events import ApproximateEvent, ComposedEvent, Event, LeafEvent, SelfComposedEvent, kinds_of


def failure_probability(event: Event) -> float:
    """The sum of the failure probabilities in an event: a part of delta that no noise can buy back."""
    if isinstance(event, ApproximateEvent):
        return event.failure_prob + failure_probability(event.event)
    if isinstance(event, SelfComposedEvent):
        return event.count * failure_probability(event.event)
    if isinstance(event, ComposedEvent):
        if all(issubclass(kind, LeafEvent) for kind in kinds_of(event.events)):
            return 0.0
        return math.fsum(failure_probability(part) for part in event.events if not isinstance(part, LeafEvent))
    return 0.0
