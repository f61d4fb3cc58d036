"""The size of a release: all that a price depends on beside the aggregator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from pate.accounting import Event
from pate.aggregators import Aggregator
from pate.validation import require_count


@dataclass(frozen=True, kw_only=True)
class ReleaseShape:
    """How many queries, labels and teachers a release has.

    Attributes:
        num_queries: Q, answered or refused.
        num_labels: L.
        num_teachers: T.

    >>> from pate.aggregators import GaussianVotes
    >>> shape = ReleaseShape(num_queries=600, num_labels=40, num_teachers=800)
    >>> shape.event_of(GaussianVotes(noise_std=100.0)).count  # bits that are released
    24000
    """

    num_queries: int
    num_labels: int
    num_teachers: int

    def __post_init__(self) -> None:
        for name, value in self.as_arguments.items():
            require_count(name, value)

    @property
    def as_arguments(self) -> dict[str, int]:
        """The three by name, for the keyword arguments of an aggregator."""
        return {"num_queries": self.num_queries, "num_labels": self.num_labels, "num_teachers": self.num_teachers}

    def with_queries(self, num_queries: int) -> Self:
        """The same labels and teachers with another number of queries."""
        return replace(self, num_queries=num_queries)

    def event_of(self, aggregator: Aggregator) -> Event:
        """The event of a release of this size: what an accountant prices."""
        return aggregator.event_for(**self.as_arguments)
