"""What a budget buys: the noise that it leads to or the queries that it pays for, as a priced release."""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate import accounting, validation
from pate.accounting import DEFAULT_ORDERS, Accountant, AutoAccountant, Event, RdpAccountant
from pate.accounting.data_dependent import DataDependentEpsilon
from pate.accounting.events import failure_probability
from pate.accounting.filters import largest_count
from pate.accounting.rdp import require_maker
from pate.accounting.rounding import format_epsilon
from pate.aggregators import Aggregator
from pate.aggregators.aggregator import declared
from pate.aggregators.failures import require_delta_left, with_failure_prob_for
from pate.files.values import digest
from pate.mechanisms import CertifiedTable
from pate.validation import (
    InvalidValue,
    require,
    require_count,
    require_positive,
    require_probability,
    rounded_up,
)
from pate.votes.shape import VoteShape

_GRID = 2.0**-53
_MOST_QUERIES = 10**9
_WEIGHTS = 2**20  # of which weights are multiples
_MOST_CLASSES = 100
_MOST_TEACHERS = 16  # of a group


@dataclass(frozen=True, kw_only=True)
class SettingNames:
    """How a command or class spells its settings; `{}` stands for the value, in `noise` for a field and its value."""

    num_teachers: str = "num_teachers={}"
    target_epsilon: str = "target_epsilon={}"
    num_queries: str = "num_queries={}"
    noise: str = "aggregator.{}"
    target_delta: str = "target_delta={}"
    allow_useless: str = "allow_useless=true"

    def spelled(self, settings: Mapping[str, float]) -> str:
        """Settings, and fields of the aggregator, with their values, as the user gives them."""
        own = vars(self)
        return " ".join(
            own[name].format(f"{value:g}")
            if name in own
            else self.noise.format(f"{name}={value:g}")
            for name, value in settings.items()
        )


