"""Counts of votes and nothing else: what one teacher says is not known."""

from __future__ import annotations

from collections.abc import Iterator

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
