"""A case of the contract suite is an aggregator with its properties, and has helpers that release its votes."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Accountant, Event, Ledger, RdpAccountant
from pate.aggregators import Aggregator, MemoryRecord, Release
from pate.array_types import IntArray
from pate.votes import VoteSource

NUM_TEACHERS = 40
NUM_LABELS = 4


@dataclass(frozen=True)
class Case:
    """One aggregator, and the properties that decide which tests of the suite it runs.

    Attributes:
        name: the name that the tests show.
        aggregator: the aggregator, under replace-one. It answers queries with `CLEAR_COUNTS`. Its answers to
            `UNSURE_COUNTS` vary with the noise.
        refuses: whether it can refuse a query.
        halts: whether it stops after some hits, the outcomes that count, and refuses every query from then on.
        any_real: whether votes may be any real numbers, and not only confidences in [0, 1].
        is_one_release: whether all queries are one release, which costs the same however many they are.
        accountant: the accountant with which the calibration of the aggregator is tested.
    """

    name: str
    aggregator: Aggregator
    refuses: bool = True
    halts: bool = False
    any_real: bool = False
    is_one_release: bool = False
    accountant: type[Accountant] = RdpAccountant

    @property
    def reads_teachers(self) -> bool:
        """Returns whether the aggregator takes the votes of each teacher, and not counts."""
        return not self.aggregator.reads_counts

    def votes_with(self, counts: IntArray) -> NDArray[Any]:
        """Returns votes that have these counts `[Q, L]`, in the form that the aggregator takes."""
        if not self.reads_teachers:
            return counts
        return np.arange(NUM_TEACHERS)[:, None, None] < counts

    def draw_release(self, counts: IntArray, *, rng: Any = 0, ledger: Any = None) -> Release:
        """Returns a release of votes with these counts `[Q, L]`.

        Args:
            counts: the counts.
            rng: the source of the noise, or its seed.
            ledger: the ledger that is charged; None for no charge.
        """
        generator = np.random.default_rng(rng) if isinstance(rng, int) else rng
        return self.aggregator.aggregate(
            self.votes_with(counts), num_teachers=NUM_TEACHERS, rng=generator, ledger=ledger
        )

    def event(self, num_queries: int) -> Event:
        """Returns the price of a release of `num_queries` queries."""
        return self.aggregator.event_for(
            num_queries=num_queries, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS
        )


def record_that_charges(ledger: Ledger, aggregator: Aggregator, votes: VoteSource) -> MemoryRecord:
    """Returns a record, which stores what a release draws, and which charges the ledger before the first draw."""
    event = aggregator.event(votes.shape)
    return MemoryRecord(charge=partial(ledger.charge, event, adjacency=aggregator.adjacency))


# The hits after which a session of target charging halts, and the delta at which it is priced.
TARGET_HITS = 400
SESSION_DELTA = 5e-5

# Counts of one query: two labels with all votes, four labels without a clear gap, four labels with equal counts.
CLEAR_COUNTS = np.array([[40, 40, 0, 0]])
UNSURE_COUNTS = np.array([[34, 26, 18, 10]])
TIED_COUNTS = np.array([[20, 20, 20, 20]])


def repeat_query(counts: IntArray, *, num_queries: int) -> IntArray:
    """Returns the counts of one query, `[1, num_labels]`, repeated for each query: `[num_queries, num_labels]`."""
    return np.repeat(counts, num_queries, axis=0)
