"""The warnings of a run: sentences on properties of its plan or its data that are allowed but rarely intended.

Some warnings are computed from private records, such as those on labels and groups, so only the owner may see them.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike

from pate.aggregators import Aggregator
from pate.array_types import Float32Array
from pate.data import Dataset
from pate.errors import NOT_SHOWN, Doubt
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
# The largest group is warned of where it has a fifth of the private records, unless so few groups make that likely.
_LARGE_SHARE = 0.2
_MIN_GROUPS = 6
_PURPOSE = {"private": "learn it from", "test": "measure it by"}


def plan_warnings(
    dataset: Dataset,
    *,
    aggregator: Aggregator,
    teacher_recipe: Voter,
    student_recipe: Student,
    num_teachers: int,
) -> Iterator[str]:
    """Yields the warnings on a run's data and parts that are known before anything is trained or spent, one line each.

    Args:
        dataset: the data set.
        aggregator: the aggregator that turns votes into labels.
        teacher_recipe: the recipe of the teachers.
        student_recipe: the recipe of the student.
        num_teachers: the number of teachers.
    """
    if teacher_recipe.is_trained:
        remedy = "fewer teachers, or experiment=centered_votes, whose teachers need one each"
        doubts = few_records_doubts(
            num_records=len(dataset.private), num_teachers=num_teachers, remedy=remedy
        )
        yield from map(TRAIN.doubt_line, doubts)
    yield from dataset.notes
    yield from label_and_group_warnings(dataset)
    if not dataset.public_labeled:
        yield "data: the public records have no labels, so how right teachers and release are is not measured"
    if aggregator.single_label and dataset.private.labels_per_record > 1:
        yield one_label_per_query_warning(aggregator)
    linear_parts_of_run = []
    if teacher_recipe.is_scale_sensitive:
        linear_parts_of_run.append("teacher")
    if student_recipe.is_scale_sensitive:
        linear_parts_of_run.append("student")
    linear_parts_in_words = " and ".join(linear_parts_of_run)
    if linear_parts_of_run and dataset.kind == "features":
        yield from map(
            str,
            uneven_inputs_doubts(
                linear_parts_in_words=linear_parts_in_words,
                public_inputs=dataset.public.inputs[:_MAX_ROWS],
            ),
        )
    if linear_parts_of_run and dataset.kind == "images":
        yield (
            f"data: the inputs are raw pixels, and linear: {linear_parts_in_words}; features=patches helps, "
            f"or {_LOOKS_AT_PICTURES}"
        )


def remedies_of(
    aggregator: Aggregator, teacher_recipe: Voter, dataset: Dataset
) -> Mapping[str, str]:
    """Returns advice for each cause of a student's loss, as texts by the cause, such as "noise" or "the teachers".

    The texts are those of `aggregator.remedies`, with one exception: for trained teachers, the text of the key
    "the teachers" may be replaced by advice that suits the kind of the teachers and of the inputs.
    """
    remedies = dict(aggregator.remedies)
    if not teacher_recipe.is_trained or "the teachers" not in remedies:
        return remedies
    if dataset.kind == "images" and teacher_recipe.is_scale_sensitive:
        remedies["the teachers"] = (
            f"features=patches, or {_LOOKS_AT_PICTURES}, or more records for each teacher"
        )
    elif dataset.kind == "images":
        remedies["the teachers"] = "more records for each teacher, more epochs, or features=patches"
    elif not teacher_recipe.is_scale_sensitive:
        remedies["the teachers"] = "more records for each teacher, or other features"
    return remedies


def few_records_doubts(num_records: int, num_teachers: int, remedy: str) -> Iterator[Doubt]:
    """Yields a doubt if a teacher has under 10 records on average, or if there is only one teacher.

    Args:
        num_records: the number of private records.
        num_teachers: the number of teachers.
        remedy: advice at the end of the doubt about few records.
    """
    records = num_records / num_teachers
    if num_teachers == 1:
        text = "one teacher is no ensemble: one record can change its whole vote; take 50 or more"
        yield Doubt(name="num_teachers", value=num_teachers, text=text)
    elif records < _MIN_RECORDS_PER_TEACHER:
        text = f"{records:.1f} private records per teacher teach it little; {remedy}"
        yield Doubt(name="num_teachers", value=num_teachers, text=text)


def label_and_group_warnings(dataset: Dataset) -> Iterator[str]:
    """Yields warnings on labels of the private and test records, and on large groups of private records.

    One kind is for labels that no record of a split has, or every record; each warning names up to five of them. The
    other kind is for the largest group, if it has a fifth of the private records or more, and there are 6 groups or
    more.
    """
    for name, split in (("private", dataset.private), ("test", dataset.test)):
        for share_of_records, whose, effect in (
            (0.0, "no", "no positive"),
            (1.0, "every", "nothing else"),
        ):
            label_columns = np.flatnonzero(split.label_shares == share_of_records)
            label_names = [dataset.label_names[column] for column in label_columns]
            if label_names:
                listed = ", ".join(label_names[:_MAX_NAMES])
                if len(label_names) > _MAX_NAMES:
                    listed += f" and {len(label_names) - _MAX_NAMES} more"
                yield f"data.labels: {whose} {name} record has {listed}: there is {effect} to {_PURPOSE[name]}"
    group_ids, num_records_of_group = np.unique(dataset.private.group_ids, return_counts=True)
    if (
        len(group_ids) >= _MIN_GROUPS
        and num_records_of_group.max() >= _LARGE_SHARE * num_records_of_group.sum()
    ):
        largest = (
            f"one has {num_records_of_group.max()} of {num_records_of_group.sum()} private records"
        )
        yield f"data.group: {largest}; all are with one teacher, which has one vote like the others"


def uneven_inputs_doubts(linear_parts_in_words: str, public_inputs: ArrayLike) -> Iterator[Doubt]:
    """Yields a doubt if linear models learn from columns of which one is far wider than the others.

    The widest column is far wider if its standard deviation is over 20 times the median one of all columns that vary.
    Only public inputs are examined.

    Args:
        linear_parts_in_words: the parts of the run that are linear, such as `teacher and student`.
        public_inputs: the inputs of public samples, `[num_samples, num_features]`.
    """
    input_rows = np.asarray(public_inputs, dtype=np.float64)
    if input_rows.ndim != 2 or len(input_rows) < 2:
        return
    with np.errstate(invalid="ignore"):
        std_of_columns = np.nanstd(np.where(np.isfinite(input_rows), input_rows, np.nan), axis=0)
    std_of_columns = std_of_columns[std_of_columns > 0]
    if len(std_of_columns) > 1 and std_of_columns.max() > _MAX_WIDTH_RATIO * np.median(
        std_of_columns
    ):
        times = f"{std_of_columns.max() / np.median(std_of_columns):.0f} times as wide as the middle one"
        text = (
            f"the widest column of the public inputs is {times}, and linear: {linear_parts_in_words}; "
            "scale the columns"
        )
        yield Doubt(name="data", value=NOT_SHOWN, text=text)


def constant_student_warnings(
    model: Predictor,
    public_inputs: Float32Array,
    *,
    remedy: str = "less noise in the release",
) -> Iterator[str]:
    """Yields a warning if a student predicts the same labels for all public samples: it has learned nothing.

    Args:
        model: the student.
        public_inputs: the inputs of the public samples, one entry for each sample; the first 5,000 are used.
        remedy: advice that the warning ends with.
    """
    public_rows = public_inputs[:_MAX_ROWS]
    if len(public_rows) > 1 and len(np.unique(model.predict(public_rows), axis=0)) == 1:
        yield f"student: it predicts the same labels for every public sample, as the prior does; what helps: {remedy}"


def one_label_per_query_warning(aggregator: Aggregator) -> str:
    """Returns the warning that an aggregator names one label for each query, and that all other labels count as absent.

    The caller has checked that the aggregator names one label, and that records have several labels.
    """
    aggregator_name = type(aggregator).__name__
    return f"aggregator={aggregator_name}: names one label per query; any others that it has count as absent"
