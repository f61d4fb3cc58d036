"""What would make a release tell something: more teachers, a larger epsilon, fewer queries, or less noise."""

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from pate.accounting import Adjacency, Budget, NoOpEvent, RdpAccountant
from pate.accounting.events import leaves
from pate.accounting.rdp import AccountantBesideRenyi
from pate.accounting.rounding import format_epsilon
from pate.aggregators import Aggregator, ExpectedRelease, expected_release
from pate.aggregators.expectation import LEAST_ANSWERED
from pate.errors import Doubt, Remedy, Spelling
from pate.pricing.budgets import has_given_noise, is_solved_for_noise
from pate.pricing.person_budgets import PersonBudgets
from pate.pricing.priced_release import (
    PricedRelease,
    changed_fields,
    plan_release,
)
from pate.progress import Monitor
from pate.validation import InvalidValue, require, require_count
from pate.votes.shape import VoteShape
from pate.votes.source import CenterableVotes

ALLOW_USELESS = Remedy("allow_useless", True)
# of the teachers, that name each label of a query
AGREEMENTS = {"unanimous": 1.0, "90%": 0.9, "typical": 0.7}
WEAK_EPSILON = 10  # above it a price is doubted: e^10 is 22,026, what an outcome may be likelier by
GOAL = 0.9  # the success of unanimous teachers from which on a release is not doubted
MOST_TEACHERS = 5000  # prices and tables of more take long
_GROUPS_EACH = 10
_LARGEST_EPSILON = 100.0  # beyond which a bound promises nothing that is worth its noise
_LEAST_QUERIES = 20
# of changes, in the order in which they are named
_KINDS = ("both", "teachers", "noise", "epsilon", "queries")
_STAGE = "searching for settings that work"
_LARGEST_DELTA = 0.01
_SETTINGS_OF_PLANS = ("num_teachers", "target_epsilon", "num_queries")
_TYPICAL_SUCCESS = 0.6
_NOTHING = (
    "nothing was found that works, neither teachers of ten private groups each nor fewer queries nor an epsilon up to "
    "100: more private records would, or another aggregator"
)
_HALF_AT = 60.0  # records of a teacher with which half of the teachers name a label
_TEACHERS = (20, 30, 50, 70, 100, 150, 200, 300, 400, 600, 800, 1000, 1500, 2000, 3000, 5000)
# two digits each
_NUMBERS = [float(f"{digits}e{power}") for power in range(-4, 4) for digits in range(10, 100)]
_COUNTS = [int(number) for number in _NUMBERS if number.is_integer()]
_FACTORS = [2 ** (-each / 100) for each in range(1, 4800)]  # of noise
_QUERIES = (50, 100, 200, 400, 600, 1000, 2000)


@dataclass(frozen=True)
class Expectation:
    """The expected answers to three kinds of queries; a function of public numbers alone."""

    unanimous: ExpectedRelease  # where all teachers agree: the best that these parameters can give
    clear: ExpectedRelease  # where 90% of them name each label that is present
    typical: ExpectedRelease  # where 70% do

    @property
    def is_useless(self) -> bool:
        """Whether hardly a query is worth its price: unanimity is hidden, or only unanimity is answered."""
        return self.unanimous.is_useless or self.clear.answered < LEAST_ANSWERED


