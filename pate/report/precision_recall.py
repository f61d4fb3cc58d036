"""The precision-recall curve of a model."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, FloatArray

_POINTS = 200  # of a curve


@dataclass(frozen=True, eq=False)
class PrecisionRecall:
    """The precision-recall curve of a model, computed from true labels that no epsilon covers."""

    recall: FloatArray  # `[P]`, ascending
    precision: FloatArray  # `[P]`, at each recall
    chosen: tuple[float, float]  # recall and precision of the labels that the model predicts
    constant: tuple[float, float]  # recall and precision of the best constant
    # the probability from which a label is predicted, for all labels or for each
    threshold: float | tuple[float, ...] | None

    @classmethod
    def from_scores(
        cls,
        scores: NDArray[np.floating],
        predicted_labels: BoolArray,
        true_labels: BoolArray,
        *,
        constant_labels: BoolArray,
        threshold: Any,
        known: BoolArray | None = None,
    ) -> Self | None:
        """Returns the curve at up to 200 values of recall; None if no sample has a label.

        Args:
            scores: the scores of the model, `[num_samples, num_labels]`.
            predicted_labels: the labels that the model predicts, bool `[num_samples, num_labels]`.
            true_labels: the true labels, bool `[num_samples, num_labels]`.
            constant_labels: the labels of the best constant prediction, bool `[num_labels]`.
            threshold: the threshold of the model: one number, or one for each label.
            known: which true labels are known, bool `[num_samples, num_labels]`; None where all are.
        """
        is_counted = np.ones(true_labels.shape, np.bool_) if known is None else known
        if not true_labels.any():
            return None
        true_scores = np.sort(scores[true_labels])
        all_scores = np.sort(scores[is_counted])
        num_true = len(true_scores)
        ranks = np.unique(np.linspace(1, num_true, min(_POINTS, num_true)).round().astype(int))
        levels = true_scores[-ranks]
        hits = num_true - np.searchsorted(true_scores, levels)
        num_predicted = len(all_scores) - np.searchsorted(all_scores, levels)
        return cls(
            recall=hits / num_true,
            precision=hits / num_predicted,
            chosen=_recall_and_precision(predicted_labels & is_counted, true_labels),
            constant=_recall_and_precision(
                predicted_labels=constant_labels & is_counted,
                true_labels=true_labels,
            ),
            threshold=threshold,
        )


def _recall_and_precision(
    predicted_labels: BoolArray, true_labels: BoolArray
) -> tuple[float, float]:
    hits = float((predicted_labels & true_labels).sum())
    return hits / float(true_labels.sum()), hits / max(float(predicted_labels.sum()), 1.0)
