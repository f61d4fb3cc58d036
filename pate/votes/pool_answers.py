"""What trained teachers say of public inputs, beside what they say of their own records, in public directions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = NDArray[np.float32]

TRUST = 0.5
"""Of a teacher, in place of the student's probabilities; public and the same for all."""


@dataclass(frozen=True, eq=False)
class PoolAnswers:
    """Of every teacher the mean of features x confidence over public rows, minus that over its own records.

    A teacher's confidences are moved by a number for each label, so that on its own records they are its label shares.

    Attributes:
        beyond: float32 `[N, D, L]`, features of length at most 1. Not private-safe: it is a part of the votes.
        asked: float32 `[q, D]`, the features of the public rows that were asked, of length sqrt(D).
    """

    beyond: Rows
    asked: Rows

    def votes(self, teachers: NDArray[np.int64], weights: Array) -> Array:
        """What is added to the teachers' mean products with (label - (1 - TRUST) probability), `[c, D, L]`.

        TRUST (mean over the pool of features x (confidence - probability) - the teacher's own mean of features x
        confidence): where a teacher is right, the chance of which records it has is gone from its vote.

        Args:
            teachers: `[c]`.
            weights: `[D, L]`, the student's logits on features of length sqrt(D).
        """
        half = np.tanh(self.asked @ (weights / 2).astype(np.float32))
        of_student = self.asked.T @ (0.5 * (1 + half)) / (len(self.asked) * math.sqrt(self.asked.shape[1]))
        return np.asarray(TRUST * (self.beyond[teachers].astype(np.float64) - of_student))


def beyond_own(own: Rows, said: Rows, labels: NDArray[np.bool_], asked: Rows, of_pool: Rows) -> Rows:
    """One teacher's row of `PoolAnswers.beyond`, `[D, L]`.

    Args:
        own: `[n, D]`, features of its own records, of length sqrt(D).
        said: `[n, L]`, its confidences there.
        labels: bool `[n, L]`, what is true there.
        asked: `[q, D]`, features of the public rows, of length sqrt(D).
        of_pool: `[q, L]`, its confidences on the public rows.
    """
    moved = (said - labels).mean(axis=0)
    root = math.sqrt(asked.shape[1])
    products = asked.T @ (of_pool - moved) / len(asked) - own.T @ (said - moved) / len(own)
    return np.asarray(products / root, dtype=np.float32)
