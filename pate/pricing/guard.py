"""The guard: refuses a plan whose release would tell nothing, before anything is spent."""

from __future__ import annotations

from pate.accounting import NoOpEvent
from pate.accounting.events import leaves
from pate.aggregators import Aggregator
from pate.pricing.priced_release import Budget, PricedRelease
from pate.pricing.remedies import GOAL, Expectation, SettingNames, expectation, remedies
from pate.validation import InvalidValue

_LARGEST_DELTA = 0.01
_TYPICAL = 0.6
_NOTHING = (
    "nothing was found that works, neither teachers of ten private groups each nor fewer queries nor an epsilon up to "
    "100: more private records would, or another aggregator"
)


def require_useful(
    start: Aggregator,
    priced: PricedRelease,
    budget: Budget,
    *,
    names: SettingNames,
    num_groups: int | None = None,
    allow_useless: bool = False,
) -> tuple[str, ...]:
    """Returns warnings about a planned release, or raises if its noise hides what teachers agree on.

    All of it follows from public numbers. A release without noise is not doubted, whatever it costs, nor is an
    aggregator of one's own that takes no made-up votes.

    Args:
        start: what it was planned from.
        priced: the release.
        budget: of it.
        names: of the settings, where the user gives them.
        num_groups: private groups, public; None where they are not known.
        allow_useless: whether what would be refused is only said.

    Raises:
        InvalidValue: of queries on which all teachers agree, over a quarter of the bits are wrong; of those on which
            90% of them agree, fewer than a third are answered; a delta of 0.01 or more.
    """
    lines = list(_of_delta(budget.target_delta, names, num_groups, allow_useless))
    if _draws_nothing(priced):
        return tuple(lines)
    try:
        expected = expectation(priced.aggregator, priced.shape)
    except InvalidValue:
        return tuple(lines)
    if not expected.is_useless:
        return (*lines, *_of_noise(expected, priced, names))
    teachers = names.num_teachers.format(priced.shape.num_teachers)
    if allow_useless:
        return (*lines, f"{teachers}: {_reason(expected, priced)}; allowed by {names.allow_useless}")
    works = remedies(start, priced, budget, num_groups=num_groups).text(names)
    helps = f"what works: {works}" if works else _NOTHING
    reason = f"expected a release that tells something: {_reason(expected, priced)}"
    raise InvalidValue(f"{teachers}: {reason}; {helps}; {names.allow_useless} goes on as it is")


def _of_delta(delta: float, names: SettingNames, num_groups: int | None, allow_useless: bool) -> tuple[str, ...]:
    """What a large delta allows."""
    setting = names.target_delta.format(f"{delta:g}")
    if delta >= _LARGEST_DELTA:
        rule = "a delta below 0.01, the probability that a guarantee may fail altogether"
        if not allow_useless:
            raise InvalidValue(f"{setting}: expected {rule}; 1e-6 is usual; {names.allow_useless} goes on as it is")
        return (f"{setting}: {rule} is what deserves the name; allowed by {names.allow_useless}",)
    if num_groups is not None and delta > 1 / num_groups:
        why = f"above 1 / {num_groups}, one over the private groups: publishing a group at random would be allowed"
        return (f"{setting}: {why}; take less than {0.1 / num_groups:.1g}",)
    return ()


def _draws_nothing(priced: PricedRelease) -> bool:
    """Whether the release has nothing to hide: no queries, or answers that no vote changes.

    Not by its epsilon: noise that hides everything costs 0 at a delta that allows it.
    """
    return all(times == 0 or isinstance(leaf, NoOpEvent) for leaf, times in leaves(priced.event))


def _reason(expectation: Expectation, priced: PricedRelease) -> str:
    """What comes out where teachers agree."""
    shape, expected = priced.shape, expectation.unanimous
    test = priced.aggregator.stability_test(num_teachers=shape.num_teachers)
    if test is not None and test.gap_to_pass(0.5) is None:
        return f"no gap of {shape.num_teachers} votes passes the test, so nearly every query would be refused"
    said = f"{max(expected.right, 0.5):.0%} of the answered bits would be right, where chance has 50%"
    if expected.answered < 1:
        said = f"{expected.answered:.0%} of the queries would be answered" + (
            f", and {said}" if expected.right < GOAL else ""
        )
    if not expected.is_useless:
        share = expectation.clear.answered
        return f"where 90% of {shape.num_teachers} teachers agree, {share:.0%} of the queries would be answered"
    agree = f"all {shape.num_teachers} teachers agree" if shape.num_teachers > 1 else "the one teacher is sure"
    return f"even where {agree}, {said}"


def _of_noise(expected: Expectation, priced: PricedRelease, names: SettingNames) -> tuple[str, ...]:
    """What is worth its price in part."""
    if expected.unanimous.success >= GOAL and expected.typical.success >= _TYPICAL:
        return ()
    kinds = (expected.unanimous, expected.clear, expected.typical)
    shares = ", ".join(f"{each.success:.0%}" for each in kinds)
    heard = f"teachers are heard in {shares} of the cases where all, 90% or 70% of them agree (chance has 50%)"
    helps, teachers = priced.aggregator.remedies["noise"], names.num_teachers.format(priced.shape.num_teachers)
    return (f"{teachers}: {heard}; what helps: {helps}",)
