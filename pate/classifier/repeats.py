"""Fits that release something about the same records: their prices add up, and a search makes many of them."""

from __future__ import annotations

import hashlib
import heapq
import math
import secrets
import warnings

import numpy as np
from numpy.typing import NDArray

from pate.classifier.frames import rows_as_bytes
from pate.report.rounding import format_epsilon

_KEPT = 1000  # of each fit: the smallest digests, so that fits with records in common keep records in common


class RepeatedRelease(UserWarning):
    """An earlier fit released something about the same private records."""


class RecordMemory:
    """Which records earlier fits of this process released something about, and for how much.

    Kept are digests under a key that ends with the process, of at most 1,000 records a fit. It is there to warn; what
    counts is a ledger. Two fits with one seed share their noise, which no sum of prices covers: they cost infinity.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(16)
        self._fits: dict[bytes, tuple[int, float, frozenset[int]]] = {}  # fits, their epsilons added up, their seeds

    def add(self, inputs: NDArray[np.float32], epsilon: float, seed: int | None = None) -> tuple[int, float]:
        """Enters a fit; the most fits that one record was part of, this one included, and their epsilons' sum."""
        rows = rows_as_bytes(inputs)
        digests = {hashlib.blake2b(row.data, digest_size=8, key=self._key).digest() for row in rows}
        kept = heapq.nsmallest(_KEPT, digests)
        own = frozenset(() if seed is None else (seed,))
        for digest in kept:
            count, spent, seeds = self._fits.get(digest, (0, 0.0, frozenset()))
            self._fits[digest] = (count + 1, math.inf if own & seeds else spent + epsilon, seeds | own)
        found = [self._fits[digest][:2] for digest in kept]
        return max(count for count, _ in found), max(spent for _, spent in found)


_MEMORY = RecordMemory()


def warn_of_repeats(inputs: NDArray[np.float32], epsilon: float, seed: int | None = None) -> None:
    """Warns where some of the records were fitted before in this process, with the same noise or with another."""
    count, spent = _MEMORY.add(inputs, epsilon, seed)
    if count == 1:
        return
    price = f"and their epsilons add up, here to {format_epsilon(spent)}"
    if math.isinf(spent):
        price = "and no sum of epsilons covers fits that share their noise, as those with one random_state do"
    warnings.warn(
        f"fit {count} of this process on the same records: each fit is a release of its own, {price}. A search or a "
        "cross-validation makes many; ledger= keeps count",
        RepeatedRelease,
        stacklevel=3,
    )
