"""Confidence intervals of metrics, by resampling the test samples (bootstrap).

A resample draws as many samples as there are, with replacement. It is represented by weights: how often each sample was
drawn. Resamples are computed in blocks, so that the weights of a block fit into memory.

In shapes, n is the number of samples, L the number of labels, B the number of resamples, and b the number of resamples
in a block.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.array_types import BoolArray, Float32Array, FloatArray
from pate.report.metrics import metrics_of_counts, require_predictions
from pate.validation import require, require_count, require_probability

# The lower and the upper end of an interval.
Interval = tuple[float, float]
# A function that returns the average precision of one label in each resample, [b], from weights [n, b].
PrecisionFunction = Callable[[Float32Array], FloatArray]

# The number of resamples, unless the caller passes one. Large arrays get fewer, so that all resamples together have at
# most `_MAX_RESAMPLED_BITS` labels of samples, but at least `_MIN_RESAMPLES`.
_MAX_RESAMPLES = 200
_MIN_RESAMPLES = 50
_MAX_RESAMPLED_BITS = 2 * 10**8
# With more samples than `_MAX_SAMPLES`, a random part of `_PART_SIZE` samples is resampled.
_MAX_SAMPLES = 2**15
_PART_SIZE = 2**14
# The most bytes of the weights of a block of several resamples.
_BLOCK_BYTES = 2**26


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
        InvalidValue: `predicted_labels`, `scores` or `true_labels` has another type or shape; or a score is not finite.
            There are 2**24 samples or more, or fewer than two resamples; or the level is outside (0, 1). The array
            `known` is not checked.
    """
    require_probability("level", confidence_level)
    predicted_bits, float_scores, true_bits = require_predictions(
        predicted_labels, scores, true_labels
    )
    if num_resamples is None:
        num_affordable_resamples = _MAX_RESAMPLED_BITS // true_bits.size
        num_resamples = int(np.clip(num_affordable_resamples, _MIN_RESAMPLES, _MAX_RESAMPLES))
    require_count("resamples", num_resamples, minimum=2)
    # Sums of weights in float32 are exact below 2**24.
    num_samples = len(true_bits)
    require(num_samples < 2**24, "num_test", num_samples, "fewer than 2**24")
    if num_samples <= _MAX_SAMPLES:
        metrics_of_resamples = _metrics_of_resamples(
            predicted_labels=predicted_bits,
            scores=float_scores,
            true_labels=true_bits,
            known=known,
            # in blocks [n, b]: how often each of n samples is in each of b resamples
            weight_blocks=_resample_weights(
                num_samples=num_samples, num_resamples=num_resamples, seed=seed
            ),
        )
    else:
        sample_indices_of_part = np.random.default_rng(seed).permutation(num_samples)[:_PART_SIZE]
        metrics_of_resamples = _extrapolated_metrics(
            predicted_labels=predicted_bits,
            scores=float_scores,
            true_labels=true_bits,
            known=known,
            sample_indices=sample_indices_of_part,
            num_resamples=num_resamples,
            seed=seed,
        )
    low_percentile = 50 * (1 - confidence_level)
    intervals: dict[str, Interval] = {}
    for metric_name, values_of_resamples in metrics_of_resamples.items():
        lower_end, upper_end = np.percentile(
            values_of_resamples, [low_percentile, 100 - low_percentile]
        )
        if np.isfinite(lower_end):
            intervals[metric_name] = (float(lower_end), float(upper_end))
    return intervals


