"""What every kind of student offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from pate.aggregators.release import TrainingSet
from pate.student.model import StudentModel
from pate.validation import require, require_array, require_count, require_features

OnEpoch = Callable[[int, dict[str, float]], None]
"""Called with an epoch's number and its losses."""


class Predictor(Protocol):
    """A fitted model of L labels."""

    def predict(self, inputs: NDArray[np.float32]) -> NDArray[np.bool_]:
        """The labels of inputs `[m, …]`, `[m, L]`."""

    def predict_proba(self, inputs: NDArray[np.float32]) -> NDArray[Any]:
        """The probability of each label, `[m, L]`."""


class Learner(Protocol):
    """Whatever can be trained on a release: every `Student`, and scikit-learn's estimators in `PATEClassifier`."""

    def learn(
        self,
        training: TrainingSet,
        *,
        pool: NDArray[np.float32],
        seed: int,
        on_epoch: OnEpoch | None = None,
    ) -> Predictor:
        """See `Student.learn`."""


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
    def fit(
        self,
        inputs: NDArray[np.float32],
        labels: NDArray[np.bool_],
        *,
        seed: int,
        on_epoch: OnEpoch | None = None,
    ) -> StudentModel:
        """Trains on answered queries.

        Args:
            inputs: float32 `[n, …]`, the answered queries alone; n may be 0.
            labels: bool `[n, num_labels]`, what was released for them.
            seed: of all that is random in the training, >= 0.
            on_epoch: told the losses after each epoch.

        Raises:
            InvalidValue: labels that are not bool `[n, num_labels]`, inputs that are not finite, a bad seed.
        """

    def learn(
        self,
        training: TrainingSet,
        *,
        pool: NDArray[np.float32],
        seed: int,
        on_epoch: OnEpoch | None = None,
    ) -> StudentModel:
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


def require_rows(inputs: Any, labels: Any, seed: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Returns the inputs flattened to float32 `[n, d]` and the labels, or raises `InvalidValue`."""
    require_count("seed", seed, minimum=0)
    inputs, labels = require_features("inputs", inputs), require_array("labels", labels, kinds=None)
    require(labels.dtype == np.bool_, "labels.dtype", labels.dtype, "bool")
    good = labels.ndim == 2 and len(labels) == len(inputs) and labels.shape[1] > 0
    require(good, "labels.shape", labels.shape, f"[{len(inputs)}, num_labels]")
    width = int(np.prod(inputs.shape[1:]))  # not -1, which fails without rows
    return inputs.astype(np.float32, copy=False).reshape(len(inputs), width), labels
