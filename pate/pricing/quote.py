"""The quote of a planned release: its price, how the price was computed, and how useful the answers would be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pate.accounting import (
    Accountant,
    Budget,
    PrivacyUnit,
    RdpAccountant,
)
from pate.accounting.attack_bounds import AttackBounds
from pate.accounting.data_dependent_epsilon import DataDependentEpsilon
from pate.accounting.event_tree import failure_probability
from pate.accounting.rounding import format_delta, format_epsilon
from pate.aggregators import Aggregator
from pate.files.strict_json import plain
from pate.html_table import html_table
from pate.mechanisms.certified_table import CertifiedTable
from pate.pricing.accountant_prices import AccountantPrice, price_by
from pate.pricing.expectations import Expectation, expectation
from pate.pricing.hit_plan import HitPlan
from pate.pricing.ledger_accounts import AccountLeft
from pate.pricing.passing_gaps import PassingGaps, passing_gaps
from pate.pricing.priced_release import PricedRelease
from pate.pricing.suggestion import Suggestion
from pate.validation import InvalidValue
from pate.votes.shape import VoteShape

if TYPE_CHECKING:  # few quotes have a lower bound, and its module takes long to load
    from pate.testing.lower_bounds import LowerBound


@dataclass(frozen=True)
class QuoteExtras:
    """The parts of a quote that are computed only where somebody asks for them; `quote_release` computes none.

    Attributes:
        table: where the table of the stability test was written, with its price and its order.
        hits: for a session, its expected hits (queries that are paid for) and price, on votes that may be looked at.
        data_dependent: the cost on votes that may be looked at; it is no guarantee.
        cheapest: the price by the cheapest accountant.
        suggestion: the numbers of teachers and queries whose release would be most useful.
        accounts: the accounts of a ledger, and the room that each of them has for the release.
        at_least: a lower bound on every sound epsilon of the release; None also where no bound was found.
        best_of_runs: the epsilon of the best of a secret number of such releases (`pate.accounting.TuningEvent`).
    """

    table: dict[str, Any] | None = None
    hits: HitPlan | None = None
    data_dependent: DataDependentEpsilon | None = None
    cheapest: AccountantPrice | None = None
    suggestion: Suggestion | None = None
    accounts: tuple[AccountLeft, ...] = ()
    at_least: LowerBound | None = None
    best_of_runs: float | None = None


@dataclass(frozen=True)
class Quote:
    """The quote of a planned release, for somebody who plans; `pate-account format=json` prints all of it.

    A `PricedRelease` is the plan itself. A `Privacy` states the price of a release that was drawn.

    Attributes:
        epsilon: the price; where groups have budgets of their own, of the largest budget.
        delta: the delta of the price.
        adjacency: the adjacency of the price.
        accountant: the name of the accountant of the price.
        paper_epsilon: the price by the formula of the mechanism's paper, which need not be a guarantee; None where no
            paper has a formula.
        failure_prob: the probability of a failure over all queries, which is a part of delta.
        num_queries: the number of queries.
        num_labels: the number of labels of a query.
        num_teachers: the number of teachers.
        aggregator: the class of the aggregator, as `name`, and its public parameters.
        solved_for: the parameters, or the number of queries, that the budget was solved for.
        num_orders: the number of orders of Renyi's accountant; None for other accountants.
        best_order: the order at which Renyi's accountant has its price; None for other accountants.
        won_by: for `auto`, the name of the accountant with the lowest price; None for other accountants.
        accountants: the prices by the budget's accountant and by other accountants; empty unless others were asked for.
        plain_epsilon: for a session, the price of the same queries under plain composition.
        classes: the epsilon of each class of groups with budgets of their own.
        weights: the weight of each group of a class, by the name of the class.
        gaps: the gaps in votes that pass the stability test.
        expected: the expected answers; None for an aggregator that has none.
        doubts: the warnings of `require_useful`, a line each.
        attacks: an upper bound on the success of attacks on the release; None for an infinite price.
        extras: the parts that `quote_release` does not compute.
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
    won_by: str | None = None
    accountants: tuple[AccountantPrice, ...] = ()
    plain_epsilon: float | None = None
    classes: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    gaps: PassingGaps = field(default_factory=PassingGaps)
    expected: Expectation | None = None
    doubts: tuple[str, ...] = ()
    attacks: AttackBounds | None = None
    extras: QuoteExtras = field(default_factory=QuoteExtras)

    def _repr_html_(self) -> str:
        """Returns an HTML table of the price and of the release that it is for."""
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
            formula_epsilon = format_epsilon(self.paper_epsilon)
            rows.append(("by the formula of the paper, no guarantee", formula_epsilon))
        attack_bounds = self.attacks
        if attack_bounds is not None:
            rows.append(("attacks", attack_bounds.sentence))
        rows += [(f"solved for: {name}", str(value)) for name, value in self.solved_for.items()]
        rows += [("doubt", doubt) for doubt in self.doubts]
        return html_table(title=f"Quote of {self.aggregator['name']}", rows=rows)

    def to_json(self) -> dict[str, Any]:
        """Returns the fields, with those of `gaps` and `extras` among them, as values for JSON.

        An infinite price becomes the text "inf".
        """
        values = dict(plain(self))
        for nested_name in ("gaps", "extras"):
            values |= values.pop(nested_name)
        return values


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
    vote_shape = release.shape
    delta = budget.delta
    winner_name = release.won_by
    accountant_price = _price_by_budget_accountant(priced_release=release, budget=budget)
    aggregator_parameters = _parameters_of_aggregator(aggregator)
    plain_composition_event = aggregator.plain_event(vote_shape)
    return Quote(
        epsilon=release.epsilon,
        delta=delta,
        adjacency=str(aggregator.adjacency),
        accountant=accountant_price.accountant,
        paper_epsilon=aggregator.paper_epsilon(
            num_queries=vote_shape.num_queries, target_delta=delta
        ),
        failure_prob=failure_probability(release.event),
        num_queries=vote_shape.num_queries,
        num_labels=vote_shape.num_labels,
        num_teachers=vote_shape.num_teachers,
        aggregator=aggregator_parameters,
        solved_for=_public_solutions(
            priced_release=release, aggregator_parameters=aggregator_parameters
        ),
        num_orders=accountant_price.num_orders,
        best_order=accountant_price.best_order,
        won_by=winner_name,
        accountants=_prices_side_by_side(
            accountant_price, priced_release=release, delta=delta, other_accountants=others or {}
        ),
        plain_epsilon=None
        if plain_composition_event is None
        else budget.epsilon_of(plain_composition_event),
        classes={budget_class.name: budget_class.epsilon for budget_class in release.classes},
        weights={budget_class.name: budget_class.weight for budget_class in release.classes},
        gaps=passing_gaps(aggregator, vote_shape),
        expected=_expectation_or_none(aggregator, vote_shape),
        doubts=tuple(map(str, release.doubts)),
        attacks=_attack_bounds(priced_release=release, budget=budget),
    )


