"""The search for the numbers of teachers and queries whose release is most useful within a budget."""

from dataclasses import dataclass, replace

from pate.accounting import Budget, RdpAccountant
from pate.aggregators import Aggregator, ExpectedRelease, expected_release
from pate.pricing.budgets import has_given_noise
from pate.pricing.changes import GROUPS_EACH, MOST_TEACHERS
from pate.pricing.expectations import AGREEMENTS, is_plan_useful
from pate.pricing.priced_release import planned_or_none
from pate.validation import InvalidValue, require, require_count
from pate.votes.shape import VoteShape

# The number of records per teacher with which half of the teachers name a label that a query has.
_HALF_AT = 60.0
_TEACHERS = (20, 30, 50, 70, 100, 150, 200, 300, 400, 600, 800, 1000, 1500, 2000, 3000, 5000)
_QUERIES = (50, 100, 200, 400, 600, 1000, 2000)


@dataclass(frozen=True)
class Suggestion:
    """The numbers of teachers and queries whose release is most useful within a budget, from public numbers alone.

    Attributes:
        num_teachers: the suggested number of teachers.
        num_queries: the suggested number of queries.
        records_per_teacher: the number of private groups for each teacher; None if the number of groups is unknown.
        agreement: the share of the teachers that is assumed to vote for each label of a query.
        expected: the expected answers to queries with this agreement.
        clear_queries: the number of queries, answered without noise, from which a student would learn as much.
    """

    num_teachers: int
    num_queries: int
    records_per_teacher: float | None
    agreement: float
    expected: ExpectedRelease
    clear_queries: float


def suggest(
    aggregator: Aggregator,
    shape: VoteShape,
    budget: Budget,
    *,
    num_private: int | None = None,
    max_queries: int | None = None,
) -> Suggestion:
    """Returns the numbers of teachers and queries whose release is most useful within a budget.

    The most useful release has the most `clear_queries` among those that `is_plan_useful` accepts. Teachers with more
    records agree more. The search assumes that r / (r + 60) of the teachers vote for a label, if each has r records.
    This rule of thumb is about right for the embedded data set. Prices are those of the Renyi accountant.

    Args:
        aggregator: the aggregator, with noise to start from.
        shape: the shape with the number of labels; its other two numbers are not read.
        budget: the budget with the epsilon for which the noise is found.
        num_private: the number of private groups. None for an agreement of 70% with any number of teachers.
        max_queries: the size of the public pool; None for no limit.

    Raises:
        InvalidValue: the budget has no epsilon for which to find noise, there are fewer than 200 private groups, or no
            number of teachers gives a useful release.
    """
    require(not has_given_noise(budget), "suggest", "true", "a target_epsilon to plan for")
    if num_private is not None:
        lowest = _TEACHERS[0] * GROUPS_EACH
        require_count("num_private", num_private)
        require(num_private >= lowest, "num_private", num_private, f"at least {lowest}")
    budget_by_renyi = replace(budget, accountant=RdpAccountant)
    most_teachers = MOST_TEACHERS if num_private is None else num_private // GROUPS_EACH
    teachers = [count for count in _TEACHERS if count <= most_teachers]
    suggestions: list[Suggestion] = []
    for queries in _QUERIES:
        if max_queries is not None and queries > max_queries:
            continue
        middle = replace(shape, num_teachers=teachers[len(teachers) // 2], num_queries=queries)
        planned = planned_or_none(aggregator, shape=middle, budget=budget_by_renyi)
        if planned is None:
            continue
        # The noise hardly depends on the number of teachers, so one plan serves for all of them.
        for count in teachers:
            candidate_shape = replace(planned.shape, num_teachers=count)
            suggestion = _judged(planned.aggregator, shape=candidate_shape, num_private=num_private)
            suggestions.append(suggestion)
    for best in sorted(suggestions, key=lambda suggestion: -suggestion.clear_queries):
        best_shape = replace(shape, num_teachers=best.num_teachers, num_queries=best.num_queries)
        planned = planned_or_none(aggregator, shape=best_shape, budget=budget_by_renyi)
        if planned is not None and is_plan_useful(planned):
            return _judged(planned.aggregator, planned.shape, num_private)
        if best.clear_queries < 1:
            break
    rule = f"an epsilon at which some number of teachers is heard; up to {teachers[-1]} were tried"
    raise InvalidValue("target_epsilon", budget.epsilon, rule=rule)


def _judged(aggregator: Aggregator, shape: VoteShape, num_private: int | None) -> Suggestion:
    """Returns a suggestion of the numbers in a shape, with the answers that are expected at the teachers' agreement.

    Args:
        aggregator: the aggregator with its noise.
        shape: the number of queries, labels and teachers.
        num_private: the number of private groups; None if unknown.
    """
    records = None if num_private is None else num_private / shape.num_teachers
    agreement = AGREEMENTS["typical"] if records is None else records / (records + _HALF_AT)
    expected = expected_release(aggregator, shape, agreement=agreement)
    # The number of answered queries, times the squared distance of right bits from chance, times the squared agreement:
    # teachers of few records are often wrong together.
    from_chance = max(expected.present + expected.absent - 1, 0.0)
    return Suggestion(
        num_teachers=shape.num_teachers,
        num_queries=shape.num_queries,
        records_per_teacher=records,
        agreement=agreement,
        expected=expected,
        clear_queries=shape.num_queries * expected.answered * (from_chance * agreement) ** 2,
    )
