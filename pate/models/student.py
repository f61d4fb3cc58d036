"""The base class of recipes for students, which learn from a release and public samples alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np

from pate.aggregators.training_set import TrainingSet
from pate.array_types import BoolArray, Float32Array
from pate.models.student_model import Predictor, StudentModel
from pate.validation import require, require_array, require_count, require_features

OnEpoch = Callable[[int, dict[str, float]], None]
"""A function that is called with the number of an epoch and the losses of the epoch, by name."""


class Learner(Protocol):
    """The protocol of an object that can be trained on a release.

    Every `Student` implements it, and so does `PATEClassifier`'s recipe of a scikit-learn estimator.
    """

    def learn(
        self,
        training: TrainingSet,
        *,
        pool: Float32Array,
        seed: int,
        on_epoch: OnEpoch | None = None,
    ) -> Predictor:
        """Returns a model that is trained on released labels.

        Args:
            training: the inputs and released labels of the answered queries.
            pool: the inputs of public samples without labels.
            seed: the seed of the training.
            on_epoch: is called with the losses of each epoch; None reports nothing.
        """


class Student(ABC):
    """A recipe for a student: public hyper-parameters, without learned state.

    A hyper-parameter outside its range raises `InvalidValue`.

    Formal guarantees:
        * `fit` reads nothing but its arguments. If these are public inputs and released labels, the model and every
          choice made for it (penalty, threshold, number of epochs) are post-processing and cost no privacy.
        * Equal arguments give equal models.

    Edge cases: without rows, the model predicts no label, with probability 0. With one row, it predicts the labels of
    that row for every input. A label that no row has is never predicted.

    Attributes:
        is_scale_sensitive: whether the student becomes worse when the ranges of its features differ greatly.
    """

    is_scale_sensitive: ClassVar[bool] = False

    @abstractmethod
    def fit(
        self, inputs: Float32Array, labels: BoolArray, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> StudentModel:
        """Trains a model on answered queries.

        Args:
            inputs: the inputs of the answered queries, float32, one entry for each of n >= 0 queries.
            labels: their released labels, bool `[n, num_labels]`.
            seed: the seed of all random numbers, >= 0.
            on_epoch: is called with the losses of each epoch; None reports nothing.

        Raises:
            InvalidValue: the labels are not bits `[n, num_labels]`, or an input is not in [-1e12, 1e12], or the seed is
                negative.
        """

    def learn(
        self,
        training: TrainingSet,
        *,
        pool: Float32Array,
        seed: int,
        on_epoch: OnEpoch | None = None,
    ) -> StudentModel:
        """Trains a model on a release, from its labels alone. Students that learn from scores override this method.

        Args:
            training: the inputs of the answered queries, and what was released for them.
            pool: the inputs of public samples that were not queries, float32, one entry for each sample; may be empty.
                Many students do not use them.
            seed: the seed of all random numbers, >= 0.
            on_epoch: is called with the losses of each epoch; None reports nothing.
        """
        if training.known is None:
            return self.fit(training.inputs, training.labels, seed=seed, on_epoch=on_epoch)
        return self.fit_known(training, seed=seed, on_epoch=on_epoch)

    def fit_known(
        self, training: TrainingSet, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> StudentModel:
        """Trains a model on true labels with gaps; used for reference models, as a release has no gaps.

        The students of this package override it, or `learn`, and leave unknown labels out. In a class that overrides
        neither, unknown labels count as absent.

        Args:
            training: inputs, labels, and which labels are known.
            seed: the seed of all random numbers, >= 0.
            on_epoch: is called with the losses of each epoch; None reports nothing.
        """
        return self.fit(training.inputs, training.labels, seed=seed, on_epoch=on_epoch)

    @property
    def ceiling(self) -> Student:
        """A recipe for the best model of all private records with true labels: the upper limit in the report."""
        return self

    def check(self, input_shape: tuple[int, ...], num_labels: int) -> None:  # noqa: B027 - most students take all
        """Raises `InvalidValue` if the student cannot learn from inputs of a shape; called before anything is spent.

        Args:
            input_shape: the shape of one input.
            num_labels: the number of labels.
        """


def require_rows(inputs: Any, labels: Any, seed: int) -> tuple[Float32Array, BoolArray]:
    """Returns inputs as float32 `[num_rows, num_features]`, and labels as bool `[num_rows, num_labels]`.

    Raises:
        InvalidValue: the labels are not bits `[num_rows, num_labels]`, or an input is not in [-1e12, 1e12], or the seed
            is negative.
    """
    require_count("seed", seed, minimum=0)
    inputs = require_features("inputs", inputs)
    labels = require_array("labels", labels, dtype_kinds=None)
    require(labels.dtype == np.bool_, "labels.dtype", labels.dtype, "bool")
    fits = labels.ndim == 2 and len(labels) == len(inputs) and labels.shape[1] > 0
    require(fits, "labels.shape", labels.shape, f"[{len(inputs)}, num_labels]")
    num_features = int(np.prod(inputs.shape[1:]))  # -1 would fail without rows
    rows = inputs.astype(np.float32, copy=False).reshape(len(inputs), num_features)
    return rows, labels
