"""The guard of usefulness: plans are refused whose noise hides what teachers agree on, before anything is spent."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pate.accounting import Adjacency, Budget, NoOpEvent
from pate.accounting.event_tree import leaves
from pate.accounting.rounding import format_epsilon
from pate.aggregators import Aggregator, expected_release
from pate.errors import Doubt, Remedy
from pate.pricing.expectations import AGREEMENTS, GOAL, Expectation, expectation
from pate.pricing.person_budgets import PersonBudgets
from pate.pricing.priced_release import PricedRelease, plan_release
from pate.pricing.remedies import RemedySearch, search_remedies
from pate.validation import InvalidValue
from pate.votes.source import CenterableVotes

ALLOW_USELESS = Remedy("allow_useless", True)
WEAK_EPSILON = 10  # above it a price is doubted: e^10 is 22,026, what an outcome may be likelier by
_LARGEST_DELTA = 0.01
_SETTINGS_OF_PLANS = ("num_teachers", "target_epsilon", "num_queries")
_TYPICAL_SUCCESS = 0.6
_NOTHING = (
    "nothing was found that works, neither teachers of ten private groups each nor fewer queries nor an epsilon up to "
    "100: more private records would, or another aggregator"
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
    doubts = list(_doubts_of_delta(budget.delta, num_groups, allow_useless))
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
            kinds = (expected.unanimous, expected.clear, expected.typical)
            shares = ", ".join(f"{kind.success:.0%}" for kind in kinds)
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
    outcome = search_remedies(start, priced, budget, num_groups=num_groups, search=search)
    if not outcome.changes and outcome.is_complete:
        rule += f"; {_NOTHING}"
    elif not outcome.changes:
        rule += (
            f"; a search of {search.seconds:g} s found nothing that works; "
            "pate-account suggest=true searches longer"
        )
    raise InvalidValue(
        "num_teachers",
        teachers,
        rule=rule,
        remedies=tuple(map(_remedy, outcome.changes)),
        waiver=ALLOW_USELESS,
    )


def _remedy(changes: Mapping[str, float]) -> Remedy:
    """Returns changes of settings, by their names, as one remedy; what is no number of a plan is the aggregator's."""
    remedies = []
    for name, value in changes.items():
        rounded = float(f"{value:g}")
        if name not in _SETTINGS_OF_PLANS:
            remedies.append(Remedy(name, rounded, owner="aggregator"))
        elif name.startswith("num_"):
            remedies.append(Remedy(name, int(value)))
        else:
            remedies.append(Remedy(name, rounded))
    first, *others = remedies
    return replace(first, also=tuple(others))


def _doubts_of_delta(delta: float, num_groups: int | None, allow_useless: bool) -> Iterator[Doubt]:
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
    """Returns in words what would come out where teachers agree."""
    shape = priced.shape
    expected = expectation.unanimous
    test = priced.aggregator.stability_test(num_teachers=shape.num_teachers)
    if test is not None and test.gap_to_pass(0.5) is None:
        return f"no gap of {shape.num_teachers} votes passes the test, so nearly every query would be refused"
    if not expected.is_useless:
        share = expectation.clear.answered
        return f"where 90% of {shape.num_teachers} teachers agree, {share:.0%} of the queries would be answered"
    right = max(expected.right, 0.5)
    outcome = f"{right:.0%} of the answered bits would be right, where chance has 50%"
    if expected.answered < 1:
        of_bits = f", and {outcome}" if expected.right < GOAL else ""
        outcome = f"{expected.answered:.0%} of the queries would be answered{of_bits}"
    if shape.num_teachers == 1:
        return f"even where the one teacher is sure, {outcome}"
    return f"even where all {shape.num_teachers} teachers agree, {outcome}"


def group_votes_tell_more(
    priced: PricedRelease, budget: Budget, centered: Aggregator, *, num_groups: int
) -> bool:
    """Returns whether centered votes of all private groups would tell far more for that price; by public numbers alone.

    A student of answers learns from no more samples than are answered rightly. One of centered votes learns from all
    private groups, one teacher each, as far as their noise lets it. Far more is ten times as many, if it is heard.
    """
    shape = priced.shape
    aggregator = priced.aggregator
    fits = aggregator.reads is not CenterableVotes and aggregator.adjacency is Adjacency.REPLACE_ONE
    if not fits or not 0 < priced.epsilon < math.inf or isinstance(budget, PersonBudgets):
        return False
    same_price = Budget(delta=budget.delta, epsilon=priced.epsilon, accountant=budget.accountant)
    shape_of_groups = replace(shape, num_teachers=num_groups)
    try:
        clear = expected_release(aggregator, shape, agreement=AGREEMENTS["90%"])
        other = plan_release(centered, shape_of_groups, same_price)
        typical = expected_release(
            other.aggregator, shape_of_groups, agreement=AGREEMENTS["typical"]
        )
    except InvalidValue:
        return False
    num_right_answers = shape.num_queries * clear.success
    return typical.success >= GOAL and num_right_answers < num_groups / 10