def _extrapolated_metrics(
    predicted_labels: BoolArray,
    scores: FloatArray,
    true_labels: BoolArray,
    known: BoolArray | None,
    *,
    sample_indices: NDArray[np.intp],
    num_resamples: int,
    seed: int,
) -> dict[str, FloatArray]:
    """Returns the five metrics of B resamples of all test samples, `[B]` by name, estimated from a part of the samples.

    Only the part is resampled. Deviations from the mean decrease with the root of the number of samples. So the
    deviations of the part are multiplied by the root of its share of the samples.

    Args:
        predicted_labels: the predicted labels of all samples, bool `[n, L]`.
        scores: the scores of all samples, `[n, L]`.
        true_labels: the true labels of all samples, bool `[n, L]`.
        known: which true labels are known, bool `[n, L]`; None where all are.
        sample_indices: the indices of the samples of the part.
        num_resamples: B, the number of resamples.
        seed: the seed of the draws.
    """
    resample_part = partial(
        _metrics_of_resamples,
        predicted_labels=predicted_labels[sample_indices],
        scores=scores[sample_indices],
        true_labels=true_labels[sample_indices],
        known=None if known is None else known[sample_indices],
    )
    metrics_of_part_resamples = resample_part(
        weight_blocks=_resample_weights(
            num_samples=len(sample_indices), num_resamples=num_resamples, seed=seed
        ),
    )
    metrics_of_part = resample_part(weight_blocks=[np.ones((len(sample_indices), 1), np.float32)])
    metrics_of_all_samples = _metrics_of_resamples(
        predicted_labels=predicted_labels,
        scores=scores,
        true_labels=true_labels,
        known=known,
        weight_blocks=[np.ones((len(true_labels), 1), np.float32)],
    )
    share_of_samples_in_part = len(sample_indices) / len(true_labels)
    deviation_ratio = math.sqrt(share_of_samples_in_part)
    metrics_of_resamples: dict[str, FloatArray] = {}
    for metric_name, values_of_resamples in metrics_of_part_resamples.items():
        scaled_deviations = deviation_ratio * (values_of_resamples - metrics_of_part[metric_name])
        metrics_of_resamples[metric_name] = np.clip(
            metrics_of_all_samples[metric_name] + scaled_deviations, 0, 1
        )
    return metrics_of_resamples


def _metrics_of_resamples(
    *,
    predicted_labels: BoolArray,
    scores: FloatArray,
    true_labels: BoolArray,
    known: BoolArray | None,
    weight_blocks: Iterable[Float32Array],
) -> dict[str, FloatArray]:
    """Returns the five metrics of each of B resamples of n test samples, `[B]` by name; NaN where undefined.

    Args:
        predicted_labels: the predicted labels, bool `[n, L]`.
        scores: the score of each label, `[n, L]`.
        true_labels: the true labels, bool `[n, L]`.
        known: which true labels are known, bool `[n, L]`; None where all are.
        weight_blocks: how often each sample is in each resample. Each block is `[n, b]` for b of the B resamples.
    """
    # Columns are copied once, so that each label's values lie side by side.
    score_columns = np.asfortranarray(scores)
    label_columns = np.asfortranarray(true_labels)
    known_columns = None if known is None else np.asfortranarray(known)
    precision_functions = [
        _precision_function(
            score_columns[:, label_index],
            has_label=label_columns[:, label_index],
            is_label_known=None if known_columns is None else known_columns[:, label_index],
        )
        for label_index in range(scores.shape[1])
    ]
    if known is not None:
        predicted_labels = predicted_labels & known
    resample_metrics_by_block = [
        _metrics_of_block(
            weights_by_sample_and_resample,
            predicted_labels=predicted_labels,
            true_labels=true_labels,
            precision_functions=precision_functions,
            known=known,
        )
        for weights_by_sample_and_resample in weight_blocks
    ]
    return {
        metric_name: np.concatenate(
            [
                metrics_of_resamples[metric_name]
                for metrics_of_resamples in resample_metrics_by_block
            ]
        )
        for metric_name in resample_metrics_by_block[0]
    }


