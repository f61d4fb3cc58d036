"""Metrics of multi-label predictions: those of all labels together, and those of each label."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.validation import InvalidValue, require

Bits = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """The five metrics of a model that every table shows, as `multilabel_metrics` defines them."""

    accuracy: float
    balanced_accuracy: float | None
    micro_f1: float
    macro_f1: float
    mean_average_precision: float | None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            require(value is None or 0 <= value <= 1, name, value, "a number in [0, 1]")


def multilabel_metrics(predicted: ArrayLike, scores: ArrayLike, true: ArrayLike) -> Scores:
    """Computes the five metrics of a multi-label prediction, each in [0, 1]; None for a mean over no label.

    - `accuracy`: mean over samples and labels of correct bits (the papers' measure; flatters rare labels).
    - `balanced_accuracy`: mean over labels of each label's balanced accuracy. A label that all samples have, or none,
      is left out, so that a constant guess scores exactly 0.5.
    - `micro_f1`: F1 of all bits together. `macro_f1`: mean over all labels of each label's F1. An F1 without positives
      on either side is 0.
    - `mean_average_precision`: mean, over the labels that have a positive, of the average precision of `scores`.

    Args:
        predicted: bool `[n, L]`.
        scores: float `[n, L]`, higher means more likely; finite.
        true: bool `[n, L]`.

    Raises:
        InvalidValue: arrays of another dtype, empty, of different shapes, or scores that are not finite.
    """
    predicted, scores, true = require_predictions(predicted, scores, true)
    return summarized(_per_label(predicted, scores, true), micro_f1=micro_f1(predicted, true))


def summarized(per_label: Mapping[str, Floats], *, micro_f1: float) -> Scores:
    """Returns the five metrics from those of each label (`per_label_metrics`) and the F1 of all bits together."""
    return Scores(
        accuracy=float(np.mean(per_label["accuracy"])),
        balanced_accuracy=_mean_of_defined(per_label["balanced_accuracy"]),
        micro_f1=micro_f1,
        macro_f1=float(np.mean(per_label["f1"])),
        mean_average_precision=_mean_of_defined(per_label["average_precision"]),
    )


def _mean_of_defined(values: Floats) -> float | None:
    """Returns the mean of the values that are not NaN; None without any."""
    is_defined = ~np.isnan(values)
    return float(np.mean(values[is_defined])) if is_defined.any() else None


def micro_f1(predicted: Bits, true: Bits) -> float:
    """Returns the F1 of all bits `[n, L]` together; 0 without positives on either side."""
    num_positives = np.count_nonzero(predicted) + np.count_nonzero(true)
    return 2 * np.count_nonzero(predicted & true) / num_positives if num_positives else 0.0


def per_label_metrics(
    predicted: ArrayLike, scores: ArrayLike, true: ArrayLike
) -> dict[str, Floats]:
    """Computes the metrics of each label by itself, from the arrays and by the rules of `multilabel_metrics`.

    Returns:
        `accuracy`, `balanced_accuracy`, `precision`, `recall`, `f1`, `average_precision` and `prevalence` (the share of
        positives in `true`), each float64 `[L]`; NaN where a metric is undefined.
    """
    return _per_label(*require_predictions(predicted, scores, true))


def _per_label(predicted: Bits, scores: Floats, true: Bits) -> dict[str, Floats]:
    """Returns the metrics of each label, of arrays that were checked."""
    num_true = np.count_nonzero(true, axis=0)
    metrics = metrics_of_counts(
        hits=np.count_nonzero(predicted & true, axis=0),
        num_predicted=np.count_nonzero(predicted, axis=0),
        num_true=num_true,
        num_samples=len(true),
    )
    metrics["average_precision"] = average_precisions(scores, true)
    metrics["prevalence"] = num_true / len(true)
    return metrics


def metrics_of_counts(
    *, hits: Any, num_predicted: Any, num_true: Any, num_samples: int
) -> dict[str, Floats]:
    """Returns metrics of each label from counts of samples, `[…, L]` each.

    Args:
        hits: samples that have the label and are predicted to have it.
        num_predicted: samples that are predicted to have it.
        num_true: samples that have it.
        num_samples: all samples.
    """
    true_negatives = num_samples - num_predicted - num_true + hits
    num_positives = num_predicted + num_true
    with np.errstate(divide="ignore", invalid="ignore"):
        specificity = true_negatives / (num_samples - num_true)
        return {
            "accuracy": (hits + true_negatives) / num_samples,
            "balanced_accuracy": (hits / num_true + specificity) / 2,
            "precision": np.where(num_predicted > 0, hits / num_predicted, 0.0),
            "recall": hits / num_true,
            "f1": np.where(num_positives > 0, 2 * hits / num_positives, 0.0),
        }


def average_precisions(scores: NDArray[np.floating], true: Bits) -> Floats:
    """Returns the average precision of each label, `[L]`, from arrays `[n, L]`; NaN without a positive.

    It is the mean, over the label's positives, of the precision among all samples that score no lower.
    """
    sorted_scores = np.sort(np.ascontiguousarray(scores.T), axis=1)  # [L, n]
    precisions = np.full(scores.shape[1], np.nan)
    for label, is_positive in enumerate(np.ascontiguousarray(true.T)):
        if is_positive.any():
            levels = np.sort(scores[is_positive, label])
            num_positives = len(levels) - np.searchsorted(levels, levels)
            num_samples = len(is_positive) - np.searchsorted(sorted_scores[label], levels)
            precisions[label] = np.mean(num_positives / num_samples)
    return precisions


def require_predictions(
    predicted: ArrayLike, scores: ArrayLike, true: ArrayLike
) -> tuple[Bits, Floats, Bits]:
    """Returns the arrays of a prediction, or raises `InvalidValue` as `multilabel_metrics`."""
    bits = np.asarray(predicted)
    values = np.asarray(scores)
    truth = np.asarray(true)
    for name, array in {"predicted": bits, "true": truth}.items():
        require(array.dtype == np.bool_, f"{name}.dtype", array.dtype, "bool")
        is_table = array.ndim == 2 and array.size > 0
        require(is_table, f"{name}.shape", array.shape, "[num_samples, num_labels], not empty")
    require(
        np.issubdtype(values.dtype, np.floating), "scores.dtype", values.dtype, "a floating type"
    )
    for name, shape in (("predicted", bits.shape), ("scores", values.shape)):
        require(shape == truth.shape, f"{name}.shape", shape, f"the shape of true, {truth.shape}")
    if not np.isfinite(values).all():
        raise InvalidValue("scores", values[~np.isfinite(values)][0], rule="finite numbers")
    return bits, values.astype(np.float64, copy=False), truth
