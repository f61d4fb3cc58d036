"""The base class of all aggregators: it draws a release, and has its price charged before the release is shown.

To write an aggregator, read the docstring of `Aggregator` and its example; no other file is needed. A subclass has
three methods: the price, the summary of the votes, and the draw. The method `release` calls them in the right order.
Only aggregators that release in several parts override `release`.

The price and the draw read the same fields of the aggregator, so the price always belongs to the noise that is drawn.
The price is computed from the fields and from the size of the votes. A price that depended on the votes would itself
leak.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, final

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Accountant, Adjacency, AutoAccountant, Budget, Event, NonPrivateEvent
from pate.aggregators.answers import Answers
from pate.aggregators.calibration import fitted_to_ledger, scaled_to_budget
from pate.aggregators.expectation import warn_if_useless
from pate.aggregators.failures import USUAL_DELTA, with_failure_prob_for
from pate.aggregators.record import Arrays, MemoryRecord, ReleaseRecord
from pate.aggregators.release import Release
from pate.files.digests import unabridged_repr
from pate.mechanisms.parameters import Parameters
from pate.validation import (
    InvalidValue,
    require_entries,
    require_generator,
    require_histogram,
)
from pate.votes.arrays import CountedVotes, CountTable, VoteBlocks
from pate.votes.blocks import vote_blocks
from pate.votes.shape import VoteShape
from pate.votes.source import CountableVotes, VoteSource

if TYPE_CHECKING:
    from pate.accounting import Ledger
    from pate.aggregators.prior_rule import PriorRule
    from pate.mechanisms.stability_test import StabilityTest

Rng = np.random.Generator


@dataclass(frozen=True, kw_only=True)
class Aggregator(Parameters, ABC):
    """An aggregator adds noise to the votes of teachers, releases labels, and computes the price of the release.

    A subclass defines three methods:
        1. `event(shape)` returns the price of a release. It reads the public fields and the size of the votes, never
           the votes.
        2. `summarize(votes)` returns the numbers that the draw needs. The default is the counts,
           `[num_queries, num_labels]`.
        3. `draw(summary, shape, rng)` returns the labels, with fresh noise for each query.

    This class supplies the other methods:
        * `release` checks the votes and draws, and has the price charged before it returns.
        * `aggregate` does the same for votes that are given as an array.
        * `fitted` finds the noise for a budget, and `calibrated` is `fitted` for numbers or a ledger. Both end in
          `scaled_to`, which searches the factor of the noise, and `scaled`, which applies it.

    A subclass is a frozen dataclass whose fields are public parameters. The metadata of a field may have four keys:
        * `"noise": True` marks a noise, which calibration changes: `scaled` multiplies it, unless a subclass overrides
          `scaled`. Its value is a number > 0, or None if that is the default.
        * `"check": require_count`, for example, is called with the field's name and value, and raises for a bad value.
        * `"public": True` marks a string that may be published.
        * `"solved": True` marks a number that calibration sets to fit the budget.

    One change of the private data replaces the votes of one teacher, or adds or removes a teacher. So it moves each
    count by at most 1. A price that follows from this alone needs no other assumption. `max_votes_per_teacher` is for a
    price that also limits how many labels of a query a teacher votes for.

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
    >>> aggregator = LaplaceMajority(noise_scale=1.0).fitted(
    ...     budget, VoteShape(num_queries=1, num_labels=3, num_teachers=200)
    ... )
    >>> release = aggregator.aggregate(counts, num_teachers=200, rng=np.random.default_rng(0))
    >>> release.labels, round(release.get_epsilon(1e-6), 2)
    (array([[ True, False,  True]]), 8.0)

    A price is tested by enumerating neighbors, with `pate.testing.verify`, or by a case in `tests/cases/`.

    Attributes:
        adjacency: the change of the private data that the guarantee is about; price and draw may depend on it. All
            other attributes belong to the class.
        reads: the type of vote source that `summarize` reads. The aggregator works with teachers whose votes are of
            this type or a subclass of it.
        queries_at_once: the largest number of queries for one call of `draw`, which keeps temporary arrays small. None
            for no limit, as where the summary does not have one row for each query, or where all queries have to be
            drawn together.
        single_label: whether every answer names exactly one label.
        usual_failure_prob: the value that replaces a `failure_prob` of None; `with_failure_prob_for` may lower it.
        pays_in_advance: whether the price of a whole session is charged with the first of its rounds, each of which
            answers some consecutive queries.
        expects_prior: whether a release uses a prior, the labels that a student predicts (see `with_prior`).
        budgets_by: the way in which groups can have budgets of their own: "weights" of the votes of their teachers, or
            the number of "teachers" that hold a group's records. None where they cannot.
        counts_abstention_as_half: whether a teacher that does not vote on a label counts as half a vote for it. That
            suits a majority, which abstentions then do not move. False counts the teacher as a vote against the label.
            Sums of halves are rounded down, so one change moves a count by at most 1 in either case.
        remedies: the advice of a report, by the cause of a loss: "noise", "the teachers" or "the number of queries". A
            cause that this aggregator does not have is missing.
    """

    reads: ClassVar[type[VoteSource]] = CountableVotes
    queries_at_once: ClassVar[int | None] = 16_384
    single_label: ClassVar[bool] = False
    usual_failure_prob: ClassVar[float] = 1e-9
    pays_in_advance: ClassVar[bool] = False
    expects_prior: ClassVar[bool] = False
    budgets_by: ClassVar[Literal["weights", "teachers"] | None] = None
    counts_abstention_as_half: ClassVar[bool] = False
    remedies: ClassVar[Mapping[str, str]] = {
        "noise": "more teachers, fewer queries or a larger epsilon",
        "the teachers": "more records for each teacher, or scaled inputs",
        "the number of queries": "more queries",
    }

    adjacency: Adjacency = Adjacency.REPLACE_ONE

    @abstractmethod
    def event(self, shape: VoteShape) -> Event:
        """Returns the price of a release of votes of this shape, as a privacy event.

        The price depends on the fields of the aggregator and on the shape alone, never on votes, nor on which queries
        are left unanswered. A release of no queries costs nothing.
        """

    def summarize(self, votes: VoteSource) -> NDArray[Any]:
        """Returns the numbers that `draw` needs: here the counts of the votes, `[num_queries, num_labels]`.

        Where `counts_abstention_as_half`, half of the teachers that do not vote on a label, rounded down, are added to
        its counts. The summary is private, as the votes are. A new release calls `summarize` before its charge.

        Raises:
            InvalidValue: the votes cannot be counted, their counts have another shape than the votes state, or that
                number of teachers cannot have cast such votes.
        """
        countable_votes = votes.require_type(CountableVotes)
        counts = countable_votes.counts(self.max_votes_per_teacher)
        if self.counts_abstention_as_half:
            halves = countable_votes.num_abstaining() // 2
            if halves.any():
                counts = counts.astype(np.int64) + halves
        priced_shape = (votes.num_queries, votes.num_labels)
        if counts.shape != priced_shape:
            rule = f"{priced_shape}, which the price is for"
            raise InvalidValue("votes.shape", counts.shape, rule=rule)
        return self.require_counts(counts, num_teachers=votes.num_teachers)

    @abstractmethod
    def draw(self, summary: NDArray[Any], shape: VoteShape, rng: Rng) -> Answers:
        """Draws the answers to the queries of a summary; their price is charged before they are shown.

        Each query gets fresh noise from the generator. Labels of a query that is not answered are False.

        Args:
            summary: the result of `summarize`. Counts come as int64, for at most `queries_at_once` queries in one call.
            shape: the number of queries in this summary, the number of labels, and the number of teachers.
            rng: the source of all noise.
        """

    def plain_event(self, shape: VoteShape) -> Event | None:
        """Returns the price of the same answers if each query were charged; None for an aggregator without a session.

        A session (`TargetChargedAggregator`) is charged for hits, the queries whose outcome lies in a given set, and it
        halts after `target_hits` of them.
        """
        return None

    def paper_epsilon(self, *, num_queries: int, target_delta: float) -> float | None:
        """Returns the epsilon by the formula of the mechanism's paper: it may be too low, so it is never charged.

        Aggregators whose paper has no formula return None.
        """
        return None

    def num_tests(self, num_queries: int) -> int:
        """Returns the largest number of stability tests of a release.

        Each passes an unstable set with a probability of at most `failure_prob`.
        """
        return num_queries

    @property
    def max_votes_per_teacher(self) -> int | None:
        """The largest number of labels of a query that a teacher may vote for under this price; None for no limit."""
        return None

    @property
    def max_labels(self) -> int | None:
        """The largest number of labels that an answer is meant to name; None for no limit."""
        return 1 if self.single_label else None

    @property
    def exact_labels(self) -> int | None:
        """The number of labels that every answer names; None where answers differ in it."""
        return 1 if self.single_label else None

    @property
    def never_empty(self) -> bool:
        """Whether a prior has to name at least one label of each query, as every answer does.

        It is False unless an aggregator with a prior overrides it.
        """
        return False

    def stability_test(self, *, num_teachers: int) -> StabilityTest | None:
        """Returns the stability test of an answer for votes of `num_teachers` teachers; None without a test."""
        return None

    def with_prior(self, prior: PriorRule) -> Aggregator:
        """Returns the aggregator with a prior, the rule that predicts labels for a session.

        An aggregator that uses no prior returns itself.
        """
        return self

    def noiseless_from(self, source: VoteSource, record: ReleaseRecord) -> Release:
        """Returns a release without noise, to compare with: labels that most teachers who vote on them vote for.

        Every query is answered. No epsilon covers the result.

        Args:
            source: the private votes.
            record: the record of the noisy release, for aggregators that need its parts.
        """
        countable_votes = source.require_type(CountableVotes)
        majority = (
            2 * countable_votes.counts() + countable_votes.num_abstaining() > source.num_teachers
        )
        return Release(
            labels=majority,
            answered=np.ones(len(majority), dtype=np.bool_),
            event=NonPrivateEvent(),
            adjacency=self.adjacency,
        )

    def check_run(self) -> None:
        """Raises `InvalidValue` for field values that a run of a command or `fit` cannot use; charges nothing."""

    def require_source(self, vote_source: VoteSource) -> None:
        """Reads the votes, and raises `InvalidValue` if the aggregator cannot summarize them; charges nothing."""
        self.summarize(vote_source)

    def identity(self, shape: VoteShape) -> str:
        """Returns all public parameters as text, by which a stored release is recognized.

        Two texts for one shape are equal only if both aggregators price and draw in the same way. A subclass may add
        what it computes from the shape.
        """
        return unabridged_repr(self)

    def aggregate(
        self, votes: Any, *, num_teachers: int, rng: Rng, ledger: Ledger | None = None
    ) -> Release:
        """Releases labels for all queries of votes that are given as an array.

        Args:
            votes: counts, integers `[num_queries, num_labels]` in 0..num_teachers. An aggregator that reads the votes
                of each teacher takes an array `[num_teachers, num_queries, num_labels]`, or an iterable of blocks of it
                along the first axis. Impossible votes are refused before any charge.
            num_teachers: the number of teachers, public.
            rng: the source of all noise; each call and each query gets fresh noise. An integer seed is refused.
            ledger: the ledger to charge; None charges nothing. Each call charges before any noise is drawn, and the
                charge is then on disk if the ledger has a file. Where the ledger refuses the charge, nothing is
                released.
        """
        require_generator(rng)
        vote_source = self._source_of(votes, num_teachers)
        planned_aggregator = self._with_usual_failure_prob(vote_source.num_queries)
        warn_if_useless(self, vote_shape=vote_source.shape)
        record = planned_aggregator._memory_record(vote_shape=vote_source.shape, ledger=ledger)
        return planned_aggregator.release(vote_source, rng=rng, record=record)

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
        """Returns a copy of the aggregator with the least noise whose epsilon is at most `target_epsilon`.

        Epsilon is computed at the delta `target_delta`. With a `ledger` the release must also fit into the ledger, so
        the noise is larger where the ledger has less than the target left. A `failure_prob` of None is set as in
        `fitted`. If the ledger has charges, it is also set so low that more than half of the delta that the ledger has
        left for failures stays for later releases, unless that needs a value below 2**-53.

        Args:
            target_epsilon: > 0; None stands for the cap of the ledger.
            target_delta: in (0, 1); None stands for the delta of the ledger.
            num_queries: the number of queries of the release.
            num_labels: the number of labels.
            num_teachers: the number of teachers.
            accountant: a function without arguments that returns an empty accountant, which computes epsilon.
            ledger: the ledger of the private data; None without one.

        Raises:
            InvalidValue: no noise reaches the target, the failure probabilities use up delta, a target is missing, or
                the ledger has another adjacency or delta.
            BudgetExceeded: no noise fits into the ledger.

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
        vote_shape = VoteShape(
            num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers
        )
        if ledger is not None:
            return fitted_to_ledger(
                self,
                ledger,
                vote_shape,
                target_epsilon=target_epsilon,
                target_delta=target_delta,
                make_accountant=accountant,
            )
        rule = "a number > 0, or a ledger= beside it"
        if target_epsilon is None:
            raise InvalidValue("target_epsilon", None, rule=rule)
        if target_delta is None:
            raise InvalidValue("target_delta", None, rule=rule)
        budget = Budget(epsilon=target_epsilon, delta=target_delta, accountant=accountant)
        return self.fitted(budget, vote_shape)

    def fitted(self, budget: Budget, shape: VoteShape) -> Self:
        """Returns a copy of the aggregator with the least noise whose price meets a budget.

        A class with several noises may override `fitted` to find their proportion first, as `StableTopK` does. A
        `failure_prob` of None is set to its usual value, or lower where the budget's delta needs a lower one.

        Args:
            budget: the epsilon and delta that the release may cost.
            shape: the number of queries, labels and teachers of the release.

        Raises:
            InvalidValue: no noise meets the budget, or the failure probabilities use up its delta.
        """
        planned_aggregator = with_failure_prob_for(
            self, delta=budget.delta, num_queries=shape.num_queries
        )
        return planned_aggregator.scaled_to(budget, vote_shape=shape)

    def scaled_to(self, budget: Budget, vote_shape: VoteShape) -> Self:
        """Returns a copy of the aggregator with all noise multiplied by the least factor whose price meets a budget.

        Args:
            budget: the epsilon and delta that the release may cost.
            vote_shape: the number of queries, labels and teachers of the release.
        """
        return scaled_to_budget(self, budget, vote_shape)

    def scaled(self, noise_factor: float) -> Self:
        """Returns a copy of the aggregator with every noise multiplied by `noise_factor` > 0; None stays None.

        Raises `InvalidValue` for a class without a field that is marked as noise.
        """
        noise_fields = fields_marked(type(self), mark="noise")
        if not noise_fields:
            rule = 'a dataclass with field(metadata={"noise": True})'
            raise InvalidValue(type(self).__name__, rule=rule)
        scaled_field_values = {}
        for field_name in noise_fields:
            field_value = getattr(self, field_name)
            if field_value is not None:
                scaled_field_values[field_name] = field_value * noise_factor
        return self.with_values(scaled_field_values)

    @final
    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        """Returns the price of a release, as `event` does, for three numbers in place of a shape.

        As in `aggregate`, a `failure_prob` of None is first replaced by a value that suits a delta of 1e-6.
        """
        vote_shape = VoteShape(
            num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers
        )
        return self._with_usual_failure_prob(num_queries).event(vote_shape)

    def release(self, votes: VoteSource, rng: Rng, record: ReleaseRecord) -> Release:
        """Releases labels for all queries of the votes, and has the record charge the price before the method returns.

        If the record already holds this release, the release is read from the record and nothing is drawn. A subclass
        that releases in several parts overrides `release` and draws each part within `record.part`.

        Args:
            votes: the private votes, of the type that `summarize` reads.
            rng: the source of all noise; an integer seed is refused.
            record: charges the price with the first part, and stores each part before the part is returned. A
                `MemoryRecord` charges before the first draw. A `LedgerRecord` stores the first drawn part and the
                charge together.
        """
        require_generator(rng)
        vote_shape = votes.shape
        event = self.event(vote_shape)
        arrays = record.committed("release")
        if arrays is None:
            # The votes are computed before the charge, because teachers may fail.
            summary = self.summarize(votes)

            def draw_part() -> Arrays:
                return self.draw_all(summary, vote_shape, rng)._asdict()

            arrays = record.part("release", draw_part)
        return Release.from_arrays(arrays, event=event, adjacency=self.adjacency)

    def draw_all(self, summary: NDArray[Any], vote_shape: VoteShape, rng: Rng) -> Answers:
        """Draws the answers to all queries, by calls of `draw` with at most `queries_at_once` queries each.

        Args:
            summary: the result of `summarize` for all queries.
            vote_shape: the number of queries, labels and teachers.
            rng: the source of all noise.

        Raises:
            InvalidValue: `draw` returned no tuple of labels and answered, or arrays of another shape.
        """
        method_name = f"{type(self).__name__}.draw"
        block_size = self.queries_at_once or max(vote_shape.num_queries, 1)
        if vote_shape.num_queries <= block_size:
            drawn_answers = self.draw(_as_int64(summary), vote_shape, rng)
            return Answers.from_draw(drawn_answers, vote_shape=vote_shape, method_name=method_name)
        labels = np.zeros((vote_shape.num_queries, vote_shape.num_labels), dtype=np.bool_)
        answered = np.zeros(vote_shape.num_queries, dtype=np.bool_)
        for start in range(0, vote_shape.num_queries, block_size):
            query_range = slice(start, min(start + block_size, vote_shape.num_queries))
            vote_shape_of_block = replace(
                vote_shape, num_queries=query_range.stop - query_range.start
            )
            drawn_answers = self.draw(_as_int64(summary[query_range]), vote_shape_of_block, rng)
            answers = Answers.from_draw(
                drawn_answers, vote_shape=vote_shape_of_block, method_name=method_name
            )
            labels[query_range] = answers.labels
            answered[query_range] = answers.answered
        return Answers(labels=labels, answered=answered)

    def require_counts(self, counts: Any, *, num_teachers: int) -> NDArray[np.integer]:
        """Returns counts `[num_queries, num_labels]`, of any integer type, once they are checked.

        Args:
            counts: the counts to check.
            num_teachers: the number of teachers who voted.

        Raises:
            InvalidValue: that number of teachers cannot have cast such votes.
        """
        # No count exceeds num_teachers. A row may sum to more, as a teacher may vote for several labels.
        checked_counts = require_histogram("votes", counts, largest_count=num_teachers, num_axes=2)
        max_votes = self.max_votes_per_teacher
        if max_votes is not None:
            max_sum = max_votes * num_teachers
            is_possible = checked_counts.sum(axis=1, dtype=np.int64) <= max_sum
            require_entries(
                "votes",
                is_possible,
                rule=f"a sum of at most {max_sum}, as {num_teachers} teachers with max_votes={max_votes} cast; "
                "GaussianVotes (aggregator=gaussian_votes) takes samples with several labels",
            )
        return checked_counts

    def checked_blocks(
        self, blocks: Iterable[NDArray[Any]], vote_shape: VoteShape
    ) -> Iterator[NDArray[Any]]:
        """Yields blocks of teachers' votes, `[num_teachers_in_block, num_queries, num_labels]`, after checking them.

        Under add/remove there may be fewer teachers than the shape declares.

        Args:
            blocks: bits or confidences of some teachers in each block.
            vote_shape: the shape that the price is for.

        Raises:
            InvalidValue: votes that no teacher can cast, or another number of teachers, queries or labels than in
                `vote_shape`.
        """
        priced_shape = (vote_shape.num_queries, vote_shape.num_labels)
        for block in vote_blocks(
            blocks, num_teachers=vote_shape.num_teachers, adjacency=self.adjacency
        ):
            if block.shape[1:] != priced_shape:
                rule = (
                    f"[num_teachers_in_block, {vote_shape.num_queries}, {vote_shape.num_labels}], "
                )
                rule += "which the price is for"
                raise InvalidValue("votes.shape", block.shape, rule=rule)
            yield block

    @property
    def reads_counts(self) -> bool:
        """Whether the aggregator reads counts of votes, and not the votes of each teacher."""
        return issubclass(CountedVotes, self.reads)

    def _source_of(self, votes: Any, num_teachers: int) -> VoteSource:
        """Returns votes that are given as an array as a vote source of the type that this aggregator reads.

        Args:
            votes: counts or the votes of each teacher, as in `aggregate`.
            num_teachers: the number of teachers, public.
        """
        if self.reads_counts:
            max_votes = self.max_votes_per_teacher
            return CountTable(vote_counts=votes, num_teachers=num_teachers, max_votes=max_votes)
        return VoteBlocks(votes, num_teachers=num_teachers)

    def _memory_record(self, vote_shape: VoteShape, ledger: Ledger | None) -> MemoryRecord:
        """Returns a record in memory that charges the price of a release before the first part is drawn.

        Args:
            vote_shape: the number of queries, labels and teachers of the release.
            ledger: the ledger to charge; None for a record that charges nothing.
        """
        event = self.event(vote_shape)
        if ledger is None:
            return MemoryRecord()
        return MemoryRecord.for_ledger(
            ledger, event, adjacency=self.adjacency, description=repr(self)
        )

    def _with_usual_failure_prob(self, num_queries: int) -> Self:
        """Returns a copy of the aggregator whose `failure_prob` suits this number of queries at a delta of 1e-6.

        Callers without a budget name no delta, so this usual one stands in. A `failure_prob` that is a number is kept.
        """
        return with_failure_prob_for(self, delta=USUAL_DELTA, num_queries=num_queries)


def _as_int64(summary: NDArray[Any]) -> NDArray[Any]:
    """Returns integer counts as int64, so that noise cannot overflow; returns a summary of another type unchanged."""
    if summary.dtype.kind not in "iu":
        return summary
    return summary.astype(np.int64, copy=False)


def fields_marked(aggregator_class: type[Aggregator], mark: str) -> frozenset[str]:
    """Returns the names of the fields of an aggregator class that have a mark in their metadata.

    Args:
        aggregator_class: the aggregator class.
        mark: "noise" for fields of noise, which calibration changes, "solved" for other fields whose value calibration
            computes, "public" for strings that may be published.
    """
    return frozenset(
        dataclass_field.name
        for dataclass_field in fields(aggregator_class)
        if dataclass_field.metadata.get(mark)
    )
