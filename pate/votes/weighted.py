"""Sums over teachers, each of whom may count less than once."""

from __future__ import annotations

from abc import ABC

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


class Weighted(ABC):
    """Votes or shares of N teachers, each of whom counts with a public weight.

    Attributes:
        num_teachers: N, public.
        num_labels: L.
        weights: `[N]`, public, in [0, 1]: what each teacher counts; None where all count once.
    """

    num_teachers: int
    num_labels: int
    weights: Array | None = None

    @property
    def total_weight(self) -> float:
        """The sum of the weights of all teachers: N where all count once."""
        return self.num_teachers if self.weights is None else float(self.weights.sum())
