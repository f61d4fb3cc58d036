"""The search for settings that make a refused release useful, within a time limit.

The search has two passes. The first finds, for each kind of change, the first candidate that works by the Renyi
accountant, which prices a plan in milliseconds. The second computes the plan of each result by the budget's accountant,
as the user would get it, and looks for a smaller change if that accountant is cheaper. When the time is up, the changes
that work so far are returned.
"""

import math
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace

from pate.accounting import Budget
from pate.aggregators import Aggregator
from pate.errors import Spelling
from pate.pricing.budgets import has_given_noise, is_solved_for_noise
from pate.pricing.changed_plans import ChangedPlans, TimeIsUp
from pate.pricing.changes import (
    MIN_QUERIES,
    Change,
    ChangeKind,
    FewerQueries,
    LargerEpsilon,
    MoreTeachers,
    less_noisy_aggregator,
)
from pate.pricing.expectations import is_plan_useful
from pate.pricing.priced_release import PricedRelease, changed_fields, plan_or_none
from pate.progress import Advance, Monitor, StageOpener, unwatched
from pate.validation import InvalidValue

# The kinds of change, in the order in which an error lists them; `both` is more teachers and fewer queries.
_KINDS = ("both", "teachers", "noise", "epsilon", "queries")
# The name of the search in the display of progress.
_STAGE = "searching for settings that work"


@dataclass(frozen=True, kw_only=True)
class RemedySearch:
    """The time limit of a search for settings that make a refused release useful, and callbacks that report progress.

    Attributes:
        max_seconds: the time after which no plan, the pricing of one candidate change, is started. A plan that has been
            started is finished within a few seconds.
        report_refusal: called before the search, with the error that refuses the release and with `max_seconds`; None
            for no report.
        open_stage: opens the stage that reports progress.
        clock: returns the present time in seconds.
    """

    max_seconds: float = 20.0
    report_refusal: Callable[[InvalidValue, float], object] | None = None
    open_stage: StageOpener = unwatched
    clock: Callable[[], float] = time.monotonic


def remedy_search_with_progress(monitor: Monitor, *, spelling: Spelling) -> RemedySearch:
    """Returns a search whose progress a monitor displays.

    Args:
        monitor: the display of progress.
        spelling: writes the names of settings as the user interface does.
    """

    def report_refusal(refusal: InvalidValue, max_seconds: float) -> None:
        """Shows a refusal in one line, with the time limit of the search for other settings that follows."""
        error_line = spelling.error_line(refusal)
        monitor.say(f"{error_line}; settings that work are searched for, {max_seconds:g} s at most")

    return RemedySearch(report_refusal=report_refusal, open_stage=monitor.stage)


@dataclass(frozen=True)
class Remedies:
    """The changes of settings that a search has found.

    Attributes:
        changes: for each kind of change, the smallest found that makes the refused release useful, if any was found.
        is_complete: False where the time was up before the search ended.
    """

    changes: list[Change]
    is_complete: bool = True


def remedies(
    unsolved_aggregator: Aggregator,
    useless_release: PricedRelease,
    budget: Budget,
    *,
    num_groups: int | None = None,
) -> list[Change]:
    """Returns the smallest changes that make a refused release useful, as `search_remedies` without a time limit."""
    result = search_remedies(
        unsolved_aggregator,
        useless_release=useless_release,
        budget=budget,
        num_groups=num_groups,
        search=RemedySearch(max_seconds=math.inf),
    )
    return result.changes


def search_remedies(
    unsolved_aggregator: Aggregator,
    useless_release: PricedRelease,
    budget: Budget,
    *,
    num_groups: int | None,
    search: RemedySearch,
) -> Remedies:
    """Searches for the smallest changes with which a release is useful, at most one of each kind, within a time limit.

    The kinds are more teachers, a larger epsilon, fewer queries, less noise, and more teachers with fewer queries.

    Args:
        unsolved_aggregator: the aggregator before its noise was solved for.
        useless_release: the refused release, with its price.
        budget: the budget that the release was planned for.
        num_groups: the number of private groups, of which each teacher has at least ten where more teachers are
            suggested. None if unknown.
        search: the time limit and the callbacks of the search.
    """
    planner = ChangedPlans(
        unsolved_aggregator,
        useless_release,
        budget,
        max_seconds=search.max_seconds,
        clock=search.clock,
    )
    is_complete = True
    with search.open_stage(_STAGE, None) as report_progress:  # the number of plans is unknown
        running = _RunningSearch(
            planner,
            useless_release=useless_release,
            num_groups=num_groups,
            report_progress=report_progress,
        )
        try:
            running.run()
        except TimeIsUp:
            is_complete = False
            if not planner.is_within_renyi:
                running.drop_unconfirmed()
    changes = [running.changes[name] for name in _KINDS if name in running.changes]
    return Remedies(changes=changes, is_complete=is_complete)


