"""The plan of a release: the noise or the number of queries that meets a budget, and the price."""

import math
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
from pate.pricing.budgets import MuBudget, QueryBudget
from pate.pricing.person_budgets import BudgetClass, PersonBudgets, fit_to_classes
from pate.validation import (
    InvalidValue,
)
from pate.votes.shape import VoteShape

# The largest number of tries in the search for the noise of a mu.
_MAX_TRIES = 8
# Each try after the first aims at a mu that is smaller by this factor, so that rounding does not end the search just
# above its goal.
_MU_MARGIN = 1 - 1e-4


@dataclass(frozen=True)
class PricedRelease:
    """A release that is planned and priced, and not drawn yet; it is a function of public numbers alone.

    A `Quote` explains the price of such a release to somebody who plans. A `Privacy` states the price of a release that
    was drawn, in its report, and a `PrivacyStatement` is the published form of that.

    Attributes:
        aggregator: the aggregator with the noise that will be used.
        shape: the numbers of teachers, labels and queries that will be asked.
        event: the price of the whole release, as a value from which any accountant computes an epsilon.
        epsilon: the epsilon of that event at the budget's delta. Where groups have budgets of their own, it is that of
            the largest budget.
        solved_for: what the plan has solved for, by name: fields of the aggregator, or `num_queries`.
        doubts: the doubts of `require_useful`; empty where it was not called.
        won_by: the name of the accountant that computed `epsilon`, if the budget's accountant takes the lowest of
            several prices; None otherwise.
        classes: the classes of groups with budgets of their own, the smallest budget first.
    """

    aggregator: Aggregator
    shape: VoteShape
    event: Event
    epsilon: float
    # These three explain a price and its release, and do not change them. So they do not count in comparisons.
    solved_for: dict[str, object] = field(default_factory=dict, compare=False)
    doubts: tuple[Doubt, ...] = field(default=(), compare=False)
    won_by: str | None = field(default=None, compare=False)
    classes: tuple[BudgetClass, ...] = ()

    @property
    def identity(self) -> str:
        """A digest of the aggregator, the shape and the budget classes, by which a run recognizes its release."""
        public_inputs_of_release: list[Any] = [
            self.aggregator.identity(self.shape),
            asdict(self.shape),
        ]
        for budget_class in self.classes:
            public_inputs_of_release.append(
                [budget_class.name, budget_class.weight, budget_class.teachers]
            )
        return digest(public_inputs_of_release)


