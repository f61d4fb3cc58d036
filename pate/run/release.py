"""The release stage: what is drawn is committed with its charge before anybody sees it; and what is said of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting.events import failure_probability
from pate.aggregators import Release, ReleaseRecord
from pate.aggregators.record import Arrays
from pate.aggregators.release import ChargedRelease
from pate.aggregators.session import TargetChargedAggregator
from pate.files.disk import write_text
from pate.files.values import published_fields
from pate.pricing import PricedRelease
from pate.report import Privacy, PrivacyStatement, format_epsilon, privacy_card
from pate.report.metrics import micro_f1
from pate.report.report import ReleaseSummary
from pate.report.tensorboard import RunWriter
from pate.run.charging import RunCharge
from pate.run.places import Places
from pate.run.progress import Advance

_OF_A_SESSION = ("num_hits", "remaining_hits", "num_abstained", "num_asked")


class WatchedSession:
    """A record of a session that says how far it is, round by round: queries asked, hits among them, and hits left.

    Other releases have no hits, and say nothing.
    """

    def __init__(
        self, record: ReleaseRecord, target_hits: int, watch: Callable[[int, int, int], None]
    ) -> None:
        self._record = record
        self._target_hits = target_hits
        self._watch = watch
        self._num_asked = 0
        self._num_hits = 0

    def part(self, name: str, draw: Callable[[], Arrays]) -> Arrays:
        """Returns the arrays of a part, as the record does; then says how far the session is."""
        arrays = self._record.part(name, draw)
        if "hits" in arrays:
            self._num_asked += len(arrays["hits"])
            self._num_hits += int(arrays["hits"].sum())
            hits_left = self._target_hits - self._num_hits
            self._watch(self._num_asked, self._num_hits, hits_left)
        return arrays

    def committed(self, name: str) -> Arrays | None:
        """Returns the arrays of a part that was committed before, or None."""
        return self._record.committed(name)


@dataclass(frozen=True, eq=False)
class SessionProgress:
    """Is told how far a session is, and tells a monitor and the curves of a run."""

    advance: Advance
    events: RunWriter
    epsilon: float  # what the whole session costs

    def __call__(self, num_asked: int, num_hits: int, hits_left: int) -> None:
        self.events.hits(num_asked, hits=num_hits, remaining_hits=hits_left, epsilon=self.epsilon)
        cost = f"epsilon {format_epsilon(self.epsilon)}"
        self.advance(num_asked, f"{num_hits} hits, {hits_left} remaining, {cost}")


def watched(
    record: ReleaseRecord, priced: PricedRelease, advance: Advance, events: RunWriter
) -> ReleaseRecord:
    """Returns a record that says how far a session is; the record itself, where the aggregator has no session."""
    if not isinstance(priced.aggregator, TargetChargedAggregator):
        return record
    progress = SessionProgress(advance, events, priced.epsilon)
    return WatchedSession(record, priced.aggregator.target_hits, progress)


def privacy_of(release: Release, charge: RunCharge) -> Privacy:
    """The price of a release with the parameters that it was made with; all of it may be published."""
    priced = charge.priced
    budget = charge.budget
    session = release if isinstance(release, ChargedRelease) else None
    aggregator = priced.aggregator
    num_teachers = priced.shape.num_teachers
    test = aggregator.stability_test(num_teachers=num_teachers)
    published = published_fields(type(aggregator), vars(aggregator))
    plain = None  # what the price of a session is compared with
    if session is not None:
        plain = aggregator.plain_event(replace(priced.shape, num_queries=session.num_asked))
    return Privacy(
        epsilon=charge.epsilon,
        delta=budget.delta,
        adjacency=str(release.adjacency),
        unit=charge.unit.protected_under(release.adjacency),
        unit_columns=charge.unit.columns,
        accountant=budget.accountant().name,
        won_by=priced.won_by,
        mechanism=type(aggregator).__name__,
        num_queries=release.num_queries,
        paper_epsilon=aggregator.paper_epsilon(
            num_queries=release.num_queries, target_delta=budget.delta
        ),
        noise_seeded=charge.seed is not None,
        failure_prob=failure_probability(release.event),
        max_gap=None if test is None else test.num_teachers,
        gap_at_50=None if test is None else test.gap_to_pass(0.5),
        gap_at_95=None if test is None else test.gap_to_pass(0.95),
        target_hits=None if session is None else session.target_hits,
        plain_epsilon=None if plain is None else budget.epsilon_of(plain),
        parameters={
            name: value
            for name, value in published.items()
            if isinstance(value, (str, int, float, bool))
        },
        classes={each.name: each.epsilon for each in priced.classes},
    )


def summary_of(release: Release, true: NDArray[np.bool_] | None = None) -> ReleaseSummary:
    """How many queries were answered, and where their true labels `[Q, L]` are given how right the answers are."""
    session = release if isinstance(release, ChargedRelease) else None
    labels = release.labels[release.answered]
    right = None if true is None or not len(labels) else true[release.answered]
    return ReleaseSummary(
        num_queries=release.num_queries,
        num_answered=release.num_answered,
        answer_rate=release.num_answered / release.num_queries,
        label_accuracy=None if right is None else float(np.mean(labels == right)),
        micro_f1=None if right is None else micro_f1(labels, right),
        **({} if session is None else {name: getattr(session, name) for name in _OF_A_SESSION}),
    )


def write_price(
    release: Release,
    charge: RunCharge,
    privacy: Privacy,
    places: Places | None,
    *,
    data: str,
    real: bool,
    **told: Any,
) -> None:
    """The privacy card, and the same price for programs; `told` is told to the card."""
    shape = charge.priced.shape
    folder = charge.folder.release
    data = data if real else f"{data} (synthetic)"
    about: dict[str, Any] = {"num_labels": shape.num_labels, "num_teachers": shape.num_teachers}
    about["num_answered"] = release.num_answered
    said = () if places is None else places.said(release, charge.budget, num_draws=charge.num_draws)
    hits = release.num_hits if isinstance(release, ChargedRelease) else None
    card = privacy_card(privacy, dataset=data, **about, num_hits=hits, places=said, **told)
    write_text(folder / "privacy_card.md", card)
    PrivacyStatement.of(privacy, data=data, **about).write(folder)
