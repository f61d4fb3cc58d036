"""The quote of a planned release: its price, how the price was computed, and how useful the answers would be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pate import aggregators, mechanisms
from pate.accounting import (
    Accountant,
    Budget,
    PrivacyUnit,
    RdpAccountant,
)
from pate.accounting.data_dependent_epsilon import DataDependentEpsilon
from pate.accounting.event_tree import failure_probability
from pate.accounting.rounding import format_delta, format_epsilon
from pate.files.strict_json import plain
from pate.html_table import html_table
from pate.pricing.accountant_prices import AccountantPrice, price_by
from pate.pricing.expectations import Expectation, expectation
from pate.pricing.hit_plan import HitPlan
from pate.pricing.ledger_accounts import AccountLeft
from pate.pricing.priced_release import PricedRelease
from pate.pricing.suggestion import Suggestion
from pate.validation import InvalidValue

if TYPE_CHECKING:  # few quotes have a lower bound, and its module takes long to load
    from pate.testing.lower_bounds import LowerBound


@dataclass(frozen=True)
class Quote:
    """The quote of a planned release, for somebody who plans; `pate-account format=json` prints all of it.

    A `PricedRelease` is the plan itself. A `Privacy` states the price of a release that was drawn.

    Attributes:
        epsilon: the price; where groups have budgets of their own, of the largest budget.
        delta: the delta of the price.
        adjacency: the adjacency of the price.
        accountant: the name of the accountant of the price.
        paper_epsilon: the price by the formula of the mechanism's paper; None where no paper has one.
        failure_prob: the probability of a failure over all queries, which is a part of delta.
        num_queries: the number of queries.
        num_labels: the number of labels of a query.
        num_teachers: the number of teachers.
        aggregator: the class of the aggregator, as `name`, and its public parameters.
        solved_for: the parameters, or the number of queries, that the budget was solved for.
        num_orders: the number of orders of Renyi's accountant; None for other accountants.
        best_order: the order at which Renyi's accountant has its price; None for other accountants.
        gap_at_50: the smallest gap that passes the stability test with a probability of 50%; None without a test, or
            where no gap does.
        gap_at_95: likewise with 95%.
        lone_gap_at_50: the smallest gap that is chosen among gaps of 0, and passes the test, with 50%.
        accountants: the prices by the budget's accountant and by others, where others were asked for.
        table: where the table of the stability test was written, with its price and its order.
        plain_epsilon: for a session, the price of the same queries under plain composition.
        hits: for a session, its plan on votes that may be looked at.
        data_dependent: the cost on votes that may be looked at; it is no guarantee.
        expected: the expected answers; None for an aggregator that has none.
        doubts: the doubts of `require_useful`, a line each.
        cheapest: the price by the cheapest accountant, where it was asked for.
        suggestion: the numbers of teachers and queries that would tell most, where they were asked for.
        accounts: the accounts of a ledger, and the room that each of them has for the release.
        won_by: the accountant whose figure the price of `auto` is; None for other accountants.
        at_least: a lower bound on every sound epsilon, where it was asked for and found.
        classes: the epsilon of each class of groups with budgets of their own.
        weights: the weight of each group of a class, by the name of the class.
    """

    epsilon: float
    delta: float
    adjacency: str
    accountant: str
    paper_epsilon: float | None
    failure_prob: float
    num_queries: int
    num_labels: int
    num_teachers: int
    aggregator: dict[str, Any]
    solved_for: dict[str, Any]
    num_orders: int | None = None
    best_order: float | None = None
    gap_at_50: int | None = None
    gap_at_95: int | None = None
    lone_gap_at_50: int | None = None
    accountants: tuple[AccountantPrice, ...] = ()
    table: dict[str, Any] | None = None
    plain_epsilon: float | None = None
    hits: HitPlan | None = None
    data_dependent: DataDependentEpsilon | None = None
    expected: Expectation | None = None
    doubts: tuple[str, ...] = ()
    cheapest: AccountantPrice | None = None
    suggestion: Suggestion | None = None
    accounts: tuple[AccountLeft, ...] = ()
    won_by: str | None = None
    at_least: LowerBound | None = None
    classes: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """Returns the price and what it is for as a table for notebooks."""
        rows = [
            ("epsilon", format_epsilon(self.epsilon)),
            ("delta", format_delta(self.delta)),
            ("adjacency", self.adjacency),
            ("unit of privacy", PrivacyUnit.of_teacher().words),
            ("accountant", self.won_by or self.accountant),
            ("queries", f"{self.num_queries} of {self.num_labels} labels"),
            ("teachers", str(self.num_teachers)),
        ]
        if self.paper_epsilon is not None:
            epsilon = format_epsilon(self.paper_epsilon)
            rows.append(("by the formula of the paper, no guarantee", epsilon))
        rows += [(f"solved for: {name}", str(value)) for name, value in self.solved_for.items()]
        rows += [("doubt", doubt) for doubt in self.doubts]
        return html_table(f"Quote of {self.aggregator['name']}", rows)

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as values for JSON; an infinite price becomes the text "inf"."""
        return dict(plain(self))


