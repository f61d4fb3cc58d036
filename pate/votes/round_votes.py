"""Votes that are cast round after round, each time against a public student: what the rounds need of them."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from pate.votes.clipping import ClippedMoments, Integers

Array = NDArray[np.float64]


class RoundVotes(ABC):
    """The sums of all teachers' votes in rounds, wherever the teachers are. Nothing of them is priced.

    Attributes:
        public: float32 `[m, D]`, features of the public pool, of length sqrt(D).
        variances: `[D - 1]`, of the pool along each feature but the constant.
        num_teachers: N, public.
        records_per_teacher: about, public.
        num_labels: L.
    """

    public: NDArray[np.float32]
    variances: Array
    num_teachers: int
    records_per_teacher: float
    num_labels: int

    @property
    def width(self) -> int:
        """D."""
        return int(self.public.shape[1])

    @abstractmethod
    def total(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        """The sum `[D, L]` of all teachers' clipped votes, in steps.

        Args:
            weights: `[D, L]`, the student's logits on features of length sqrt(D).
            label_scale: `[L]`, public: what residuals of each label are multiplied with.
            clipped: the sum.
        """
