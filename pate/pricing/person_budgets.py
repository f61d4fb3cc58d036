"""Budgets of persons: private groups are divided into classes, each with an epsilon of its own.

The noise is computed for one of the budgets. Groups of the other classes take part to another degree: with a weight
below 1 in each sum, or with records at several teachers (docs/proofs/budgets.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from pate.accounting import Accountant, AutoAccountant, Budget
from pate.aggregators import Aggregator
from pate.aggregators.aggregator import fields_marked
from pate.validation import InvalidValue, nearest, require, require_positive
from pate.votes.shape import VoteShape

# Weights are whole multiples of 2**-20, so that sums of weighted votes are exact.
_STEPS_PER_WEIGHT_OF_1 = 2**20
# The largest number of classes that a setting may have.
_MAX_CLASSES = 100
# The largest number of teachers that have records of one group.
_MAX_TEACHERS = 16


# The forms of the setting `budgets`, as errors describe them.
_BUDGETS_RULE = (
    "epsilons by the names of their classes, {cautious: 1, usual: 4}, or a list of epsilons, [1,4]"
)


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
        is_sorted = len(epsilons) > 0 and epsilons == sorted(epsilons)
        if not is_sorted or epsilons[-1] != self.epsilon:
            rule = "epsilons by the names of classes, the smallest first and the largest as epsilon"
            raise InvalidValue("budgets", epsilons, rule=rule)

    @classmethod
    def from_classes(
        cls,
        class_budgets: Any,
        *,
        delta: float,
        accountant: Callable[[], Accountant] = AutoAccountant,
    ) -> Self:
        """Returns the budgets of the classes in a setting.

        Args:
            class_budgets: the epsilon of each class, as `named_budgets` reads them.
            delta: the delta of the guarantee, for all classes.
            accountant: a function without arguments that returns an empty accountant.
        """
        epsilon_of_class = named_budgets(class_budgets)
        class_names = sorted(epsilon_of_class, key=epsilon_of_class.__getitem__)
        largest_epsilon = epsilon_of_class[class_names[-1]]
        make_accountant = accountant
        return cls(
            delta=delta,
            epsilon=largest_epsilon,
            accountant=make_accountant,
            classes={class_name: epsilon_of_class[class_name] for class_name in class_names},
        )


@dataclass(frozen=True)
class BudgetClass:
    """The groups of one class in a plan, with their price.

    Attributes:
        name: the public name of the class.
        budget: the largest epsilon that the release may cost a group of the class.
        weight: the weight of each group of the class, in (0, 1].
        epsilon: the epsilon that the release costs a group of the class, at the release's delta.
        teachers: the number of teachers at which each group of the class has records, 1 with weights.
    """

    name: str
    budget: float
    weight: float
    epsilon: float
    teachers: int = 1


def named_budgets(budgets: Any) -> dict[str, float]:
    """Returns the epsilon of each class by its name.

    `budgets` is a mapping, or a list of epsilons, whose classes are named by the numbers. Raises `InvalidValue` for
    anything else, for more than 100 classes or none, and for an epsilon that is not above 0.

    >>> named_budgets([1, 4.0]), named_budgets({"cautious": 1})
    ({'1': 1.0, '4': 4.0}, {'cautious': 1.0})
    """
    if isinstance(budgets, Mapping):
        epsilon_of_class = budgets
    elif isinstance(budgets, (list, tuple)):
        epsilon_of_class = {_in_one_notation(class_name=epsilon): epsilon for epsilon in budgets}
    else:
        raise InvalidValue("budgets", budgets, rule=_BUDGETS_RULE)
    rule = f"1 to {_MAX_CLASSES} classes, {_BUDGETS_RULE}"
    require(0 < len(epsilon_of_class) <= _MAX_CLASSES, "budgets", len(epsilon_of_class), rule)
    return {
        _in_one_notation(class_name=class_name): require_positive(f"budgets.{class_name}", epsilon)
        for class_name, epsilon in epsilon_of_class.items()
    }


def budgets_of(class_names: Iterable[str], budgets: Any = None) -> dict[str, float]:
    """Returns the epsilon of each class name in the column that the setting `data.budget` names.

    Args:
        class_names: the class name of each group.
        budgets: the epsilon of each class, as `named_budgets` reads them; None if each name is itself the epsilon.

    Raises:
        InvalidValue: a name belongs to no class, or is no number.
    """
    distinct_names = sorted(set(class_names))
    if budgets is None:
        return {
            budget_class_name: _epsilon_in_name(budget_class_name)
            for budget_class_name in distinct_names
        }
    epsilon_of_class = named_budgets(budgets)
    epsilons: dict[str, float] = {}
    for budget_class_name in distinct_names:
        normalized_name = _in_one_notation(class_name=budget_class_name)
        if normalized_name not in epsilon_of_class:
            suggestion = nearest(budget_class_name, choices=tuple(epsilon_of_class))
            rule = f"a class of budgets={{{', '.join(epsilon_of_class)}}}{suggestion}"
            raise InvalidValue("data.budget", budget_class_name, rule=rule)
        epsilons[budget_class_name] = epsilon_of_class[normalized_name]
    return epsilons


def _epsilon_in_name(class_name: str) -> float:
    """Returns the epsilon of a class whose name is a number; raises `InvalidValue` for another name."""
    try:
        epsilon_in_class_name = float(class_name)
        return require_positive("data.budget", epsilon_in_class_name)
    except ValueError:  # a word, or a number that is not positive
        rule = "a number > 0, the epsilon of a group; budgets={NAME: EPSILON} says what words mean"
        raise InvalidValue("data.budget", class_name, rule=rule) from None


def fit_to_classes(
    aggregator: Aggregator, vote_shape: VoteShape, person_budgets: PersonBudgets
) -> tuple[Aggregator, tuple[BudgetClass, ...]]:
    """Returns the aggregator with noise for several budgets, and the classes with their prices.

    The field `budgets_by` of the aggregator, "weights" or "teachers", says whether the groups of each class get a
    weight of their own, or records at a number of teachers of their own.

    Args:
        aggregator: the aggregator, with noise to start from.
        vote_shape: the number of queries, labels and teachers.
        person_budgets: the epsilon of each class.

    Raises:
        InvalidValue: the aggregator has no `budgets_by`, or no noise or weight meets a budget.
    """
    if aggregator.budgets_by == "weights":
        fitted_aggregator = aggregator.fitted(person_budgets, vote_shape)
        return fitted_aggregator, _classes_by_weights(
            fitted_aggregator, vote_shape=vote_shape, person_budgets=person_budgets
        )
    if aggregator.budgets_by == "teachers":
        return _fit_by_teachers(aggregator, vote_shape=vote_shape, person_budgets=person_budgets)
    rule = "an aggregator that counts groups by weights or by teachers: centered_votes or gaussian_votes"
    raise InvalidValue("data.budget", type(aggregator).__name__, rule=rule)


def _classes_by_weights(
    aggregator: Aggregator, vote_shape: VoteShape, person_budgets: PersonBudgets
) -> tuple[BudgetClass, ...]:
    """Returns the classes, each with the weight at which a release costs a group of the class at most its budget.

    A group of weight w moves the released sums by at most w times as much as a group of weight 1. So the release costs
    it as much as noise that is 1 / w times as large (docs/proofs/budgets.md).

    Args:
        aggregator: the aggregator with the noise of the largest budget.
        vote_shape: the number of queries, labels and teachers.
        person_budgets: the epsilon of each class.
    """
    (noise_field,) = fields_marked(type(aggregator), mark="noise")
    budget_classes = []
    for class_name, epsilon in person_budgets.classes.items():
        # The noise that this budget would need if it were that of all groups.
        class_budget = _budget_for_all(person_budgets, epsilon=epsilon)
        fitted_aggregator = aggregator.fitted(class_budget, vote_shape)
        noise_ratio = getattr(aggregator, noise_field) / getattr(fitted_aggregator, noise_field)
        weight = math.floor(min(noise_ratio, 1.0) * _STEPS_PER_WEIGHT_OF_1) / _STEPS_PER_WEIGHT_OF_1
        if weight <= 0:
            rule = "a larger epsilon, as the largest one of the budgets is so much larger"
            raise InvalidValue(f"budgets.{class_name}", epsilon, rule=rule)
        scaled_aggregator = aggregator.scaled(noise_factor=1 / weight)
        price = person_budgets.epsilon_of(scaled_aggregator.event(vote_shape))
        budget_classes.append(
            BudgetClass(name=class_name, budget=epsilon, weight=weight, epsilon=price)
        )
    return tuple(budget_classes)


def _fit_by_teachers(
    aggregator: Aggregator, vote_shape: VoteShape, person_budgets: PersonBudgets
) -> tuple[Aggregator, tuple[BudgetClass, ...]]:
    """Returns the aggregator with the noise of the smallest budget, and the classes with their number of teachers.

    A group with records at m teachers can change m votes for each label. A class gets the largest m, up to 16, whose
    price is within its budget. The returned aggregator is priced for the largest m.

    Args:
        aggregator: the aggregator, with noise to start from.
        vote_shape: the number of queries, labels and teachers.
        person_budgets: the epsilon of each class.
    """
    smallest_epsilon = min(person_budgets.classes.values())
    largest_epsilon = max(person_budgets.classes.values())
    fitted_aggregator = aggregator.fitted(
        _budget_for_all(person_budgets, epsilon=smallest_epsilon), vote_shape
    )
    max_teachers = min(_MAX_TEACHERS, vote_shape.num_teachers)
    # The price of a group, by the number of teachers that have records of it. The last price may be above all budgets.
    price_by_num_reached = {1: person_budgets.epsilon_of(fitted_aggregator.event(vote_shape))}
    for num_reached in range(2, max_teachers + 1):
        if price_by_num_reached[num_reached - 1] > largest_epsilon:
            break
        reaching_aggregator = _with_teachers_reached(
            fitted_aggregator, num_teachers_per_group=num_reached
        )
        price_by_num_reached[num_reached] = person_budgets.epsilon_of(
            reaching_aggregator.event(vote_shape)
        )
    budget_classes = []
    for class_name, epsilon in person_budgets.classes.items():
        num_teachers_per_group = max(
            count for count, price in price_by_num_reached.items() if price <= epsilon
        )
        budget_class = BudgetClass(
            name=class_name,
            budget=epsilon,
            weight=1.0,
            epsilon=price_by_num_reached[num_teachers_per_group],
            teachers=num_teachers_per_group,
        )
        budget_classes.append(budget_class)
    most_teachers = max(budget_class.teachers for budget_class in budget_classes)
    return _with_teachers_reached(fitted_aggregator, num_teachers_per_group=most_teachers), tuple(
        budget_classes
    )


def _with_teachers_reached(aggregator: Aggregator, *, num_teachers_per_group: int) -> Aggregator:
    """Returns a copy of the aggregator, priced for groups with records at `num_teachers_per_group` teachers."""
    if num_teachers_per_group == 1:
        return aggregator
    return replace(aggregator, teachers_reached=num_teachers_per_group)  # type: ignore[call-arg]  # `budgets_by` teachers


def _budget_for_all(person_budgets: PersonBudgets, *, epsilon: float) -> Budget:
    """Returns a budget with one epsilon for all groups, with the delta and accountant of `person_budgets`."""
    make_accountant = person_budgets.accountant
    return Budget(delta=person_budgets.delta, epsilon=epsilon, accountant=make_accountant)


def _in_one_notation(class_name: object) -> str:
    """Returns the name of a class as text; 1, 1.0 and "1.0" all become "1", because they are one class."""
    try:
        return f"{float(str(class_name)):.12g}"
    except ValueError:
        return str(class_name)
