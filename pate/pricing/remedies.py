"""The search for settings that work in place of those of a refused release, in a limited time.

The search has two passes. The first finds, for each kind of change, the least candidate that works by Renyi's
accountant, which prices a plan in milliseconds. The second plans each find by the budget's accountant, as the user
would get it, and looks for an even lesser change where that accountant is cheaper. When the time is up, the changes
that work so far are returned.
"""

import math
import time
from bisect import bisect_left
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from pate.accounting import Budget
from pate.aggregators import Aggregator
from pate.errors import Spelling
from pate.pricing.budgets import has_given_noise, is_solved_for_noise
from pate.pricing.changed_plans import ChangedPlans, TimeIsUp
from pate.pricing.changes import (
    LEAST_QUERIES,
    Change,
    ChangeKind,
    FewerQueries,
    LargerEpsilon,
    MoreTeachers,
    with_less_noise,
)
from pate.pricing.expectations import is_plan_heard
from pate.pricing.priced_release import PricedRelease, changed_fields, planned_or_none
from pate.progress import Monitor
from pate.validation import InvalidValue

# The kinds of change, in the order in which an error lists them; `both` is more teachers and fewer queries.
_KINDS = ("both", "teachers", "noise", "epsilon", "queries")
_STAGE = "searching for settings that work"


@dataclass(frozen=True, kw_only=True)
class RemedySearch:
    """The time of a search for settings that work, and the functions that are told of the search.

    Attributes:
        seconds: the time after which no plan is begun; a plan that was begun is finished, within a few seconds.
        say: is called with the refusal and the seconds of the search, before it begins; None tells nobody.
        stage: opens a stage of long work for the search, as `Monitor.stage` does; None opens none.
        clock: returns the time in seconds.
    """

    seconds: float = 20.0
    say: Callable[[InvalidValue, float], object] | None = None
    stage: Callable[[str, int | None], AbstractContextManager[Callable[..., None]]] | None = None
    clock: Callable[[], float] = time.monotonic


def watched_search(monitor: Monitor, spelling: Spelling) -> RemedySearch:
    """Returns a search that a monitor is told of, in the words of a front end."""

    def say(refusal: InvalidValue, seconds: float) -> None:
        """Shows the line of a refusal, and for how long settings are searched."""
        line = spelling.line(refusal)
        monitor.say(f"{line}; settings that work are searched for, {seconds:g} s at most")

    return RemedySearch(say=say, stage=monitor.stage)


@dataclass(frozen=True)
class Remedies:
    """The changes that a search has found."""

    changes: list[Change]
    is_complete: bool = True  # whether the search ended before its time did


def remedies(
    start: Aggregator,
    priced: PricedRelease,
    budget: Budget,
    *,
    num_groups: int | None = None,
) -> list[Change]:
    """Returns the least changes with which a release is useful, without a limit of time; see `search_remedies`."""
    unlimited = RemedySearch(seconds=math.inf)
    return search_remedies(start, priced, budget, num_groups=num_groups, search=unlimited).changes


def search_remedies(
    start: Aggregator,
    priced: PricedRelease,
    budget: Budget,
    *,
    num_groups: int | None,
    search: RemedySearch,
) -> Remedies:
    """Searches the least changes with which a release is useful, at most one of each kind, in a limited time.

    The kinds are more teachers, a larger epsilon, fewer queries, less noise, and more teachers with fewer queries.

    Args:
        start: the aggregator before its noise was solved for.
        priced: the refused release.
        budget: the budget that the release was planned for.
        num_groups: the number of private groups, of which every teacher keeps ten; None where it is not known.
        search: the time of the search, and whoever is told of it.
    """
    plans = ChangedPlans(start, priced, budget, seconds=search.seconds, clock=search.clock)
    stage = search.stage or _silent_stage
    is_complete = True
    with stage(_STAGE, None) as advance:
        running = _RunningSearch(plans, priced, num_groups, advance)
        try:
            running.run()
        except TimeIsUp:
            is_complete = False
            if not plans.is_within_renyi:
                running.drop_unconfirmed()
    changes = [running.changes[name] for name in _KINDS if name in running.changes]
    return Remedies(changes, is_complete)


def _silent_stage(name: str, total: int | None) -> AbstractContextManager[Callable[..., None]]:
    """Opens a stage that nobody watches."""
    return nullcontext(_ignore_progress)


def _ignore_progress(done: int, note: str = "") -> None:
    """Ignores the progress of a stage."""


