"""What is allowed but rarely wanted: one line per warning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.aggregators import Aggregator
from pate.data import Dataset
from pate.data.table.remarks import unlike_public
from pate.teachers import Voter

if TYPE_CHECKING:  # torch is not loaded for a warning
    from pate.models.student import Predictor, Student

_FEW_RECORDS = 10
_UNEVEN = 20  # times the width of the middle column
_ROWS = 5000
_SHOWN = 5
_FEW_GROUPS, _LARGE_SHARE = 6, 0.2
_PURPOSE = {"private": "learn it from", "test": "measure it by"}


def plan_warnings(
    dataset: Dataset, aggregator: Aggregator, teacher: Voter, student: Student, *, num_teachers: int
) -> Iterator[str]:
    """Before anything is trained or spent, one line for each; they look at true labels: for the data owner alone."""
    setting = f"teacher.num_teachers={num_teachers}"
    if teacher.is_trained:
        remedy = "fewer teachers, or experiment=centered_votes, whose teachers need one each"
        yield from few_records(setting, len(dataset.private), num_teachers, remedy)
    yield from dataset.notes
    yield from uneven_records(dataset)
    if not dataset.public_labeled:
        yield "data: the public records have no labels, so how right teachers and release are is not measured"
    for split, records in (("private", dataset.private), ("test", dataset.test)):
        if dataset.preprocessing is not None:
            yield from unlike_public(f"data.{split}", dataset.preprocessing, records.inputs)
    if aggregator.single_label and dataset.private.labels.sum(axis=1).mean() > 1:
        yield warning_of_one_label(aggregator)
    minding = [name for name, part in (("teacher", teacher), ("student", student)) if part.minds_scale]
    if minding and dataset.kind == "features":
        yield from uneven_inputs(" and ".join(minding), dataset.public.inputs[:_ROWS])


def few_records(setting: str, num_records: int, num_teachers: int, remedy: str) -> Iterator[str]:
    """Of an ensemble whose teachers learn little, or that is none."""
    records = num_records / num_teachers
    if num_teachers == 1:
        yield f"{setting}: one teacher is no ensemble: one record can change its whole vote; take 50 or more"
    elif records < _FEW_RECORDS:
        yield f"{setting}: {records:.1f} private records per teacher teach it little; {remedy}"


def uneven_records(dataset: Dataset) -> Iterator[str]:
    """Of labels that no record or every one has, and of a group that has a large part of the records."""
    for split, labels in (("private", dataset.private.labels), ("test", dataset.test.labels)):
        shares = labels.mean(axis=0)
        for share, said, effect in (
            (0.0, f"no {split} record has", "no positive"),
            (1.0, f"every {split} record has", "nothing else"),
        ):
            names = [name for name, found in zip(dataset.label_names, shares, strict=True) if found == share]
            if names:
                shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
                yield f"data.labels: {said} {shown}: there is {effect} to {_PURPOSE[split]}"
    groups, counts = np.unique(dataset.private.group_ids, return_counts=True)
    if len(groups) >= _FEW_GROUPS and counts.max() >= _LARGE_SHARE * counts.sum():
        found = f"one has {counts.max()} of {counts.sum()} private records"
        yield f"data.group: {found}; all are with one teacher, which has one vote like the others"


def uneven_inputs(parts: str, public_inputs: ArrayLike) -> Iterator[str]:
    """Of linear models on columns of very different widths, judged by public inputs alone."""
    rows = np.asarray(public_inputs, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 2:
        return
    with np.errstate(invalid="ignore"):
        widths = np.nanstd(np.where(np.isfinite(rows), rows, np.nan), axis=0)
    widths = widths[widths > 0]
    if len(widths) > 1 and widths.max() > _UNEVEN * np.median(widths):
        times = f"{widths.max() / np.median(widths):.0f} times as wide as the middle one"
        yield f"data: the widest column of the public inputs is {times}, and linear: {parts}; scale the columns"


def student_is_the_prior(
    model: Predictor, public_inputs: NDArray[np.float32], *, helps: str = "less noise in the release"
) -> Iterator[str]:
    """Of a student that says the same of every public sample: what was released taught it nothing.

    Args:
        model: the student.
        public_inputs: that it is asked about.
        helps: against noise, of the aggregator where that is known.
    """
    rows = public_inputs[:_ROWS]
    if len(rows) > 1 and len(np.unique(model.predict(rows), axis=0)) == 1:
        yield f"student: it predicts the same labels for every public sample, as the prior does; what helps: {helps}"


def warning_of_one_label(aggregator: Aggregator) -> str:
    """What an aggregator for one label per sample does to samples with several."""
    name = type(aggregator).__name__
    return f"aggregator={name}: names one label per query; any others that it has count as absent"
