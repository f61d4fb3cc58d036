"""Exact sums of clipped votes in rounds, where a vote is a mean product of features and residuals.

A *residual* is the label of a record minus the probability that the student of the round predicts. A teacher's vote is
the mean over its records of feature x residual^T, a matrix `[num_features, num_labels]`. The matrix is clipped to a
fixed length, and the matrices of all teachers are added in whole steps, as in `pate.votes.clipping`. A matrix for each
of a million teachers would take most of a run's time. So there are three ways to compute the sum, by the number of
records of a teacher:

- One record: the product is at most as long as the residual, as features have length at most 1. Residuals are clipped,
  and the sum over teachers is one matrix product of whole numbers.
- A few records: the length of the mean is computed from the n x n products of features and of residuals.
- Many records: the mean matrix is computed, clipped, and rounded to the grid.

Features are rounded towards 0 to multiples of 2**-14, residuals to a grid of their own. So no vector becomes longer.
Products are multiples of `step`, the product of both grids. The sum of a block of teachers is below 2**53, so doubles
hold it exactly. The sums of blocks are added as int64. So the sum is exact in any order.

Source: docs/proofs/vote_rounds.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency
from pate.array_types import FloatArray, IntArray
from pate.errors import InvalidValue
from pate.validation import require, require_count, require_positive
from pate.votes.clipping import (
    FLOAT_ERROR,
    MIN_CLIP,
    finite_lengths,
    require_finite_lengths,
)

Floats = NDArray[np.floating]  # features may be float32 or float64

FEATURE_STEPS = 2.0**14
"""The number of steps of the grid in a feature vector of length 1."""

# The least number of steps of the grid of residuals in a clip.
_RESIDUAL_STEPS = 2.0**15
# The bound on the sum over all teachers, in steps: an int64 has room for the noise beside it.
_LARGEST_TOTAL = 2.0**62
# Lengths are divided by at least this number.
_MIN_LENGTH = 1e-300
# The products of few records may cancel each other. If their lengths add up to more than this multiple of the length of
# their sum, the computed length is mostly rounding, and the sum of lengths divided by this number takes its place.
_MAX_CANCELLATION = 64


@dataclass(frozen=True)
class ClippedMoments:
    """The sum over teachers of their mean of feature x residual^T, each mean scaled down to `clip` if it is longer.

    Rule: features have length at most 1 and are rounded towards 0 to multiples of 2**-14. Residuals have a grid of
    their own. For a teacher with one record, the residual is clipped and rounded to that grid. For a teacher with a few
    records, all residuals are scaled down together and rounded, with room for the effect of rounding. For a teacher
    with many records, the mean is clipped and rounded to the product of both grids. All sums are of whole numbers,
    below 2**53 for a block of teachers and below 2**62 for all teachers: exact in any order.

    Formal guarantee: one change replaces the records of a teacher by any others (replace-one), or adds or removes a
    teacher (add/remove). It moves the sum by at most `l2_sensitivity` steps in l2. The vote and the clip of a teacher
    of weight w are multiplied by w, and the teacher moves the sum by at most w times as much. The clip is public or was
    released. Source: docs/proofs/vote_rounds.md.

    Attributes:
        clip: the largest length of a mean, > 0.
        num_teachers: the declared number of teachers.
        adjacency: the adjacency of the release.
    """

    clip: float
    num_teachers: int
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        require_positive("clip", self.clip)
        require(self.clip >= MIN_CLIP, "clip", self.clip, f"at least {MIN_CLIP:g}")
        require_count("num_teachers", self.num_teachers)
        # A clip has fewer than 2 * _RESIDUAL_STEPS steps of the grid of residuals.
        largest_total = self.num_teachers * FEATURE_STEPS * 2 * _RESIDUAL_STEPS
        if largest_total >= _LARGEST_TOTAL:
            rule = "fewer teachers for sums of 62 bits"
            raise InvalidValue("num_teachers", self.num_teachers, rule=rule)

    @property
    def step(self) -> float:
        """The spacing of the grid of the sum, a power of 2."""
        return 1 / (FEATURE_STEPS * self._residual_steps)

    @property
    def l2_sensitivity(self) -> float:
        """The largest l2 distance, in steps (`step`), by which one change moves the sum.

        This is about two clips under replace-one, and one clip under add/remove.
        """
        return self.adjacency.num_moved * self.clip / self.step * (1 + FLOAT_ERROR)

    def sum_of_single(
        self, features: Floats, *, residuals: FloatArray, teacher_weights: FloatArray | float = 1.0
    ) -> IntArray:
        """Returns the clipped votes, summed, of teachers with one record: `[num_features, num_labels]`, in grid steps.

        Args:
            features: `[num_teachers, num_features]`, whole numbers of steps of 2**-14.
            residuals: `[num_teachers, num_labels]`, labels minus probabilities.
            teacher_weights: `[num_teachers]` in [0, 1], the weight of each teacher, or one number for all.
        """
        factors = self._clip_factors(residuals) * teacher_weights * self._residual_steps
        whole_residuals = residuals * factors[:, None]
        np.trunc(whole_residuals, out=whole_residuals)
        # The product is exact in any order; this order is the fastest.
        products = whole_residuals.T @ features.astype(np.float64, copy=False)
        return np.asarray(products.T.astype(np.int64))

    def sum_of_small(
        self, features: Floats, *, residuals: FloatArray, teacher_weights: FloatArray | float = 1.0
    ) -> IntArray:
        """Returns the clipped votes, summed, of teachers with few records: `[num_features, num_labels]`, in grid steps.

        The mean matrix of a single teacher is not computed. Its length comes from the n x n products of the teacher's
        features and of its residuals.

        Args:
            features: `[num_teachers, n, num_features]`, whole numbers of steps of 2**-14, for n <= 32 records of each
                teacher. `num_teachers * n` is at most 4096.
            residuals: `[num_teachers, n, num_labels]`.
            teacher_weights: `[num_teachers]` in [0, 1], the weight of each teacher, or one number for all.
        """
        num_teachers, num_records, num_labels = residuals.shape
        teacher_weights = np.broadcast_to(teacher_weights, num_teachers)
        weighted_residuals = residuals / num_records * teacher_weights[:, None, None]
        float64_features = features.astype(np.float64, copy=False)
        # |sum_i f_i r_i^T|^2 = sum_ij (f_i . f_j) (r_i . r_j), as in ghost clipping (Li et al. 2022).
        feature_products = float64_features @ float64_features.transpose(0, 2, 1)
        residual_products = weighted_residuals @ weighted_residuals.transpose(0, 2, 1)
        squared_lengths = (feature_products * residual_products / FEATURE_STEPS**2).sum(axis=(1, 2))
        lengths = np.sqrt(np.maximum(squared_lengths, 0))
        squared_residuals_of_labels = weighted_residuals**2
        uncanceled_lengths = np.sqrt(squared_residuals_of_labels.sum(axis=2)).sum(axis=1)
        require_finite_lengths(uncanceled_lengths)
        lengths = np.maximum(lengths, uncanceled_lengths / _MAX_CANCELLATION)
        # Rounding moves each entry of a residual by less than a step, so the lengths get that much room.
        rounding_room = num_records * math.sqrt(num_labels) / self._residual_steps
        allowed_lengths = np.maximum(teacher_weights * self.clip - rounding_room, 0.0)
        divisors = np.maximum(lengths, np.maximum(allowed_lengths, _MIN_LENGTH))
        factors = allowed_lengths / divisors
        whole_residuals = np.trunc(
            weighted_residuals * (factors * self._residual_steps)[:, None, None]
        )
        num_rows = num_teachers * num_records
        products = float64_features.reshape(num_rows, -1).T @ whole_residuals.reshape(
            num_rows, num_labels
        )
        return np.asarray(products.astype(np.int64))

    def sum_of_means(
        self, mean_matrices: FloatArray, *, teacher_weights: FloatArray | float = 1.0
    ) -> IntArray:
        """Returns the sum of mean matrices, each clipped, `[num_features, num_labels]` in steps (`step`).

        Args:
            mean_matrices: `[num_teachers, num_features, num_labels]`, of features no longer than 1.
            teacher_weights: `[num_teachers]` in [0, 1], the weight of each teacher, or one number for all.
        """
        vectors = mean_matrices.reshape(len(mean_matrices), -1)
        clipped = vectors * (self._clip_factors(vectors) * teacher_weights / self.step)[:, None]
        flat_total = np.trunc(clipped).sum(axis=0).astype(np.int64)
        return np.asarray(flat_total.reshape(mean_matrices.shape[1:]))

    @property
    def _residual_steps(self) -> float:
        """The reciprocal of the spacing of the grid to which residuals are rounded toward 0; it is a power of 2.

        The spacing doubles at each clip that is a power of 2, so that a large clip has a coarse grid.
        """
        return float(_RESIDUAL_STEPS / 2.0 ** math.floor(math.log2(self.clip)))

    def _clip_factors(self, vectors: FloatArray) -> FloatArray:
        """Returns the factor of each row that scales the row down to the clip, `[num_rows]`; 1 for a shorter row.

        Args:
            vectors: `[num_rows, num_columns]`.
        """
        return np.asarray(self.clip / np.maximum(finite_lengths(vectors), self.clip))
