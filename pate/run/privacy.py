"""What may be said of a release: its price, and how much of it was answered."""

from __future__ import annotations

from typing import Any

from pate.accounting import Adjacency
from pate.accounting.events import failure_probability
from pate.aggregators import Aggregator, Release
from pate.files.values import published_fields
from pate.pricing import Budget
from pate.report import Privacy
from pate.report.report import ReleaseSummary

_UNITS = {
    Adjacency.REPLACE_ONE: "one private record, or group of records that belong together, replaced",
    Adjacency.ADD_REMOVE: "one teacher added or removed",
}


def privacy_of(
    release: Release,
    aggregator: Aggregator,
    budget: Budget,
    *,
    epsilon: float,
    num_teachers: int,
    seeded: bool,
    won_by: str | None = None,
) -> Privacy:
    """The price of a release with the parameters that it was made with; all of it may be published.

    Args:
        release: what was released.
        aggregator: as it was used.
        budget: the delta of the guarantee, and the accountant.
        epsilon: the total of the ledger.
        num_teachers: T.
        seeded: whether the noise came from a seed.
        won_by: the accountant whose figure epsilon is, where the budget's asks others.
    """
    test = aggregator.stability_test(num_teachers=num_teachers)
    plain = (str, int, float, bool)
    published = published_fields(type(aggregator), vars(aggregator))
    return Privacy(
        epsilon=epsilon,
        delta=budget.target_delta,
        adjacency=str(release.adjacency),
        unit=_UNITS[release.adjacency],
        accountant=budget.accountant().name,
        won_by=won_by,
        mechanism=type(aggregator).__name__,
        num_queries=release.num_queries,
        paper_epsilon=aggregator.paper_epsilon(num_queries=release.num_queries, target_delta=budget.target_delta),
        noise_seeded=seeded,
        failure_prob=failure_probability(release.event),
        max_gap=None if test is None else test.num_teachers,
        gap_at_50=None if test is None else test.gap_to_pass(0.5),
        gap_at_95=None if test is None else test.gap_to_pass(0.95),
        parameters={name: value for name, value in published.items() if isinstance(value, plain)},
        **_charging(release, aggregator, budget, num_teachers),
    )


def summary_of(release: Release) -> ReleaseSummary:
    """How many queries were answered; of how right the answers are it says nothing."""
    session = release.session
    names = ("num_hits", "remaining_hits", "num_abstained", "num_asked")
    return ReleaseSummary(
        num_queries=release.num_queries,
        num_answered=release.num_answered,
        answer_rate=release.num_answered / release.num_queries,
        label_accuracy=None,
        micro_f1=None,
        **({} if session is None else {name: getattr(session, name) for name in names}),
    )


def _charging(release: Release, aggregator: Aggregator, budget: Budget, num_teachers: int) -> dict[str, Any]:
    """What the price of a session is compared with."""
    if (session := release.session) is None:
        return {}
    event = aggregator.plain_event(
        num_queries=session.num_asked, num_labels=session.labels.shape[1], num_teachers=num_teachers
    )
    return {
        "target_hits": session.target_hits,
        "plain_epsilon": None if event is None else budget.epsilon_of(event),
    }
