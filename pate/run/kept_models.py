"""Models that a run has trained, kept until it is finished: a run that is continued trains none of them again."""

import hashlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

from pate.aggregators import TrainingSet
from pate.files.disk import file_digest, make_folder, read_json, write_text
from pate.files.values import to_json
from pate.student import StudentModel
from pate.validation import InvalidValue

_FILES = ("student.json", "student.safetensors")
_CARD = "trained.json"  # written last
_AGAIN = "remove it, and the same command trains this model again"
_RULE = "the card of a model that this run has trained"
_LARGEST_BLOCK = 4096  # rows of inputs that are digested at once

Curve = list[Mapping[str, float]]
Train = Callable[[Callable[[int, dict[str, float]], None]], StudentModel]


@dataclass(frozen=True)
class KeptModels:
    """The folder of models that a run has trained, which no epsilon covers but for the student's.

    A model counts where its files are those that were written, and it was trained on the same training set with the
    same seed. Another one is trained again: settings and data of a folder do not change, but a redrawn release does.
    """

    folder: Path

    @property
    def names(self) -> list[str]:
        """The names of the models that are there."""
        paths = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        return [path.name for path in paths if os.path.lexists(path / _CARD)]

    def train(
        self,
        name: str,
        training: TrainingSet,
        *,
        seed: int,
        train: Train,
        on_epoch: Callable[[int, Any], None],
    ) -> tuple[StudentModel, Curve]:
        """Returns a model and its values of each epoch: read back, or trained and kept."""
        of = _digest_of(training, seed)
        found = self._read(name, of)
        if found is not None:
            for epoch, values in enumerate(found[1]):
                on_epoch(epoch, values)
            return found
        curve: Curve = []

        def told(epoch: int, values: dict[str, float]) -> None:
            curve.append(values)
            on_epoch(epoch, values)

        model = train(told)
        self._write(name, of, model, curve)
        return model, curve

    def remove(self) -> None:
        """Removes the folder of a run that is finished, whose report says what there is to say of them."""
        rmtree(self.folder, ignore_errors=True)

    def _read(self, name: str, of: str) -> tuple[StudentModel, Curve] | None:
        place = self.folder / name
        if not os.path.lexists(place / _CARD):
            return None
        try:
            card = read_json(place / _CARD, rule=_RULE, remedy=_AGAIN)
            files = {file: file_digest(place / file, rule=_RULE, remedy=_AGAIN) for file in _FILES}
            if not isinstance(card, dict) or card.get("of") != of or card.get("sha256") != files:
                return None
            curve: Curve = [
                {str(key): float(value) for key, value in values.items()}
                for values in card["curve"]
            ]
            return StudentModel.load(place), curve
        except (InvalidValue, OSError, LookupError, TypeError, ValueError, AttributeError):
            return None

    def _write(self, name: str, of: str, model: StudentModel, curve: Curve) -> None:
        if not all(math.isfinite(value) for values in curve for value in values.values()):
            # JSON knows no such numbers, and a run whose student diverged is not worth the trouble
            return
        place = make_folder(self.folder / name, within=self.folder.parent)
        if os.path.lexists(place / _CARD):
            (place / _CARD).unlink()
        model.save(place)
        files = {file: file_digest(place / file, rule=_RULE, remedy=_AGAIN) for file in _FILES}
        write_text(place / _CARD, to_json({"of": of, "sha256": files, "curve": curve}) + "\n")


def _digest_of(training: TrainingSet, seed: int) -> str:
    """The digest of what a model depends on beside the settings of its run."""
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