def _resample_weights(num_samples: int, num_resamples: int, seed: int) -> Iterator[Float32Array]:
    """Yields, for blocks of b resamples, how often each sample was drawn in each resample, `[n, b]`.

    Args:
        num_samples: n, the number of samples, and of draws with replacement in a resample.
        num_resamples: the number of resamples of all blocks together.
        seed: the seed of the draws.
    """
    rng = np.random.default_rng(seed)
    bytes_per_resample = 4 * num_samples
    max_resamples_per_block = max(1, min(num_resamples, _BLOCK_BYTES // bytes_per_resample))
    for first_resample in range(0, num_resamples, max_resamples_per_block):
        num_resamples_in_block = min(max_resamples_per_block, num_resamples - first_resample)
        weights_by_sample_and_resample = np.empty(
            (num_samples, num_resamples_in_block), dtype=np.float32
        )
        for weights_of_resample in weights_by_sample_and_resample.T:
            weights_of_resample[:] = np.bincount(
                rng.integers(num_samples, size=num_samples), minlength=num_samples
            )
        yield weights_by_sample_and_resample


def _metrics_of_block(
    weights_by_sample_and_resample: Float32Array,
    *,
    predicted_labels: BoolArray,
    true_labels: BoolArray,
    precision_functions: list[PrecisionFunction],
    known: BoolArray | None = None,
) -> dict[str, FloatArray]:
    """Returns the metrics of each of b resamples by name, `[b]` each; NaN if a metric is undefined.

    Args:
        weights_by_sample_and_resample: how often each resample has each test sample, `[n, b]`.
        predicted_labels: the predicted labels, `[n, num_labels]`; False where the true label is unknown.
        true_labels: the true labels, `[n, num_labels]`.
        precision_functions: for each label, the function of `weights_by_sample_and_resample` that returns its average
            precision in each resample.
        known: which true labels are known, `[n, num_labels]`; None where all are.
    """
    weights_by_resample_and_sample = np.ascontiguousarray(
        weights_by_sample_and_resample.T
    )  # [b, n]

    def counts_of_resamples(sample_label_flags: BoolArray) -> FloatArray:
        """Returns for each of the block's b resamples the number of samples for which a flag is true, `[b, L]`.

        A sample counts as often as the resample has it.

        Args:
            sample_label_flags: a flag for each sample and label, bool `[n, L]`.
        """
        return np.asarray(
            weights_by_resample_and_sample @ sample_label_flags.astype(np.float32), np.float64
        )

    num_hits = counts_of_resamples(predicted_labels & true_labels)
    num_predicted = counts_of_resamples(predicted_labels)
    num_true = counts_of_resamples(true_labels)
    num_known = np.full(num_true.shape, float(len(true_labels)))
    if known is not None:
        num_known = counts_of_resamples(known)
    metrics_by_resample_and_label = metrics_of_counts(
        num_hits=num_hits, num_predicted=num_predicted, num_true=num_true, num_samples=num_known
    )
    num_right_bits = num_known - num_predicted - num_true + 2 * num_hits
    is_label_known = num_known > 0
    with np.errstate(invalid="ignore"):
        micro_f1_of_resamples = 2 * num_hits.sum(axis=1) / (num_predicted + num_true).sum(axis=1)
        f1_by_resample_and_label = np.where(
            is_label_known, metrics_by_resample_and_label["f1"], np.nan
        )
        accuracy_of_resamples = num_right_bits.sum(axis=1) / num_known.sum(axis=1)
    # [L, b]
    precision_by_label_and_resample = np.stack(
        [precision_of(weights_by_sample_and_resample) for precision_of in precision_functions]
    )
    return {
        "accuracy": accuracy_of_resamples,
        "balanced_accuracy": _means_of_defined(
            metrics_by_resample_and_label["balanced_accuracy"].T
        ),
        "micro_f1": np.nan_to_num(micro_f1_of_resamples),
        "macro_f1": _means_of_defined(f1_by_resample_and_label.T),
        "mean_average_precision": _means_of_defined(precision_by_label_and_resample),
    }


def _means_of_defined(values_by_label_and_resample: FloatArray) -> FloatArray:
    """Returns the mean over labels of the values that are not NaN, `[b]`; NaN if all are NaN.

    Args:
        values_by_label_and_resample: the value of each label in each of the b resamples of a block, `[L, b]`.
    """
    is_defined = np.isfinite(values_by_label_and_resample)
    num_defined_labels = is_defined.sum(axis=0)
    sums_over_labels = np.where(is_defined, values_by_label_and_resample, 0.0).sum(axis=0)
    return np.where(
        num_defined_labels > 0, sums_over_labels / np.maximum(num_defined_labels, 1), np.nan
    )


def _precision_function(
    scores_of_samples: FloatArray, *, has_label: BoolArray, is_label_known: BoolArray | None = None
) -> PrecisionFunction:
    """Returns a function that computes the average precision of one label in each resample.

    Samples are sorted by descending score. A cut is made after each group of equal scores that has a positive sample.
    The function returns NaN for a resample without a positive sample.

    Args:
        scores_of_samples: the scores of the label, `[n]`.
        has_label: true for samples that have the label, `[n]`.
        is_label_known: true for samples for which the label is known, `[n]`; None for all.
    """
    samples_by_score = np.argsort(scores_of_samples)[::-1]
    if is_label_known is not None:
        samples_by_score = samples_by_score[is_label_known[samples_by_score]]
    if len(samples_by_score) == 0:
        return _undefined_precision
    # The number of samples up to the end of each group of equal scores, and of the positive samples among them.
    group_ends = np.append(
        np.flatnonzero(np.diff(scores_of_samples[samples_by_score])) + 1, len(samples_by_score)
    )
    num_positives_up_to_end = np.cumsum(has_label[samples_by_score])[group_ends - 1]
    num_samples = len(scores_of_samples)
    group_has_positive = num_positives_up_to_end > np.append(0, num_positives_up_to_end[:-1])
    have_equal_scores = len(group_ends) == 1 and is_label_known is None
    num_samples_before_cut = group_ends[group_has_positive]
    num_positives_before_cut = num_positives_up_to_end[group_has_positive]
    # [num_cuts, n], 1 for the samples between the cut before and each cut, and for the positive ones among them.
    samples_between_cuts = _segment_matrix(
        sorted_sample_indices=samples_by_score,
        num_listed_up_to_cut=num_samples_before_cut,
        num_samples=num_samples,
    )
    positives_between_cuts = _segment_matrix(
        sorted_sample_indices=samples_by_score[has_label[samples_by_score]],
        num_listed_up_to_cut=num_positives_before_cut,
        num_samples=num_samples,
    )

    def average_precision(weights_by_sample_and_resample: Float32Array) -> FloatArray:
        """Returns the average precision of the label in each of b resamples, `[b]`; NaN without a positive sample.

        Args:
            weights_by_sample_and_resample: how often each resample has each sample, `[n, b]`.
        """
        _, num_resamples = weights_by_sample_and_resample.shape
        if not positives_between_cuts.shape[0]:
            return np.full(num_resamples, np.nan)
        num_hits_between_cuts = positives_between_cuts @ weights_by_sample_and_resample
        num_hits_up_to_cut = np.cumsum(num_hits_between_cuts, axis=0)
        num_hits_of_resamples = num_hits_up_to_cut[-1]
        if have_equal_scores:
            # The only cut is after all n samples, and every resample has n samples: no product has to count them.
            positive_share = num_hits_of_resamples / len(weights_by_sample_and_resample)
            return np.asarray(
                np.where(num_hits_of_resamples > 0, positive_share, np.nan), dtype=np.float64
            )
        num_samples_up_to_cut = np.cumsum(
            samples_between_cuts @ weights_by_sample_and_resample, axis=0
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            precision_at_cuts = np.where(
                num_samples_up_to_cut > 0,
                num_hits_up_to_cut / np.maximum(num_samples_up_to_cut, 1),
                0.0,
            )
            precision_sums_of_resamples = (num_hits_between_cuts * precision_at_cuts).sum(
                axis=0, dtype=np.float64
            )
            return np.asarray(precision_sums_of_resamples / num_hits_of_resamples)

    return average_precision


def _undefined_precision(weights_by_sample_and_resample: Float32Array) -> FloatArray:
    """Returns NaN for each of b resamples, `[b]`: the average precision of a label that is known for no sample."""
    _, num_resamples = weights_by_sample_and_resample.shape
    return np.full(num_resamples, np.nan)


def _segment_matrix(
    *,
    sorted_sample_indices: NDArray[np.intp],
    num_listed_up_to_cut: NDArray[np.intp],
    num_samples: int,
) -> Any:
    """Returns a sparse matrix `[num_cuts, num_samples]` of 0 and 1, whose rows are segments of a list of samples.

    Row i has 1 for the samples between cut i - 1, or the beginning of the list, and cut i.

    Args:
        sorted_sample_indices: the list: indices of samples, some or all of them.
        num_listed_up_to_cut: the number of samples of the list before each cut, rising.
        num_samples: the number of all samples.
    """
    from scipy.sparse import csr_array  # loads slowly

    num_cuts = len(num_listed_up_to_cut)
    row_starts = np.append(0, num_listed_up_to_cut)
    used_sample_indices = sorted_sample_indices[: row_starts[-1]]
    ones = np.ones(len(used_sample_indices), np.float32)
    return csr_array((ones, used_sample_indices, row_starts), shape=(num_cuts, num_samples))