def epsilon_on(
    aggregator: Aggregator,
    counts: NDArray[np.int64],
    shape: VoteShape,
    target_delta: float,
    answered: NDArray[np.bool_] | None = None,
) -> DataDependentEpsilon:
    """Computes what a release cost on these votes `[Q, L]`, a bound for them alone; raises as `cost_on`."""
    cost = aggregator.cost_on(
        counts, num_teachers=shape.num_teachers, orders=DEFAULT_ORDERS, answered=answered
    )
    return cost.epsilon(target_delta)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The delta of a release, and the epsilon to meet, if any; raises for both epsilons at once."""

    target_delta: float  # in (0, 1)
    # noise is solved for so that the release costs this; None takes it as it is
    target_epsilon: float | None = None
    # as many queries are asked as this pays for; None asks all of them
    max_epsilon: float | None = None
    accountant: Callable[[], Accountant] = AutoAccountant  # makes an empty accountant
    # epsilons of groups that have budgets of their own, by the name of their class, in place of a `target_epsilon`,
    # which becomes the largest; then the smallest is first. None for one budget.
    classes: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if self.classes is not None:
            largest = max(named_budgets(self.classes).values())
            rule = f"none beside budgets, of which the largest, {largest:g}, is the target"
            require(
                self.target_epsilon in (None, largest), "target_epsilon", self.target_epsilon, rule
            )
            object.__setattr__(self, "target_epsilon", largest)
            object.__setattr__(
                self, "classes", dict(sorted(self.classes.items(), key=itemgetter(1)))
            )
        require_probability("target_delta", self.target_delta)
        for name in ("target_epsilon", "max_epsilon"):
            if getattr(self, name) is not None:
                require_positive(name, getattr(self, name))
        require_maker(self.accountant)
        rule = "no target_epsilon beside it; one solves for the queries, the other for the noise"
        require(
            None in (self.target_epsilon, self.max_epsilon), "max_epsilon", self.max_epsilon, rule
        )

    def epsilon_of(self, event: Event) -> float:
        """The epsilon of an event at `target_delta`; infinity where failure probabilities alone use up delta."""
        if failure_probability(event) >= self.target_delta:
            return math.inf
        return self.accountant().compose(event).get_epsilon(self.target_delta)


def named_budgets(budgets: Any) -> dict[str, float]:
    """Epsilons by the name of their class, from a mapping, or from a list of epsilons that name themselves.

    >>> named_budgets([1, 4.0]), named_budgets({"cautious": 1})
    ({'1': 1.0, '4': 4.0}, {'cautious': 1.0})
    """
    rule = "epsilons by the names of their classes, {cautious: 1, usual: 4}, or a list of epsilons, [1,4]"
    listed = isinstance(budgets, (list, tuple))
    require(listed or isinstance(budgets, Mapping), "budgets", budgets, rule)
    given = {_one_spelling(each): each for each in budgets} if listed else budgets
    require(
        0 < len(given) <= _MOST_CLASSES,
        "budgets",
        len(given),
        f"1 to {_MOST_CLASSES} classes, {rule}",
    )
    return {
        _one_spelling(name): require_positive(f"budgets.{name}", epsilon)
        for name, epsilon in given.items()
    }


def budgets_of(words: Iterable[str], budgets: Any = None) -> dict[str, float]:
    """The epsilon of each word that groups have: that of its class in `budgets`, or else the word itself, a number."""
    known = None if budgets is None else named_budgets(budgets)
    found: dict[str, float] = {}
    for word in sorted(set(words)):
        try:
            found[word] = (
                known[_one_spelling(word)]
                if known
                else require_positive("data.budget", float(word))
            )
        except (KeyError, ValueError):
            rule = (
                "a number > 0, the epsilon of a group; budgets={NAME: EPSILON} says what words mean"
            )
            if known:
                rule = f"a class of budgets={{{', '.join(known)}}}{validation.nearest(word, tuple(known))}"
            raise InvalidValue(f"data.budget={word}: expected {rule}") from None
    return found


def _one_spelling(word: object) -> str:
    """Of a number, as 1 and 1.0 are one class."""
    try:
        return f"{float(str(word)):.12g}"
    except ValueError:
        return str(word)


def require_achievable_delta(target_delta: float, *, num_queries: int, num_labels: int) -> float:
    """Returns a delta that draws in double precision can keep, at least 2**-53 for every label of every query."""
    # Draws compare a multiple of 2**-53 with a probability: what is rarer happens never or too often, unaccounted for.
    lowest = (
        require_count("num_queries", num_queries) * require_count("num_labels", num_labels) * _GRID
    )
    rule = f"at least {rounded_up(lowest, 3)}, below which draws in double precision are too coarse"
    require(target_delta >= lowest, "target_delta", target_delta, rule)
    return target_delta


def largest_num_queries(
    aggregator: Aggregator,
    *,
    max_epsilon: float,
    target_delta: float,
    num_labels: int,
    num_teachers: int,
    accountant: Callable[[], Accountant] = AutoAccountant,
    at_most: int | None = None,
) -> int:
    """The most queries that cost at most `max_epsilon` at `target_delta`, with the noise as it is.

    At most `at_most`, or 10**9, and no more than draws can keep `target_delta` for; `InvalidValue` where it is none.

    >>> from pate.aggregators import GaussianVotes
    >>> budget = {"max_epsilon": 8.0, "target_delta": 1e-6, "num_labels": 40, "num_teachers": 800}
    >>> largest_num_queries(GaussianVotes(noise_std=100.0), **budget)
    910
    """
    require_positive("max_epsilon", max_epsilon)
    budget = Budget(target_delta=target_delta, max_epsilon=max_epsilon, accountant=accountant)
    one = VoteShape(num_queries=1, num_labels=num_labels, num_teachers=num_teachers)
    maximum = _MOST_QUERIES if at_most is None else require_count("at_most", at_most)
    most = 1 if at_most is None else maximum
    maximum = min(maximum, math.floor(target_delta / _GRID) // num_labels)

    def affordable(num_queries: int, budget: Budget) -> bool:
        planned = with_failure_prob_for(aggregator, delta=target_delta, num_queries=num_queries)
        event = planned.event(replace(one, num_queries=num_queries))
        return budget.epsilon_of(event) <= max_epsilon

    # More queries never cost less. An accountant that may be slow is asked only around the Renyi accountant's answer.
    if accountant is not RdpAccountant:
        by_renyi = replace(budget, accountant=RdpAccountant)
        with suppress(InvalidValue):  # an event that it does not know
            most = largest_count(
                lambda count: affordable(count, by_renyi), guess=most, maximum=maximum
            )
    most = largest_count(lambda count: affordable(count, budget), guess=most, maximum=maximum)
    if most == 0:
        require_achievable_delta(target_delta, num_queries=1, num_labels=num_labels)
        event = with_failure_prob_for(aggregator, delta=target_delta, num_queries=1).event(one)
        # raises where failures alone use up delta
        price = accountant().compose(event).get_epsilon(target_delta)
        require(
            False,
            "max_epsilon",
            max_epsilon,
            f"at least {format_epsilon(price)}, the price of one query",
        )
    return most


@dataclass(frozen=True)
class BudgetClass:
    """Groups of one budget."""

    name: str  # public
    budget: float  # what its epsilon is at most
    weight: float  # what each of its groups counts, in (0, 1]
    epsilon: float  # what the release costs it, at the release's delta
    teachers: int = 1  # how many teachers each of its groups is with


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
    # what `require_useful` said of it, one line each
    doubts: tuple[str, ...] = field(default=(), compare=False)
    # whose figure epsilon is, if the accountant asks others
    won_by: str | None = field(default=None, compare=False)
    # the smallest budget first; none where all groups have one
    classes: tuple[BudgetClass, ...] = ()

    @property
    def identity(self) -> str:
        """A digest of all that decides the release beside votes and noise: equal for equal releases only."""
        shape = self.shape
        asked = self.aggregator.identity(
            num_labels=shape.num_labels, num_teachers=shape.num_teachers
        )
        return digest(
            [
                asked,
                asdict(shape),
                *([each.name, each.weight, each.teachers] for each in self.classes),
            ]
        )


def plan_release(
    aggregator: Aggregator,
    shape: VoteShape,
    budget: Budget,
    *,
    more_queries: bool = False,
    names: SettingNames = SettingNames(noise="{}"),
) -> PricedRelease:
    """Solves for the noise or the number of queries that meets the budget, and prices the release.

    The aggregator has noise to start from, or as it is. With `more_queries` a `max_epsilon` buys all that it pays for.
    Raises where no noise, or not one query, meets the budget; where failures use up delta, or draws cannot keep it.

    >>> from pate.aggregators import GaussianVotes
    >>> from pate.votes import VoteShape
    >>> shape = VoteShape(num_queries=600, num_labels=40, num_teachers=800)
    >>> aggregator = GaussianVotes(noise_std=100.0)
    >>> f"{plan_release(aggregator, shape, Budget(target_delta=1e-6, target_epsilon=8.0)).aggregator.noise_std:.1f}"
    '81.2'
    >>> plan_release(aggregator, shape, Budget(target_delta=1e-6, max_epsilon=4.0)).shape.num_queries
    272
    """
    if budget.max_epsilon is None:
        require_achievable_delta(
            num_queries=shape.num_queries,
            target_delta=budget.target_delta,
            num_labels=shape.num_labels,
        )
        aggregator = with_failure_prob_for(
            aggregator, delta=budget.target_delta, num_queries=shape.num_queries
        )
        require_delta_left(
            aggregator,
            num_queries=shape.num_queries,
            target_delta=budget.target_delta,
            spelled=names.noise,
            queries=names.num_queries,
        )
    start = aggregator
    classes = tuple[BudgetClass, ...]()
    if budget.classes is not None and aggregator.budgets_by != "weights":
        aggregator, classes = _spread(start, shape, budget)
    elif budget.target_epsilon is not None:
        aggregator = _calibrated(start, shape, budget, budget.target_epsilon)
    solved = changed_fields(start, aggregator)
    if budget.max_epsilon is not None:
        wanted = {
            name: getattr(budget, name) for name in ("max_epsilon", "target_delta", "accountant")
        }
        at_most = None if more_queries else shape.num_queries
        found = largest_num_queries(
            aggregator,
            **wanted,
            num_labels=shape.num_labels,
            num_teachers=shape.num_teachers,
            at_most=at_most,
        )
        shape = replace(shape, num_queries=found)
        solved = {"num_queries": found}
        aggregator = with_failure_prob_for(aggregator, delta=budget.target_delta, num_queries=found)
    event = aggregator.event(shape)
    spent = budget.accountant().compose(event)
    epsilon = spent.get_epsilon(budget.target_delta)  # raises where failures alone use up delta
    winner = spent.winner(budget.target_delta)
    won_by = None if winner == spent.name else winner
    if budget.classes is not None and not classes:
        classes = _weighted(aggregator, shape, budget)
    return PricedRelease(aggregator, shape, event, epsilon, solved, won_by=won_by, classes=classes)


def _weighted(aggregator: Aggregator, shape: VoteShape, budget: Budget) -> tuple[BudgetClass, ...]:
    """What a group of each class counts, so that a release with noise for the largest budget costs it its own at most.

    A group of weight w moves all that is released at most w times as far as one of weight 1 (docs/proofs/budgets.md).
    So it pays what all would pay for noise that is 1 / w times as large.
    """
    (noise,) = declared(type(aggregator))
    found = list[BudgetClass]()
    for name, epsilon in (budget.classes or {}).items():
        alone = _calibrated(aggregator, shape, budget, epsilon)
        share = min(getattr(aggregator, noise) / getattr(alone, noise), 1.0)
        weight = math.floor(share * _WEIGHTS) / _WEIGHTS
        require(
            weight > 0,
            f"budgets.{name}",
            epsilon,
            "a larger one, beside budgets that are so much larger",
        )
        price = budget.epsilon_of(aggregator.scaled(1 / weight).event(shape))
        found.append(BudgetClass(name, epsilon, weight, price))
    return tuple(found)


def _spread(
    aggregator: Aggregator, shape: VoteShape, budget: Budget
) -> tuple[Aggregator, tuple[BudgetClass, ...]]:
    """With noise for the smallest budget, and as many teachers for a group of each class as its own budget pays for."""
    rule = "an aggregator that counts groups by weights or by teachers: centered_votes or gaussian_votes"
    require(aggregator.budgets_by == "teachers", "data.budget", type(aggregator).__name__, rule)
    budgets = list((budget.classes or {}).items())
    # one teacher, two, …
    reaching: list[Any] = [_calibrated(aggregator, shape, budget, budgets[0][1])]
    prices = [budget.epsilon_of(reaching[0].event(shape))]
    while prices[-1] <= budgets[-1][1] and len(prices) < min(_MOST_TEACHERS, shape.num_teachers):
        reaching.append(replace(reaching[0], teachers_reached=len(prices) + 1))
        prices.append(budget.epsilon_of(reaching[-1].event(shape)))
    counts = [
        max(place for place, price in enumerate(prices, 1) if price <= most) for _, most in budgets
    ]
    classes = tuple(
        BudgetClass(*each, 1.0, prices[n - 1], n) for each, n in zip(budgets, counts, strict=True)
    )
    return reaching[max(counts) - 1], classes


def _calibrated(
    aggregator: Aggregator, shape: VoteShape, budget: Budget, epsilon: float
) -> Aggregator:
    """Returns the aggregator with the least noise that costs at most an epsilon at the budget's delta."""
    target = accounting.Budget(
        epsilon=epsilon, delta=budget.target_delta, accountant=budget.accountant
    )
    return aggregator.fitted(target, shape)


def changed_fields(before: Aggregator, after: Aggregator) -> dict[str, Any]:
    """The fields that differ, as they are after."""
    names = [item.name for item in fields(after) if item.init]
    return {
        name: getattr(after, name)
        for name in names
        if repr(getattr(after, name)) != repr(getattr(before, name))
    }


def certify_stability_test(release: PricedRelease, budget: Budget) -> CertifiedTable:
    """The table, priced at the order that the test was made for, or else at the release's best one."""
    aggregator = release.aggregator
    test = aggregator.stability_test(num_teachers=release.shape.num_teachers)
    if test is None:
        raise InvalidValue(
            f"aggregator={type(aggregator).__name__}: expected one with a stability test"
        )
    ready = getattr(aggregator, "table", None)
    order = ready.order if ready is not None else getattr(aggregator, "table_order", None)
    if order is None:
        order = RdpAccountant().compose(release.event).best_order(budget.target_delta)
    return CertifiedTable.of(test, order=order)
