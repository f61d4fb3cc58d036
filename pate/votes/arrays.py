"""Votes that a caller has as arrays: a table of counts, or the votes of each teacher."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import require, require_count, require_histogram
from pate.votes.blocks import checked_block, is_whole, raw_blocks
from pate.votes.counts import Bits
from pate.votes.source import CountableVotes, TeacherVotes
from pate.votes.weighted import Array


class CountedVotes(CountableVotes):
    """Counts of votes, `[Q, L]` in 0..num_teachers, for aggregators that read counts.

    Whoever counted vouches that no teacher had a vote for more than `max_votes` labels of a query; None for all.
    """

    readers = "one that reads counts, since only sums of votes are known"

    def __init__(
        self, counts: NDArray[np.int64], *, num_teachers: int, max_votes: int | None = None
    ) -> None:
        """Takes a table `[Q, L]`; raises `InvalidValue` for counts that so many teachers cannot have."""
        self.num_teachers = require_count("num_teachers", num_teachers)
        table = require_histogram("counts", counts, num_teachers=num_teachers, rank=2)
        self._counts = table.astype(np.int64)
        self.num_queries, self.num_labels = self._counts.shape
        self.records_per_teacher = 1.0
        self.max_votes = max_votes

    def counts(self, max_votes: int | None = None) -> NDArray[np.int64]:
        """Returns the counts; raises `InvalidValue` where votes were counted without such a limit."""
        limit = self.max_votes
        is_within = max_votes is None or (limit is not None and limit <= max_votes)
        rule = f"at most {max_votes}, as the aggregator's price says"
        require(is_within, "vote_clip", limit, rule)
        return self._counts


class CountTable(CountedVotes):
    """A table of counts `[Q, L]` in 0..num_teachers, kept in its own integer type.

    An aggregator casts it block by block, so that a million queries of one byte a count need no eight.
    """

    def __init__(
        self, votes: Any, *, num_teachers: int, max_votes: int | None = None, name: str = "votes"
    ) -> None:
        """Takes a table `[Q, L]`; raises `InvalidValue` of `name` for counts that so many teachers cannot have."""
        self.num_teachers = require_count("num_teachers", num_teachers)
        counts: Any = require_histogram(name, votes, num_teachers=num_teachers, rank=2)
        self._counts = counts
        self.num_queries, self.num_labels = self._counts.shape
        self.records_per_teacher = 1.0
        self.max_votes = max_votes


class VoteBlocks(TeacherVotes):
    """The votes of teachers: an array `[N, Q, L]`, or an iterable of blocks `[c, Q, L]`, which may be read once.

    Votes are bits, confidences in [0, 1], or any finite numbers where an aggregator takes such. Each aggregator checks
    the votes that it reads; the constructor takes Q and L from the first block. The places where blocks are cut must
    not depend on private data.

    Raises `InvalidValue` for what is no votes of teachers.

    >>> votes = VoteBlocks(np.ones((3, 2, 4), dtype=bool), num_teachers=3)
    >>> votes.shape
    VoteShape(num_queries=2, num_labels=4, num_teachers=3)
    """

    records_per_teacher = 1.0

    def __init__(self, votes: Any, *, num_teachers: int, weights: Array | None = None) -> None:
        """Takes votes, and public weights `[N]` in [0, 1]; reads the first block."""
        self.num_teachers = require_count("num_teachers", num_teachers)
        self.weights = weights
        blocks = raw_blocks(votes)
        first_block = next(blocks, None)
        rule = "0, the teachers in votes"
        require(first_block is not None, "num_teachers", num_teachers, rule)
        first_block = checked_block(first_block, inside=False)
        # an array can be read again, a stream cannot
        is_array = is_whole(votes)
        self._blocks: Iterable[Any] = [first_block] if is_array else chain([first_block], blocks)
        _, self.num_queries, self.num_labels = first_block.shape

    def confidences(self) -> Iterator[NDArray[Any]]:
        """Returns the blocks as they are; those of a stream once."""
        return iter(self._blocks)

    def bits(self) -> Iterator[Bits]:
        """Returns the blocks as they are; an aggregator that reads bits requires them to be bits."""
        return self.confidences()

    def label_shares(self) -> Array:
        """Returns how often each teacher votes for each label over all queries, `[N, L]`."""
        return np.concatenate([np.asarray(block).mean(axis=1) for block in self.confidences()])
