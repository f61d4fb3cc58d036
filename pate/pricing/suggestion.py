"""A suggestion: the numbers of teachers and queries whose release tells most at a budget."""

from dataclasses import dataclass, replace

from pate.accounting import Budget, RdpAccountant
from pate.aggregators import Aggregator, ExpectedRelease, expected_release
from pate.pricing.budgets import has_given_noise
from pate.pricing.expectations import AGREEMENTS, is_plan_heard
from pate.pricing.priced_release import planned_or_none
from pate.pricing.remedies import GROUPS_EACH, MOST_TEACHERS
from pate.validation import InvalidValue, require, require_count
from pate.votes.shape import VoteShape

_HALF_AT = 60.0  # records of a teacher with which half of the teachers name a label
_TEACHERS = (20, 30, 50, 70, 100, 150, 200, 300, 400, 600, 800, 1000, 1500, 2000, 3000, 5000)
_QUERIES = (50, 100, 200, 400, 600, 1000, 2000)


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
        lowest = _TEACHERS[0] * GROUPS_EACH
        require_count("num_private", num_private)
        require(num_private >= lowest, "num_private", num_private, f"at least {lowest}")
    quick = replace(budget, accountant=RdpAccountant)
    most = MOST_TEACHERS if num_private is None else num_private // GROUPS_EACH
    teachers = [count for count in _TEACHERS if count <= most]
    suggestions: list[Suggestion] = []
    for queries in _QUERIES:
        if max_queries is not None and queries > max_queries:
            continue
        middle = replace(shape, num_teachers=teachers[len(teachers) // 2], num_queries=queries)
        planned = planned_or_none(aggregator, middle, quick)
        if planned is None:
            continue
        for count in teachers:  # on whose number the noise hardly depends
            size = replace(planned.shape, num_teachers=count)
            suggestions.append(_judged(planned.aggregator, size, num_private))
    for best in sorted(suggestions, key=lambda suggestion: -suggestion.clear_queries):
        chosen = replace(shape, num_teachers=best.num_teachers, num_queries=best.num_queries)
        planned = planned_or_none(aggregator, chosen, quick)
        if planned is not None and is_plan_heard(planned):
            return _judged(planned.aggregator, planned.shape, num_private)
        if best.clear_queries < 1:
            break
    rule = f"an epsilon at which some number of teachers is heard; up to {teachers[-1]} were tried"
    raise InvalidValue("target_epsilon", budget.epsilon, rule=rule)


def _judged(aggregator: Aggregator, shape: VoteShape, num_private: int | None) -> Suggestion:
    """Returns what a release tells of queries on which as many teachers agree as their records allow."""
    records = None if num_private is None else num_private / shape.num_teachers
    agreement = AGREEMENTS["typical"] if records is None else records / (records + _HALF_AT)
    expected = expected_release(aggregator, shape, agreement=agreement)
    # Answered queries, times the squared distance of right bits from chance, times the squared agreement: few are often
    # wrong.
    from_chance = max(expected.present + expected.absent - 1, 0.0)
    return Suggestion(
        num_teachers=shape.num_teachers,
        num_queries=shape.num_queries,
        records_per_teacher=records,
        agreement=agreement,
        expected=expected,
        clear_queries=shape.num_queries * expected.answered * (from_chance * agreement) ** 2,
    )
