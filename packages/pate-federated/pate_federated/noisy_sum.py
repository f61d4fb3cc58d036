"""A sum of votes that carries its noise, as secure aggregation shows it."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pate.votes.source import VoteSource

# the sum `[Q, L]` of the holders' contributions, and the number of contributions
Total = tuple[NDArray[np.int64], int]


class NoisySum(VoteSource):
    """A sum of votes that carries its noise, and nothing else of them.

    Attributes:
        total: makes the sum, or returns the one that was made before; called after the price was paid.
        digest: of what is asked, and of whom; public.
        num_teachers: N, absent teachers included.
    """

    readers = "distributed_votes, where holders add the noise and only sums exist"

    def __init__(
        self,
        total: Callable[[], Total],
        *,
        num_teachers: int,
        num_queries: int,
        num_labels: int,
        digest: str,
    ) -> None:
        """Takes a function that makes the sum; the sum is not asked for here."""
        self.total = total
        self.digest = digest
        self.num_teachers = num_teachers
        self.num_queries = num_queries
        self.num_labels = num_labels
        self.records_per_teacher = 1.0
