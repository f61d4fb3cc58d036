"""The training of a run's students, which are kept in files until the run is finished."""

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

import numpy as np

from pate.aggregators import TrainingSet
from pate.array_types import Float32Array
from pate.files.atomic import write_text
from pate.files.digests import file_digest
from pate.files.paths import make_folder
from pate.files.reading import read_json
from pate.files.strict_json import to_json
from pate.models import Student, StudentModel
from pate.progress import Monitor
from pate.report.tensorboard import RunWriter
from pate.validation import InvalidValue

# The files of a kept model, as `StudentModel.save` names them.
_FILES = ("student.json", "student.safetensors")
# The file with the digests of a kept model and of its inputs. It is written last, so it proves that the model is whole.
_DIGESTS_FILE = "trained.json"
# The remedy and the rule in errors about these files.
_REMEDY = "remove it, and the same command trains this model again"
_RULE = "the record of a model that this run has trained"
# The number of rows of inputs that are digested at once, as inputs may be mapped from a file.
_BLOCK_ROWS = 4096

Curve = Sequence[Mapping[str, float]]
"""The losses of a model by their names, for each epoch."""


@dataclass(frozen=True, eq=False)  # compared by identity, as its parts are
class TrainedStudent:
    """A trained student, and the losses of its training.

    Attributes:
        model: the student.
        named_losses_of_epochs: the losses of each epoch, by name; empty for a training without epochs.
    """

    model: StudentModel
    named_losses_of_epochs: Curve


@dataclass(frozen=True, eq=False, kw_only=True)  # == of arrays is an array
class StudentTrainer:
    """The training of a run's students. They have the same recipe, and different training sets.

    `train` keeps each student in files until the run is finished, so that a continued run trains no student twice.

    Attributes:
        student_recipe: the recipe of the students.
        pool: the inputs of the public samples that are not queries, float32, one entry for each sample.
        seed: the seed of all students that `train` trains.
        kept_models: the folder in which trained students are kept.
        tensorboard_writer: writes the losses of each epoch.
        monitor: receives the progress of the training.
    """

    student_recipe: Student
    pool: Float32Array
    seed: int
    kept_models: "KeptModels"
    tensorboard_writer: RunWriter
    monitor: Monitor

    def train(self, model_name: str, *, training_set: TrainingSet) -> TrainedStudent:
        """Returns the student for a training set: reads it from its file, or trains it and keeps it.

        Args:
            model_name: the name of the student in report.json.
            training_set: the inputs and labels that the student learns from.
        """
        dependencies_digest = digest_of_training(training_set, seed=self.seed)
        trained_student = self.kept_models.read(model_name, dependencies_digest=dependencies_digest)
        if trained_student is not None:
            self.show_curve(model_name, trained_student=trained_student)
            return trained_student
        trained_student = self.fit(
            model_name,
            training_set=training_set,
            seed=self.seed,
            on_losses=self.tensorboard_writer.write_epoch,
        )
        self.kept_models.write(model_name, trained_student, dependencies_digest=dependencies_digest)
        return trained_student

    def fit(
        self,
        model_name: str,
        *,
        training_set: TrainingSet,
        seed: int,
        on_losses: Callable[..., None] | None = None,
    ) -> TrainedStudent:
        """Trains a student and returns it with the losses of all epochs; no file is read or written.

        Args:
            model_name: the name of the student in report.json.
            training_set: the inputs and labels that the student learns from.
            seed: the seed of the training.
            on_losses: is called after each epoch with its number, its losses and `model_name=name`; None calls nothing.
        """
        named_losses_of_epochs: list[Mapping[str, float]] = []
        with self.monitor.stage(f"training the {model_name.replace('_', ' ')}") as advance:

            def on_epoch(epoch: int, named_losses: dict[str, float]) -> None:
                advance(epoch)
                named_losses_of_epochs.append(named_losses)
                if on_losses is not None:
                    on_losses(epoch, named_losses, model_name=model_name)

            model = self.student_recipe.learn(
                training_set, pool=self.pool, seed=seed, on_epoch=on_epoch
            )
        return TrainedStudent(model=model, named_losses_of_epochs=named_losses_of_epochs)

    def show_curve(self, model_name: str, *, trained_student: TrainedStudent) -> None:
        """Writes the losses of all epochs of a student that was trained before.

        Args:
            model_name: the name of the student in report.json.
            trained_student: the student.
        """
        for epoch, named_losses in enumerate(trained_student.named_losses_of_epochs):
            self.tensorboard_writer.write_epoch(epoch, named_losses, model_name=model_name)