def _attack_bounds(priced_release: PricedRelease, budget: Budget) -> AttackBounds | None:
    """Returns upper bounds on what attacks learn from a release; None for a release of infinite price.

    Args:
        priced_release: the planned release.
        budget: the budget, whose accountant computes the bounds.
    """
    if math.isinf(priced_release.epsilon):
        return None
    return AttackBounds.from_accountant(budget.accountant().compose(priced_release.event))


def _prices_side_by_side(
    accountant_price: AccountantPrice,
    *,
    priced_release: PricedRelease,
    delta: float,
    other_accountants: Mapping[str, Callable[[], Accountant]],
) -> tuple[AccountantPrice, ...]:
    """Returns the price by the budget's accountant, followed by those of other accountants; empty without others.

    Args:
        accountant_price: the price by the budget's accountant.
        priced_release: the planned release.
        delta: the delta of the prices.
        other_accountants: by name, a function without arguments that returns an empty accountant. The budget's own
            accountant is not listed twice.
    """
    if not other_accountants:
        return ()
    accountant_prices = [accountant_price]
    for other_name, make_other_accountant in other_accountants.items():
        other_price = price_by(
            other_name,
            make_accountant=make_other_accountant,
            event=priced_release.event,
            delta=delta,
        )
        if other_price.accountant != accountant_price.accountant:
            accountant_prices.append(other_price)
    return tuple(accountant_prices)


def _public_solutions(
    priced_release: PricedRelease, aggregator_parameters: Mapping[str, object]
) -> dict[str, object]:
    """Returns the values, by name, that a plan solved for, and that are the number of queries or public parameters."""
    return {
        name: value
        for name, value in priced_release.solved_for.items()
        if name == "num_queries" or name in aggregator_parameters
    }


def _expectation_or_none(aggregator: Aggregator, vote_shape: VoteShape) -> Expectation | None:
    """Returns the expected answers of a release; None for an aggregator, written by the user, that states none."""
    try:
        return expectation(aggregator, vote_shape)
    except InvalidValue:
        return None


def _price_by_budget_accountant(priced_release: PricedRelease, budget: Budget) -> AccountantPrice:
    """Returns the release's price by the budget's accountant, with the orders if that is the Renyi accountant."""
    accountant = budget.accountant()
    winner_name = priced_release.won_by
    accountant_price = AccountantPrice(
        accountant=accountant.name, epsilon=priced_release.epsilon, won_by=winner_name
    )
    if isinstance(accountant, RdpAccountant):
        best_order = accountant.compose(priced_release.event).best_order(budget.delta)
        return replace(accountant_price, num_orders=len(accountant.orders), best_order=best_order)
    return accountant_price


def _parameters_of_aggregator(aggregator: Aggregator) -> dict[str, object]:
    """Returns the class and the plain fields of an aggregator, without its adjacency.

    For an aggregator with the table of a stability test, the order, the price and the digest of the table are added.
    """
    parameters: dict[str, object] = {"name": type(aggregator).__name__}
    for name, value in vars(aggregator).items():
        if isinstance(value, (str, int, float, bool)):
            parameters[name] = value
    parameters.pop("adjacency", None)
    table = getattr(aggregator, "table", None)
    if isinstance(table, CertifiedTable):
        parameters["table_order"] = table.order
        parameters["table_rdp"] = table.rdp
        parameters["table_sha256"] = table.digest
    return parameters
