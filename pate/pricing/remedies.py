"""The search for settings that work: more teachers, a larger epsilon, fewer queries, or less noise."""

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from pate.accounting import Budget, RdpAccountant
from pate.accounting.loss_accountant import AccountantBesideRenyi
from pate.aggregators import Aggregator
from pate.errors import Spelling
from pate.pricing.budgets import has_given_noise, is_solved_for_noise
from pate.pricing.expectations import is_plan_heard
from pate.pricing.priced_release import PricedRelease, changed_fields, planned_or_none, with_fields
from pate.progress import Monitor
from pate.validation import InvalidValue
from pate.votes.shape import VoteShape

MOST_TEACHERS = 5000  # prices and tables of more take long
GROUPS_EACH = 10
_LARGEST_EPSILON = 100.0  # beyond which a bound promises nothing that is worth its noise
_LEAST_QUERIES = 20
# of changes, in the order in which they are named
_KINDS = ("both", "teachers", "noise", "epsilon", "queries")
_STAGE = "searching for settings that work"
# two digits each
_NUMBERS = [float(f"{digits}e{power}") for power in range(-4, 4) for digits in range(10, 100)]
_COUNTS = [int(number) for number in _NUMBERS if number.is_integer()]
_FACTORS = [2 ** (-step / 100) for step in range(1, 4800)]  # of noise


@dataclass(frozen=True, kw_only=True)
class RemedySearch:
    """A search for settings that work in place of those that were refused: how long it may take, and who is told.

    Attributes:
        seconds: when no further plan is begun; one that was begun is finished, which takes a few seconds at most.
        say: is told the refusal, and for how many seconds works are searched, before that begins; None tells nobody.
        stage: announces the search, as a monitor's stage of long work; None announces it to nobody.
        clock: gives the time in seconds.
    """

    seconds: float = 20.0
    say: Callable[[InvalidValue, float], object] | None = None
    stage: Callable[[str, int | None], AbstractContextManager[Callable[..., None]]] | None = None
    clock: Callable[[], float] = time.monotonic


def watched_search(monitor: Monitor, spelling: Spelling) -> RemedySearch:
    """Returns a search for settings that work, of which a monitor is told in the words of a front end."""

    def say(refusal: InvalidValue, seconds: float) -> None:
        line = spelling.line(refusal)
        monitor.say(f"{line}; settings that work are searched for, {seconds:g} s at most")

    return RemedySearch(say=say, stage=monitor.stage)


@dataclass(frozen=True)
class Remedies:
    """The changes of settings that a search came to."""

    changes: list[dict[str, float]]  # each by the names of the settings, with their values
    is_complete: bool = True  # whether the search ended before its time did


@dataclass(frozen=True)
class _Kind:
    """A kind of change: its candidates, and what may be said of one without a plan."""

    candidates: Sequence[float]  # from the least change to the largest
    settings: Callable[[float], dict[str, float]]  # of a candidate, by their names
    is_likely: Callable[[float], bool]  # whether a candidate should work at Renyi's prices
    # the place of the least candidate that should work where the budget's accountant is cheaper than Renyi's: by the
    # place of one that works, and its plan
    lessened: Callable[[int, PricedRelease], int]


class _TimeIsUp(Exception):
    """Ends a search."""


class _Plans:
    """The plans of a search: each is made once, and none is begun after its time."""

    def __init__(
        self, start: Aggregator, priced: PricedRelease, budget: Budget, search: RemedySearch
    ) -> None:
        self.start = start
        self.shape = priced.shape
        self.budget = budget
        self.quick = replace(budget, accountant=RdpAccountant)
        self.is_quick = isinstance(budget.accountant(), RdpAccountant)
        self.is_within_renyi = self.is_quick or isinstance(
            budget.accountant(), AccountantBesideRenyi
        )
        self._clock = search.clock
        self._ends = search.clock() + search.seconds
        # with the noise of the last plan: that of the next one is soon found from there
        self._near = priced.aggregator
        self._planned: dict[Any, PricedRelease | None] = {}

    def by_renyi(self, **change: float) -> PricedRelease | None:
        """Returns the plan with some settings changed, priced by the accountant that is cheap."""
        is_solved = is_solved_for_noise(self.budget)
        planned = self._plan(self._near if is_solved else self.start, self.quick, change)
        if planned is not None and is_solved:
            self._near = planned.aggregator
        return planned

    def as_followed(self, **change: float) -> PricedRelease | None:
        """Returns the plan that whoever changes these settings gets: from the same start, by their accountant."""
        return self._plan(self.start, self.budget, change)

    def has_followed(self, change: Mapping[str, float]) -> bool:
        """Returns whether `as_followed` has made the plan of this change."""
        return (True, tuple(change.items())) in self._planned

    def _plan(
        self, start: Aggregator, budget: Budget, change: Mapping[str, float]
    ) -> PricedRelease | None:
        key = (budget is self.budget, tuple(change.items()))
        if key not in self._planned:
            if self._clock() >= self._ends:
                raise _TimeIsUp
            counts = {
                name: int(value) for name, value in change.items() if name in vars(self.shape)
            }
            if "target_epsilon" in change:
                budget = replace(budget, epsilon=change["target_epsilon"])
            self._planned[key] = planned_or_none(start, replace(self.shape, **counts), budget)
        return self._planned[key]


