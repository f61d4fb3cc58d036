"""What is allowed and hardly meant: said in one line each, before anything is trained or spent."""

from __future__ import annotations

from collections.abc import Iterator

from pate.aggregators import Aggregator
from pate.data import Dataset
from pate.pricing.query_count import warning_of_one_label
from pate.teachers import KernelTeacher, Teacher

_FEW_RECORDS = 10


def plan_warnings(
    dataset: Dataset, aggregator: Aggregator, teacher: Teacher | KernelTeacher, *, num_teachers: int
) -> Iterator[str]:
    """One line for each; they look at true labels, so they are the data owner's."""
    records = len(dataset.private) / num_teachers
    if isinstance(teacher, Teacher) and records < _FEW_RECORDS:
        remedy = "fewer teachers, or experiment=centered_votes, whose teachers need one each"
        yield f"teacher.num_teachers={num_teachers}: {records:.1f} private records a teacher teach it little; {remedy}"
    if aggregator.single_label and dataset.private.labels.sum(axis=1).mean() > 1:
        yield warning_of_one_label(aggregator)
