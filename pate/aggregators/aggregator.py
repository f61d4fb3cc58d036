"""The base of all aggregators: a price that never sees votes, and a release, which is paid for before it is drawn.

To write an aggregator, read the docstring of `Aggregator` and its example; no other file is needed. A subclass has
three methods: the price, the summary of the votes, and the draw. `release`, under which noise meets votes, is written
here once. Only aggregators that release in several parts override it.

Price and draw read the same fields, so that they cannot disagree. The price sees the fields and the size of a release
alone: a price that depended on votes would itself leak.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pate import validation
from pate.accounting import (
    Accountant,
    Adjacency,
    AutoAccountant,
    Budget,
    Event,
    NonPrivateEvent,
    NoOpEvent,
    calibrate,
)
from pate.aggregators.expectation import warn_if_useless
from pate.aggregators.failures import (
    USUAL_DELTA,
    require_delta_left,
    with_failure_prob_for,
    with_failure_prob_left,
)
from pate.aggregators.record import Arrays, MemoryRecord, ReleaseRecord
from pate.aggregators.release import Answers, Release
from pate.files.digests import full_text
from pate.mechanisms.parameters import Parameters
from pate.validation import (
    InvalidValue,
    require,
    require_entries,
    require_generator,
    require_histogram,
)
from pate.votes.arrays import CountedVotes, CountTable, VoteBlocks
from pate.votes.blocks import vote_blocks
from pate.votes.counts import histogram, limited
from pate.votes.shape import VoteShape
from pate.votes.source import CountableVotes, VoteSource

if TYPE_CHECKING:
    from pate.accounting import Ledger
    from pate.mechanisms.stability_test import StabilityTest

Rng = np.random.Generator
Counts = NDArray[np.int64]
Bits = NDArray[np.bool_]

# By which noise grows, at most, to fit into what a ledger has left; and to which relative precision.
_LARGEST_FACTOR = 2.0**10
_FACTOR_TOLERANCE = 1e-3


@runtime_checkable
class PriorRule(Protocol):
    """A rule that predicts the next answers before each round, from earlier rounds."""

    def __call__(self, labels: Bits, answered: Bits, num_queries: int) -> Bits:
        """Returns the labels that are expected of the next queries, bool `[num_queries, L]`.

        A row without a label expects nothing.

        Args:
            labels: bool `[start, L]`, released before.
            answered: bool `[start]`.
            num_queries: the number of the next queries.
        """


@dataclass(frozen=True, kw_only=True)
class Aggregator(Parameters, ABC):
    """A rule that turns votes of teachers into labels, and its price.

    A subclass states three things:
        1. `event(shape)`, the price of a release. It sees the public fields and the size of the votes, never the votes.
        2. `summarize(votes)`, the numbers that the draw needs: by default the counts, `[Q, L]`.
        3. `draw(summary, shape, rng)`, the labels, with fresh noise for each query.

    All else follows. `release` checks the votes, has them charged, and draws only then. `fitted` finds the noise for a
    budget. `aggregate` does all of it for a table of counts.

    A subclass is a frozen dataclass whose fields are public parameters. A field that is noise has the metadata
    `{"noise": True}`: a number > 0, or None by default; calibration multiplies it. The metadata of any field may hold a
    check (`{"check": require_count}`), a function of name and value that raises. A string that may be published has
    `{"public": True}`.

    One change replaces one teacher's votes (or adds or removes a teacher). So it moves each count by at most 1; that is
    all that the price of a rule on counts has to assume.

    >>> from dataclasses import field
    >>> from pate.accounting import PureDpEvent, SelfComposedEvent
    >>> from pate.mechanisms import DiscreteLaplace
    >>> @dataclass(frozen=True, kw_only=True)
    ... class LaplaceMajority(Aggregator):
    ...     noise_scale: float = field(metadata={"noise": True})
    ...
    ...     def event(self, shape):
    ...         num_counts = shape.num_queries * shape.num_labels
    ...         return SelfComposedEvent(PureDpEvent(1 / self.noise_scale), num_counts)
    ...
    ...     def draw(self, summary, shape, rng):
    ...         noise = DiscreteLaplace.at_most(1 / self.noise_scale)  # in whole numbers, which are exact
    ...         noisy_counts = summary + noise.sample(summary.shape, rng)
    ...         return Answers.to_all(noisy_counts > shape.num_teachers / 2)
    >>> counts = np.array([[190, 5, 120]])
    >>> budget = Budget(epsilon=8.0, delta=1e-6)
    >>> aggregator = LaplaceMajority(noise_scale=1.0).fitted(budget, VoteShape(1, 3, 200))
    >>> release = aggregator.aggregate(counts, num_teachers=200, rng=np.random.default_rng(0))
    >>> release.labels, round(release.get_epsilon(1e-6), 2)
    (array([[ True, False,  True]]), 8.0)

    A price is tested by enumerating neighbors, with `pate.testing.verify`, or by a case in `tests/cases/`.

    Attributes:
        adjacency: what one change means; it sets thresholds and price alike. All other attributes are of the class.
        reads: the type of votes that `summarize` reads. Teachers that give this type, or a subclass of it, go with the
            aggregator.
        queries_at_once: the most queries that one call of `draw` gets, so that working copies stay small; None where
            the summary is not one row for each query, or all queries are drawn together.
        single_label: whether every answer names exactly one label.
        usual_failure_prob: the `failure_prob` where nobody named one; a plan may lower it (`with_failure_prob_for`).
        pays_in_advance: whether a whole session is charged before its first query.
        expects_prior: whether a release uses a prior, the labels that a student expects (`with_prior`).
        budgets_by: how groups with budgets of their own differ; None where they cannot. By `weights` of their teachers
            (`VoteSource.weights`): a group of weight w pays what all pay for noise 1 / w times as large. By the number
            of `teachers` that a group is with: the field `teachers_reached`.
        remedies: what a report advises against a loss to "noise", "the teachers" or "the number of queries"; a loss
            that the method cannot have is missing.
    """

    reads: ClassVar[type[VoteSource]] = CountableVotes
    queries_at_once: ClassVar[int | None] = 16_384
    single_label: ClassVar[bool] = False
    usual_failure_prob: ClassVar[float] = 1e-9
    pays_in_advance: ClassVar[bool] = False
    expects_prior: ClassVar[bool] = False
    budgets_by: ClassVar[Literal["weights", "teachers"] | None] = None
    remedies: ClassVar[Mapping[str, str]] = {
        "noise": "more teachers, fewer queries or a larger epsilon",
        "the teachers": "more records for each teacher, or scaled inputs",
        "the number of queries": "more queries",
    }

    adjacency: Adjacency = Adjacency.REPLACE_ONE

    @abstractmethod
    def event(self, shape: VoteShape) -> Event:
        """Returns the price of a release of this shape, whether queries are answered or refused.

        A function of the fields and of the shape alone: it never sees votes. A shape without queries costs nothing.
        """

    def summarize(self, votes: VoteSource) -> NDArray[Any]:
        """Returns the numbers that the draw needs of the votes; here the counts `[Q, L]`. Private, as the votes are.

        Raises `InvalidValue` for votes that so many teachers cannot have cast, and for a source of another type than
        `reads`. Nothing has been charged then.
        """
        counts = votes.counts(self.max_votes_per_teacher)
        paid = (votes.num_queries, votes.num_labels)
        rule = f"{paid}, which the price is for"
        require(counts.shape == paid, "votes.shape", counts.shape, rule)
        return self.checked_counts(counts, num_teachers=votes.num_teachers)

    @abstractmethod
    def draw(self, summary: NDArray[Any], shape: VoteShape, rng: Rng) -> Answers:
        """Draws the answers to the queries of a summary, all of which have been charged.

        Fresh noise for every query comes from the generator. Labels of a query that is not answered are False.

        Args:
            summary: as `summarize` returns it. Counts come as int64, of at most `queries_at_once` queries in one call.
            shape: the number of these queries, and of all labels and teachers.
            rng: the source of all noise.
        """

    def scaled(self, factor: float) -> Self:
        """Returns the same aggregator with every noise multiplied by `factor` > 0; `fitted` solves for the factor."""
        noise = declared(type(self))
        if not noise:
            rule = 'a dataclass with field(metadata={"noise": True})'
            raise InvalidValue(type(self).__name__, rule=rule)
        values = {name: getattr(self, name) for name in noise}
        changes = {name: value * factor for name, value in values.items() if value is not None}
        return replace(self, **changes)

    def release(self, votes: VoteSource, rng: Rng, record: ReleaseRecord) -> Release:
        """Releases labels for all queries of an ensemble, charged with the first part that the record commits.

        A release that the record has committed is read back, and nothing is drawn. A subclass that releases in several
        parts overrides `release`, and draws each part within `record.part`.

        Args:
            votes: private; of the type that `summarize` reads.
            rng: the source of all noise; a seed is refused.
            record: charges and commits each part before the part is returned.
        """
        require_generator(rng)
        shape = votes.shape
        event = self.event(shape)
        arrays = record.committed("release")
        if arrays is None:
            summary = self.summarize(votes)  # before the charge, as teachers may fail

            def draw() -> Arrays:
                return self.draw_all(summary, shape, rng)._asdict()

            arrays = record.part("release", draw)
        return Release.from_arrays(arrays, event=event, adjacency=self.adjacency)

    def draw_all(self, summary: NDArray[Any], shape: VoteShape, rng: Rng) -> Answers:
        """Draws the answers to all queries, `queries_at_once` in one call of `draw`.

        Raises `InvalidValue` where `draw` returns anything but labels and answered, of that many queries and labels.
        """
        size = self.queries_at_once or max(shape.num_queries, 1)
        if shape.num_queries <= size:
            return self._checked_answers(self.draw(_as_int64(summary), shape, rng), shape)
        labels = np.zeros((shape.num_queries, shape.num_labels), dtype=np.bool_)
        answered = np.zeros(shape.num_queries, dtype=np.bool_)
        for start in range(0, shape.num_queries, size):
            rows = slice(start, min(start + size, shape.num_queries))
            shape_of_block = replace(shape, num_queries=rows.stop - rows.start)
            block = _as_int64(summary[rows])
            answers = self._checked_answers(self.draw(block, shape_of_block, rng), shape_of_block)
            labels[rows] = answers.labels
            answered[rows] = answers.answered
        return Answers(labels, answered)

    def _checked_answers(self, answers: Any, shape: VoteShape) -> Answers:
        """Returns the result of a draw; raises unless it is labels and answered of the queries that are paid for."""
        name = f"{type(self).__name__}.draw"
        rule = "a tuple of labels and answered, arrays of bool"
        require(isinstance(answers, tuple), name, type(answers).__name__, rule)
        kinds = [str(np.asarray(array).dtype) for array in answers]
        require(kinds == ["bool", "bool"], name, kinds, rule)
        labels, answered = map(np.asarray, answers)
        paid = (shape.num_queries, shape.num_labels)
        rule = f"{paid}, which the price is for"
        require(labels.shape == paid, "labels.shape", labels.shape, rule)
        rule = f"{paid[:1]}, which the price is for"
        require(answered.shape == paid[:1], "answered.shape", answered.shape, rule)
        return Answers(labels, answered)

    def aggregate(
        self, votes: Any, *, num_teachers: int, rng: Rng, ledger: Ledger | None = None
    ) -> Release:
        """Releases labels for all queries of votes that a caller has as an array.

        Args:
            votes: counts, integers `[Q, L]` in 0..num_teachers. For an aggregator that reads the votes of each teacher,
                an array `[N, Q, L]`, or blocks `[c, Q, L]` of one. Impossible votes are refused before any charge.
            num_teachers: T, public.
            rng: the source of fresh noise for every query and call; a seed is refused.
            ledger: charged by each call, and on disk, before any noise is drawn. Where the ledger refuses, nothing is
                released.
        """
        require_generator(rng)
        source = self._source_of(votes, num_teachers)
        planned = self._at_usual_delta(source.num_queries)
        warn_if_useless(self, source.shape)
        record = planned._memory_record(source.shape, ledger)
        return planned.release(source, rng, record)

    def _source_of(self, votes: Any, num_teachers: int) -> VoteSource:
        """Returns the votes of a caller as a source that this aggregator reads."""
        if self.reads_counts:
            max_votes = self.max_votes_per_teacher
            return CountTable(votes, num_teachers=num_teachers, max_votes=max_votes)
        return VoteBlocks(votes, num_teachers=num_teachers)

    def _memory_record(self, shape: VoteShape, ledger: Ledger | None) -> MemoryRecord:
        """Returns a record that charges a ledger, where there is one, before the first part is drawn."""
        event = self.event(shape)
        if ledger is None:
            return MemoryRecord()
        from pate.accounting.ledger import require_ledger

        charge = require_ledger(ledger).charge
        return MemoryRecord(
            partial(charge, event, adjacency=self.adjacency, description=repr(self))
        )

    def checked_counts(self, counts: Any, *, num_teachers: int) -> NDArray[np.integer]:
        """Returns counts `[Q, L]`, of any integer type, that so many teachers can have cast; raises for others."""
        checked = require_histogram("votes", counts, num_teachers=num_teachers, rank=2)
        max_votes = self.max_votes_per_teacher
        if max_votes is not None:
            most = max_votes * num_teachers
            rule = f"a sum of at most {most}, {num_teachers} teachers with max_votes={max_votes}"
            instead = "GaussianVotes (aggregator=gaussian_votes) asks about each label of a sample with several"
            is_possible = checked.sum(axis=1, dtype=np.int64) <= most
            require_entries("votes", is_possible, f"{rule}; {instead}")
        return checked

    def checked_blocks(
        self, blocks: Iterable[NDArray[Any]], shape: VoteShape
    ) -> Iterator[NDArray[Any]]:
        """Yields the votes of each teacher, bits or confidences `[c, Q, L]` of some teachers each.

        Raises `InvalidValue` for impossible votes, another number of teachers, and other queries and labels than those
        of the shape, which the price is for. Under add/remove some of the declared teachers may be missing.
        """
        paid = (shape.num_queries, shape.num_labels)
        rule = f"[c, {paid[0]}, {paid[1]}], which the price is for"
        for block in vote_blocks(blocks, num_teachers=shape.num_teachers, adjacency=self.adjacency):
            require(block.shape[1:] == paid, "votes.shape", block.shape, rule)
            yield block

    def with_prior(self, prior: PriorRule) -> Aggregator:
        """Returns the aggregator with a prior, the labels that a student expects; itself where it uses none."""
        return self

    def fitted(self, budget: Budget, shape: VoteShape) -> Self:
        """Returns the same aggregator with the least noise that meets a budget.

        A class with several noises overrides `fitted`, to find their proportion first, as `StableTopK` does. A
        `failure_prob` that nobody named is lowered where the budget's delta needs it. Raises `InvalidValue` where no
        noise meets the budget, or failure probabilities use up its delta.
        """
        planned = with_failure_prob_for(self, delta=budget.delta, num_queries=shape.num_queries)
        return planned.scaled_to(budget, shape)

    def scaled_to(self, budget: Budget, shape: VoteShape) -> Self:
        """Returns the same aggregator with all noise multiplied by the least factor that meets a budget."""
        require_delta_left(self, num_queries=shape.num_queries, target_delta=budget.delta)
        factor = calibrate(
            lambda factor: self.scaled(factor).event(shape),
            target_epsilon=budget.required_epsilon(),
            target_delta=budget.delta,
            accountant=budget.accountant,
        )
        return self.scaled(factor)

    def calibrated(
        self,
        *,
        target_epsilon: float | None = None,
        target_delta: float | None = None,
        num_queries: int,
        num_labels: int,
        num_teachers: int,
        accountant: Callable[[], Accountant] = AutoAccountant,
        ledger: Ledger | None = None,
    ) -> Self:
        """Returns the same aggregator with the least noise that costs at most `target_epsilon` at `target_delta`.

        With a `ledger` the release also fits into what the ledger has left: noise is larger where that is less than the
        target. A `failure_prob` of None takes at most half of the failures that are left, so that later releases have
        room. Without a target the ledger's cap is the target; delta is the ledger's.

        Args:
            target_epsilon: > 0; None with a ledger that has a cap.
            target_delta: in (0, 1); None with a ledger.
            num_queries: Q.
            num_labels: L.
            num_teachers: T.
            accountant: makes an empty one, which bounds epsilon.
            ledger: of the data that the votes are about.

        Raises:
            InvalidValue: no noise reaches the target, or failure probabilities use up delta.
            BudgetExceeded: no noise fits into what the ledger has left.

        >>> from pate.accounting import Ledger
        >>> from pate.aggregators import GaussianVotes
        >>> shape = {"num_queries": 100, "num_labels": 5, "num_teachers": 200}
        >>> ledger = Ledger(target_delta=1e-6, max_epsilon=5.0)
        >>> for target in (3.0, 3.0):
        ...     votes = GaussianVotes(noise_std=1.0).calibrated(target_epsilon=target, ledger=ledger, **shape)
        ...     _ = ledger.charge(votes.event_for(**shape), adjacency=votes.adjacency)
        >>> 4.0 < ledger.spent_epsilon <= 5.0
        True
        """
        shape = VoteShape(num_queries, num_labels, num_teachers)
        if ledger is not None:
            return self._within(
                ledger,
                shape,
                target_epsilon=target_epsilon,
                target_delta=target_delta,
                accountant=accountant,
            )
        if target_epsilon is None or target_delta is None:
            name = "target_epsilon" if target_epsilon is None else "target_delta"
            raise InvalidValue(name, None, rule="a number > 0, or a ledger= beside it")
        budget = Budget(epsilon=target_epsilon, delta=target_delta, accountant=accountant)
        return self.fitted(budget, shape)

    def _within(
        self,
        ledger: Ledger,
        shape: VoteShape,
        *,
        target_epsilon: float | None,
        target_delta: float | None,
        accountant: Callable[[], Accountant],
    ) -> Self:
        """Returns the result of `calibrated` with a ledger."""
        from pate.accounting.ledger import require_ledger

        require_ledger(ledger)
        rule = f"{self.adjacency}, as the aggregator"
        require(ledger.adjacency == self.adjacency, "ledger.adjacency", ledger.adjacency, rule)
        target = ledger.max_epsilon if target_epsilon is None else target_epsilon
        if target is None:
            raise InvalidValue(
                "target_epsilon", None, rule="a number > 0, as the ledger has no max_epsilon"
            )
        rule = f"{ledger.target_delta}, as the ledger counts"
        require(target_delta in (None, ledger.target_delta), "target_delta", target_delta, rule)
        planned = with_failure_prob_left(self, ledger, num_queries=shape.num_queries)
        budget = Budget(epsilon=target, delta=ledger.target_delta, accountant=accountant)
        fitted = planned.fitted(budget, shape)
        if ledger.affords(fitted.event(shape)) >= 1:
            return fitted
        return fitted.scaled(_least_factor_that_fits(fitted, ledger, shape))

    @final
    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        """Returns the price of a release, the one of `event`, given the shape as three numbers.

        As in `aggregate`, a `failure_prob` that nobody named is first lowered for a delta of 1e-6.
        """
        shape = VoteShape(num_queries, num_labels, num_teachers)
        return self._at_usual_delta(num_queries).event(shape)

    def _at_usual_delta(self, num_queries: int) -> Self:
        """Returns the aggregator for callers without a budget: for so many queries at the delta 1e-6."""
        return with_failure_prob_for(self, delta=USUAL_DELTA, num_queries=num_queries)

    def num_tests(self, num_queries: int) -> int:
        """Returns the number of answers to so many queries that can fail, each with `failure_prob`."""
        return num_queries

    def plain_event(self, shape: VoteShape) -> Event | None:
        """Returns the price of the same answers without a session; None where there is no session."""
        return None

    def paper_epsilon(self, *, num_queries: int, target_delta: float) -> float | None:
        """Returns the epsilon that the mechanism's own paper would print, which is no bound; None without a formula."""
        return None

    def stability_test(self, *, num_teachers: int) -> StabilityTest | None:
        """Returns the test that an answer has to pass, for that many teachers; None without a test."""
        return None

    @property
    def max_votes_per_teacher(self) -> int | None:
        """The most labels of a query that the price lets one teacher vote for; None for all."""
        return None

    @property
    def max_labels(self) -> int | None:
        """The most labels that an answer may name; None for any number."""
        return 1 if self.single_label else None

    @property
    def exact_labels(self) -> int | None:
        """The number of labels that every answer names; None where answers differ."""
        return 1 if self.single_label else None

    @property
    def reads_counts(self) -> bool:
        """True where counts of votes are enough for a release, and no teacher's own votes are read."""
        return issubclass(CountedVotes, self.reads)

    @property
    def never_empty(self) -> bool:
        """True where an answer always names a label."""
        return False

    def check_run(self) -> None:
        """Raises `InvalidValue` for fields that a run cannot use, before anything is spent."""

    def require_source(self, votes: VoteSource) -> None:
        """Raises `InvalidValue` for votes of somebody else that cannot be read; reads them once, before any charge."""
        self.summarize(votes)

    def noiseless_from(self, source: VoteSource, record: ReleaseRecord) -> Release:
        """Returns a release without noise, of every label's majority, to compare with. No epsilon covers it.

        Args:
            source: the votes.
            record: of the release with noise, where parts of it are needed.
        """
        majority = 2 * source.counts() > source.num_teachers
        return Release(
            labels=majority,
            answered=np.ones(len(majority), dtype=np.bool_),
            event=NonPrivateEvent(),
            adjacency=self.adjacency,
        )

    def identity(self, shape: VoteShape) -> str:
        """Returns all public parameters as text, the values of functions included: equal for equal releases only."""
        return full_text(self)


