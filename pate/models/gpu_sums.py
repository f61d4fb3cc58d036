"""Sums of votes in rounds on a GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import FloatArray, IntArray
from pate.device import device_memory, torch
from pate.votes.clipped_moments import FEATURE_STEPS
from pate.votes.clipping import require_finite_lengths
from pate.votes.feature_rows import whole_features
from pate.votes.round_records import RoundRecords, ShardRecords
from pate.votes.round_shard import EqualSizes, PublicStudent, equal_sizes, vote_factor
from pate.votes.round_sums import RoundSums
from pate.votes.round_votes import RoundQuestion

if TYPE_CHECKING:
    from torch import Tensor

_MAX_ROWS = 2**17  # the largest number of rows of features that are doubles at a time
_MAX_ENTRIES = 2**25  # the largest number of entries of teachers' votes at a time
# The bits of a residual in units of the largest one, and of the sum of residuals over a teacher's records. A feature
# has 14 bits, so sums of products have at most 52.
_RESIDUAL_BITS = 26
_PRODUCT_BITS = 38
_ADVICE = "engine=threads or engine=processes computes on processors"


class GpuSums(RoundSums):
    """Sums of clipped votes on a GPU, whose memory holds features as int16, labels and teachers' weights.

    In each round the votes of all teachers are summed. The vote of a teacher is clipped and cut to whole numbers by a
    rule of `ClippedMoments`: that for one record, or that for a mean over many. So a teacher moves a sum by no more
    than the price covers. Products of matrices are products of whole numbers, which doubles hold exactly. So a vote
    does not depend on the records of other teachers. A GPU rounds a hyperbolic tangent in another way than numpy. So a
    sum may differ by some steps from that of a processor.

    Args:
        private_records: the private records of all teachers.
        device: the GPU.
    """

    def __init__(self, private_records: RoundRecords, device: torch.device) -> None:
        self._records = private_records
        self._device = device

    def total(self, question: RoundQuestion) -> IntArray:
        """Returns the sum of the clipped votes of all teachers, each times its weight, `[num_features, num_labels]`.

        The sum is a whole number of steps, the unit of `ClippedMoments`.

        Args:
            question: the student's weights, the factors of the labels, and the clip of the round.

        Raises:
            DeviceFull: the memory of the GPU is too small.
        """
        with device_memory(advice=_ADVICE), torch.inference_mode():
            halved_student_weights = self._tensor(
                PublicStudent.from_weights(question.student_weights).halved_weights
            )
            total = torch.zeros_like(halved_student_weights, dtype=torch.int64)
            for teacher_block in self._blocks(num_student_weights=question.student_weights.size):
                block_sum = self._sum_of_block(
                    teacher_block, question=question, halved_student_weights=halved_student_weights
                )
                total += block_sum.to(torch.int64)
            return np.asarray(total.cpu().numpy())

    def close(self) -> None:
        """Releases the memory of the GPU."""
        for property_name in ("_features", "_labels", "_weights"):
            self.__dict__.pop(property_name, None)

    def _sum_of_block(
        self, teacher_block: EqualSizes, *, question: RoundQuestion, halved_student_weights: Tensor
    ) -> Tensor:
        """Returns the sum of the clipped votes of some teachers, `[num_features, num_labels]`, in grid steps.

        Each vote is multiplied by its teacher's weight, and cut to whole numbers. They are returned as doubles.

        Args:
            teacher_block: teachers with equal numbers of records.
            question: the student's weights, the factor of each label, and the clip of the round.
            halved_student_weights: half of the student's weights, `[num_features, num_labels]`, as in `PublicStudent`.
        """
        label_scale = question.label_scale
        records_per_teacher = self._records.records_per_teacher
        if records_per_teacher is not None:
            label_scale = label_scale * vote_factor(
                num_records_of_teacher=teacher_block.teacher_size,
                records_per_teacher=records_per_teacher,
            )
        moment_clipping = question.moment_clipping
        teacher_weights = self._weights[teacher_block.teacher_range]
        if teacher_block.teacher_size == 1:
            features = self._features[teacher_block.row_range].to(torch.float64)
            residuals = self._residuals(
                features,
                row_range=teacher_block.row_range,
                halved_student_weights=halved_student_weights,
            )
            residuals = residuals * self._tensor(label_scale)
            vote_factors = _clip_factors(residuals, clip=moment_clipping.clip) * teacher_weights
            vote_factors = vote_factors / (FEATURE_STEPS * moment_clipping.step)
            return features.T @ torch.trunc(residuals * vote_factors[:, None])
        unclipped_votes_of_teachers = self._means(
            teacher_block, label_scale=label_scale, halved_student_weights=halved_student_weights
        )
        vote_factors = (
            _clip_factors(
                unclipped_votes_of_teachers.flatten(start_dim=1), clip=moment_clipping.clip
            )
            * teacher_weights
        )
        vote_factors = vote_factors / moment_clipping.step
        return torch.trunc(unclipped_votes_of_teachers * vote_factors[:, None, None]).sum(dim=0)

    def _means(
        self, teacher_block: EqualSizes, *, label_scale: FloatArray, halved_student_weights: Tensor
    ) -> Tensor:
        """Returns the votes of teachers before the clip, `[num_teachers, num_features, num_labels]`.

        A vote is the mean over a teacher's records of features times residuals. A residual is a label minus the
        student's probability, times `label_scale`. Residuals are cut to whole numbers, so small that doubles
        hold the sums over a teacher's records exactly.

        Args:
            teacher_block: teachers with equal numbers of records.
            label_scale: `[num_labels]`, the factor of each label's residuals.
            halved_student_weights: half of the student's weights, `[num_features, num_labels]`, as in `PublicStudent`.
        """
        record_bits = (teacher_block.teacher_size - 1).bit_length()
        residual_bits = min(_RESIDUAL_BITS, _PRODUCT_BITS - record_bits)
        _, largest_exponent = math.frexp(label_scale.max())
        residual_unit = math.ldexp(1.0, largest_exponent - residual_bits)
        steps_per_residual = self._tensor(label_scale / residual_unit)
        sums = torch.zeros(
            (teacher_block.num_teachers, *halved_student_weights.shape),
            dtype=torch.float64,
            device=self._device,
        )
        for row_range in teacher_block.row_ranges(max_rows=_MAX_ROWS):
            features = self._features[row_range].to(torch.float64)
            residuals = self._residuals(
                features, row_range=row_range, halved_student_weights=halved_student_weights
            )
            whole_residuals = torch.trunc(residuals * steps_per_residual)
            features_by_teacher = features.view((teacher_block.num_teachers, -1, features.shape[1]))
            residuals_by_teacher = whole_residuals.view(
                (teacher_block.num_teachers, -1, len(label_scale))
            )
            sums += features_by_teacher.mT @ residuals_by_teacher
        return sums * (residual_unit / (FEATURE_STEPS * teacher_block.teacher_size))

    def _residuals(
        self, features: Tensor, *, row_range: slice, halved_student_weights: Tensor
    ) -> Tensor:
        """Returns labels minus the student's probabilities, float64 `[n, num_labels]`; 0 where a label is unknown.

        Args:
            features: the features of n records, whole numbers as doubles, `[n, num_features]`.
            row_range: the rows of these records among all records.
            halved_student_weights: half of the student's weights, `[num_features, num_labels]`, as in `PublicStudent`.
        """
        labels = self._labels[row_range]
        probabilities = (
            1 + torch.tanh((features @ halved_student_weights).to(torch.float32))
        ) * 0.5
        residuals = (labels.to(torch.float32) - probabilities).to(torch.float64)
        if labels.dtype == torch.bool:
            return residuals
        # An unknown label is less than 0 (`pate.votes.label_gaps`).
        return residuals.masked_fill_(mask=labels < 0, value=0)

    def _blocks(self, num_student_weights: int) -> Iterator[EqualSizes]:
        """Yields all teachers in blocks with equal numbers of records, each small enough for the memory of the GPU.

        Args:
            num_student_weights: the number of entries of a vote, num_features * num_labels.
        """
        max_teachers = max(1, _MAX_ENTRIES // num_student_weights)
        for block in equal_sizes(self._shard.teacher_sizes, max_rows=_MAX_ROWS):
            if block.teacher_size == 1:
                yield block
            else:
                yield from block.blocks(max_rows=max_teachers * block.teacher_size)

    @cached_property
    def _shard(self) -> ShardRecords:
        """The rows of all teachers' records, grouped by teacher, as the only shard."""
        (shard_of_all_teachers,) = self._records.shards(num_shards=1)
        return shard_of_all_teachers

    @cached_property
    def _features(self) -> Tensor:
        """The features of all records, int16 `[num_rows, num_features]`, in the order of `_shard`."""
        features_shape = (len(self._shard.dataset_rows), self._records.num_features)
        features = torch.empty(features_shape, dtype=torch.int16, device=self._device)
        first = 0
        for block in self._shard.blocks():
            last = first + len(block.labels)
            block_features = whole_features(self._records.public_pca, record_inputs=block.inputs)
            features[first:last] = self._tensor(block_features)
            first = last
        return features

    @cached_property
    def _labels(self) -> Tensor:
        """The labels of all records, `[num_rows, num_labels]`, in the order of `_shard`: bool, or int8 if with gaps."""
        return self._tensor(self._records.labels[self._shard.dataset_rows])

    @cached_property
    def _weights(self) -> Tensor:
        """The weight of each teacher in the sum, float64 `[num_teachers]`, in the order of `_shard`; 1 by default."""
        teacher_indices = self._shard.teacher_indices
        weights_of_teachers = self._records.teacher_weights
        return self._tensor(
            np.ones(len(teacher_indices))
            if weights_of_teachers is None
            else weights_of_teachers[teacher_indices]
        )

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        """Returns an array as a tensor on the GPU."""
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)


def _clip_factors(vectors: Tensor, *, clip: float) -> Tensor:
    """Returns the factor of each row that shortens it to the length `clip`, `[num_rows]`; 1 for a shorter row.

    Squares are added in an order that depends on the number of columns alone: halves of the columns are added, entry by
    entry. A library would choose an order by the number of rows, so that a row's factor would depend on other rows.

    Args:
        vectors: `[num_rows, num_columns]`.
        clip: the largest length of a row after the multiplication, > 0.

    Raises:
        InvalidValue: a length is not finite.
    """
    squares = vectors * vectors
    while (width := squares.shape[1]) > 1:
        half = width // 2
        sums = squares[:, : width - half].clone()
        sums[:, :half] += squares[:, width - half :]
        squares = sums
    lengths = torch.sqrt(squares[:, 0])
    require_finite_lengths(lengths.cpu().numpy())
    return clip / torch.clamp(lengths, min=clip)
