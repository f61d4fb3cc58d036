"""A trained student: predictions, and the folder it is published in."""

from __future__ import annotations

import json
import math
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

from pate.files.atomic import make_folder, replacing, write_text
from pate.files.reading import damaged, read_json, require_file, unreadable
from pate.validation import InvalidValue, nearest, require, require_count, require_features

Rows = NDArray[np.float32]
Labels = NDArray[np.bool_]

_WEIGHTS, _CARD = "student.safetensors", "student.json"
_REMEDY = "copy the folder anew from where it was published; a run's own is written again from its release"
_MOST_AXES = 8
LARGEST_INPUT = 2**22
"""Numbers in an input of a student whose arrays do not say how many there are, such as the pixels of a picture."""

_MOST_PROBABLE = 1 + 1e-5  # means of float32 round
_UNUSABLE = (LookupError, ValueError, ArithmeticError, RuntimeError, TypeError, AttributeError, MemoryError)
_OURS = {
    "cnn": "image",
    "linear": "linear",
    "logistic": "linear",
    "low_rank": "low_rank",
    "mlp": "mlp",
    "released": "low_rank",
    "resnet50": "image",
}
"""The kinds that ship, and the module here that is loaded when one is read."""


@dataclass(frozen=True, eq=False)
class StudentModel(ABC):
    """A student that can be used and published.

    Its folder holds `student.safetensors` (numbers) and `student.json` (what they are): reading them runs no
    code of whoever wrote them.

    Attributes:
        arrays: all that was learned, by name.
        threshold: probability from which a label is predicted, in (0, 1]; one for all labels or one for each.
        input_shape: of one input.
        num_rows: how many answered queries it was trained on.
        choices: what was chosen on those rows, for the record.
    """

    arrays: Mapping[str, Rows]
    threshold: float | tuple[float, ...]
    input_shape: tuple[int, ...]
    num_rows: int
    choices: Mapping[str, float]

    kind: ClassVar[str]
    forms: ClassVar[Mapping[str, str]] = {}
    """The axes of the arrays of a kind on flat inputs, a letter each: `d` numbers in, `L` labels, others by the kind.

    A file is held to them before a prediction is asked for: lengths that disagree could multiply one another."""
    _kinds: ClassVar[dict[str, type[StudentModel]]] = {}

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):  # else a base of several kinds
            cls._kinds[cls.kind] = cls

    @final
    def predict_proba(self, inputs: Rows) -> Rows:
        """Probability of each label, float32 `[m, num_labels]`, in [0, 1].

        Raises:
            InvalidValue: inputs of another shape than the student was trained on, or that are not finite.
        """
        inputs = require_features("inputs", inputs).astype(np.float32, copy=False)
        rule = f"[m, {', '.join(map(str, self.input_shape))}]"
        require(inputs.shape[1:] == self.input_shape, "inputs.shape", inputs.shape, rule)
        return self._probabilities(inputs.reshape(len(inputs), int(np.prod(self.input_shape))))

    @final
    def predict(self, inputs: Rows) -> Labels:
        """The labels, bool `[m, num_labels]`: those whose probability reaches the threshold."""
        return np.asarray(self.predict_proba(inputs) >= np.asarray(self.threshold, np.float32))

    @final
    def save(self, folder: Path | str) -> None:
        """Writes the two files; each appears whole or not at all. Equal models give equal bytes.

        The folder, and the one above it, are made where they are missing, with mode 0700; files have mode 0600.
        """
        folder = Path(folder)
        card = {
            "kind": self.kind,
            "threshold": self.threshold,
            "input_shape": list(self.input_shape),
            "num_rows": self.num_rows,
            "choices": dict(self.choices),
        }
        make_folder(folder, within=folder.parent.parent)
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
        card = _read_card(folder / _CARD)
        if card.kind in _OURS:
            import_module(f"pate.student.{_OURS[card.kind]}")
        known = tuple(sorted({*StudentModel._kinds, *_OURS}))
        if card.kind not in known:
            hint = f"{nearest(card.kind, known)}; import the module of a student of your own before pate.load"
            raise InvalidValue(f"kind={card.kind}: expected one of {', '.join(known)}{hint}")
        model = StudentModel._kinds[card.kind]
        arrays = _read_weights(folder / _WEIGHTS)
        made = model(arrays, card.threshold, card.input_shape, card.num_rows, card.choices)
        made._require_usable(folder / _WEIGHTS)
        return made

    @final
    def _require_usable(self, path: Path) -> None:
        """Raises where the arrays do not make a model of this kind: asked for one prediction, it has to give one."""
        rule = f"the weights of a {self.kind} student for inputs of shape {self.input_shape}"
        if wrong := self._misfit():
            raise damaged(path, rule, wrong, _REMEDY)
        try:
            with np.errstate(all="ignore"):
                said = self.predict_proba(np.zeros((1, *self.input_shape), np.float32))
            good = said.ndim == 2 and said.size > 0 and bool(((said >= 0) & (said <= _MOST_PROBABLE)).all())
            found = "probabilities outside [0, 1]"
        except _UNUSABLE as error:
            good, found = False, f"{type(error).__name__} when it predicts"
        if good and isinstance(self.threshold, tuple) and len(self.threshold) != said.shape[1]:
            good, found = False, f"{len(self.threshold)} thresholds for {said.shape[1]} labels"
        if not good:
            raise damaged(path, rule, found, _REMEDY)

    def _misfit(self) -> str:
        """What is wrong with the shapes of the arrays, in words, before memory is taken for what they promise."""
        size = math.prod(self.input_shape)
        if not self.forms:
            return "" if size <= LARGEST_INPUT else f"{size:,} numbers in an input, at most {LARGEST_INPUT:,}"
        if self.arrays.keys() != self.forms.keys():
            return f"arrays {', '.join(sorted(self.arrays))[:80]}"
        lengths = {"d": size, "1": 1}
        for name, axes in self.forms.items():
            shape = self.arrays[name].shape
            known = [lengths.setdefault(axis, length) for axis, length in zip(axes, shape, strict=False)]
            if len(shape) != len(axes) or known != list(shape):
                return f"{name} of shape {shape}"
        return ""

    @abstractmethod
    def _probabilities(self, rows: Rows) -> Rows:
        """Probabilities `[m, num_labels]` for flattened inputs `[m, d]`."""


