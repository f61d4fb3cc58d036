"""The warnings of a run: a line for each property of its plan or data that is allowed and rarely intended.

Most of them are computed from true labels, so they are for the data owner alone.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.aggregators import Aggregator
from pate.data import Dataset
from pate.errors import UNSAID, Doubt
from pate.models import Student, Voter
from pate.models.student_model import Predictor
from pate.setting_names import TRAIN

# The number of private records per teacher below which a teacher hardly learns.
_MIN_RECORDS_PER_TEACHER = 10
_LOOKS_AT_PICTURES = "teacher=cnn student=cnn, which look at pictures"
# The widest column is doubted where it is so many times as wide as the median one.
_MAX_WIDTH_RATIO = 20
# The most public rows that are looked at, and the most labels that a line names.
_MAX_ROWS = 5000
_MAX_NAMES = 5
# A group is named where it has a fifth of the private records, unless so few groups make that likely.
_LARGE_SHARE = 0.2
_MIN_GROUPS = 6
_PURPOSE = {"private": "learn it from", "test": "measure it by"}


def plan_warnings(
    dataset: Dataset, aggregator: Aggregator, teacher: Voter, student: Student, *, num_teachers: int
) -> Iterator[str]:
    """Yields the warnings that are known before anything is trained or spent, each as one line."""
    if teacher.is_trained:
        remedy = "fewer teachers, or experiment=centered_votes, whose teachers need one each"
        doubts = few_records_doubts(len(dataset.private), num_teachers, remedy)
        yield from map(TRAIN.doubt_line, doubts)
    yield from dataset.notes
    yield from uneven_records_warnings(dataset)
    if not dataset.public_labeled:
        yield "data: the public records have no labels, so how right teachers and release are is not measured"
    if aggregator.single_label and dataset.private.labels.sum(axis=1).mean() > 1:
        yield one_label_warning(aggregator)
    linear_parts = []
    if teacher.is_scale_sensitive:
        linear_parts.append("teacher")
    if student.is_scale_sensitive:
        linear_parts.append("student")
    parts = " and ".join(linear_parts)
    if linear_parts and dataset.kind == "features":
        yield from map(str, uneven_inputs_doubts(parts, dataset.public.inputs[:_MAX_ROWS]))
    if linear_parts and dataset.kind == "images":
        yield f"data: the inputs are raw pixels, and linear: {parts}; features=patches helps, or {_LOOKS_AT_PICTURES}"


def remedies_of(aggregator: Aggregator, teacher: Voter, dataset: Dataset) -> Mapping[str, str]:
    """Returns what helps against each loss of the verdict, in words, by the loss.

    The aggregator has remedies of its own. Those against weak teachers depend on the teachers and the inputs.
    """
    remedies = dict(aggregator.remedies)
    if not teacher.is_trained or "the teachers" not in remedies:
        return remedies
    if dataset.kind == "images" and teacher.is_scale_sensitive:
        remedies["the teachers"] = (
            f"features=patches, or {_LOOKS_AT_PICTURES}, or more records for each teacher"
        )
    elif dataset.kind == "images":
        remedies["the teachers"] = "more records for each teacher, more epochs, or features=patches"
    elif not teacher.is_scale_sensitive:
        remedies["the teachers"] = "more records for each teacher, or other features"
    return remedies


def few_records_doubts(num_records: int, num_teachers: int, remedy: str) -> Iterator[Doubt]:
    """Yields a doubt about an ensemble whose teachers have few records, or that has a single teacher."""
    records = num_records / num_teachers
    if num_teachers == 1:
        text = "one teacher is no ensemble: one record can change its whole vote; take 50 or more"
        yield Doubt("num_teachers", num_teachers, text)
    elif records < _MIN_RECORDS_PER_TEACHER:
        text = f"{records:.1f} private records per teacher teach it little; {remedy}"
        yield Doubt("num_teachers", num_teachers, text)


def uneven_records_warnings(dataset: Dataset) -> Iterator[str]:
    """Yields lines on labels that no record or every record has, and on a group with a fifth of the records."""
    for split, labels in (("private", dataset.private.labels), ("test", dataset.test.labels)):
        for share, whose, effect in ((0.0, "no", "no positive"), (1.0, "every", "nothing else")):
            columns = np.flatnonzero(labels.mean(axis=0) == share)
            names = [dataset.label_names[column] for column in columns]
            if names:
                listed = ", ".join(names[:_MAX_NAMES])
                if len(names) > _MAX_NAMES:
                    listed += f" and {len(names) - _MAX_NAMES} more"
                yield f"data.labels: {whose} {split} record has {listed}: there is {effect} to {_PURPOSE[split]}"
    groups, counts = np.unique(dataset.private.group_ids, return_counts=True)
    if len(groups) >= _MIN_GROUPS and counts.max() >= _LARGE_SHARE * counts.sum():
        largest = f"one has {counts.max()} of {counts.sum()} private records"
        yield f"data.group: {largest}; all are with one teacher, which has one vote like the others"


def uneven_inputs_doubts(parts: str, public_inputs: ArrayLike) -> Iterator[Doubt]:
    """Yields a doubt about linear models of columns with very different widths, judged by public inputs alone.

    `parts` names the linear parts, such as `teacher and student`.
    """
    rows = np.asarray(public_inputs, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 2:
        return
    with np.errstate(invalid="ignore"):
        widths = np.nanstd(np.where(np.isfinite(rows), rows, np.nan), axis=0)
    widths = widths[widths > 0]
    if len(widths) > 1 and widths.max() > _MAX_WIDTH_RATIO * np.median(widths):
        times = f"{widths.max() / np.median(widths):.0f} times as wide as the middle one"
        text = f"the widest column of the public inputs is {times}, and linear: {parts}; scale the columns"
        yield Doubt("data", UNSAID, text)


def constant_student_warnings(
    model: Predictor,
    public_inputs: NDArray[np.float32],
    *,
    remedy: str = "less noise in the release",
) -> Iterator[str]:
    """Yields a line where a student predicts the same for every public sample, as the release taught it nothing."""
    rows = public_inputs[:_MAX_ROWS]
    if len(rows) > 1 and len(np.unique(model.predict(rows), axis=0)) == 1:
        yield f"student: it predicts the same labels for every public sample, as the prior does; what helps: {remedy}"


def one_label_warning(aggregator: Aggregator) -> str:
    """Returns a line on an aggregator that names one label per sample, where samples have several labels."""
    name = type(aggregator).__name__
    return f"aggregator={name}: names one label per query; any others that it has count as absent"
