"""The thresholds of students: the least probability for which a label is predicted, chosen by held-out predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray
from pate.models.hyperparameters import require_settings
from pate.models.student import Student
from pate.models.student_model import Threshold
from pate.validation import normalize_field, require, require_choice

# The rules by which a threshold is chosen, as the field `threshold` names them.
THRESHOLD_RULES = ("micro_f1", "accuracy", "prevalence")
# The smallest threshold: a label that was never released has probability 0, and must not be predicted.
_LOWEST_THRESHOLD = 1e-3


@dataclass(frozen=True, kw_only=True)
class ThresholdedStudent(Student):
    """The base class of student recipes that choose a threshold of probabilities.

    Attributes:
        threshold: the rule that chooses the threshold from held-out probabilities of the answered queries. "micro_f1"
            and "accuracy" choose the threshold with the best such score. "prevalence" predicts as many labels as were
            released. A number in (0, 1], or a tuple with a number for each label, is the threshold itself.
        threshold_each_label: true applies the rule to each label alone, so that each label gets a threshold; "micro_f1"
            then is the F1 of that label. A few rows are not enough to choose the threshold of a rare label.
    """

    threshold: str | float | tuple[float, ...] = field(
        default="micro_f1", metadata={"public": True}
    )
    threshold_each_label: bool = False

    def __post_init__(self) -> None:
        require_settings(self)
        if isinstance(self.threshold, str):
            require_choice("threshold", self.threshold, choices=THRESHOLD_RULES)
            return
        if isinstance(self.threshold, Sequence):
            normalize_field(self, "threshold", tuple(self.threshold))
        rule = f"a number in (0, 1] or one for each label, or {', '.join(THRESHOLD_RULES)}"
        require(self.threshold != (), "threshold", "[]", rule)
        numbers = self.threshold if isinstance(self.threshold, tuple) else (self.threshold,)
        for number in numbers:
            is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
            require(is_number and 0 < number <= 1, "threshold", number, rule)

    def check(self, input_shape: tuple[int, ...], num_labels: int) -> None:
        """Raises `InvalidValue` if `threshold` is a tuple and has another length than the number of labels."""
        self._require_thresholds(num_labels)

    def _require_thresholds(self, num_labels: int) -> None:
        """Raises `InvalidValue` if `threshold` is a tuple and its length is not the number of labels."""
        if isinstance(self.threshold, tuple):
            num_thresholds = len(self.threshold)
            rule = f"one for each of {num_labels} labels"
            require(num_thresholds == num_labels, "threshold", f"{num_thresholds} numbers", rule)

    def _choose_threshold(
        self, held_out_probabilities: NDArray[np.floating], *, labels: BoolArray
    ) -> Threshold:
        """Returns the threshold that the field `threshold` asks for: one number, or one for each label.

        A number or a tuple in the field is returned as it is. A rule in the field ("micro_f1", "accuracy" or
        "prevalence") chooses the threshold by the held-out probabilities and the released labels. With
        `threshold_each_label`, each label gets a threshold of its own.

        The score that held-out rows reach with the threshold is not kept, as it is too optimistic: answered queries are
        easier than the other public samples.

        Args:
            held_out_probabilities: the held-out probabilities of the answered queries, `[num_queries, num_labels]`.
            labels: the released labels, bool `[num_queries, num_labels]`.
        """
        num_labels = labels.shape[1]
        self._require_thresholds(num_labels)
        if isinstance(self.threshold, tuple):
            return tuple(map(float, self.threshold))
        if not isinstance(self.threshold, str):
            return float(self.threshold)
        if self.threshold_each_label:
            return tuple(
                self._threshold_by_rule(
                    held_out_probabilities[:, [label_index]], labels=labels[:, [label_index]]
                )
                for label_index in range(num_labels)
            )
        return self._threshold_by_rule(held_out_probabilities, labels=labels)

    def _threshold_by_rule(
        self, held_out_probabilities: NDArray[np.floating], *, labels: BoolArray
    ) -> float:
        """Returns one threshold for all labels that are passed, chosen by the rule that the field `threshold` names.

        The arguments are those of `_choose_threshold`, for all labels or for one.
        """
        if self.threshold == "prevalence":
            return matched_threshold(
                held_out_probabilities, labels_per_sample=float(labels.sum(axis=1).mean())
            )
        return best_threshold(held_out_probabilities, labels=labels, metric=str(self.threshold))


def best_threshold(
    held_out_probabilities: NDArray[np.floating], *, labels: BoolArray, metric: str = "micro_f1"
) -> float:
    """Returns the threshold, one number for all labels, with the best score on held-out probabilities.

    Only thresholds are compared at which some row is predicted to have some label. The best one is halfway between two
    neighboring probabilities, or halfway between 0 and the smallest one, but at least 0.001. The result is 0.5 if no
    row has any label.

    Args:
        held_out_probabilities: held-out probabilities, `[num_rows, num_labels]`.
        labels: the labels of the rows, bool `[num_rows, num_labels]`.
        metric: "micro_f1" or "accuracy".
    """
    if not labels.any():
        return 0.5
    descending_order = np.argsort(-held_out_probabilities, axis=None, kind="stable")
    sorted_probabilities = held_out_probabilities.ravel()[descending_order]
    # The true positives if the first 1, 2, … are predicted.
    true_positives = np.cumsum(labels.ravel()[descending_order])
    num_predicted = np.arange(1, len(descending_order) + 1)
    if metric == "micro_f1":
        num_present = true_positives[-1]
        threshold_scores = 2 * true_positives / (num_predicted + num_present)
    else:
        # The number of right answers, which is TP + TN, minus a constant.
        num_right_less_constant = 2 * true_positives - num_predicted
        threshold_scores = num_right_less_constant.astype(float)
    next_probabilities = np.append(sorted_probabilities[1:], 0.0)
    # equal probabilities cannot be told apart
    threshold_scores[sorted_probabilities == next_probabilities] = -np.inf
    best_index = int(np.argmax(threshold_scores))
    probability_threshold = (sorted_probabilities[best_index] + next_probabilities[best_index]) / 2
    return float(np.clip(probability_threshold, a_min=_LOWEST_THRESHOLD, a_max=1.0))


def matched_threshold(
    held_out_probabilities: NDArray[np.floating], labels_per_sample: float
) -> float:
    """Returns the threshold that predicts a given mean number of labels per sample: a quantile, clipped to [0.001, 1].

    The number may differ by rounding, and where probabilities are equal or below 0.001.

    Args:
        held_out_probabilities: held-out probabilities, `[num_rows, num_labels]`.
        labels_per_sample: the mean number of labels of a sample.
    """
    predicted_share = min(labels_per_sample / held_out_probabilities.shape[1], 1.0)
    probability_threshold = np.quantile(held_out_probabilities, 1 - predicted_share)
    return float(np.clip(probability_threshold, a_min=_LOWEST_THRESHOLD, a_max=1.0))
