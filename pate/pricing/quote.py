"""A quote: what a release costs and passes, what was solved for, what it leaves in a ledger, what a session hits."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pate import accounting, aggregators, mechanisms
from pate.accounting import (
    Accountant,
    AutoAccountant,
    Budget,
    Event,
    GaussianEvent,
    NoisyMaxGaussianEvent,
    RdpAccountant,
)
from pate.accounting.data_dependent import DataDependentEpsilon
from pate.accounting.event_tree import count_leaves, failure_probability
from pate.aggregators.failures import with_failure_prob_at_most, with_failure_prob_for
from pate.files.values import plain
from pate.pricing.expectations import Expectation, expectation
from pate.pricing.priced_release import PricedRelease, planned_or_none
from pate.pricing.suggestion import Suggestion
from pate.validation import InvalidValue, require, require_count, require_histogram
from pate.votes.shape import VoteShape

if TYPE_CHECKING:  # it loads others, that few quotes need
    from pate.verification.divergences import LowerBound

_QUANTILE = 1.645  # one in twenty sessions has more hits
_ROUNDING = 1e-9
_FAILURE_SHARE = 0.1  # of delta, for all failures together
_SMALLEST = 1e-3  # of the cap
_STEPS = 12
_A_LITTLE_LESS = 1 - 2e-4  # noise is solved for to a relative 1e-4
_BY_STEPS = ("exact", "auto")
_LOOSER = ("zcdp", "pld")  # than rdp, and than exact
_FEW_STEPS = 64


@dataclass(frozen=True)
class HitPlan:
    """Expected hits and prices of a session; a function of the votes, so no epsilon covers it if they are private."""

    hit_rate: float  # mean probability that a query hits
    expected_hits: float  # over all queries, as if nothing halted
    # queries until the expected hits reach `target_hits`; all of them where they do not
    expected_asked: int
    epsilon: float  # of the session
    plain_epsilon: float  # of plain composition of as many queries as are expected to be asked
    # the fewest of that rate for which a session with room for the hits costs less
    break_even_queries: int | None


def plan_hits(
    aggregator: aggregators.TargetChargedAggregator,
    votes: Any,
    *,
    num_teachers: int,
    target_delta: float,
    prior: NDArray[np.bool_] | None = None,
    max_queries: int = 1_000_000,
    accountant: Callable[[], Accountant] = AutoAccountant,
) -> HitPlan:
    """Plans a session on public or synthetic votes `[Q, L]`, with a prior of that shape where hits depend on one.

    Both prices are for the same noise. The break-even is searched up to `max_queries`.
    """
    counts = require_histogram("votes", votes, num_teachers=num_teachers, rank=2).astype(np.int64)
    shape = VoteShape.from_counts(counts, num_teachers=num_teachers)
    budget = Budget(delta=target_delta, accountant=accountant)
    require_count("max_queries", max_queries)
    if prior is not None:
        require(
            prior.shape == counts.shape, "prior.shape", prior.shape, f"{counts.shape}, as the votes"
        )

    def prices(
        charged: aggregators.TargetChargedAggregator, session: int, plain: int
    ) -> tuple[float, float]:
        """Returns the epsilons of a session of so many queries, and of plain composition of so many."""
        in_all = replace(charged, session_delta=target_delta).event(
            replace(shape, num_queries=session)
        )
        alone = charged.plain_event(replace(shape, num_queries=plain))
        return budget.epsilon_of(in_all), budget.epsilon_of(alone)

    @cache
    def pays(num_queries: int) -> bool:
        # `target_hits` grows so that a session halts early with a probability of about 1/20; failures take delta / 10
        expected = num_queries * rate
        most_hits = math.ceil(expected + _QUANTILE * math.sqrt(expected)) + 1
        share = _FAILURE_SHARE * target_delta / num_queries
        failing = with_failure_prob_at_most(aggregator, share)
        in_all, alone = prices(replace(failing, target_hits=most_hits), num_queries, num_queries)
        return in_all < alone

    planned = with_failure_prob_for(aggregator, delta=target_delta, num_queries=len(counts))
    hits = planned.hit_probabilities(counts, num_teachers=num_teachers, prior=prior)
    reached = np.flatnonzero(np.cumsum(hits) >= aggregator.target_hits * (1 - _ROUNDING))
    asked = int(reached[0]) + 1 if reached.size else len(counts)
    rate = float(hits.mean())
    low = 0
    high = 1
    while high < max_queries and not pays(high):
        low = high
        high = min(2 * high, max_queries)
    fewest = high if pays(high) else None
    while fewest is not None and fewest - low > max(1, low // 100):  # to a hundredth
        middle = (low + fewest) // 2
        low, fewest = (low, middle) if pays(middle) else (middle, fewest)
    return HitPlan(rate, float(hits.sum()), asked, *prices(planned, len(counts), asked), fewest)


def charges_of(ledger: accounting.Ledger) -> dict[str, Any]:
    """Returns what one data set of a ledger was charged for, by itself and in all, as plain values."""
    price = cache(ledger.price)
    charges = []
    for entry in ledger.entries:
        who = {
            "time": entry.time,
            "user": entry.user,
            "command": entry.command,
            "mechanism": entry.description,
        }
        charges.append(who | {"draw": entry.draw, "epsilon": price(entry.event)})
    unit = ledger.unit
    return {
        "data": ledger.data,
        "spent_epsilon": ledger.spent_epsilon,
        "delta": ledger.target_delta,
        "cap": ledger.max_epsilon,
        "unit": None
        if unit is None
        else unit.protected_under(ledger.adjacency, num_releases=len(charges)),
        "unit_columns": [] if unit is None else list(unit.columns),
        "charges_without_unit": ledger.num_without_unit,
        "accountant": ledger.accountant_name,
        "accountant_epsilon": ledger.epsilon,
        "charges": charges,
    }


@dataclass(frozen=True)
class AccountLeft:
    """The account of one data set of a ledger: what it has spent, and what is left of its cap."""

    # the digest of its private records; empty for a ledger that counts for whatever it is charged
    # for
    data: str
    num_releases: int
    epsilon: float  # if all prices were fixed beforehand
    max_epsilon: float | None = None  # None without a cap, as what follows
    more_releases: float | None = None  # how many of the planned release still fit, maybe infinity
    # the largest of one such release that fits, noise solved for, to a hundredth
    target_epsilon: float | None = None
    accountant: str = ""  # the ledger's own, whose figure `epsilon` is


def accounts_left(
    path: str | os.PathLike[str], release: PricedRelease, budget: Budget
) -> tuple[AccountLeft, ...]:
    """All data sets of a ledger, in the order of their first charges, and what the planned release leaves."""
    accounts = []
    ours = {"adjacency": release.aggregator.adjacency, "target_delta": budget.delta}
    for ledger in ledgers_in(path):
        for name, own in ours.items():
            counted = getattr(ledger, name)
            require(counted == own, name, own, f"{counted}, as ledger={path} counts")
        left = AccountLeft(
            ledger.data,
            len(ledger.entries),
            ledger.spent_epsilon,
            ledger.max_epsilon,
            accountant=ledger.accountant_name,
        )
        if left.max_epsilon is not None:
            more = ledger.affords(release.event)
            target = _largest_target(ledger, release, budget, left.max_epsilon)
            left = replace(left, more_releases=more, target_epsilon=target)
        accounts.append(left)
    return tuple(accounts)


def ledgers_in(path: str | os.PathLike[str]) -> list[accounting.Ledger]:
    """One for each data set of a file, by their first charges; one in all where no charge names its data."""
    require(
        os.path.lexists(path), "ledger", path, "a ledger that runs are charged to, found no file"
    )
    shared = accounting.SharedLedger.stored(path)
    return [shared.account(data) for data in shared.data] or [accounting.Ledger.stored(path)]


def _largest_target(
    ledger: accounting.Ledger, release: PricedRelease, budget: Budget, cap: float
) -> float:
    """Returns the largest target that fits: halved between a thousandth of the cap and the cap by Renyi's accountant.

    Which noise fits is the filter's to say. What that noise costs, the budget's accountant is asked once.
    """

    def fitting(target: float, make: Callable[[], Accountant] = RdpAccountant) -> Event | None:
        """Returns the price with the noise that meets a target; None where no noise does, or it does not fit."""
        wanted = Budget(delta=budget.delta, epsilon=target, accountant=make)
        planned = planned_or_none(release.aggregator, release.shape, wanted)
        return planned.event if planned is not None and ledger.affords(planned.event) >= 1 else None

    if fitting(cap, budget.accountant):
        return cap
    low = math.log(_SMALLEST * cap)
    high = math.log(cap)
    fitting_event = fitting(math.exp(low))
    for _ in range(_STEPS if fitting_event else 0):
        middle = (low + high) / 2
        event = fitting(math.exp(middle))
        if event is None:
            high = middle
        else:
            low = middle
            fitting_event = event
    if fitting_event is None:
        return 0.0
    return min(cap, budget.epsilon_of(fitting_event) * _A_LITTLE_LESS)


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


def _price_or_reason(
    name: str, make: Callable[[], Accountant], event: Event, delta: float
) -> AccountantPrice:
    try:
        spent = make().compose(event)
        epsilon = spent.get_epsilon(delta)
    except InvalidValue as error:
        return AccountantPrice(name, reason=str(error))
    except ImportError as error:
        return AccountantPrice(
            name, reason=f"needs the package {error.name}, which is not installed"
        )
    if isinstance(spent, RdpAccountant):
        return AccountantPrice(spent.name, epsilon, len(spent.orders), spent.best_order(delta))
    winner = spent.winner(delta) if isinstance(spent, AutoAccountant) else None
    return AccountantPrice(spent.name, epsilon, won_by=winner)


def cheapest_accountant(
    release: PricedRelease, budget: Budget, known: Mapping[str, Callable[[], Accountant]]
) -> AccountantPrice:
    """Returns the accountant with the smallest epsilon for a release, of those `known` that are quick on it."""
    # Optimal composition step by step is asked only if it has few steps, not counting those of Gaussian noise or of its
    # maxima. Elsewhere it takes a second and gives no smaller figure. Loss distributions never give one.
    own = budget.accountant()
    num_steps = sum(
        sum(times)
        for kind, (_, times) in count_leaves(release.event).items()
        if kind is not GaussianEvent and not issubclass(kind, NoisyMaxGaussianEvent)
    )
    left_out = set(_LOOSER)
    if isinstance(own, AutoAccountant) or num_steps > _FEW_STEPS:
        left_out.update(_BY_STEPS)
    names = [name for name in known if name not in left_out]
    others = [_price_or_reason(name, known[name], release.event, budget.delta) for name in names]
    prices = [
        AccountantPrice(own.name, release.epsilon),
        *(price for price in others if price.epsilon is not None),
    ]
    return min(prices, key=lambda price: price.epsilon or 0.0)
