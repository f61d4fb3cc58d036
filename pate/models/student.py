"""A recipe for students, which learn from a release alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np

from pate.aggregators.release import TrainingSet
from pate.models.student_model import Labels, Predictor, Rows, StudentModel
from pate.validation import require, require_array, require_count, require_features

OnEpoch = Callable[[int, dict[str, float]], None]  # called with an epoch's number and its losses


class Learner(Protocol):
    """Anything that can be trained on a release: every `Student`, and scikit-learn's estimators in `PATEClassifier`."""

    def learn(
        self, training: TrainingSet, *, pool: Rows, seed: int, on_epoch: OnEpoch | None = None
    ) -> Predictor:
        """Trains a model on released labels; `pool` has public inputs without labels."""


class Student(ABC):
    """A recipe for a student: public hyper-parameters, no learned state.

    A hyper-parameter outside its range raises `InvalidValue`.

    Formal guarantees:
        * `fit` reads its arguments and nothing else. Given public inputs and released labels, the model and
          every choice made for it (penalty, threshold, when to stop) are post-processing: no cost.
        * Equal arguments give equal models.

    Edge cases: without rows the model predicts no label, with probability 0; from one row it predicts that
    row's labels, whatever the input. A label that no row has gets no vote.

    Attributes:
        is_scale_sensitive: a property of the class: whether features of very different widths make the student worse.
    """

    is_scale_sensitive: ClassVar[bool] = False

    @abstractmethod
    def fit(
        self, inputs: Rows, labels: Labels, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> StudentModel:
        """Trains a model on answered queries.

        Args:
            inputs: public samples that were answered, float32 `[n, …]`; n may be 0.
            labels: their released labels, bool `[n, num_labels]`.
            seed: source of all that is random, >= 0.
            on_epoch: called with the losses of each epoch.

        Raises:
            InvalidValue: labels of another form, inputs that are not finite, a negative seed.
        """

    def learn(
        self, training: TrainingSet, *, pool: Rows, seed: int, on_epoch: OnEpoch | None = None
    ) -> StudentModel:
        """Trains a model on all that was released: on labels, or on scores if a student can use them.

        Args:
            training: inputs of the answered queries, and what was released for them.
            pool: public samples without labels that were not asked, float32 `[m, …]` or what reads like it; m may be 0.
                Many students have no use for them.
            seed: as in `fit`.
            on_epoch: as in `fit`.
        """
        return self.fit(training.inputs, training.labels, seed=seed, on_epoch=on_epoch)

    @property
    def ceiling(self) -> Student:
        """The recipe of the same kind for many rows with true labels: what privacy and PATE are measured against."""
        return self

    def check(self, input_shape: tuple[int, ...], num_labels: int) -> None:  # noqa: B027 - most students take all
        """Raises `InvalidValue` if the student cannot learn from such inputs; called before anything is spent."""


def require_rows(inputs: Any, labels: Any, seed: int) -> tuple[Rows, Labels]:
    """Returns the inputs flattened to float32 `[n, d]` and the labels, or raises `InvalidValue`."""
    require_count("seed", seed, minimum=0)
    inputs = require_features("inputs", inputs)
    labels = require_array("labels", labels, kinds=None)
    require(labels.dtype == np.bool_, "labels.dtype", labels.dtype, "bool")
    fits = labels.ndim == 2 and len(labels) == len(inputs) and labels.shape[1] > 0
    require(fits, "labels.shape", labels.shape, f"[{len(inputs)}, num_labels]")
    width = int(np.prod(inputs.shape[1:]))  # not -1, which fails without rows
    return inputs.astype(np.float32, copy=False).reshape(len(inputs), width), labels
