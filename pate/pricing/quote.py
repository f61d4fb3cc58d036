"""A quote: what a release costs by one accountant or by several, what it passes, and what was solved for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pate import aggregators, mechanisms
from pate.accounting import Accountant, AutoAccountant, Event, GaussianEvent, NoisyMaxGaussianEvent, RdpAccountant
from pate.accounting.events import count_leaves, failure_probability
from pate.files.values import plain
from pate.pricing.priced_release import Budget, PricedRelease
from pate.pricing.remedies import Expectation, expectation
from pate.validation import InvalidValue

if TYPE_CHECKING:
    from pate.accounting.data_dependent import DataDependentEpsilon
    from pate.pricing.account_left import AccountLeft
    from pate.pricing.hit_plan import HitPlan
    from pate.pricing.remedies import Suggestion
    from pate.verification.tightness import LowerBound

_BY_STEPS, _BY_LOSS = ("exact", "auto"), ("pld",)
_LOOSER = ("zcdp",)  # than rdp
_FEW_STEPS = 64


@dataclass(frozen=True)
class AccountantPrice:
    """The price of a release by one accountant."""

    accountant: str
    epsilon: float | None = None  # None where it cannot price the event, with the reason
    num_orders: int | None = None  # of the Renyi accountant
    best_order: float | None = None  # of the Renyi accountant: where the epsilon is attained
    reason: str | None = None
    won_by: str | None = None  # of the auto accountant: whose figure it is


@dataclass(frozen=True)
class Quote:
    """What a release costs and how it was computed; the JSON object that `pate-account format=json` prints."""

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
    gap_at_50: int | None = None  # the smallest that passes the stability test with probability 1/2, if any
    gap_at_95: int | None = None
    lone_gap_at_50: int | None = None  # the smallest that is chosen among gaps of 0 and passed with probability 1/2
    accountants: tuple[AccountantPrice, ...] = ()  # what the others say, where they were asked
    table: dict[str, Any] | None = None  # where the test's was written, and what it costs at which order
    plain_epsilon: float | None = None  # of the same queries without a session of charged calls
    hits: HitPlan | None = None  # of such a session on votes that may be looked at
    data_dependent: DataDependentEpsilon | None = None  # on such votes; no guarantee
    expected: Expectation | None = None  # None for an aggregator that does not say
    doubts: tuple[str, ...] = ()  # what `require_useful` said of it
    cheapest: AccountantPrice | None = None  # the accountant to take, if asked
    suggestion: Suggestion | None = None  # the teachers and queries that would tell most, if asked
    accounts: tuple[AccountLeft, ...] = ()  # what is left for each data set of a ledger, and what it buys
    won_by: str | None = None  # whose figure the auto accountant's is
    at_least: LowerBound | None = None  # on every sound epsilon, if asked and found
    classes: dict[str, float] = field(default_factory=dict)  # of groups with budgets of their own: the epsilon of each
    weights: dict[str, float] = field(default_factory=dict)  # and what each of its groups counts

    def to_json(self) -> dict[str, Any]:
        """The values as JSON has them: an infinite price is a string."""
        return dict(plain(self))


def quote_release(
    release: PricedRelease, budget: Budget, *, others: Mapping[str, Callable[[], Accountant]] | None = None
) -> Quote:
    """Explains the price of a release from `plan_release` and its budget; `others` are accountants to ask as well.

    >>> from pate.accounting import RdpAccountant
    >>> from pate.aggregators import GaussianVotes
    >>> from pate.pricing import ReleaseShape, plan_release
    >>> shape, budget = ReleaseShape(num_queries=10, num_labels=2, num_teachers=800), Budget(target_delta=1e-6)
    >>> planned = plan_release(GaussianVotes(noise_std=100.0), shape, budget)
    >>> quote = quote_release(planned, budget, others={"rdp": RdpAccountant})
    >>> [(price.accountant, round(price.epsilon, 3)) for price in quote.accountants]
    [('auto', 0.137), ('rdp', 0.146)]
    """
    price, shape = _chosen_price(release, budget), release.shape
    plain_event = release.aggregator.plain_event(**shape.as_arguments)
    asked = [_price_or_reason(name, make, release.event, budget.target_delta) for name, make in (others or {}).items()]
    parameters = _public_parameters(release.aggregator)
    shown = {*parameters, "num_queries"}
    return Quote(
        epsilon=release.epsilon,
        delta=budget.target_delta,
        adjacency=str(release.aggregator.adjacency),
        accountant=price.accountant,
        paper_epsilon=release.aggregator.paper_epsilon(num_queries=shape.num_queries, target_delta=budget.target_delta),
        failure_prob=failure_probability(release.event),
        num_queries=shape.num_queries,
        num_labels=shape.num_labels,
        num_teachers=shape.num_teachers,
        aggregator=parameters,
        solved_for={name: value for name, value in release.solved_for.items() if name in shown},
        num_orders=price.num_orders,
        best_order=price.best_order,
        accountants=(price, *(other for other in asked if other.accountant != price.accountant)) if asked else (),
        plain_epsilon=None if plain_event is None else budget.epsilon_of(plain_event),
        expected=_expected(release),
        doubts=release.doubts,
        won_by=price.won_by,
        classes={each.name: each.epsilon for each in release.classes},
        weights={each.name: each.weight for each in release.classes},
        **_gaps(release),
    )


def _chosen_price(release: PricedRelease, budget: Budget) -> AccountantPrice:
    """The price that is known, with the orders behind it."""
    accountant = budget.accountant()
    if not isinstance(accountant, RdpAccountant):
        return AccountantPrice(accountant.name, release.epsilon, won_by=release.won_by)
    best = accountant.compose(release.event).best_order(budget.target_delta)
    return AccountantPrice(accountant.name, release.epsilon, len(accountant.orders), best)


def _price_or_reason(name: str, make: Callable[[], Accountant], event: Event, delta: float) -> AccountantPrice:
    """The price by another accountant, or why it has none."""
    try:
        spent = make().compose(event)
        epsilon = spent.get_epsilon(delta)
    except InvalidValue as error:
        return AccountantPrice(name, reason=str(error))
    except ImportError as error:
        return AccountantPrice(name, reason=f"needs the package {error.name}, which is not installed")
    if isinstance(spent, RdpAccountant):
        return AccountantPrice(spent.name, epsilon, len(spent.orders), spent.best_order(delta))
    winner = spent.winner(delta) if isinstance(spent, AutoAccountant) else None
    return AccountantPrice(spent.name, epsilon, won_by=winner)


def _expected(release: PricedRelease) -> Expectation | None:
    """What to expect, of an aggregator that says it."""
    try:
        return expectation(release.aggregator, release.shape)
    except InvalidValue:
        return None


def cheapest_accountant(
    release: PricedRelease, budget: Budget, known: Mapping[str, Callable[[], Accountant]]
) -> AccountantPrice:
    """The accountant with the smallest epsilon for a release, of those `known` that are installed and quick on it."""
    # Optimal composition step by step is asked only if it has few steps, not counting those of Gaussian noise, and loss
    # distributions only if a noisy maximum has Gaussian noise. Elsewhere both take a second and give no smaller figure.
    found = {kind: sum(times) for kind, (_, times) in count_leaves(release.event).items()}
    few = sum(times for kind, times in found.items() if kind is not GaussianEvent) <= _FEW_STEPS
    maximum = any(issubclass(kind, NoisyMaxGaussianEvent) for kind in found)
    left_out = _LOOSER + (() if few else _BY_STEPS) + (() if maximum else _BY_LOSS)
    if issubclass(type(budget.accountant()), AutoAccountant):  # it has asked them
        left_out += _BY_STEPS + _BY_LOSS
    names = [name for name in known if name not in left_out]
    prices = [_price_or_reason(name, known[name], release.event, budget.target_delta) for name in names]
    own = AccountantPrice(budget.accountant().name, release.epsilon)
    return min([own, *(price for price in prices if price.epsilon is not None)], key=lambda price: price.epsilon or 0.0)


def _gaps(release: PricedRelease) -> dict[str, Any]:
    """The gaps at which a set passes the test, or is chosen and passes; None where T teachers cannot."""
    aggregator, shape = release.aggregator, release.shape
    test = aggregator.stability_test(num_teachers=shape.num_teachers)
    if test is None:
        return {}
    gaps = {"gap_at_50": test.gap_to_pass(0.5), "gap_at_95": test.gap_to_pass(0.95)}
    if isinstance(aggregator, aggregators.StableTopK):
        size = {"num_labels": shape.num_labels, "num_teachers": shape.num_teachers}
        gaps["lone_gap_at_50"] = aggregator.steps(**size).gap_to_release(0.5)
    return gaps


def _public_parameters(aggregator: aggregators.Aggregator) -> dict[str, Any]:
    plain = (str, int, float, bool)
    fields = {name: value for name, value in vars(aggregator).items() if isinstance(value, plain)}
    ready = getattr(aggregator, "table", None)
    if ready is not None and isinstance(ready, mechanisms.CertifiedTable):
        fields |= {"table_order": ready.order, "table_rdp": ready.rdp, "table_sha256": ready.digest}
    return {"name": type(aggregator).__name__} | {name: value for name, value in fields.items() if name != "adjacency"}
