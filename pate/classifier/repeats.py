"""Fits that release something about the same records: their prices add up, and a search makes many of them."""

from __future__ import annotations

import hashlib
import heapq
import secrets
import warnings

import numpy as np
from numpy.typing import NDArray

from pate.report.rounding import format_epsilon

_KEPT = 1000  # of each fit: the smallest digests, so that fits with records in common keep records in common


class RepeatedRelease(UserWarning):
    """An earlier fit released something about the same private records."""


class RecordMemory:
    """Which records earlier fits of this process released something about, and for how much.

    Kept are digests under a key that ends with the process, of at most 1,000 records a fit. It is there to warn; what
    counts is a ledger.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(16)
        self._fits: dict[bytes, tuple[int, float]] = {}  # number of fits and their epsilons added up

    def add(self, inputs: NDArray[np.float32], epsilon: float) -> tuple[int, float]:
        """Enters a fit; the most fits that one record was part of, this one included, and their epsilons' sum."""
        rows = np.ascontiguousarray(inputs)
        digests = {hashlib.blake2b(row.data, digest_size=8, key=self._key).digest() for row in rows}
        kept = heapq.nsmallest(_KEPT, digests)
        for digest in kept:
            count, spent = self._fits.get(digest, (0, 0.0))
            self._fits[digest] = (count + 1, spent + epsilon)
        return max(self._fits[digest] for digest in kept)


_MEMORY = RecordMemory()


def warn_of_repeats(inputs: NDArray[np.float32], epsilon: float) -> None:
    """Warns where some of the records were fitted before in this process."""
    count, spent = _MEMORY.add(inputs, epsilon)
    if count > 1:
        warnings.warn(
            f"fit {count} of this process on the same records: each fit is a release of its own, and their epsilons "
            f"add up, here to {format_epsilon(spent)}. A search or a cross-validation makes many; ledger= keeps count",
            RepeatedRelease,
            stacklevel=3,
        )