@dataclass(frozen=True)
class KeptModels:
    """A folder of trained students. Only the student of a release is covered by an epsilon.

    A kept model is stored with the digest of everything that it depends on. It is read if this digest is the same and
    its files are unchanged. Otherwise the model is trained again, for example after a second draw of the release.

    Attributes:
        folder: the folder, in which each kept model has a folder of its own.
    """

    folder: Path

    @property
    def names(self) -> list[str]:
        """Returns the names of the kept models."""
        model_folders = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        return [path.name for path in model_folders if os.path.lexists(path / _DIGESTS_FILE)]

    def remove(self) -> None:
        """Removes the folder with all kept models; the caller does so when the run is finished."""
        rmtree(self.folder, ignore_errors=True)

    def read(self, model_name: str, *, dependencies_digest: str) -> TrainedStudent | None:
        """Returns the kept student `model_name`; None if none has this digest, or if a file of it is damaged."""
        model_folder = self.folder / model_name
        if not os.path.lexists(model_folder / _DIGESTS_FILE):
            return None
        try:
            digests_and_losses = read_json(model_folder / _DIGESTS_FILE, rule=_RULE, remedy=_REMEDY)
            if not isinstance(digests_and_losses, dict):
                return None
            if digests_and_losses.get("of") != dependencies_digest or digests_and_losses.get(
                "sha256"
            ) != _file_digests(model_folder):
                return None
            named_losses_of_epochs = [
                {str(name): float(loss) for name, loss in named_losses.items()}
                for named_losses in digests_and_losses["curve"]
            ]
            return TrainedStudent(
                model=StudentModel.load(model_folder), named_losses_of_epochs=named_losses_of_epochs
            )
        except (InvalidValue, OSError, LookupError, TypeError, ValueError, AttributeError):
            return None  # a damaged file is no error: the student is trained again

    def write(
        self, model_name: str, trained_student: TrainedStudent, *, dependencies_digest: str
    ) -> None:
        """Writes a trained student, the losses of its training and the digest into the student's own folder.

        Nothing is written if a loss of the training is not finite, as JSON has no such numbers.

        Args:
            model_name: the name of the student.
            trained_student: the student and its losses of each epoch.
            dependencies_digest: the digest of everything that the student depends on.
        """
        named_losses_of_epochs = trained_student.named_losses_of_epochs
        if not all(
            math.isfinite(loss)
            for named_losses in named_losses_of_epochs
            for loss in named_losses.values()
        ):
            return
        model_folder = make_folder(self.folder / model_name, existing_parent=self.folder.parent)
        (model_folder / _DIGESTS_FILE).unlink(missing_ok=True)  # until the new model is whole
        trained_student.model.save(model_folder)
        digests_and_losses = {
            "of": dependencies_digest,
            "sha256": _file_digests(model_folder),
            "curve": named_losses_of_epochs,
        }
        write_text(model_folder / _DIGESTS_FILE, text=to_json(digests_and_losses) + "\n")


def _file_digests(model_folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of `student.json` and `student.safetensors` of a model, in hexadecimal, by file name."""
    return {file: file_digest(model_folder / file, rule=_RULE, remedy=_REMEDY) for file in _FILES}


def digest_of_training(training_set: TrainingSet, *, seed: int) -> str:
    """Returns the SHA-256 digest of a training set and a seed, in hexadecimal.

    All other things that a trained student depends on, such as its recipe, are the same within one run.
    """
    training_hasher = hashlib.sha256(f"{seed}".encode())
    for start in range(0, len(training_set.inputs), _BLOCK_ROWS):
        training_hasher.update(
            np.ascontiguousarray(training_set.inputs[start : start + _BLOCK_ROWS]).tobytes()
        )
    released_scores = training_set.scores
    arrays = [training_set.labels, training_set.weights, training_set.known]
    if released_scores is not None:
        training_hasher.update(
            f"{released_scores.noise_std!r} {released_scores.num_directions}".encode()
        )
        arrays += [released_scores.values, released_scores.prevalence]
    for array in arrays:
        if array is not None:
            training_hasher.update(f"{array.dtype} {array.shape}".encode())
            training_hasher.update(np.ascontiguousarray(array).tobytes())
    return training_hasher.hexdigest()