def plan_release(
    aggregator: Aggregator,
    shape: VoteShape,
    budget: Budget,
    *,
    may_add_queries: bool = False,
) -> PricedRelease:
    """Solves for the noise or the number of queries that meets a budget, and prices the release.

    A `Budget` with an epsilon solves for the noise, and without one takes the noise as it is. A `MuBudget` solves for
    the noise of a mu-GDP release. A `QueryBudget` solves for the number of queries. `PersonBudgets` also solve for the
    weights or teachers of each class of groups.

    Args:
        aggregator: the aggregator, with noise to start from or to be taken as it is.
        shape: the numbers of queries, labels and teachers.
        budget: the epsilon and the delta of the release, as an accountant bounds them.
        may_add_queries: whether a `QueryBudget` may buy more queries than the shape has.

    Raises:
        InvalidValue: no noise, or not a single query, meets the budget; the failure probabilities use up delta; or
            draws in double precision cannot keep so small a delta.

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
        max_queries = None if may_add_queries else shape.num_queries
        return _plan_queries(
            aggregator,
            num_labels=shape.num_labels,
            num_teachers=shape.num_teachers,
            budget=budget,
            max_queries=max_queries,
        )
    require_achievable_delta(
        budget.delta, num_queries=shape.num_queries, num_labels=shape.num_labels
    )
    unsolved_aggregator = with_failure_prob_for(
        aggregator, delta=budget.delta, num_queries=shape.num_queries
    )
    require_delta_left(
        unsolved_aggregator, num_queries=shape.num_queries, target_delta=budget.delta
    )
    planned_aggregator = unsolved_aggregator
    budget_classes: tuple[BudgetClass, ...] = ()
    if isinstance(budget, PersonBudgets):
        planned_aggregator, budget_classes = fit_to_classes(
            aggregator=unsolved_aggregator, vote_shape=shape, person_budgets=budget
        )
    elif isinstance(budget, MuBudget):
        planned_aggregator = _fit_to_mu(
            aggregator=unsolved_aggregator, vote_shape=shape, budget=budget
        )
    elif budget.epsilon is not None:
        planned_aggregator = unsolved_aggregator.fitted(budget, shape)
    return _price(
        aggregator=planned_aggregator,
        vote_shape=shape,
        budget=budget,
        solved_values_by_name=changed_fields(
            aggregator_before=unsolved_aggregator, aggregator_after=planned_aggregator
        ),
        budget_classes=budget_classes,
    )


def _plan_queries(
    aggregator: Aggregator,
    *,
    num_labels: int,
    num_teachers: int,
    budget: QueryBudget,
    max_queries: int | None,
) -> PricedRelease:
    """Returns the priced release of the largest number of queries that a budget pays for.

    Args:
        aggregator: the aggregator with its noise.
        num_labels: the number of labels of a query.
        num_teachers: the number of teachers.
        budget: the budget of all queries together.
        max_queries: the largest number of queries; None for the limits of `largest_num_queries`.
    """
    make_accountant = budget.accountant
    num_queries = largest_num_queries(
        aggregator,
        max_epsilon=budget.required_epsilon(),
        target_delta=budget.delta,
        num_labels=num_labels,
        num_teachers=num_teachers,
        accountant=make_accountant,
        at_most=max_queries,
    )
    return _price(
        aggregator=with_failure_prob_for(aggregator, delta=budget.delta, num_queries=num_queries),
        vote_shape=VoteShape(
            num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers
        ),
        budget=budget,
        solved_values_by_name={"num_queries": num_queries},
    )


def _fit_to_mu(aggregator: Aggregator, vote_shape: VoteShape, *, budget: MuBudget) -> Aggregator:
    """Returns the aggregator with noise for which its release is mu-GDP.

    A Gaussian release with the epsilon of the budget has at most the mu of the budget. Another release may have a
    larger mu. Then the noise is found for a smaller mu: a little less than the last one times the ratio of the budget's
    mu to that of the release. Up to eight tries are made until the release meets the budget.

    Args:
        aggregator: the aggregator, with noise to start from.
        vote_shape: the numbers of queries, labels and teachers.
        budget: the budget.

    Raises:
        InvalidValue: no mu is known for the release, or no noise meets that of the budget.
    """
    tried_mu = budget.mu
    make_accountant = budget.accountant
    for _ in range(_MAX_TRIES):
        tried_budget = MuBudget.from_mu(tried_mu, delta=budget.delta, accountant=make_accountant)
        fitted_aggregator = aggregator.fitted(tried_budget, vote_shape)
        release_mu = make_accountant().compose(fitted_aggregator.event(vote_shape)).gdp_mu()
        if release_mu <= budget.mu:
            return fitted_aggregator
        if math.isinf(release_mu):
            break
        tried_mu *= budget.mu / release_mu * _MU_MARGIN
    rule = (
        f"none for {type(aggregator).__name__}, as no mu is known for its release: take target_epsilon, or an "
        "aggregator with Gaussian noise that cannot fail, such as centered_votes or gaussian_votes"
    )
    raise InvalidValue("target_mu", budget.mu, rule=rule)


def _price(
    aggregator: Aggregator,
    vote_shape: VoteShape,
    *,
    budget: Budget,
    solved_values_by_name: dict[str, Any],
    budget_classes: tuple[BudgetClass, ...] = (),
) -> PricedRelease:
    """Returns the release with its price; raises `InvalidValue` if the failure probabilities use up delta.

    Args:
        aggregator: the aggregator with its final noise.
        vote_shape: the number of queries, labels and teachers.
        budget: the budget, whose accountant and delta give the price.
        solved_values_by_name: the values that the plan has solved for, by name.
        budget_classes: the classes of groups with budgets of their own.
    """
    event = aggregator.event(vote_shape)
    accountant = budget.accountant().compose(event)
    epsilon = accountant.get_epsilon(budget.delta)
    winner_name = accountant.winner(budget.delta)
    return PricedRelease(
        aggregator=aggregator,
        shape=vote_shape,
        event=event,
        epsilon=epsilon,
        solved_for=solved_values_by_name,
        won_by=None if winner_name == accountant.name else winner_name,
        classes=budget_classes,
    )


def plan_or_none(
    aggregator: Aggregator, vote_shape: VoteShape, budget: Budget
) -> PricedRelease | None:
    """Returns the plan of `plan_release`; None if `plan_release` raises `InvalidValue`."""
    try:
        return plan_release(aggregator, shape=vote_shape, budget=budget)
    except InvalidValue:
        return None


def changed_fields(aggregator_before: Aggregator, aggregator_after: Aggregator) -> dict[str, Any]:
    """Returns the fields in which two aggregators of one class differ, with the values of `aggregator_after`."""
    field_names = [
        dataclass_field.name for dataclass_field in fields(aggregator_after) if dataclass_field.init
    ]
    return {
        field_name: getattr(aggregator_after, field_name)
        for field_name in field_names
        if repr(getattr(aggregator_after, field_name))
        != repr(getattr(aggregator_before, field_name))
    }


def with_fields(aggregator: Aggregator, new_values: Mapping[str, Any]) -> Aggregator:
    """Returns a copy of the aggregator in which some fields have new values, by the names of the fields."""
    return replace(aggregator, **new_values)


def certify_stability_test(release: PricedRelease, budget: Budget) -> CertifiedTable:
    """Returns the table of pass probabilities of a release's stability test, with the certified price of one test.

    The price is a Renyi divergence at one order. This is the order that the aggregator's table was made for, or else
    the best order of the release. Raises `InvalidValue` for an aggregator without a stability test.
    """
    aggregator = release.aggregator
    stability_test = aggregator.stability_test(num_teachers=release.shape.num_teachers)
    if stability_test is None:
        raise InvalidValue(
            "aggregator", type(aggregator).__name__, rule="one with a stability test"
        )
    stability_table = getattr(aggregator, "table", None)
    renyi_order = getattr(aggregator, "table_order", None)
    if stability_table is not None:
        renyi_order = stability_table.order
    elif renyi_order is None:
        renyi_order = RdpAccountant().compose(release.event).best_order(budget.delta)
    return CertifiedTable.from_test(stability_test, order=renyi_order)
