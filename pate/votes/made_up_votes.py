"""Votes of nobody: teachers that agree to a known degree on queries whose labels are known, to plan a release with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import require, require_count
from pate.votes.source import Array, Bits, VoteSource

USUAL_LABELS = 3
"""Labels that a made-up query has, where there are enough of them."""

_BLOCK_ENTRIES = 2**22
_SEED = 7919  # another one than that of the noise, which would be the order of the labels


class MadeUpVotes(VoteSource):
    """A public model of queries, drawn with a fixed seed: no data is read.

    Rule: a query has `num_present` of the L labels; where L is 1, every other query has it. The share `agreement` of
    the teachers names each label that is present, and whoever misses it names one that is absent, these in turn: a
    teacher names as many labels as the query has. No teacher misses a second label of a query before each has missed
    one.

    Args:
        num_queries: Q.
        num_labels: L.
        num_teachers: T.
        agreement: in [0, 1].
        num_present: labels of a query, at most L.
    """

    records_per_teacher = 1.0

    def __init__(
        self, *, num_queries: int, num_labels: int, num_teachers: int, agreement: float, num_present: int = USUAL_LABELS
    ) -> None:
        self.num_queries, self.num_labels = require_count("num_queries", num_queries), num_labels
        self.num_teachers = require_count("num_teachers", num_teachers)
        require(0 <= agreement <= 1, "agreement", agreement, "a number in [0, 1]")
        require(1 <= num_present <= num_labels, "num_present", num_present, f"1 to {num_labels}, the labels")
        self.agreement, self.num_present = agreement, num_present
        order = np.argsort(np.random.default_rng(_SEED).random((num_queries, num_labels)), axis=1)
        num_present_of = np.full(num_queries, num_present)
        if num_labels == 1:
            num_present_of[1::2] = 0
        present = np.arange(num_labels) < num_present_of[:, None]  # [Q, L], in the order
        self.labels = _placed(present, order)
        self._starts, self._counts = (
            _placed(each, order) for each in _spread(present, round(agreement * num_teachers), num_teachers)
        )

    def first(self, num_queries: int) -> MadeUpVotes:
        """The votes on the first queries."""
        shape = {"num_queries": num_queries, "num_labels": self.num_labels, "num_teachers": self.num_teachers}
        return MadeUpVotes(**shape, agreement=self.agreement, num_present=self.num_present)

    def bits(self) -> Iterator[Bits]:
        size = max(1, _BLOCK_ENTRIES // self._counts.size)
        for first in range(0, self.num_teachers, size):
            teachers = np.arange(first, min(first + size, self.num_teachers))[:, None, None]
            yield (teachers - self._starts) % self.num_teachers < self._counts

    def label_shares(self) -> Array:
        """Every label is as common as the next."""
        return np.full((self.num_teachers, self.num_labels), self.labels.mean())

    def _counted(self, max_votes: int | None) -> NDArray[np.int64]:
        if max_votes is None or max_votes >= self.num_present:
            return self._counts
        return super()._counted(max_votes)


def _spread(present: Bits, num_right: int, num_teachers: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each label's run of teachers starts, and how long it is; labels in order, those present first."""
    num_present = present.sum(axis=1, keepdims=True)
    num_absent = present.shape[1] - num_present
    if present.shape[1] == 1:
        counts = np.where(present, num_right, num_teachers - num_right)
        return np.zeros_like(counts), counts
    missed = num_present * (num_teachers - num_right)
    place = np.arange(present.shape[1]) - num_present
    each = missed // np.maximum(num_absent, 1) + (place < missed % np.maximum(num_absent, 1))
    counts = np.where(present, num_right, np.minimum(each, num_teachers)).astype(np.int64)
    return np.cumsum(counts, axis=1) - counts, counts


def _placed(values: NDArray[Any], order: NDArray[np.int64]) -> NDArray[Any]:
    placed = np.empty_like(values)
    np.put_along_axis(placed, order, values, axis=1)
    return placed
