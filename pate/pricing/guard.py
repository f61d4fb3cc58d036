"""The check of usefulness, which refuses plans whose noise would hide even unanimous votes.

All decisions follow from public numbers, before a teacher is trained and before anything is charged. A plan that is
allowed but weak gets warnings, as `Doubt` objects. A refusal lists *remedies*, which are changes of settings that work,
if a search finds any. The setting `allow_useless=true` turns a refusal into a warning.
"""

import math
from dataclasses import replace

from pate.accounting import Adjacency, Budget, NoOpEvent
from pate.accounting.event_tree import leaves
from pate.accounting.rounding import format_epsilon
from pate.aggregators import Aggregator, expected_release
from pate.errors import Doubt, Remedy
from pate.pricing.expectations import AGREEMENT_SHARES, MIN_SUCCESS, Expectation, expectation
from pate.pricing.person_budgets import PersonBudgets
from pate.pricing.priced_release import PricedRelease, plan_release
from pate.pricing.remedies import RemedySearch, search_remedies
from pate.validation import InvalidValue
from pate.votes.source import CenterableVotes

# The setting with which a refused release is allowed.
ALLOW_USELESS = Remedy(name="allow_useless", value=True)
# A larger epsilon has a warning: e^10 is 22,026, the factor by which one person may make an outcome likelier.
WEAK_EPSILON = 10
# Delta has to be smaller. With a delta of 0.01, publishing one group in a hundred would be allowed.
_DELTA_LIMIT = 0.01
# A release has a warning if fewer labels are right where 70% of the teachers agree; chance has 50%.
_MIN_TYPICAL_SUCCESS = 0.6
# A student of centered votes is recommended if the private groups are more than so many times the right answers.
_MIN_GROUPS_PER_ANSWER = 10
# The end of an error if the search for remedies was complete and found none.
_NO_REMEDY = (
    "nothing was found that works, neither teachers of ten private groups each nor fewer queries nor an epsilon up to "
    "100: more private records would, or another aggregator"
)


def require_useful(
    unsolved_aggregator: Aggregator,
    priced_release: PricedRelease,
    budget: Budget,
    *,
    num_groups: int | None = None,
    allow_useless: bool = False,
    search: RemedySearch | None = None,
    refused_setting: tuple[str, object] | None = None,
    other_method: Remedy | None = None,
    voters: str = "teachers",
) -> tuple[Doubt, ...]:
    """Returns warnings about a priced release, or raises `InvalidValue` if its noise would hide what teachers agree on.

    A release is refused in three cases, of which the first two are `Expectation.is_useless`:

    - the mean share of right labels (`ExpectedRelease.right`) would be below 3/4, or fewer than a third of the queries
      would be answered, although all teachers agree;
    - fewer than a third of the queries would be answered although 90% of the teachers agree;
    - delta is 0.01 or more.

    Only the last case applies to a release that costs nothing, and to an aggregator without expected answers. A release
    costs nothing if it has no queries, or if no vote changes its answers.

    Args:
        unsolved_aggregator: the aggregator before its noise was solved for.
        priced_release: the priced release.
        budget: the budget that the release was planned for.
        num_groups: the number of private groups; None if unknown.
        allow_useless: whether to return the reason for a refusal as a warning, in place of the error.
        search: the search for settings that work, which the error lists as remedies; None for one of about 20 seconds
            at most.
        refused_setting: the name and the value of the parameter that the error is about; None for the number of
            teachers.
        other_method: settings of another method that works on these data, as the first remedy; None if there are none.
        voters: the word for those who vote, as the reason for a refusal names them.

    Raises:
        InvalidValue: the release is refused.
    """
    if budget.delta >= _DELTA_LIMIT and not allow_useless:
        rule = f"a delta below {_DELTA_LIMIT:g}, the probability that a guarantee may fail altogether; 1e-6 is usual"
        raise InvalidValue("target_delta", budget.delta, rule=rule, waiver=ALLOW_USELESS)
    doubts = _without_none(
        _delta_doubt(budget.delta, num_groups=num_groups),
        _epsilon_doubt(priced_release.epsilon),
    )
    # A release that costs nothing has no queries, or answers that no vote changes: there is nothing to warn of. An
    # epsilon of 0 alone does not show that: a release whose noise hides everything also has epsilon 0 at a large delta.
    if all(
        times == 0 or isinstance(leaf, NoOpEvent) for leaf, times in leaves(priced_release.event)
    ):
        return doubts
    try:
        expected_answers = expectation(priced_release.aggregator, priced_release.shape)
    except InvalidValue:
        # An aggregator of another package may not take made-up votes, and has no expected answers then.
        return doubts
    if not expected_answers.is_useless:
        return doubts + _without_none(_noise_doubt(expected_answers, priced_release))
    reason = _refusal_reason(expected_answers, priced_release, voters_word=voters)
    default_setting = ("num_teachers", priced_release.shape.num_teachers)
    setting_name, setting_value = refused_setting or default_setting
    if allow_useless:
        return (
            *doubts,
            Doubt(name=setting_name, value=setting_value, text=reason, waiver=ALLOW_USELESS),
        )
    refusal = InvalidValue(
        setting_name, setting_value, rule=f"a release that tells something: {reason}"
    )
    raise _refusal_with_searched_remedies(
        refusal,
        unsolved_aggregator=unsolved_aggregator,
        priced_release=priced_release,
        budget=budget,
        num_groups=num_groups,
        remedy_search=search or RemedySearch(),
        other_method=other_method,
    )


