"""How many teachers to ask how many queries: the search for the release that tells most at a price."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pate.accounting import RdpAccountant
from pate.aggregators import Aggregator, ExpectedRelease
from pate.pricing.priced_release import Budget, PricedRelease, ReleaseShape, plan_release
from pate.pricing.remedies import MOST_TEACHERS, expectation, expected_release
from pate.validation import InvalidValue, require, require_count

_TYPICAL = 0.7
_HALF_AT = 60.0  # records of a teacher with which half of the teachers name a label
_TEACHERS = (20, 30, 50, 70, 100, 150, 200, 300, 400, 600, 800, 1000, 1500, 2000, 3000, 5000)
_QUERIES = (50, 100, 200, 400, 600, 1000, 2000)
_RECORDS_EACH = 10


@dataclass(frozen=True)
class Suggestion:
    """The numbers of teachers and queries that tell most at a budget; from public numbers alone.

    Attributes:
        num_teachers: T.
        num_queries: Q.
        records_per_teacher: None where the private groups were not counted.
        agreement: the share of the teachers taken to name each label that a query has.
        expected: of such queries.
        clear_queries: what is told, as so many queries without noise: Q times the share answered times the squared
            distance of right bits from chance, times the squared agreement: what few know is often wrong.
    """

    num_teachers: int
    num_queries: int
    records_per_teacher: float | None
    agreement: float
    expected: ExpectedRelease
    clear_queries: float


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
    Only releases count through which unanimous teachers are heard.

    Args:
        aggregator: to start from.
        shape: of which the number of labels is kept.
        budget: with a `target_epsilon`; searched by Renyi's accountant, as in `remedies`.
        num_private: private groups, public.
        max_queries: public samples at most.

    Raises:
        InvalidValue: no `target_epsilon`; fewer than 200 private groups; nothing is heard at this budget.
    """
    require(budget.target_epsilon is not None, "suggest", "true", "a target_epsilon to plan for")
    if num_private is not None:
        lowest = _TEACHERS[0] * _RECORDS_EACH
        require(require_count("num_private", num_private) >= lowest, "num_private", num_private, f"at least {lowest}")
    quick = replace(budget, accountant=RdpAccountant)
    most = MOST_TEACHERS if num_private is None else num_private // _RECORDS_EACH
    teachers = [count for count in _TEACHERS if count <= most]
    found: list[Suggestion] = []
    for queries in (count for count in _QUERIES if max_queries is None or count <= max_queries):
        if (planned := _planned(aggregator, shape, quick, teachers[len(teachers) // 2], queries)) is None:
            continue
        noisy, size = planned.aggregator, planned.shape  # the noise hardly depends on the teachers
        found += [_judged(noisy, replace(size, num_teachers=count), num_private) for count in teachers]
    for best in sorted(found, key=lambda each: -each.clear_queries):
        planned = _planned(aggregator, shape, quick, best.num_teachers, best.num_queries)
        if planned is not None and expectation(planned.aggregator, planned.shape).is_heard:
            return _judged(planned.aggregator, planned.shape, num_private)
        if best.clear_queries < 1:
            break
    raise InvalidValue(
        f"target_epsilon={budget.target_epsilon}: expected an epsilon at which some number of teachers is heard; "
        f"up to {teachers[-1]} were tried"
    )


def _planned(
    aggregator: Aggregator, shape: ReleaseShape, budget: Budget, teachers: int, queries: int
) -> PricedRelease | None:
    try:
        return plan_release(aggregator, replace(shape, num_teachers=teachers, num_queries=queries), budget)
    except InvalidValue:
        return None


def _judged(aggregator: Aggregator, shape: ReleaseShape, num_private: int | None) -> Suggestion:
    """What a release tells of queries on which as many teachers agree as their records allow."""
    records = None if num_private is None else num_private / shape.num_teachers
    agreement = _TYPICAL if records is None else records / (records + _HALF_AT)
    expected = expected_release(aggregator, shape, agreement=agreement)
    beyond_chance = max(expected.present + expected.absent - 1, 0.0)
    told = shape.num_queries * expected.answered * (beyond_chance * agreement) ** 2
    return Suggestion(shape.num_teachers, shape.num_queries, records, agreement, expected, told)
