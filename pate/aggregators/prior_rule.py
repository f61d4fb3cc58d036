"""The rules by which a session predicts the labels of its next queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pate.array_types import BoolArray


@runtime_checkable
class PriorRule(Protocol):
    """A function that predicts the labels of the next queries from the labels released before.

    A session calls a prior rule for each round that it draws.
    """

    def __call__(self, labels: BoolArray, answered: BoolArray, num_queries: int) -> BoolArray:
        """Returns the predicted labels of the next queries, bool `[num_queries, num_labels]`.

        A row without any True means that the rule predicts nothing for that query.

        Args:
            labels: bool `[num_released, num_labels]`, the labels released for all earlier queries.
            answered: bool `[num_released]`, whether each earlier query was answered.
            num_queries: the number of queries to predict.
        """


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class KnownPrior:
    """A prior rule that reads its predictions from an array, which is given before the first query.

    Attributes:
        labels: bool `[num_queries, num_labels]`, the predicted labels of all queries.
    """

    labels: BoolArray

    def __call__(self, labels: BoolArray, answered: BoolArray, num_queries: int) -> BoolArray:
        """Returns the next `num_queries` rows of the array, after one row for each earlier query; see `PriorRule`."""
        start = len(labels)
        return self.labels[start : start + num_queries]
