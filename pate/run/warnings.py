"""What is allowed but rarely wanted: one line per warning, before anything is trained or spent."""

from __future__ import annotations

from collections.abc import Iterator

from pate.aggregators import Aggregator
from pate.data import Dataset
from pate.teachers import Voter

_FEW_RECORDS = 10


def plan_warnings(dataset: Dataset, aggregator: Aggregator, teacher: Voter, *, num_teachers: int) -> Iterator[str]:
    """One line for each; they look at true labels, so they are the data owner's."""
    records = len(dataset.private) / num_teachers
    if teacher.is_trained and records < _FEW_RECORDS:
        remedy = "fewer teachers, or experiment=centered_votes, whose teachers need one each"
        few = f"{records:.1f} private records per teacher teach it little"
        yield f"teacher.num_teachers={num_teachers}: {few}; {remedy}"
    if aggregator.single_label and dataset.private.labels.sum(axis=1).mean() > 1:
        yield warning_of_one_label(aggregator)


def warning_of_one_label(aggregator: Aggregator) -> str:
    """What an aggregator for one label per sample does to samples with several."""
    name = type(aggregator).__name__
    return f"aggregator={name}: names one label per query; any others that it has count as absent"
