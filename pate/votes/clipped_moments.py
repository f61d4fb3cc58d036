"""Sums of features times residuals in which no teacher counts for more than a fixed length, on a grid."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency
from pate.validation import InvalidValue, require, require_count, require_positive

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

FEATURE_STEPS = 2.0**14
"""Steps of the grid in a feature vector of length 1."""

_RESIDUAL_STEPS = 2.0**15  # in a clip, at least
_FLOAT_ERROR = 2.0**-20  # relative, of a length: n 2**-53 for a sum of n squares, n <= 2**30
_LARGEST_SUM = 2.0**52
_TINY = 1e-300
_LEAST_CLIP = 1e-100  # squares of what is as long are numbers still
_MOST_CANCELED = 64  # clips that the residuals of a teacher may have, before they cancel each other


@dataclass(frozen=True)
class ClippedMoments:
    """Adds up feature x residual^T `[D, L]`, a teacher's mean over its records, scaled down to `clip` if it is longer.

    Rule: features have length at most 1 and are cut to multiples of 2**-14, towards 0. Of a teacher with one record the
    residual is clipped and cut to its own grid, so that the sum over teachers is one product of whole numbers below
    2**53: exact, in whatever order it is added. Of a teacher with a few records their residuals are scaled down
    together and cut to that grid, with room for what cutting may add. Of a teacher with many the mean of the products
    is clipped and cut to the product of both grids.

    Formal guarantee: one change (a teacher's records replaced by any others; a teacher added or removed) moves the sum
    by at most `l2_sensitivity` steps in l2. The clip is public or was released.

    Attributes:
        clip: the greatest length, > 0.
        num_teachers: N, declared.
        adjacency: what one change means.

    Source: docs/proofs/vote_rounds.md.
    """

    clip: float
    num_teachers: int
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        require(require_positive("clip", self.clip) >= _LEAST_CLIP, "clip", self.clip, f"at least {_LEAST_CLIP:g}")
        require_count("num_teachers", self.num_teachers)
        largest = self.num_teachers * FEATURE_STEPS * 2 * _RESIDUAL_STEPS
        require(largest < _LARGEST_SUM, "num_teachers", self.num_teachers, "fewer teachers for sums of 53 bits")

    @property
    def step(self) -> float:
        """The grid's spacing: a power of 2."""
        return 1 / (FEATURE_STEPS * self._residual_steps)

    @property
    def l2_sensitivity(self) -> float:
        """In steps: two clips where a teacher is replaced, one where it comes or goes."""
        clips = 2 if self.adjacency == Adjacency.REPLACE_ONE else 1
        return clips * self.clip / self.step * (1 + _FLOAT_ERROR)

    def of_single(self, features: NDArray[np.float32], residuals: Array) -> Integers:
        """The sum over teachers with one record each, `[D, L]` in steps.

        Args:
            features: `[n, D]`, whole numbers: multiples of 2**-14 times that.
            residuals: `[n, L]`.
        """
        return self._product(features, residuals * self._weights(residuals)[:, None])

    def of_few(self, features: NDArray[np.float32], residuals: Array) -> Integers:
        """The sum over teachers with n records each, whose products need not be formed one by one.

        The length of a teacher's mean product comes from the n x n products of its features and of its residuals.

        Args:
            features: `[c, n, D]`, whole numbers: multiples of 2**-14 times that; c n <= 4096, n <= 32.
            residuals: `[c, n, L]`.
        """
        num, size, num_labels = residuals.shape
        each, wide = residuals / size, features.astype(np.float64)
        alike = (wide @ wide.transpose(0, 2, 1)) * (each @ each.transpose(0, 2, 1)) / FEATURE_STEPS**2
        lengths = np.sqrt(np.maximum(alike.sum(axis=(1, 2)), 0))
        before = np.sqrt((each**2).sum(axis=2)).sum(axis=1)
        _require_finite(before)
        room = max(self.clip - size * math.sqrt(num_labels) / self._residual_steps, 0.0)
        weights = room / np.maximum(np.maximum(lengths, before / _MOST_CANCELED), max(room, _TINY))
        whole = np.trunc(each * (weights * self._residual_steps)[:, None, None])
        rows = wide.reshape(num * size, -1).T @ whole.reshape(num * size, num_labels)
        return np.asarray(rows.astype(np.int64))

    def of_several(self, means: Array) -> Integers:
        """The sum over teachers whose mean products are `[c, D, L]`, with features of length at most 1."""
        flat = means.reshape(len(means), -1)
        scaled = flat * (self._weights(flat) / self.step)[:, None]
        return np.asarray(np.trunc(scaled).sum(axis=0).astype(np.int64).reshape(means.shape[1:]))

    @property
    def _residual_steps(self) -> float:
        return float(_RESIDUAL_STEPS / 2.0 ** math.floor(math.log2(self.clip)))

    def _product(self, features: NDArray[np.float32], residuals: Array) -> Integers:
        whole = np.trunc(residuals * self._residual_steps)
        return np.asarray((features.T.astype(np.float64) @ whole).astype(np.int64))

    def _weights(self, flat: Array) -> Array:
        lengths = np.sqrt(np.einsum("ij,ij->i", flat, flat))
        _require_finite(lengths)
        return np.asarray(self.clip / np.maximum(lengths, self.clip))


def _require_finite(lengths: Array) -> None:
    if not np.isfinite(lengths).all():
        raise InvalidValue("votes=NaN or infinity: expected finite numbers below 1e150")
