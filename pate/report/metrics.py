"""Metrics of multi-label predictions, for all labels together and for each label."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.array_types import BoolArray, FloatArray
from pate.validation import InvalidValue, require


@dataclass(frozen=True)
class Scores:
    """The five metrics of a model that every table shows, each in [0, 1], as `multilabel_metrics` defines them.

    Attributes:
        accuracy: the share of correct bits over samples and labels.
        balanced_accuracy: the mean over labels of the balanced accuracy; None if it is defined for no label.
        micro_f1: the F1 of all bits together.
        macro_f1: the mean over labels of the F1.
        mean_average_precision: the mean over labels of the average precision; None if no sample has a label.
    """

    accuracy: float
    balanced_accuracy: float | None
    micro_f1: float
    macro_f1: float
    mean_average_precision: float | None

    def __post_init__(self) -> None:
        for metric_name, score in vars(self).items():
            require(score is None or 0 <= score <= 1, metric_name, score, "a number in [0, 1]")


def multilabel_metrics(
    predicted_labels: ArrayLike,
    scores: ArrayLike,
    true_labels: ArrayLike,
    *,
    known: BoolArray | None = None,
) -> Scores:
    """Computes the five metrics of a multi-label prediction, each in [0, 1]; None for a mean over no label.

    - `accuracy`: the share of correct bits over samples and labels. The PATE papers report it; it is high for rare
      labels.
    - `balanced_accuracy`: the mean over labels of each label's balanced accuracy. Labels that all samples have, or
      none, are left out, so a constant prediction scores exactly 0.5.
    - `micro_f1`: the F1 of all bits together. `macro_f1`: the mean over all labels of each label's F1. F1 is 0 if there
      is neither a predicted nor a true positive.
    - `mean_average_precision`: the mean of the average precision of `scores` over the labels that some sample has.

    Where some true labels are unknown, each metric is computed from the known ones alone, and means over labels leave
    out the labels that are known for no sample.

    n is the number of samples and L the number of labels.

    Args:
        predicted_labels: the predicted labels, bool `[n, L]`.
        scores: the score of each label, finite float `[n, L]`; a higher score means that the label is more likely.
        true_labels: the true labels, bool `[n, L]`; False where they are unknown.
        known: which true labels are known, bool `[n, L]`; None where all are.

    Raises:
        InvalidValue: an array has another type, or is empty; or the shapes differ; or a score is not finite; or no
            label is known.
    """
    predicted_labels, scores, true_labels = require_predictions(
        predicted_labels, scores, true_labels
    )
    metrics_of_labels = _metrics_of_labels(
        predicted_labels=predicted_labels, scores=scores, true_labels=true_labels, known=known
    )
    return summarize_labels(
        metrics_of_labels, micro_f1=micro_f1(predicted_labels, true_labels, known=known)
    )


def summarize_labels(metrics_of_labels: Mapping[str, FloatArray], *, micro_f1: float) -> Scores:
    """Returns the five metrics of a prediction, from the metrics of each label.

    Args:
        metrics_of_labels: the metrics of each label, as `per_label_metrics` returns them.
        micro_f1: the F1 of all bits together.
    """
    num_known = metrics_of_labels["num_known"]
    is_label_known = num_known > 0
    require(bool(is_label_known.any()), "known", value=0, rule="at least one label that is known")
    # The accuracy is the share of right bits, so a label counts by the number of samples for which it is known.
    is_equal_for_all = (num_known == num_known[0]).all()
    label_weights = None if is_equal_for_all else num_known[is_label_known]
    return Scores(
        accuracy=float(
            np.average(metrics_of_labels["accuracy"][is_label_known], weights=label_weights)
        ),
        balanced_accuracy=mean_of_defined(metrics_of_labels["balanced_accuracy"]),
        micro_f1=micro_f1,
        macro_f1=float(np.mean(metrics_of_labels["f1"][is_label_known])),
        mean_average_precision=mean_of_defined(metrics_of_labels["average_precision"]),
    )


def mean_of_defined(values: FloatArray) -> float | None:
    """Returns the mean of the values that are not NaN; None if all are NaN."""
    is_defined = ~np.isnan(values)
    return float(np.mean(values[is_defined])) if is_defined.any() else None


def micro_f1(
    predicted_labels: BoolArray, true_labels: BoolArray, known: BoolArray | None = None
) -> float:
    """Returns the F1 of all known bits together; 0 if there is neither a predicted nor a true positive.

    All arrays are bool `[num_samples, num_labels]`. `known` says which true labels are known; None if all are.
    """
    if known is not None:
        predicted_labels = predicted_labels & known
    num_positives = np.count_nonzero(predicted_labels) + np.count_nonzero(true_labels)
    if num_positives == 0:
        return 0.0
    return 2 * np.count_nonzero(predicted_labels & true_labels) / num_positives


def per_label_metrics(
    predicted_labels: ArrayLike,
    scores: ArrayLike,
    true_labels: ArrayLike,
    *,
    known: BoolArray | None = None,
) -> dict[str, FloatArray]:
    """Computes the metrics of each label, with the arguments and definitions of `multilabel_metrics`.

    Returns:
        `accuracy`, `balanced_accuracy`, `precision`, `recall`, `f1`, `average_precision`, `auroc`, `num_known` (the
        number of samples for which the label is known) and `prevalence` (the share of these samples with the label),
        each float64 `[num_labels]`. An undefined metric is NaN, but `precision` without a prediction, and `f1` without
        a predicted or true positive, are 0.
    """
    predicted_bits, checked_scores, true_bits = require_predictions(
        predicted_labels, scores, true_labels
    )
    metrics_of_labels = _metrics_of_labels(
        predicted_labels=predicted_bits, scores=checked_scores, true_labels=true_bits, known=known
    )
    return metrics_of_labels | {"auroc": areas_under_roc(checked_scores, true_bits, known=known)}


def _metrics_of_labels(
    *,
    predicted_labels: BoolArray,
    scores: FloatArray,
    true_labels: BoolArray,
    known: BoolArray | None,
) -> dict[str, FloatArray]:
    """Returns the metrics of each label, as `per_label_metrics` does, but without `auroc`.

    The arguments are arrays `[num_samples, num_labels]`. The function checks only `known`, and raises `InvalidValue` if
    its form is wrong or an unknown label is marked as true. `require_predictions` has checked the other arrays.
    """
    num_samples, num_labels = true_labels.shape
    num_known = np.full(num_labels, num_samples)
    if known is not None:
        has_right_form = known.dtype == np.bool_ and known.shape == true_labels.shape
        if not has_right_form or (true_labels & ~known).any():
            rule = f"bool {true_labels.shape}, and no true label that is unknown"
            raise InvalidValue("known", f"{known.dtype} {known.shape}", rule=rule)
        num_known = np.count_nonzero(known, axis=0)
        predicted_labels = predicted_labels & known
    num_true = np.count_nonzero(true_labels, axis=0)
    metrics_of_labels = metrics_of_counts(
        num_hits=np.count_nonzero(predicted_labels & true_labels, axis=0),
        num_predicted=np.count_nonzero(predicted_labels, axis=0),
        num_true=num_true,
        num_samples=num_known,
    )
    metrics_of_labels["average_precision"] = average_precisions(scores, true_labels, known=known)
    with np.errstate(invalid="ignore"):
        metrics_of_labels["prevalence"] = num_true / num_known
    metrics_of_labels["num_known"] = num_known.astype(np.float64)
    return metrics_of_labels


def metrics_of_counts(
    *, num_hits: Any, num_predicted: Any, num_true: Any, num_samples: Any
) -> dict[str, FloatArray]:
    """Returns five metrics of each label, computed from numbers of samples for which the label is known.

    All arguments and results are arrays `[…, num_labels]`. The metrics are `accuracy`, `balanced_accuracy`,
    `precision`, `recall` and `f1`. An undefined metric is NaN, but `precision` without a prediction, and `f1` without a
    predicted or true positive, are 0.

    Args:
        num_hits: the number of samples that have the label and for which it is predicted.
        num_predicted: the number of samples for which the label is predicted.
        num_true: the number of samples that have the label.
        num_samples: the number of samples for which the label is known.
    """
    true_negatives = num_samples - num_predicted - num_true + num_hits
    num_positives = num_predicted + num_true
    with np.errstate(divide="ignore", invalid="ignore"):
        specificity = true_negatives / (num_samples - num_true)
        return {
            "accuracy": (num_hits + true_negatives) / num_samples,
            "balanced_accuracy": (num_hits / num_true + specificity) / 2,
            "precision": np.where(num_predicted > 0, num_hits / num_predicted, 0.0),
            "recall": num_hits / num_true,
            "f1": np.where(num_positives > 0, 2 * num_hits / num_positives, 0.0),
        }


def average_precisions(
    scores: NDArray[np.floating], true_labels: BoolArray, known: BoolArray | None = None
) -> FloatArray:
    """Returns the average precision of each label, `[num_labels]`; NaN for a label that no sample has.

    For each sample with the label, take the samples whose score is at least as high. Their precision is the share that
    has the label. The average precision is the mean of these precisions.

    Args:
        scores: the score of each label, `[num_samples, num_labels]`.
        true_labels: the true labels, bool `[num_samples, num_labels]`; False where they are unknown.
        known: which true labels are known, bool `[num_samples, num_labels]`; None where all are.
    """
    if known is not None:
        # An unknown label has a score below that of every positive sample, so it is never counted.
        scores = np.where(known, scores, -np.inf)
    sorted_scores = np.sort(np.ascontiguousarray(scores.T), axis=1)  # [L, n]
    precision_of_labels = np.full(scores.shape[1], np.nan)
    for label_index, is_positive in enumerate(np.ascontiguousarray(true_labels.T)):
        if is_positive.any():
            scores_of_samples_with_label = np.sort(scores[is_positive, label_index])
            num_positives_from_score_on = len(scores_of_samples_with_label) - np.searchsorted(
                scores_of_samples_with_label, scores_of_samples_with_label
            )
            num_samples_from_score_on = len(is_positive) - np.searchsorted(
                sorted_scores[label_index], scores_of_samples_with_label
            )
            precision_of_labels[label_index] = np.mean(
                num_positives_from_score_on / num_samples_from_score_on
            )
    return precision_of_labels


def areas_under_roc(
    scores: NDArray[np.floating], true_labels: BoolArray, known: BoolArray | None = None
) -> FloatArray:
    """Returns the area under the ROC curve of each label, `[num_labels]`; NaN if all samples have the label, or none.

    The area is the share of pairs of a sample with the label and one without, in which the first has the higher score.
    Equal scores count as one half.

    Args:
        scores: the score of each label, `[num_samples, num_labels]`.
        true_labels: the true labels, bool `[num_samples, num_labels]`; False where they are unknown.
        known: which true labels are known, bool `[num_samples, num_labels]`; None where all are.
    """
    area_of_labels = np.full(scores.shape[1], np.nan)
    for label_index, has_label in enumerate(true_labels.T):
        known_rows = slice(None) if known is None else known[:, label_index]
        is_positive = has_label[known_rows]
        known_scores = scores[known_rows, label_index]
        positive_scores = known_scores[is_positive]
        sorted_negative_scores = np.sort(known_scores[~is_positive])
        num_pairs = len(positive_scores) * len(sorted_negative_scores)
        if num_pairs > 0:
            # The left place of a positive score counts the lower negative scores, and the right place the equal ones
            # too. Their mean counts an equal score as one half (Mann & Whitney 1947).
            num_lower = np.searchsorted(sorted_negative_scores, positive_scores, side="left")
            num_not_higher = np.searchsorted(sorted_negative_scores, positive_scores, side="right")
            num_won_pairs = (num_lower.sum() + num_not_higher.sum()) / 2
            area_of_labels[label_index] = num_won_pairs / num_pairs
    return area_of_labels


def require_predictions(
    predicted_labels: ArrayLike, scores: ArrayLike, true_labels: ArrayLike
) -> tuple[BoolArray, FloatArray, BoolArray]:
    """Returns the three arrays of a prediction, in this order, as bool, float64 and bool `[num_samples, num_labels]`.

    Raises:
        InvalidValue: an array has another type, or is empty; or the shapes differ; or a score is not finite.
    """
    predicted_bits = np.asarray(predicted_labels)
    score_array = np.asarray(scores)
    true_bits = np.asarray(true_labels)
    for array_name, array in {"predicted": predicted_bits, "true": true_bits}.items():
        require(array.dtype == np.bool_, f"{array_name}.dtype", array.dtype, "bool")
        is_table = array.ndim == 2 and array.size > 0
        require(
            is_table, f"{array_name}.shape", array.shape, "[num_samples, num_labels], not empty"
        )
    require(
        np.issubdtype(score_array.dtype, np.floating),
        "scores.dtype",
        score_array.dtype,
        "a floating type",
    )
    for array_name, array_shape in (
        ("predicted", predicted_bits.shape),
        ("scores", score_array.shape),
    ):
        require(
            array_shape == true_bits.shape,
            f"{array_name}.shape",
            array_shape,
            f"the shape of true, {true_bits.shape}",
        )
    if not np.isfinite(score_array).all():
        raise InvalidValue(
            "scores", score_array[~np.isfinite(score_array)][0], rule="finite numbers"
        )
    return predicted_bits, score_array.astype(np.float64, copy=False), true_bits
