"""The precision-recall curve of a model."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, FloatArray

# The largest number of points of a curve.
_MAX_POINTS = 200


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class PrecisionRecall:
    """The precision-recall curve of a model, pooled over all labels, from true labels that no epsilon covers.

    Attributes:
        recall: the recall at each point of the curve, rising, `[num_points]`.
        precision: the precision at each point of the curve, `[num_points]`.
        chosen: the recall and the precision of the labels that the model predicts.
        constant: the recall and the precision of the best constant prediction.
        threshold: the smallest probability with which the model predicts a label: one number for all labels, or one
            for each label; None if the model has no threshold.
    """

    recall: FloatArray
    precision: FloatArray
    chosen: tuple[float, float]
    constant: tuple[float, float]
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
        """Returns the curve of all pairs of a sample and a label together, with up to 200 points.

        Each point is for the labels whose score is at least some number. The result is None if no sample has a label.

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
        pooled_true_scores = np.sort(scores[true_labels])
        pooled_counted_scores = np.sort(scores[is_counted])
        num_true_labels = len(pooled_true_scores)
        # A point of the curve is a threshold: the score of the true label with some rank from above.
        num_points = min(_MAX_POINTS, num_true_labels)
        ranks_from_above = np.unique(
            np.linspace(1, num_true_labels, num_points).round().astype(int)
        )
        thresholds = pooled_true_scores[-ranks_from_above]
        num_hits_at_points = num_true_labels - np.searchsorted(pooled_true_scores, thresholds)
        num_predicted_at_points = len(pooled_counted_scores) - np.searchsorted(
            pooled_counted_scores, thresholds
        )
        return cls(
            recall=num_hits_at_points / num_true_labels,
            precision=num_hits_at_points / num_predicted_at_points,
            chosen=_recall_and_precision(
                predicted_labels=predicted_labels & is_counted,
                true_labels=true_labels,
            ),
            constant=_recall_and_precision(
                predicted_labels=constant_labels & is_counted,
                true_labels=true_labels,
            ),
            threshold=threshold,
        )


def _recall_and_precision(
    *, predicted_labels: BoolArray, true_labels: BoolArray
) -> tuple[float, float]:
    """Returns the recall and the precision over all samples and labels; precision is 0 if no label is predicted.

    Both arguments are bool `[num_samples, num_labels]`. Some sample must have a label.
    """
    num_hits = float((predicted_labels & true_labels).sum())
    recall = num_hits / float(true_labels.sum())
    precision = num_hits / max(float(predicted_labels.sum()), 1.0)
    return recall, precision
