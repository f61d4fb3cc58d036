"""Where a student's probabilities become labels: chosen on released rows alone, hence at no cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.student.student import Student
from pate.validation import InvalidValue, require, require_choice, require_positive

THRESHOLD_RULES = ("micro_f1", "accuracy", "prevalence")

Threshold = float | tuple[float, ...]
"""One for all labels, or one for each."""

_LOWEST = 1e-3  # above the probability 0 of a label that was never released


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
        """See `Student.check`."""
        super().check(input_shape, num_labels)
        self._require_one_each(num_labels)

    def _place(self, probabilities: NDArray[np.floating], labels: NDArray[np.bool_]) -> Threshold:
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

    def _placed(self, probabilities: NDArray[np.floating], labels: NDArray[np.bool_]) -> float:
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


def best_threshold(
    probabilities: NDArray[np.floating], labels: NDArray[np.bool_], *, metric: str = "micro_f1"
) -> float:
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
