"""The search for the numbers of teachers and queries whose release is most useful within a budget."""

from dataclasses import dataclass, replace
from operator import attrgetter

from pate.accounting import Budget, RdpAccountant
from pate.aggregators import Aggregator, ExpectedRelease, expected_release
from pate.pricing.budgets import has_given_noise
from pate.pricing.changes import MAX_TEACHERS, MIN_GROUPS_PER_TEACHER
from pate.pricing.expectations import AGREEMENT_SHARES, is_plan_useful
from pate.pricing.priced_release import plan_or_none
from pate.validation import InvalidValue, require_count
from pate.votes.shape import VoteShape

# The number of records per teacher with which half of the teachers vote for a label that a query has.
_RECORDS_OF_HALF_AGREEMENT = 60.0
# The numbers of teachers and of queries that are tried.
_TEACHER_COUNTS = (20, 30, 50, 70, 100, 150, 200, 300, 400, 600, 800, 1000, 1500, 2000, 3000, 5000)
_QUERY_COUNTS = (50, 100, 200, 400, 600, 1000, 2000)


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

    The most useful release has the most `clear_queries` among those tried that `is_plan_useful` accepts. Teachers with
    more records agree more. The search assumes that r / (r + 60) of the teachers vote for a label, if each has r
    private groups. This rule of thumb is about right for the embedded data set. The Renyi accountant computes prices.

    Args:
        aggregator: the aggregator, with noise to start from.
        shape: the shape with the number of labels; its other two numbers are not read.
        budget: the budget with the epsilon for which the noise is found.
        num_private: the number of private groups. None for an agreement of 70% with any number of teachers.
        max_queries: the size of the public pool; None for no limit.

    Raises:
        InvalidValue: the budget has no epsilon for which to find noise, there are fewer than 200 private groups or 50
            queries, or no number of teachers gives a useful release.
    """
    if has_given_noise(budget):
        raise InvalidValue("suggest", "true", rule="a target_epsilon to plan for")
    max_teachers = MAX_TEACHERS
    if num_private is not None:
        min_private = _TEACHER_COUNTS[0] * MIN_GROUPS_PER_TEACHER
        require_count("num_private", num_private, minimum=min_private)
        max_teachers = num_private // MIN_GROUPS_PER_TEACHER
    budget_with_renyi_accountant = replace(budget, accountant=RdpAccountant)
    teacher_counts = [count for count in _TEACHER_COUNTS if count <= max_teachers]
    middle_of_teacher_counts = teacher_counts[len(teacher_counts) // 2]
    suggestions_of_numbers: list[Suggestion] = []
    for num_queries in _QUERY_COUNTS:
        if max_queries is not None and num_queries > max_queries:
            continue
        middle_vote_shape = replace(
            shape, num_teachers=middle_of_teacher_counts, num_queries=num_queries
        )
        planned_release = plan_or_none(
            aggregator, vote_shape=middle_vote_shape, budget=budget_with_renyi_accountant
        )
        if planned_release is None:
            continue
        # The noise hardly depends on the number of teachers, so one plan serves for all of them.
        for num_teachers in teacher_counts:
            suggestion_of_numbers = _suggestion_of(
                planned_release.aggregator,
                vote_shape=replace(planned_release.shape, num_teachers=num_teachers),
                num_private_groups=num_private,
            )
            suggestions_of_numbers.append(suggestion_of_numbers)
    suggestions_of_numbers.sort(key=attrgetter("clear_queries"), reverse=True)
    for best_suggestion in suggestions_of_numbers:
        best_vote_shape = replace(
            shape,
            num_teachers=best_suggestion.num_teachers,
            num_queries=best_suggestion.num_queries,
        )
        planned_release = plan_or_none(
            aggregator, vote_shape=best_vote_shape, budget=budget_with_renyi_accountant
        )
        if planned_release is not None and is_plan_useful(planned_release):
            return _suggestion_of(
                planned_release.aggregator,
                vote_shape=planned_release.shape,
                num_private_groups=num_private,
            )
        if best_suggestion.clear_queries < 1:
            break
    rule = f"an epsilon with a useful release for some number of teachers; up to {teacher_counts[-1]} were tried"
    raise InvalidValue("target_epsilon", budget.epsilon, rule=rule)


def _suggestion_of(
    aggregator: Aggregator, *, vote_shape: VoteShape, num_private_groups: int | None
) -> Suggestion:
    """Returns a suggestion of the numbers of queries and teachers in a shape, with the answers that they lead to.

    With r private groups for each teacher, a share r / (r + 60) of the teachers is assumed to agree.

    Args:
        aggregator: the aggregator with its noise.
        vote_shape: the number of queries, labels and teachers.
        num_private_groups: the number of private groups; None for an agreement of 70%.
    """
    records_per_teacher = None
    agreement = AGREEMENT_SHARES["typical"]
    if num_private_groups is not None:
        records_per_teacher = num_private_groups / vote_shape.num_teachers
        agreement = records_per_teacher / (records_per_teacher + _RECORDS_OF_HALF_AGREEMENT)
    expected = expected_release(aggregator, vote_shape, agreement=agreement)
    # A query counts by the square of how far its bits are better than chance, and by the squared agreement, since
    # teachers with few records are often wrong together.
    better_than_chance = max(expected.present + expected.absent - 1, 0.0)
    clear_share = expected.answered * (better_than_chance * agreement) ** 2
    num_equivalent_clear_queries = vote_shape.num_queries * clear_share
    return Suggestion(
        num_teachers=vote_shape.num_teachers,
        num_queries=vote_shape.num_queries,
        records_per_teacher=records_per_teacher,
        agreement=agreement,
        expected=expected,
        clear_queries=num_equivalent_clear_queries,
    )
