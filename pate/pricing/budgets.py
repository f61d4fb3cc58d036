"""The kinds of budget that the settings of commands and scripts describe.

The class of a budget decides what a plan solves for (`plan_release`):

- `Budget` with an epsilon: the noise of the aggregator; without an epsilon: nothing, the plan prices the noise;
- `QueryBudget`: the number of queries, with the noise of the aggregator;
- `MuBudget`: the noise of a release that is mu-GDP (Gaussian differential privacy);
- `PersonBudgets` (`person_budgets.py`): the noise, and the weights or teachers of each class of private groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pate.accounting import Accountant, AutoAccountant, Budget, gaussian_epsilon
from pate.pricing.person_budgets import PersonBudgets
from pate.validation import InvalidValue, require_positive

# The relative rounding error of a mu that is computed from the noise.
_MU_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class QueryBudget(Budget):
    """A budget for which a plan finds the number of queries: the aggregator keeps its noise."""

    _setting_of_epsilon: ClassVar[str] = "max_epsilon"

    def __post_init__(self) -> None:
        self.required_epsilon()
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class MuBudget(Budget):
    """A budget for a release that is mu-GDP, for which a plan finds the noise.

    `from_mu` makes the budget. The inherited `epsilon` is that of a Gaussian release with this mu, rounded down.

    Attributes:
        mu: the largest mu of the release, > 0 (`Accountant.gdp_mu`).
    """

    mu: float

    _setting_of_epsilon: ClassVar[str] = "target_mu"

    @classmethod
    def from_mu(
        cls, mu: float, *, delta: float, accountant: Callable[[], Accountant] = AutoAccountant
    ) -> Self:
        """Returns the budget of a mu > 0.

        Args:
            mu: the largest mu of the release.
            delta: the delta at which epsilons of the release are reported.
            accountant: a function without arguments that returns an empty accountant.
        """
        require_positive("target_mu", mu)
        make_accountant = accountant
        epsilon = gaussian_epsilon(mu * (1 - _MU_ROUNDING), target_delta=delta)
        return cls(delta=delta, epsilon=epsilon, accountant=make_accountant, mu=mu)


def is_solved_for_noise(budget: Budget) -> bool:
    """Returns True if a plan for this budget solves for noise, with one epsilon for all groups."""
    return budget.epsilon is not None and not isinstance(budget, (QueryBudget, PersonBudgets))


def has_given_noise(budget: Budget) -> bool:
    """Returns True if a plan for this budget keeps the noise of the aggregator."""
    return budget.epsilon is None or isinstance(budget, QueryBudget)


def budget_from_settings(
    *,
    target_delta: float,
    target_epsilon: float | None = None,
    target_mu: float | None = None,
    max_epsilon: float | None = None,
    budgets: Any = None,
    accountant: Callable[[], Accountant] = AutoAccountant,
) -> Budget:
    """Returns the budget that the settings of a command describe.

    Without an epsilon, a plan prices the noise of the aggregator.

    Args:
        target_delta: the delta of the guarantee.
        target_epsilon: the epsilon for which a plan finds the noise; None if another setting has the epsilon.
        target_mu: the mu for which a plan finds the noise, in place of `target_epsilon`; None if another setting has
            the epsilon.
        max_epsilon: the epsilon for which a plan finds the number of queries and keeps the noise; None if another
            setting has the epsilon.
        budgets: the epsilon of each class of groups, as `named_budgets` reads them; None for one epsilon for all. A
            plan finds the noise for the largest epsilon and smaller weights for other groups, or the noise for the
            smallest epsilon and more teachers for other groups (`fit_to_classes`).
        accountant: a function without arguments that returns an empty accountant.

    Raises:
        InvalidValue: more than one setting has an epsilon. Beside `budgets`, `target_epsilon` may be their largest.

    >>> budget_from_settings(target_delta=1e-6, max_epsilon=4.0).epsilon
    4.0
    """
    make_accountant = accountant
    if target_epsilon is not None and max_epsilon is not None:
        rule = "no target_epsilon beside it; one solves for the queries, the other for the noise"
        raise InvalidValue("max_epsilon", max_epsilon, rule=rule)
    if target_mu is not None:
        if target_epsilon is not None or max_epsilon is not None or budgets is not None:
            rule = "no target_epsilon, max_epsilon or budgets beside target_mu"
            raise InvalidValue("target_mu", target_mu, rule=rule)
        return MuBudget.from_mu(target_mu, delta=target_delta, accountant=make_accountant)
    if budgets is not None:
        person_budgets = PersonBudgets.from_classes(
            class_budgets=budgets, delta=target_delta, accountant=make_accountant
        )
        largest_epsilon = person_budgets.epsilon
        if target_epsilon not in (None, largest_epsilon):
            rule = f"none beside budgets, whose largest epsilon, {largest_epsilon:g}, is the target"
            raise InvalidValue("target_epsilon", target_epsilon, rule=rule)
        if max_epsilon is not None:
            raise InvalidValue("max_epsilon", max_epsilon, rule="none beside budgets")
        return person_budgets
    if max_epsilon is not None:
        return QueryBudget(delta=target_delta, epsilon=max_epsilon, accountant=make_accountant)
    return Budget(delta=target_delta, epsilon=target_epsilon, accountant=make_accountant)
