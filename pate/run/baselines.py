"""The models that a student is compared with: of noiseless votes, of true labels, of all private records."""

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
    """Models beside the student, by their names in report.json. No epsilon covers them: they are the owner's alone.

    Attributes:
        models: the trained models, by name.
        left_out: the reason why a model was not trained, by name.
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
    """Trains or reads back the models that the student is compared with.

    Args:
        students: trains each model as it trains the student.
        dataset: the data; the model of all records learns from its private records.
        queries: the public samples that teachers voted on, with their true labels where they have any.
        majority: the queries with the majority of the noiseless votes.
        all_records: whether a model of all private records is trained; None trains it where that is quick.
        all_records_folder: where the model of all private records is kept.
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
    """Returns the reason to leave out the model of all private records; None where it is trained.

    Without a setting (`all_records` None) the model is trained where the private inputs are few enough numbers.
    """
    if all_records is not None:
        return None if all_records else "all_records=false"
    num_values = len(dataset.private) * math.prod(dataset.input_shape)
    if num_values <= _MAX_NUMBERS_UNASKED[dataset.kind]:
        return None
    return f"it takes long on {num_values:,} numbers of private inputs; all_records=true trains it"


def has_all_records_model(folder: Path) -> bool:
    """Returns whether the model of all private records was trained before."""
    return (folder / "student.json").exists()


def _all_records_model(students: StudentTraining, dataset: Dataset, folder: Path) -> StudentModel:
    """Trains the model of all private records, or reads it back."""
    if has_all_records_model(folder):
        return StudentModel.load(folder)
    with students.monitor.stage("training the all-records model"):
        model = train_on_all_records(students.student, dataset, seed=students.seed)
    model.save(folder)
    return model
