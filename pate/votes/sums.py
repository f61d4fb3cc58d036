"""Votes of which there are sums alone: of counts, of shares, and with the noise of holders."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue, require_count, require_histogram
from pate.votes.source import Array, Bits, VoteSource


class CountedVotes(VoteSource):
    """See `VoteSource`. For aggregators that read counts.

    Args:
        counts: `[Q, L]` in 0..num_teachers.
        num_teachers: T.
        max_votes: the most labels of a query that a teacher had a vote for, which whoever counted vouches for; None
            for all.
    """

    def __init__(self, counts: NDArray[np.int64], *, num_teachers: int, max_votes: int | None = None) -> None:
        self.num_teachers = require_count("num_teachers", num_teachers)
        self._counts = require_histogram("counts", counts, num_teachers=num_teachers, rank=2).astype(np.int64)
        self.num_queries, self.num_labels = self._counts.shape
        self.records_per_teacher, self.max_votes = 1.0, max_votes

    def counts(self, max_votes: int | None = None) -> NDArray[np.int64]:
        """See `VoteSource.counts`; raises where votes were counted without such a limit."""
        if max_votes is not None and (self.max_votes is None or self.max_votes > max_votes):
            raise InvalidValue(
                f"vote_clip={self.max_votes}: expected at most {max_votes}, as the aggregator's price says"
            )
        return self._counts

    def bits(self) -> Iterator[Bits]:
        """Raises: they are not known."""
        raise InvalidValue("aggregator: expected one that reads counts, since only sums of votes are known")

    def label_shares(self) -> Array:
        """Raises, like `bits`."""
        raise InvalidValue("aggregator: expected one that reads counts, since only sums of votes are known")


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
