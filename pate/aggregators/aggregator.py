"""What every aggregator offers: a price that never sees votes, and a release that is priced before it exists."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from pate.accounting import Accountant, Adjacency, AutoAccountant, Event, NonPrivateEvent, calibrate
from pate.aggregators.expected.expected_release import NUM_QUERIES, ExpectedRelease
from pate.aggregators.expected.useless import without_warning
from pate.aggregators.release import Release
from pate.aggregators.release_context import Arrays, Drawn, ReleaseContext
from pate.files.fingerprint import full_text
from pate.validation import require, require_count
from pate.votes.made_up_votes import USUAL_LABELS, MadeUpVotes
from pate.votes.source import VoteSource

if TYPE_CHECKING:
    from pate.accounting import Ledger
    from pate.mechanisms.stability_test import StabilityTest

InputForm = Literal["counts", "bits", "confidences", "centered"]
"""What `aggregate` reads: counts `[Q, L]`; each teacher's bits or confidences, `[c, Q, L]` per block; or votes around a
center."""


@dataclass(frozen=True, kw_only=True)
class Aggregator(ABC):
    """Turns vote counts into labels under a price.

    A frozen dataclass whose fields are public parameters; votes and the generator are call arguments, so the price
    cannot depend on them.

    Attributes:
        adjacency: what one change means; it sets thresholds and price alike.
        input_form: what `aggregate` reads, of the class.
        single_label: whether it is for one label per sample, of the class: every answer names exactly one.
        pays_in_advance: whether a whole session is charged before its first query, of the class.
        remedies: what helps against a loss to "noise", "the teachers" or "the number of queries", of the class; without
            one for what the method does not lose anything to.
    """

    input_form: ClassVar[InputForm]
    single_label: ClassVar[bool] = False
    pays_in_advance: ClassVar[bool] = False
    remedies: ClassVar[Mapping[str, str]] = {
        "noise": "more teachers, fewer queries or a larger epsilon",
        "the teachers": "more records for each teacher, or scaled inputs",
        "the number of queries": "more queries",
    }

    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))

    @abstractmethod
    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        """The price of aggregating that many queries, answered or refused."""

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """The same aggregator with every noise multiplied by `factor` > 0: the calibrator's handle."""

    def stability_test(self, *, num_teachers: int) -> StabilityTest | None:
        """The test that an answer has to pass, for that many teachers; None where there is none."""
        return None

    def plain_event(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event | None:
        """What the same answers cost without a session; None where there is no session."""
        return None

    def check_run(self) -> None:  # noqa: B027 - most aggregators take any run
        """Raises `InvalidValue` where a run cannot use it as it is, before anything is spent."""

    def require_source(self, source: VoteSource) -> None:
        """Raises `InvalidValue` where it cannot read a source that others made: reads it once, before any charge."""
        votes = self._read(source)
        if self.input_form != "counts":
            for _ in votes:
                pass

    @property
    def expects_prior(self) -> bool:
        """Whether a release goes by what a student expects."""
        return False

    @property
    def never_empty(self) -> bool:
        """Whether an answer always names a label."""
        return False

    @property
    def max_votes_per_teacher(self) -> int | None:
        """The most labels of a query that the price lets one teacher vote for; None where it lets it vote for all."""
        return None

    @property
    def max_labels(self) -> int | None:
        """The most labels that an answer is made to name; None where it may name any number."""
        return 1 if self.single_label else None

    @property
    def exact_labels(self) -> int | None:
        """How many labels every answer names, where that is fixed."""
        return 1 if self.single_label else None

    def expected_release(
        self, *, num_queries: int, num_labels: int, num_teachers: int, agreement: float = 1.0
    ) -> ExpectedRelease:
        """What it would tell of queries on which teachers agree to that degree; a function of public numbers alone.

        It is run on a few hundred made-up queries (`MadeUpVotes`) with a fixed seed, or computed. Nothing is charged.

        Args:
            num_queries: Q of the whole release; how many are made up does not depend on it.
            num_labels: L.
            num_teachers: T.
            agreement: the share of the teachers that name each label which a query has, in [0, 1]; 1 is unanimity.

        Raises:
            InvalidValue: made-up votes that it does not take.

        >>> from pate.aggregators import GaussianVotes
        >>> expected = GaussianVotes(noise_std=200.0).expected_release(num_queries=600, num_labels=40, num_teachers=200)
        >>> expected.answered, round(expected.success, 2)
        (1.0, 0.69)
        """
        votes = self._made_up(num_labels, num_teachers, agreement)
        with without_warning():
            release = self.release_from(votes, ReleaseContext(np.random.default_rng(0)))
        return ExpectedRelease.counted(release.labels, release.answered, votes.labels)

    def _made_up(
        self, num_labels: int, num_teachers: int, agreement: float, num_queries: int = NUM_QUERIES
    ) -> MadeUpVotes:
        """Queries with as many labels as it names, or as are usual and it can name."""
        require_count("num_labels", num_labels)
        usual = min(USUAL_LABELS, num_labels // 2, self.max_labels or num_labels)
        num_present = max(1, min(self.exact_labels or usual, num_labels))
        return MadeUpVotes(
            num_queries=num_queries,
            num_labels=num_labels,
            num_teachers=num_teachers,
            agreement=agreement,
            num_present=num_present,
        )

    def calibrated(
        self,
        *,
        target_epsilon: float,
        target_delta: float,
        num_queries: int,
        num_labels: int,
        num_teachers: int,
        accountant: Callable[[], Accountant] = AutoAccountant,
    ) -> Self:
        """The same aggregator with the least noise that costs at most `target_epsilon` at `target_delta`.

        Raises:
            InvalidValue: no noise reaches the target, or failure probabilities use up delta.
        """
        shape = {"num_queries": num_queries, "num_labels": num_labels, "num_teachers": num_teachers}
        factor = calibrate(
            lambda noise: self.scaled(noise).event_for(**shape),
            target_epsilon=target_epsilon,
            target_delta=target_delta,
            accountant=accountant,
        )
        return self.scaled(factor)

    def paper_epsilon(self, *, num_queries: int, target_delta: float) -> float | None:
        """What the mechanism's own paper would print; not a bound. None where the paper's accounting gives nothing."""
        return None

    @abstractmethod
    def aggregate(
        self,
        votes: Any,
        *,
        num_teachers: int,
        rng: np.random.Generator,
        ledger: Ledger | None = None,
    ) -> Release:
        """Releases labels for all queries; `HistogramAggregator` and `TeacherVotesAggregator` say what they read."""

    def release_from(self, source: VoteSource, context: ReleaseContext) -> Release:
        """Releases labels for all queries of an ensemble: reads its votes in the form that suits, then `aggregate`.

        Args:
            source: the votes.
            context: the noise, the ledger, and what was done before.

        Raises:
            InvalidValue: a source that does not give such votes; whatever `aggregate` refuses.
        """
        drawn = self._drawn(source, context)
        arrays = drawn.once("release", lambda: self._released_from(source, context.rng).arrays())
        return self._release_of(arrays, source)

    def noiseless_from(self, source: VoteSource, drawn: Drawn) -> Release:
        """What the votes say by themselves, given what was drawn: every label's majority. No epsilon covers it."""
        majority = 2 * source.counts() > source.num_teachers
        return Release(majority, np.ones(len(majority), dtype=np.bool_), NonPrivateEvent(), self.adjacency)

    def _released_from(self, source: VoteSource, rng: np.random.Generator) -> Release:
        """Draws the release of a source that is drawn in one part; whoever calls it has paid."""
        return self.aggregate(self._read(source), num_teachers=source.num_teachers, rng=rng)

    def _release_of(self, arrays: Arrays, source: VoteSource) -> Release:
        """A release from its arrays."""
        return Release.of_arrays(arrays, event=self._event_of(source), adjacency=self.adjacency)

    def _event_of(self, source: VoteSource) -> Event:
        """The price of releasing a source."""
        shape = {"num_queries": source.num_queries, "num_labels": source.num_labels}
        return self.event_for(num_teachers=source.num_teachers, **shape)

    def _drawn(self, source: VoteSource, context: ReleaseContext) -> Drawn:
        """Where what is drawn is kept, and paid for: all of it with the first part."""
        if context.drawn is not None:
            return context.drawn
        return Drawn(lambda: self._pay(self._event_of(source), context.ledger))

    def _read(self, source: VoteSource) -> Any:
        """The votes in the form that `aggregate` reads."""
        if self.input_form == "counts":
            return source.counts(self.max_votes_per_teacher)
        return source.bits() if self.input_form == "bits" else source.confidences()

    def _pay(self, event: Event, ledger: Ledger | None) -> None:
        """Charges the ledger, where there is one; each call is a release of its own."""
        if ledger is not None:
            from pate.accounting.ledger import require_ledger

            require_ledger(ledger).charge(event, adjacency=self.adjacency, description=repr(self))

    def identity(self, *, num_labels: int, num_teachers: int) -> str:
        """All public parameters, as text that no two aggregators share which can release different things.

        An aggregator with a function among its fields must say what the function does, as `StableTopK` does.
        """
        return full_text(self)


def require_aggregator(given: Any) -> None:
    """Raises `InvalidValue` where this is no aggregator."""
    shown = given if isinstance(given, (str, type)) else type(given).__name__
    require(isinstance(given, Aggregator), "aggregator", shown, "an object such as GaussianVotes(noise_std=…)")
