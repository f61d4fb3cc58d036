"""The students of a run: trained under a name, watched, and kept until the run is finished."""

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

import numpy as np
from numpy.typing import NDArray

from pate.aggregators import TrainingSet
from pate.files.disk import file_digest, make_folder, read_json, write_text
from pate.files.strict_json import to_json
from pate.models import Student, StudentModel
from pate.progress import Advance, Monitor
from pate.report.tensorboard import RunWriter
from pate.validation import InvalidValue

_FILES = ("student.json", "student.safetensors")
_CARD = "trained.json"  # written last
_AGAIN = "remove it, and the same command trains this model again"
_RULE = "the card of a model that this run has trained"
# The number of rows of inputs that are digested at once, as inputs may be mapped from a file.
_BLOCK_ROWS = 4096

Curve = Sequence[Mapping[str, float]]
"""The values of a model by their names, for each epoch."""


@dataclass(frozen=True, eq=False)
class TrainedStudent:
    """A student that was trained, and its values of each epoch."""

    model: StudentModel
    curve: Curve


@dataclass(frozen=True, eq=False, kw_only=True)
class StudentTraining:
    """The training of a run's students, which share a recipe and differ in their training sets.

    Every trained student is kept until the run is finished, so a run that is continued trains none again.

    Attributes:
        student: the recipe of the students.
        pool: float32 `[num_public, …]`, the public samples that are not queries.
        seed: of the training.
        models: where students are kept.
        events: gets the values of each epoch.
        monitor: is told of the training.
    """

    student: Student
    pool: NDArray[np.float32]
    seed: int
    models: "KeptModels"
    events: RunWriter
    monitor: Monitor

    def train(self, name: str, training_set: TrainingSet) -> TrainedStudent:
        """Returns the student of a name in report.json: reads it back, or trains it on a training set and keeps it."""
        trained = self.models.read(name, training_set, seed=self.seed)
        if trained is not None:
            for epoch, values in enumerate(trained.curve):
                self.events.epoch(epoch, values, model=name)
            return trained
        with self.monitor.stage(f"training the {name.replace('_', ' ')}") as advance:
            epochs = _Epochs(name, self.events, advance)
            model = self.student.learn(
                training_set, pool=self.pool, seed=self.seed, on_epoch=epochs
            )
        trained = TrainedStudent(model, epochs.curve)
        self.models.write(name, training_set, trained, seed=self.seed)
        return trained


class _Epochs:
    """A function that is called after each epoch of a student's training, and keeps the values of all epochs."""

    def __init__(self, name: str, events: RunWriter, advance: Advance) -> None:
        self.name = name
        self.events = events
        self.advance = advance
        self.curve: list[Mapping[str, float]] = []

    def __call__(self, epoch: int, values: dict[str, float]) -> None:
        self.advance(epoch)
        self.curve.append(values)
        self.events.epoch(epoch, values, model=self.name)


@dataclass(frozen=True)
class KeptModels:
    """The folder of the students that a run has trained. An epsilon covers the student of the release alone.

    A kept model is used where its files are as they were written, and its training set and seed are those of the call.
    Any other model is trained again. Settings and data of a folder never change, but a release that is redrawn does.
    """

    folder: Path

    @property
    def names(self) -> list[str]:
        """Returns the names of the models that are kept."""
        paths = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        return [path.name for path in paths if os.path.lexists(path / _CARD)]

    def remove(self) -> None:
        """Removes the folder, as the report of a finished run has all that is needed of the models."""
        rmtree(self.folder, ignore_errors=True)

    def read(self, name: str, training_set: TrainingSet, *, seed: int) -> TrainedStudent | None:
        """Returns the kept student of a name; None where no student of this training set and seed is kept."""
        folder = self.folder / name
        if not os.path.lexists(folder / _CARD):
            return None
        try:
            card = read_json(folder / _CARD, rule=_RULE, remedy=_AGAIN)
            if not isinstance(card, dict):
                return None
            is_same = card.get("of") == _digest_of(training_set, seed)
            if not is_same or card.get("sha256") != _file_digests(folder):
                return None
            curve = [
                {str(key): float(value) for key, value in values.items()}
                for values in card["curve"]
            ]
            return TrainedStudent(StudentModel.load(folder), curve)
        except (InvalidValue, OSError, LookupError, TypeError, ValueError, AttributeError):
            return None

    def write(
        self, name: str, training_set: TrainingSet, trained: TrainedStudent, *, seed: int
    ) -> None:
        """Keeps a student under a name, unless its training diverged: JSON has no infinite numbers."""
        curve = trained.curve
        if not all(math.isfinite(value) for values in curve for value in values.values()):
            return
        folder = make_folder(self.folder / name, within=self.folder.parent)
        if os.path.lexists(folder / _CARD):
            (folder / _CARD).unlink()
        trained.model.save(folder)
        digest = _digest_of(training_set, seed)
        card = {"of": digest, "sha256": _file_digests(folder), "curve": curve}
        write_text(folder / _CARD, to_json(card) + "\n")


def _file_digests(folder: Path) -> dict[str, str]:
    """Returns the digests of a model's files, by their names."""
    return {file: file_digest(folder / file, rule=_RULE, remedy=_AGAIN) for file in _FILES}


def _digest_of(training: TrainingSet, seed: int) -> str:
    """Returns the digest of a training set and a seed; a model depends on no more, except the settings of its run."""
    digest = hashlib.sha256(f"{seed}".encode())
    for start in range(0, len(training.inputs), _BLOCK_ROWS):
        digest.update(np.ascontiguousarray(training.inputs[start : start + _BLOCK_ROWS]).tobytes())
    scores = training.scores
    arrays = [training.labels, training.weights]
    if scores is not None:
        digest.update(f"{scores.noise_std!r} {scores.num_directions}".encode())
        arrays += [scores.values, scores.prevalence]
    for array in arrays:
        if array is not None:
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
