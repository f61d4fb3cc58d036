"""A quote: what a release costs and passes, what was solved for, what it leaves in a ledger, what a session hits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pate import aggregators, mechanisms
from pate.accounting import (
    Accountant,
    Budget,
    RdpAccountant,
)
from pate.accounting.data_dependent_epsilon import DataDependentEpsilon
from pate.accounting.event_tree import failure_probability
from pate.files.strict_json import plain
from pate.pricing.accountant_prices import AccountantPrice, _price_or_reason
from pate.pricing.expectations import Expectation, expectation
from pate.pricing.hit_plan import HitPlan
from pate.pricing.ledger_accounts import AccountLeft
from pate.pricing.priced_release import PricedRelease
from pate.pricing.suggestion import Suggestion
from pate.validation import InvalidValue

if TYPE_CHECKING:  # it loads others, that few quotes need
    from pate.testing.divergences import LowerBound


@dataclass(frozen=True)
class Quote:
    """The quote of a release: its price, and how that was computed. `pate-account format=json` prints it."""

    epsilon: float
    delta: float
    adjacency: str
    accountant: str
    paper_epsilon: float | None
    failure_prob: float  # over all queries, a part of delta
    num_queries: int
    num_labels: int
    num_teachers: int
    aggregator: dict[str, Any]  # its class and public parameters
    solved_for: dict[str, Any]  # those that were solved for, or the number of queries
    num_orders: int | None = None
    best_order: float | None = None
    # the smallest that passes the stability test with probability 1/2, if any
    gap_at_50: int | None = None
    gap_at_95: int | None = None
    # the smallest that is chosen among gaps of 0 and passed with probability 1/2
    lone_gap_at_50: int | None = None
    accountants: tuple[AccountantPrice, ...] = ()  # what the others say, where they were asked
    # where the test's was written, and what it costs at which order
    table: dict[str, Any] | None = None
    plain_epsilon: float | None = None  # of the same queries without a session of charged calls
    hits: HitPlan | None = None  # of such a session on votes that may be looked at
    data_dependent: DataDependentEpsilon | None = None  # on such votes; no guarantee
    expected: Expectation | None = None  # None for an aggregator that does not say
    doubts: tuple[str, ...] = ()  # what `require_useful` said of it, one line each
    cheapest: AccountantPrice | None = None  # the accountant to take, if asked
    suggestion: Suggestion | None = None  # the teachers and queries that would tell most, if asked
    # what is left for each data set of a ledger, and what it buys
    accounts: tuple[AccountLeft, ...] = ()
    won_by: str | None = None  # whose figure the auto accountant's is
    at_least: LowerBound | None = None  # on every sound epsilon, if asked and found
    # of groups with budgets of their own: the epsilon of each
    classes: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)  # and what each of its groups counts

    def to_json(self) -> dict[str, Any]:
        """Returns the values as JSON has them: an infinite price is a string."""
        return dict(plain(self))


def quote_release(
    release: PricedRelease,
    budget: Budget,
    *,
    others: Mapping[str, Callable[[], Accountant]] | None = None,
) -> Quote:
    """Explains the price of a release from `plan_release` and its budget; `others` are accountants to ask as well.

    >>> from pate.accounting import Budget, RdpAccountant
    >>> from pate.aggregators import GaussianVotes
    >>> from pate.pricing import plan_release
    >>> from pate.votes import VoteShape
    >>> shape, budget = VoteShape(num_queries=10, num_labels=2, num_teachers=800), Budget(delta=1e-6)
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
        _price_or_reason(name, make, release.event, delta) for name, make in (others or {}).items()
    ]
    by_others = [other for other in prices if other.accountant != price.accountant]
    plain_event = aggregator.plain_event(shape)
    expected = None
    with suppress(InvalidValue):  # an aggregator of one's own that takes no made-up votes
        expected = expectation(aggregator, shape)
    test = aggregator.stability_test(num_teachers=shape.num_teachers)
    lone_gap_at_50 = None
    if test is not None and isinstance(aggregator, aggregators.StableTopK):  # loads its module
        steps = aggregator.steps(num_labels=shape.num_labels, num_teachers=shape.num_teachers)
        lone_gap_at_50 = steps.gap_to_release(0.5)
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
        gap_at_50=None if test is None else test.gap_to_pass(0.5),
        gap_at_95=None if test is None else test.gap_to_pass(0.95),
        lone_gap_at_50=lone_gap_at_50,
        accountants=(price, *by_others) if prices else (),
        plain_epsilon=None if plain_event is None else budget.epsilon_of(plain_event),
        expected=expected,
        doubts=tuple(map(str, release.doubts)),
        won_by=release.won_by,
        classes={budget_class.name: budget_class.epsilon for budget_class in release.classes},
        weights={budget_class.name: budget_class.weight for budget_class in release.classes},
    )


def _price_with_orders(release: PricedRelease, budget: Budget) -> AccountantPrice:
    """Returns the release's price by the budget's accountant, of Renyi's with the orders behind it."""
    accountant = budget.accountant()
    price = AccountantPrice(accountant.name, release.epsilon, won_by=release.won_by)
    if isinstance(accountant, RdpAccountant):
        best_order = accountant.compose(release.event).best_order(budget.delta)
        return replace(price, num_orders=len(accountant.orders), best_order=best_order)
    return price


def _public_parameters(aggregator: aggregators.Aggregator) -> dict[str, Any]:
    """Returns the class and the plain fields of an aggregator, and what identifies a ready table, as JSON has them."""
    parameters: dict[str, Any] = {"name": type(aggregator).__name__}
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
