"""What a prevalence is released from: sums over teachers of how common each label is among a teacher's records."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import require, require_array, require_entries
from pate.votes.clipping import ClippedSum, Integers

Array = NDArray[np.float64]

NUM_LENGTHS = 16
"""Powers of the root of 2 that a teacher's shares may be long."""

_PARTS = 2**10  # of a teacher that counts once: whole numbers are counted


class ShareSums(ABC):
    """Sums over teachers of their label shares. Nothing of them is priced.

    Attributes:
        num_teachers: how many teachers are in the sums.
        num_labels: L.
        weights: `[N]`, public, in [0, 1]: what each teacher counts; None where all count once.
        parts: what a teacher of weight 1 adds to `lengths`.
    """

    num_teachers: int
    num_labels: int
    weights: Array | None = None
    parts: int = 1

    @abstractmethod
    def lengths(self) -> Integers:
        """How many teachers have shares of each length, `[NUM_LENGTHS]`: sqrt(L) over the k-th power of the root of 2.

        Each teacher is in one entry at most, with at most its weight times `parts`; one without any label is in none.
        """

    @abstractmethod
    def total(self, clipped: ClippedSum, center: Array) -> Integers:
        """The sum of clipped shares around a center `[L]`, in steps, `[1, L]`."""


class TeacherShares(ShareSums):
    """Of teachers whose shares are at hand.

    Args:
        label_shares: numbers in [0, 1], `[N, L]`.
        weights: see `ShareSums`.

    Raises:
        InvalidValue: numbers outside [0, 1], or another form.
    """

    def __init__(self, label_shares: Any, weights: Array | None = None) -> None:
        shares = require_array("label_shares", label_shares, kinds=None)
        good = shares.ndim == 2 and shares.size > 0 and shares.dtype.kind in "biuf"
        require(good, "label_shares.shape", f"{shares.dtype} {shares.shape}", "numbers [num_teachers, num_labels]")
        require_entries("label_shares", (shares >= 0) & (shares <= 1), "numbers in [0, 1]")
        found = shares.shape[:1] if weights is None else weights.shape
        require(found == shares.shape[:1], "weights.shape", found, f"({len(shares)},), one for each teacher")
        self.shares = shares.astype(np.float64)
        self.num_teachers, self.num_labels = self.shares.shape
        self.weights, self.parts = weights, 1 if weights is None else _PARTS

    def lengths(self) -> Integers:
        """Lengths are rounded up."""
        lengths = np.linalg.norm(self.shares, axis=1)
        counted = lengths > 0
        places = np.floor(2 * np.log2(math.sqrt(self.num_labels) / lengths[counted]))
        places = places.clip(0, NUM_LENGTHS - 1).astype(np.int64)
        each = None if self.weights is None else np.floor(self.parts * self.weights[counted])
        return np.bincount(places, each, NUM_LENGTHS).astype(np.int64)

    def total(self, clipped: ClippedSum, center: Array) -> Integers:
        votes = self.shares[:, None, :]
        return clipped.total(votes, center=center, num_teachers=self.num_teachers, weights=self.weights)