def expectation(aggregator: Aggregator, shape: VoteShape) -> Expectation:
    """What a release would tell of queries of three kinds (`AGREEMENTS`)."""
    return Expectation(
        *(expected_release(aggregator, shape, agreement=share) for share in AGREEMENTS.values())
    )


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
        """The plan with some settings changed, priced by the accountant that is cheap."""
        is_solved = is_solved_for_noise(self.budget)
        planned = self._plan(self._near if is_solved else self.start, self.quick, change)
        if planned is not None and is_solved:
            self._near = planned.aggregator
        return planned

    def as_followed(self, **change: float) -> PricedRelease | None:
        """The plan that whoever changes these settings gets: from the same start, by the budget's accountant."""
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

    See `found_remedies`.
    """
    unlimited = RemedySearch(seconds=math.inf)
    return found_remedies(start, priced, budget, num_groups=num_groups, search=unlimited).changes


def found_remedies(
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
    changes: dict[str, dict[str, float]] = {}  # by the name of the kind
    announced = (
        nullcontext(lambda done, note="": None)
        if search.stage is None
        else search.stage(_STAGE, None)
    )
    is_complete = True
    with announced as advance:
        try:
            _search(plans, priced, num_groups, changes, advance)
        except _TimeIsUp:
            is_complete = False
            # what was not planned by this accountant may cost more by it
            if not plans.is_within_renyi:
                changes = {
                    name: change for name, change in changes.items() if plans.has_followed(change)
                }
    return Remedies([changes[name] for name in _KINDS if name in changes], is_complete)


def _search(
    plans: _Plans,
    priced: PricedRelease,
    num_groups: int | None,
    changes: dict[str, dict[str, float]],
    advance: Callable[..., None],
) -> None:
    """Writes the change of each kind into `changes` as soon as one works, and again where a lesser one does."""
    kinds: dict[str, _Kind] = {}
    places: dict[str, int] = {}
    number_of_plans = 0

    def least(
        name: str, plan: Callable[..., PricedRelease | None], likely: int, first: int, last: int
    ) -> None:
        """Finds the least of some candidates of a kind."""

        def works(place: int) -> bool:
            nonlocal number_of_plans
            change = kinds[name].settings(kinds[name].candidates[place])
            is_heard = _is_heard(plan(**change))
            if is_heard:
                changes[name] = change
                places[name] = place
            number_of_plans += 1
            shown = " ".join(f"{setting}={value:g}" for setting, value in change.items())
            advance(number_of_plans, f"tried {shown}")
            return is_heard

        _least_place(works, likely, first, last)

    def search_by_renyi(name: str) -> None:
        kind = kinds[name]
        likely = bisect_left(kind.candidates, True, key=kind.is_likely)
        least(name, plans.by_renyi, likely, 0, len(kind.candidates) - 1)

    def confirm(name: str) -> None:
        place = places[name]
        if not _is_heard(plans.as_followed(**changes[name])):
            del changes[name]
            least(name, plans.as_followed, place + 1, place + 1, len(kinds[name].candidates) - 1)

    def lessen(name: str) -> None:
        planned = plans.as_followed(**changes[name])
        if planned is not None:
            place = places[name]
            least(name, plans.as_followed, kinds[name].lessened(place, planned), 0, place)

    by_renyi = priced if plans.is_quick else plans.by_renyi()
    if by_renyi is None:
        return
    kinds["teachers"] = _more_teachers(by_renyi, num_groups)
    search_by_renyi("teachers")
    if has_given_noise(plans.budget):
        _lessen_noise(plans, priced, changes)
    else:
        quiet = _less_noise(by_renyi)
        if quiet is not None and is_solved_for_noise(plans.budget):
            kinds["epsilon"] = _larger_epsilon(quiet, plans.quick)
            search_by_renyi("epsilon")
        if quiet is not None:
            kinds["queries"] = _fewer_queries(quiet, plans.quick)
            search_by_renyi("queries")
        crowd = kinds["teachers"].candidates
        if crowd and "teachers" not in changes and "queries" not in changes:
            most = crowd[-1]
            quiet = _less_noise(
                replace(by_renyi, shape=replace(by_renyi.shape, num_teachers=int(most)))
            )
            if quiet is not None:
                kinds["both"] = _fewer_queries(quiet, plans.quick, num_teachers=most)
                search_by_renyi("both")
    for name in list(places):
        confirm(name)
    if not plans.is_quick:
        for name in places:
            if name in changes:
                lessen(name)


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
    """More teachers, ten private groups or more for each, under noise that hardly depends on their number."""
    shape = priced.shape
    most = MOST_TEACHERS if num_groups is None else min(num_groups // _GROUPS_EACH, MOST_TEACHERS)
    counts = [count for count in sorted({*_COUNTS, most}) if shape.num_teachers < count <= most]

    def is_heard(count: float, release: PricedRelease = priced) -> bool:
        return _is_heard(replace(release, shape=replace(shape, num_teachers=int(count))))

    def lessened(place: int, planned: PricedRelease) -> int:
        return bisect_left(counts, True, hi=place, key=lambda count: is_heard(count, planned))

    return _Kind(counts, lambda count: {"num_teachers": int(count)}, is_heard, lessened)


def _larger_epsilon(quiet: PricedRelease, quick: Budget) -> _Kind:
    """A larger epsilon: that of noise through which unanimous teachers are heard."""
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
    """Fewer queries: as many as the target pays for with noise through which unanimous teachers are heard."""
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


def _lessen_noise(
    plans: _Plans, priced: PricedRelease, changes: dict[str, dict[str, float]]
) -> None:
    """Adds less noise, where noise is given, if a `max_epsilon` still pays for some queries with it."""
    quiet = _less_noise(priced)
    if quiet is None:
        return
    planned = planned_or_none(quiet.aggregator, plans.shape, plans.quick)
    enough = min(_LEAST_QUERIES, plans.shape.num_queries)
    if planned is not None and planned.shape.num_queries >= enough and _is_heard(planned):
        changes["noise"] = changed_fields(priced.aggregator, planned.aggregator)


def _price(aggregator: Aggregator, shape: VoteShape, budget: Budget) -> float:
    """What a release would cost; infinite where it cannot be."""
    try:
        return budget.epsilon_of(aggregator.event(shape))
    except InvalidValue:
        return math.inf


def _less_noise(priced: PricedRelease) -> PricedRelease | None:
    """The same with the most noise through which unanimous teachers are heard, to four digits; None where none is."""

    def scaled(factor: float) -> PricedRelease:
        less = priced.aggregator.scaled(factor)
        changed = changed_fields(priced.aggregator, less)
        rounded: dict[str, Any] = {name: float(f"{value:.4g}") for name, value in changed.items()}
        return replace(priced, aggregator=replace(less, **rounded))

    try:
        place = bisect_left(_FACTORS, True, key=lambda factor: _is_heard(scaled(factor)))
        return scaled(_FACTORS[place]) if place < len(_FACTORS) else None
    except InvalidValue:  # noise that cannot be scaled
        return None


def group_votes_tell_more(
    priced: PricedRelease, budget: Budget, centered: Aggregator, *, num_groups: int
) -> bool:
    """Whether centered votes of all private groups would tell far more for that price; by public numbers alone.

    A student of answers learns from no more samples than are answered rightly. One of centered votes learns from all
    private groups, one teacher each, as far as their noise lets it. Far more is ten times as many, if it is heard.
    """
    shape = priced.shape
    aggregator = priced.aggregator
    fits = aggregator.reads is not CenterableVotes and aggregator.adjacency is Adjacency.REPLACE_ONE
    if not fits or not 0 < priced.epsilon < math.inf or isinstance(budget, PersonBudgets):
        return False
    try:
        told = (
            shape.num_queries
            * expected_release(aggregator, shape, agreement=AGREEMENTS["90%"]).success
        )
        same = Budget(delta=budget.delta, epsilon=priced.epsilon, accountant=budget.accountant)
        groups = replace(shape, num_teachers=num_groups)
        other = plan_release(centered, groups, same)
        heard = (
            expected_release(other.aggregator, groups, agreement=AGREEMENTS["typical"]).success
            >= GOAL
        )
    except InvalidValue:
        return False
    return heard and told < num_groups / 10


def planned_or_none(start: Aggregator, shape: VoteShape, budget: Budget) -> PricedRelease | None:
    """What `plan_release` plans; None where it raises."""
    try:
        return plan_release(start, shape, budget)
    except InvalidValue:
        return None


def _is_heard(planned: PricedRelease | None) -> bool:
    """Whether nothing of a plan is doubted where all teachers agree, and enough is answered where 90% of them do."""
    if planned is None:
        return False
    # asked first: most of a search fails there
    unanimous = expected_release(planned.aggregator, planned.shape)
    heard = not unanimous.is_useless and unanimous.success >= GOAL
    return (
        heard
        and expected_release(planned.aggregator, planned.shape, agreement=0.9).answered
        >= LEAST_ANSWERED
    )


def require_useful(
    start: Aggregator,
    priced: PricedRelease,
    budget: Budget,
    *,
    num_groups: int | None = None,
    allow_useless: bool = False,
    search: RemedySearch | None = None,
) -> tuple[Doubt, ...]:
    """Returns warnings about a release planned from `start`, or raises if its noise hides what teachers agree on.

    All of it follows from public numbers, of which `num_groups` is that of private groups, None where it is not known.
    A release without noise is not doubted, whatever it costs, nor is an aggregator of one's own that takes no made-up
    votes. Raises where of queries on which all teachers agree over a quarter of the bits is wrong, or of those on which
    90% do fewer than a third are answered; at a delta of 0.01 or more. With `allow_useless` that is only said.
    What it raises names settings that work, for which there is a `search` of some seconds.
    """
    doubts = list(_of_delta(budget.delta, num_groups, allow_useless))
    if WEAK_EPSILON < priced.epsilon < math.inf:
        text = f"above {WEAK_EPSILON} it promises one person little"
        doubts.append(Doubt("epsilon", format_epsilon(priced.epsilon), text))
    # No queries, or answers that no vote changes. Not by its epsilon: at some deltas noise that hides all costs 0.
    if all(times == 0 or isinstance(leaf, NoOpEvent) for leaf, times in leaves(priced.event)):
        return tuple(doubts)
    try:
        expected = expectation(priced.aggregator, priced.shape)
    except InvalidValue:
        return tuple(doubts)
    teachers = priced.shape.num_teachers
    reason = _reason(expected, priced)
    if not expected.is_useless:
        if expected.unanimous.success < GOAL or expected.typical.success < _TYPICAL_SUCCESS:
            shares = ", ".join(f"{each.success:.0%}" for each in vars(expected).values())
            heard = f"teachers are heard in {shares} of the cases where all, 90% or 70% of them agree (chance has 50%)"
            text = f"{heard}; what helps: {priced.aggregator.remedies['noise']}"
            doubts.append(Doubt("num_teachers", teachers, text))
        return tuple(doubts)
    if allow_useless:
        return (*doubts, Doubt("num_teachers", teachers, reason, waiver=ALLOW_USELESS))
    search = search or RemedySearch()
    rule = f"a release that tells something: {reason}"
    if search.say is not None:
        search.say(InvalidValue("num_teachers", teachers, rule=rule), search.seconds)
    found = found_remedies(start, priced, budget, num_groups=num_groups, search=search)
    if not found.changes and found.is_complete:
        rule += f"; {_NOTHING}"
    elif not found.changes:
        rule += (
            f"; a search of {search.seconds:g} s found nothing that works; "
            "pate-account suggest=true searches longer"
        )
    raise InvalidValue(
        "num_teachers",
        teachers,
        rule=rule,
        remedies=tuple(map(_remedy, found.changes)),
        waiver=ALLOW_USELESS,
    )


def _remedy(changes: Mapping[str, float]) -> Remedy:
    """Returns changes of settings, by their names, as one remedy; what is no number of a plan is the aggregator's."""
    first, *others = (
        Remedy(name, int(value) if name.startswith("num_") else float(f"{value:g}"))
        if name in _SETTINGS_OF_PLANS
        else Remedy(name, float(f"{value:g}"), owner="aggregator")
        for name, value in changes.items()
    )
    return replace(first, also=tuple(others))


