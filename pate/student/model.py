"""A trained student: predictions, and the folder it is published in."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from pate.files.atomic import replacing, write_text
from pate.validation import InvalidValue, require, require_choice

_WEIGHTS, _CARD = "student.safetensors", "student.json"
_NEED_TORCH = ("pate.student.cnn", "pate.student.mlp", "pate.student.resnet50")  # loaded for their kinds alone


@dataclass(frozen=True, eq=False)
class StudentModel(ABC):
    """A student that can be used and published.

    Its folder holds `student.safetensors` (numbers) and `student.json` (what they are): reading them runs no
    code of whoever wrote them.

    Attributes:
        arrays: all that was learned, by name.
        threshold: probability from which a label is predicted, in (0, 1].
        input_shape: of one input.
        num_rows: how many answered queries it was trained on.
        choices: what was chosen on those rows, for the record.
    """

    arrays: Mapping[str, NDArray[np.float32]]
    threshold: float
    input_shape: tuple[int, ...]
    num_rows: int
    choices: Mapping[str, float]

    kind: ClassVar[str]
    _kinds: ClassVar[dict[str, type[StudentModel]]] = {}

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):  # else a base of several kinds
            cls._kinds[cls.kind] = cls

    @final
    def predict_proba(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Probability of each label, float32 `[m, num_labels]`, in [0, 1].

        Raises:
            InvalidValue: inputs of another shape than the student was trained on.
        """
        inputs = np.asarray(inputs, np.float32)
        rule = f"[m, {', '.join(map(str, self.input_shape))}]"
        require(inputs.shape[1:] == self.input_shape, "inputs.shape", inputs.shape, rule)
        return self._probabilities(inputs.reshape(len(inputs), int(np.prod(self.input_shape))))

    @final
    def predict(self, inputs: NDArray[np.float32]) -> NDArray[np.bool_]:
        """The labels, bool `[m, num_labels]`: those whose probability reaches the threshold."""
        return np.asarray(self.predict_proba(inputs) >= np.float32(self.threshold))

    @final
    def save(self, folder: Path | str) -> None:
        """Writes the two files; each appears whole or not at all. Equal models give equal bytes."""
        folder = Path(folder)
        card = {
            "kind": self.kind,
            "threshold": float(self.threshold),
            "input_shape": list(self.input_shape),
            "num_rows": self.num_rows,
            "choices": dict(self.choices),
        }
        with replacing(folder / _WEIGHTS) as file:
            file.write(save({name: np.ascontiguousarray(a) for name, a in self.arrays.items()}))
        write_text(folder / _CARD, json.dumps(card, indent=2) + "\n")

    @staticmethod
    def load(folder: Path | str) -> StudentModel:
        """Reads a student of whatever kind.

        Raises:
            InvalidValue: no such folder, files that cannot be read, or an unknown kind.
        """
        folder = Path(folder)
        try:
            card: dict[str, Any] = json.loads((folder / _CARD).read_text())
            arrays: dict[str, NDArray[np.float32]] = load_file(folder / _WEIGHTS)
            kind, choices = str(card["kind"]), dict(card["choices"])
            threshold, num_rows = float(card["threshold"]), int(card["num_rows"])
            input_shape = tuple(int(size) for size in card["input_shape"])
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            found = f"{type(error).__name__}: {error}".replace("\n", " ")
            raise InvalidValue(f"folder={folder}: expected a published student ({found})") from error
        if kind not in StudentModel._kinds:
            for module in _NEED_TORCH:
                import_module(module)
        require_choice("kind", kind, tuple(sorted(StudentModel._kinds)))
        return StudentModel._kinds[kind](arrays, threshold, input_shape, num_rows, choices)

    @abstractmethod
    def _probabilities(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Probabilities `[m, num_labels]` for flattened inputs `[m, d]`."""
