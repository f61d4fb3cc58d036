"""Thresholds of students: the probability from which a label is predicted, chosen on held-out probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pate.models.hyperparameters import require_settings
from pate.models.student import Student
from pate.models.student_model import Labels, Threshold
from pate.validation import normalize_field, require, require_choice

THRESHOLD_RULES = ("micro_f1", "accuracy", "prevalence")
_LOWEST = 1e-3  # above the probability 0 of a label that was never released


@dataclass(frozen=True, kw_only=True)
class ThresholdedStudent(Student):
    """A student that predicts a label from a threshold of its probability on.

    Attributes:
        threshold: the rule that places the threshold by held-out probabilities of the answered queries. `micro_f1` and
            `accuracy` take the one with the best score, `prevalence` predicts as many labels as were released. A number
            in (0, 1], or one for each label, is the threshold itself.
        threshold_each_label: whether each label has a threshold of its own, by its own F1 under the rule `micro_f1`. A
            few rows cannot place the threshold of a rare label.
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
            is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
            require(is_number and 0 < number <= 1, "threshold", number, rule)

    def check(self, input_shape: tuple[int, ...], num_labels: int) -> None:
        """Raises `InvalidValue` if the student cannot learn from such inputs, or so many labels."""
        self._require_thresholds(num_labels)

    def _require_thresholds(self, num_labels: int) -> None:
        """Raises `InvalidValue` unless thresholds for each label are as many as the labels."""
        if isinstance(self.threshold, tuple):
            count = len(self.threshold)
            rule = f"one for each of {num_labels} labels"
            require(count == num_labels, "threshold", f"{count} numbers", rule)

    def _place(self, probabilities: NDArray[np.floating], labels: Labels) -> Threshold:
        """Returns the threshold by held-out probabilities and released labels, both `[n, num_labels]`.

        What held-out rows score with it is not kept: answered queries are the easy ones.
        """
        num_labels = labels.shape[1]
        self._require_thresholds(num_labels)
        if isinstance(self.threshold, tuple):
            return tuple(map(float, self.threshold))
        if not isinstance(self.threshold, str):
            return float(self.threshold)
        if self.threshold_each_label:
            return tuple(
                self._place_one(probabilities[:, [label]], labels[:, [label]])
                for label in range(num_labels)
            )
        return self._place_one(probabilities, labels)

    def _place_one(self, probabilities: NDArray[np.floating], labels: Labels) -> float:
        """Returns one threshold for all the labels, by the rule."""
        if self.threshold == "prevalence":
            return matched_threshold(probabilities, float(labels.sum(axis=1).mean()))
        return best_threshold(probabilities, labels, metric=str(self.threshold))


def best_threshold(
    probabilities: NDArray[np.floating], labels: Labels, *, metric: str = "micro_f1"
) -> float:
    """Returns the threshold, one for all labels, with the best score on held-out probabilities.

    The threshold is in (0, 1], halfway between two neighboring probabilities; 0.5 if no label holds.

    Args:
        probabilities: held-out, `[n, num_labels]`.
        labels: bool `[n, num_labels]`.
        metric: "micro_f1" or "accuracy".
    """
    if not labels.any():
        return 0.5
    order = np.argsort(-probabilities, axis=None, kind="stable")
    sorted_probabilities = probabilities.ravel()[order]
    hits = np.cumsum(labels.ravel()[order])  # true positives if the first 1, 2, … are predicted
    num_predicted = np.arange(1, len(order) + 1)
    f1 = 2 * hits / (num_predicted + hits[-1])  # 2 TP / (predicted + held)
    num_right = (2 * hits - num_predicted).astype(float)  # TP + TN up to a constant
    score = f1 if metric == "micro_f1" else num_right
    next_probabilities = np.append(sorted_probabilities[1:], 0.0)
    # equal probabilities cannot be told apart
    score[sorted_probabilities == next_probabilities] = -np.inf
    best = int(np.argmax(score))
    threshold = (sorted_probabilities[best] + next_probabilities[best]) / 2
    return float(np.clip(threshold, _LOWEST, 1.0))


def matched_threshold(probabilities: NDArray[np.floating], labels_per_sample: float) -> float:
    """Returns the threshold at which held-out probabilities `[n, num_labels]` predict so many labels per sample."""
    share = min(labels_per_sample / probabilities.shape[1], 1.0)
    return float(np.clip(np.quantile(probabilities, 1 - share), _LOWEST, 1.0))
