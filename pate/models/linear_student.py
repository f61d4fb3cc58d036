"""A student that is a ridge regression in closed form; leave-one-out predictions choose its penalty and threshold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from pate.aggregators.training_set import TrainingSet
from pate.array_types import BoolArray, Float32Array
from pate.models.hyperparameters import require_penalties
from pate.models.linear_model import LinearModel
from pate.models.logistic import LogisticStudent
from pate.models.ridge_paths import fit_ridge_path
from pate.models.student import OnEpoch, Student, require_rows
from pate.models.thresholds import ThresholdedStudent, matched_threshold

# The usual candidate penalties, before they are multiplied by the spread of the inputs.
_PENALTIES = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)


@dataclass(frozen=True)
class LinearStudent(ThresholdedStudent):
    """A recipe for a student that is a ridge regression; leave-one-out predictions choose its penalty and threshold.

    Each candidate penalty is multiplied by the mean squared distance of the inputs to their mean. So its effect does
    not depend on the unit of the inputs. The intercept is not penalized. The candidate with the least leave-one-out
    squared error over all labels is used. The threshold, by default one number for all labels, then maximizes the
    leave-one-out micro-F1.

    A released label set tends to miss rare labels, so the threshold becomes too high. If the mean number of labels of a
    sample is public knowledge, `labels_per_sample` determines the threshold instead.

    Edge case: with fewer than two rows, nothing is fitted or reported, and the threshold is 0.5. The model predicts the
    labels of the only row for every input, or no label without rows.

    Attributes:
        penalties: the candidate penalties, each > 0.
        rank: the number of directions in the space of labels that the scores are projected on: the leading directions
            of the fitted scores. A small rank removes noise, which helps if the released labels have much of it. None
            does not project.
        labels_per_sample: the public mean number of labels of a sample, > 0; None leaves the choice to `threshold`.
    """

    is_scale_sensitive: ClassVar[bool] = True

    penalties: tuple[float, ...] = field(default=_PENALTIES, metadata={"public": True})
    rank: int | None = None
    labels_per_sample: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_penalties(self.penalties)

    @property
    def ceiling(self) -> Student:
        """The recipe of the reference model: a logistic student, which suits true labels, as these have no noise."""
        return LogisticStudent()

    def fit(
        self, inputs: Float32Array, labels: BoolArray, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> LinearModel:
        """Fits the model in closed form, without randomness; reports once its mean leave-one-out squared error."""
        return self.fit_known(TrainingSet(inputs, labels), seed=seed, on_epoch=on_epoch)

    def fit_known(
        self, training: TrainingSet, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> LinearModel:
        """Fits the model as `fit` does, each label to the rows for which it is known."""
        inputs = training.inputs
        known_label_mask = training.known
        # The fit uses no seed. It is checked all the same, so that all students refuse the same arguments.
        input_rows, labels = require_rows(inputs=inputs, labels=training.labels, seed=seed)
        if len(input_rows) < 2:  # predicts the labels of the only row, or none
            return LinearModel.constant(predicted_labels=labels.any(axis=0), inputs=inputs)
        ridge_path = fit_ridge_path(input_rows, labels=labels, known_label_mask=known_label_mask)
        squared_errors = [ridge_path.squared_error(penalty) for penalty in self.penalties]
        penalty = self.penalties[int(np.argmin(squared_errors))]
        left_out_scores = ridge_path.left_out_scores(penalty)
        weights = ridge_path.weights(penalty)
        intercept = ridge_path.intercept(weights)
        if self.rank is not None:
            projection = ridge_path.leading_label_directions(weights, rank=self.rank)
            weights = weights @ projection
            left_out_scores = left_out_scores @ projection
        left_out_probabilities = (left_out_scores + intercept).clip(0, 1)
        if self.labels_per_sample is None:
            # A label that is unknown counts as not predicted.
            probabilities_of_known_labels = (
                left_out_probabilities
                if known_label_mask is None
                else left_out_probabilities * known_label_mask
            )
            threshold = self._choose_threshold(probabilities_of_known_labels, labels=labels)
        else:
            threshold = matched_threshold(
                left_out_probabilities, labels_per_sample=self.labels_per_sample
            )
        if on_epoch is not None:
            on_epoch(0, {"loss": min(squared_errors)})
        bias = intercept - ridge_path.center @ weights
        return LinearModel(
            arrays={"weights": weights.astype(np.float32), "bias": bias.astype(np.float32)},
            threshold=threshold,
            input_shape=np.shape(inputs)[1:],
            num_rows=len(input_rows),
            choices={"penalty": float(penalty)},
        )
