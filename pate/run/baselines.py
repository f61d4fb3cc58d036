"""The models that a report compares the student with.

One model learns from the majority of the teachers' votes without noise, one from the true labels of the queries, and
one from all private records. If the student of rounds began at public data or at an earlier release, this start is one
more model.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pate.aggregators import TrainingSet
from pate.data import Dataset, Split
from pate.data.array_digest import add_shape_and_entries
from pate.models import StudentModel
from pate.run.ceiling import ceiling_recipes, train_on_all_records
from pate.run.record_sample import MAX_ROWS, baseline_rows, is_sampled, sample_in_words
from pate.run.reference_models import ReferenceModels, reference_key
from pate.run.students import StudentTrainer, TrainedStudent, digest_of_training

# The names of the baselines in report.json. Several runs share the true-label student and the all-records model.
_MAJORITY_VOTE_STUDENT = "majority_vote_student"
_TRUE_LABEL_STUDENT = "true_label_student"
_ALL_RECORDS_MODEL = "all_records_model"
_START_ALONE = "start_alone"
# The seed of models that several runs share. It needs no secrecy, as these models are never published.
_REFERENCE_SEED = 0
# A model of all private records is trained by default if the private inputs, or their sample, hold at most this many
# numbers, by the kind of the data set. A linear model of features takes minutes then, and so does a network of images.
_MAX_DEFAULT_INPUT_SIZE = {"features": 2 * 10**8, "images": 2 * 10**7}


@dataclass(frozen=True)
class BaselineModels:
    """The trained models that a report compares the student with. No epsilon covers them: only the owner may have them.

    Attributes:
        model_by_name: the trained models, by their names in report.json.
        reasons_left_out: for each model that was not trained, the reason, by the model's name in report.json.
        private_samples_in_words: for each model that learned from a sample of the private records, the sample in words,
            by the model's name in report.json.
    """

    model_by_name: Mapping[str, StudentModel]
    reasons_left_out: Mapping[str, str]
    private_samples_in_words: Mapping[str, str]


@dataclass(frozen=True, eq=False)  # compared by identity, as its parts are
class MajorityLabels:
    """The labels of the queries by the votes without noise, from which a baseline learns.

    Attributes:
        training_set: the queries with these labels; None if nothing was computed.
        reason_without: the reason why nothing was computed; "" if it was.
        record_sample_in_words: the sample of private records that the votes came from, in words; "" if there is none.
    """

    training_set: TrainingSet | None
    reason_without: str = ""
    record_sample_in_words: str = ""


def train_baselines(
    student_trainer: StudentTrainer,
    *,
    dataset: Dataset,
    queries: Split,
    majority_labels: MajorityLabels,
    queries_with_start_weights: TrainingSet | None,
    wants_all_records_model: bool | None,
    all_records_folder: Path,
    shared_model_store: ReferenceModels,
    seed: int | None,
) -> BaselineModels:
    """Trains the models that the student is compared with; a model that was trained before is read from its file.

    The student of the true labels and the model of all private records depend on no release, so several runs share
    them. They are trained with one seed in all runs. But the student of the true labels has the seed of the run's
    student if the run has a seed. It also has that seed if its recipe is not of this package, and so not shared.

    Args:
        student_trainer: the trainer of the student, which also trains these models. Their recipe is that of the
            student, except for the model of all private records (`ceiling_recipes`).
        dataset: the data set, whose private records one of the models learns from.
        queries: the public samples that teachers voted on, with their true labels if these are known.
        majority_labels: the queries, labeled by the majority of the votes without noise.
        queries_with_start_weights: a training set of the queries with the coefficients (`TrainingSet.weights`) of the
            public model from which the student of a release in rounds started; None if it had no such start.
        wants_all_records_model: true trains a model of all private records, and false does not. None trains it if that
            is quick; if the records are many, it learns from a sample.
        all_records_folder: the folder in which the run keeps its copy of the model of all private records.
        shared_model_store: the models that runs in the same folder of outputs share.
        seed: the seed of the run; None if it has none.
    """
    model_by_name: dict[str, StudentModel] = {}
    reasons_left_out: dict[str, str] = {}
    private_samples_in_words: dict[str, str] = {}
    if majority_labels.training_set is None:
        reasons_left_out[_MAJORITY_VOTE_STUDENT] = majority_labels.reason_without
    else:
        trained_student = student_trainer.train(
            model_name=_MAJORITY_VOTE_STUDENT, training_set=majority_labels.training_set
        )
        model_by_name[_MAJORITY_VOTE_STUDENT] = trained_student.model
    if majority_labels.record_sample_in_words:
        private_samples_in_words[_MAJORITY_VOTE_STUDENT] = majority_labels.record_sample_in_words
    if queries_with_start_weights is not None:
        model_by_name[_START_ALONE] = student_trainer.train(
            model_name=_START_ALONE, training_set=queries_with_start_weights
        ).model
    if dataset.public_labeled:
        true_labels = queries.labels
        is_label_known = queries.known
        truly_labeled_queries = TrainingSet(
            queries.inputs, labels=true_labels, known=is_label_known
        )
        student_seed = _REFERENCE_SEED if seed is None else student_trainer.seed
        model_by_name[_TRUE_LABEL_STUDENT] = _true_label_student(
            student_trainer,
            truly_labeled_queries=truly_labeled_queries,
            shared_model_store=shared_model_store,
            seed=student_seed,
        )
    else:
        reasons_left_out[_TRUE_LABEL_STUDENT] = "the public samples have no labels"
    reason = reason_without_all_records(wants_all_records_model, dataset=dataset)
    if reason is None:
        private_records_or_sample = dataset.private
        if is_sampled(private_records_or_sample, wants_all_records_model=wants_all_records_model):
            private_records_or_sample = private_records_or_sample.take(
                baseline_rows(private_records_or_sample)
            )
            private_samples_in_words[_ALL_RECORDS_MODEL] = sample_in_words(
                num_taken=len(private_records_or_sample), num_records=len(dataset.private)
            )
        model_by_name[_ALL_RECORDS_MODEL] = _all_records_model(
            student_trainer,
            private_records_or_sample=private_records_or_sample,
            model_folder=all_records_folder,
            shared_model_store=shared_model_store,
        )
    else:
        reasons_left_out[_ALL_RECORDS_MODEL] = reason
    return BaselineModels(
        model_by_name=model_by_name,
        reasons_left_out=reasons_left_out,
        private_samples_in_words=private_samples_in_words,
    )


def reason_without_all_records(
    wants_all_records_model: bool | None, *, dataset: Dataset
) -> str | None:
    """Returns the reason why no model of all private records is trained, or None if the model is trained.

    Args:
        wants_all_records_model: the setting; None trains the model only if the private inputs, or their sample, hold
            few enough numbers.
        dataset: the data set with the private records.
    """
    if wants_all_records_model is not None:
        return None if wants_all_records_model else "all_records=false"
    num_values = min(len(dataset.private), MAX_ROWS) * math.prod(dataset.input_shape)
    if num_values <= _MAX_DEFAULT_INPUT_SIZE[dataset.kind]:
        return None
    return f"it takes long on {num_values:,} numbers of private inputs; all_records=true trains it"


def has_all_records_model(model_folder: Path) -> bool:
    """Returns True if `model_folder` holds the file of a model, such as that of all private records; it is not read."""
    return (model_folder / "student.json").exists()


def _true_label_student(
    student_trainer: StudentTrainer,
    *,
    truly_labeled_queries: TrainingSet,
    shared_model_store: ReferenceModels,
    seed: int,
) -> StudentModel:
    """Returns the student that learned from the true labels of the queries.

    It is read if a run in the same folder of outputs has trained it by the same recipe, on the same queries and pool,
    with the same seed. A recipe that is not of this package is not shared; it is trained with the trainer's own seed.

    Args:
        student_trainer: the trainer of the run's students, with their recipe.
        truly_labeled_queries: the queries with their true labels.
        shared_model_store: the models that runs in the same folder of outputs share.
        seed: the seed of the training of a student that is shared.
    """
    pool_hasher = hashlib.sha256()
    add_shape_and_entries(pool_hasher, array=student_trainer.pool)
    digest_of_labeled_queries = digest_of_training(truly_labeled_queries, seed=seed)
    dependencies_digest = reference_key(
        model_name=_TRUE_LABEL_STUDENT,
        student_recipes=[student_trainer.student_recipe],
        seed=seed,
        record_digests=(digest_of_labeled_queries, pool_hasher.hexdigest()),
    )
    if dependencies_digest is None:
        return student_trainer.train(
            model_name=_TRUE_LABEL_STUDENT, training_set=truly_labeled_queries
        ).model

    def train_student() -> TrainedStudent:
        return student_trainer.fit(
            model_name=_TRUE_LABEL_STUDENT, training_set=truly_labeled_queries, seed=seed
        )

    trained_student = shared_model_store.model(
        model_name=_TRUE_LABEL_STUDENT,
        model_words="true label student",
        dependencies_digest=dependencies_digest,
        train_model=train_student,
    )
    student_trainer.show_curve(model_name=_TRUE_LABEL_STUDENT, trained_student=trained_student)
    return trained_student.model


def _all_records_model(
    student_trainer: StudentTrainer,
    *,
    private_records_or_sample: Split,
    model_folder: Path,
    shared_model_store: ReferenceModels,
) -> StudentModel:
    """Returns the model that learned from private records without privacy, and keeps a copy in the run's own folder.

    It is read from that copy, or from the models that runs share, if it is there. Otherwise it is trained.

    Args:
        student_trainer: the trainer of the run's students, from whose recipe the model's recipe derives.
        private_records_or_sample: the private records that the model learns from: all of them, or a sample.
        model_folder: the folder of the run's own copy.
        shared_model_store: the models that runs in the same folder of outputs share.
    """
    if has_all_records_model(model_folder):
        return StudentModel.load(model_folder)

    def train_model() -> TrainedStudent:
        with student_trainer.monitor.stage("training the all-records model") as advance:
            model = train_on_all_records(
                student_trainer.student_recipe,
                records=private_records_or_sample,
                seed=_REFERENCE_SEED,
                on_epoch=lambda epoch, _named_losses: advance(epoch),
            )
        return TrainedStudent(model=model, named_losses_of_epochs=())

    dependencies_digest = reference_key(
        model_name=_ALL_RECORDS_MODEL,
        student_recipes=ceiling_recipes(student_trainer.student_recipe),
        seed=_REFERENCE_SEED,
        record_digests=(private_records_or_sample.digest(),),
    )
    model = shared_model_store.model(
        model_name=_ALL_RECORDS_MODEL,
        model_words="all-records model",
        dependencies_digest=dependencies_digest,
        train_model=train_model,
    ).model
    model.save(model_folder)
    return model
