"""The sums of the votes in rounds over all private records, wherever the records are."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pate.array_types import IntArray
from pate.votes.round_records import RoundRecords
from pate.votes.round_shard import RoundShard
from pate.votes.round_votes import RoundQuestion


class RoundSums(ABC):
    """The sums of all teachers' votes in rounds.

    An engine computes them in threads, processes or on several machines (`Engine.round_sums`). Every engine that
    computes with numpy returns the same whole numbers on one kind of processor. A GPU rounds hyperbolic tangents in
    another way.
    """

    @abstractmethod
    def total(self, question: RoundQuestion) -> IntArray:
        """Returns the sum of all clipped votes, each times its teacher's weight, `[num_features, num_labels]`.

        The sum is a whole number of steps, the unit of `ClippedMoments`.

        Args:
            question: the student's weights, the factor of each label, and the clip of the round.
        """

    @abstractmethod
    def close(self) -> None:
        """Releases memory, files and processes. No round can be asked afterwards; a second call does nothing."""


class ThreadSums(RoundSums):
    """The sums over a single shard in this process, whose blocks are distributed over threads (`pate.pool.in_order`).

    The shard is filled when the first round is asked.
    """

    def __init__(self, private_records: RoundRecords) -> None:
        """Keeps the records, which are read in the first round."""
        self._records = private_records
        self._shard: RoundShard | None = None

    def total(self, question: RoundQuestion) -> IntArray:
        """Returns the sum of all clipped votes, `[num_features, num_labels]`, in grid steps."""
        if self._shard is None:
            self._shard = self._records.shards(num_shards=1)[0].filled_shard()
        return self._shard.total(question)

    def close(self) -> None:
        """Frees the memory of the features, and deletes their scratch file."""
        if self._shard is not None:
            self._shard.close()
        self._shard = None
