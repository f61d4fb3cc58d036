"""Budgets of persons: private groups are divided into classes, each with an epsilon of its own.

The noise is computed for one of the budgets. Groups of the other classes take part to another degree: with a weight
below 1 in each sum, or with records at several teachers (docs/proofs/budgets.md).
"""

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

# Weights are whole multiples of 2**-20, so that sums of weighted votes are exact.
_WEIGHT_STEPS = 2**20
_MAX_CLASSES = 100
# The most teachers that a group is with.
_MAX_TEACHERS = 16


@dataclass(frozen=True, kw_only=True)
class PersonBudgets(Budget):
    """An epsilon for each class of private groups, in place of one epsilon for all groups.

    `from_classes` makes the budgets from a setting. The inherited `epsilon` is the largest one.

    Attributes:
        classes: the epsilon of each class by its name, the smallest first.
    """

    classes: Mapping[str, float]

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
        """Returns the budgets of the classes in a setting.

        Args:
            classes: the epsilon of each class, as `named_budgets` reads them.
            delta: the delta of the guarantee, for all classes.
            accountant: a function without arguments that returns an empty accountant.
        """
        epsilons = dict(sorted(named_budgets(classes).items(), key=itemgetter(1)))
        largest = max(epsilons.values())
        return cls(delta=delta, epsilon=largest, accountant=accountant, classes=epsilons)


@dataclass(frozen=True)
class BudgetClass:
    """The groups of one class in a plan, with their price.

    Attributes:
        name: the public name of the class.
        budget: the largest epsilon that the release may cost a group of the class.
        weight: the weight of each group of the class, in (0, 1].
        epsilon: the epsilon that the release costs a group of the class, at the release's delta.
        teachers: the number of teachers that have records of each group of the class.
    """

    name: str
    budget: float
    weight: float
    epsilon: float
    teachers: int = 1


def named_budgets(budgets: Any) -> dict[str, float]:
    """Returns the epsilon of each class by its name.

    `budgets` is a mapping, or a list of epsilons, whose classes are named by the numbers. Raises `InvalidValue` for
    anything else.

    >>> named_budgets([1, 4.0]), named_budgets({"cautious": 1})
    ({'1': 1.0, '4': 4.0}, {'cautious': 1.0})
    """
    rule = "epsilons by the names of their classes, {cautious: 1, usual: 4}, or a list of epsilons, [1,4]"
    is_list = isinstance(budgets, (list, tuple))
    require(is_list or isinstance(budgets, Mapping), "budgets", budgets, rule)
    epsilons = {_one_spelling(epsilon): epsilon for epsilon in budgets} if is_list else budgets
    rule = f"1 to {_MAX_CLASSES} classes, {rule}"
    require(0 < len(epsilons) <= _MAX_CLASSES, "budgets", len(epsilons), rule)
    return {
        _one_spelling(name): require_positive(f"budgets.{name}", epsilon)
        for name, epsilon in epsilons.items()
    }


def budgets_of(class_names: Iterable[str], budgets: Any = None) -> dict[str, float]:
    """Returns the epsilon of each class name in the column `data.budget`.

    Args:
        class_names: the class name of each group.
        budgets: the epsilon of each class, as `named_budgets` reads them; None if each name is itself the epsilon.

    Raises:
        InvalidValue: a name belongs to no class, or is no number.
    """
    classes = None if budgets is None else named_budgets(budgets)
    epsilons: dict[str, float] = {}
    for class_name in sorted(set(class_names)):
        try:
            if classes:
                epsilons[class_name] = classes[_one_spelling(class_name)]
            else:
                epsilons[class_name] = require_positive("data.budget", float(class_name))
        except (KeyError, ValueError):
            rule = (
                "a number > 0, the epsilon of a group; budgets={NAME: EPSILON} says what words mean"
            )
            if classes:
                nearest = validation.nearest(class_name, choices=tuple(classes))
                rule = f"a class of budgets={{{', '.join(classes)}}}{nearest}"
            raise InvalidValue("data.budget", class_name, rule=rule) from None
    return epsilons


