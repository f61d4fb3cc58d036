"""The plans of a refused release with some settings changed, each made once and within a time."""

from collections.abc import Callable
from dataclasses import replace

from pate.accounting import Budget, RdpAccountant
from pate.accounting.loss_accountant import AccountantBesideRenyi
from pate.aggregators import Aggregator
from pate.pricing.budgets import is_solved_for_noise
from pate.pricing.changes import Change
from pate.pricing.priced_release import PricedRelease, planned_or_none


class TimeIsUp(Exception):
    """The end of a search: a plan was asked for after the search's time."""


class ChangedPlans:
    """The plans of a search for settings that work. Each plan is made once, and none is begun after the time.

    A plan is made by one of two accountants. Renyi's is cheap, and finds out where to look. The budget's accountant may
    take seconds, and decides what the user is told.

    Attributes:
        shape: the shape of the refused release.
        budget: the budget of the refused release.
        renyi_budget: the same budget by Renyi's accountant.
        is_renyi: whether the budget's accountant is Renyi's.
        is_within_renyi: whether the budget's accountant never has a price above Renyi's.
    """

    def __init__(
        self,
        start: Aggregator,
        priced: PricedRelease,
        budget: Budget,
        *,
        seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self.shape = priced.shape
        self.budget = budget
        self.renyi_budget = replace(budget, accountant=RdpAccountant)
        self.is_renyi = isinstance(budget.accountant(), RdpAccountant)
        self.is_within_renyi = self.is_renyi or isinstance(
            budget.accountant(), AccountantBesideRenyi
        )
        self._start = start
        self._clock = clock
        self._end = clock() + seconds
        # The noise of the next plan is soon found from the noise of the last one.
        self._last_solved = priced.aggregator
        self._plans_by_renyi: dict[Change, PricedRelease | None] = {}
        self._plans_by_budget: dict[Change, PricedRelease | None] = {}

    def by_renyi(self, change: Change) -> PricedRelease | None:
        """Returns the plan with a change, by Renyi's accountant; None where no such plan is possible."""
        if change in self._plans_by_renyi:
            return self._plans_by_renyi[change]
        is_solved = is_solved_for_noise(self.budget)
        start = self._last_solved if is_solved else self._start
        planned = self._plan(start, self.renyi_budget, change)
        if planned is not None and is_solved:
            self._last_solved = planned.aggregator
        self._plans_by_renyi[change] = planned
        return planned

    def by_budget(self, change: Change) -> PricedRelease | None:
        """Returns the plan that the user gets who makes a change: from the same start, by the same accountant."""
        if change not in self._plans_by_budget:
            self._plans_by_budget[change] = self._plan(self._start, self.budget, change)
        return self._plans_by_budget[change]

    def is_confirmed(self, change: Change) -> bool:
        """Returns whether `by_budget` has made the plan of a change."""
        return change in self._plans_by_budget

    def _plan(self, start: Aggregator, budget: Budget, change: Change) -> PricedRelease | None:
        """Makes the plan with a change; raises `TimeIsUp` where the time of the search has passed."""
        if self._clock() >= self._end:
            raise TimeIsUp
        shape = self.shape
        if change.num_teachers is not None:
            shape = replace(shape, num_teachers=change.num_teachers)
        if change.num_queries is not None:
            shape = replace(shape, num_queries=change.num_queries)
        if change.target_epsilon is not None:
            budget = replace(budget, epsilon=change.target_epsilon)
        return planned_or_none(start, shape, budget)