def _as_int64(summary: NDArray[Any]) -> NDArray[Any]:
    """Returns counts as int64, in which nothing overflows; any other summary as it is."""
    if summary.dtype.kind not in "iu":
        return summary
    return summary.astype(np.int64, copy=False)


def _least_factor_that_fits(aggregator: Aggregator, ledger: Ledger, shape: VoteShape) -> float:
    """Returns the least factor > 1 of the noise at which the ledger has room, to a relative 1e-3.

    Raises `BudgetExceeded`, in the ledger's words, where no noise fits.
    """

    def fits(factor: float) -> bool:
        return ledger.affords(aggregator.scaled(factor).event(shape)) >= 1

    if ledger.affords(NoOpEvent()) == 0:  # nothing is left, so this raises
        ledger.require_room(aggregator.event(shape))
    low = 1.0
    high = 2.0
    while not fits(high):
        if high > _LARGEST_FACTOR:
            ledger.require_room(aggregator.scaled(high).event(shape))
        low = high
        high *= 2
    while high / low > 1 + _FACTOR_TOLERANCE:
        middle = math.sqrt(low * high)
        if fits(middle):
            high = middle
        else:
            low = middle
    return high


def declared(kind: type[Aggregator], mark: str = "noise") -> frozenset[str]:
    """Returns the fields with a mark in their metadata: `noise`, which calibration multiplies, or `solved`."""
    return frozenset(item.name for item in fields(kind) if item.metadata.get(mark))


def counts_for(aggregator: Aggregator, blocks: Iterable[Bits]) -> NDArray[np.int64]:
    """Returns counts `[Q, L]` of votes, bits `[c, Q, L]` of some teachers each, for an aggregator that reads counts.

    Counts do not show how many labels one teacher voted for. Where the price is for `max_votes_per_teacher` labels,
    every teacher keeps that many per query, chosen from its own votes alone. Raises `InvalidValue` without blocks.
    """
    rule = "an aggregator of pate.aggregators"
    validation.require_kind("aggregator", aggregator, Aggregator, rule)
    max_votes = aggregator.max_votes_per_teacher
    counts: NDArray[np.int64] | None = None
    for block in blocks:
        block_counts = histogram(block if max_votes is None else limited(block, max_votes))
        counts = block_counts if counts is None else counts + block_counts
    if counts is None:
        raise InvalidValue("votes", rule="the votes of at least one teacher")
    return counts
