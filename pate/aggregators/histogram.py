"""Aggregators that read counts of votes, and the counts that a price allows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event
from pate.aggregators.aggregator import Aggregator, InputForm, warn_if_useless
from pate.aggregators.release import Release
from pate.validation import (
    InvalidValue,
    require_count,
    require_entries,
    require_generator,
    require_histogram,
    require_kind,
)
from pate.votes.histogram import histogram
from pate.votes.vote_limit import limited

if TYPE_CHECKING:
    from pate.accounting import Ledger


def counts_for(aggregator: Aggregator, blocks: Iterable[NDArray[np.bool_]]) -> NDArray[np.int64]:
    """Counts `[Q, L]` of votes in blocks `[c, Q, L]`, for an aggregator that reads counts.

    Counts do not say how many labels one teacher voted for. Where the price is for `max_votes_per_teacher` of them,
    every teacher keeps that many per query, chosen from its own votes alone. Whoever has the teachers' votes counts
    them here.

    Args:
        aggregator: what the counts are for.
        blocks: the votes of some teachers each, bits `[c, Q, L]`.

    Raises:
        InvalidValue: no blocks.
    """
    require_kind("aggregator", aggregator, Aggregator, "an aggregator of pate.aggregators")
    most, counts = aggregator.max_votes_per_teacher, None
    for block in blocks:
        counted = histogram(block if most is None else limited(block, most))
        counts = counted if counts is None else counts + counted
    if counts is None:
        raise InvalidValue("votes: expected the votes of at least one teacher")
    return counts


Bits = NDArray[np.bool_]

_QUERIES_AT_ONCE = 16384


@dataclass(frozen=True, kw_only=True)
class HistogramAggregator(Aggregator):
    """Reads vote counts `[Q, L]`."""

    input_form: ClassVar[InputForm] = "counts"

    def _charge(
        self,
        votes: Any,
        *,
        num_teachers: int,
        rng: np.random.Generator,
        ledger: Ledger | None,
    ) -> tuple[NDArray[np.integer], Event]:
        """Checks the arguments of `aggregate`, charges the ledger, and returns the counts `[Q, L]` and the price."""
        require_generator(rng)
        require_count("num_teachers", num_teachers)
        counts = require_histogram("votes", votes, num_teachers=num_teachers, rank=2)
        if (most := self.max_votes_per_teacher) is not None:
            within = counts.sum(axis=1, dtype=np.int64) <= most * num_teachers
            rule = f"a sum of at most {most * num_teachers}, {num_teachers} teachers with max_votes={most}"
            require_entries("votes", within, rule)
        shape = {"num_queries": counts.shape[0], "num_labels": counts.shape[1], "num_teachers": num_teachers}
        event = self.event_for(**shape)
        warn_if_useless(self, **shape)
        self._pay(event, ledger)
        return counts, event


@dataclass(frozen=True, kw_only=True)
class PerQueryAggregator(HistogramAggregator):
    """An aggregator that answers each query by itself. A subclass states a price and a draw."""

    @abstractmethod
    def _draw(self, votes: NDArray[np.int64], *, num_teachers: int, rng: np.random.Generator) -> tuple[Bits, Bits]:
        """Labels `[q, L]` and answered `[q]` for some of the queries; `aggregate` has charged them all."""

    def aggregate(
        self,
        votes: Any,
        *,
        num_teachers: int,
        rng: np.random.Generator,
        ledger: Ledger | None = None,
    ) -> Release:
        """Releases labels for all queries.

        Args:
            votes: integers `[Q, L]` in 0..num_teachers: how many teachers vote for each label; anything that
                `numpy.asarray` takes.
            num_teachers: T, public.
            rng: fresh noise for every query comes from it.
            ledger: charged, and on disk, before any noise is drawn; a refused charge releases nothing. Each call is
                charged: the generator gives each fresh noise.

        Raises:
            InvalidValue: impossible votes; a seed instead of a generator; a charge that the ledger refuses.
        """
        counts, event = self._charge(votes, num_teachers=num_teachers, rng=rng, ledger=ledger)
        labels = np.zeros(counts.shape, dtype=np.bool_)
        answered = np.zeros(len(counts), dtype=np.bool_)
        for rows, block in _blocks(counts):
            labels[rows], answered[rows] = self._draw(block, num_teachers=num_teachers, rng=rng)
        return Release(labels, answered, event, self.adjacency)


def _blocks(counts: NDArray[np.integer]) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Consecutive rows, few enough that their working copies stay small."""
    for start in range(0, len(counts), _QUERIES_AT_ONCE):
        rows = slice(start, start + _QUERIES_AT_ONCE)
        yield rows, counts[rows].astype(np.int64, copy=False)