@dataclass(frozen=True)
class _Card:
    """What student.json holds."""

    kind: str
    threshold: float | tuple[float, ...]
    input_shape: tuple[int, ...]
    num_rows: int
    choices: Mapping[str, float]


def _read_card(path: Path) -> _Card:
    rule = "the card of a published student"
    found = read_json(path, rule=rule, remedy=_REMEDY)
    try:
        shape = tuple(require_count("input_shape", size) for size in found["input_shape"])
        threshold = _threshold(found["threshold"])
        require(0 < len(shape) <= _MOST_AXES, "input_shape", shape, f"at most {_MOST_AXES} lengths")
        num_rows = require_count("num_rows", found["num_rows"], minimum=0)
        return _Card(str(found["kind"]), threshold, shape, num_rows, dict(found["choices"]))
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise damaged(path, rule, f"{type(error).__name__}: {error}", _REMEDY) from None


def _read_weights(path: Path) -> dict[str, Rows]:
    rule = "the weights of a published student"
    require_file(path, rule=rule, remedy=_REMEDY)
    try:
        arrays: dict[str, Rows] = load_file(path)
    except OSError as error:
        raise unreadable(path, error, rule=rule, remedy=_REMEDY) from error
    except (SafetensorError, ValueError, KeyError, TypeError, MemoryError) as error:
        raise damaged(path, rule, str(error), _REMEDY) from None
    for name, array in arrays.items():
        if array.dtype != np.float32 or not array.size or np.isnan(array).any():
            raise damaged(path, rule, f"{name[:40]!r} is not of float32 numbers", _REMEDY)
    return arrays


def _threshold(kept: Any) -> float | tuple[float, ...]:
    """One for all labels, or a list with one for each."""
    values = [float(value) for value in (kept if isinstance(kept, list) else [kept])]
    require(all(0 < value <= 1 for value in values), "threshold", values[:3], "numbers in (0, 1]")
    return tuple(values) if isinstance(kept, list) else values[0]
