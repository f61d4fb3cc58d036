"""One aggregator as the contract suite runs it, and votes on which each thing happens."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event, Ledger
from pate.aggregators import Aggregator, MemoryRecord, Release
from pate.votes import VoteSource

NUM_TEACHERS = 40
NUM_LABELS = 4


@dataclass(frozen=True)
class Case:
    """One aggregator, and how votes can be chosen so that each thing happens."""

    name: str  # of the test
    aggregator: Aggregator  # under replace-one; calm on `CLEAR`, in doubt on `UNSURE`
    refuses: bool = True  # whether it can abstain
    halts: bool = False  # whether it refuses everything after some hits
    any_real: bool = False  # whether votes may be any real numbers, not confidences alone
    # whether all queries are one release, which costs the same however many they are
    flat: bool = False

    @property
    def reads_teachers(self) -> bool:
        """Whether it takes the votes of each teacher, not counts."""
        return not self.aggregator.reads_counts

    def given(self, counts: NDArray[np.int64]) -> NDArray[Any]:
        """Votes that have these counts `[Q, L]`, in the form that the aggregator takes."""
        if not self.reads_teachers:
            return counts
        return np.arange(NUM_TEACHERS)[:, None, None] < counts

    def released(self, counts: NDArray[np.int64], rng: Any = 0, **options: Any) -> Release:
        """A release of such votes, with a seed or a generator."""
        rng = np.random.default_rng(rng) if isinstance(rng, int) else rng
        return self.aggregator.aggregate(
            self.given(counts), num_teachers=NUM_TEACHERS, rng=rng, **options
        )

    def event(self, num_queries: int) -> Event:
        return self.aggregator.event_for(
            num_queries=num_queries, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS
        )


def charging(ledger: Ledger, aggregator: Aggregator, votes: VoteSource) -> MemoryRecord:
    """Returns a record of a release of votes that charges a ledger."""
    event = aggregator.event(votes.shape)
    return MemoryRecord(partial(ledger.charge, event, adjacency=aggregator.adjacency))


SESSION = {"target_hits": 400, "session_delta": 5e-5}

CLEAR = np.array([[40, 40, 0, 0]])
UNSURE = np.array([[34, 26, 18, 10]])
TIED = np.array([[20, 20, 20, 20]])


def rows(votes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The same histogram many times: `[count, L]`."""
    return np.repeat(votes, count, axis=0)
