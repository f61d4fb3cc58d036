"""A linear student in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.student.logistic import LogisticStudent
from pate.student.model import StudentModel
from pate.student.student import OnEpoch, require_rows
from pate.student.threshold import ThresholdedStudent, matched_threshold, require_penalties
from pate.validation import require_count, require_positive

_PENALTIES = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
_SMALLEST_SLACK = 1e-9  # of 1 - leverage


class LinearModel(StudentModel):
    """Scores `inputs @ weights + bias`, clipped to [0, 1]."""

    kind = "linear"
    forms: ClassVar[Mapping[str, str]] = {"weights": "dL", "bias": "L"}

    def _probabilities(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        scores: NDArray[np.float32] = rows @ self.arrays["weights"] + self.arrays["bias"]
        return scores.clip(0, 1)


@dataclass(frozen=True)
class LinearStudent(ThresholdedStudent):
    """Ridge regression on the label bits, its penalty and threshold chosen by leaving one row out.

    The penalty of each candidate is multiplied by the mean squared distance of the inputs to their mean, so
    it means the same whatever their unit; the intercept is not penalized. The one with the least
    leave-one-out squared error over all labels wins. The threshold, one for all labels, is then that of the
    best leave-one-out micro-F1.

    A released label set tends to miss rare labels, which pulls the threshold up. Where the mean number of
    labels of a sample is public knowledge, `labels_per_sample` places the threshold instead.

    Attributes:
        penalties: candidates, each > 0.
        rank: number of directions in the space of labels that the scores are confined to, the leading ones of the
            fitted scores. None for all. A small rank takes noise out of labels released with much of it.
        labels_per_sample: public mean number of labels per sample, > 0, or None to use the micro-F1.

    Raises:
        InvalidValue: no penalty, or an attribute outside its range.
    """

    minds_scale: ClassVar[bool] = True

    penalties: tuple[float, ...] = field(default=_PENALTIES, metadata={"public": True})
    rank: int | None = None
    labels_per_sample: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_penalties(self.penalties)
        if self.rank is not None:
            require_count("rank", self.rank)
        if self.labels_per_sample is not None:
            require_positive("labels_per_sample", self.labels_per_sample)

    @property
    def ceiling(self) -> LogisticStudent:
        """See `Student.ceiling`: as linear, by the loss that suits true labels."""
        return LogisticStudent()

    def fit(
        self,
        inputs: NDArray[np.float32],
        labels: NDArray[np.bool_],
        *,
        seed: int,
        on_epoch: OnEpoch | None = None,
    ) -> LinearModel:
        """See `Student.fit`. Nothing is random; the one loss reported is the leave-one-out squared error."""
        rows, labels = require_rows(inputs, labels, seed)
        shape = np.asarray(inputs).shape[1:]
        if len(rows) < 2:
            return _constant(rows.shape[1], labels, shape)
        ridge = _Ridge.of(rows, labels)
        errors = [ridge.error(penalty) for penalty in self.penalties]
        penalty = self.penalties[int(np.argmin(errors))]
        weights, held_out = ridge.weights(penalty), ridge.held_out(penalty)
        if self.rank is not None:
            weights, held_out = ridge.confine(weights, held_out, self.rank)
        probabilities = (held_out + ridge.prevalence).clip(0, 1)
        threshold = self._place(probabilities, labels)
        if self.labels_per_sample is not None:
            threshold = matched_threshold(probabilities, self.labels_per_sample)
        if on_epoch is not None:
            on_epoch(0, {"loss": min(errors)})
        arrays = {"weights": weights, "bias": ridge.prevalence - ridge.center @ weights}
        choices = {"penalty": float(penalty)}
        return LinearModel(
            {name: array.astype(np.float32) for name, array in arrays.items()},
            threshold,
            shape,
            len(rows),
            choices,
        )


@dataclass(frozen=True, eq=False)
class _Ridge:
    """Centered rows taken apart once, so that each penalty costs a few products.

    Attributes:
        center: mean input `[d]`.
        prevalence: mean label `[num_labels]`.
        residual: labels minus prevalence `[n, num_labels]`.
        left, singular, right: the singular value decomposition of the centered inputs.
    """

    center: NDArray[np.float64]
    prevalence: NDArray[np.float64]
    residual: NDArray[np.float64]
    left: NDArray[np.float64]
    singular: NDArray[np.float64]
    right: NDArray[np.float64]

    @classmethod
    def of(cls, rows: NDArray[np.float32], labels: NDArray[np.bool_]) -> _Ridge:
        center, prevalence = rows.mean(axis=0, dtype=np.float64), labels.mean(axis=0)
        left, singular, right = np.linalg.svd(rows - center, full_matrices=False)
        return cls(center, prevalence, labels - prevalence, left, singular, right)

    def _shrinkage(self, penalty: float) -> NDArray[np.float64]:
        """What each singular direction keeps, in [0, 1]."""
        square = self.singular**2
        scaled = penalty * (square.sum() / len(self.residual) or 1.0)
        return square / (square + scaled)

    def weights(self, penalty: float) -> NDArray[np.float64]:
        """Weights `[d, num_labels]`."""
        inverse = np.divide(1, self.singular, out=np.zeros_like(self.singular), where=self.singular > 0)
        kept = (self._shrinkage(penalty) * inverse)[:, None]
        return np.asarray(self.right.T @ (kept * (self.left.T @ self.residual)))

    def held_out(self, penalty: float) -> NDArray[np.float64]:
        """Each row's scores minus the prevalence when it is left out, `[n, num_labels]` (Allen, 1974)."""
        shrinkage = self._shrinkage(penalty)
        fitted = self.left @ (shrinkage[:, None] * (self.left.T @ self.residual))
        slack = 1 - self.left**2 @ shrinkage - 1 / len(self.residual)
        error = (self.residual - fitted) / np.maximum(slack, _SMALLEST_SLACK)[:, None]
        return np.asarray(self.residual - error)

    def error(self, penalty: float) -> float:
        """Mean squared leave-one-out error."""
        return float(np.square(self.residual - self.held_out(penalty)).mean())

    def confine(
        self, weights: NDArray[np.float64], held_out: NDArray[np.float64], rank: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Projects weights and held-out scores on the leading directions of the fitted scores."""
        fitted = (self.left * self.singular) @ (self.right @ weights)
        directions = np.linalg.svd(fitted, full_matrices=False)[2][:rank]
        projection = directions.T @ directions * (self.prevalence > 0)  # rounding must not lift 0
        return weights @ projection, held_out @ projection


def _constant(num_inputs: int, labels: NDArray[np.bool_], shape: tuple[int, ...]) -> LinearModel:
    """Predicts the one row's labels, or none."""
    row = np.asarray(labels.any(axis=0), np.float32)
    arrays = {"weights": np.zeros((num_inputs, len(row)), np.float32), "bias": row}
    return LinearModel(arrays, 0.5, shape, len(labels), {})
