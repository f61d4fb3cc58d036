"""The answers that an aggregator draws: the labels of each query, and whether the query is answered."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from pate.array_types import BoolArray
from pate.validation import require
from pate.votes.shape import VoteShape


class Answers(NamedTuple):
    """The answers to queries: a row of labels for each query, and whether the query is answered.

    Attributes:
        labels: bool `[num_queries, num_labels]`; a query that is not answered has a row of False.
        answered: bool `[num_queries]`.
    """

    labels: BoolArray
    answered: BoolArray

    @classmethod
    def to_all(cls, labels: BoolArray) -> Self:
        """Returns answers with these labels, in which every query is answered."""
        return cls(labels=labels, answered=np.ones(len(labels), dtype=np.bool_))

    @classmethod
    def from_draw(cls, drawn_answers: Any, vote_shape: VoteShape, *, method_name: str) -> Self:
        """Returns the result of an aggregator's `draw` as `Answers`, once its types and shapes are checked.

        Args:
            drawn_answers: the result of `draw`, a tuple of labels and answered.
            vote_shape: the number of queries and labels that were charged.
            method_name: the name of the method, such as `GNMax.draw`, for the error.

        Raises:
            InvalidValue: the result is no tuple of two bool arrays, or the arrays have another shape.
        """
        rule = "a tuple of labels and answered, arrays of bool"
        require(isinstance(drawn_answers, tuple), method_name, type(drawn_answers).__name__, rule)
        labels_and_answered = [np.asarray(array) for array in drawn_answers]
        dtypes = [str(array.dtype) for array in labels_and_answered]
        require(dtypes == ["bool", "bool"], method_name, dtypes, rule)
        labels, answered = labels_and_answered
        priced_labels_shape = (vote_shape.num_queries, vote_shape.num_labels)
        _require_shape("labels.shape", labels.shape, priced_labels_shape)
        _require_shape("answered.shape", answered.shape, (vote_shape.num_queries,))
        return cls(labels=labels, answered=answered)


def _require_shape(
    array_name: str, array_shape: tuple[int, ...], priced_shape: tuple[int, ...]
) -> None:
    """Raises `InvalidValue` for an argument of this name unless its shape equals the shape that was charged for."""
    require(
        array_shape == priced_shape,
        array_name,
        array_shape,
        f"{priced_shape}, which the price is for",
    )
