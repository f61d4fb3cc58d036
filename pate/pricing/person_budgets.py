"""Budgets of persons: groups of private records in classes, each with an epsilon of its own; docs/proofs/budgets.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Self

from pate import validation
from pate.accounting import Accountant, AutoAccountant, Budget
from pate.aggregators import Aggregator
from pate.aggregators.aggregator import declared
from pate.validation import InvalidValue, require, require_positive
from pate.votes.shape import VoteShape

_WEIGHTS = 2**20  # of which weights are multiples
_MOST_CLASSES = 100
_MOST_TEACHERS = 16  # of a group


@dataclass(frozen=True, kw_only=True)
class PersonBudgets(Budget):
    """Budgets of groups by classes, in place of one for all. Its `epsilon` is the largest of them.

    `from_classes` makes one.
    """

    classes: Mapping[str, float]  # the epsilon of each class by its name, the smallest first

    def __post_init__(self) -> None:
        super().__post_init__()
        epsilons = list(self.classes.values())
        rule = "epsilons by the names of classes, the smallest first and the largest as epsilon"
        is_good = len(epsilons) > 0 and epsilons == sorted(epsilons)
        require(is_good and epsilons[-1] == self.epsilon, "budgets", epsilons, rule)

    @classmethod
    def from_classes(
        cls, classes: Any, *, delta: float, accountant: Callable[[], Accountant] = AutoAccountant
    ) -> Self:
        """Returns the budgets of classes, as `named_budgets` reads them."""
        epsilons = dict(sorted(named_budgets(classes).items(), key=itemgetter(1)))
        largest = max(epsilons.values())
        return cls(delta=delta, epsilon=largest, accountant=accountant, classes=epsilons)


@dataclass(frozen=True)
class BudgetClass:
    """Groups of one budget, as a plan serves them."""

    name: str  # public
    budget: float  # what its epsilon is at most
    weight: float  # what each of its groups counts, in (0, 1]
    epsilon: float  # what the release costs it, at the release's delta
    teachers: int = 1  # how many teachers each of its groups is with


def named_budgets(budgets: Any) -> dict[str, float]:
    """Returns epsilons by the name of their class, from a mapping, or from a list of epsilons that name themselves.

    >>> named_budgets([1, 4.0]), named_budgets({"cautious": 1})
    ({'1': 1.0, '4': 4.0}, {'cautious': 1.0})
    """
    rule = "epsilons by the names of their classes, {cautious: 1, usual: 4}, or a list of epsilons, [1,4]"
    is_list = isinstance(budgets, (list, tuple))
    require(is_list or isinstance(budgets, Mapping), "budgets", budgets, rule)
    epsilons = {_one_spelling(epsilon): epsilon for epsilon in budgets} if is_list else budgets
    rule = f"1 to {_MOST_CLASSES} classes, {rule}"
    require(0 < len(epsilons) <= _MOST_CLASSES, "budgets", len(epsilons), rule)
    return {
        _one_spelling(name): require_positive(f"budgets.{name}", epsilon)
        for name, epsilon in epsilons.items()
    }


def budgets_of(words: Iterable[str], budgets: Any = None) -> dict[str, float]:
    """Returns the epsilon of each word that groups have: its class in `budgets`, or the word itself, a number."""
    classes = None if budgets is None else named_budgets(budgets)
    epsilons: dict[str, float] = {}
    for word in sorted(set(words)):
        try:
            if classes:
                epsilons[word] = classes[_one_spelling(word)]
            else:
                epsilons[word] = require_positive("data.budget", float(word))
        except (KeyError, ValueError):
            rule = (
                "a number > 0, the epsilon of a group; budgets={NAME: EPSILON} says what words mean"
            )
            if classes:
                nearest = validation.nearest(word, tuple(classes))
                rule = f"a class of budgets={{{', '.join(classes)}}}{nearest}"
            raise InvalidValue("data.budget", word, rule=rule) from None
    return epsilons


def fit_to_classes(
    aggregator: Aggregator, shape: VoteShape, budgets: PersonBudgets
) -> tuple[Aggregator, tuple[BudgetClass, ...]]:
    """Returns the aggregator with the noise for a release to groups of several budgets, and what each class pays.

    By the aggregator's `budgets_by`, groups differ by weights or by the number of their teachers. Raises `InvalidValue`
    for an aggregator in which they cannot differ.
    """
    if aggregator.budgets_by == "weights":
        fitted = aggregator.fitted(budgets, shape)
        return fitted, _classes_by_weights(fitted, shape, budgets)
    rule = "an aggregator that counts groups by weights or by teachers: centered_votes or gaussian_votes"
    require(aggregator.budgets_by == "teachers", "data.budget", type(aggregator).__name__, rule)
    return _spread_over_teachers(aggregator, shape, budgets)


def _classes_by_weights(
    aggregator: Aggregator, shape: VoteShape, budgets: PersonBudgets
) -> tuple[BudgetClass, ...]:
    """Returns what a group of each class counts, so that noise for the largest budget costs it its own at most.

    A group of weight w moves all that is released at most w times as far as one of weight 1 (docs/proofs/budgets.md).
    So it pays what all would pay for noise that is 1 / w times as large.
    """
    (noise,) = declared(type(aggregator))
    classes = []
    for name, epsilon in budgets.classes.items():
        alone = aggregator.fitted(_for_all(budgets, epsilon), shape)
        share = min(getattr(aggregator, noise) / getattr(alone, noise), 1.0)
        weight = math.floor(share * _WEIGHTS) / _WEIGHTS
        rule = "a larger one, beside budgets that are so much larger"
        require(weight > 0, f"budgets.{name}", epsilon, rule)
        price = budgets.epsilon_of(aggregator.scaled(1 / weight).event(shape))
        classes.append(BudgetClass(name=name, budget=epsilon, weight=weight, epsilon=price))
    return tuple(classes)


def _spread_over_teachers(
    aggregator: Aggregator, shape: VoteShape, budgets: PersonBudgets
) -> tuple[Aggregator, tuple[BudgetClass, ...]]:
    """Returns noise for the smallest budget, and as many teachers for a group of each class as its own pays for."""
    epsilons = list(budgets.classes.values())
    smallest = aggregator.fitted(_for_all(budgets, epsilons[0]), shape)
    # The price of a group that is with one teacher, two, and so on.
    prices = [budgets.epsilon_of(smallest.event(shape))]
    while prices[-1] <= epsilons[-1] and len(prices) < min(_MOST_TEACHERS, shape.num_teachers):
        reaching = _reaching(smallest, len(prices) + 1)
        prices.append(budgets.epsilon_of(reaching.event(shape)))
    classes = []
    for name, epsilon in budgets.classes.items():
        teachers = max(count for count, price in enumerate(prices, 1) if price <= epsilon)
        price = prices[teachers - 1]
        classes.append(
            BudgetClass(name=name, budget=epsilon, weight=1.0, epsilon=price, teachers=teachers)
        )
    most = max(budget_class.teachers for budget_class in classes)
    return _reaching(smallest, most), tuple(classes)


def _reaching(aggregator: Aggregator, teachers: int) -> Aggregator:
    """Returns the aggregator for groups that are with so many teachers."""
    if teachers == 1:
        return aggregator
    return replace(aggregator, teachers_reached=teachers)  # type: ignore[call-arg]  # `budgets_by` teachers


def _for_all(budgets: PersonBudgets, epsilon: float) -> Budget:
    """Returns one of the budgets as that of all groups."""
    return Budget(delta=budgets.delta, epsilon=epsilon, accountant=budgets.accountant)


def _one_spelling(word: object) -> str:
    """Returns a class's name in one spelling: 1 and 1.0 are one class."""
    try:
        return f"{float(str(word)):.12g}"
    except ValueError:
        return str(word)
