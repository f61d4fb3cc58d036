"""Bootstrap intervals of the metrics over test samples: what another draw of the test set could have shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.report.metrics import checked
from pate.validation import require, require_count, require_probability

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Interval = tuple[float, float]

_MOST_RESAMPLES, _FEWEST_RESAMPLES = 200, 50
_MOST_BITS = 2 * 10**8  # of all resamples together
_LEVEL = 0.95
_MOST_WEIGHTS = 2**26  # bytes of a block of resamples


def metric_intervals(
    predicted: ArrayLike,
    scores: ArrayLike,
    true: ArrayLike,
    *,
    resamples: int | None = None,
    level: float = _LEVEL,
    seed: int = 0,
) -> dict[str, Interval]:
    """Percentile intervals of the five metrics of `multilabel_metrics`, from test samples drawn with replacement.

    The model and the release stay as they are: the interval says nothing about another release or another training.

    Args:
        predicted: bool `[n, L]`.
        scores: float `[n, L]`, higher means more likely; finite.
        true: bool `[n, L]`.
        resamples: how many test sets are drawn; None for 200, or for fewer where there are many bits, at least 50.
        level: share of them inside an interval, in (0, 1).
        seed: of the draws, so that two reports of one run agree.

    Returns:
        `(low, high)` in [0, 1] by metric; without the metrics that some resample leaves undefined for every label.

    Raises:
        InvalidValue: as `multilabel_metrics`.
    """
    require_probability("level", level)
    bits, values, truth = checked(predicted, scores, true)
    if resamples is None:
        resamples = int(np.clip(_MOST_BITS // truth.size, _FEWEST_RESAMPLES, _MOST_RESAMPLES))
    require_count("resamples", resamples, minimum=2)
    require(len(truth) < 2**24, "num_test", len(truth), "fewer than 2**24")
    columns = zip(np.asfortranarray(values).T, np.asfortranarray(truth).T, strict=True)
    ranked = [_RankedLabel.of(of_label, positive) for of_label, positive in columns]
    drawn = [_metrics(weights, bits, truth, ranked) for weights in _weights(len(truth), resamples, seed)]
    tails = 50 * (1 - level), 100 - 50 * (1 - level)
    found = {}
    for name in drawn[0]:
        low, high = np.percentile(np.concatenate([block[name] for block in drawn]), tails)
        if np.isfinite(low):
            found[name] = (float(low), float(high))
    return found


def _weights(num_samples: int, resamples: int, seed: int) -> Iterator[NDArray[np.float32]]:
    """How often each sample is in a resample, `[n, B]`, in blocks of resamples; sums below 2**24 are exact."""
    rng = np.random.default_rng(seed)
    size = max(1, min(resamples, _MOST_WEIGHTS // (4 * num_samples)))
    for start in range(0, resamples, size):
        count = min(size, resamples - start)
        weights = np.empty((num_samples, count), dtype=np.float32)
        for column in range(count):
            weights[:, column] = np.bincount(rng.integers(num_samples, size=num_samples), minlength=num_samples)
        yield weights


def _metrics(
    weights: NDArray[np.float32], bits: NDArray[np.bool_], truth: NDArray[np.bool_], ranked: list[_RankedLabel]
) -> dict[str, NDArray[np.float64]]:
    """Each metric of each resample, `[B]`; NaN where it is undefined."""
    n, shares = len(truth), np.ascontiguousarray(weights.T)
    hits, named, real = (
        np.asarray(shares @ some.astype(np.float32), np.float64) for some in (bits & truth, bits, truth)
    )
    absent_left = n - named - real + hits
    with np.errstate(divide="ignore", invalid="ignore"):
        balanced = (hits / real + absent_left / (n - real)) / 2
        f1 = np.where(named + real > 0, 2 * hits / (named + real), 0.0)
        micro = 2 * hits.sum(axis=1) / (named + real).sum(axis=1)
    precision = np.stack([label.average_precision(weights) for label in ranked])
    return {
        "accuracy": (hits + absent_left).mean(axis=1) / n,
        "balanced_accuracy": _mean_of_defined(balanced.T),
        "micro_f1": np.nan_to_num(micro),
        "macro_f1": f1.mean(axis=1),
        "mean_average_precision": _mean_of_defined(precision),
    }


def _mean_of_defined(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means over the labels `[L, B]` that are defined; NaN without one."""
    defined = np.isfinite(values)
    number = defined.sum(axis=0)
    total = np.where(defined, values, 0.0).sum(axis=0)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


@dataclass(frozen=True, eq=False)
class _RankedLabel:
    """The samples of one label from the highest score down, cut behind each group of equal scores with a positive.

    Attributes:
        segments: `[C, n]`, 1 for the samples between two of the C cuts; None where all have one score, and one cut.
        positives: `[C, n]`, 1 for the positive ones among them.
    """

    segments: csr_array | None
    positives: csr_array

    @classmethod
    def of(cls, scores: NDArray[np.float64], truth: NDArray[np.bool_]) -> _RankedLabel:
        if scores.min() == scores.max():
            positive = np.flatnonzero(truth)
            return cls(None, _rows(positive, np.array([len(positive)])[: len(positive)], len(truth)))
        order = np.argsort(scores)[::-1]
        ends = np.append(np.flatnonzero(np.diff(scores[order])) + 1, len(order))  # of groups of equal scores
        found = np.cumsum(truth[order])[ends - 1]
        cuts = found > np.append(0, found[:-1])
        return cls(_rows(order, ends[cuts], len(order)), _rows(order[truth[order]], found[cuts], len(order)))

    def average_precision(self, weights: NDArray[np.float32]) -> NDArray[np.float64]:
        """Of each resample, `[B]`; NaN where it has no positive."""
        if not self.positives.shape[0]:
            return np.full(weights.shape[1], np.nan)
        found = self.positives @ weights
        total = np.cumsum(found, axis=0)
        if self.segments is None:
            return np.asarray(np.where(total[0] > 0, total[0] / len(weights), np.nan), dtype=np.float64)
        seen = np.cumsum(self.segments @ weights, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            precision = np.where(seen > 0, total / np.maximum(seen, 1), 0.0)
            return np.asarray((found * precision).sum(axis=0, dtype=np.float64) / total[-1])


def _rows(samples: NDArray[np.intp], ends: NDArray[np.intp], num_samples: int) -> csr_array:
    """A row for each run of samples up to its end."""
    used = samples[: ends[-1]] if len(ends) else samples[:0]
    starts = np.append(0, ends)
    from scipy.sparse import csr_array  # loads slowly

    return csr_array((np.ones(len(used), np.float32), used, starts), shape=(len(ends), num_samples))
