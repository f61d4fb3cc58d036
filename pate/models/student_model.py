"""A trained student: its predictions, and the two files in which it is published.

`student.safetensors` has the arrays. `student.json`, the card, has the kind of the model, the threshold, the shape of
an input, and the choices of the training. Reading these files runs no code from them. The kind is the name of a
subclass of `StudentModel`. `KINDS` lists the modules that define the kinds of this package.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, final

import numpy as np
import scipy
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from pate.array_types import BoolArray, Float32Array, FloatArray
from pate.errors import InvalidValue
from pate.files.atomic import atomic_write, write_text
from pate.files.paths import make_folder
from pate.files.reading import damaged, read_json, reading_file
from pate.threads import one_blas_thread
from pate.validation import nearest, require, require_count, require_features

Threshold = float | tuple[float, ...]
"""A threshold of probabilities: one number for all labels, or one for each label."""

# The kinds that ship, and the module of this package that defines each; it is loaded when a model of the kind is read.
KINDS = {
    "cnn": "image_students",
    "linear": "linear_model",
    "logistic": "logistic",
    "low_rank": "low_rank",
    "mlp": "mlp",
    "released": "released_model",
    "released_kernel": "released_model",
    "resnet50": "image_students",
}
LARGEST_INPUT = 2**22
"""The most numbers in an input of a student whose arrays do not show their number, such as pixels of a picture."""

_WEIGHTS_FILE = "student.safetensors"
_CARD_FILE = "student.json"
_CARD_RULE = "the card of a published student"
_WEIGHTS_RULE = "the weights of a published student"
_REMEDY = "copy the folder anew from where it was published; a run's own is written again from its release"
_MAX_AXES = 8  # the largest number of axes of an input
_MAX_PROBABILITY = 1 + 1e-5  # the largest probability with the rounding of means of float32
# The errors that a prediction with wrong arrays may raise.
_PREDICTION_ERRORS = (
    LookupError,
    ValueError,
    ArithmeticError,
    RuntimeError,
    TypeError,
    AttributeError,
    MemoryError,
)


class Predictor(Protocol):
    """The protocol of a fitted model, which predicts labels and their probabilities."""

    def predict(self, inputs: Float32Array) -> BoolArray:
        """Returns the predicted labels of inputs, bool `[num_inputs, num_labels]`."""

    def predict_proba(self, inputs: Float32Array) -> NDArray[Any]:
        """Returns the predicted probability of each label, float32 `[num_inputs, num_labels]`."""


def class_probabilities(probabilities: NDArray[Any]) -> FloatArray:
    """Returns probabilities of classes that exclude each other, with sum 1 in each row, `[num_rows, num_classes]`.

    Args:
        probabilities: the probability of each class by itself, `[num_rows, num_classes]`. They are divided by their
            sum. If all are 0 in a row, all classes become equally probable.
    """
    row_sums = probabilities.sum(axis=1, dtype=np.float64, keepdims=True)
    uniform = np.full(probabilities.shape, 1 / probabilities.shape[1])
    return np.asarray(np.divide(probabilities, row_sums, out=uniform, where=row_sums > 0))


def most_probable(probabilities: NDArray[Any]) -> BoolArray:
    """Returns True for the most probable class of each row, bool `[num_rows, num_classes]`; the first one in a tie.

    Args:
        probabilities: the probability of each class, `[num_rows, num_classes]`.
    """
    class_indices = np.arange(probabilities.shape[1])
    return np.asarray(probabilities.argmax(axis=1)[:, None] == class_indices)


@dataclass(frozen=True, kw_only=True)
class _Card:
    """The content of `student.json`: the kind and the numbers of a published student, as in `StudentModel`."""

    student_kind: str
    threshold: Threshold
    input_shape: tuple[int, ...]
    num_answered_queries: int
    training_choices: Mapping[str, float]

    @classmethod
    def read(cls, card_file: Path) -> Self:
        """Reads a card from its file; raises `DamagedFile` if the file is no valid card."""
        card_values = read_json(card_file, rule=_CARD_RULE, remedy=_REMEDY)
        try:
            input_shape = tuple(
                require_count("input_shape", size) for size in card_values["input_shape"]
            )
            rule = f"at most {_MAX_AXES} lengths"
            require(0 < len(input_shape) <= _MAX_AXES, "input_shape", input_shape, rule)
            threshold = _read_threshold(card_values["threshold"])
            num_answered_queries = require_count("num_rows", card_values["num_rows"], minimum=0)
            student_kind = str(card_values["kind"])
            training_choices = dict(card_values["choices"])
        except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
            fault = f"{type(error).__name__}: {error}"
            raise damaged(card_file, rule=_CARD_RULE, finding=fault, remedy=_REMEDY) from None
        return cls(
            student_kind=student_kind,
            threshold=threshold,
            input_shape=input_shape,
            num_answered_queries=num_answered_queries,
            training_choices=training_choices,
        )


def _read_threshold(json_threshold: Any) -> Threshold:
    """Returns the threshold in a card: a number in (0, 1], or a tuple with such a number for each label.

    Raises `InvalidValue`, `TypeError` or `ValueError` for other values.
    """
    is_list = isinstance(json_threshold, list)
    thresholds = tuple(map(float, json_threshold if is_list else [json_threshold]))
    in_range = all(0 < number <= 1 for number in thresholds)
    require(in_range, "threshold", thresholds[:3], "numbers in (0, 1]")
    return thresholds if is_list else thresholds[0]


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class StudentModel(ABC):
    """A trained student, which predicts labels and can be published.

    Attributes:
        arrays: the learned arrays, by name.
        threshold: the least probability in (0, 1] for which a label is predicted: one number for all labels, or one for
            each label.
        input_shape: the shape of one input.
        num_rows: the number of answered queries that the student was trained on.
        choices: numbers that the training chose or was given, such as a penalty, by name. They are for information,
            but a ResNet-50 reads its size of images from them.
    """

    arrays: Mapping[str, Float32Array]
    threshold: Threshold
    input_shape: tuple[int, ...]
    num_rows: int
    choices: Mapping[str, float]

    kind: ClassVar[str]
    # The axes of each array of a kind on flat inputs, with a letter for each axis. Equal letters are equal lengths: `d`
    # is the number of numbers in an input, `L` the number of labels, and other letters belong to the kind. `load`
    # compares a file with them before a prediction, which would otherwise need as much memory as the shapes demand.
    array_axes: ClassVar[Mapping[str, str]] = {}
    _classes: ClassVar[dict[str, type[StudentModel]]] = {}  # the class of each kind

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):  # A base class of several kinds has none.
            cls._classes[cls.kind] = cls

    @final
    def predict_proba(self, inputs: Float32Array) -> Float32Array:
        """Returns the predicted probability of each label, float32 `[num_inputs, num_labels]`.

        Probabilities are in [0, 1] up to rounding.

        Args:
            inputs: the inputs, each of the shape `input_shape`.

        Raises:
            InvalidValue: the inputs have another shape, or are not in [-1e12, 1e12].
        """
        inputs = require_features("inputs", inputs).astype(np.float32, copy=False)
        rule = f"[m, {', '.join(map(str, self.input_shape))}]"
        require(inputs.shape[1:] == self.input_shape, "inputs.shape", inputs.shape, rule)
        with one_blas_thread():
            return self._probabilities(inputs.reshape(len(inputs), math.prod(self.input_shape)))

    @final
    def predict(self, inputs: Float32Array) -> BoolArray:
        """Returns the labels whose probability reaches the threshold, bool `[num_inputs, num_labels]`."""
        return np.asarray(self.predict_proba(inputs) >= np.asarray(self.threshold, np.float32))

    @final
    def save(self, folder: Path | str) -> None:
        """Writes the student's arrays and its `student.json` into a folder; equal models give equal bytes.

        A file appears only when it is complete. Its mode is 0600. If the folder or its parent does not exist, it is
        made with mode 0700.
        """
        folder = Path(folder)
        card = {
            "kind": self.kind,
            "threshold": self.threshold,
            "input_shape": list(self.input_shape),
            "num_rows": self.num_rows,
            "choices": dict(self.choices),
        }
        contiguous_arrays = {
            name: np.ascontiguousarray(array) for name, array in self.arrays.items()
        }
        make_folder(folder, existing_parent=folder.parent.parent)
        with atomic_write(folder / _WEIGHTS_FILE) as file:
            file.write(save(contiguous_arrays))
        write_text(folder / _CARD_FILE, text=json.dumps(card, indent=2) + "\n")

    @staticmethod
    def load(folder: Path | str) -> StudentModel:
        """Reads a student of any kind from its folder.

        Raises:
            InvalidValue: the folder does not exist, a file is damaged, the arrays do not fit the kind, or the kind is
                unknown. The module of a kind of your own must be imported before.
        """
        card = _Card.read(Path(folder, _CARD_FILE))
        if card.student_kind in KINDS:
            import_module(f"pate.models.{KINDS[card.student_kind]}")
        known_kinds = tuple(sorted({*StudentModel._classes, *KINDS}))
        if card.student_kind not in known_kinds:
            similar_kind = nearest(card.student_kind, choices=known_kinds)
            advice = "import the module of a student of your own before pate.load"
            rule = f"one of {', '.join(known_kinds)}{similar_kind}; {advice}"
            raise InvalidValue("kind", card.student_kind, rule=rule)
        student_weights_file = Path(folder, _WEIGHTS_FILE)
        model = StudentModel._classes[card.student_kind](
            arrays=_read_arrays(student_weights_file),
            threshold=card.threshold,
            input_shape=card.input_shape,
            num_rows=card.num_answered_queries,
            choices=card.training_choices,
        )
        fault = model._shape_fault() or model._prediction_fault()
        if fault:
            rule = f"the weights of a {model.kind} student for inputs of shape {model.input_shape}"
            raise damaged(student_weights_file, rule=rule, finding=fault, remedy=_REMEDY)
        return model

    @final
    def _shape_fault(self) -> str:
        """Returns a phrase that states why the shapes of the arrays are wrong, or "".

        Shapes are checked before a prediction, which would otherwise need as much memory as the shapes demand.
        """
        numbers_per_input = math.prod(self.input_shape)
        if not self.array_axes:
            too_large = f"{numbers_per_input:,} numbers in an input, at most {LARGEST_INPUT:,}"
            return too_large if numbers_per_input > LARGEST_INPUT else ""
        if self.arrays.keys() != self.array_axes.keys():
            return f"arrays {', '.join(sorted(self.arrays))[:80]}"
        length_of_axis = {"d": numbers_per_input, "1": 1}
        for name, axis_letters in self.array_axes.items():
            shape = self.arrays[name].shape
            # The first array with an axis sets the length of the axis for all arrays. `strict=False`: another number of
            # axes is a fault below.
            expected_shape = [
                length_of_axis.setdefault(axis_letter, length)
                for axis_letter, length in zip(axis_letters, shape, strict=False)
            ]
            if len(shape) != len(axis_letters) or expected_shape != list(shape):
                return f"{name} of shape {shape}"
        return ""

    @final
    def _prediction_fault(self) -> str:
        """Returns a phrase that states why the model fails to predict for an input of zeros, or ""."""
        zero_input = np.zeros((1, *self.input_shape), np.float32)
        try:
            with np.errstate(all="ignore"):  # what is not finite is a fault below
                probabilities = self.predict_proba(zero_input)
            in_range = (probabilities >= 0) & (probabilities <= _MAX_PROBABILITY)
            if probabilities.ndim != 2 or probabilities.size == 0 or not in_range.all():
                return "probabilities outside [0, 1]"
            num_labels = probabilities.shape[1]
            if isinstance(self.threshold, tuple) and len(self.threshold) != num_labels:
                return f"{len(self.threshold)} thresholds for {num_labels} labels"
        except _PREDICTION_ERRORS as error:
            return f"{type(error).__name__} when it predicts"
        return ""

    @abstractmethod
    def _probabilities(self, inputs: Float32Array) -> Float32Array:
        """Returns the probabilities `[num_rows, num_labels]` for flat inputs `[num_rows, num_features]`."""


def _read_arrays(student_weights_file: Path) -> dict[str, Float32Array]:
    """Reads the arrays of a published student.

    Raises `DamagedFile` if an array is not float32, or is empty, or has a NaN.
    """
    damage_errors = (SafetensorError, ValueError, KeyError, TypeError, MemoryError)
    with reading_file(
        student_weights_file, rule=_WEIGHTS_RULE, remedy=_REMEDY, damage_errors=damage_errors
    ):
        arrays: dict[str, Float32Array] = load_file(student_weights_file)
    for name, array in arrays.items():
        if array.dtype != np.float32 or not array.size or np.isnan(array).any():
            fault = f"{name[:40]!r} is not of float32 numbers"
            raise damaged(student_weights_file, rule=_WEIGHTS_RULE, finding=fault, remedy=_REMEDY)
    return arrays


class FlatModel(StudentModel):
    """A trained student whose probabilities are a formula of flat inputs.

    Numpy computes the formula. Torch computes the same formula when the model is exported as a graph.
    """

    @staticmethod
    @abstractmethod
    def formula(inputs: Any, arrays: Mapping[str, Any], xp: Any) -> Any:
        """Returns the probabilities `[num_rows, num_labels]` for flat inputs `[num_rows, num_features]`.

        Args:
            inputs: the inputs, as numpy array or torch tensor.
            arrays: the learned arrays, by name, of the same type.
            xp: the module `numpy` or `torch`, which computes.
        """

    def _probabilities(self, inputs: Float32Array) -> Float32Array:
        probabilities = self.formula(inputs, arrays=self.arrays, xp=np)
        return np.asarray(probabilities, dtype=np.float32)

    @staticmethod
    def logistic(scores: Any) -> Any:
        """Returns the logistic function of each number in an array or a tensor."""
        return scipy.special.expit(scores) if isinstance(scores, np.ndarray) else scores.sigmoid()