def _of_delta(delta: float, num_groups: int | None, allow_useless: bool) -> Iterator[Doubt]:
    """Yields what a large delta allows; raises for one that no guarantee has."""
    if delta >= _LARGEST_DELTA:
        rule = "a delta below 0.01, the probability that a guarantee may fail altogether"
        if not allow_useless:
            rule = f"{rule}; 1e-6 is usual"
            raise InvalidValue("target_delta", delta, rule=rule, waiver=ALLOW_USELESS)
        text = f"{rule} is what deserves the name"
        yield Doubt("target_delta", delta, text, waiver=ALLOW_USELESS)
    elif num_groups is not None and delta > 1 / num_groups:
        why = f"above 1 / {num_groups}, one over the private groups: publishing a group at random would be allowed"
        yield Doubt("target_delta", delta, f"{why}; take less than {0.1 / num_groups:.1g}")


def _reason(expectation: Expectation, priced: PricedRelease) -> str:
    """What comes out where teachers agree."""
    shape = priced.shape
    expected = expectation.unanimous
    test = priced.aggregator.stability_test(num_teachers=shape.num_teachers)
    if test is not None and test.gap_to_pass(0.5) is None:
        return f"no gap of {shape.num_teachers} votes passes the test, so nearly every query would be refused"
    said = (
        f"{max(expected.right, 0.5):.0%} of the answered bits would be right, where chance has 50%"
    )
    if expected.answered < 1:
        beside = f", and {said}" if expected.right < GOAL else ""
        said = f"{expected.answered:.0%} of the queries would be answered{beside}"
    if not expected.is_useless:
        share = expectation.clear.answered
        return f"where 90% of {shape.num_teachers} teachers agree, {share:.0%} of the queries would be answered"
    agree = (
        f"all {shape.num_teachers} teachers agree"
        if shape.num_teachers > 1
        else "the one teacher is sure"
    )
    return f"even where {agree}, {said}"


