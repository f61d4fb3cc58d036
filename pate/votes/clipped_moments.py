"""Sums of clipped mean products of features and residuals, in whole steps: the votes of one round.

A teacher's vote is the mean over its records of feature x residual^T, a matrix `[D, L]`. It is clipped to one length,
and the matrices of all teachers are added in whole steps, as in `pate.votes.clipping`. Forming a matrix for each of a
million teachers would take most of a run's time. So the three sums below form as few as they can:

- a teacher with one record: its product is as long as its residual, as features have length 1 at most. Residuals are
  clipped, and the sum over teachers is one product of two matrices of whole numbers;
- a teacher with few records: the length of the mean comes from the n x n products of the features and of the residuals;
- a teacher with many: the mean is formed, clipped and cut.

Features are cut to multiples of 2**-14, residuals to a grid of their own, both towards 0, so that nothing becomes
longer. Products are multiples of the product of both grids, `step`; sums below 2**53 are exact in any order.

Source: docs/proofs/vote_rounds.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency
from pate.validation import require, require_count, require_positive
from pate.votes.clipping import (
    FLOAT_ERROR,
    LARGEST_SUM,
    LEAST_CLIP,
    finite_lengths,
    require_finite_lengths,
)
from pate.votes.weighted import Integers

Array = NDArray[np.float64]

FEATURE_STEPS = 2.0**14
"""Steps of the grid in a feature vector of length 1."""

_RESIDUAL_STEPS = 2.0**15  # in a clip, at least
_SMALLEST_LENGTH = 1e-300
# The residuals of a teacher with few records may have so many clips before they cancel each other: beyond, the length
# that comes from products of records is mostly rounding, and a lower bound stands in for it.
_MOST_CANCELED = 64


@dataclass(frozen=True)
class ClippedMoments:
    """The sum of feature x residual^T `[D, L]`, a teacher's mean over its records, scaled down to `clip` if longer.

    Rule: features have length at most 1 and are cut to multiples of 2**-14, towards 0. Residuals have a grid of their
    own. The residual of a teacher with one record is clipped and cut to that grid, so that the sum over teachers is one
    product of whole numbers below 2**53: exact, in whatever order it is added. The residuals of a teacher with a few
    records are scaled down together and cut to the grid, with room for the effect of cutting. The mean product of a
    teacher with many records is clipped and cut to the product of both grids.

    Formal guarantee: one change (a teacher's records replaced by any others; a teacher added or removed) moves the sum
    by at most `l2_sensitivity` steps in l2. A teacher of weight w, by which its vote and its clip are multiplied, moves
    it by at most w times that. The clip is public or was released. Source: docs/proofs/vote_rounds.md.

    Attributes:
        clip: the greatest length, > 0.
        num_teachers: N, declared.
        adjacency: what one change means.
    """

    clip: float
    num_teachers: int
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        require_positive("clip", self.clip)
        require(self.clip >= LEAST_CLIP, "clip", self.clip, f"at least {LEAST_CLIP:g}")
        require_count("num_teachers", self.num_teachers)
        largest = self.num_teachers * FEATURE_STEPS * 2 * _RESIDUAL_STEPS
        rule = "fewer teachers for sums of 53 bits"
        require(largest < LARGEST_SUM, "num_teachers", self.num_teachers, rule)

    @property
    def step(self) -> float:
        """The grid's spacing: a power of 2."""
        return 1 / (FEATURE_STEPS * self._residual_steps)

    @property
    def l2_sensitivity(self) -> float:
        """The l2 sensitivity in steps: two clips where a teacher is replaced, one where it comes or goes."""
        return self.adjacency.num_moved * self.clip / self.step * (1 + FLOAT_ERROR)

    def sum_of_single(
        self, features: NDArray[np.float32], residuals: Array, weights: Array | float = 1.0
    ) -> Integers:
        """Returns the sum over n teachers with one record each, `[D, L]` in steps.

        Args:
            features: `[n, D]`, whole numbers of steps of 2**-14.
            residuals: `[n, L]`.
            weights: `[n]`, or one for all, in [0, 1].
        """
        clipped = residuals * (self._factors(residuals) * weights)[:, None]
        # products are exact in any order; this one is the fastest
        whole = np.trunc(clipped * self._residual_steps)
        return np.asarray((whole.T @ features.astype(np.float64)).T.astype(np.int64))

    def sum_of_small(
        self, features: NDArray[np.float32], residuals: Array, weights: Array | float = 1.0
    ) -> Integers:
        """Returns the sum over c teachers with n records each, whose products are not formed one by one.

        The length of a teacher's mean product comes from the n x n products of its features and of its residuals.

        Args:
            features: `[c, n, D]`, whole numbers of steps of 2**-14, with c n <= 4096 and n <= 32.
            residuals: `[c, n, L]`.
            weights: `[c]`, or one for all, in [0, 1].
        """
        num_teachers, num_records, num_labels = residuals.shape
        teacher_weights = np.broadcast_to(weights, num_teachers)
        parts = residuals / num_records * teacher_weights[:, None, None]
        wide = features.astype(np.float64)
        # |sum_i f_i r_i^T|^2 = sum_ij (f_i . f_j) (r_i . r_j)
        feature_products = wide @ wide.transpose(0, 2, 1)
        part_products = parts @ parts.transpose(0, 2, 1)
        squares = feature_products * part_products / FEATURE_STEPS**2
        lengths = np.sqrt(np.maximum(squares.sum(axis=(1, 2)), 0))
        uncanceled = np.sqrt((parts**2).sum(axis=2)).sum(axis=1)
        require_finite_lengths(uncanceled)
        # cutting moves each residual by less than a step an entry
        cutting = num_records * math.sqrt(num_labels) / self._residual_steps
        room = np.maximum(teacher_weights * self.clip - cutting, 0.0)
        lengths = np.maximum(lengths, uncanceled / _MOST_CANCELED)
        factors = room / np.maximum(lengths, np.maximum(room, _SMALLEST_LENGTH))
        whole = np.trunc(parts * (factors * self._residual_steps)[:, None, None])
        rows = num_teachers * num_records
        products = wide.reshape(rows, -1).T @ whole.reshape(rows, num_labels)
        return np.asarray(products.astype(np.int64))

    def sum_of_means(self, means: Array, weights: Array | float = 1.0) -> Integers:
        """Returns the sum over c teachers whose mean products are formed already, `[D, L]` in steps.

        Args:
            means: `[c, D, L]`, of features no longer than 1.
            weights: `[c]`, or one for all, in [0, 1].
        """
        flat = means.reshape(len(means), -1)
        clipped = flat * (self._factors(flat) * weights / self.step)[:, None]
        return np.asarray(np.trunc(clipped).sum(axis=0).astype(np.int64).reshape(means.shape[1:]))

    @property
    def _residual_steps(self) -> float:
        return float(_RESIDUAL_STEPS / 2.0 ** math.floor(math.log2(self.clip)))

    def _factors(self, flat: Array) -> Array:
        """Returns what rows `[n, d]` are multiplied by, so that none is longer than the clip."""
        return np.asarray(self.clip / np.maximum(finite_lengths(flat), self.clip))
