"""One thing that ships with a price and an exact distribution, as `test_shipped.py` runs it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, Event
from pate.aggregators import Aggregator

Counts = NDArray[np.int64]
Distribution = Mapping[Any, float]


@dataclass(frozen=True)
class Shape:
    """The instance that a subject is made for."""

    adjacency: Adjacency
    num_labels: int
    num_teachers: int


def default_distribution(subject: Any, histogram: Counts, shape: Shape) -> Distribution:
    if isinstance(subject, Aggregator):
        return subject.distribution(histogram, num_teachers=shape.num_teachers)
    return subject.distribution(histogram)


def default_event(subject: Any, shape: Shape) -> Event:
    if isinstance(subject, Aggregator):
        return subject.event_for(num_queries=1, num_labels=shape.num_labels, num_teachers=shape.num_teachers)
    return subject.event


def rename_indices(outcome: Any, order: list[int]) -> Any:
    """A sequence of indices, -1 for none."""
    return tuple(order[rank] if rank >= 0 else -1 for rank in outcome)


def rename_set(outcome: Any, order: list[int]) -> Any:
    """A set of indices as a sorted tuple, or None."""
    return None if outcome is None else tuple(sorted(order[rank] for rank in outcome))


def rename_short_set(outcome: Any, order: list[int]) -> Any:
    """A set of indices as a sorted tuple, filled up with -1."""
    chosen = sorted(order[rank] for rank in outcome if rank >= 0)
    return (*chosen, *[-1] * (len(outcome) - len(chosen)))


def rename_bits(outcome: Any, order: list[int]) -> Any:
    """A bit for each label, or None."""
    return None if outcome is None else tuple(outcome[order.index(label)] for label in range(len(order)))


def rename_number(outcome: Any, order: list[int]) -> Any:
    """A size: names no label."""
    return outcome


@dataclass(frozen=True)
class Case:
    """One thing that ships."""

    name: str  # of the test
    subject: Callable[[Shape], Any]  # the mechanism or aggregator for a shape
    # the exact distribution of one histogram
    distribution: Callable[[Any, Counts, Shape], Distribution] = default_distribution
    event: Callable[[Any, Shape], Event] = default_event  # the price of one release
    # on the largest instance some exact figure is at least this part of its price, so that a price smaller by this
    # factor would be found out
    tightness: float = 0.9
    largest: tuple[int, int] = (4, 6)  # labels and teachers of that instance
    min_labels: int = 1  # the fewest labels that it is made for
    # an outcome over ranks as one over labels, given the label at each rank
    rename: Callable[[Any, list[int]], Any] = rename_indices


def by_rank(
    distribution: Callable[[Counts], Distribution], rename: Callable[[Any, list[int]], Any]
) -> Callable[[Counts], Distribution]:
    """The same distribution, computed once for all histograms with the same sorted counts, and renamed from ranks to
    labels.

    For distributions that treat labels alike and break ties by the lowest index, which `test_shipped.py` checks.
    """
    of_sorted: dict[tuple[int, ...], Distribution] = {}

    def renamed(histogram: Counts) -> Distribution:
        order = np.argsort(-histogram, kind="stable")
        falling = tuple(histogram[order].tolist())
        if falling not in of_sorted:
            of_sorted[falling] = distribution(np.array(falling))
        labels = order.tolist()
        return {rename(outcome, labels): p for outcome, p in of_sorted[falling].items()}

    return renamed
