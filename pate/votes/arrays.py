"""Vote sources made from arrays: a table of counts, or the votes of each teacher."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, FloatArray, IntArray
from pate.validation import InvalidValue, require_count, require_histogram
from pate.votes.blocks import checked_block, is_whole, raw_blocks
from pate.votes.source import CountableVotes, TeacherVotes


class CountedVotes(CountableVotes):
    """Counts of votes, `[num_queries, num_labels]` in 0..num_teachers, for aggregators that read counts.

    The counts do not show for how many labels of a query a teacher voted. The caller promises that it is at most
    `max_votes`.
    """

    readers = "one that reads counts, since only sums of votes are known"

    def __init__(
        self, counts: IntArray, *, num_teachers: int, max_votes: int | None = None
    ) -> None:
        """Stores the counts; raises `InvalidValue` if that number of teachers cannot have cast such votes.

        Args:
            counts: `[num_queries, num_labels]`.
            num_teachers: the number of teachers.
            max_votes: the largest number of labels of a query that a teacher voted for; None for no limit.
        """
        self.num_teachers = require_count("num_teachers", num_teachers)
        checked_counts = require_histogram("counts", counts, largest_count=num_teachers, num_axes=2)
        self._counts = checked_counts.astype(np.int64)
        self.num_queries, self.num_labels = self._counts.shape
        self.records_per_teacher = 1.0
        self.max_votes = max_votes

    def counts(self, max_votes: int | None = None) -> IntArray:
        """Returns the counts, `[num_queries, num_labels]`.

        Raises `InvalidValue` if `max_votes` is a number, and a teacher may have voted for more labels of a query: the
        constructor got a larger limit, or none.
        """
        stated_max_votes = self.max_votes
        if max_votes is not None and (stated_max_votes is None or stated_max_votes > max_votes):
            rule = f"at most {max_votes}, as the aggregator's price says"
            raise InvalidValue("vote_clip", stated_max_votes, rule=rule)
        return self._counts


class CountTable(CountedVotes):
    """Counts of votes, `[num_queries, num_labels]` in 0..num_teachers, kept in the integer type of the given array.

    An aggregator converts the counts to int64 block by block. So a table with one byte for each count stays small.
    """

    def __init__(
        self,
        vote_counts: Any,
        *,
        num_teachers: int,
        max_votes: int | None = None,
        name: str = "votes",
    ) -> None:
        """Stores the counts; raises `InvalidValue` if that number of teachers cannot have cast such votes.

        Args:
            vote_counts: counts, `[num_queries, num_labels]`.
            num_teachers: the number of teachers.
            max_votes: the largest number of labels of a query that a teacher voted for; None for no limit.
            name: the name of the argument in the message of an error.
        """
        self.num_teachers = require_count("num_teachers", num_teachers)
        counts: Any = require_histogram(name, vote_counts, largest_count=num_teachers, num_axes=2)
        self._counts = counts
        self.num_queries, self.num_labels = self._counts.shape
        self.records_per_teacher = 1.0
        self.max_votes = max_votes


class VoteBlocks(TeacherVotes):
    """The votes of each teacher, given as one array or as an iterable of blocks.

    The array is `[num_teachers, num_queries, num_labels]`, and blocks are parts of it along the first axis, or
    `LowRankVotes`. An iterator of blocks can be read only once. Votes are bits, confidences in [0, 1], or any finite
    numbers if the aggregator takes them. The aggregator checks the votes that it reads. The constructor takes the
    numbers of queries and labels from the first block. The sizes of the blocks must not depend on private data. Raises
    `InvalidValue` if there is no block, or if the first one has another form.

    >>> votes = VoteBlocks(np.ones((3, 2, 4), dtype=bool), num_teachers=3)
    >>> votes.shape
    VoteShape(num_queries=2, num_labels=4, num_teachers=3)
    """

    records_per_teacher = 1.0

    def __init__(
        self, votes_or_blocks: Any, *, num_teachers: int, weights: FloatArray | None = None
    ) -> None:
        """Stores the votes and reads the first block.

        Args:
            votes_or_blocks: an array `[num_teachers, num_queries, num_labels]`, or blocks of it along the first axis.
            num_teachers: the declared number of teachers.
            weights: public, `[num_teachers]` in [0, 1], the weight of each teacher; None for 1.
        """
        self.num_teachers = require_count("num_teachers", num_teachers)
        self.weights = weights
        raw_vote_blocks = raw_blocks(votes_or_blocks)
        first_block = next(raw_vote_blocks, None)
        if first_block is None:
            raise InvalidValue("num_teachers", num_teachers, rule="0, the teachers in votes")
        first_block = checked_block(first_block, must_be_confidences=False)
        # An array can be read again, a stream cannot.
        is_array = is_whole(votes_or_blocks)
        self._blocks: Iterable[Any] = (
            [first_block] if is_array else chain([first_block], raw_vote_blocks)
        )
        _, self.num_queries, self.num_labels = first_block.shape

    def confidences(self) -> Iterator[NDArray[Any]]:
        """Returns an iterator over the unchanged blocks; blocks of an iterator can be read only once."""
        return iter(self._blocks)

    def bits(self) -> Iterator[BoolArray]:
        """Returns an iterator over the unchanged blocks; an aggregator that reads bits checks that they are bits."""
        return self.confidences()

    def label_shares(self) -> FloatArray:
        """Returns the mean of each teacher's votes for each label over all queries, `[num_teachers, num_labels]`."""
        share_blocks = [np.asarray(vote_block).mean(axis=1) for vote_block in self.confidences()]
        return np.concatenate(share_blocks)
