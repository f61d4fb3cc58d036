"""Intervals of metrics, by resampling the test samples."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.report.metrics import Bits, Floats, metrics_of_counts, require_predictions
from pate.validation import require, require_count, require_probability

Interval = tuple[float, float]
# gives one label's average precision in each resample, [B], from weights [n, B]
Precision = Callable[[NDArray[np.float32]], Floats]

_MOST_RESAMPLES = 200
_FEWEST_RESAMPLES = 50
_MOST_BITS = 2 * 10**8  # of all resamples together
_MOST_SAMPLES = 2**15  # that are all resampled
_PART = 2**14  # so many of more samples are resampled
_MOST_WEIGHTS = 2**26  # bytes of a block of resamples


def metric_intervals(
    predicted: ArrayLike,
    scores: ArrayLike,
    true: ArrayLike,
    *,
    resamples: int | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Interval]:
    """Returns percentile intervals of the five metrics of `multilabel_metrics`, from resampled test samples.

    Samples are drawn with replacement. Of more than 32,768 samples 16,384 are resampled, and their deviations scaled to
    the number of all. The model and the release stay as they are: an interval tells nothing about another release or
    another training.

    Args:
        predicted: bool `[n, L]`.
        scores: float `[n, L]`.
        true: bool `[n, L]`.
        resamples: number of test sets that are drawn; None for 200, or for fewer of many bits, at least 50.
        level: share of the test sets inside an interval, in (0, 1).
        seed: of the draws, so that two reports of one run agree.

    Returns:
        `(low, high)` in [0, 1] by metric, without the metrics that some resample leaves undefined for every label.

    Raises:
        InvalidValue: arrays that `multilabel_metrics` refuses, 2**24 samples or more, a level outside (0, 1).
    """
    require_probability("level", level)
    bits, values, truth = require_predictions(predicted, scores, true)
    if resamples is None:
        resamples = int(np.clip(_MOST_BITS // truth.size, _FEWEST_RESAMPLES, _MOST_RESAMPLES))
    require_count("resamples", resamples, minimum=2)
    # so that sums in float32 are exact
    require(len(truth) < 2**24, "num_test", len(truth), "fewer than 2**24")
    if len(truth) <= _MOST_SAMPLES:
        metrics = _metrics_of_resamples(
            bits, values, truth, blocks=_weights(len(truth), resamples, seed)
        )
    else:
        part = np.random.default_rng(seed).permutation(len(truth))[:_PART]
        metrics = _metrics_from_part(bits, values, truth, part=part, resamples=resamples, seed=seed)
    percentiles = 50 * (1 - level), 100 - 50 * (1 - level)
    bounds = {name: np.percentile(values, percentiles) for name, values in metrics.items()}
    return {
        name: (float(low), float(high)) for name, (low, high) in bounds.items() if np.isfinite(low)
    }


def _metrics_from_part(
    bits: Bits,
    values: Floats,
    truth: Bits,
    *,
    part: NDArray[np.intp],
    resamples: int,
    seed: int,
) -> dict[str, Floats]:
    """Returns metrics `[B]` of resamples of all samples, estimated from resamples of a part.

    Deviations fall with the root of the number of samples, so those of a part, shrunk, are those of all.
    """
    part_arrays = (bits[part], values[part], truth[part])
    part_metrics = _metrics_of_resamples(*part_arrays, blocks=_weights(len(part), resamples, seed))
    part_center = _metrics_of_resamples(*part_arrays, blocks=[np.ones((len(part), 1), np.float32)])
    center = _metrics_of_resamples(
        bits, values, truth, blocks=[np.ones((len(truth), 1), np.float32)]
    )
    shrink = math.sqrt(len(part) / len(truth))
    return {
        name: np.clip(center[name] + shrink * (part_metrics[name] - part_center[name]), 0, 1)
        for name in part_metrics
    }


def _metrics_of_resamples(
    bits: Bits, values: Floats, truth: Bits, *, blocks: Iterable[NDArray[np.float32]]
) -> dict[str, Floats]:
    """Returns each metric of each resample, `[B]`, by blocks of weights `[n, b]`."""
    columns = zip(np.asfortranarray(values).T, np.asfortranarray(truth).T, strict=True)
    precisions = [_precision_of(scores, labels) for scores, labels in columns]
    metrics_of_blocks = [_resampled(weights, bits, truth, precisions) for weights in blocks]
    return {
        name: np.concatenate([metrics[name] for metrics in metrics_of_blocks])
        for name in metrics_of_blocks[0]
    }


def _weights(num_samples: int, resamples: int, seed: int) -> Iterator[NDArray[np.float32]]:
    """Yields how often each sample is in each resample, `[n, b]`, for blocks of b resamples."""
    rng = np.random.default_rng(seed)
    size = max(1, min(resamples, _MOST_WEIGHTS // (4 * num_samples)))
    for start in range(0, resamples, size):
        weights = np.empty((num_samples, min(size, resamples - start)), dtype=np.float32)
        for column in weights.T:
            column[:] = np.bincount(
                rng.integers(num_samples, size=num_samples), minlength=num_samples
            )
        yield weights


def _resampled(
    weights: NDArray[np.float32], bits: Bits, truth: Bits, precisions: list[Precision]
) -> dict[str, Floats]:
    """Returns each metric of each resample, `[B]`; NaN where it is undefined."""
    n = len(truth)
    rows = np.ascontiguousarray(weights.T)

    def counts(flags: Bits) -> Floats:
        """Returns how many samples of each resample have a flag, `[B, L]`."""
        return np.asarray(rows @ flags.astype(np.float32), np.float64)

    hits = counts(bits & truth)
    num_predicted = counts(bits)
    num_true = counts(truth)
    scores = metrics_of_counts(
        hits=hits, num_predicted=num_predicted, num_true=num_true, num_samples=n
    )
    with np.errstate(invalid="ignore"):
        micro = 2 * hits.sum(axis=1) / (num_predicted + num_true).sum(axis=1)
    average_precision = np.stack([precision(weights) for precision in precisions])  # [L, B]
    return {
        "accuracy": (n - num_predicted - num_true + 2 * hits).mean(axis=1) / n,
        "balanced_accuracy": _means_of_defined(scores["balanced_accuracy"].T),
        "micro_f1": np.nan_to_num(micro),
        "macro_f1": scores["f1"].mean(axis=1),
        "mean_average_precision": _means_of_defined(average_precision),
    }


def _means_of_defined(values: Floats) -> Floats:
    """Returns the means `[B]` over the labels of `[L, B]` that are defined; NaN without one."""
    is_defined = np.isfinite(values)
    num_defined = is_defined.sum(axis=0)
    sums = np.where(is_defined, values, 0.0).sum(axis=0)
    return np.where(num_defined > 0, sums / np.maximum(num_defined, 1), np.nan)


def _precision_of(scores: Floats, truth: Bits) -> Precision:
    """Returns the function that computes one label's average precision in each resample; NaN without a positive.

    Samples are sorted from the highest score down, and cut after each group of equal scores with a positive.

    Args:
        scores: of the label, `[n]`.
        truth: which samples have it, `[n]`.
    """
    order = np.argsort(scores)[::-1]
    ends = np.append(np.flatnonzero(np.diff(scores[order])) + 1, len(order))  # of equal scores
    num_positives = np.cumsum(truth[order])[ends - 1]  # up to each end
    has_positive = num_positives > np.append(0, num_positives[:-1])
    one_score = len(ends) == 1
    # `[C, n]`, 1 for the samples between two of the C cuts, and for the positive ones among them
    segments = _rows(order, ends[has_positive], len(order))
    positives = _rows(order[truth[order]], num_positives[has_positive], len(order))

    def average_precision(weights: NDArray[np.float32]) -> Floats:
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


def _rows(samples: NDArray[np.intp], ends: NDArray[np.intp], num_samples: int) -> Any:
    """Returns a sparse matrix `[len(ends), num_samples]` with a row of ones for the samples up to each end."""
    from scipy.sparse import csr_array  # loads slowly

    used_samples = samples[: ends[-1]] if len(ends) else samples[:0]
    return csr_array(
        (np.ones(len(used_samples), np.float32), used_samples, np.append(0, ends)),
        shape=(len(ends), num_samples),
    )