def quote_release(
    release: PricedRelease,
    budget: Budget,
    *,
    others: Mapping[str, Callable[[], Accountant]] | None = None,
) -> Quote:
    """Returns the quote of a planned release.

    Args:
        release: the release that `plan_release` returned.
        budget: the budget that it was planned for.
        others: more accountants whose prices are quoted: by name, a function without arguments that returns an empty
            accountant. None for no others.

    >>> from pate.accounting import Budget, RdpAccountant
    >>> from pate.aggregators import GaussianVotes
    >>> from pate.pricing import plan_release
    >>> from pate.votes import VoteShape
    >>> shape = VoteShape(num_queries=10, num_labels=2, num_teachers=800)
    >>> budget = Budget(delta=1e-6)
    >>> planned = plan_release(GaussianVotes(noise_std=100.0), shape, budget)
    >>> quote = quote_release(planned, budget, others={"rdp": RdpAccountant})
    >>> [(price.accountant, round(price.epsilon, 3)) for price in quote.accountants]
    [('auto', 0.137), ('rdp', 0.146)]
    """
    aggregator = release.aggregator
    shape = release.shape
    delta = budget.delta
    price = _price_with_orders(release, budget)
    prices = [
        price_by(accountant_name, make_accountant, release.event, delta)
        for accountant_name, make_accountant in (others or {}).items()
    ]
    other_prices = [
        other_price for other_price in prices if other_price.accountant != price.accountant
    ]
    plain_event = aggregator.plain_event(shape)
    expected = None
    with suppress(InvalidValue):  # the user's own aggregator may have no expectation
        expected = expectation(aggregator, shape)
    test = aggregator.stability_test(num_teachers=shape.num_teachers)
    lone_gap_at_50 = None
    if test is not None and isinstance(aggregator, aggregators.StableTopK):  # loads its module
        steps = aggregator.steps(num_labels=shape.num_labels, num_teachers=shape.num_teachers)
        lone_gap_at_50 = steps.gap_to_release(probability=0.5)
    parameters = _public_parameters(aggregator)
    return Quote(
        epsilon=release.epsilon,
        delta=delta,
        adjacency=str(aggregator.adjacency),
        accountant=price.accountant,
        paper_epsilon=aggregator.paper_epsilon(num_queries=shape.num_queries, target_delta=delta),
        failure_prob=failure_probability(release.event),
        num_queries=shape.num_queries,
        num_labels=shape.num_labels,
        num_teachers=shape.num_teachers,
        aggregator=parameters,
        solved_for={
            name: value
            for name, value in release.solved_for.items()
            if name == "num_queries" or name in parameters
        },
        num_orders=price.num_orders,
        best_order=price.best_order,
        gap_at_50=None if test is None else test.gap_to_pass(probability=0.5),
        gap_at_95=None if test is None else test.gap_to_pass(probability=0.95),
        lone_gap_at_50=lone_gap_at_50,
        accountants=(price, *other_prices) if prices else (),
        plain_epsilon=None if plain_event is None else budget.epsilon_of(plain_event),
        expected=expected,
        doubts=tuple(map(str, release.doubts)),
        won_by=release.won_by,
        classes={budget_class.name: budget_class.epsilon for budget_class in release.classes},
        weights={budget_class.name: budget_class.weight for budget_class in release.classes},
    )


def _price_with_orders(release: PricedRelease, budget: Budget) -> AccountantPrice:
    """Returns the release's price by the budget's accountant, with the orders if that is the Renyi accountant."""
    accountant = budget.accountant()
    price = AccountantPrice(
        accountant=accountant.name, epsilon=release.epsilon, won_by=release.won_by
    )
    if isinstance(accountant, RdpAccountant):
        best_order = accountant.compose(release.event).best_order(budget.delta)
        return replace(price, num_orders=len(accountant.orders), best_order=best_order)
    return price


def _public_parameters(aggregator: aggregators.Aggregator) -> dict[str, object]:
    """Returns the class and the plain fields of an aggregator, with the digest of its given table if it has one."""
    parameters: dict[str, object] = {"name": type(aggregator).__name__}
    for name, value in vars(aggregator).items():
        if isinstance(value, (str, int, float, bool)):
            parameters[name] = value
    parameters.pop("adjacency", None)
    table = getattr(aggregator, "table", None)
    if isinstance(table, mechanisms.CertifiedTable):
        parameters["table_order"] = table.order
        parameters["table_rdp"] = table.rdp
        parameters["table_sha256"] = table.digest
    return parameters
