"""The plans of a refused release after a change of some settings, each computed once and within a time limit.

The search for remedies (`remedies.py`) asks for them.
"""

from collections.abc import Callable
from dataclasses import replace

from pate.accounting import Budget, PureDpAccountant, RdpAccountant
from pate.accounting.loss_accountant import AccountantBesideRenyi
from pate.aggregators import Aggregator
from pate.pricing.budgets import is_solved_for_noise
from pate.pricing.changes import Change
from pate.pricing.priced_release import PricedRelease, plan_or_none


class TimeIsUp(Exception):
    """An exception that ends a search for changes of settings because the time limit of the search is over."""


class ChangedPlans:
    """The plans that a refused release would have after changes of its settings.

    Each plan is computed when it is first asked for, and kept. After the time limit no plan is started. A plan uses one
    of two accountants. The Renyi accountant is quick and narrows the search. The accountant of the budget may take
    seconds, and its plan is the one that the user would get.

    Attributes:
        shape: the shape of the refused release.
        budget: the budget of the refused release.
        budget_with_renyi_accountant: the same budget with the Renyi accountant.
        is_renyi: whether the budget's accountant is the Renyi accountant.
        is_within_renyi: whether the budget's accountant is known never to have a higher price than the Renyi
            accountant.
    """

    def __init__(
        self,
        unsolved_aggregator: Aggregator,
        priced_release: PricedRelease,
        budget: Budget,
        *,
        max_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        """Stores the arguments and starts the time limit.

        Args:
            unsolved_aggregator: the aggregator before its noise was solved for.
            priced_release: the refused release.
            budget: the budget that the release was planned for.
            max_seconds: the seconds from now on after which no plan is started.
            clock: returns the present time in seconds.
        """
        self.shape = priced_release.shape
        self.budget = budget
        self.budget_with_renyi_accountant = replace(budget, accountant=RdpAccountant)
        accountant = budget.accountant()
        self.is_renyi = isinstance(accountant, RdpAccountant)
        # The Renyi bound beside `PureDpAccountant` is for events that may cost more.
        self.is_within_renyi = self.is_renyi or (
            isinstance(accountant, AccountantBesideRenyi)
            and not isinstance(accountant, PureDpAccountant)
        )
        self._unsolved_aggregator = unsolved_aggregator
        self._clock = clock
        self._end = clock() + max_seconds
        # The aggregator of the last plan. The solver for the noise of the next plan starts from its noise.
        self._last_solved = priced_release.aggregator
        self._plans_by_renyi: dict[Change, PricedRelease | None] = {}
        self._plans_by_budget: dict[Change, PricedRelease | None] = {}

    def plan_by_renyi(self, tried_change: Change) -> PricedRelease | None:
        """Returns the plan after a change, by the Renyi accountant; None if nothing meets the budget.

        Raises `TimeIsUp` after the time limit, unless the plan is known already.
        """
        if tried_change in self._plans_by_renyi:
            return self._plans_by_renyi[tried_change]
        is_solved = is_solved_for_noise(self.budget)
        aggregator = self._last_solved if is_solved else self._unsolved_aggregator
        planned_release = self._plan(
            aggregator, budget=self.budget_with_renyi_accountant, tried_change=tried_change
        )
        if planned_release is not None and is_solved:
            self._last_solved = planned_release.aggregator
        self._plans_by_renyi[tried_change] = planned_release
        return planned_release

    def plan_by_budget(self, tried_change: Change) -> PricedRelease | None:
        """Returns the plan after a change, by the budget's own accountant; None if nothing meets the budget.

        Raises `TimeIsUp` after the time limit, unless the plan is known already.
        """
        if tried_change not in self._plans_by_budget:
            planned_release = self._plan(
                self._unsolved_aggregator, budget=self.budget, tried_change=tried_change
            )
            self._plans_by_budget[tried_change] = planned_release
        return self._plans_by_budget[tried_change]

    def is_priced_by_budget(self, tried_change: Change) -> bool:
        """Returns True if `plan_by_budget` has computed the plan after this change."""
        return tried_change in self._plans_by_budget

    def _plan(
        self, unsolved_aggregator: Aggregator, budget: Budget, tried_change: Change
    ) -> PricedRelease | None:
        """Returns the plan of a release after a change; None if no noise or no query meets the budget.

        Args:
            unsolved_aggregator: the aggregator, with noise to start from or to be taken as it is.
            budget: the budget of the plan.
            tried_change: the changed settings. Changed noise is not read.

        Raises:
            TimeIsUp: the time of the search is up.
        """
        if self._clock() >= self._end:
            raise TimeIsUp
        vote_shape = self.shape
        if tried_change.num_teachers is not None:
            vote_shape = replace(vote_shape, num_teachers=tried_change.num_teachers)
        if tried_change.num_queries is not None:
            vote_shape = replace(vote_shape, num_queries=tried_change.num_queries)
        if tried_change.target_epsilon is not None:
            budget = replace(budget, epsilon=tried_change.target_epsilon)
        return plan_or_none(unsolved_aggregator, vote_shape=vote_shape, budget=budget)
