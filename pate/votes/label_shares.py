"""Label shares: the frequency of each label among a teacher's records, and sums of them over teachers.

Where labels may be unknown, a teacher also has a known share for each label: the share of its records for which the
label is known. The frequency of a label is then a ratio of two sums. Both are one vector with one clip and one price.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, FloatArray, IntArray
from pate.pool import in_order
from pate.validation import InvalidValue, require_array, require_entries
from pate.votes.clipping import ClippedSum
from pate.votes.weighted import Weighted

NUM_LENGTH_CLASSES = 16
"""The number of classes of lengths into which teachers are counted (`ShareSums.lengths`)."""

# An error of a known share matters less than one of a label share: it changes the frequency of a label by the frequency
# times its own relative size. On WordNet-40 with 20% of the labels, 1/2 to 1/16 are equally good at epsilon .3 and 1.
KNOWN_WEIGHT = 0.25
"""The factor of known shares in a vector of shares."""

# The approximate number of records that are read at a time.
_BLOCK_RECORDS = 2**15
# The number that a teacher of weight 1 adds to a length; a teacher of less weight adds a smaller whole number.
_PARTS_OF_A_TEACHER = 2**10


class ShareSums(Weighted):
    """Sums over teachers of their vectors of shares. The sums are private; no noise has been added.

    A vector has one entry for each label. If labels have gaps, the known shares times `KNOWN_WEIGHT` follow behind.

    Attributes:
        parts_of_a_teacher: the number that a teacher of weight 1 adds to an entry of `lengths`, >= 1.
        have_gaps: whether labels of records may be unknown; public.
    """

    parts_of_a_teacher: int = 1
    have_gaps: bool = False

    @property
    def largest_shares_of_a_teacher(self) -> FloatArray:
        """The largest possible value of each entry, `[num_entries]`: 1, or `KNOWN_WEIGHT` for the known shares."""
        largest_shares_of_a_teacher = np.ones(self.num_labels)
        return (
            np.append(largest_shares_of_a_teacher, KNOWN_WEIGHT * largest_shares_of_a_teacher)
            if self.have_gaps
            else largest_shares_of_a_teacher
        )

    @property
    def longest(self) -> float:
        """The largest possible length of a vector of shares: that of `largest_shares_of_a_teacher`."""
        return math.sqrt(float((self.largest_shares_of_a_teacher**2).sum()))

    @abstractmethod
    def lengths(self) -> IntArray:
        """Returns the number of teachers with each length of the vector, in parts of a teacher, `[NUM_LENGTH_CLASSES]`.

        Entry k counts the teachers whose length, rounded up, is `longest` / 2**(k / 2). The last entry also
        counts all shorter lengths. A teacher of weight w adds at most w times `parts_of_a_teacher` to one
        entry. A teacher without any label is not counted.
        """

    @abstractmethod
    def total(self, clipped_sum: ClippedSum, center: FloatArray) -> IntArray:
        """Returns the sum over teachers of shares minus a center, each clipped, `[1, num_entries]` in grid steps.

        Args:
            clipped_sum: the clip and the grid of the sum.
            center: `[num_entries]`.
        """


class BlockShares(ShareSums):
    """Sums of label shares that are read a block of teachers at a time, as those of all teachers may be large."""

    @abstractmethod
    def blocks(self) -> Iterator[FloatArray]:
        """Yields the shares of the teachers in order, `[num_teachers_in_block, num_entries]` in [0, 1]; private."""

    def lengths(self) -> IntArray:
        """Returns the number of teachers with each length of the vector of shares; see `ShareSums.lengths`."""
        num_teachers_by_vector_length = np.zeros(NUM_LENGTH_CLASSES, dtype=np.int64)
        first = 0
        for teacher_shares in self.blocks():
            last = first + len(teacher_shares)
            lengths = np.linalg.norm(teacher_shares, axis=1)
            is_teacher_counted = teacher_shares[:, : self.num_labels].any(axis=1)
            divisions_by_root_2 = np.floor(2 * np.log2(self.longest / lengths[is_teacher_counted]))
            length_classes = divisions_by_root_2.clip(min=0, max=NUM_LENGTH_CLASSES - 1).astype(
                np.int64
            )
            parts_of_teachers = None
            if self.weights is not None:
                parts_of_teachers = np.floor(
                    self.parts_of_a_teacher * self.weights[first:last][is_teacher_counted]
                )
            block_counts = np.bincount(
                length_classes, weights=parts_of_teachers, minlength=NUM_LENGTH_CLASSES
            )
            num_teachers_by_vector_length += block_counts.astype(np.int64)
            first = last
        return num_teachers_by_vector_length

    def total(self, clipped_sum: ClippedSum, center: FloatArray) -> IntArray:
        """Returns the sum of the teachers' shares minus a center, each clipped; see `ShareSums.total`."""
        return clipped_sum.total(
            votes_or_blocks=(teacher_shares[:, None, :] for teacher_shares in self.blocks()),
            center=center,
            num_teachers=self.num_teachers,
            teacher_weights=self.weights,
        )