def remedies(
    start: Aggregator,
    priced: PricedRelease,
    budget: Budget,
    *,
    num_groups: int | None = None,
) -> list[dict[str, float]]:
    """Finds the least changes of settings that work in place of a release that tells nothing, however long it takes.

    See `search_remedies`.
    """
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
    """Finds the least changes of settings that work in place of a release that tells nothing, in a limited time.

    There may be one of each kind: more teachers, a larger epsilon, fewer queries, less noise, or more teachers with
    fewer queries. Renyi's accountant, which is cheap, finds the least that works. Then it is planned as whoever follows
    it gets it, by the budget's accountant, and lessened where that is cheaper. Where time is up, what works until then
    is returned. Every teacher is left ten private groups, if they are counted.
    """
    plans = _Plans(start, priced, budget, search)
    stage = search.stage or _silent_stage
    is_complete = True
    with stage(_STAGE, None) as advance:
        running = _Search(plans, priced, num_groups, advance)
        try:
            running.run()
        except _TimeIsUp:
            is_complete = False
            if not plans.is_within_renyi:
                running.drop_unconfirmed()
    changes = [running.changes[name] for name in _KINDS if name in running.changes]
    return Remedies(changes, is_complete)


def _silent_stage(text: str, total: int | None) -> AbstractContextManager[Callable[..., None]]:
    return nullcontext(lambda done, note="": None)


class _Search:
    """A search under way: the change of each kind, as soon as one works, and again where a lesser one does.

    Attributes:
        changes: by the name of the kind, the settings that work so far.
    """

    def __init__(
        self,
        plans: _Plans,
        priced: PricedRelease,
        num_groups: int | None,
        advance: Callable[..., None],
    ) -> None:
        self.changes: dict[str, dict[str, float]] = {}
        self._plans = plans
        self._priced = priced
        self._num_groups = num_groups
        self._advance = advance
        self._kinds: dict[str, _Kind] = {}
        self._places: dict[str, int] = {}
        self._num_plans = 0

    def run(self) -> None:
        """Searches by Renyi's accountant, confirms what works by the budget's, and lessens it where that is cheaper."""
        plans = self._plans
        by_renyi = self._priced if plans.is_quick else plans.by_renyi()
        if by_renyi is None:
            return
        self._search_by_renyi("teachers", _more_teachers(by_renyi, self._num_groups))
        if has_given_noise(plans.budget):
            self._lessen_noise()
        else:
            self._search_beside_teachers(by_renyi)
        for name in list(self._places):
            self._confirm(name)
        if not plans.is_quick:
            for name in self._places:
                if name in self.changes:
                    self._lessen(name)

    def drop_unconfirmed(self) -> None:
        """Drops what was not planned by the budget's accountant: it may cost more by that one."""
        self.changes = {
            name: change
            for name, change in self.changes.items()
            if self._plans.has_followed(change)
        }

    def _search_beside_teachers(self, by_renyi: PricedRelease) -> None:
        """Searches a larger epsilon, fewer queries, and fewer queries with as many teachers as there may be."""
        plans = self._plans
        quiet = _less_noise(by_renyi)
        if quiet is not None and is_solved_for_noise(plans.budget):
            self._search_by_renyi("epsilon", _larger_epsilon(quiet, plans.quick))
        if quiet is not None:
            self._search_by_renyi("queries", _fewer_queries(quiet, plans.quick))
        crowd = self._kinds["teachers"].candidates
        if not crowd or "teachers" in self.changes or "queries" in self.changes:
            return
        most = int(crowd[-1])
        crowded = replace(by_renyi, shape=replace(by_renyi.shape, num_teachers=most))
        quiet = _less_noise(crowded)
        if quiet is not None:
            self._search_by_renyi("both", _fewer_queries(quiet, plans.quick, num_teachers=most))

    def _lessen_noise(self) -> None:
        """Adds less noise, where noise is given, if a `max_epsilon` still pays for some queries with it."""
        quiet = _less_noise(self._priced)
        if quiet is None:
            return
        shape = self._plans.shape
        planned = planned_or_none(quiet.aggregator, shape, self._plans.quick)
        enough = min(_LEAST_QUERIES, shape.num_queries)
        if planned is not None and planned.shape.num_queries >= enough and is_plan_heard(planned):
            self.changes["noise"] = changed_fields(self._priced.aggregator, planned.aggregator)

    def _search_by_renyi(self, name: str, kind: _Kind) -> None:
        self._kinds[name] = kind
        likely = bisect_left(kind.candidates, True, key=kind.is_likely)
        self._find_least(name, self._plans.by_renyi, likely, 0, len(kind.candidates) - 1)

    def _confirm(self, name: str) -> None:
        following = self._places[name] + 1
        if not is_plan_heard(self._plans.as_followed(**self.changes[name])):
            del self.changes[name]
            last = len(self._kinds[name].candidates) - 1
            self._find_least(name, self._plans.as_followed, following, following, last)

    def _lessen(self, name: str) -> None:
        planned = self._plans.as_followed(**self.changes[name])
        if planned is not None:
            place = self._places[name]
            likely = self._kinds[name].lessened(place, planned)
            self._find_least(name, self._plans.as_followed, likely, 0, place)

    def _find_least(
        self,
        name: str,
        plan: Callable[..., PricedRelease | None],
        likely: int,
        first: int,
        last: int,
    ) -> None:
        """Finds the least of some candidates of a kind."""
        kind = self._kinds[name]

        def works(place: int) -> bool:
            change = kind.settings(kind.candidates[place])
            is_heard = is_plan_heard(plan(**change))
            if is_heard:
                self.changes[name] = change
                self._places[name] = place
            self._num_plans += 1
            shown = " ".join(f"{setting}={value:g}" for setting, value in change.items())
            self._advance(self._num_plans, f"tried {shown}")
            return is_heard

        _least_place(works, likely, first, last)


