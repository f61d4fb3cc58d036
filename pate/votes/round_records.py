"""The private records of teachers that vote in rounds, and their distribution over shards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from pate.array_types import Float32Array, FloatArray, IntArray
from pate.votes.feature_rows import DEFAULT_STORAGE, FeatureStorage
from pate.votes.label_gaps import GapLabels
from pate.votes.public_pca import PublicPCA
from pate.votes.round_shard import RoundShard

# The number of bytes of inputs that are read from a data set at a time.
_BLOCK_BYTES = 2**22


def no_report(num_rows: int) -> None:
    """Does nothing with the number of records that were read."""


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class RecordBlock:
    """Some records of a shard.

    Attributes:
        inputs: float32 `[n, ...]`.
        labels: `[n, num_labels]`, bool, or int8 if they have gaps (`pate.votes.label_gaps`).
    """

    inputs: Float32Array
    labels: GapLabels


@dataclass(frozen=True, eq=False, kw_only=True)  # a generated __eq__ fails on arrays
class RoundRecords:
    """All private records of teachers that vote in rounds.

    Attributes:
        inputs: float32 `[num_records, ...]`, an array or an object that reads rows from a disk as an array does.
        labels: `[num_records, num_labels]`, bool, or int8 if they have gaps (`pate.votes.label_gaps`).
        teacher_of: `[num_records]`, the index of each record's teacher.
        num_teachers: the number of teachers.
        public_pca: the directions of the public pool, along which the features of inputs are computed.
        records_per_teacher: a mean over n records is multiplied by sqrt(n / records_per_teacher); None for a factor of
            1.
        teacher_weights: public, `[num_teachers]` in [0, 1], the weight of each teacher; None for 1.
        feature_storage: where the features lie between rounds.
        report_num_rows: is called with the number of records of each block that is read; several threads may call it at
            once.
    """

    inputs: Any
    labels: GapLabels
    teacher_of: IntArray
    num_teachers: int
    public_pca: PublicPCA
    records_per_teacher: float | None
    teacher_weights: FloatArray | None = None
    feature_storage: FeatureStorage = DEFAULT_STORAGE
    report_num_rows: Callable[[int], object] = no_report

    def shards(self, num_shards: int) -> list[ShardRecords]:
        """Returns the records of all teachers as `num_shards` shards with about equal numbers of records.

        Each shard has all records of some teachers. No teacher is split, so numbers of records may differ, and shards
        may be empty. Some are empty if fewer teachers than shards have records.

        Args:
            num_shards: the number of shards, >= 1.
        """
        all_records = self._records_of_all_teachers
        end_row_of_teacher = np.cumsum(all_records.teacher_sizes)
        ideal_cuts = np.arange(1, num_shards) * len(self.labels) / num_shards  # in rows
        # A teacher whose records end at a cut is before it.
        cuts = np.searchsorted(end_row_of_teacher, ideal_cuts, side="right")
        bounds = [0, *cuts.tolist(), len(end_row_of_teacher)]
        return [
            all_records.select(slice(first_teacher, last_teacher))
            for first_teacher, last_teacher in pairwise(bounds)
        ]

    @property
    def num_features(self) -> int:
        """The number of features of a record, the constant included."""
        return self.public_pca.width + 1

    @cached_property
    def _records_of_all_teachers(self) -> ShardRecords:
        """The records of all teachers that have at least one.

        Teachers with fewer records come first, and teachers of equal size in the order of their first records. So the
        records of teachers with one record stand as they do in the data set.
        """
        teacher_indices, first_row_of_teacher, teacher_sizes = np.unique(
            self.teacher_of, return_index=True, return_counts=True
        )
        order_of_teachers = np.lexsort((first_row_of_teacher, teacher_sizes))
        teacher_indices = teacher_indices[order_of_teachers]
        rank_of_teacher = np.empty(self.num_teachers, dtype=np.int64)
        rank_of_teacher[teacher_indices] = np.arange(len(teacher_indices))
        return ShardRecords(
            records=self,
            teacher_indices=teacher_indices,
            teacher_sizes=teacher_sizes[order_of_teachers],
            dataset_rows=np.argsort(rank_of_teacher[self.teacher_of], kind="stable"),
        )


@dataclass(frozen=True, eq=False, kw_only=True)  # a generated __eq__ fails on arrays
class ShardRecords:
    """The records of some whole teachers, in the order of a shard.

    Attributes:
        records: all private records.
        teacher_indices: `[num_teachers]`, the indices of the shard's teachers.
        teacher_sizes: `[num_teachers]`, the number of records of each of these teachers, >= 1; teachers of equal size
            stand together.
        dataset_rows: `[num_rows]`, the row of each record in the data set, sorted by teacher.
    """

    records: RoundRecords
    teacher_indices: IntArray
    teacher_sizes: IntArray
    dataset_rows: IntArray

    def empty_shard(self) -> RoundShard:
        """Returns a shard for these teachers that does not hold their records yet; it can be pickled."""
        records = self.records
        teacher_weights = (
            None
            if records.teacher_weights is None
            else records.teacher_weights[self.teacher_indices]
        )
        return RoundShard(
            public_pca=records.public_pca,
            teacher_sizes=self.teacher_sizes,
            num_labels=records.labels.shape[1],
            records_per_teacher=records.records_per_teacher,
            teacher_weights=teacher_weights,
            feature_storage=records.feature_storage,
        )

    def blocks(self) -> Iterator[RecordBlock]:
        """Yields blocks of the records in the order of the rows, and reports each block to `report_num_rows`."""
        row_bytes = np.dtype(np.float32).itemsize * math.prod(self.records.inputs.shape[1:])
        rows_at_once = max(1, _BLOCK_BYTES // row_bytes)
        for first_row in range(0, len(self.dataset_rows), rows_at_once):
            row_range = slice(first_row, min(first_row + rows_at_once, len(self.dataset_rows)))
            yield RecordBlock(
                inputs=self._read_inputs(row_range), labels=self._read_labels(row_range)
            )
            self.records.report_num_rows(row_range.stop - row_range.start)

    def filled_shard(self) -> RoundShard:
        """Returns the shard with its records, in this process.

        If features are made anew in each round, the shard reads the inputs from the data set and keeps no copy.
        """
        shard = self.empty_shard()
        if self.records.feature_storage.keeps_features:
            for record_block in self.blocks():
                shard.append(record_inputs=record_block.inputs, record_labels=record_block.labels)
        else:
            shard.read_from(
                self._read_inputs, labels=self._read_labels(slice(0, len(self.dataset_rows)))
            )
        return shard

    def select(self, teacher_range: slice) -> ShardRecords:
        """Returns the records of a range of this shard's teachers, by their position in `teacher_indices`."""
        first_row = int(self.teacher_sizes[: teacher_range.start].sum())
        num_rows = int(self.teacher_sizes[teacher_range].sum())
        return replace(
            self,
            teacher_indices=self.teacher_indices[teacher_range],
            teacher_sizes=self.teacher_sizes[teacher_range],
            dataset_rows=self.dataset_rows[first_row : first_row + num_rows],
        )

    def _read_inputs(self, row_range: slice) -> Float32Array:
        """Returns the inputs of a range of the shard's rows, float32 `[n, ...]`."""
        return np.asarray(self.records.inputs[self._dataset_rows(row_range)], dtype=np.float32)

    def _read_labels(self, row_range: slice) -> GapLabels:
        """Returns the labels of a range of the shard's rows, `[n, num_labels]`."""
        return self.records.labels[self._dataset_rows(row_range)]

    def _dataset_rows(self, row_range: slice) -> IntArray | slice:
        """Returns the row in the data set of each record in a range of the shard's rows, int `[n]`.

        If these rows are consecutive, the result is a slice.
        """
        dataset_rows = self.dataset_rows[row_range]
        if len(dataset_rows) > 0 and bool((np.diff(dataset_rows) == 1).all()):
            return slice(int(dataset_rows[0]), int(dataset_rows[-1]) + 1)
        return dataset_rows
