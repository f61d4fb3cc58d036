"""A plan of a release: the noise that a budget leads to, or the queries that it pays for, and the price."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from pate.accounting import (
    Budget,
    Event,
    RdpAccountant,
)
from pate.aggregators import Aggregator
from pate.aggregators.failures import require_delta_left, with_failure_prob_for
from pate.errors import Doubt
from pate.files.digests import digest
from pate.mechanisms import CertifiedTable
from pate.pricing.affordable_queries import largest_num_queries, require_achievable_delta
from pate.pricing.budgets import QueryBudget
from pate.pricing.person_budgets import BudgetClass, PersonBudgets, fit_to_classes
from pate.validation import (
    InvalidValue,
)
from pate.votes.shape import VoteShape


@dataclass(frozen=True)
class PricedRelease:
    """A planned release and its price; a function of public numbers alone."""

    aggregator: Aggregator  # with the noise that will be used
    shape: VoteShape  # with the number of queries that will be asked
    event: Event  # the price of all charges together
    # of that event, at the budget's delta; where groups have budgets of their own, of the largest
    epsilon: float
    # fields of the aggregator, or num_queries
    solved_for: dict[str, Any] = field(default_factory=dict, compare=False)
    # what `require_useful` said of it
    doubts: tuple[Doubt, ...] = field(default=(), compare=False)
    # whose figure epsilon is, if the accountant asks others
    won_by: str | None = field(default=None, compare=False)
    # the smallest budget first; none where all groups have one
    classes: tuple[BudgetClass, ...] = ()

    @property
    def identity(self) -> str:
        """A digest of all that decides the release beside votes and noise: equal for equal releases only."""
        values: list[Any] = [self.aggregator.identity(self.shape), asdict(self.shape)]
        for budget_class in self.classes:
            values.append([budget_class.name, budget_class.weight, budget_class.teachers])
        return digest(values)


def plan_release(
    aggregator: Aggregator,
    shape: VoteShape,
    budget: Budget,
    *,
    more_queries: bool = False,
) -> PricedRelease:
    """Solves for the noise or the number of queries that meets the budget, and prices the release.

    The aggregator has noise to start from, or as it is. A `QueryBudget` buys queries, with `more_queries` all that it
    pays for, else at most the shape's. `PersonBudgets` give each class of groups its own price.
    Raises where no noise, or not one query, meets the budget; where failures use up delta, or draws cannot keep it.

    >>> from pate.aggregators import GaussianVotes
    >>> from pate.votes import VoteShape
    >>> shape = VoteShape(num_queries=600, num_labels=40, num_teachers=800)
    >>> aggregator = GaussianVotes(noise_std=100.0)
    >>> f"{plan_release(aggregator, shape, Budget(delta=1e-6, epsilon=8.0)).aggregator.noise_std:.1f}"
    '81.2'
    >>> plan_release(aggregator, shape, QueryBudget(delta=1e-6, epsilon=4.0)).shape.num_queries
    272
    """
    if isinstance(budget, QueryBudget):
        num_queries = largest_num_queries(
            aggregator,
            max_epsilon=budget.required_epsilon(),
            target_delta=budget.delta,
            num_labels=shape.num_labels,
            num_teachers=shape.num_teachers,
            accountant=budget.accountant,
            at_most=None if more_queries else shape.num_queries,
        )
        affordable = replace(shape, num_queries=num_queries)
        planned = with_failure_prob_for(aggregator, delta=budget.delta, num_queries=num_queries)
        return _priced(planned, affordable, budget, solved_for={"num_queries": num_queries})
    require_achievable_delta(
        budget.delta, num_queries=shape.num_queries, num_labels=shape.num_labels
    )
    start = with_failure_prob_for(aggregator, delta=budget.delta, num_queries=shape.num_queries)
    require_delta_left(
        start,
        num_queries=shape.num_queries,
        target_delta=budget.delta,
    )
    planned = start
    classes: tuple[BudgetClass, ...] = ()
    if isinstance(budget, PersonBudgets):
        planned, classes = fit_to_classes(start, shape, budget)
    elif budget.epsilon is not None:
        planned = start.fitted(budget, shape)
    solved_for = changed_fields(start, planned)
    return _priced(planned, shape, budget, solved_for=solved_for, classes=classes)


def _priced(
    aggregator: Aggregator,
    shape: VoteShape,
    budget: Budget,
    *,
    solved_for: dict[str, Any],
    classes: tuple[BudgetClass, ...] = (),
) -> PricedRelease:
    """Returns the release with its price; raises `InvalidValue` where failures alone use up delta."""
    event = aggregator.event(shape)
    spent = budget.accountant().compose(event)
    epsilon = spent.get_epsilon(budget.delta)
    winner = spent.winner(budget.delta)
    return PricedRelease(
        aggregator=aggregator,
        shape=shape,
        event=event,
        epsilon=epsilon,
        solved_for=solved_for,
        won_by=None if winner == spent.name else winner,
        classes=classes,
    )


def planned_or_none(start: Aggregator, shape: VoteShape, budget: Budget) -> PricedRelease | None:
    """Returns what `plan_release` plans; None where it raises."""
    try:
        return plan_release(start, shape, budget)
    except InvalidValue:
        return None


def changed_fields(before: Aggregator, after: Aggregator) -> dict[str, Any]:
    """Returns the fields that differ, as they are after."""
    names = [item.name for item in fields(after) if item.init]
    return {
        name: getattr(after, name)
        for name in names
        if repr(getattr(after, name)) != repr(getattr(before, name))
    }


def with_fields(aggregator: Aggregator, values: Mapping[str, Any]) -> Aggregator:
    """Returns the aggregator with other values of some fields, as `changed_fields` names them."""
    return replace(aggregator, **values)


def certify_stability_test(release: PricedRelease, budget: Budget) -> CertifiedTable:
    """Returns the table of a test, priced at the order that it was made for, or else at the release's best one."""
    aggregator = release.aggregator
    test = aggregator.stability_test(num_teachers=release.shape.num_teachers)
    if test is None:
        raise InvalidValue(
            "aggregator", type(aggregator).__name__, rule="one with a stability test"
        )
    ready = getattr(aggregator, "table", None)
    order = ready.order if ready is not None else getattr(aggregator, "table_order", None)
    if order is None:
        order = RdpAccountant().compose(release.event).best_order(budget.delta)
    return CertifiedTable.of(test, order=order)
