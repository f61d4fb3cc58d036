"""GNMax: the label or set of labels that most teachers name, by the largest noisy count; screened or not."""

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting import (
    Adjacency,
    ComposedEvent,
    Event,
    GaussianEvent,
    Ledger,
    RdpAccountant,
    SelfComposedEvent,
    WinnerEvent,
)
from pate.accounting.data_dependent import DataDependentCost, gnmax_cost
from pate.aggregators import aggregator
from pate.aggregators.aggregator import Bits, ExpectedRelease, PerQueryAggregator, TeacherVotesAggregator, require_shape
from pate.aggregators.gaussian_votes import (
    GaussianVotes,
    reach_threshold,
    squared_sensitivity,
    threshold_cost,
    threshold_event,
)
from pate.aggregators.release import Release
from pate.mechanisms.noise.noisy_order import Values, draw_largest, draw_noise, largest_noisy
from pate.mechanisms.noise.uniforms import LazyUniforms, index_of
from pate.mechanisms.parameters import COUNT, NOISE, POSITIVE
from pate.validation import require
from pate.votes.clipping import limited, vote_blocks
from pate.votes.source import MadeUpVotes

Integers = NDArray[np.int64]
Summary = NDArray[np.void]


@dataclass(frozen=True, kw_only=True)
class GNMax(PerQueryAggregator):
    """Releases, for each query, the label whose count + N(0, noise_std**2) is largest. Answers every query.

    Formal guarantees:
        * Where no teacher votes for more than one label of a query, replace-one moves one count up and one down and
          add/remove moves one count. Only the winner is released, which costs about 0.65 times what the noisy counts
          do: 0.65 a / noise_std**2 at order a under replace-one and half of it under add/remove (`WinnerEvent`).
        * With `max_votes` labels per teacher, replace-one moves min(2 max_votes, L) counts by 1 and add/remove
          min(max_votes, L), and the price is that of the noisy counts: the number times a / (2 noise_std**2).
        * Counts do not say how many labels a teacher voted for: whoever has the votes counts them by `counts_for`,
          which lets no teacher have more than `max_votes`; whoever has counts alone promises it. Counts that no such
          teachers can have cast are refused.

    Attributes:
        noise_std: standard deviation in votes, > 0.
        max_votes: the most labels that one teacher votes for, >= 1 and public.

    Source: Papernot et al. 2018; docs/proofs/winner.md and gnmax.md.

    >>> votes = np.array([[90, 3, 7]])
    >>> GNMax(noise_std=2.0).aggregate(votes, num_teachers=100, rng=np.random.default_rng(0)).labels
    array([[ True, False, False]])
    """

    single_label: ClassVar[bool] = True

    noise_std: float = field(metadata=NOISE)
    max_votes: int = field(default=1, metadata=COUNT)

    @property
    def max_votes_per_teacher(self) -> int:
        return self.max_votes

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        require_shape(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)
        moved = squared_sensitivity(self.max_votes, num_labels=num_labels, adjacency=self.adjacency)
        if self.max_votes == 1:
            return SelfComposedEvent(WinnerEvent(self.noise_std, moved), num_queries)
        return SelfComposedEvent(GaussianEvent(self.noise_std / moved**0.5), num_queries)  # as of all counts

    def cost_on(
        self, votes: Integers, *, num_teachers: int, orders: object, answered: Bits | None = None
    ) -> DataDependentCost | None:
        """Of votes of which each teacher has cast one for each query, under replace-one; None for others.

        At every order at most the price, which holds for all votes.
        """
        one_each = self.max_votes == 1 and votes.shape[1] >= 2 and bool((votes.sum(axis=1) == num_teachers).all())
        if not one_each or self.adjacency is not Adjacency.REPLACE_ONE:
            return None
        cost = gnmax_cost(votes, noise_std=self.noise_std, num_teachers=num_teachers, orders=orders)
        event = self.event_for(num_queries=len(votes), num_labels=votes.shape[1], num_teachers=num_teachers)
        return replace(cost, rdp=np.minimum(cost.rdp, RdpAccountant(orders=cost.orders).compose(event).rdp))

    def _draw(self, votes: Integers, *, num_teachers: int, rng: np.random.Generator) -> tuple[Bits, Bits]:
        best = largest_noisy(Values.scaled(votes, self.noise_std), draw_noise("gaussian", votes.shape, rng), 1)
        return best == np.arange(votes.shape[1]), np.ones(len(votes), dtype=np.bool_)