class _RunningSearch:
    """A search under way.

    Attributes:
        changes: the least change that works so far, by its kind.
    """

    def __init__(
        self,
        plans: ChangedPlans,
        priced: PricedRelease,
        num_groups: int | None,
        advance: Callable[..., None],
    ) -> None:
        self.changes: dict[str, Change] = {}
        self._plans = plans
        self._priced = priced
        self._num_groups = num_groups
        self._advance = advance
        self._kinds: dict[str, ChangeKind] = {}
        # the place among the kind's candidates of each change that works
        self._places: dict[str, int] = {}
        self._num_plans = 0

    def run(self) -> None:
        """Runs both passes; raises `TimeIsUp`, which leaves what works until then in `changes`."""
        plans = self._plans
        priced = self._priced
        if not plans.is_renyi:
            by_renyi = plans.by_renyi(Change())
            if by_renyi is None:
                return
            priced = by_renyi
        self._search_by_renyi("teachers", MoreTeachers.than(priced, self._num_groups))
        if has_given_noise(plans.budget):
            self._try_less_noise()
        else:
            self._search_epsilon_and_queries(priced)
        for name in list(self._places):
            self._confirm(name)
        if plans.is_renyi:
            return
        for name in self._places:
            if name in self.changes:
                self._lessen(name)

    def drop_unconfirmed(self) -> None:
        """Drops the changes that the budget's accountant has not priced, as it may have higher prices than Renyi's."""
        self.changes = {
            name: change
            for name, change in self.changes.items()
            if self._plans.is_confirmed(change)
        }

    def _search_epsilon_and_queries(self, priced: PricedRelease) -> None:
        """Searches a larger epsilon, fewer queries, and, where neither helps, fewer queries with the most teachers.

        `priced` is the refused release by Renyi's accountant.
        """
        budget = self._plans.renyi_budget
        quiet = with_less_noise(priced)
        if quiet is not None and is_solved_for_noise(self._plans.budget):
            self._search_by_renyi("epsilon", LargerEpsilon.than(quiet, budget))
        if quiet is not None:
            self._search_by_renyi("queries", FewerQueries.than(quiet, budget))
        numbers_of_teachers = self._kinds["teachers"].candidates
        if not numbers_of_teachers or "teachers" in self.changes or "queries" in self.changes:
            return
        most_teachers = int(numbers_of_teachers[-1])
        shape = replace(priced.shape, num_teachers=most_teachers)
        quiet = with_less_noise(replace(priced, shape=shape))
        if quiet is not None:
            self._search_by_renyi("both", FewerQueries.than(quiet, budget, most_teachers))

    def _try_less_noise(self) -> None:
        """Adds less noise, where noise is given, if the plan still pays for some queries with that noise."""
        quiet = with_less_noise(self._priced)
        if quiet is None:
            return
        shape = self._plans.shape
        planned = planned_or_none(quiet.aggregator, shape, self._plans.renyi_budget)
        if planned is None or not is_plan_heard(planned):
            return
        if planned.shape.num_queries >= min(LEAST_QUERIES, shape.num_queries):
            noise = changed_fields(self._priced.aggregator, planned.aggregator)
            self.changes["noise"] = Change(noise=tuple(noise.items()))

    def _search_by_renyi(self, name: str, kind: ChangeKind) -> None:
        """Finds the least candidate of a kind that works by Renyi's accountant."""
        self._kinds[name] = kind
        likely = bisect_left(kind.candidates, True, key=kind.is_likely)
        last = len(kind.candidates) - 1
        self._find_least(name, self._plans.by_renyi, start=likely, first=0, last=last)

    def _confirm(self, name: str) -> None:
        """Plans a change by the budget's accountant; takes the next larger change that works where this one fails."""
        following = self._places[name] + 1
        if not is_plan_heard(self._plans.by_budget(self.changes[name])):
            del self.changes[name]
            last = len(self._kinds[name].candidates) - 1
            self._find_least(
                name, self._plans.by_budget, start=following, first=following, last=last
            )

    def _lessen(self, name: str) -> None:
        """Takes a lesser change where the budget's accountant, cheaper than Renyi's, allows one."""
        planned = self._plans.by_budget(self.changes[name])
        if planned is not None:
            place = self._places[name]
            likely = self._kinds[name].likely_place(place, planned)
            self._find_least(name, self._plans.by_budget, start=likely, first=0, last=place)

    def _find_least(
        self,
        name: str,
        plan: Callable[[Change], PricedRelease | None],
        *,
        start: int,
        first: int,
        last: int,
    ) -> None:
        """Finds the least candidate of a kind that works, among the places `first` to `last`, beginning at `start`."""
        kind = self._kinds[name]

        def works(place: int) -> bool:
            """Plans the candidate at a place, and returns whether its teachers are heard."""
            change = kind.change(kind.candidates[place])
            is_heard = is_plan_heard(plan(change))
            if is_heard:
                self.changes[name] = change
                self._places[name] = place
            self._num_plans += 1
            self._advance(self._num_plans, f"tried {change}")
            return is_heard

        _least_place(works, start=start, first=first, last=last)


def _least_place(works: Callable[[int], bool], *, start: int, first: int, last: int) -> int | None:
    """Returns the first place that works among `first` to `last`; None where none does.

    If one place works, all later ones have to work. Steps from `start`, up or down, are doubled until the least place
    is enclosed. Then the enclosing interval is halved.
    """
    if first > last:
        return None
    place = min(max(start, first), last)
    step = 1
    if works(place):
        high = place
        low = first - 1
        while high > first:
            lower = max(high - step, first)
            if not works(lower):
                low = lower
                break
            high = lower
            step *= 2
    else:
        low = place
        high = min(low + step, last)
        while low < last and not works(high):
            low = high
            step *= 2
            high = min(low + step, last)
        if low == last:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        if works(middle):
            high = middle
        else:
            low = middle
    return high
