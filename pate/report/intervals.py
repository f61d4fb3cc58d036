"""Confidence intervals of metrics, by resampling the test samples (bootstrap).

n is the number of samples, L the number of labels, B the number of resamples, and b the number of resamples in a block.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.array_types import BoolArray, Float32Array, FloatArray
from pate.report.metrics import metrics_of_counts, require_predictions
from pate.validation import require, require_count, require_probability

Interval = tuple[float, float]
# gives one label's average precision in each resample, [B], from weights [n, B]
Precision = Callable[[Float32Array], FloatArray]

_MOST_RESAMPLES = 200
_FEWEST_RESAMPLES = 50
_MOST_BITS = 2 * 10**8  # of all resamples together
_MOST_SAMPLES = 2**15  # that are all resampled
_PART = 2**14  # so many of more samples are resampled
_MOST_WEIGHTS = 2**26  # bytes of a block of resamples


def metric_intervals(
    predicted_labels: ArrayLike,
    scores: ArrayLike,
    true_labels: ArrayLike,
    *,
    known: BoolArray | None = None,
    num_resamples: int | None = None,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> dict[str, Interval]:
    """Returns percentile intervals of the five metrics of `multilabel_metrics`, from resampled test samples.

    Samples are drawn with replacement. If there are more than 32,768 samples, 16,384 of them are resampled, and the
    deviations are scaled to the number of all samples. The model and the release are fixed. So an interval does not
    show how much another release or another training would differ.

    Args:
        predicted_labels: the predicted labels, bool `[n, L]`.
        scores: the score of each label, float `[n, L]`.
        true_labels: the true labels, bool `[n, L]`; False where they are unknown.
        known: which true labels are known, bool `[n, L]`; None where all are.
        num_resamples: the number of resamples; None for 200, or for fewer if the arrays are large, but at least 50.
        confidence_level: the share of resamples inside an interval, in (0, 1).
        seed: the seed of the draws, so that two reports of one run are equal.

    Returns:
        `(low, high)` in [0, 1] for each metric, by name. A metric is left out if some resample leaves it undefined for
        every label.

    Raises:
        InvalidValue: `multilabel_metrics` refuses the arrays; or there are 2**24 samples or more; or the level is
            outside (0, 1).
    """
    require_probability("level", confidence_level)
    bits, values, truth = require_predictions(predicted_labels, scores, true_labels)
    if num_resamples is None:
        num_resamples = int(np.clip(_MOST_BITS // truth.size, _FEWEST_RESAMPLES, _MOST_RESAMPLES))
    require_count("resamples", num_resamples, minimum=2)
    # so that sums in float32 are exact
    require(len(truth) < 2**24, "num_test", len(truth), "fewer than 2**24")
    if len(truth) <= _MOST_SAMPLES:
        metrics = _metrics_of_resamples(
            predicted_labels=bits,
            scores=values,
            true_labels=truth,
            known=known,
            weight_blocks=_weights(num_samples=len(truth), num_resamples=num_resamples, seed=seed),
        )
    else:
        part = np.random.default_rng(seed).permutation(len(truth))[:_PART]
        metrics = _metrics_from_part(
            predicted_labels=bits,
            scores=values,
            true_labels=truth,
            known=known,
            sample_indices=part,
            num_resamples=num_resamples,
            seed=seed,
        )
    percentiles = 50 * (1 - confidence_level), 100 - 50 * (1 - confidence_level)
    bounds = {name: np.percentile(values, percentiles) for name, values in metrics.items()}
    return {
        name: (float(low), float(high)) for name, (low, high) in bounds.items() if np.isfinite(low)
    }


def _metrics_from_part(
    predicted_labels: BoolArray,
    scores: FloatArray,
    true_labels: BoolArray,
    known: BoolArray | None,
    *,
    sample_indices: NDArray[np.intp],
    num_resamples: int,
    seed: int,
) -> dict[str, FloatArray]:
    """Returns the metrics of resamples of all samples, `[B]` by name, estimated from resamples of a part of them.

    Deviations from the mean decrease with the root of the number of samples. So the deviations of the part are
    multiplied by the root of its share of the samples.
    """
    metrics_of_part = partial(
        _metrics_of_resamples,
        predicted_labels=predicted_labels[sample_indices],
        scores=scores[sample_indices],
        true_labels=true_labels[sample_indices],
        known=None if known is None else known[sample_indices],
    )
    part_metrics = metrics_of_part(
        weight_blocks=_weights(
            num_samples=len(sample_indices), num_resamples=num_resamples, seed=seed
        ),
    )
    part_center = metrics_of_part(weight_blocks=[np.ones((len(sample_indices), 1), np.float32)])
    center = _metrics_of_resamples(
        predicted_labels,
        scores,
        true_labels,
        known,
        weight_blocks=[np.ones((len(true_labels), 1), np.float32)],
    )
    shrink = math.sqrt(len(sample_indices) / len(true_labels))
    return {
        name: np.clip(center[name] + shrink * (part_metrics[name] - part_center[name]), 0, 1)
        for name in part_metrics
    }


def _metrics_of_resamples(
    predicted_labels: BoolArray,
    scores: FloatArray,
    true_labels: BoolArray,
    known: BoolArray | None,
    *,
    weight_blocks: Iterable[Float32Array],
) -> dict[str, FloatArray]:
    """Returns the metrics of each resample, `[B]` by name.

    `weight_blocks` are the weights of the samples in b resamples each, `[n, b]`.
    """
    columns = zip(np.asfortranarray(scores).T, np.asfortranarray(true_labels).T, strict=True)
    known_columns = repeat(None) if known is None else np.asfortranarray(known).T
    precisions = [
        _precision_of(label_scores, true_labels=labels, is_known=is_known)
        for (label_scores, labels), is_known in zip(columns, known_columns, strict=False)
    ]
    if known is not None:
        predicted_labels = predicted_labels & known
    metrics_of_blocks = [
        _resampled(weights, predicted_labels, true_labels, precisions, known)
        for weights in weight_blocks
    ]
    return {
        name: np.concatenate([metrics[name] for metrics in metrics_of_blocks])
        for name in metrics_of_blocks[0]
    }


def _weights(num_samples: int, num_resamples: int, seed: int) -> Iterator[Float32Array]:
    """Yields, for blocks of b resamples, how often each sample was drawn in each resample, `[n, b]`."""
    rng = np.random.default_rng(seed)
    size = max(1, min(num_resamples, _MOST_WEIGHTS // (4 * num_samples)))
    for start in range(0, num_resamples, size):
        weights = np.empty((num_samples, min(size, num_resamples - start)), dtype=np.float32)
        for column in weights.T:
            column[:] = np.bincount(
                rng.integers(num_samples, size=num_samples), minlength=num_samples
            )
        yield weights


def _resampled(
    weights: Float32Array,
    predicted_labels: BoolArray,
    true_labels: BoolArray,
    precisions: list[Precision],
    known: BoolArray | None = None,
) -> dict[str, FloatArray]:
    """Returns the metrics of each of b resamples by name, `[b]` each; NaN if a metric is undefined.

    Args:
        weights: how often each resample has each test sample, `[n, b]`.
        predicted_labels: the predicted labels, `[n, num_labels]`; False where the true label is unknown.
        true_labels: the true labels, `[n, num_labels]`.
        precisions: for each label a function of `weights` that returns its average precision in each resample.
        known: which true labels are known, `[n, num_labels]`; None where all are.
    """
    n = len(true_labels)
    rows = np.ascontiguousarray(weights.T)

    def counts(flags: BoolArray) -> FloatArray:
        """Returns the number of samples in each resample for which a flag is true, `[b, L]`."""
        return np.asarray(rows @ flags.astype(np.float32), np.float64)

    hits = counts(predicted_labels & true_labels)
    num_predicted = counts(predicted_labels)
    num_true = counts(true_labels)
    num_known = np.full(num_true.shape, float(n)) if known is None else counts(known)
    scores = metrics_of_counts(
        hits=hits, num_predicted=num_predicted, num_true=num_true, num_samples=num_known
    )
    num_right = num_known - num_predicted - num_true + 2 * hits
    is_known = num_known > 0
    with np.errstate(invalid="ignore"):
        micro = 2 * hits.sum(axis=1) / (num_predicted + num_true).sum(axis=1)
        macro = np.where(is_known, scores["f1"], np.nan)
        accuracy = num_right.sum(axis=1) / num_known.sum(axis=1)
    average_precision = np.stack([precision(weights) for precision in precisions])  # [L, B]
    return {
        "accuracy": accuracy,
        "balanced_accuracy": _means_of_defined(scores["balanced_accuracy"].T),
        "micro_f1": np.nan_to_num(micro),
        "macro_f1": _means_of_defined(macro.T),
        "mean_average_precision": _means_of_defined(average_precision),
    }


def _means_of_defined(values: FloatArray) -> FloatArray:
    """Returns the mean over labels of the values that are not NaN, `[B]` from `[L, B]`; NaN if all are NaN."""
    is_defined = np.isfinite(values)
    num_defined = is_defined.sum(axis=0)
    sums = np.where(is_defined, values, 0.0).sum(axis=0)
    return np.where(num_defined > 0, sums / np.maximum(num_defined, 1), np.nan)


def _precision_of(
    scores: FloatArray, true_labels: BoolArray, is_known: BoolArray | None = None
) -> Precision:
    """Returns a function that computes the average precision of one label in each resample.

    Samples are sorted by descending score. A cut is made after each group of equal scores that has a positive sample.
    The function returns NaN for a resample without a positive sample.

    Args:
        scores: the scores of the label, `[n]`.
        true_labels: true for samples that have the label, `[n]`.
        is_known: true for samples for which the label is known, `[n]`; None for all.
    """
    order = np.argsort(scores)[::-1]
    if is_known is not None:
        order = order[is_known[order]]
    if len(order) == 0:
        return _undefined_precision
    ends = np.append(np.flatnonzero(np.diff(scores[order])) + 1, len(order))  # of equal scores
    num_positives = np.cumsum(true_labels[order])[ends - 1]  # up to each end
    num_samples = len(scores)
    has_positive = num_positives > np.append(0, num_positives[:-1])
    one_score = len(ends) == 1 and is_known is None
    # `[C, n]`, 1 for the samples between two of the C cuts, and for the positive ones among them
    segments = _rows(
        sorted_samples=order, cut_positions=ends[has_positive], num_samples=num_samples
    )
    positives = _rows(
        sorted_samples=order[true_labels[order]],
        cut_positions=num_positives[has_positive],
        num_samples=num_samples,
    )

    def average_precision(weights: Float32Array) -> FloatArray:
        if not positives.shape[0]:
            return np.full(weights.shape[1], np.nan)
        hits = positives @ weights
        total = np.cumsum(hits, axis=0)
        if one_score:
            return np.asarray(
                np.where(total[0] > 0, total[0] / len(weights), np.nan), dtype=np.float64
            )
        totals = np.cumsum(segments @ weights, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            precision = np.where(totals > 0, total / np.maximum(totals, 1), 0.0)
            return np.asarray((hits * precision).sum(axis=0, dtype=np.float64) / total[-1])

    return average_precision


def _undefined_precision(weights: Float32Array) -> FloatArray:
    """Returns NaN for each of b resamples, `[b]`: the average precision of a label that is known for no sample."""
    return np.full(weights.shape[1], np.nan)


def _rows(
    sorted_samples: NDArray[np.intp], cut_positions: NDArray[np.intp], num_samples: int
) -> Any:
    """Returns a sparse matrix `[num_cuts, num_samples]` of 0 and 1.

    A row has 1 for the samples between the cut before and its own cut.

    Args:
        sorted_samples: the indices of the samples, in the order of the cuts.
        cut_positions: the number of samples before each cut.
        num_samples: the number of all samples.
    """
    from scipy.sparse import csr_array  # loads slowly

    used_samples = sorted_samples[: cut_positions[-1]] if len(cut_positions) else sorted_samples[:0]
    return csr_array(
        (np.ones(len(used_samples), np.float32), used_samples, np.append(0, cut_positions)),
        shape=(len(cut_positions), num_samples),
    )
