"""What a budget buys: the one place that solves for noise or queries, and the priced release that comes out."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from pate.accounting import Event
from pate.aggregators import Aggregator
from pate.files.fingerprint import digest
from pate.pricing.achievable_delta import require_achievable_delta
from pate.pricing.budget import Budget
from pate.pricing.query_count import largest_num_queries
from pate.pricing.shape import ReleaseShape


@dataclass(frozen=True)
class PricedRelease:
    """A planned release and its price; a function of public numbers alone.

    Attributes:
        aggregator: with the noise that will be used.
        shape: with the number of queries that will be asked.
        event: its price, that of all charges together.
        epsilon: of that event, at the budget's delta.
        solved_for: what the budget decided: fields of the aggregator, or num_queries.
        doubts: what `require_useful` said of it, one line each.
        won_by: the accountant whose figure the epsilon is, where the budget's asks others; else None.
    """

    aggregator: Aggregator
    shape: ReleaseShape
    event: Event
    epsilon: float
    solved_for: dict[str, Any] = field(default_factory=dict, compare=False)
    doubts: tuple[str, ...] = field(default=(), compare=False)
    won_by: str | None = field(default=None, compare=False)

    @property
    def identity(self) -> str:
        """A digest of all that decides the release beside votes and noise: equal for equal releases only."""
        shape = self.shape
        asked = self.aggregator.identity(num_labels=shape.num_labels, num_teachers=shape.num_teachers)
        return digest([asked, shape.as_arguments])


def plan_release(
    aggregator: Aggregator, shape: ReleaseShape, budget: Budget, *, more_queries: bool = False
) -> PricedRelease:
    """Solves for the noise or the number of queries that meets the budget, and prices the release.

    With `target_epsilon` the noise is solved for, for all queries of the shape. With `max_epsilon` the noise stays, and
    the number of queries is solved for. With neither the release is priced as it is.

    Args:
        aggregator: with noise to start from, or as it is.
        shape: what is to be released.
        budget: what it may cost.
        more_queries: whether `max_epsilon` may buy more queries than the shape has, as many as it pays for.

    Raises:
        InvalidValue: no noise reaches the target; not even one query is affordable; failure probabilities use up
            delta; more labels and queries than draws can keep the delta for.

    >>> from pate.aggregators import GaussianVotes
    >>> shape = ReleaseShape(num_queries=600, num_labels=40, num_teachers=800)
    >>> aggregator = GaussianVotes(noise_std=100.0)
    >>> f"{plan_release(aggregator, shape, Budget(target_delta=1e-6, target_epsilon=8.0)).aggregator.noise_std:.1f}"
    '81.2'
    >>> plan_release(aggregator, shape, Budget(target_delta=1e-6, max_epsilon=4.0)).shape.num_queries
    272
    """
    solved: dict[str, Any] = {}
    if budget.target_epsilon is not None:
        start, aggregator = (
            aggregator,
            aggregator.calibrated(
                target_epsilon=budget.target_epsilon,
                target_delta=budget.target_delta,
                accountant=budget.accountant,
                **shape.as_arguments,
            ),
        )
        solved = changed_fields(start, aggregator)
    if budget.max_epsilon is not None:
        found = largest_num_queries(
            aggregator,
            max_epsilon=budget.max_epsilon,
            target_delta=budget.target_delta,
            num_labels=shape.num_labels,
            num_teachers=shape.num_teachers,
            accountant=budget.accountant,
            at_most=None if more_queries else shape.num_queries,
        )
        shape, solved = shape.with_queries(found), {"num_queries": found}
    require_achievable_delta(budget.target_delta, num_queries=shape.num_queries, num_labels=shape.num_labels)
    event = shape.event_of(aggregator)
    spent = budget.accountant().compose(event)
    epsilon = spent.get_epsilon(budget.target_delta)  # raises where failures alone use up delta
    winner = spent.winner(budget.target_delta)
    won_by = winner if winner != spent.name else None
    return PricedRelease(aggregator, shape, event, epsilon, solved, won_by=won_by)


def changed_fields(before: Aggregator, after: Aggregator) -> dict[str, Any]:
    """The fields that differ, as they are after."""
    names = [item.name for item in fields(after) if item.init]
    return {name: getattr(after, name) for name in names if repr(getattr(after, name)) != repr(getattr(before, name))}