def _without_none(*doubts: Doubt | None) -> tuple[Doubt, ...]:
    """Returns the doubts that there are, in their order."""
    return tuple(doubt for doubt in doubts if doubt is not None)


def _delta_doubt(delta: float, *, num_groups: int | None) -> Doubt | None:
    """Returns a warning if delta is at least 0.01, or is above one over the number of groups; None otherwise.

    At 0.01 or more, the warning names only that limit.

    Args:
        delta: the delta of the guarantee.
        num_groups: the number of private groups; None if unknown.
    """
    if delta >= _DELTA_LIMIT:
        text = "a guarantee may fail altogether with this probability; 1e-6 is usual"
        return Doubt(name="target_delta", value=delta, text=text, waiver=ALLOW_USELESS)
    if num_groups is not None and delta > 1 / num_groups:
        text = (
            f"above 1 / {num_groups}, one over the private groups: publishing a group at random would be "
            f"allowed; take less than {0.1 / num_groups:.1g}"
        )
        return Doubt(name="target_delta", value=delta, text=text)
    return None


def _epsilon_doubt(epsilon: float) -> Doubt | None:
    """Returns a warning about a finite epsilon above `WEAK_EPSILON`; None for others."""
    if not WEAK_EPSILON < epsilon < math.inf:
        return None
    text = f"above {WEAK_EPSILON} it promises one person little"
    return Doubt(name="epsilon", value=format_epsilon(epsilon), text=text)


def _noise_doubt(expected_answers: Expectation, priced_release: PricedRelease) -> Doubt | None:
    """Returns a warning about noise that often hides what all, or 70%, of the teachers agree on; None for other noise.

    Often means an `ExpectedRelease.success` below 90% where all teachers agree, or below 60% where 70% agree.

    Args:
        expected_answers: the expected answers of the release.
        priced_release: the priced release.
    """
    is_unanimity_clear = expected_answers.unanimous.success >= MIN_SUCCESS
    if is_unanimity_clear and expected_answers.typical.success >= _MIN_TYPICAL_SUCCESS:
        return None
    text = (
        f"teachers are heard in {expected_answers.unanimous.success:.0%}, {expected_answers.clear.success:.0%}, "
        f"{expected_answers.typical.success:.0%} of the cases where all, 90% or 70% of them agree (chance has 50%); "
        f"what helps: {priced_release.aggregator.remedies['noise']}"
    )
    return Doubt(name="num_teachers", value=priced_release.shape.num_teachers, text=text)


def _refusal_with_searched_remedies(
    refusal: InvalidValue,
    *,
    unsolved_aggregator: Aggregator,
    priced_release: PricedRelease,
    budget: Budget,
    num_groups: int | None,
    remedy_search: RemedySearch,
    other_method: Remedy | None,
) -> InvalidValue:
    """Searches for changes of settings that make a refused release useful, and returns the error with them as remedies.

    Args:
        refusal: the error that refuses the release, without remedies.
        unsolved_aggregator: the aggregator before its noise was solved for.
        priced_release: the priced release.
        budget: the budget that the release was planned for.
        num_groups: the number of private groups; None if unknown.
        remedy_search: the search for settings that work.
        other_method: the first remedy, which is not searched for; None for none.
    """
    if remedy_search.report_refusal is not None:
        remedy_search.report_refusal(refusal, remedy_search.max_seconds)
    outcome = search_remedies(
        unsolved_aggregator,
        useless_release=priced_release,
        budget=budget,
        num_groups=num_groups,
        search=remedy_search,
    )
    remedies = [change.remedy() for change in outcome.changes]
    if other_method is not None:
        remedies.insert(0, other_method)
    rule = refusal.rule
    if not remedies and outcome.is_complete:
        rule += f"; {_NO_REMEDY}"
    elif not remedies:
        rule += (
            f"; a search of {remedy_search.max_seconds:g} s found nothing that works; "
            "pate-account suggest=true searches longer"
        )
    return InvalidValue(
        refusal.name,
        refusal.value,
        rule=rule,
        remedies=tuple(remedies),
        waiver=ALLOW_USELESS,
    )


