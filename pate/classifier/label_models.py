"""Fitted teachers and students of scikit-learn estimators, and of students that `pate-train` trains as well.

`LabelModel` predicts any number of labels for each sample, `ClassModel` and `OneClassModel` predict one class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, Float32Array, FloatArray, IntArray
from pate.models.sklearn import FittedLabels, map_to_half
from pate.models.student_model import Predictor, class_probabilities, most_probable
from pate.validation import require


class LabelModel(FittedLabels):
    """A fitted teacher or student that predicts any number of labels for each sample, by scikit-learn estimators.

    Its methods return arrays `[num_samples, num_labels]`.
    """

    predict_proba = FittedLabels.confidences

    def predict(self, inputs: Float32Array) -> BoolArray:
        """Returns True for each label whose probability is at least 0.5, bool `[num_samples, num_labels]`."""
        return np.asarray(self.predict_proba(inputs) >= 0.5)

    def confidences(self, inputs: Float32Array) -> NDArray[Any]:
        """Returns the confidences of a teacher, `[num_samples, num_labels]`; it votes for a label from 0.5 on."""
        return map_to_half(self.predict_proba(inputs))


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class ClassModel:
    """A fitted teacher or student that predicts one class, with the methods of a `LabelModel`.

    Attributes:
        num_classes: the number of classes.
        present_classes: the numbers of the classes that occurred in training, ascending.
        model: the fitted estimator, which predicts numbers of classes; None if fewer than two classes occurred.
    """

    num_classes: int
    present_classes: IntArray
    model: Any

    def predict(self, inputs: Float32Array) -> BoolArray:
        """Returns True for the predicted class of each sample, bool `[num_samples, num_classes]`.

        If training had one class, that class is predicted; if it had none, the first class.
        """
        num_samples = len(inputs)
        if self.model is not None:
            class_indices = np.asarray(self.model.predict(inputs))
        else:
            only_class_index = self.present_classes[0] if len(self.present_classes) else 0
            class_indices = np.full(num_samples, only_class_index)
        expected_shape = (num_samples,)
        require(
            class_indices.shape == expected_shape,
            "predictions.shape",
            class_indices.shape,
            str(expected_shape),
        )
        return np.asarray(class_indices[:, None] == np.arange(self.num_classes))

    def predict_proba(self, inputs: Float32Array) -> FloatArray:
        """Returns the probability of each class, `[num_samples, num_classes]`.

        It is 0 for classes that did not occur in training. If none did, all probabilities are equal.
        """
        if not len(self.present_classes):
            return np.full((len(inputs), self.num_classes), 1 / self.num_classes)
        probabilities = np.zeros((len(inputs), self.num_classes))
        if self.model is None:
            probabilities[:, self.present_classes] = 1.0
        else:
            probabilities[:, self.present_classes] = self.model.predict_proba(inputs)
        return probabilities

    def confidences(self, inputs: Float32Array) -> Float32Array:
        """Returns the votes of a teacher, `[num_samples, num_classes]`: 1 for the predicted class, otherwise 0."""
        return self.predict(inputs).astype(np.float32)


@dataclass(frozen=True, eq=False)  # compared by identity, as its parts are
class OneClassModel:
    """A student that was trained on labels and predicts one class: the label of the greatest probability.

    Attributes:
        student: the trained student, which predicts a probability for each label.
    """

    student: Predictor

    def predict(self, inputs: Float32Array) -> BoolArray:
        """Returns True for the predicted class of each sample, bool `[num_samples, num_classes]`."""
        return most_probable(probabilities=self.predict_proba(inputs))

    def predict_proba(self, inputs: Float32Array) -> FloatArray:
        """Returns the probability of each class, `[num_samples, num_classes]`; they sum to 1 for each sample.

        They are those of the labels, divided by their sum; equal ones if all are 0.
        """
        return class_probabilities(self.student.predict_proba(inputs))


Model = Predictor
"""A fitted teacher or student: a `LabelModel` or `ClassModel` of estimators, or a model that `pate-train` trains."""