_SETS_AT_ONCE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class PowersetGNMax(TeacherVotesAggregator):
    """Releases the set of labels whose count of teachers + N(0, noise_std**2) is largest. Answers every query.

    All sets of at most `max_size` labels compete, those that nobody voted for with a count of 0: 2**L of them without
    a `max_size`. A teacher's larger set is cut down first, to its most confident labels (see `ClippedVotes`). The noise
    of the unseen sets is drawn as their maximum, and the set that has it uniformly among them; that is the distribution
    of noise on each.

    Formal guarantees:
        * A teacher votes for exactly one set. Replace-one moves two counts by 1, add/remove one, and only the winner is
          released: about 0.65 a / noise_std**2 at order a, or half of it, whatever L is (`WinnerEvent`).

    Edge cases: seen sets win only where enough teachers agree on every label; the maximum over 2**40 unseen sets is
    about 7 noise_std.

    Attributes:
        noise_std: standard deviation in votes, > 0.
        max_size: the largest set that competes, >= 1 and public; None for all.

    Source: Dziedzic et al. 2022, powerset voting; docs/proofs/winner.md and gnmax.md.

    >>> votes = np.array([[[True, True, False]], [[True, True, False]], [[True, False, True]]])
    >>> aggregator = PowersetGNMax(noise_std=0.1)
    >>> aggregator.aggregate(votes, num_teachers=3, rng=np.random.default_rng(0)).labels
    array([[ True,  True, False]])
    """

    input_form: ClassVar[aggregator.InputForm] = "confidences"

    noise_std: float = field(metadata=NOISE)
    max_size: int | None = field(default=None, metadata=COUNT)

    @property
    def max_labels(self) -> int | None:
        return self.max_size

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        require_shape(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)
        moved = 2 if self.adjacency is Adjacency.REPLACE_ONE else 1
        return SelfComposedEvent(WinnerEvent(self.noise_std, moved), num_queries)

    def gather(self, votes: Any, *, num_teachers: int) -> NDArray[Any]:
        """The different sets of each query, `[G]`: query, count and labels `[L]` of each, in a fixed order."""
        merged: list[Summary] = []
        for block in vote_blocks(votes, num_teachers=num_teachers, adjacency=self.adjacency):
            counted = _counted(_one_each(limited(block, self.max_size or block.shape[2])))
            merged = [_counted(np.concatenate([*merged, counted])) if merged else counted]
        return merged[0]

    def _shape(self, summary: NDArray[Any]) -> tuple[int, int]:
        return int(summary["query"][-1]) + 1, summary["labels"].shape[1]

    def _expected(self, votes: MadeUpVotes, num_queries: int) -> ExpectedRelease:
        """From the right set of each query alone; no other has many votes."""
        return self._expected_of(_right_sets(votes), votes)

    def _release(self, summary: NDArray[Any], event: Event, *, num_teachers: int, rng: np.random.Generator) -> Release:
        num_queries, num_labels = self._shape(summary)
        first = np.searchsorted(summary["query"], np.arange(num_queries))
        seen = np.diff(np.append(first, len(summary)))
        largest = num_labels if self.max_size is None else min(self.max_size, num_labels)
        sizes = [math.comb(num_labels, size) for size in range(largest + 1)]  # how many sets of each size compete
        labels = np.empty((num_queries, num_labels), dtype=np.bool_)
        rows = max(1, _SETS_AT_ONCE // int(seen.max()))
        for start in range(0, num_queries, rows):
            block = slice(start, start + rows)
            best = self._winners(summary["count"], first[block], seen[block], sum(sizes), rng)
            labels[block] = summary["labels"][first[block] + np.minimum(best, seen[block] - 1)]
            for query in (start + np.flatnonzero(best == seen[block])).tolist():
                known = summary["labels"][first[query] : first[query] + seen[query]]
                labels[query] = _unseen_set(known, sizes, rng)
        return Release(labels, np.ones(num_queries, dtype=np.bool_), event, self.adjacency)

    def _winners(
        self, counts: Integers, first: Integers, seen: Integers, num_sets: int, rng: np.random.Generator
    ) -> Integers:
        """Which of each query's seen sets has the largest noisy count, `[q]`; past the last for an unseen one."""
        places = np.arange(int(seen.max()) + 1)
        part = places < seen[:, None]
        table = np.where(part, counts[np.minimum(first[:, None] + places, len(counts) - 1)], 0)
        unseen = [num_sets - number for number in seen.tolist()]
        logs = np.array([[math.log(max(number, 1))] for number in unseen])
        largest = draw_largest("gaussian", logs, lambda row, place: unseen[row], rng)
        noise = draw_noise("gaussian", table.shape, rng).with_last(largest, seen)
        part[np.arange(len(seen)), seen] = np.array(unseen) > 0
        return largest_noisy(Values.scaled(table, self.noise_std), noise, 1, part)[:, 0]


def _one_each(bits: Bits) -> Summary:
    """One row for each teacher and query, with a count of 1: `[c Q]`."""
    kind = np.dtype([("query", np.int64), ("labels", np.bool_, (bits.shape[2],)), ("count", np.int64)])
    rows = np.empty(bits.shape[:2], dtype=kind)
    rows["query"], rows["labels"], rows["count"] = np.arange(bits.shape[1]), bits, 1
    return rows.reshape(-1)


def _right_sets(votes: MadeUpVotes) -> Summary:
    """Of each query its own labels, and how many teachers name just these."""
    rows = _one_each(votes.labels[None])
    missed = (votes.num_teachers - votes.counts()) * votes.labels
    rows["count"] = np.maximum(votes.num_teachers - missed.sum(axis=1), 0)
    return rows


def _counted(rows: Summary) -> Summary:
    """Equal sets of a query as one row with the sum of their counts; by query, then by the labels as bits."""
    packed = np.packbits(rows["labels"], axis=1)
    order = np.lexsort((*packed.T[::-1], rows["query"]))
    rows, packed = rows[order], packed[order]
    new = np.ones(len(rows), dtype=np.bool_)
    new[1:] = (rows["query"][1:] != rows["query"][:-1]) | (packed[1:] != packed[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    merged = rows[starts].copy()
    merged["count"] = np.add.reduceat(rows["count"], starts)
    return merged


def _unseen_set(seen: Bits, sizes: list[int], rng: np.random.Generator) -> Bits:
    """A set uniform among those that compete, `sizes` of each size, and were not seen `[S, L]`."""
    taken, weights = {row.tobytes() for row in seen}, [(number, number) for number in sizes]
    while True:  # the size by its share, then labels in a random order
        size = index_of(LazyUniforms.draw((1,), rng).at(0), lambda digits: weights)
        candidate = np.zeros(seen.shape[1], dtype=np.bool_)
        candidate[rng.permutation(len(candidate))[:size]] = True
        if candidate.tobytes() not in taken:
            return candidate


@dataclass(frozen=True, kw_only=True)
class ScreenedAggregator(PerQueryAggregator):
    """Answers a query only where statistic + N(0, screening_std**2) >= threshold_share * num_teachers.

    The statistic is a number of teachers in 0..num_teachers which one change moves by at most 1. The price has the
    screening of every query and the answers of as many queries as can be answered, whatever comes out. That is all of
    them, or the first `max_answers` that pass. Then the session halts, and every later query is refused.
    """

    _answered_by: ClassVar[type[GNMax] | type[GaussianVotes]]  # the queries that pass

    screening_std: float = field(metadata=NOISE)  # of the screening's noise, in votes
    threshold_share: float = field(metadata=POSITIVE)  # of teachers that the statistic must reach, in (0, 1], public
    noise_std: float = field(metadata=NOISE)  # of the answers' noise, in votes
    # after so many answers nothing more is answered, >= 1 and public; None for no limit
    max_answers: int | None = field(default=None, metadata=COUNT)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.threshold_share <= 1, "threshold_share", self.threshold_share, "a number in (0, 1]")

    @abstractmethod
    def _statistic(self, votes: Integers, *, num_teachers: int) -> Integers:
        """A number of teachers for each query, `[q]`, moved by at most 1 by one change."""

    @property
    def _answers(self) -> GNMax | GaussianVotes:
        return self.part(self._answered_by)

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        require_shape(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)
        bit = threshold_event(self.screening_std, self.threshold_share, num_teachers)
        most = num_queries if self.max_answers is None else min(self.max_answers, num_queries)
        answers = self._answers.event_for(num_queries=most, num_labels=num_labels, num_teachers=num_teachers)
        return ComposedEvent((SelfComposedEvent(bit, num_queries), answers))

    def cost_on(
        self, votes: Integers, *, num_teachers: int, orders: object, answered: Bits | None = None
    ) -> DataDependentCost | None:
        statistic, share = self._statistic(votes, num_teachers=num_teachers), self.threshold_share
        screening = threshold_cost(statistic, self.screening_std, share, num_teachers=num_teachers, orders=orders)
        asked = votes if answered is None else votes[answered]
        if not len(asked):
            return screening
        answers = self._answers.cost_on(asked, num_teachers=num_teachers, orders=orders)
        return None if answers is None else screening + answers

    def _expected(self, votes: MadeUpVotes, num_queries: int) -> ExpectedRelease:
        """Of the queries before `max_answers`."""
        uncapped = self if self.max_answers is None else replace(self, max_answers=None)
        return super(ScreenedAggregator, uncapped)._expected(votes, num_queries)

    def aggregate(
        self, votes: Any, *, num_teachers: int, rng: np.random.Generator, ledger: Ledger | None = None
    ) -> Release:
        """As every aggregator does; what passes after `max_answers` answers is refused, and none of it handed out."""
        release = super().aggregate(votes, num_teachers=num_teachers, rng=rng, ledger=ledger)
        if self.max_answers is None:
            return release
        answered = release.answered & (np.cumsum(release.answered) <= self.max_answers)
        return replace(release, labels=release.labels & answered[:, None], answered=answered)

    def _draw(self, votes: Integers, *, num_teachers: int, rng: np.random.Generator) -> tuple[Bits, Bits]:
        statistic = self._statistic(votes, num_teachers=num_teachers)[:, None]
        std, share = self.screening_std, self.threshold_share
        passed = reach_threshold(statistic, std, share, num_teachers=num_teachers, rng=rng)[:, 0]
        labels, _ = self._answers._draw(votes, num_teachers=num_teachers, rng=rng)
        return labels & passed[:, None], passed


@dataclass(frozen=True, kw_only=True)
class ConfidentGNMax(ScreenedAggregator):
    """Releases the label with the largest noisy count, if the largest count with separate noise is large enough.

    Formal guarantees:
        * The largest count moves by at most 1 under either adjacency: screening costs one bit per query.
        * An answer costs what `GNMax` costs.
        * Refused queries are charged like answered ones; `max_answers` bounds the answers beforehand.

    Attributes:
        max_votes: the most labels that one teacher votes for, >= 1 and public.

    Source: Papernot et al. 2018, Algorithm 1; docs/proofs/gnmax.md.

    >>> aggregator = ConfidentGNMax(screening_std=2.0, threshold_share=0.6, noise_std=1.0)
    >>> votes = np.array([[90, 3, 7], [34, 33, 33]])
    >>> release = aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
    >>> release.answered, release.labels[0]
    (array([ True, False]), array([ True, False, False]))
    """

    single_label: ClassVar[bool] = True
    _answered_by: ClassVar[type[GNMax]] = GNMax

    max_votes: int = field(default=1, metadata=COUNT)

    @property
    def max_votes_per_teacher(self) -> int:
        return self.max_votes

    def _statistic(self, votes: Integers, *, num_teachers: int) -> Integers:
        return np.asarray(votes.max(axis=1))


@dataclass(frozen=True, kw_only=True)
class ConfidentVotes(ScreenedAggregator):
    """Releases the bits of `GaussianVotes` on queries where even the smallest majority of a label is large, with noise.

    A label's majority is the number of teachers on its larger side, in num_teachers / 2..num_teachers.

    Formal guarantees:
        * Every majority moves by at most 1 under either adjacency, and so does the smallest: screening costs one bit a
          query, however many labels it looks at.
        * An answer costs one bit per label.
        * Refused queries are charged like answered ones; `max_answers` bounds the answers beforehand.

    Source: Confident-GNMax of Papernot et al. 2018, for several labels; docs/proofs/gnmax.md.

    >>> aggregator = ConfidentVotes(screening_std=2.0, threshold_share=0.7, noise_std=1.0)
    >>> votes = np.array([[90, 3, 88], [90, 3, 55]])
    >>> release = aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
    >>> release.answered, release.labels[0]
    (array([ True, False]), array([ True, False,  True]))
    """

    _answered_by: ClassVar[type[GaussianVotes]] = GaussianVotes

    def _statistic(self, votes: Integers, *, num_teachers: int) -> Integers:
        return np.asarray(np.maximum(votes, num_teachers - votes).min(axis=1))
