"""Budgets as commands and scripts name them, and the one that buys queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pate.accounting import Accountant, AutoAccountant, Budget
from pate.pricing.person_budgets import PersonBudgets
from pate.validation import require


@dataclass(frozen=True, kw_only=True)
class QueryBudget(Budget):
    """A budget that buys queries: as many are asked as its epsilon pays for, with the noise as it is."""

    _setting_of_epsilon: ClassVar[str] = "max_epsilon"

    def __post_init__(self) -> None:
        self.required_epsilon()
        super().__post_init__()


def is_solved_for_noise(budget: Budget) -> bool:
    """Returns whether a plan solves for the noise that one epsilon leads to, the same for all groups."""
    return budget.epsilon is not None and not isinstance(budget, (QueryBudget, PersonBudgets))


def has_given_noise(budget: Budget) -> bool:
    """Returns whether a plan takes the noise as it is."""
    return budget.epsilon is None or isinstance(budget, QueryBudget)


def budget_from_settings(
    *,
    target_delta: float,
    target_epsilon: float | None = None,
    max_epsilon: float | None = None,
    budgets: Any = None,
    accountant: Callable[[], Accountant] = AutoAccountant,
) -> Budget:
    """Returns the budget that these settings of the commands name.

    `target_epsilon` solves for the noise, `max_epsilon` for the number of queries, `budgets` (`named_budgets`) for the
    noise of the largest and for what groups of the others count. Without any, the noise is as it is. Raises
    `InvalidValue` for two of them.

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
