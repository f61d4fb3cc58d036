"""Label shares: the frequency of each label among a teacher's records, and sums of them over teachers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.pool import in_order
from pate.validation import require, require_array, require_entries
from pate.votes.clipping import ClippedSum
from pate.votes.weighted import Integers, Weighted

Array = NDArray[np.float64]

NUM_LENGTHS = 16
"""The number of lengths that shares are sorted into: sqrt(L) over powers of the root of 2."""

_BLOCK_RECORDS = 2**15  # about so many records are read at a time

# The number that a teacher of weight 1 adds to a length; a teacher of less weight adds a smaller whole number.
_PARTS_OF_A_TEACHER = 2**10


class ShareSums(Weighted):
    """Sums over teachers of their label shares. The sums are private; no noise has been added.

    Attributes:
        parts: the number that a teacher of weight 1 adds to an entry of `lengths`, >= 1.
    """

    parts: int = 1

    @abstractmethod
    def lengths(self) -> Integers:
        """Returns the number of teachers with each length of the vector of shares, times `parts`, `[NUM_LENGTHS]`.

        Entry k counts the teachers whose length, rounded up, is sqrt(num_labels) / 2**(k / 2). The last entry also
        counts all shorter lengths. A teacher of weight w adds at most w times `parts` to one entry. A teacher without
        any label is not counted.
        """

    @abstractmethod
    def total(self, clipped_sum: ClippedSum, center: Array) -> Integers:
        """Returns the sum over teachers of shares minus a center, each clipped, `[1, num_labels]` in steps.

        Args:
            clipped_sum: the clip and the grid of the sum.
            center: `[num_labels]`.
        """


class BlockShares(ShareSums):
    """Sums of label shares that are read a block of teachers at a time, as those of all teachers may be large."""

    @abstractmethod
    def blocks(self) -> Iterator[Array]:
        """Yields the shares of the teachers in order, `[num_teachers_in_block, num_labels]` in [0, 1]; private."""

    def lengths(self) -> Integers:
        """Returns the number of teachers with each length of the vector of shares; see `ShareSums.lengths`."""
        counts = np.zeros(NUM_LENGTHS, dtype=np.int64)
        first = 0
        for shares in self.blocks():
            last = first + len(shares)
            lengths = np.linalg.norm(shares, axis=1)
            is_counted = lengths > 0
            powers = np.floor(2 * np.log2(math.sqrt(self.num_labels) / lengths[is_counted]))
            entries = powers.clip(0, NUM_LENGTHS - 1).astype(np.int64)
            parts_of_teachers = None
            if self.weights is not None:
                parts_of_teachers = np.floor(self.parts * self.weights[first:last][is_counted])
            in_block = np.bincount(entries, weights=parts_of_teachers, minlength=NUM_LENGTHS)
            counts += in_block.astype(np.int64)
            first = last
        return counts

    def total(self, clipped_sum: ClippedSum, center: Array) -> Integers:
        """Returns the sum of the teachers' shares minus a center, each clipped; see `ShareSums.total`."""
        return clipped_sum.total(
            (shares[:, None, :] for shares in self.blocks()),
            center=center,
            num_teachers=self.num_teachers,
            weights=self.weights,
        )


class TeacherShares(BlockShares):
    """Sums of label shares, computed from an array of the shares of each teacher.

    Attributes:
        shares: `[num_teachers, num_labels]` in [0, 1]; private.
    """

    def __init__(self, label_shares: Any, weights: Array | None = None) -> None:
        """Stores the shares; raises `InvalidValue` for numbers outside of [0, 1].

        Args:
            label_shares: `[num_teachers, num_labels]`.
            weights: public, `[num_teachers]` in [0, 1], the weight of each teacher; None for 1.
        """
        shares = require_array("label_shares", label_shares, dtype_kinds=None)
        is_table = shares.ndim == 2 and shares.size > 0 and shares.dtype.kind in "biuf"
        rule = "numbers [num_teachers, num_labels]"
        require(is_table, "label_shares.shape", f"{shares.dtype} {shares.shape}", rule)
        require_entries("label_shares", (shares >= 0) & (shares <= 1), "numbers in [0, 1]")
        if weights is not None:
            rule = f"({len(shares)},), one for each teacher"
            require(weights.shape == (len(shares),), "weights.shape", weights.shape, rule)
        self.shares = shares.astype(np.float64)
        self.num_teachers, self.num_labels = self.shares.shape
        self.weights = weights
        self.parts = 1 if weights is None else _PARTS_OF_A_TEACHER

    def blocks(self) -> Iterator[Array]:
        """Yields the shares of the teachers in order, `[num_teachers_in_block, num_labels]` in [0, 1]; private."""
        yield self.shares


class RecordShares(BlockShares):
    """Sums of label shares, computed from the labels of the teachers' records, a block of teachers at a time."""

    def __init__(
        self,
        labels: NDArray[np.bool_],
        teacher_of: NDArray[np.int64],
        num_teachers: int,
        weights: Array | None = None,
    ) -> None:
        """Keeps the labels; nothing is computed yet.

        Args:
            labels: bool `[num_records, num_labels]`, private.
            teacher_of: int `[num_records]`, the index of each record's teacher; every teacher has a record.
            num_teachers: the number of teachers.
            weights: public, `[num_teachers]` in [0, 1], the weight of each teacher; None for 1.
        """
        self.num_teachers = num_teachers
        self.num_labels = labels.shape[1]
        self.weights = weights
        self.parts = 1 if weights is None else _PARTS_OF_A_TEACHER
        self._labels = labels
        self._teacher_of = teacher_of

    def blocks(self) -> Iterator[Array]:
        """Yields the shares of the teachers in order, `[num_teachers_in_block, num_labels]` in [0, 1]; private."""
        order = np.argsort(self._teacher_of, kind="stable")
        sizes = np.bincount(self._teacher_of, minlength=self.num_teachers)
        bounds = np.append(0, np.cumsum(sizes))  # of each teacher's records in `order`
        teachers_at_once = max(1, _BLOCK_RECORDS * self.num_teachers // max(len(order), 1))

        def shares_from(first: int) -> Array:
            """Returns the shares of a block of teachers that begins with a given one."""
            last = min(first + teachers_at_once, self.num_teachers)
            labels = self._labels[order[bounds[first] : bounds[last]]]
            if len(labels) == last - first:  # a record for each teacher
                return labels.astype(np.float64)
            starts = bounds[first:last] - bounds[first]
            counts = np.add.reduceat(labels, starts, axis=0, dtype=np.int64)
            return np.asarray(counts / sizes[first:last, None])

        return in_order(shares_from, items=range(0, self.num_teachers, teachers_at_once))


def mean_labels(
    labels: NDArray[np.bool_], teacher_of: NDArray[np.int64], num_teachers: int
) -> Array:
    """Returns the share of each teacher's records that have each label, `[num_teachers, num_labels]`.

    Args:
        labels: bool `[num_records, num_labels]`.
        teacher_of: int `[num_records]`, the index of each record's teacher; every teacher has a record.
        num_teachers: the number of teachers.
    """
    return np.concatenate(list(RecordShares(labels, teacher_of, num_teachers).blocks()))
