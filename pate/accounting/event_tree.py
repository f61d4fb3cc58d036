"""The tree of an event: its nodes and leaves with their counts, its accesses, its failures.

An event is a leaf, such as one Gaussian release, or has parts: a composition, a repetition, an event that may fail. A
node happens as often as the product of the repetitions above it. A release of 100,000 queries is one composition of as
many leaves, so the walks look at the classes of the leaves before they look at each leaf.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from pate import validation
from pate.accounting.events import (
    EVENT_RULE,
    ApproximateEvent,
    ComposedEvent,
    Event,
    LeafEvent,
    SelfComposedEvent,
    SessionEvent,
)

LeafCounts = dict[type[LeafEvent], tuple[list[LeafEvent], list[int]]]
"""The leaves of an event by their class: a list of them, and a list of how often each happens."""


def nodes(event: Event, *, count: int = 1) -> Iterator[tuple[Event, int]]:
    """Yields an event and all its parts, each with how often it happens where the event happens `count` times.

    Raises `InvalidValue` for a part that is no event.
    """
    pending = [(event, count)]
    while pending:
        node, times = pending.pop()
        yield node, times
        if isinstance(node, ComposedEvent):
            for part in node.events:
                if isinstance(part, LeafEvent):
                    yield part, times
                else:
                    pending.append((part, times))
        elif isinstance(node, SelfComposedEvent):
            pending.append((node.event, times * node.count))
        elif isinstance(node, ApproximateEvent):
            pending.append((node.event, times))
        else:
            validation.require_kind("event", node, LeafEvent, EVENT_RULE)


def leaves(event: Event, *, count: int = 1) -> Iterator[tuple[LeafEvent, int]]:
    """Yields the nodes that have no parts, each with how often it happens."""
    return (
        (node, times) for node, times in nodes(event, count=count) if isinstance(node, LeafEvent)
    )


def count_leaves(event: Event, *, count: int = 1) -> LeafCounts:
    """Returns the leaves of an event by their class, without those that never happen."""
    if isinstance(event, ComposedEvent) and count > 0:
        kinds = set(map(type, event.events))
        if len(kinds) == 1:
            kind = kinds.pop()
            # Many leaves of one class need no walk, which takes long for 100,000 of them.
            if issubclass(kind, LeafEvent):
                all_leaves = cast(list[LeafEvent], list(event.events))
                return {kind: (all_leaves, [count] * len(all_leaves))}
    counts: LeafCounts = {}
    for leaf, times in leaves(event, count=count):
        if times > 0:
            leaves_of_kind, times_of_kind = counts.setdefault(type(leaf), ([], []))
            leaves_of_kind.append(leaf)
            times_of_kind.append(times)
    return counts


def by_accesses(event: Event) -> Event:
    """Returns the event with every session replaced by its accesses, for accountants that do not price hits.

    An event without sessions is returned as the same object.
    """
    if isinstance(event, SessionEvent):
        return event.accesses
    if isinstance(event, ComposedEvent):
        kinds = set(map(type, event.events))  # looking at 100,000 parts takes long
        if any(issubclass(kind, SessionEvent) or not issubclass(kind, LeafEvent) for kind in kinds):
            parts = tuple(map(by_accesses, event.events))
            is_unchanged = all(map(operator.is_, parts, event.events))
            return event if is_unchanged else replace(event, events=parts)
    if isinstance(event, (SelfComposedEvent, ApproximateEvent)):
        part = by_accesses(event.event)
        return event if part is event.event else replace(event, event=part)
    return event


def failure_probability(event: Event) -> float:
    """Returns the sum of the failure probabilities in an event: the part of delta that no noise can buy back."""
    if isinstance(event, ApproximateEvent):
        return event.failure_prob + failure_probability(event.event)
    if isinstance(event, SelfComposedEvent):
        return event.count * failure_probability(event.event)
    if isinstance(event, ComposedEvent):
        return math.fsum(
            failure_probability(part) for part in event.events if not isinstance(part, LeafEvent)
        )
    return 0.0
