"""What every kind of student offers, and the folder that a trained one is published in."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Protocol, final

import numpy as np
import scipy
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from pate.aggregators.release import TrainingSet
from pate.files.disk import damaged, make_folder, read_json, reading, replacing, write_text
from pate.models.networks.network import require_settings
from pate.threads import one_blas_thread
from pate.validation import (
    nearest,
    normalize_field,
    require,
    require_array,
    require_choice,
    require_count,
    require_features,
)

Rows = NDArray[np.float32]
Labels = NDArray[np.bool_]

_WEIGHTS = "student.safetensors"
_CARD = "student.json"
_REMEDY = "copy the folder anew from where it was published; a run's own is written again from its release"
_MOST_AXES = 8
# numbers in an input of a student whose arrays do not say how many, such as pixels of a picture
LARGEST_INPUT = 2**22
_MOST_PROBABLE = 1 + 1e-5  # means of float32 round
_UNUSABLE = (
    LookupError,
    ValueError,
    ArithmeticError,
    RuntimeError,
    TypeError,
    AttributeError,
    MemoryError,
)
# The kinds that ship, and the module here that is loaded when one is read.
KINDS = {
    "mlp": "mlp",
    **dict.fromkeys(("linear", "logistic"), "linear"),
    **dict.fromkeys(("cnn", "resnet50"), "image"),
}
KINDS |= dict.fromkeys(("low_rank", "released", "released_kernel"), "kernel")
OnEpoch = Callable[[int, dict[str, float]], None]  # called with an epoch's number and its losses
Threshold = float | tuple[float, ...]  # one for all labels, or one for each
THRESHOLD_RULES = ("micro_f1", "accuracy", "prevalence")
_LOWEST = 1e-3  # above the probability 0 of a label that was never released


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
    # The axes of the arrays of a kind on flat inputs, a letter each: `d` numbers in, `L` labels, others by the kind. A
    # file is held to them before a prediction is asked for: lengths that disagree could multiply one another.
    forms: ClassVar[Mapping[str, str]] = {}
    _kinds: ClassVar[dict[str, type[StudentModel]]] = {}

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):  # else a base of several kinds
            cls._kinds[cls.kind] = cls

    @final
    def predict_proba(self, inputs: Rows) -> Rows:
        """Probability of each label, float32 `[m, num_labels]`, in [0, 1].

        Raises `InvalidValue` for inputs of another shape than the student was trained on, or that are not finite.
        """
        inputs = require_features("inputs", inputs).astype(np.float32, copy=False)
        rule = f"[m, {', '.join(map(str, self.input_shape))}]"
        require(inputs.shape[1:] == self.input_shape, "inputs.shape", inputs.shape, rule)
        with one_blas_thread():
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
        card: dict[str, Any] = {
            "kind": self.kind,
            "threshold": self.threshold,
            "input_shape": list(self.input_shape),
        }
        card |= {"num_rows": self.num_rows, "choices": dict(self.choices)}
        make_folder(folder, within=folder.parent.parent)
        with replacing(folder / _WEIGHTS) as file:
            file.write(save({name: np.ascontiguousarray(a) for name, a in self.arrays.items()}))
        write_text(folder / _CARD, json.dumps(card, indent=2) + "\n")

    @staticmethod
    def load(folder: Path | str) -> StudentModel:
        """Reads a student of whatever kind; raises `InvalidValue` for no folder, damaged files, an unknown kind."""
        path = Path(folder, _CARD)
        rule = "the card of a published student"
        card = read_json(path, rule=rule, remedy=_REMEDY)
        try:
            shape = tuple(require_count("input_shape", size) for size in card["input_shape"])
            require(
                0 < len(shape) <= _MOST_AXES, "input_shape", shape, f"at most {_MOST_AXES} lengths"
            )
            per_label = isinstance(card["threshold"], list)
            values = tuple(map(float, card["threshold"] if per_label else [card["threshold"]]))
            require(
                all(0 < value <= 1 for value in values),
                "threshold",
                values[:3],
                "numbers in (0, 1]",
            )
            num_rows = require_count("num_rows", card["num_rows"], minimum=0)
            kind = str(card["kind"])
            choices = dict(card["choices"])
        except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise damaged(path, rule, f"{type(error).__name__}: {error}", _REMEDY) from None
        if kind in KINDS:
            import_module(f"pate.models.{KINDS[kind]}")
        known_kinds = tuple(sorted({*StudentModel._kinds, *KINDS}))
        hint = f"{nearest(kind, known_kinds)}; import the module of a student of your own before pate.load"
        require(kind in known_kinds, "kind", kind, f"one of {', '.join(known_kinds)}{hint}")
        path = Path(folder, _WEIGHTS)
        rule = "the weights of a published student"
        wrong = (SafetensorError, ValueError, KeyError, TypeError, MemoryError)
        with reading(path, rule=rule, remedy=_REMEDY, wrong=wrong):
            arrays: dict[str, Rows] = load_file(path)
        for name, array in arrays.items():
            if array.dtype != np.float32 or not array.size or np.isnan(array).any():
                raise damaged(path, rule, f"{name[:40]!r} is not of float32 numbers", _REMEDY)
        model = StudentModel._kinds[kind](
            arrays, values if per_label else values[0], shape, num_rows, choices
        )
        model._require_usable(path)
        return model

    @final
    def _require_usable(self, path: Path) -> None:
        """Raises where the arrays do not make a model of this kind: asked for one prediction, it has to give one."""
        size = math.prod(self.input_shape)
        fault = ""
        # First by their shapes, before memory is taken for what they promise.
        if not self.forms:
            fault = (
                ""
                if size <= LARGEST_INPUT
                else f"{size:,} numbers in an input, at most {LARGEST_INPUT:,}"
            )
        elif self.arrays.keys() != self.forms.keys():
            fault = f"arrays {', '.join(sorted(self.arrays))[:80]}"
        else:
            lengths = {"d": size, "1": 1}
            for name, axes in self.forms.items():
                shape = self.arrays[name].shape
                known = [
                    lengths.setdefault(axis, length)
                    for axis, length in zip(axes, shape, strict=False)
                ]
                if len(shape) != len(axes) or known != list(shape):
                    fault = f"{name} of shape {shape}"
        if not fault:
            try:
                with np.errstate(all="ignore"):
                    probabilities = self.predict_proba(np.zeros((1, *self.input_shape), np.float32))
                if not (
                    probabilities.ndim == 2
                    and probabilities.size > 0
                    and ((probabilities >= 0) & (probabilities <= _MOST_PROBABLE)).all()
                ):
                    fault = "probabilities outside [0, 1]"
                elif (
                    isinstance(self.threshold, tuple)
                    and len(self.threshold) != probabilities.shape[1]
                ):
                    fault = f"{len(self.threshold)} thresholds for {probabilities.shape[1]} labels"
            except _UNUSABLE as error:
                fault = f"{type(error).__name__} when it predicts"
        if fault:
            rule = f"the weights of a {self.kind} student for inputs of shape {self.input_shape}"
            raise damaged(path, rule, fault, _REMEDY)

    @abstractmethod
    def _probabilities(self, rows: Rows) -> Rows:
        """Probabilities `[m, num_labels]` for flattened inputs `[m, d]`."""


class FlatModel(StudentModel):
    """A student by a formula of flat inputs, which numpy computes, and torch where a graph is made of it."""

    @staticmethod
    @abstractmethod
    def formula(rows: Any, arrays: Mapping[str, Any], xp: Any) -> Any:
        """Probabilities `[m, num_labels]` for `[m, d]`; `xp` is numpy, or torch with tensors."""

    def _probabilities(self, rows: Rows) -> Rows:
        return np.asarray(self.formula(rows, self.arrays, np), dtype=np.float32)

    @staticmethod
    def logistic(scores: Any) -> Any:
        """The logistic function of an array or a tensor."""
        return scipy.special.expit(scores) if isinstance(scores, np.ndarray) else scores.sigmoid()


class Predictor(Protocol):
    """A fitted model: labels `[m, L]` of inputs `[m, …]`, or the probability of each."""

    def predict(self, inputs: Rows) -> Labels:
        """Predicts labels, bool `[n, L]`."""

    def predict_proba(self, inputs: Rows) -> NDArray[Any]:
        """Predicts the probability of each label, float32 `[n, L]`."""


class Learner(Protocol):
    """Whatever can be trained on a release: every `Student`, and scikit-learn's estimators in `PATEClassifier`."""

    def learn(
        self, training: TrainingSet, *, pool: Rows, seed: int, on_epoch: OnEpoch | None = None
    ) -> Predictor:
        """Trains a model on released labels; `pool` has public inputs without labels."""


