"""The budgets that the settings of commands and scripts describe, and `QueryBudget`, for which queries are counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pate.accounting import Accountant, AutoAccountant, Budget
from pate.pricing.person_budgets import PersonBudgets
from pate.validation import require


@dataclass(frozen=True, kw_only=True)
class QueryBudget(Budget):
    """A budget for which a plan finds the number of queries: the aggregator keeps its noise."""

    _setting_of_epsilon: ClassVar[str] = "max_epsilon"

    def __post_init__(self) -> None:
        self.required_epsilon()
        super().__post_init__()


def is_solved_for_noise(budget: Budget) -> bool:
    """Returns True if a plan for this budget finds the noise of one epsilon for all groups."""
    return budget.epsilon is not None and not isinstance(budget, (QueryBudget, PersonBudgets))


def has_given_noise(budget: Budget) -> bool:
    """Returns True if a plan for this budget keeps the noise of the aggregator."""
    return budget.epsilon is None or isinstance(budget, QueryBudget)


def budget_from_settings(
    *,
    target_delta: float,
    target_epsilon: float | None = None,
    max_epsilon: float | None = None,
    budgets: Any = None,
    accountant: Callable[[], Accountant] = AutoAccountant,
) -> Budget:
    """Returns the budget that the settings of a command describe.

    Without an epsilon, a plan prices the noise of the aggregator.

    Args:
        target_delta: the delta of the guarantee.
        target_epsilon: the epsilon for which a plan finds the noise; None if another setting has the epsilon.
        max_epsilon: the epsilon for which a plan finds the number of queries and keeps the noise; None if another
            setting has the epsilon.
        budgets: the epsilon of each class of groups, as `named_budgets` reads them; None for one epsilon for all. A
            plan finds the noise for the largest, and the weights or teachers of the other groups.
        accountant: a function without arguments that returns an empty accountant.

    Raises:
        InvalidValue: more than one setting has an epsilon. Beside `budgets`, `target_epsilon` may be their largest.

    >>> budget_from_settings(target_delta=1e-6, max_epsilon=4.0).epsilon
    4.0
    """
    rule = "no target_epsilon beside it; one solves for the queries, the other for the noise"
    require(target_epsilon is None or max_epsilon is None, "max_epsilon", max_epsilon, rule)
    if budgets is not None:
        persons = PersonBudgets.from_classes(budgets, delta=target_delta, accountant=accountant)
        rule = f"none beside budgets, of which the largest, {persons.epsilon:g}, is the target"
        require(target_epsilon in (None, persons.epsilon), "target_epsilon", target_epsilon, rule)
        require(max_epsilon is None, "max_epsilon", max_epsilon, "none beside budgets")
        return persons
    if max_epsilon is not None:
        return QueryBudget(delta=target_delta, epsilon=max_epsilon, accountant=accountant)
    return Budget(delta=target_delta, epsilon=target_epsilon, accountant=accountant)
