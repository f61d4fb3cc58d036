"""Metrics of multi-label predictions, each scikit-learn's own."""

from __future__ import annotations

from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    f1_score,
    precision_recall_fscore_support,
)

from pate.validation import InvalidValue, require


class MultilabelMetrics(TypedDict):
    """The five metrics that stand beside each other in every table; None where a metric is undefined."""

    accuracy: float
    balanced_accuracy: float | None
    micro_f1: float
    macro_f1: float
    mean_average_precision: float | None


def multilabel_metrics(predicted: ArrayLike, scores: ArrayLike, true: ArrayLike) -> MultilabelMetrics:
    """Computes the five metrics of a multi-label prediction.

    - `accuracy`: mean over samples and labels of correct bits (the papers' measure; flatters rare labels).
    - `balanced_accuracy`: mean over labels of each label's balanced accuracy. A label of which `true` holds
      one class only is left out, so that a constant guess scores exactly 0.5.
    - `micro_f1`: F1 of all bits taken together. `macro_f1`: mean over all labels of each label's F1. An F1
      without positives on either side is 0.
    - `mean_average_precision`: mean, over the labels that have a positive, of the average precision of
      `scores`.

    Args:
        predicted: bool `[n, L]`.
        scores: float `[n, L]`, higher means more likely; finite.
        true: bool `[n, L]`.

    Returns:
        Each metric in [0, 1]; None for a mean over no label at all.

    Raises:
        InvalidValue: arrays that are not bool, empty, of different shapes, or scores that are not finite.
    """
    predicted, scores, true = _checked(predicted, scores, true)
    per_label = _per_label(predicted, scores, true)
    return {
        "accuracy": float(np.mean(predicted == true)),
        "balanced_accuracy": _mean_of_defined(per_label["balanced_accuracy"]),
        "micro_f1": float(f1_score(true.ravel(), predicted.ravel(), zero_division=0.0)),
        "macro_f1": float(np.mean(per_label["f1"])),
        "mean_average_precision": _mean_of_defined(per_label["average_precision"]),
    }


def per_label_metrics(predicted: ArrayLike, scores: ArrayLike, true: ArrayLike) -> dict[str, NDArray[np.float64]]:
    """Computes the metrics of each label by itself, by the rules of `multilabel_metrics`.

    Args:
        predicted: bool `[n, L]`.
        scores: float `[n, L]`, higher means more likely; finite.
        true: bool `[n, L]`.

    Returns:
        `accuracy`, `balanced_accuracy`, `precision`, `recall`, `f1`, `average_precision` and `prevalence`
        (the share of positives in `true`), each float64 `[L]`; NaN where a metric is undefined.

    Raises:
        InvalidValue: as `multilabel_metrics`.
    """
    return _per_label(*_checked(predicted, scores, true))


def _per_label(
    predicted: NDArray[np.bool_], scores: NDArray[np.float64], true: NDArray[np.bool_]
) -> dict[str, NDArray[np.float64]]:
    """The metrics of each label, one by one: scikit-learn would not read `[n, 1]` as labels."""
    columns = [_one_label(*column) for column in zip(predicted.T, scores.T, true.T, strict=True)]
    return {name: np.array([column[name] for column in columns], dtype=np.float64) for name in columns[0]}


def _one_label(predicted: NDArray[np.bool_], scores: NDArray[np.float64], true: NDArray[np.bool_]) -> dict[str, float]:
    """The metrics of one label, arrays `[n]`."""
    positives = int(np.count_nonzero(true))
    precision, recall, f1, _ = precision_recall_fscore_support(true, predicted, average="binary", zero_division=0.0)
    both_classes = 0 < positives < true.size
    return {
        "accuracy": float(np.mean(predicted == true)),
        "balanced_accuracy": float(balanced_accuracy_score(true, predicted)) if both_classes else np.nan,
        "precision": float(precision),
        "recall": float(recall) if positives else np.nan,
        "f1": float(f1),
        "average_precision": float(average_precision_score(true, scores)) if positives else np.nan,
        "prevalence": positives / true.size,
    }


def _mean_of_defined(values: NDArray[np.float64]) -> float | None:
    """The mean of the entries that are not NaN, None if there are none."""
    defined = values[~np.isnan(values)]
    return float(np.mean(defined)) if defined.size else None


def _checked(
    predicted: ArrayLike, scores: ArrayLike, true: ArrayLike
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.bool_]]:
    """The three arrays, of one shape `[n, L]`, or an error."""
    bits, truth = _bits("predicted", predicted), _bits("true", true)
    values = np.asarray(scores)
    require(np.issubdtype(values.dtype, np.floating), "scores.dtype", values.dtype, "a floating type")
    for name, shape in (("predicted", bits.shape), ("scores", values.shape)):
        require(shape == truth.shape, f"{name}.shape", shape, f"the shape of true, {truth.shape}")
    if not np.isfinite(values).all():
        raise InvalidValue(f"scores={values[~np.isfinite(values)][0]}: expected finite numbers")
    return bits, values.astype(np.float64, copy=False), truth


def _bits(name: str, array: ArrayLike) -> NDArray[np.bool_]:
    """A bool array `[n, L]` with at least one entry, or an error."""
    bits = np.asarray(array)
    require(bits.dtype == np.bool_, f"{name}.dtype", bits.dtype, "bool")
    require(bits.ndim == 2 and bits.size > 0, f"{name}.shape", bits.shape, "[num_samples, num_labels], not empty")
    return bits