def _refusal_reason(
    expected_answers: Expectation, priced_release: PricedRelease, *, voters_word: str
) -> str:
    """Returns the reason for a refusal in words: how few answers would be right, or given, if teachers agree.

    Args:
        expected_answers: the expected answers of the release.
        priced_release: the priced release.
        voters_word: the word for those who vote, such as "teachers".
    """
    vote_shape = priced_release.shape
    unanimous = expected_answers.unanimous
    stability_test = priced_release.aggregator.stability_test(num_teachers=vote_shape.num_teachers)
    if stability_test is not None and stability_test.gap_to_pass(probability=0.5) is None:
        return f"no gap of {vote_shape.num_teachers} votes passes the test, so nearly every query would be refused"
    if not unanimous.is_useless:
        answered = expected_answers.clear.answered
        return (
            f"where 90% of {vote_shape.num_teachers} {voters_word} agree, "
            f"{answered:.0%} of the queries would be answered"
        )
    right_share = max(unanimous.right, 0.5)
    right_text = f"{right_share:.0%} of the answered bits would be right, where chance has 50%"
    answered_text = f"{unanimous.answered:.0%} of the queries would be answered"
    if unanimous.answered == 1:
        outcome = right_text
    elif unanimous.right < MIN_SUCCESS:
        outcome = f"{answered_text}, and {right_text}"
    else:
        outcome = answered_text
    if vote_shape.num_teachers == 1:
        return f"even where the one teacher is sure, {outcome}"
    return f"even where all {vote_shape.num_teachers} {voters_word} agree, {outcome}"


def group_votes_tell_more(
    priced_release: PricedRelease,
    budget: Budget,
    centered_aggregator: Aggregator,
    *,
    num_groups: int,
) -> bool:
    """Returns True if centered votes of all private groups would teach a student far more than a release at its price.

    Centered votes are sums of clipped votes, from which a student learns directly (docs/how-centered-votes-work.md). A
    student of answers learns from as many samples as are answered correctly. A student of centered votes learns from
    all private groups, each with a teacher of its own. The result is True only if there are more than ten times as
    many groups as correct answers, where 90% of the teachers agree. Besides, the centered votes must succeed with a
    probability of at least 90% (`ExpectedRelease.success`) where 70% of the teachers agree. The result is False for
    an aggregator that reads such votes, for add/remove, for `PersonBudgets`, and for a price of 0 or infinity.

    Args:
        priced_release: the priced release.
        budget: the budget that the release was planned for.
        centered_aggregator: the aggregator of centered votes, with any noise.
        num_groups: the number of private groups.
    """
    vote_shape = priced_release.shape
    aggregator = priced_release.aggregator
    if aggregator.reads is CenterableVotes or aggregator.adjacency is not Adjacency.REPLACE_ONE:
        return False
    if isinstance(budget, PersonBudgets) or not 0 < priced_release.epsilon < math.inf:
        return False
    make_accountant = budget.accountant
    same_price = Budget(
        delta=budget.delta, epsilon=priced_release.epsilon, accountant=make_accountant
    )
    vote_shape_of_groups = replace(vote_shape, num_teachers=num_groups)
    try:
        clear = expected_release(aggregator, vote_shape, agreement=AGREEMENT_SHARES["clear"])
        centered_plan = plan_release(
            centered_aggregator, shape=vote_shape_of_groups, budget=same_price
        )
        typical = expected_release(
            centered_plan.aggregator, vote_shape_of_groups, agreement=AGREEMENT_SHARES["typical"]
        )
    except InvalidValue:
        return False
    num_right_answers = vote_shape.num_queries * clear.success
    has_far_more_groups = num_right_answers < num_groups / _MIN_GROUPS_PER_ANSWER
    return typical.success >= MIN_SUCCESS and has_far_more_groups