class Student(ABC):
    """A recipe for a student: public hyper-parameters, no learned state; one outside its range raises `InvalidValue`.

    Formal guarantees:
        * `fit` reads its arguments and nothing else. Given public inputs and released labels, the model and
          every choice made for it (penalty, threshold, when to stop) are post-processing: no cost.
        * Equal arguments give equal models.

    Edge cases: without rows the model predicts no label, with probability 0; from one row it predicts that
    row's labels, whatever the input. A label that no row has gets no vote.

    Attributes:
        minds_scale: whether it suffers from inputs of very different widths, of the class.
    """

    minds_scale: ClassVar[bool] = False

    @abstractmethod
    def fit(
        self, inputs: Rows, labels: Labels, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> StudentModel:
        """Trains on answered queries, float32 `[n, …]`, and what was released for them, bool `[n, num_labels]`.

        There may be none, n = 0. All that is random comes from the seed, >= 0; `on_epoch` is told the losses of each
        epoch. Raises `InvalidValue` for labels of another form, inputs that are not finite, a bad seed.
        """

    def learn(
        self, training: TrainingSet, *, pool: Rows, seed: int, on_epoch: OnEpoch | None = None
    ) -> StudentModel:
        """Trains on all that was released: on labels, or on scores where a student knows what to do with them.

        The pool, float32 `[m, …]` or what reads like it, are public samples that were not asked, unlabeled; m may be 0.
        A student may have no use for them. For other arguments see `fit`.
        """
        return self.fit(training.inputs, training.labels, seed=seed, on_epoch=on_epoch)

    @property
    def ceiling(self) -> Student:
        """The recipe of the same kind for many rows with true labels: what privacy and PATE are measured against."""
        return self

    def check(self, input_shape: tuple[int, ...], num_labels: int) -> None:  # noqa: B027 - most students take all
        """Raises `InvalidValue` where such inputs are not for this student: asked before anything is spent."""


def require_rows(inputs: Any, labels: Any, seed: int) -> tuple[Rows, Labels]:
    """Returns the inputs flattened to float32 `[n, d]` and the labels, or raises `InvalidValue`."""
    require_count("seed", seed, minimum=0)
    inputs = require_features("inputs", inputs)
    labels = require_array("labels", labels, kinds=None)
    require(labels.dtype == np.bool_, "labels.dtype", labels.dtype, "bool")
    good = labels.ndim == 2 and len(labels) == len(inputs) and labels.shape[1] > 0
    require(good, "labels.shape", labels.shape, f"[{len(inputs)}, num_labels]")
    width = int(np.prod(inputs.shape[1:]))  # not -1, which fails without rows
    return inputs.astype(np.float32, copy=False).reshape(len(inputs), width), labels


@dataclass(frozen=True, kw_only=True)
class ThresholdedStudent(Student):
    """A student that predicts a label from some probability on.

    Attributes:
        threshold: the rule that places it, by held-out probabilities of the answered queries. `micro_f1` and
            `accuracy` take the best of these, `prevalence` predicts as many labels as were released. Or the number
            itself, in (0, 1], or one for each label.
        threshold_each_label: whether each label has its own, by its own F1 where the rule is `micro_f1`. A few rows
            cannot place that of a rare label.
    """

    threshold: str | float | tuple[float, ...] = field(
        default="micro_f1", metadata={"public": True}
    )
    threshold_each_label: bool = False

    def __post_init__(self) -> None:
        require_settings(self)
        if isinstance(self.threshold, str):
            require_choice("threshold", self.threshold, THRESHOLD_RULES)
            return
        if isinstance(self.threshold, Sequence):
            normalize_field(self, "threshold", tuple(self.threshold))
        rule = f"a number in (0, 1] or one for each label, or {', '.join(THRESHOLD_RULES)}"
        require(self.threshold != (), "threshold", "[]", rule)
        for number in self.threshold if isinstance(self.threshold, tuple) else (self.threshold,):
            real = isinstance(number, (int, float)) and not isinstance(number, bool)
            require(real and 0 < number <= 1, "threshold", number, rule)

    def check(self, input_shape: tuple[int, ...], num_labels: int) -> None:
        """Raises `InvalidValue` for inputs or numbers of labels that it cannot learn from."""
        if isinstance(self.threshold, tuple):
            rule = f"one for each of {num_labels} labels"
            require(
                len(self.threshold) == num_labels,
                "threshold",
                f"{len(self.threshold)} numbers",
                rule,
            )

    def _place(self, probabilities: NDArray[np.floating], labels: Labels) -> Threshold:
        """The threshold by held-out probabilities and released labels, `[n, num_labels]`.

        What held-out rows score with it is not kept: answered queries are the easy ones.
        """
        ThresholdedStudent.check(self, (), labels.shape[1])
        if not isinstance(self.threshold, str):
            return (
                tuple(map(float, self.threshold))
                if isinstance(self.threshold, tuple)
                else float(self.threshold)
            )

        def placed(probabilities: NDArray[np.floating], labels: Labels) -> float:
            if self.threshold == "prevalence":
                return matched_threshold(probabilities, float(labels.sum(axis=1).mean()))
            return best_threshold(probabilities, labels, metric=str(self.threshold))

        if self.threshold_each_label:
            return tuple(
                placed(probabilities[:, [at]], labels[:, [at]]) for at in range(labels.shape[1])
            )
        return placed(probabilities, labels)


def best_threshold(
    probabilities: NDArray[np.floating], labels: Labels, *, metric: str = "micro_f1"
) -> float:
    """The threshold, one for all labels, with the best micro-F1 or accuracy on held-out probabilities, `[n, L]`.

    In (0, 1], halfway between two neighboring probabilities; 0.5 where no label holds.
    """
    if not labels.any():
        return 0.5
    order = np.argsort(-probabilities, axis=None, kind="stable")
    sorted_probabilities = probabilities.ravel()[order]
    sorted_labels = labels.ravel()[order]
    predicted = np.arange(1, len(order) + 1)
    hits = np.cumsum(sorted_labels)
    # F1 = 2 TP / (predicted + held); TP + TN = 2 TP - predicted + a constant
    gain = (
        2 * hits / (predicted + hits[-1])
        if metric == "micro_f1"
        else (2 * hits - predicted).astype(float)
    )
    following = np.append(sorted_probabilities[1:], 0.0)
    gain[sorted_probabilities == following] = -np.inf  # equal probabilities cannot be told apart
    best = int(np.argmax(gain))
    threshold = (sorted_probabilities[best] + following[best]) / 2
    return float(np.clip(threshold, _LOWEST, 1.0))


def matched_threshold(probabilities: NDArray[np.floating], labels_per_sample: float) -> float:
    """The threshold at which held-out probabilities `[n, num_labels]` predict that many labels per sample."""
    share = min(labels_per_sample / probabilities.shape[1], 1.0)
    return float(np.clip(np.quantile(probabilities, 1 - share), _LOWEST, 1.0))
