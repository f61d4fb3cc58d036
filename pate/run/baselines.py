"""The models that a report compares the student with.

One model learns from the majority of the teachers' votes without noise, one from the true labels of the queries, and
one from all private records.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pate.aggregators import TrainingSet
from pate.data import Dataset, Split
from pate.models import StudentModel
from pate.run.ceiling import train_on_all_records
from pate.run.students import StudentTraining

# The most numbers of all private inputs together for which a model of all private records is trained without a word
# of the user: a linear model of features takes minutes then, and so does a network of images.
_MAX_NUMBERS_UNASKED = {"features": 2 * 10**8, "images": 2 * 10**7}


@dataclass(frozen=True)
class BaselineModels:
    """The trained models that a report compares the student with. No epsilon covers them: only the owner may have them.

    Attributes:
        models: the trained models, by their names in report.json.
        left_out: for each model that was not trained, the reason, by the model's name in report.json.
    """

    models: Mapping[str, StudentModel]
    left_out: Mapping[str, str]


def train_baselines(
    students: StudentTraining,
    dataset: Dataset,
    queries: Split,
    *,
    majority: TrainingSet,
    all_records: bool | None,
    all_records_folder: Path,
) -> BaselineModels:
    """Trains the models that the student is compared with; a model that was trained before is read from its file.

    Args:
        students: the training of the student, which also trains these models with the same recipe.
        dataset: the data set, whose private records one of the models learns from.
        queries: the public samples that teachers voted on, with their true labels if these are known.
        majority: the queries, labeled by the majority of the votes without noise.
        all_records: true trains a model of all private records, and false does not; None trains the model if it is
            quick.
        all_records_folder: the folder in which the model of all private records is kept.
    """
    models = {"majority_vote_student": students.train("majority_vote_student", majority).model}
    left_out: dict[str, str] = {}
    if dataset.public_labeled:
        true_labels = TrainingSet(queries.inputs, queries.labels)
        models["true_label_student"] = students.train("true_label_student", true_labels).model
    else:
        left_out["true_label_student"] = "the public samples have no labels"
    reason = reason_without_all_records(all_records, dataset)
    if reason is None:
        models["all_records_model"] = _all_records_model(students, dataset, all_records_folder)
    else:
        left_out["all_records_model"] = reason
    return BaselineModels(models, left_out)


def reason_without_all_records(all_records: bool | None, dataset: Dataset) -> str | None:
    """Returns the reason why no model of all private records is trained, or None if the model is trained.

    Args:
        all_records: the setting; None trains the model only if the private inputs hold few enough numbers.
        dataset: the data set with the private records.
    """
    if all_records is not None:
        return None if all_records else "all_records=false"
    num_values = len(dataset.private) * math.prod(dataset.input_shape)
    if num_values <= _MAX_NUMBERS_UNASKED[dataset.kind]:
        return None
    return f"it takes long on {num_values:,} numbers of private inputs; all_records=true trains it"


def has_all_records_model(folder: Path) -> bool:
    """Returns true if `folder` holds a trained model of all private records."""
    return (folder / "student.json").exists()


def _all_records_model(students: StudentTraining, dataset: Dataset, folder: Path) -> StudentModel:
    """Returns the model of all private records: reads it from `folder`, or trains it and writes it there."""
    if has_all_records_model(folder):
        return StudentModel.load(folder)
    with students.monitor.stage("training the all-records model"):
        model = train_on_all_records(students.student, dataset, seed=students.seed)
    model.save(folder)
    return model
