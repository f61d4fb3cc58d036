"""The rules that state which teachers, aggregators, students and data sets can be used together in one run.

docs/what-goes-with-what.md shows the same rules as tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pate.errors import NOT_SHOWN, InvalidValue
from pate.votes.source import FunctionVotes, GroupVotes

if TYPE_CHECKING:
    from pate.aggregators import Aggregator
    from pate.data import Dataset
    from pate.models import Student, Voter


def can_read(aggregator: Aggregator, teacher_recipe: Voter) -> bool:
    """Returns True if an aggregator accepts the kind of votes that these teachers cast."""
    return issubclass(teacher_recipe.gives, aggregator.reads)


def has_teachers_as_unit(teacher_recipe: Voter) -> bool:
    """Returns True if the price protects all records of a teacher together, and not a single group of records.

    That is so for all teachers but those whose records vote as private groups (`GroupVotes`).
    """
    return not issubclass(teacher_recipe.gives, GroupVotes)


def can_weigh_groups_in_votes(aggregator: Aggregator, teacher_recipe: Voter) -> bool:
    """Returns True if private groups, each a unit of privacy, may have weights below 1 in the votes.

    That is so if the teachers apply weights and the aggregator's price takes weights into account.
    """
    return issubclass(teacher_recipe.gives, FunctionVotes) and aggregator.budgets_by == "weights"


def can_budget_groups(aggregator: Aggregator, teacher_recipe: Voter) -> bool:
    """Returns True if private groups, each a unit of privacy, may have different epsilons.

    That is so if groups may have weights below 1, or if the aggregator's price allows groups to differ in the number of
    teachers that learn from them.
    """
    return (
        can_weigh_groups_in_votes(aggregator, teacher_recipe) or aggregator.budgets_by == "teachers"
    )


def require_compatible(
    teacher_recipe: Voter, aggregator: Aggregator, *, num_holders: int | None = None
) -> None:
    """Raises `InvalidValue` if the parts of a run can never be used together; the check reads no data.

    Args:
        teacher_recipe: the recipe of the teachers.
        aggregator: the aggregator that turns votes into labels.
        num_holders: the number of holders that the teachers are spread over; None for a run without holders.
    """
    if not can_read(aggregator, teacher_recipe):
        rule = "centered_votes, or teachers that vote yes or no"
        raise InvalidValue("aggregator", type(aggregator).__name__, rule=rule)
    if num_holders is not None and not has_teachers_as_unit(teacher_recipe):
        rule = "no holders=: these teachers protect a group of records, and no holder as a whole"
        raise InvalidValue("teacher", type(teacher_recipe).__name__, rule=rule)


def require_suitable(
    dataset: Dataset,
    *,
    teacher_recipe: Voter,
    aggregator: Aggregator,
    student_recipe: Student,
    num_teachers: int,
    num_queries: int,
) -> None:
    """Raises `InvalidValue` if the parts of a run do not suit a data set.

    A run calls this function before it trains or spends anything.

    Args:
        dataset: the data set.
        teacher_recipe: the recipe of the teachers.
        aggregator: the aggregator that turns votes into labels.
        student_recipe: the recipe of the student.
        num_teachers: the number of teachers; at most the number of private groups.
        num_queries: the number of public samples that teachers vote on; at most the size of the public pool.
    """
    aggregator.check_run()
    num_groups = dataset.private.num_groups
    if num_teachers > num_groups:
        rule = f"at most {num_groups}, the number of private groups"
        raise InvalidValue("num_teachers", num_teachers, rule=rule)
    pool_size = len(dataset.public)
    if num_queries > pool_size:
        rule = f"at most {pool_size}, the public pool"
        raise InvalidValue("num_queries", num_queries, rule=rule)
    teacher_recipe.check(dataset.input_shape)
    student_recipe.check(dataset.input_shape, num_labels=dataset.num_labels)


def require_weighted_groups(
    dataset: Dataset, *, teacher_recipe: Voter, aggregator: Aggregator, num_teachers: int
) -> None:
    """Raises `InvalidValue` if private groups differ in epsilon or weight, and the release would ignore the difference.

    Groups may differ if each has a teacher of its own, and teachers and aggregator take weights into account. Their
    epsilons may also differ if the aggregator allows several teachers for a group.

    Args:
        dataset: the data set, with the budget classes or weights of its private groups.
        teacher_recipe: the recipe of the teachers.
        aggregator: the aggregator that turns votes into labels.
        num_teachers: the number of teachers.
    """
    linked_records = dataset.shared
    is_weighted = linked_records is not None and linked_records.weights is not None
    if dataset.budgets is None and not is_weighted:
        return
    num_groups = dataset.private.num_groups
    if can_weigh_groups_in_votes(aggregator, teacher_recipe) and num_teachers == num_groups:
        return
    if dataset.budgets is not None and aggregator.budgets_by == "teachers":
        return
    setting_name = "data.budget"
    setting_value: object = NOT_SHOWN
    reason = ""
    if dataset.budgets is None and linked_records is not None:
        setting_name = "data.group"
        setting_value = f"[{','.join(linked_records.owner_kinds)}]"
        reason = (
            f"; linked records are {linked_records.num_linked_groups} groups, "
            f"the largest of {linked_records.largest_linked_group}"
        )
    rule = (
        "teacher=kernel aggregator=centered_votes, with one teacher for each "
        f"of {num_groups} private groups{reason}"
    )
    raise InvalidValue(setting_name, setting_value, rule=rule)