def fit_to_classes(
    aggregator: Aggregator, shape: VoteShape, budgets: PersonBudgets
) -> tuple[Aggregator, tuple[BudgetClass, ...]]:
    """Returns the aggregator with noise for several budgets, and the classes with their prices.

    The aggregator's `budgets_by` decides whether the classes get different weights or different numbers of teachers.

    Args:
        aggregator: the aggregator, with noise to start from.
        shape: the number of queries, labels and teachers.
        budgets: the epsilon of each class.

    Raises:
        InvalidValue: the aggregator has no `budgets_by`, or no noise or weight meets a budget.
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
    """Returns the classes with the weight at which the noise of the largest budget costs each class at most its budget.

    A group of weight w moves the released sums by at most w times as much as a group of weight 1. So the release costs
    it as much as noise that is 1 / w times as large (docs/proofs/budgets.md).

    Args:
        aggregator: the aggregator with the noise of the largest budget.
        shape: the number of queries, labels and teachers.
        budgets: the epsilon of each class.
    """
    (noise,) = declared(type(aggregator), mark="noise")
    classes = []
    for name, epsilon in budgets.classes.items():
        # The noise that this budget would need if it were that of all groups.
        class_budget = _budget_for_all(budgets, epsilon)
        fitted = aggregator.fitted(class_budget, shape)
        share = min(getattr(aggregator, noise) / getattr(fitted, noise), 1.0)
        weight = math.floor(share * _WEIGHT_STEPS) / _WEIGHT_STEPS
        rule = "a larger one, beside budgets that are so much larger"
        require(weight > 0, f"budgets.{name}", epsilon, rule)
        scaled = aggregator.scaled(noise_factor=1 / weight)
        price = budgets.epsilon_of(scaled.event(shape))
        classes.append(BudgetClass(name=name, budget=epsilon, weight=weight, epsilon=price))
    return tuple(classes)


def _spread_over_teachers(
    aggregator: Aggregator, shape: VoteShape, budgets: PersonBudgets
) -> tuple[Aggregator, tuple[BudgetClass, ...]]:
    """Returns the aggregator with the noise of the smallest budget, and the classes with their number of teachers.

    A group with records at m teachers can change m votes for each label. A class gets the largest m whose price is
    within its budget. The returned aggregator is priced for the largest m.

    Args:
        aggregator: the aggregator, with noise to start from.
        shape: the number of queries, labels and teachers.
        budgets: the epsilon of each class.
    """
    epsilons = list(budgets.classes.values())
    smallest_budget = _budget_for_all(budgets, epsilon=epsilons[0])
    fitted = aggregator.fitted(smallest_budget, shape)
    # The price of a group that is with one teacher, two, and so on.
    prices = [budgets.epsilon_of(fitted.event(shape))]
    while prices[-1] <= epsilons[-1] and len(prices) < min(_MAX_TEACHERS, shape.num_teachers):
        reaching = _reaching(fitted, num_teachers=len(prices) + 1)
        prices.append(budgets.epsilon_of(reaching.event(shape)))
    classes = []
    for name, epsilon in budgets.classes.items():
        teachers = max(count for count, price in enumerate(prices, 1) if price <= epsilon)
        price = prices[teachers - 1]
        classes.append(
            BudgetClass(name=name, budget=epsilon, weight=1.0, epsilon=price, teachers=teachers)
        )
    most_teachers = max(budget_class.teachers for budget_class in classes)
    return _reaching(fitted, num_teachers=most_teachers), tuple(classes)


def _reaching(aggregator: Aggregator, num_teachers: int) -> Aggregator:
    """Returns a copy of the aggregator, priced for groups with records at `num_teachers` teachers."""
    if num_teachers == 1:
        return aggregator
    return replace(aggregator, teachers_reached=num_teachers)  # type: ignore[call-arg]  # `budgets_by` teachers


def _budget_for_all(budgets: PersonBudgets, epsilon: float) -> Budget:
    """Returns a budget with one epsilon for all groups, with the delta and accountant of `budgets`."""
    return Budget(delta=budgets.delta, epsilon=epsilon, accountant=budgets.accountant)


def _one_spelling(class_name: object) -> str:
    """Returns the name of a class in a unique spelling: 1 and 1.0 are one class."""
    try:
        return f"{float(str(class_name)):.12g}"
    except ValueError:
        return str(class_name)
