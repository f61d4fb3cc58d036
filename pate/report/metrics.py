"""What a model is scored by: metrics of multi-label predictions, and the constants that it has to beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.validation import InvalidValue, require

Floats = NDArray[np.float64]

CONSTANT_NAMES = ("prior", "best_constant")

_POINTS = 200  # of a curve of precision and recall


@dataclass(frozen=True)
class Scores:
    """The five metrics that stand beside each other in every table, as `multilabel_metrics` defines them."""

    accuracy: float
    balanced_accuracy: float | None
    micro_f1: float
    macro_f1: float
    mean_average_precision: float | None

    def __post_init__(self) -> None:
        """Refuses a metric outside [0, 1]."""
        for name, value in vars(self).items():
            require(value is None or 0 <= value <= 1, name, value, "a number in [0, 1]")


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


@dataclass(frozen=True, eq=False)
class Constant:
    """One set of labels for all samples, ranked by how frequent each label is.

    Attributes:
        labels: bool `[L]`.
        frequencies: `[L]`, the score of each label.
    """

    labels: NDArray[np.bool_]
    frequencies: NDArray[np.float64]

    @classmethod
    def prior(cls, frequencies: NDArray[np.float64]) -> Constant:
        """Each label's majority: the constant with the best accuracy."""
        return cls(frequencies > 0.5, frequencies)

    @classmethod
    def best(cls, frequencies: NDArray[np.float64]) -> Constant:
        """The k most frequent labels, k for the best micro-F1 on data with these frequencies."""
        # A set S of labels on n samples is right n sum_S f times, of n |S| that it names and n sum f that are there.
        order = np.argsort(-frequencies, kind="stable")
        found = np.cumsum(frequencies[order])
        micro_f1 = 2 * found / (np.arange(1, len(order) + 1) + found[-1])
        labels = np.zeros(len(order), dtype=np.bool_)
        labels[order[: int(np.argmax(micro_f1)) + 1]] = True
        return cls(labels, frequencies)

    @classmethod
    def named(cls, name: str, frequencies: NDArray[np.float64]) -> Constant:
        """That of `CONSTANT_NAMES`, from the true frequency of each label `[L]`, which no epsilon covers."""
        return cls.prior(frequencies) if name == "prior" else cls.best(frequencies)

    def for_samples(self, count: int) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Labels and scores for that many samples, `[count, L]` each."""
        return np.tile(self.labels, (count, 1)), np.tile(self.frequencies, (count, 1))

    def metrics(self, true: NDArray[np.bool_]) -> Scores:
        """Its metrics against true labels `[n, L]`."""
        return multilabel_metrics(*self.for_samples(len(true)), true)


@dataclass(frozen=True, eq=False)
class PrecisionRecall:
    """A model's trade between precision and recall, on labels that no epsilon covers.

    Attributes:
        recall: `[P]`, ascending.
        precision: `[P]`, at these.
        chosen: recall and precision of the labels that the model predicts.
        constant: the same of the best constant.
        threshold: the probability from which a label is predicted, one for all or one for each; None without one.
    """

    recall: Floats
    precision: Floats
    chosen: tuple[float, float]
    constant: tuple[float, float]
    threshold: float | tuple[float, ...] | None

    @classmethod
    def of(
        cls,
        scores: NDArray[np.floating],
        predicted: NDArray[np.bool_],
        true: NDArray[np.bool_],
        *,
        constant: NDArray[np.bool_],
        threshold: float | tuple[float, ...] | None,
    ) -> PrecisionRecall | None:
        """At up to 200 levels of recall; None where no bit is true.

        Args:
            scores: `[n, L]`.
            predicted: bool `[n, L]`.
            true: bool `[n, L]`.
            constant: bool `[L]`, the labels of the best constant.
            threshold: see above.
        """
        if not true.any():
            return None
        found, every = np.sort(scores[true]), np.sort(scores, axis=None)
        ranks = np.unique(np.linspace(1, len(found), min(_POINTS, len(found))).round().astype(int))
        levels = found[-ranks]
        above = len(found) - np.searchsorted(found, levels)
        precision = above / (len(every) - np.searchsorted(every, levels))
        constants = np.broadcast_to(constant, true.shape)
        return cls(above / len(found), precision, _point(predicted, true), _point(constants, true), threshold)


def _point(predicted: NDArray[np.bool_], true: NDArray[np.bool_]) -> tuple[float, float]:
    """Recall and precision of predicted bits."""
    hits, real, named = (float(bits.sum()) for bits in (predicted & true, true, predicted))
    return hits / max(real, 1.0), hits / max(named, 1.0)