class TeacherShares(BlockShares):
    """Sums of label shares, computed from an array of the shares of each teacher.

    Attributes:
        shares: `[num_teachers, num_entries]` in [0, 1], the vector of shares of each teacher; private.
    """

    def __init__(
        self,
        label_shares: Any,
        *,
        weights: FloatArray | None = None,
        known_shares: FloatArray | None = None,
    ) -> None:
        """Stores the shares; raises `InvalidValue` for numbers outside of [0, 1].

        Args:
            label_shares: `[num_teachers, num_labels]`.
            weights: public, `[num_teachers]` in [0, 1], the weight of each teacher; None for 1.
            known_shares: `[num_teachers, num_labels]`, the share of a teacher's records for which each label is known;
                None if labels have no gaps.
        """
        shares = _checked_shares("label_shares", label_shares)
        num_labels = shares.shape[1]
        if known_shares is not None:
            checked_known_shares = _checked_shares("known_shares", known_shares)
            if checked_known_shares.shape != shares.shape:
                rule = f"{shares.shape}, as label_shares"
                raise InvalidValue("known_shares.shape", checked_known_shares.shape, rule=rule)
            shares = np.concatenate([shares, KNOWN_WEIGHT * checked_known_shares], axis=1)
        if weights is not None and weights.shape != (len(shares),):
            rule = f"({len(shares)},), one for each teacher"
            raise InvalidValue("weights.shape", weights.shape, rule=rule)
        self.shares = shares.astype(np.float64)
        self.num_teachers = len(self.shares)
        self.num_labels = num_labels
        self.have_gaps = known_shares is not None
        self.weights = weights
        self.parts_of_a_teacher = 1 if weights is None else _PARTS_OF_A_TEACHER

    def blocks(self) -> Iterator[FloatArray]:
        """Yields the shares of the teachers in order, `[num_teachers_in_block, num_entries]` in [0, 1]; private."""
        yield self.shares


