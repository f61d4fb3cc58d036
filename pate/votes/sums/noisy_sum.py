"""Votes that nobody ever has: their sum with noise, which holders make when they are asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue
from pate.votes.source import Array, Bits, VoteSource

Total = tuple[NDArray[np.int64], int]
"""The sum `[Q, L]` of what holders sent, and how many sent something."""


class NoisySum(VoteSource):
    """See `VoteSource`. Of these votes there is nothing but a sum that carries its noise, and it may be asked for once.

    Args:
        total: makes the sum, or gives the one that was made before. Called after the price was paid.
        num_teachers: T, absent ones included.
        num_queries: Q.
        num_labels: L.
        digest: of what is asked, and of whom; public.
    """

    gives_bits = False

    def __init__(
        self, total: Callable[[], Total], *, num_teachers: int, num_queries: int, num_labels: int, digest: str
    ) -> None:
        self.total, self.digest = total, digest
        self.num_teachers, self.num_queries, self.num_labels = num_teachers, num_queries, num_labels
        self.records_per_teacher = 1.0

    def bits(self) -> Iterator[Bits]:
        """Raises: nobody has them."""
        raise InvalidValue("aggregator: expected distributed_votes, where holders add the noise and only sums exist")

    def label_shares(self) -> Array:
        """Raises, like `bits`."""
        raise InvalidValue("aggregator: expected distributed_votes, where holders add the noise and only sums exist")
