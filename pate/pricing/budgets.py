"""The budgets that the settings of commands and scripts name, among them the one that buys queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pate.accounting import Accountant, AutoAccountant, Budget
from pate.pricing.person_budgets import PersonBudgets
from pate.validation import require


@dataclass(frozen=True, kw_only=True)
class QueryBudget(Budget):
    """A budget that buys queries: the noise is taken as it is, and the number of queries is solved for."""

    _setting_of_epsilon: ClassVar[str] = "max_epsilon"

    def __post_init__(self) -> None:
        self.required_epsilon()
        super().__post_init__()


def is_solved_for_noise(budget: Budget) -> bool:
    """Returns whether a plan solves for the noise of one epsilon for all groups."""
    return budget.epsilon is not None and not isinstance(budget, (QueryBudget, PersonBudgets))


def has_given_noise(budget: Budget) -> bool:
    """Returns whether a plan takes the noise as the aggregator has it."""
    return budget.epsilon is None or isinstance(budget, QueryBudget)


def budget_from_settings(
    *,
    target_delta: float,
    target_epsilon: float | None = None,
    max_epsilon: float | None = None,
    budgets: Any = None,
    accountant: Callable[[], Accountant] = AutoAccountant,
) -> Budget:
    """Returns the budget that the settings of a command name.

    Args:
        target_delta: the delta of the guarantee.
        target_epsilon: a plan solves for the noise.
        max_epsilon: a plan takes the noise as it is, and solves for the number of queries.
        budgets: epsilons of classes of groups, as `named_budgets` reads them. A plan solves for the noise of the
            largest, and for the weights or teachers of the other groups.
        accountant: makes an empty accountant.

    Without an epsilon, a plan prices the noise as it is. Raises `InvalidValue` where two of the settings exclude each
    other.

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
