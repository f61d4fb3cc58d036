"""Aggregators that read the votes of each teacher, in blocks that are never held whole."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, Event, Ledger, NoOpEvent
from pate.aggregators.aggregator import NUM_QUERIES, Aggregator, ExpectedRelease, InputForm, warn_if_useless
from pate.aggregators.release import Release
from pate.validation import require, require_array, require_count, require_entries, require_generator
from pate.votes.made_up_votes import MadeUpVotes
from pate.votes.source import VoteSource
from pate.votes.vote_limit import Block

_VOTES_AT_ONCE = 2**22  # so that working copies stay small


def vote_blocks(votes: Any, *, num_teachers: int, adjacency: Adjacency) -> Iterator[Block]:
    """Yields checked blocks `[c, Q, L]` of bits or of confidences in [0, 1], together `num_teachers` teachers.

    Under add/remove, where a teacher may be missing from the declared ones, fewer will do. Large blocks are cut.
    """
    whole = isinstance(votes, (list, tuple)) or hasattr(votes, "__array__")  # a tensor, too
    blocks: Iterable[Any] = [votes] if whole else votes
    require(isinstance(blocks, Iterable), "votes", type(votes).__name__, "an array [N, Q, L] or blocks of one")
    found, queries = 0, None
    for given in blocks:
        block = _checked(given)
        queries = queries or block.shape[1:]
        require(block.shape[1:] == queries, "votes.shape", block.shape, f"[c, {queries[0]}, {queries[1]}] as before")
        found += len(block)
        rows = max(1, _VOTES_AT_ONCE // block[0].size)
        yield from (block[first : first + rows] for first in range(0, len(block), rows))
    missing = adjacency is Adjacency.ADD_REMOVE and 0 < found < num_teachers
    require(found == num_teachers or missing, "num_teachers", num_teachers, f"{found}, the teachers in votes")


def _checked(given: Any) -> Block:
    block = require_array("votes", given, kinds=None)
    require(block.ndim == 3, "votes.shape", block.shape, "[num_teachers, num_queries, num_labels]")
    require(block.size > 0, "votes.shape", block.shape, "at least one teacher, query and label")
    real = block.dtype == np.bool_ or np.issubdtype(block.dtype, np.floating)
    require(bool(real), "votes.dtype", block.dtype, "bool votes or confidences in [0, 1]")
    if block.dtype != np.bool_:
        require_entries("votes", (block >= 0) & (block <= 1), "confidences in [0, 1]")
    return block


_FEWEST = 16
_MADE_UP_BITS = 2**22


@dataclass(frozen=True, kw_only=True)
class TeacherVotesAggregator(Aggregator):
    """Reads the votes of each teacher, `[N, Q, L]`, in blocks that are never held whole.

    `gather` reduces the votes to a summary: all that the release depends on beside its noise. It draws nothing, no
    epsilon covers it. `aggregate` gathers, charges and releases; `aggregate_summary` does so from a summary that was
    gathered before.

    Formal guarantees:
        * The ledger is charged after the votes were read and before anything is drawn.
        * Each call is charged.
    """

    input_form: ClassVar[InputForm] = "bits"

    @abstractmethod
    def gather(self, votes: Any, *, num_teachers: int) -> NDArray[Any]:
        """The summary `[Q, L]` or `[Q, L, …]`; checks every vote.

        Args:
            votes: `[N, Q, L]`, or an iterable of blocks `[c, Q, L]`, together `num_teachers` teachers. Where the
                blocks are cut must not depend on private data.
            num_teachers: N, public. Under add/remove the declared number, of which some may be missing from the votes.

        Raises:
            InvalidValue: impossible votes, blocks of different shapes, or another number of teachers.
        """

    @abstractmethod
    def _release(self, summary: NDArray[Any], event: Event, *, num_teachers: int, rng: np.random.Generator) -> Release:
        """Draws; the ledger has been charged with the event."""

    def aggregate(
        self,
        votes: Any,
        *,
        num_teachers: int,
        rng: np.random.Generator,
        ledger: Ledger | None = None,
    ) -> Release:
        """Releases labels for all queries from the votes of all teachers.

        Args:
            votes: as in `gather`.
            num_teachers: N, public.
            rng: fresh noise comes from it.
            ledger: as in `PerQueryAggregator.aggregate`.

        Raises:
            InvalidValue: impossible votes; a seed instead of a generator; a charge that the ledger refuses.
        """
        require_generator(rng)
        require_count("num_teachers", num_teachers)
        summary = self.gather(votes, num_teachers=num_teachers)
        return self.aggregate_summary(summary, num_teachers=num_teachers, rng=rng, ledger=ledger)

    def aggregate_summary(
        self,
        summary: NDArray[Any],
        *,
        num_teachers: int,
        rng: np.random.Generator,
        ledger: Ledger | None = None,
    ) -> Release:
        """The same from what `gather` returned."""
        require_generator(rng)
        num_queries, num_labels = self._shape(summary)
        shape = {"num_queries": num_queries, "num_labels": num_labels, "num_teachers": num_teachers}
        event = self.event_for(**shape)
        warn_if_useless(self, **shape)
        self._pay(event, ledger)
        return self._release(summary, event, num_teachers=num_teachers, rng=rng)

    def expected_release(
        self, *, num_queries: int, num_labels: int, num_teachers: int, agreement: float = 1.0
    ) -> ExpectedRelease:
        """See `Aggregator.expected_release`; from the summary of made-up votes."""
        votes = self._made_up(num_labels, num_teachers, agreement, self._num_made_up(num_labels, num_teachers))
        rng = np.random.default_rng(0)
        release = self._release(self._summary_of(votes), NoOpEvent(), num_teachers=num_teachers, rng=rng)
        return ExpectedRelease.counted(release.labels, release.answered, votes.labels)

    def _num_made_up(self, num_labels: int, num_teachers: int) -> int:
        """Fewer where teachers and labels are many, each of whose votes is made up."""
        return min(NUM_QUERIES, max(_FEWEST, _MADE_UP_BITS // (num_teachers * num_labels)))

    def _summary_of(self, votes: MadeUpVotes) -> NDArray[Any]:
        """What `gather` gives for made-up votes; an aggregator that can say it from their counts says so."""
        return self._gathered(votes)

    def _gathered_for(self, source: VoteSource, rng: np.random.Generator) -> Callable[[], Release]:
        summary = self._gathered(source)
        return lambda: self.aggregate_summary(summary, num_teachers=source.num_teachers, rng=rng)

    def _gathered(self, source: VoteSource) -> NDArray[Any]:
        """The summary of a source, gathered once."""
        key = ("summary", self.identity(num_labels=source.num_labels, num_teachers=source.num_teachers))
        gathered: NDArray[Any] = source.remembered(
            key, lambda: self.gather(self._read(source), num_teachers=source.num_teachers)
        )
        return gathered

    def _shape(self, summary: NDArray[Any]) -> tuple[int, int]:
        """Q and L of a summary; an aggregator whose summary is not `[Q, L, …]` says otherwise."""
        return summary.shape[0], summary.shape[1]