def _least_place(works: Callable[[int], bool], likely: int, first: int, last: int) -> int | None:
    """Finds the first place from `first` to `last` that works, where all behind one that works do too.

    The steps from the likely place, up or down, double; then the last one is halved. None where no place works.
    """
    if first > last:
        return None
    place = min(max(likely, first), last)
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


def _more_teachers(priced: PricedRelease, num_groups: int | None) -> _Kind:
    """Returns more teachers, ten private groups or more for each, under noise that hardly depends on their number."""
    shape = priced.shape
    most = MOST_TEACHERS if num_groups is None else min(num_groups // GROUPS_EACH, MOST_TEACHERS)
    counts = [count for count in sorted({*_COUNTS, most}) if shape.num_teachers < count <= most]

    def is_heard(count: float, release: PricedRelease = priced) -> bool:
        return is_plan_heard(replace(release, shape=replace(shape, num_teachers=int(count))))

    def lessened(place: int, planned: PricedRelease) -> int:
        return bisect_left(counts, True, hi=place, key=lambda count: is_heard(count, planned))

    return _Kind(counts, lambda count: {"num_teachers": int(count)}, is_heard, lessened)


def _larger_epsilon(quiet: PricedRelease, quick: Budget) -> _Kind:
    """Returns larger epsilons: those of noise through which unanimous teachers are heard."""
    lowest = max(quick.epsilon or 0.0, _price(quiet.aggregator, quiet.shape, quick))
    larger = [
        epsilon for epsilon in _NUMBERS if (quick.epsilon or 0.0) < epsilon <= _LARGEST_EPSILON
    ]

    def lessened(place: int, planned: PricedRelease) -> int:
        saved = _price(planned.aggregator, planned.shape, quick) / planned.epsilon
        return bisect_left(larger, larger[place] / saved, hi=place)

    return _Kind(
        larger,
        lambda epsilon: {"target_epsilon": epsilon},
        lambda epsilon: epsilon >= lowest,
        lessened,
    )


def _fewer_queries(quiet: PricedRelease, quick: Budget, **crowd: float) -> _Kind:
    """Returns fewer queries: as many as the target pays for with noise through which unanimous teachers are heard."""
    target = quick.epsilon or 0.0
    fewer = [
        count for count in reversed(_COUNTS) if _LEAST_QUERIES <= count < quiet.shape.num_queries
    ]

    def is_paid(count: float) -> bool:
        return (
            _price(quiet.aggregator, replace(quiet.shape, num_queries=int(count)), quick) <= target
        )

    def lessened(place: int, planned: PricedRelease) -> int:
        saved = _price(planned.aggregator, planned.shape, quick) / planned.epsilon
        # an epsilon grows about as the root of the number of queries
        most = fewer[place] * saved**2
        return bisect_left(fewer, True, hi=place, key=lambda count: count <= most)

    return _Kind(fewer, lambda count: {**crowd, "num_queries": int(count)}, is_paid, lessened)


def _price(aggregator: Aggregator, shape: VoteShape, budget: Budget) -> float:
    """Returns what a release would cost; infinity where it cannot be."""
    try:
        return budget.epsilon_of(aggregator.event(shape))
    except InvalidValue:
        return math.inf


def _less_noise(priced: PricedRelease) -> PricedRelease | None:
    """Returns the same with the most noise through which unanimous teachers are heard; None where none is.

    The noise has four digits.
    """

    def scaled(factor: float) -> PricedRelease:
        less = priced.aggregator.scaled(factor)
        changed = changed_fields(priced.aggregator, less)
        rounded = {name: float(f"{value:.4g}") for name, value in changed.items()}
        return replace(priced, aggregator=with_fields(less, rounded))

    try:
        place = bisect_left(_FACTORS, True, key=lambda factor: is_plan_heard(scaled(factor)))
        return scaled(_FACTORS[place]) if place < len(_FACTORS) else None
    except InvalidValue:  # noise that cannot be scaled
        return None