class _RunningSearch:
    """A search, in progress, for changes of settings that make a refused release useful.

    Attributes:
        changes: the smallest change found so far that makes the release useful, by the name of its kind.
    """

    def __init__(
        self,
        planner: ChangedPlans,
        *,
        useless_release: PricedRelease,
        num_groups: int | None,
        report_progress: Advance,
    ) -> None:
        """Stores the arguments; `run` does the search.

        Args:
            planner: plans the release after changes, within a time limit.
            useless_release: the refused release.
            num_groups: the number of private groups; None if unknown.
            report_progress: shows the number of plans that were tried, and a note.
        """
        self.changes: dict[str, Change] = {}
        self._planner = planner
        self._useless_release = useless_release
        self._num_groups = num_groups
        self._report_progress = report_progress
        self._kind_of_name: dict[str, ChangeKind] = {}
        # For each kind, the index, among its candidates, of the change in `changes`.
        self._index_of_name: dict[str, int] = {}
        self._num_plans = 0

    def run(self) -> None:
        """Searches by the Renyi accountant, which is quick, and then corrects the result by the budget's accountant.

        Raises `TimeIsUp` if the time limit is over. `changes` then holds what was found so far.
        """
        planner = self._planner
        renyi_release = (
            self._useless_release if planner.is_renyi else planner.plan_by_renyi(Change())
        )
        if renyi_release is None:
            return
        more_teachers_kind = MoreTeachers.from_release(
            renyi_release=renyi_release, num_groups=self._num_groups
        )
        self._search_by_renyi(kind_name="teachers", change_kind=more_teachers_kind)
        if has_given_noise(planner.budget):
            self._try_less_noise()
        else:
            self._search_epsilon_and_queries(renyi_release)
        for kind_name in list(self._index_of_name):
            self._confirm(kind_name)
        if planner.is_renyi:
            return
        for kind_name in self._index_of_name:
            if kind_name in self.changes:
                self._find_smaller(kind_name)

    def drop_unconfirmed(self) -> None:
        """Removes the changes that the budget's accountant has not priced.

        The caller calls this only if that accountant may have a higher price than the Renyi accountant.
        """
        self.changes = {
            name: change
            for name, change in self.changes.items()
            if self._planner.is_priced_by_budget(change)
        }

    def _search_epsilon_and_queries(self, renyi_release: PricedRelease) -> None:
        """Searches for a larger epsilon, if the plan solves for the noise of one epsilon, and for fewer queries.

        If neither more teachers nor fewer queries make the release useful, both are tried together: fewer queries with
        the largest candidate number of teachers.

        Args:
            renyi_release: the refused release, priced by the Renyi accountant.
        """
        budget = self._planner.budget_with_renyi_accountant
        vote_shape = renyi_release.shape
        less_noisy = less_noisy_aggregator(renyi_release)
        if less_noisy is not None and is_solved_for_noise(self._planner.budget):
            larger_epsilon_kind = LargerEpsilon.from_aggregator(
                less_noisy,
                vote_shape=vote_shape,
                budget_with_renyi_accountant=budget,
            )
            self._search_by_renyi(kind_name="epsilon", change_kind=larger_epsilon_kind)
        if less_noisy is not None:
            fewer_queries_kind = FewerQueries.from_aggregator(
                less_noisy,
                vote_shape=vote_shape,
                budget_with_renyi_accountant=budget,
            )
            self._search_by_renyi(kind_name="queries", change_kind=fewer_queries_kind)
        numbers_of_teachers = self._kind_of_name["teachers"].candidates
        if not numbers_of_teachers or "teachers" in self.changes or "queries" in self.changes:
            return
        most_teachers = int(numbers_of_teachers[-1])
        shape_of_most_teachers = replace(vote_shape, num_teachers=most_teachers)
        less_noisy_with_most_teachers = less_noisy_aggregator(
            replace(renyi_release, shape=shape_of_most_teachers)
        )
        if less_noisy_with_most_teachers is not None:
            teachers_and_queries_kind = FewerQueries.from_aggregator(
                less_noisy_with_most_teachers,
                vote_shape=shape_of_most_teachers,
                budget_with_renyi_accountant=budget,
                new_num_teachers=most_teachers,
            )
            self._search_by_renyi(kind_name="both", change_kind=teachers_and_queries_kind)

    def _try_less_noise(self) -> None:
        """Adds a change to less noise, if the budget pays for enough queries with it and the release is useful.

        Enough are 20 queries, or all queries of a release with fewer.
        """
        less_noisy = less_noisy_aggregator(self._useless_release)
        if less_noisy is None:
            return
        shape = self._planner.shape
        planned_release = plan_or_none(
            less_noisy,
            vote_shape=shape,
            budget=self._planner.budget_with_renyi_accountant,
        )
        if planned_release is None or not is_plan_useful(planned_release):
            return
        if planned_release.shape.num_queries >= min(MIN_QUERIES, shape.num_queries):
            changed_noise_fields = changed_fields(
                aggregator_before=self._useless_release.aggregator,
                aggregator_after=planned_release.aggregator,
            )
            self.changes["noise"] = Change(noise=tuple(changed_noise_fields.items()))

    def _search_by_renyi(self, kind_name: str, change_kind: ChangeKind) -> None:
        """Finds the first candidate of a kind that makes the release useful, by plans of the Renyi accountant.

        Args:
            kind_name: the name of the kind, a key of `changes`.
            change_kind: the kind of change with its candidates.
        """
        self._kind_of_name[kind_name] = change_kind
        # A quick estimate, without plans, of where the search by plans starts. If a candidate is useful, so are all
        # later ones.
        likely_index = bisect_left(
            change_kind.candidates, x=True, key=change_kind.is_useful_by_renyi
        )
        self._find_smallest(
            kind_name,
            make_plan=self._planner.plan_by_renyi,
            start_index=likely_index,
            first_index=0,
            last_index=len(change_kind.candidates) - 1,
        )

    def _confirm(self, kind_name: str) -> None:
        """Computes the plan of the change of a kind in `changes` by the budget's accountant.

        If that plan is not useful, the smallest larger change with a useful plan takes its place, or none.
        """
        planned_release = self._planner.plan_by_budget(self.changes[kind_name])
        if is_plan_useful(planned_release):
            return
        del self.changes[kind_name]
        next_index = self._index_of_name[kind_name] + 1
        self._find_smallest(
            kind_name,
            make_plan=self._planner.plan_by_budget,
            start_index=next_index,
            first_index=next_index,
            last_index=len(self._kind_of_name[kind_name].candidates) - 1,
        )

    def _find_smaller(self, kind_name: str) -> None:
        """Replaces the change of a kind by the smallest change whose plan by the budget's accountant is useful.

        A smaller change than that by the Renyi accountant may do, if the budget's accountant has lower prices.
        """
        planned_release = self._planner.plan_by_budget(self.changes[kind_name])
        if planned_release is not None:
            working_index = self._index_of_name[kind_name]
            refined_index = self._kind_of_name[kind_name].refined_index(
                working_index, planned_release
            )
            self._find_smallest(
                kind_name,
                make_plan=self._planner.plan_by_budget,
                start_index=refined_index,
                first_index=0,
                last_index=working_index,
            )

    def _find_smallest(
        self,
        kind_name: str,
        make_plan: Callable[[Change], PricedRelease | None],
        *,
        start_index: int,
        first_index: int,
        last_index: int,
    ) -> None:
        """Stores in `changes` the first candidate of a kind of change whose plan is useful; nothing if there is none.

        If a candidate is useful, all later ones must be useful, too. Useful candidates on the way are stored as well,
        so the best one so far is kept if the time is up.

        Args:
            kind_name: the name of the kind, a key of `changes`.
            make_plan: returns the plan after a change; None if nothing meets the budget.
            start_index: the index, among the candidates of the kind, where the search begins.
            first_index: the smallest index that may be tried.
            last_index: the largest index that may be tried.
        """
        change_kind = self._kind_of_name[kind_name]

        def is_working(index: int) -> bool:
            """Returns whether a candidate of the kind has a useful plan, and if so stores it in `self.changes`.

            `index` is that of the candidate, the setting or settings to try, in `change_kind.candidates`.
            """
            change = change_kind.change(change_kind.candidates[index])
            is_useful = is_plan_useful(make_plan(change))
            if is_useful:
                self.changes[kind_name] = change
                self._index_of_name[kind_name] = index
            self._num_plans += 1
            self._report_progress(self._num_plans, f"tried {change}")
            return is_useful

        # `is_working` stores each success, a smaller change each time. So the best change so far is kept if the time is
        # up.
        _try_down_to_smallest(
            is_working, start_index=start_index, first_index=first_index, last_index=last_index
        )


