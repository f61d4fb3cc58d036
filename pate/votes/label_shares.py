"""Label shares: how common each label is among a teacher's records, and the sums that a prevalence is released from."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import require, require_array, require_entries
from pate.votes.clipping import ClippedSum
from pate.votes.weighted import Integers, Weighted

Array = NDArray[np.float64]

NUM_LENGTHS = 16
"""The number of lengths that shares are sorted into: sqrt(L) over powers of the root of 2."""

_PARTS_OF_A_TEACHER = (
    2**10
)  # that a teacher of weight 1 adds to a length: whole numbers are counted


class ShareSums(Weighted):
    """Sums over teachers of their label shares. None of them is priced.

    Attributes:
        parts: the number that a teacher of weight 1 adds to an entry of `lengths`.
    """

    parts: int = 1

    @abstractmethod
    def lengths(self) -> Integers:
        """Counts the teachers with shares of each length, `[NUM_LENGTHS]`, rounded up.

        Entry k stands for the length sqrt(L) over the k-th power of the root of 2. Each teacher is in one entry at
        most, with at most its weight times `parts`; a teacher without any label is in none.
        """

    @abstractmethod
    def total(self, clipped: ClippedSum, center: Array) -> Integers:
        """Returns the sum of clipped shares around a center `[L]`, in steps, `[1, L]`."""


class TeacherShares(ShareSums):
    """The sums of teachers whose shares are at hand.

    Attributes:
        shares: `[N, L]`, in [0, 1]; private.
    """

    def __init__(self, label_shares: Any, weights: Array | None = None) -> None:
        """Takes shares `[N, L]` and public weights `[N]`; raises `InvalidValue` for numbers outside of [0, 1]."""
        shares = require_array("label_shares", label_shares, kinds=None)
        is_table = shares.ndim == 2 and shares.size > 0 and shares.dtype.kind in "biuf"
        rule = "numbers [num_teachers, num_labels]"
        require(is_table, "label_shares.shape", f"{shares.dtype} {shares.shape}", rule)
        require_entries("label_shares", (shares >= 0) & (shares <= 1), "numbers in [0, 1]")
        if weights is not None:
            rule = f"({len(shares)},), one for each teacher"
            require(weights.shape == shares.shape[:1], "weights.shape", weights.shape, rule)
        self.shares = shares.astype(np.float64)
        self.num_teachers, self.num_labels = self.shares.shape
        self.weights = weights
        self.parts = 1 if weights is None else _PARTS_OF_A_TEACHER

    def lengths(self) -> Integers:
        """Counts the teachers with shares of each length; see `ShareSums.lengths`."""
        lengths = np.linalg.norm(self.shares, axis=1)
        is_counted = lengths > 0
        powers = np.floor(2 * np.log2(math.sqrt(self.num_labels) / lengths[is_counted]))
        entries = powers.clip(0, NUM_LENGTHS - 1).astype(np.int64)
        parts = None
        if self.weights is not None:
            parts = np.floor(self.parts * self.weights[is_counted])
        return np.bincount(entries, parts, NUM_LENGTHS).astype(np.int64)

    def total(self, clipped: ClippedSum, center: Array) -> Integers:
        """Returns the sum of clipped shares around a center; see `ShareSums.total`."""
        return clipped.total(
            self.shares[:, None, :],
            center=center,
            num_teachers=self.num_teachers,
            weights=self.weights,
        )


def mean_labels(
    labels: NDArray[np.bool_], teacher_of: NDArray[np.int64], num_teachers: int
) -> Array:
    """Returns each teacher's share of records with each label, `[N, L]`.

    Args:
        labels: `[n, L]`, of records.
        teacher_of: `[n]`, the number of each record's teacher; every teacher has a record.
        num_teachers: N.
    """
    sums = np.zeros((num_teachers, labels.shape[1]))
    np.add.at(sums, teacher_of, labels)
    return np.asarray(sums / np.bincount(teacher_of, minlength=num_teachers)[:, None])
