"""What every kind of student offers, and where its probabilities become labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from pate.aggregators.release import TrainingSet
from pate.student.model import Labels, Rows, StudentModel
from pate.validation import (
    InvalidValue,
    require,
    require_array,
    require_choice,
    require_count,
    require_features,
    require_positive,
)

OnEpoch = Callable[[int, dict[str, float]], None]
"""Called with an epoch's number and its losses."""

Threshold = float | tuple[float, ...]
"""One for all labels, or one for each."""

THRESHOLD_RULES = ("micro_f1", "accuracy", "prevalence")
_LOWEST = 1e-3  # above the probability 0 of a label that was never released


class Predictor(Protocol):
    """A fitted model of L labels."""

    def predict(self, inputs: Rows) -> Labels:
        """The labels of inputs `[m, …]`, `[m, L]`."""

    def predict_proba(self, inputs: Rows) -> NDArray[Any]:
        """The probability of each label, `[m, L]`."""


class Learner(Protocol):
    """Whatever can be trained on a release: every `Student`, and scikit-learn's estimators in `PATEClassifier`."""

    def learn(self, training: TrainingSet, *, pool: Rows, seed: int, on_epoch: OnEpoch | None = None) -> Predictor:
        """As `Student.learn` does."""


class Student(ABC):
    """A recipe for a student: public hyper-parameters, no learned state.

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
    def fit(self, inputs: Rows, labels: Labels, *, seed: int, on_epoch: OnEpoch | None = None) -> StudentModel:
        """Trains on answered queries.

        Args:
            inputs: float32 `[n, …]`, the answered queries alone; n may be 0.
            labels: bool `[n, num_labels]`, what was released for them.
            seed: of all that is random in the training, >= 0.
            on_epoch: told the losses after each epoch.

        Raises:
            InvalidValue: labels that are not bool `[n, num_labels]`, inputs that are not finite, a bad seed.
        """

    def learn(self, training: TrainingSet, *, pool: Rows, seed: int, on_epoch: OnEpoch | None = None) -> StudentModel:
        """Trains on all that was released: on labels, or on scores where a student knows what to do with them.

        Args:
            training: public inputs, and what was released for them.
            pool: float32 `[m, …]` or what reads like it: public samples that were not asked, unlabeled; m may be 0. A
                student may have no use for them.
            seed: as in `fit`.
            on_epoch: as in `fit`.
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
    inputs, labels = require_features("inputs", inputs), require_array("labels", labels, kinds=None)
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

    threshold: str | float | tuple[float, ...] = field(default="micro_f1", metadata={"public": True})
    threshold_each_label: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.threshold, str):
            require_choice("threshold", self.threshold, THRESHOLD_RULES)
            return
        if isinstance(self.threshold, Sequence):
            object.__setattr__(self, "threshold", tuple(self.threshold))
        rule = f"a number in (0, 1] or one for each label, or {', '.join(THRESHOLD_RULES)}"
        numbers = self.threshold if isinstance(self.threshold, tuple) else (self.threshold,)
        require(len(numbers) > 0, "threshold", "[]", rule)
        for number in numbers:
            real = isinstance(number, (int, float)) and not isinstance(number, bool)
            require(real and 0 < number <= 1, "threshold", number, rule)

    def check(self, input_shape: tuple[int, ...], num_labels: int) -> None:
        super().check(input_shape, num_labels)
        self._require_one_each(num_labels)

    def _place(self, probabilities: NDArray[np.floating], labels: Labels) -> Threshold:
        """The threshold. What held-out rows score with it is not kept: answered queries are the easy ones.

        Args:
            probabilities: `[n, num_labels]`, each predicted without its own row.
            labels: bool `[n, num_labels]`, released.
        """
        if isinstance(self.threshold, tuple):
            self._require_one_each(labels.shape[1])
            return tuple(map(float, self.threshold))
        if not isinstance(self.threshold, str):
            return float(self.threshold)
        if self.threshold_each_label:
            columns = range(labels.shape[1])
            return tuple(self._placed(probabilities[:, [at]], labels[:, [at]]) for at in columns)
        return self._placed(probabilities, labels)

    def _require_one_each(self, num_labels: int) -> None:
        if isinstance(self.threshold, tuple):
            rule = f"one for each of {num_labels} labels"
            require(len(self.threshold) == num_labels, "threshold", f"{len(self.threshold)} numbers", rule)

    def _placed(self, probabilities: NDArray[np.floating], labels: Labels) -> float:
        if self.threshold == "prevalence":
            return matched_threshold(probabilities, float(labels.sum(axis=1).mean()))
        return best_threshold(probabilities, labels, metric=str(self.threshold))


def require_penalties(penalties: Any) -> None:
    """Raises unless there is at least one penalty, each > 0."""
    if not isinstance(penalties, (tuple, list)):
        raise InvalidValue(f"penalties={penalties}: expected a list of numbers > 0")
    if len(penalties) == 0:
        raise InvalidValue("penalties=(): expected at least one penalty")
    for penalty in penalties:
        require_positive("penalties", penalty)


def best_threshold(probabilities: NDArray[np.floating], labels: Labels, *, metric: str = "micro_f1") -> float:
    """The threshold, one for all labels, with the best micro-F1 or accuracy on held-out probabilities.

    Args:
        probabilities: `[n, num_labels]`, each predicted without its own row.
        labels: bool `[n, num_labels]`.
        metric: `micro_f1` or `accuracy`.

    Returns:
        The threshold in (0, 1], halfway between two neighboring probabilities; 0.5 where no label holds.
    """
    if not labels.any():
        return 0.5
    order = np.argsort(-probabilities, axis=None, kind="stable")
    sorted_probabilities, sorted_labels = probabilities.ravel()[order], labels.ravel()[order]
    predicted, hits = np.arange(1, len(order) + 1), np.cumsum(sorted_labels)
    # F1 = 2 TP / (predicted + held); TP + TN = 2 TP - predicted + a constant
    gain = 2 * hits / (predicted + hits[-1]) if metric == "micro_f1" else (2 * hits - predicted).astype(float)
    following = np.append(sorted_probabilities[1:], 0.0)
    gain[sorted_probabilities == following] = -np.inf  # equal probabilities cannot be told apart
    best = int(np.argmax(gain))
    threshold = (sorted_probabilities[best] + following[best]) / 2
    return float(np.clip(threshold, _LOWEST, 1.0))


def matched_threshold(probabilities: NDArray[np.floating], labels_per_sample: float) -> float:
    """The threshold at which held-out probabilities `[n, num_labels]` predict that many labels per sample."""
    share = min(labels_per_sample / probabilities.shape[1], 1.0)
    return float(np.clip(np.quantile(probabilities, 1 - share), _LOWEST, 1.0))
