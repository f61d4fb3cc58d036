"""The sum of the votes in a round over a shard: the records of some whole teachers, sorted by teacher.

In every round the features of each record are multiplied by the student's weights, which gives the student's
probabilities. Then they are multiplied by the *residual*: the label minus the probability. A shard keeps the features
as whole numbers, or makes them anew from the inputs. It goes through its records by blocks, which fit into a
processor's cache if teachers have few records. Each block is read, predicted, clipped, cut to the grid and multiplied
in one pass, so no array of the residuals of all records exists, nor one of their features as floats. Blocks are
distributed over threads (`pate.pool.in_order`).

The sum of a shard is an exact sum of whole numbers (`ClippedMoments`). So the sum over all shards does not depend on
how teachers are distributed over shards, blocks, threads, processes or machines.

Source: docs/proofs/vote_rounds.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pate.array_types import Float32Array, FloatArray, IntArray
from pate.pool import in_order
from pate.validation import InvalidValue
from pate.votes.clipped_moments import FEATURE_STEPS
from pate.votes.feature_rows import (
    DEFAULT_STORAGE,
    FeaturesMadeAnew,
    FeatureStorage,
    feature_blocks,
)
from pate.votes.label_gaps import GapLabels, zero_where_unknown
from pate.votes.public_pca import PublicPCA
from pate.votes.round_votes import RoundQuestion

# The number of records whose features as doubles fit into a processor's cache.
_BLOCK_ROWS = 512
# The number of records that a thread processes at a time.
_CHUNK_ROWS = 8 * _BLOCK_ROWS
# The largest number of records of a teacher for which `ClippedMoments.sum_of_small` is faster than `sum_of_means`.
_MAX_SMALL_RECORDS = 32
# The largest number of records of one teacher that are multiplied at a time.
_MAX_PRODUCT_ROWS = 2**15
# The largest number of entries of the mean matrices that are clipped at a time.
_MAX_MEAN_ENTRIES = 2**24
_VECTOR_ROWS = 64  # a multiple of the numbers that a processor computes at once
# The bits of the length of a column of weights; a row of features has 14, so products have 52.
_WEIGHT_BITS = 38


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class PublicStudent:
    """The student of a round, which computes residuals, labels minus its probabilities, from exact logits.

    Features are whole numbers of steps of 2**-14, and weights are cut to whole numbers of a unit. Doubles hold the sums
    of their products exactly, as in `ExactMatrix`.

    Attributes:
        halved_weights: `[num_features, num_labels]`, half of the weights divided by 2**14, as features are in steps of
            2**-14. They are cut to 38 bits, relative to the length of the longest column.
    """

    halved_weights: FloatArray

    @classmethod
    def from_weights(cls, weights: FloatArray) -> PublicStudent:
        """Returns the student with these weights, cut to 38 bits relative to the length of the longest column.

        Args:
            weights: `[num_features, num_labels]`, for features of length 1.
        """
        halved_weights = weights / (2 * FEATURE_STEPS)
        longest_column = np.linalg.norm(halved_weights, axis=0).max()
        shift_bits = _WEIGHT_BITS - int(np.frexp(longest_column)[1])
        whole_weights = np.trunc(np.ldexp(halved_weights, shift_bits))
        return cls(halved_weights=np.ldexp(whole_weights, -shift_bits))

    def residuals(self, features: FloatArray, *, labels: GapLabels) -> Float32Array:
        """Returns labels minus the student's probabilities, float32 `[num_rows, num_labels]`; 0 for unknown labels.

        Args:
            features: `[num_rows, num_features]`, whole numbers of steps of 2**-14.
            labels: `[num_rows, num_labels]`, bool, or int8 if they have gaps.
        """
        # Rows of zeros are appended up to a multiple of `_VECTOR_ROWS`, as some processors compute the numbers that are
        # left over at the end of an array in another way.
        num_rows, num_labels = labels.shape
        num_padded_rows = num_rows + -num_rows % _VECTOR_ROWS
        probabilities = np.empty((num_padded_rows, num_labels), dtype=np.float32)
        probabilities[:num_rows] = features @ self.halved_weights
        probabilities[num_rows:] = 0
        # numpy's tanh takes a fifth of the time of a logistic function: p = (1 + tanh(logit / 2)) / 2.
        np.tanh(probabilities, out=probabilities)
        probabilities += 1
        probabilities *= 0.5
        return zero_where_unknown(np.asarray(labels - probabilities[:num_rows]), gap_labels=labels)


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class VotesFromPool:
    """The part of the votes of trained teachers that comes from their confidences on the public pool.

    Attributes:
        trust: the share of the student's probabilities that the confidences of a teacher replace, in [0, 1].
        compute_votes_of_teachers: returns the part of the votes of a range of the shard's teachers,
            `[num_teachers_in_range, num_features, num_labels]`.
    """

    trust: float
    compute_votes_of_teachers: Callable[[slice], FloatArray]


@dataclass(eq=False, repr=False, kw_only=True)  # a generated __eq__ fails on arrays
class RoundShard:
    """The records of some whole teachers, and the sum of these teachers' votes in a round.

    A shard without records can be pickled. A worker process fills its shard with `append`, and answers the question of
    each round with `total`.

    Attributes:
        public_pca: the directions of the public pool, along which the features of inputs are computed.
        teacher_sizes: `[num_teachers]`, the number of records of each teacher, >= 1; teachers of equal size stand
            together.
        num_labels: the number of labels.
        records_per_teacher: a mean over n records is multiplied by sqrt(n / records_per_teacher); None for a factor of
            1.
        teacher_weights: public, `[num_teachers]` in [0, 1], the weight of each teacher; None for 1.
        feature_storage: where the features lie between rounds.
    """

    public_pca: PublicPCA
    teacher_sizes: IntArray
    num_labels: int
    records_per_teacher: float | None
    teacher_weights: FloatArray | None = None
    feature_storage: FeatureStorage = DEFAULT_STORAGE

    def __post_init__(self) -> None:
        self.num_rows = int(self.teacher_sizes.sum())
        self._num_appended = 0

    # A shard gets its records either by `append`, a block at a time, or by `read_from`, all at once.

    def append(self, record_inputs: Float32Array, record_labels: GapLabels) -> None:
        """Adds the next records, and makes their features if the storage keeps features.

        Args:
            record_inputs: float32 `[n, ...]`, in the order of the teachers in `teacher_sizes`.
            record_labels: `[n, num_labels]`.
        """
        if self._num_appended == 0:
            self._appended = self.feature_storage.empty_rows()
            labels_shape = (self.num_rows, self.num_labels)
            self._labels: GapLabels = np.empty_like(record_labels, shape=labels_shape)
        end = self._num_appended + len(record_labels)
        self._labels[self._num_appended : end] = record_labels
        self._num_appended = end
        if self.feature_storage.keeps_features:
            for features in feature_blocks(self.public_pca, record_inputs=record_inputs):
                self._appended.append(features)
        else:
            self._appended.append(np.array(record_inputs))
        if self._num_appended == self.num_rows:
            appended_rows = self._appended.whole()
            if not self.feature_storage.keeps_features:
                appended_rows = FeaturesMadeAnew(
                    self.public_pca, read_inputs=appended_rows.__getitem__
                )
            self._features: Any = appended_rows

    def read_from(self, read_inputs: Callable[[slice], Float32Array], labels: GapLabels) -> None:
        """Sets all records at once; their features are made anew in each round.

        Args:
            read_inputs: returns the inputs of a range of rows, float32 `[n, ...]`; threads call it at the same time.
            labels: `[num_rows, num_labels]`.
        """
        self._features = FeaturesMadeAnew(self.public_pca, read_inputs=read_inputs)
        self._labels = labels
        self._num_appended = len(labels)

    def close(self) -> None:
        """Releases memory and files; the records must be added again before another round."""
        # `append` and `read_from` set these attributes. Memory is free only once the shard has none of them.
        for attribute_name in ("_appended", "_features", "_labels"):
            self.__dict__.pop(attribute_name, None)
        self._num_appended = 0

    def features(self, row_range: slice) -> FloatArray:
        """Returns the features of a range of rows, `[n, num_features]`, whole numbers of steps of 2**-14."""
        return np.asarray(self._features[row_range].astype(np.float64))

    def residuals(
        self, student: PublicStudent, *, features: FloatArray, row_range: slice
    ) -> Float32Array:
        """Returns the student's residuals on a range of rows, float32 `[n, num_labels]`.

        Args:
            student: the student of the round.
            features: `[n, num_features]`, the features of these rows.
            row_range: the range of rows.
        """
        return student.residuals(features, labels=self._labels[row_range])

    def total(
        self, question: RoundQuestion, *, votes_from_pool: VotesFromPool | None = None
    ) -> IntArray:
        """Returns the sum of the clipped votes of the shard's teachers, `[num_features, num_labels]`, in grid steps.

        Each vote counts with its teacher's weight.

        Args:
            question: the student's weights, the factor of each label, and the clip of the round.
            votes_from_pool: the part of trained teachers' votes that comes from the pool; None for other teachers.

        Raises:
            InvalidValue: fewer records were added than `teacher_sizes` says.
        """
        if self._num_appended != self.num_rows:
            rule = f"{self.num_rows}, the records of the shard's teachers"
            raise InvalidValue("num_records", self._num_appended, rule=rule)
        student = PublicStudent.from_weights(question.student_weights)

        def sum_votes_of_chunk(chunk: EqualSizes) -> IntArray:
            """Returns the sum of the clipped votes of some teachers, `[num_features, num_labels]`, in grid steps."""
            if votes_from_pool is None and chunk.teacher_size <= _MAX_SMALL_RECORDS:
                block_sums = [
                    self._sum_of_small(teacher_block, question=question, student=student)
                    for teacher_block in chunk.blocks(max_rows=_BLOCK_ROWS)
                ]
            else:
                max_teachers = max(1, _MAX_MEAN_ENTRIES // question.student_weights.size)
                block_sums = [
                    self._sum_of_means(
                        teacher_block,
                        question=question,
                        student=student,
                        votes_from_pool=votes_from_pool,
                    )
                    for teacher_block in chunk.blocks(max_rows=max_teachers * chunk.teacher_size)
                ]
            return np.asarray(sum(block_sums))

        total = np.zeros(question.student_weights.shape, dtype=np.int64)
        teacher_chunks = equal_sizes(self.teacher_sizes, max_rows=_CHUNK_ROWS)
        for chunk_total in in_order(sum_votes_of_chunk, items=teacher_chunks):
            total += chunk_total
        return total

    def _sum_of_small(
        self, teacher_block: EqualSizes, *, question: RoundQuestion, student: PublicStudent
    ) -> IntArray:
        """Returns the sum of the clipped votes of teachers with few records each, `[num_features, num_labels]`.

        The sum is in grid steps. No mean matrix of a single teacher is computed, which saves time.
        """
        features = self.features(teacher_block.row_range)
        residual_scale_of_label = self._scale(question, teacher_block=teacher_block)
        residuals = (
            self.residuals(student, features=features, row_range=teacher_block.row_range)
            * residual_scale_of_label
        )
        teacher_weights = self._weights_of(teacher_block)
        if teacher_block.teacher_size == 1:
            return question.moment_clipping.sum_of_single(
                features, residuals=residuals, teacher_weights=teacher_weights
            )
        return question.moment_clipping.sum_of_small(
            features.reshape(teacher_block.num_teachers, teacher_block.teacher_size, -1),
            residuals=residuals.reshape(teacher_block.num_teachers, teacher_block.teacher_size, -1),
            teacher_weights=teacher_weights,
        )

    def _sum_of_means(
        self,
        teacher_block: EqualSizes,
        *,
        question: RoundQuestion,
        student: PublicStudent,
        votes_from_pool: VotesFromPool | None,
    ) -> IntArray:
        """Returns the sum of the clipped votes of teachers, `[num_features, num_labels]`, in grid steps.

        It is computed from the mean matrix of each teacher, which suits any number of records; see `_means`.
        """
        vote_matrices = self._means(
            teacher_block, question=question, student=student, votes_from_pool=votes_from_pool
        )
        return question.moment_clipping.sum_of_means(
            vote_matrices, teacher_weights=self._weights_of(teacher_block)
        )

    def _means(
        self,
        teacher_block: EqualSizes,
        *,
        question: RoundQuestion,
        student: PublicStudent,
        votes_from_pool: VotesFromPool | None,
    ) -> FloatArray:
        """Returns the votes of teachers before the clip, `[num_teachers, num_features, num_labels]`.

        The vote of a teacher is the mean of features x residual^T over its records. With `votes_from_pool`, the
        residual has only the part 1 - `votes_from_pool.trust` of the student's probability, and the part from the pool
        is added.

        Args:
            teacher_block: teachers with equally many records.
            question: the student's weights and the scale of each label.
            student: the student of the round, which gives the probabilities.
            votes_from_pool: the part of trained teachers' votes that comes from the pool; None for other teachers.
        """
        num_teachers = teacher_block.num_teachers
        residual_scale_of_label = self._scale(question, teacher_block=teacher_block)
        sums = np.zeros((num_teachers, *question.student_weights.shape))
        for row_range in teacher_block.row_ranges(max_rows=_MAX_PRODUCT_ROWS):
            features = self.features(row_range)
            residuals = self.residuals(student, features=features, row_range=row_range).astype(
                np.float64
            )
            if votes_from_pool is not None:
                # Here the residuals are y - (1 - trust) p; the part of the pool has the remainder.
                residuals *= 1 - votes_from_pool.trust
                labels = self._labels[row_range]
                labels_or_0 = zero_where_unknown(labels.astype(np.float64), gap_labels=labels)
                residuals += votes_from_pool.trust * labels_or_0
            residuals *= residual_scale_of_label
            features_by_teacher = features.reshape(num_teachers, -1, features.shape[1])
            residuals_by_teacher = residuals.reshape(num_teachers, -1, len(residual_scale_of_label))
            sums += features_by_teacher.transpose(0, 2, 1) @ residuals_by_teacher
        vote_matrices = sums / (FEATURE_STEPS * teacher_block.teacher_size)
        if votes_from_pool is not None:
            vote_matrices += (
                votes_from_pool.compute_votes_of_teachers(teacher_block.teacher_range)
                * question.label_scale
            )
        return vote_matrices

    def _scale(self, question: RoundQuestion, *, teacher_block: EqualSizes) -> FloatArray:
        """Returns the factor that residuals of each label are multiplied by, `[num_labels]`.

        It is `question.label_scale`. If `records_per_teacher` is a number, it is also multiplied by `vote_factor`: the
        root of n / `records_per_teacher`, where n is the number of records of each teacher in the block.
        """
        if self.records_per_teacher is None:
            return question.label_scale
        return question.label_scale * vote_factor(
            num_records_of_teacher=teacher_block.teacher_size,
            records_per_teacher=self.records_per_teacher,
        )

    def _weights_of(self, teacher_block: EqualSizes) -> FloatArray | float:
        """Returns the public weights of a block's teachers, `[num_teachers]`; the number 1 if teachers have none."""
        return (
            1.0
            if self.teacher_weights is None
            else self.teacher_weights[teacher_block.teacher_range]
        )


