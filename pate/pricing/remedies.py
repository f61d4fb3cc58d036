"""What would make a release tell something: more teachers, a larger epsilon, fewer queries, or less noise."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pate.accounting import Adjacency, NoOpEvent, RdpAccountant
from pate.accounting.events import leaves
from pate.aggregators import Aggregator, ExpectedRelease
from pate.aggregators.aggregator import LEAST_ANSWERED
from pate.pricing.priced_release import Budget, PricedRelease, ReleaseShape, SettingNames, changed_fields, plan_release
from pate.validation import InvalidValue, require, require_count, rounded_up

OF_TRAINING = SettingNames(num_teachers="teacher.num_teachers={}")  # as `pate-train` spells them
AGREEMENTS = {"unanimous": 1.0, "90%": 0.9, "typical": 0.7}  # of the teachers, that name each label of a query
WEAK_EPSILON = 10  # above it a price is doubted: e^10 is 22,026, what an outcome may be likelier by
GOAL = 0.9  # the success of unanimous teachers from which on a release is not doubted
MOST_TEACHERS = 5000  # prices and tables of more take long
_GROUPS_EACH = 10
_LARGEST_EPSILON = 100.0  # beyond which a bound promises nothing that is worth its noise
_LEAST_QUERIES = 20
_TRIED, _STEP = 12, 3  # candidates behind the first likely one, and which of them
_LARGEST_DELTA = 0.01
_TYPICAL_SUCCESS = 0.6
_NOTHING = (
    "nothing was found that works, neither teachers of ten private groups each nor fewer queries nor an epsilon up to "
    "100: more private records would, or another aggregator"
)
_HALF_AT = 60.0  # records of a teacher with which half of the teachers name a label
_TEACHERS = (20, 30, 50, 70, 100, 150, 200, 300, 400, 600, 800, 1000, 1500, 2000, 3000, 5000)
_NUMBERS = [float(f"{digits}e{power}") for power in range(-4, 4) for digits in range(10, 100)]  # two digits each
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


def expected_release(aggregator: Aggregator, shape: ReleaseShape, *, agreement: float = 1.0) -> ExpectedRelease:
    """What a release would tell of queries if that share of the teachers, in [0, 1], names each label of theirs.

    >>> from pate.aggregators import StableTopK
    >>> aggregator = StableTopK(selection_scale=20.0, test_std=10.0)
    >>> shape = ReleaseShape(num_queries=600, num_labels=40, num_teachers=200)
    >>> [round(expected_release(aggregator, shape, agreement=share).success, 2) for share in AGREEMENTS.values()]
    [1.0, 1.0, 0.94]
    """
    return aggregator.expected_release(**shape.as_arguments, agreement=agreement)


def expectation(aggregator: Aggregator, shape: ReleaseShape) -> Expectation:
    """What a release would tell of queries of three kinds (`AGREEMENTS`)."""
    return Expectation(*(expected_release(aggregator, shape, agreement=share) for share in AGREEMENTS.values()))


def remedies(
    start: Aggregator, priced: PricedRelease, budget: Budget, *, num_groups: int | None = None
) -> list[dict[str, float]]:
    """Changes of settings, by name, that work in place of a release that tells nothing; each was planned and tried.

    Prices are Renyi's whatever the accountant, which is quick. Every teacher is left ten private groups, if counted.
    """
    shape, quick = priced.shape, replace(budget, accountant=RdpAccountant)
    most = MOST_TEACHERS if num_groups is None else min(num_groups // _GROUPS_EACH, MOST_TEACHERS)
    more = [count for count in sorted({*_COUNTS, most}) if shape.num_teachers < count <= most]
    fewer = [count for count in reversed(_COUNTS) if _LEAST_QUERIES <= count < shape.num_queries]

    def works(budget: Budget = quick, **changed: int) -> bool:
        return _is_heard(planned_or_none(start, replace(shape, **changed), budget))

    def of(num_teachers: int) -> PricedRelease:
        return replace(priced, shape=replace(shape, num_teachers=num_teachers))  # noise hardly depends on teachers

    def queries(less: PricedRelease | None, target: float, **crowd: Any) -> Any:
        def paid(count: int) -> bool:
            return less is not None and _price(less.aggregator, replace(less.shape, num_queries=count), quick) <= target

        return _first(fewer, paid, lambda count: works(num_queries=count, **crowd))

    teachers = _first(more, lambda count: _is_heard(of(count)), lambda count: works(num_teachers=count))
    found: list[dict[str, Any]] = [{"num_teachers": teachers}]
    less, target = _less_noise(priced), quick.target_epsilon
    if target is None:
        planned = None if less is None else planned_or_none(less.aggregator, shape, quick)
        enough = min(_LEAST_QUERIES, shape.num_queries)  # a `max_epsilon` pays for
        if planned is not None and planned.shape.num_queries >= enough and _is_heard(planned):
            found.append(changed_fields(priced.aggregator, planned.aggregator))
    else:
        larger = list[float]()
        if less is not None and quick.classes is None:
            lowest = max(target, _price(less.aggregator, shape, quick))
            larger = [epsilon for epsilon in _NUMBERS if lowest <= epsilon <= _LARGEST_EPSILON]
        epsilon = _first(larger, bool, lambda each: works(replace(quick, target_epsilon=each)))
        found += [{"target_epsilon": epsilon}, {"num_queries": queries(less, target)}]
        if more and teachers is found[-1]["num_queries"] is None:  # neither alone, but perhaps both
            found[0] = {"num_teachers": most, "num_queries": queries(_less_noise(of(most)), target, num_teachers=most)}
    return [each for each in found if each and None not in each.values()]


def _first(candidates: Sequence[Any], likely: Callable[[Any], bool], works: Callable[[Any], bool]) -> Any:
    """The first candidate that works, of a few from where all are likely to; None where none of these does."""
    place = bisect_left(candidates, True, key=likely)
    return next((each for each in candidates[place:][:_TRIED:_STEP] if works(each)), None)


def _price(aggregator: Aggregator, shape: ReleaseShape, budget: Budget) -> float:
    """What a release would cost; infinite where it cannot be."""
    try:
        return budget.epsilon_of(shape.event_of(aggregator))
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


def group_votes_tell_more(priced: PricedRelease, budget: Budget, centered: Aggregator, *, num_groups: int) -> bool:
    """Whether centered votes of all private groups would tell far more for that price; by public numbers alone.

    A student of answers learns from no more samples than are answered rightly. One of centered votes learns from all
    private groups, one teacher each, as far as their noise lets it. Far more is ten times as many, if it is heard.
    """
    shape, aggregator = priced.shape, priced.aggregator
    fits = aggregator.input_form != "centered" and aggregator.adjacency is Adjacency.REPLACE_ONE
    if not fits or not 0 < priced.epsilon < math.inf:
        return False
    try:
        told = shape.num_queries * expected_release(aggregator, shape, agreement=AGREEMENTS["90%"]).success
        same = replace(budget, target_epsilon=priced.epsilon, max_epsilon=None)
        groups = replace(shape, num_teachers=num_groups)
        other = plan_release(centered, groups, same)
        heard = expected_release(other.aggregator, groups, agreement=AGREEMENTS["typical"]).success >= GOAL
    except InvalidValue:
        return False
    return heard and told < num_groups / 10


def planned_or_none(start: Aggregator, shape: ReleaseShape, budget: Budget) -> PricedRelease | None:
    """What `plan_release` plans; None where it raises."""
    try:
        return plan_release(start, shape, budget)
    except InvalidValue:
        return None


def _is_heard(planned: PricedRelease | None) -> bool:
    """Whether nothing of a plan is doubted where all teachers agree, and enough is answered where 90% of them do."""
    if planned is None:
        return False
    unanimous = expected_release(planned.aggregator, planned.shape)  # asked first: most of a search fails there
    heard = not unanimous.is_useless and unanimous.success >= GOAL
    return heard and expected_release(planned.aggregator, planned.shape, agreement=0.9).answered >= LEAST_ANSWERED


def require_useful(
    start: Aggregator,
    priced: PricedRelease,
    budget: Budget,
    *,
    names: SettingNames,
    num_groups: int | None = None,
    allow_useless: bool = False,
) -> tuple[str, ...]:
    """Returns warnings about a release planned from `start`, or raises if its noise hides what teachers agree on.

    All of it follows from public numbers, of which `num_groups` is that of private groups, None where it is not known.
    A release without noise is not doubted, whatever it costs, nor is an aggregator of one's own that takes no made-up
    votes. Raises where of queries on which all teachers agree over a quarter of the bits is wrong, or of those on which
    90% do fewer than a third are answered; at a delta of 0.01 or more. With `allow_useless` that is only said.
    """
    lines = list(_of_delta(budget.target_delta, names, num_groups, allow_useless))
    if WEAK_EPSILON < priced.epsilon < math.inf:
        lines.append(f"epsilon={rounded_up(priced.epsilon, 4)}: above {WEAK_EPSILON} it promises one person little")
    # No queries, or answers that no vote changes. Not by its epsilon: at some deltas noise that hides all costs 0.
    if all(times == 0 or isinstance(leaf, NoOpEvent) for leaf, times in leaves(priced.event)):
        return tuple(lines)
    try:
        expected = expectation(priced.aggregator, priced.shape)
    except InvalidValue:
        return tuple(lines)
    teachers, reason = names.num_teachers.format(priced.shape.num_teachers), _reason(expected, priced)
    if not expected.is_useless:
        if expected.unanimous.success < GOAL or expected.typical.success < _TYPICAL_SUCCESS:
            shares = ", ".join(f"{each.success:.0%}" for each in vars(expected).values())
            heard = f"teachers are heard in {shares} of the cases where all, 90% or 70% of them agree (chance has 50%)"
            lines.append(f"{teachers}: {heard}; what helps: {priced.aggregator.remedies['noise']}")
        return tuple(lines)
    if allow_useless:
        return (*lines, f"{teachers}: {reason}; allowed by {names.allow_useless}")
    works = remedies(start, priced, budget, num_groups=num_groups)
    helps = "what works: " + ", or ".join(map(names.spelled, works)) if works else _NOTHING
    rule = f"expected a release that tells something: {reason}; {helps}"
    raise InvalidValue(f"{teachers}: {rule}; {names.allow_useless} goes on as it is")


def _of_delta(delta: float, names: SettingNames, num_groups: int | None, allow_useless: bool) -> Iterator[str]:
    """What a large delta allows."""
    setting = names.target_delta.format(f"{delta:g}")
    if delta >= _LARGEST_DELTA:
        rule = "a delta below 0.01, the probability that a guarantee may fail altogether"
        if not allow_useless:
            raise InvalidValue(f"{setting}: expected {rule}; 1e-6 is usual; {names.allow_useless} goes on as it is")
        yield f"{setting}: {rule} is what deserves the name; allowed by {names.allow_useless}"
    elif num_groups is not None and delta > 1 / num_groups:
        why = f"above 1 / {num_groups}, one over the private groups: publishing a group at random would be allowed"
        yield f"{setting}: {why}; take less than {0.1 / num_groups:.1g}"


def _reason(expectation: Expectation, priced: PricedRelease) -> str:
    """What comes out where teachers agree."""
    shape, expected = priced.shape, expectation.unanimous
    test = priced.aggregator.stability_test(num_teachers=shape.num_teachers)
    if test is not None and test.gap_to_pass(0.5) is None:
        return f"no gap of {shape.num_teachers} votes passes the test, so nearly every query would be refused"
    said = f"{max(expected.right, 0.5):.0%} of the answered bits would be right, where chance has 50%"
    if expected.answered < 1:
        beside = f", and {said}" if expected.right < GOAL else ""
        said = f"{expected.answered:.0%} of the queries would be answered{beside}"
    if not expected.is_useless:
        share = expectation.clear.answered
        return f"where 90% of {shape.num_teachers} teachers agree, {share:.0%} of the queries would be answered"
    agree = f"all {shape.num_teachers} teachers agree" if shape.num_teachers > 1 else "the one teacher is sure"
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
    shape: ReleaseShape,
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
    require(budget.target_epsilon is not None, "suggest", "true", "a target_epsilon to plan for")
    if num_private is not None:
        lowest = _TEACHERS[0] * _GROUPS_EACH
        require(require_count("num_private", num_private) >= lowest, "num_private", num_private, f"at least {lowest}")
    quick = replace(budget, accountant=RdpAccountant)
    most = MOST_TEACHERS if num_private is None else num_private // _GROUPS_EACH
    teachers = [count for count in _TEACHERS if count <= most]
    found: list[Suggestion] = []
    for queries in (count for count in _QUERIES if max_queries is None or count <= max_queries):
        middle = replace(shape, num_teachers=teachers[len(teachers) // 2], num_queries=queries)
        if (planned := planned_or_none(aggregator, middle, quick)) is None:
            continue
        noisy, size = planned.aggregator, planned.shape  # the noise hardly depends on the teachers
        found += [_judged(noisy, replace(size, num_teachers=count), num_private) for count in teachers]
    for best in sorted(found, key=lambda each: -each.clear_queries):
        chosen = replace(shape, num_teachers=best.num_teachers, num_queries=best.num_queries)
        planned = planned_or_none(aggregator, chosen, quick)
        if planned is not None and _is_heard(planned):
            return _judged(planned.aggregator, planned.shape, num_private)
        if best.clear_queries < 1:
            break
    rule = f"an epsilon at which some number of teachers is heard; up to {teachers[-1]} were tried"
    raise InvalidValue(f"target_epsilon={budget.target_epsilon}: expected {rule}")


def _judged(aggregator: Aggregator, shape: ReleaseShape, num_private: int | None) -> Suggestion:
    """What a release tells of queries on which as many teachers agree as their records allow."""
    records = None if num_private is None else num_private / shape.num_teachers
    agreement = AGREEMENTS["typical"] if records is None else records / (records + _HALF_AT)
    expected = expected_release(aggregator, shape, agreement=agreement)
    # answered, times the squared distance of right bits from chance, times the squared agreement: few are often wrong
    told = shape.num_queries * expected.answered * (max(expected.present + expected.absent - 1, 0.0) * agreement) ** 2
    return Suggestion(shape.num_teachers, shape.num_queries, records, agreement, expected, told)