def _try_down_to_smallest(
    is_working: Callable[[int], bool], *, start_index: int, first_index: int, last_index: int
) -> None:
    """Finds the smallest index for which `is_working` returns True; the last call that returns True has this index.

    If `is_working` is True for an index, it has to be True for all larger indices. The search steps from `start_index`
    up or down, and doubles its steps until the smallest index is enclosed. Then it halves the interval.

    Args:
        is_working: returns True for an index that is searched for, and may be slow.
        start_index: the index to try first.
        first_index: the smallest index.
        last_index: the largest index.
    """
    if first_index > last_index:
        return
    nearest_index = min(max(start_index, first_index), last_index)
    step = 1
    if is_working(nearest_index):
        high_index = nearest_index
        low_index = first_index - 1
        while high_index > first_index:
            lower_index = max(high_index - step, first_index)
            if not is_working(lower_index):
                low_index = lower_index
                break
            high_index = lower_index
            step *= 2
    else:
        low_index = nearest_index
        high_index = min(low_index + step, last_index)
        while low_index < last_index and not is_working(high_index):
            low_index = high_index
            step *= 2
            high_index = min(low_index + step, last_index)
        if low_index == last_index:
            return
    while high_index - low_index > 1:
        middle_index = (low_index + high_index) // 2
        if is_working(middle_index):
            high_index = middle_index
        else:
            low_index = middle_index