@dataclass(frozen=True)
class Suggestion:
    """The numbers of teachers and queries that tell most at a budget; from public numbers alone."""

    num_teachers: int
    num_queries: int
    records_per_teacher: float | None  # None where the private groups were not counted
    agreement: float  # the share of the teachers taken to name each label that a query has
    expected: ExpectedRelease  # of such queries
    clear_queries: float  # what is told, as so many queries without noise


def suggest(
    aggregator: Aggregator,
    shape: VoteShape,
    budget: Budget,
    *,
    num_private: int | None = None,
    max_queries: int | None = None,
) -> Suggestion:
    """Searches teachers and queries for the release that tells most at a `target_epsilon`.

    Teachers with more records agree more. The rule of thumb, that r records make r / (r + 60) of the teachers name a
    label, is about right for the embedded data set; without `num_private` 70% agree, and more teachers cost nothing.
    Only releases count through which unanimous teachers are heard. Labels are the shape's, prices Renyi's. Raises
    without a `target_epsilon`, for fewer than 200 private groups, and where nothing is heard.
    """
    require(not has_given_noise(budget), "suggest", "true", "a target_epsilon to plan for")
    if num_private is not None:
        lowest = _TEACHERS[0] * _GROUPS_EACH
        require(
            require_count("num_private", num_private) >= lowest,
            "num_private",
            num_private,
            f"at least {lowest}",
        )
    quick = replace(budget, accountant=RdpAccountant)
    most = MOST_TEACHERS if num_private is None else num_private // _GROUPS_EACH
    teachers = [count for count in _TEACHERS if count <= most]
    found: list[Suggestion] = []
    for queries in (count for count in _QUERIES if max_queries is None or count <= max_queries):
        middle = replace(shape, num_teachers=teachers[len(teachers) // 2], num_queries=queries)
        if (planned := planned_or_none(aggregator, middle, quick)) is None:
            continue
        # the noise hardly depends on the teachers
        noisy = planned.aggregator
        size = planned.shape
        found += [
            _judged(noisy, replace(size, num_teachers=count), num_private) for count in teachers
        ]
    for best in sorted(found, key=lambda each: -each.clear_queries):
        chosen = replace(shape, num_teachers=best.num_teachers, num_queries=best.num_queries)
        planned = planned_or_none(aggregator, chosen, quick)
        if planned is not None and _is_heard(planned):
            return _judged(planned.aggregator, planned.shape, num_private)
        if best.clear_queries < 1:
            break
    rule = f"an epsilon at which some number of teachers is heard; up to {teachers[-1]} were tried"
    raise InvalidValue("target_epsilon", budget.epsilon, rule=rule)


def _judged(aggregator: Aggregator, shape: VoteShape, num_private: int | None) -> Suggestion:
    """What a release tells of queries on which as many teachers agree as their records allow."""
    records = None if num_private is None else num_private / shape.num_teachers
    agreement = AGREEMENTS["typical"] if records is None else records / (records + _HALF_AT)
    expected = expected_release(aggregator, shape, agreement=agreement)
    # answered, times the squared distance of right bits from chance, times the squared agreement: few are often wrong
    told = (
        shape.num_queries
        * expected.answered
        * (max(expected.present + expected.absent - 1, 0.0) * agreement) ** 2
    )
    return Suggestion(shape.num_teachers, shape.num_queries, records, agreement, expected, told)