def vote_factor(*, num_records_of_teacher: int, records_per_teacher: float) -> float:
    """Returns the factor that a teacher's mean over its records is multiplied by to become its vote.

    It is the root of `num_records_of_teacher / records_per_teacher`, so that the votes of all teachers have about the
    same length.
    """
    return math.sqrt(num_records_of_teacher / records_per_teacher)


@dataclass(frozen=True)
class EqualSizes:
    """Some teachers of a shard with equal numbers of records, which stand side by side.

    Attributes:
        teacher_size: the number of records of each teacher.
        teacher_range: the range of the teachers among those of the shard.
        first_row: the row in the shard of the first teacher's first record.
    """

    teacher_size: int
    teacher_range: slice
    first_row: int

    @property
    def num_teachers(self) -> int:
        """The number of teachers."""
        return int(self.teacher_range.stop - self.teacher_range.start)

    @property
    def row_range(self) -> slice:
        """The range of rows in the shard that hold the records of these teachers."""
        return slice(self.first_row, self.first_row + self.teacher_size * self.num_teachers)

    def blocks(self, max_rows: int) -> Iterator[EqualSizes]:
        """Yields the teachers in blocks of at most `max_rows` records; a teacher with more is a block of its own."""
        first = self.teacher_range.start
        last = self.teacher_range.stop
        teachers_at_once = max(1, max_rows // self.teacher_size)
        for start in range(first, last, teachers_at_once):
            yield EqualSizes(
                teacher_size=self.teacher_size,
                teacher_range=slice(start, min(start + teachers_at_once, last)),
                first_row=self.first_row + (start - first) * self.teacher_size,
            )

    def row_ranges(self, max_rows: int) -> Iterator[slice]:
        """Yields the rows of the records of all these teachers as one range, of any length.

        Only if there is a single teacher, its rows are cut into ranges of at most `max_rows`.
        """
        row_range = self.row_range
        rows_at_once = max_rows if self.num_teachers == 1 else row_range.stop - row_range.start
        for start in range(row_range.start, row_range.stop, rows_at_once):
            yield slice(start, min(start + rows_at_once, row_range.stop))


def equal_sizes(teacher_sizes: IntArray, *, max_rows: int) -> Iterator[EqualSizes]:
    """Yields the teachers of a shard in blocks with equal numbers of records.

    Args:
        teacher_sizes: `[num_teachers]`, the number of records of each teacher; teachers of equal size stand together.
        max_rows: the largest number of records of a block with several teachers.
    """
    first_teachers = np.flatnonzero(np.diff(teacher_sizes, prepend=0, append=0))
    first_row = 0
    for first, last in pairwise(first_teachers.tolist()):
        teacher_size = int(teacher_sizes[first])
        teachers_of_equal_size = EqualSizes(
            teacher_size=teacher_size, teacher_range=slice(first, last), first_row=first_row
        )
        yield from teachers_of_equal_size.blocks(max_rows=max_rows)
        first_row = teachers_of_equal_size.row_range.stop
