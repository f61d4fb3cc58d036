"""The size of a release: the numbers of queries, labels and teachers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import NDArray

from pate.validation import require_count


@dataclass(frozen=True)
class VoteShape:
    """The size of a release: its public numbers of queries, labels and teachers.

    The price of a release depends on this size and on the fields of the aggregator, and on nothing else. Raises
    `InvalidValue` for a number of queries below 0, or a number of labels or teachers below 1.

    >>> VoteShape(num_queries=600, num_labels=40, num_teachers=200)
    VoteShape(num_queries=600, num_labels=40, num_teachers=200)

    Attributes:
        num_queries: Q >= 0, the number of queries, answered or refused.
        num_labels: L >= 1, the number of labels.
        num_teachers: T >= 1, the number of teachers.
    """

    num_queries: int
    num_labels: int
    num_teachers: int

    def __post_init__(self) -> None:
        require_count("num_queries", self.num_queries, minimum=0)
        require_count("num_labels", self.num_labels)
        require_count("num_teachers", self.num_teachers)

    @classmethod
    def from_counts(cls, counts: NDArray[Any], *, num_teachers: int) -> Self:
        """Returns the shape of a release, given its counts `[num_queries, num_labels]` and the number of teachers."""
        num_queries, num_labels = counts.shape
        return cls(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)
