"""The tree of an event: functions that walk through the events within an event.

An event is a leaf, such as one Gaussian release, or contains other events: a composition, a repetition, an event that
may fail. The count of a node is the number of times that the node is released: the product of all repetitions above the
node. A release of 100,000 queries is one composition of 100,000 leaves. So the functions look at the classes of the
leaves before they look at each leaf.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

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


class CountedLeaves(NamedTuple):
    """Leaves (events not composed of others) of one class, and how often each is released, `[num_leaves]` each."""

    leaf_events: list[LeafEvent]
    counts: list[int]


# More leaves of one class than this are appended without a search for equal leaves that were added earlier.
_LARGEST_NUM_COMPARED = 1000


@dataclass
class LeafCounts:
    """The leaves of one or more events, grouped by class, with the number of times that each is released.

    A leaf is an event that is not composed of others. Iteration yields pairs of a leaf and its count.

    Attributes:
        counted_leaves_by_kind: the leaves of each class with their counts.
    """

    counted_leaves_by_kind: dict[type[LeafEvent], CountedLeaves] = field(default_factory=dict)
    # the index of each leaf that `add` has compared, in the lists of its class
    _index_of_leaf: dict[LeafEvent, int] = field(default_factory=dict)

    @property
    def kinds(self) -> Set[type[LeafEvent]]:
        """The classes of the leaves."""
        return self.counted_leaves_by_kind.keys()

    def __iter__(self) -> Iterator[tuple[LeafEvent, int]]:
        for leaves_of_kind in self.counted_leaves_by_kind.values():
            yield from zip(leaves_of_kind.leaf_events, leaves_of_kind.counts, strict=True)

    def add(self, added_counts: LeafCounts) -> None:
        """Adds leaves; a leaf that is equal to a leaf added earlier raises the count of that leaf.

        More than 1,000 leaves of one class at once are appended without a search for equal leaves. Later leaves are
        compared neither with these leaves nor with the leaves that the object was made with.
        """
        for leaf_class, added_leaves in added_counts.counted_leaves_by_kind.items():
            counted_of_class = self.counted_leaves_by_kind.setdefault(
                leaf_class, CountedLeaves(leaf_events=[], counts=[])
            )
            if len(added_leaves.leaf_events) > _LARGEST_NUM_COMPARED:
                counted_of_class.leaf_events.extend(added_leaves.leaf_events)
                counted_of_class.counts.extend(added_leaves.counts)
                continue
            for leaf, count in zip(added_leaves.leaf_events, added_leaves.counts, strict=True):
                leaf_index = self._index_of_leaf.setdefault(leaf, len(counted_of_class.leaf_events))
                if leaf_index < len(counted_of_class.leaf_events):
                    counted_of_class.counts[leaf_index] += count
                else:
                    counted_of_class.leaf_events.append(leaf)
                    counted_of_class.counts.append(count)

    def copy(self) -> LeafCounts:
        """Returns independent counts of the same leaves."""
        counted_leaves_by_kind = {
            leaf_class: CountedLeaves(
                leaf_events=counted.leaf_events.copy(), counts=counted.counts.copy()
            )
            for leaf_class, counted in self.counted_leaves_by_kind.items()
        }
        return LeafCounts(
            counted_leaves_by_kind=counted_leaves_by_kind, _index_of_leaf=self._index_of_leaf.copy()
        )


def nodes(event: Event, *, num_releases: int = 1) -> Iterator[tuple[Event, int]]:
    """Yields an event and every event within it, as pairs of an event and the number of times that it is released.

    A `SessionEvent` or a `TuningEvent` is a leaf, so the events in its fields are not yielded.

    Raises `InvalidValue` where a node of the tree is not an event.

    Args:
        event: the root of the tree.
        num_releases: the number of times that the root is released, >= 0.
    """
    pending_nodes = [(event, num_releases)]
    while pending_nodes:
        node, num_node_releases = pending_nodes.pop()
        yield node, num_node_releases
        if isinstance(node, ComposedEvent):
            for part_event in node.events:
                if isinstance(part_event, LeafEvent):
                    yield part_event, num_node_releases
                else:
                    pending_nodes.append((part_event, num_node_releases))
        elif isinstance(node, SelfComposedEvent):
            pending_nodes.append((node.event, num_node_releases * node.count))
        elif isinstance(node, ApproximateEvent):
            pending_nodes.append((node.event, num_node_releases))
        else:
            validation.require_kind("event", value=node, kind=LeafEvent, rule=EVENT_RULE)


def leaves(event: Event, *, num_releases: int = 1) -> Iterator[tuple[LeafEvent, int]]:
    """Yields the leaves of an event, as pairs of a leaf and the number of times that it is released.

    A leaf is an event that is not composed of others.

    Args:
        event: the root of the tree.
        num_releases: the number of times that the root is released, >= 0.
    """
    return (
        (node, num_node_releases)
        for node, num_node_releases in nodes(event, num_releases=num_releases)
        if isinstance(node, LeafEvent)
    )


def count_leaves(event: Event, *, num_releases: int = 1) -> LeafCounts:
    """Returns the leaves of an event, grouped by class, with the number of times that each is released.

    A leaf is an event that is not composed of others. Leaves that are never released are left out.

    Args:
        event: the root of the tree.
        num_releases: the number of times that the root is released, >= 0.
    """
    if isinstance(event, ComposedEvent) and num_releases > 0:
        event_classes = set(map(type, event.events))
        if len(event_classes) == 1:
            leaf_class = event_classes.pop()
            # Many leaves of one class need no walk, which takes long for 100,000 of them.
            if issubclass(leaf_class, LeafEvent):
                all_leaves = cast(list[LeafEvent], list(event.events))
                equal_counts = [num_releases] * len(all_leaves)
                return LeafCounts(
                    {leaf_class: CountedLeaves(leaf_events=all_leaves, counts=equal_counts)}
                )
    counted_leaves_by_kind: dict[type[LeafEvent], CountedLeaves] = {}
    for leaf, leaf_count in leaves(event, num_releases=num_releases):
        if leaf_count > 0:
            counted_of_class = counted_leaves_by_kind.setdefault(
                type(leaf), CountedLeaves(leaf_events=[], counts=[])
            )
            counted_of_class.leaf_events.append(leaf)
            counted_of_class.counts.append(leaf_count)
    return LeafCounts(counted_leaves_by_kind=counted_leaves_by_kind)


def priced_by_accesses(event: Event) -> Event:
    """Returns the event with every `SessionEvent` in it replaced by the event in its field `accesses`.

    That field prices a session by the number of accesses to the private data. So an accountant that cannot price hits
    can price the returned event. An event without sessions is returned as the same object, and so is a `TuningEvent`,
    whose runs are not changed.
    """
    if isinstance(event, SessionEvent):
        return event.accesses
    if isinstance(event, ComposedEvent):
        # The classes are looked at first, because a look at each of 100,000 parts takes long.
        event_classes = set(map(type, event.events))
        if any(
            issubclass(event_class, SessionEvent) or not issubclass(event_class, LeafEvent)
            for event_class in event_classes
        ):
            parts_priced_by_accesses = tuple(map(priced_by_accesses, event.events))
            is_unchanged = all(map(operator.is_, parts_priced_by_accesses, event.events))
            return event if is_unchanged else replace(event, events=parts_priced_by_accesses)
    if isinstance(event, (SelfComposedEvent, ApproximateEvent)):
        part_priced_by_accesses = priced_by_accesses(event.event)
        return (
            event
            if part_priced_by_accesses is event.event
            else replace(event, event=part_priced_by_accesses)
        )
    return event


def without_failures(event: Event) -> Event:
    """Returns an event that cannot fail: each `ApproximateEvent` that can fail is replaced by its field `event`.

    A `SelectThenTestEvent` that can fail becomes a `ComposedEvent` of the selection and the test.
    """
    if isinstance(event, ApproximateEvent):
        return without_failures(event.event)
    if isinstance(event, ComposedEvent) and failure_probability(event) > 0:
        return ComposedEvent(tuple(map(without_failures, event.events)))
    if isinstance(event, SelfComposedEvent):
        return replace(event, event=without_failures(event.event))
    return event


def failure_probability(event: Event) -> float:
    """Returns the sum of all failure probabilities in an event, and counts a repeated event once for each repetition.

    The sum is the part of delta that more noise cannot reduce. A `SessionEvent` has none: its price by hits does not
    use the failures in its field `accesses`.
    """
    if isinstance(event, ApproximateEvent):
        return event.failure_prob + failure_probability(event.event)
    if isinstance(event, SelfComposedEvent):
        return event.count * failure_probability(event.event)
    if isinstance(event, ComposedEvent):
        return math.fsum(
            failure_probability(part) for part in event.events if not isinstance(part, LeafEvent)
        )
    return 0.0
