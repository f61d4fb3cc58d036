"""What every aggregator offers: a price that never sees votes, and a release that is priced before it exists."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Accountant, Adjacency, AutoAccountant, Event, NonPrivateEvent, calibrate
from pate.aggregators.release import Release
from pate.files.fingerprint import full_text
from pate.validation import InvalidValue, require, require_count
from pate.votes.made_up_votes import USUAL_LABELS, MadeUpVotes
from pate.votes.source import VoteSource

if TYPE_CHECKING:
    from pate.accounting import Ledger
    from pate.mechanisms.stability_test import StabilityTest


Bits = NDArray[np.bool_]

Arrays = dict[str, NDArray[Any]]

Watch = Callable[[int, int, int], None]
"""Told how far a session is: queries asked, hits among them, hits that are left."""


@runtime_checkable
class PriorRule(Protocol):
    """Predicts the next answers before each round, from earlier rounds."""

    def __call__(self, labels: Bits, answered: Bits, num_queries: int) -> Bits:
        """The expected labels of the queries that follow, `[num_queries, L]`; a row without a label expects nothing.

        Args:
            labels: `[start, L]` released in the rounds before.
            answered: `[start]`.
            num_queries: of the next round.
        """


class Drawn:
    """What was drawn for one release, part after part, in memory; `pate.run.payment` has one that a crash outlives.

    The first part is charged, and that charge covers all parts. A part that is there is read back, and never drawn
    again: later parts were drawn for what it says.

    Args:
        charge: called before the first part is drawn; may raise.
    """

    def __init__(self, charge: Callable[[], object] | None = None) -> None:
        self._charge, self._parts = charge, dict[str, Arrays]()

    def once(self, part: str, draw: Callable[[], Arrays]) -> Arrays:
        """The arrays of a part: read back, or drawn and kept. Nobody may be shown them before this returns."""
        if part not in self._parts:
            if self._charge is not None:
                self._charge()
                self._charge = None
            self._parts[part] = draw()
        return self._parts[part]

    def read(self, part: str) -> Arrays | None:
        """The arrays of a part that was drawn, or None."""
        return self._parts.get(part)


@dataclass(frozen=True, eq=False)
class ReleaseContext:
    """What `Aggregator.release_from` gets besides the votes.

    Attributes:
        rng: fresh noise comes from it.
        ledger: charged once, and on disk, before any noise is drawn; None charges nothing.
        drawn: what was drawn before, and pays for what is drawn now; None keeps it in memory, and charges the ledger.
        prior: what a student expects; for aggregators that `expects_prior`.
        watch: told how far a session is.
    """

    rng: np.random.Generator
    ledger: Ledger | None = None
    drawn: Drawn | None = None
    prior: PriorRule | None = None
    watch: Watch | None = None


NUM_QUERIES = 256
"""Made-up queries that an aggregator is run on."""

LEAST_ANSWERED, _LEAST_RIGHT = 1 / 3, 0.75


@dataclass(frozen=True)
class ExpectedRelease:
    """How many labels of a query a release gets right, if teachers agree to a known degree.

    Attributes:
        answered: the probability that a query is answered, in [0, 1].
        present: the share of labels that are present and said to be, in an answer; 0 without an answer.
        absent: the share of labels that are absent and said to be, in an answer; 0 without an answer.
    """

    answered: float
    present: float
    absent: float

    @property
    def success(self) -> float:
        """`answered` times `right`: 1 at best."""
        return self.answered * self.right

    @property
    def right(self) -> float:
        """The mean of the two shares: 1/2 for answers that are drawn blindly."""
        return (self.present + self.absent) / 2

    @property
    def is_useless(self) -> bool:
        """Whether fewer than a third of the queries are answered, or more than a quarter of the bits are wrong."""
        return self.answered < LEAST_ANSWERED or self.right < _LEAST_RIGHT

    @classmethod
    def counted(cls, labels: NDArray[np.bool_], answered: NDArray[np.bool_], true: NDArray[np.bool_]) -> Self:
        """What was released `[Q, L]` and answered `[Q]` against the labels that the queries have."""
        if not answered.any():
            return cls(0.0, 0.0, 0.0)
        said, true = labels[answered], true[answered]
        present = float(said[true].mean()) if true.any() else 1.0
        absent = float((~said[~true]).mean()) if not true.all() else 1.0
        return cls(float(answered.mean()), present, absent)

    @classmethod
    def together(cls, parts: Sequence[tuple[int, Self]]) -> Self:
        """Of several parts of a release, each with its number of queries."""
        answers = np.array([count * part.answered for count, part in parts])
        if not answers.any():
            return cls(0.0, 0.0, 0.0)
        present, absent = (
            float(np.average([getattr(part, name) for _, part in parts], weights=answers))
            for name in ("present", "absent")
        )
        return cls(float(answers.sum() / sum(count for count, _ in parts)), present, absent)


_STACK_LEVEL = 5
_unwatched: ContextVar[bool] = ContextVar("unwatched", default=False)


class UselessReleaseWarning(UserWarning):
    """The noise hides even votes on which all teachers agree."""


@contextmanager
def without_warning() -> Iterator[None]:
    """Where a release was judged before, or is nobody's."""
    token = _unwatched.set(True)
    try:
        yield
    finally:
        _unwatched.reset(token)


def warn_if_useless(aggregator: Aggregator, *, num_queries: int, num_labels: int, num_teachers: int) -> None:
    """Warns, once for each aggregator and shape, before anything is charged."""
    if _unwatched.get():
        return
    shape = (num_queries, num_labels, num_teachers)
    try:
        _warned(aggregator, *shape)
    except TypeError:  # an aggregator with a field that has no hash
        _warn(aggregator, *shape)


def _warn(aggregator: Aggregator, num_queries: int, num_labels: int, num_teachers: int) -> None:
    try:
        expected = aggregator.expected_release(
            num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers
        )
    except InvalidValue:  # an aggregator of one's own that takes no made-up votes
        return
    if expected.is_useless:
        warnings.warn(_said(aggregator, expected, num_teachers), UselessReleaseWarning, stacklevel=_STACK_LEVEL)


_warned = lru_cache(maxsize=4096)(_warn)


def _said(aggregator: Aggregator, expected: ExpectedRelease, num_teachers: int) -> str:
    heard = f"unanimous votes of {num_teachers} teachers would be heard in {expected.success:.0%} of the cases"
    remedy = "take more teachers or less noise; pate-account suggest=true finds numbers that work"
    return f"aggregator={type(aggregator).__name__}: {heard}, where chance has 50%; {remedy}"


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
        arrays = drawn.read("release")
        if arrays is None:
            draw = self._gathered_for(source, context.rng)  # before it is paid for: teachers may fail
            arrays = drawn.once("release", lambda: draw().arrays())
        return self.load_release(arrays, source)

    def noiseless_from(self, source: VoteSource, drawn: Drawn) -> Release:
        """What the votes say by themselves, given what was drawn: every label's majority. No epsilon covers it."""
        majority = 2 * source.counts() > source.num_teachers
        return Release(majority, np.ones(len(majority), dtype=np.bool_), NonPrivateEvent(), self.adjacency)

    def _gathered_for(self, source: VoteSource, rng: np.random.Generator) -> Callable[[], Release]:
        """Reads the votes of a source that is drawn in one part; what it returns draws, for whoever has paid."""
        votes = self._read(source)
        return lambda: self.aggregate(votes, num_teachers=source.num_teachers, rng=rng)

    def load_release(self, arrays: Arrays, source: VoteSource) -> Release:
        """What was drawn, as a release; an aggregator whose releases hold more than labels says how."""
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
