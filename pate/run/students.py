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
_LARGEST_BLOCK = 4096  # rows of inputs that are digested at once

Curve = Sequence[Mapping[str, float]]
"""The values of a model by their names, for each epoch."""


@dataclass(frozen=True, eq=False)
class TrainedStudent:
    """A student that was trained, and its values of each epoch."""

    model: StudentModel
    curve: Curve


@dataclass(frozen=True, eq=False, kw_only=True)
class StudentTraining:
    """The training of a run's students: they differ in what they learn from, and each has a name of report.json.

    All are watched while they learn, and kept until the run is finished: a run that is continued trains none again.

    Attributes:
        student: the recipe.
        pool: float32 `[n, …]`, public samples beside those that were asked.
        seed: of the training.
        models: where students are kept.
        events: gets the values of each epoch.
        monitor: told of the training.
    """

    student: Student
    pool: NDArray[np.float32]
    seed: int
    models: "KeptModels"
    events: RunWriter
    monitor: Monitor

    def train(self, name: str, training_set: TrainingSet) -> TrainedStudent:
        """Returns the student of a name: read back, or trained and kept."""
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
    """Is told of each epoch of a student's training, and keeps its values."""

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
    """The folder of students that a run has trained, which no epsilon covers but for the released one.

    A model counts where its files are those that were written, and it was trained on the same training set with the
    same seed. Another one is trained again: settings and data of a folder do not change, but a redrawn release does.
    """

    folder: Path

    @property
    def names(self) -> list[str]:
        """The names of the models that are there."""
        paths = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        return [path.name for path in paths if os.path.lexists(path / _CARD)]

    def remove(self) -> None:
        """Removes the folder of a run that is finished, whose report says what there is to say of them."""
        rmtree(self.folder, ignore_errors=True)

    def read(self, name: str, training_set: TrainingSet, *, seed: int) -> TrainedStudent | None:
        """Returns the student of a name as it was kept; None where none was trained on this training set and seed."""
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
        """Keeps a student under a name; one that diverged is not kept, as JSON has no such numbers."""
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
    """Returns the digest of what a model depends on beside the settings of its run."""
    digest = hashlib.sha256(f"{seed}".encode())
    for start in range(0, len(training.inputs), _LARGEST_BLOCK):
        digest.update(
            np.ascontiguousarray(training.inputs[start : start + _LARGEST_BLOCK]).tobytes()
        )
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
