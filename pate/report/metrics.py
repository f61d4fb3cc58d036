"""Metrics of multi-label predictions, all labels at once: a sort of each label's scores, and counts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.report.scores import Scores
from pate.validation import InvalidValue, require


def multilabel_metrics(predicted: ArrayLike, scores: ArrayLike, true: ArrayLike) -> Scores:
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
    predicted, scores, true = checked(predicted, scores, true)
    return summarized(_per_label(predicted, scores, true), micro_f1=micro_f1(predicted, true))


def summarized(per_label: Mapping[str, NDArray[np.float64]], *, micro_f1: float) -> Scores:
    """The five metrics from those of `per_label_metrics`, and the F1 of all bits together."""
    return Scores(
        accuracy=float(np.mean(per_label["accuracy"])),
        balanced_accuracy=_mean_of_defined(per_label["balanced_accuracy"]),
        micro_f1=micro_f1,
        macro_f1=float(np.mean(per_label["f1"])),
        mean_average_precision=_mean_of_defined(per_label["average_precision"]),
    )


def micro_f1(predicted: NDArray[np.bool_], true: NDArray[np.bool_]) -> float:
    """F1 of all bits `[n, L]` together; 0 without positives on either side."""
    named = np.count_nonzero(predicted) + np.count_nonzero(true)
    return 2 * np.count_nonzero(predicted & true) / named if named else 0.0


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
    return _per_label(*checked(predicted, scores, true))


def _per_label(
    predicted: NDArray[np.bool_], scores: NDArray[np.float64], true: NDArray[np.bool_]
) -> dict[str, NDArray[np.float64]]:
    """The metrics of all labels."""
    right_with, named, positives = (np.count_nonzero(bits, axis=0) for bits in (predicted & true, predicted, true))
    wrong_with, wrong_without = named - right_with, positives - right_with
    right_without = len(true) - named - wrong_without
    recall = _ratio(right_with, positives, otherwise=np.nan)
    return {
        "accuracy": (right_with + right_without) / len(true),
        "balanced_accuracy": (recall + _ratio(right_without, right_without + wrong_with, otherwise=np.nan)) / 2,
        "precision": _ratio(right_with, right_with + wrong_with),
        "recall": recall,
        "f1": _ratio(2 * right_with, 2 * right_with + wrong_with + wrong_without),
        "average_precision": average_precisions(scores, true),
        "prevalence": positives / len(true),
    }


def average_precisions(scores: NDArray[np.floating], true: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The average precision of each label `[L]`, NaN without a positive.

    It is the mean, over the positives, of the precision among all samples that score no lower.

    Args:
        scores: `[n, L]`.
        true: bool `[n, L]`.
    """
    every = np.sort(np.ascontiguousarray(scores.T), axis=1)  # [L, n]
    found = np.full(scores.shape[1], np.nan)
    for label, positive in enumerate(np.ascontiguousarray(true.T)):
        if positive.any():
            levels = np.sort(scores[positive, label])
            above = len(levels) - np.searchsorted(levels, levels)
            found[label] = np.mean(above / (len(positive) - np.searchsorted(every[label], levels)))
    return found


def _ratio(part: NDArray[np.int64], whole: NDArray[np.int64], *, otherwise: float = 0.0) -> NDArray[np.float64]:
    """The quotient; of nothing, `otherwise`."""
    return np.where(whole > 0, part / np.maximum(whole, 1), otherwise)


def _mean_of_defined(values: NDArray[np.float64]) -> float | None:
    """The mean of the entries that are not NaN, None if there are none."""
    defined = values[~np.isnan(values)]
    return float(np.mean(defined)) if defined.size else None


def checked(
    predicted: ArrayLike, scores: ArrayLike, true: ArrayLike
) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.bool_]]:
    """Returns predicted bits, scores and true bits of one shape `[n, L]`, or raises `InvalidValue`."""
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