class RecordShares(BlockShares):
    """Sums of label shares, computed from the labels of the teachers' records, a block of teachers at a time."""

    def __init__(
        self,
        labels: BoolArray,
        *,
        teacher_of: IntArray,
        num_teachers: int,
        teacher_weights: FloatArray | None = None,
        known_label_mask: BoolArray | None = None,
    ) -> None:
        """Keeps the labels; nothing is computed yet.

        Args:
            labels: bool `[num_records, num_labels]`, private.
            teacher_of: int `[num_records]`, the index of each record's teacher; every teacher has a record.
            num_teachers: the number of teachers.
            teacher_weights: public, `[num_teachers]` in [0, 1], the weight of each teacher; None for 1.
            known_label_mask: bool `[num_records, num_labels]`, private, which labels are known; None if they have no
                gaps.
        """
        self.num_teachers = num_teachers
        self.num_labels = labels.shape[1]
        self.weights = teacher_weights
        self.parts_of_a_teacher = 1 if teacher_weights is None else _PARTS_OF_A_TEACHER
        self.have_gaps = known_label_mask is not None
        self._labels = labels
        self._known_label_mask = known_label_mask
        self._teacher_of = teacher_of

    def blocks(self) -> Iterator[FloatArray]:
        """Yields the shares of the teachers in order, `[num_teachers_in_block, num_entries]` in [0, 1]; private."""
        rows_by_teacher = np.argsort(self._teacher_of, kind="stable")
        teacher_sizes = np.bincount(self._teacher_of, minlength=self.num_teachers)
        # The records of teacher t are rows_by_teacher[first_rows[t] : first_rows[t + 1]].
        first_rows = np.append(0, np.cumsum(teacher_sizes))
        teachers_at_once = max(
            1, _BLOCK_RECORDS * self.num_teachers // max(len(rows_by_teacher), 1)
        )

        def label_shares_of_teachers_from(first_teacher: int) -> FloatArray:
            """Returns the vectors of shares of a block of teachers, `[num_teachers_in_block, num_entries]`.

            Args:
                first_teacher: the index of the first teacher of the block.
            """
            end_teacher = min(first_teacher + teachers_at_once, self.num_teachers)
            rows = rows_by_teacher[first_rows[first_teacher] : first_rows[end_teacher]]
            label_shares_of_teachers = mean_bits(
                self._labels[rows], first_teacher=first_teacher, end_teacher=end_teacher
            )
            if self._known_label_mask is None:
                return label_shares_of_teachers
            known_shares_of_teachers = mean_bits(
                self._known_label_mask[rows], first_teacher=first_teacher, end_teacher=end_teacher
            )
            return np.concatenate(
                [label_shares_of_teachers, KNOWN_WEIGHT * known_shares_of_teachers], axis=1
            )

        def mean_bits(bits: BoolArray, *, first_teacher: int, end_teacher: int) -> FloatArray:
            """Returns the mean of each teacher's bits over its records, `[num_teachers_in_block, num_labels]`.

            Args:
                bits: bool `[num_records_in_block, num_labels]`, sorted by teacher.
                first_teacher: the index of the first teacher of the block.
                end_teacher: the index after the last teacher of the block.
            """
            if len(bits) == end_teacher - first_teacher:  # Each teacher has one record.
                return bits.astype(np.float64)
            first_row_of_teacher = first_rows[first_teacher:end_teacher] - first_rows[first_teacher]
            bit_counts = np.add.reduceat(bits, first_row_of_teacher, axis=0, dtype=np.int64)
            return np.asarray(bit_counts / teacher_sizes[first_teacher:end_teacher, None])

        return in_order(
            label_shares_of_teachers_from, items=range(0, self.num_teachers, teachers_at_once)
        )


def _checked_shares(name: str, shares: Any) -> NDArray[Any]:
    """Returns an array of numbers in [0, 1], `[num_teachers, num_labels]`, or raises `InvalidValue`."""
    share_array = require_array(name, shares, dtype_kinds=None)
    is_table = share_array.ndim == 2 and share_array.size > 0 and share_array.dtype.kind in "biuf"
    if not is_table:
        rule = "numbers [num_teachers, num_labels]"
        raise InvalidValue(f"{name}.shape", f"{share_array.dtype} {share_array.shape}", rule=rule)
    require_entries(name, (share_array >= 0) & (share_array <= 1), rule="numbers in [0, 1]")
    return share_array


def shares_of_teachers(bits: BoolArray, *, teacher_of: IntArray, num_teachers: int) -> FloatArray:
    """Returns the share of each teacher's records that have each bit, `[num_teachers, num_labels]`.

    Args:
        bits: bool `[num_records, num_labels]`, a bit of each record for each label, such as the label itself.
        teacher_of: int `[num_records]`, the index of each record's teacher; every teacher has a record.
        num_teachers: the number of teachers.
    """
    shares = RecordShares(bits, teacher_of=teacher_of, num_teachers=num_teachers)
    return np.concatenate(list(shares.blocks()))
