"""What a model is scored by: metrics of multi-label predictions, their intervals, and the constants to beat."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.validation import InvalidValue, require, require_count, require_probability

Bits = NDArray[np.bool_]
Floats = NDArray[np.float64]
Interval = tuple[float, float]
Precision = Callable[[NDArray[np.float32]], Floats]

_POINTS = 200  # of a curve of precision and recall
_MOST_RESAMPLES = 200
_FEWEST_RESAMPLES = 50
_MOST_BITS = 2 * 10**8  # of all resamples together
_MOST_SAMPLES = 2**15
_PART = 2**14
_MOST_WEIGHTS = 2**26  # bytes of a block of resamples
_RATES = (0.001, 0.01)  # of false positives, at which an attack is told in words
_FALSE_COUNTS = 24  # of its curve


@dataclass(frozen=True)
class Scores:
    """The five metrics that stand beside each other in every table, as `multilabel_metrics` defines them."""

    accuracy: float
    balanced_accuracy: float | None
    micro_f1: float
    macro_f1: float
    mean_average_precision: float | None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            require(value is None or 0 <= value <= 1, name, value, "a number in [0, 1]")


def multilabel_metrics(predicted: ArrayLike, scores: ArrayLike, true: ArrayLike) -> Scores:
    """Computes the five metrics of a multi-label prediction, each in [0, 1]; None for a mean over no label at all.

    - `accuracy`: mean over samples and labels of correct bits (the papers' measure; flatters rare labels).
    - `balanced_accuracy`: mean over labels of each label's balanced accuracy. A label of which `true` holds one class
      only is left out, so that a constant guess scores exactly 0.5.
    - `micro_f1`: F1 of all bits taken together. `macro_f1`: mean over all labels of each label's F1. An F1 without
      positives on either side is 0.
    - `mean_average_precision`: mean, over the labels that have a positive, of the average precision of `scores`.

    Args:
        predicted: bool `[n, L]`.
        scores: float `[n, L]`, higher means more likely; finite.
        true: bool `[n, L]`.

    Raises `InvalidValue` for arrays of another dtype, empty, of different shapes, or scores that are not finite.
    """
    predicted, scores, true = _checked(predicted, scores, true)
    return summarized(_per_label(predicted, scores, true), micro_f1=micro_f1(predicted, true))


def summarized(per_label: Mapping[str, Floats], *, micro_f1: float) -> Scores:
    """The five metrics from those of `per_label_metrics`, and the F1 of all bits together."""
    accuracy, macro_f1 = (float(np.mean(per_label[name])) for name in ("accuracy", "f1"))
    # NaN where undefined
    label_scores = (per_label[name] for name in ("balanced_accuracy", "average_precision"))
    balanced, precision = (
        None
        if np.isnan(scores_of_labels).all()
        else float(np.mean(scores_of_labels[~np.isnan(scores_of_labels)]))
        for scores_of_labels in label_scores
    )
    return Scores(accuracy, balanced, micro_f1, macro_f1, precision)


def micro_f1(predicted: Bits, true: Bits) -> float:
    """F1 of all bits `[n, L]` together; 0 without positives on either side."""
    num_named = np.count_nonzero(predicted) + np.count_nonzero(true)
    return 2 * np.count_nonzero(predicted & true) / num_named if num_named else 0.0


def per_label_metrics(
    predicted: ArrayLike, scores: ArrayLike, true: ArrayLike
) -> dict[str, Floats]:
    """Computes the metrics of each label by itself, from the arrays and by the rules of `multilabel_metrics`.

    They are `accuracy`, `balanced_accuracy`, `precision`, `recall`, `f1`, `average_precision` and `prevalence` (the
    share of positives in `true`), each float64 `[L]`; NaN where a metric is undefined.
    """
    return _per_label(*_checked(predicted, scores, true))


def _per_label(predicted: Bits, scores: Floats, true: Bits) -> dict[str, Floats]:
    hits, num_named, real = (
        np.count_nonzero(bits, axis=0) for bits in (predicted & true, predicted, true)
    )
    found = _of_counts(hits, num_named, real, len(true))
    return found | {
        "average_precision": average_precisions(scores, true),
        "prevalence": real / len(true),
    }


def _of_counts(hits: Any, named: Any, real: Any, n: int) -> dict[str, Floats]:
    """Of each label, from how often it is named rightly, is named, and is there, in n samples, `[…, L]` each."""
    absent_left = n - named - real + hits
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "accuracy": (hits + absent_left) / n,
            "balanced_accuracy": (hits / real + absent_left / (n - real)) / 2,
            "precision": np.where(named > 0, hits / named, 0.0),
            "recall": hits / real,
            "f1": np.where(named + real > 0, 2 * hits / (named + real), 0.0),
        }


def average_precisions(scores: NDArray[np.floating], true: Bits) -> Floats:
    """Of each label `[L]` the mean, over its positives, of the precision among all samples that score no lower.

    NaN without a positive. `scores` and `true` are `[n, L]`.
    """
    every = np.sort(np.ascontiguousarray(scores.T), axis=1)  # [L, n]
    precisions = np.full(scores.shape[1], np.nan)
    for label, positive in enumerate(np.ascontiguousarray(true.T)):
        if positive.any():
            levels = np.sort(scores[positive, label])
            above = len(levels) - np.searchsorted(levels, levels)
            precisions[label] = np.mean(
                above / (len(positive) - np.searchsorted(every[label], levels))
            )
    return precisions


def _checked(predicted: ArrayLike, scores: ArrayLike, true: ArrayLike) -> tuple[Bits, Floats, Bits]:
    bits = np.asarray(predicted)
    values = np.asarray(scores)
    truth = np.asarray(true)
    for name, array in {"predicted": bits, "true": truth}.items():
        require(array.dtype == np.bool_, f"{name}.dtype", array.dtype, "bool")
        good = array.ndim == 2 and array.size > 0
        require(good, f"{name}.shape", array.shape, "[num_samples, num_labels], not empty")
    require(
        np.issubdtype(values.dtype, np.floating), "scores.dtype", values.dtype, "a floating type"
    )
    for name, shape in (("predicted", bits.shape), ("scores", values.shape)):
        require(shape == truth.shape, f"{name}.shape", shape, f"the shape of true, {truth.shape}")
    if not np.isfinite(values).all():
        raise InvalidValue("scores", values[~np.isfinite(values)][0], rule="finite numbers")
    return bits, values.astype(np.float64, copy=False), truth


def metric_intervals(
    predicted: ArrayLike,
    scores: ArrayLike,
    true: ArrayLike,
    *,
    resamples: int | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Interval]:
    """Percentile intervals of the five metrics of `multilabel_metrics`, from test samples drawn with replacement.

    Of more than 32,768 samples it resamples 16,384, and scales their deviations to the number of all. The model and the
    release stay as they are: the interval says nothing about another release or another training. Arrays are those of
    `multilabel_metrics`, which says what is refused.

    Args:
        predicted: bool `[n, L]`.
        scores: float `[n, L]`.
        true: bool `[n, L]`.
        resamples: how many test sets are drawn; None for 200, or for fewer where there are many bits, at least 50.
        level: share of them inside an interval, in (0, 1).
        seed: of the draws, so that two reports of one run agree.

    Returns `(low, high)` in [0, 1] by metric, without those that some resample leaves undefined for every label.
    """
    require_probability("level", level)
    bits, values, truth = _checked(predicted, scores, true)
    if resamples is None:
        resamples = int(np.clip(_MOST_BITS // truth.size, _FEWEST_RESAMPLES, _MOST_RESAMPLES))
    require_count("resamples", resamples, minimum=2)
    # so that sums in float32 are exact
    require(len(truth) < 2**24, "num_test", len(truth), "fewer than 2**24")
    tails = 50 * (1 - level), 100 - 50 * (1 - level)
    samples = every = bits, values, truth
    if len(truth) > _MOST_SAMPLES:
        part = np.random.default_rng(seed).permutation(len(truth))[:_PART]
        samples = bits[part], values[part], truth[part]
    resampled = _drawn(*samples, _weights(len(samples[2]), resamples, seed))
    # deviations fall with the root of the number of samples: a part's say what those of all are
    if samples is not every:
        of_part, of_all = (
            _drawn(*arrays, [np.ones((len(arrays[2]), 1), np.float32)])
            for arrays in (samples, every)
        )
        shrink = math.sqrt(_PART / len(truth))
        resampled = {
            name: np.clip(of_all[name] + shrink * (resampled[name] - of_part[name]), 0, 1)
            for name in resampled
        }
    bounds = {
        name: np.percentile(values_of_metric, tails) for name, values_of_metric in resampled.items()
    }
    return {
        name: (float(low), float(high)) for name, (low, high) in bounds.items() if np.isfinite(low)
    }


def _drawn(
    bits: Bits, values: Floats, truth: Bits, blocks: Iterable[NDArray[np.float32]]
) -> dict[str, Floats]:
    """Each metric of each resample, by blocks of weights."""
    columns = zip(np.asfortranarray(values).T, np.asfortranarray(truth).T, strict=True)
    ranked = [_precision_of(*column) for column in columns]
    blocks_of_scores = [_resampled(weights, bits, truth, ranked) for weights in blocks]
    return {
        name: np.concatenate([block[name] for block in blocks_of_scores])
        for name in blocks_of_scores[0]
    }


def _weights(num_samples: int, resamples: int, seed: int) -> Iterator[NDArray[np.float32]]:
    """How often each sample is in a resample, `[n, B]`, in blocks of resamples."""
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
    weights: NDArray[np.float32], bits: Bits, truth: Bits, ranked: list[Precision]
) -> dict[str, Floats]:
    """Each metric of each resample, `[B]`; NaN where it is undefined."""
    n = len(truth)
    shares = np.ascontiguousarray(weights.T)
    hits, num_named, real = (  # [B, L]
        np.asarray(shares @ flags.astype(np.float32), np.float64)
        for flags in (bits & truth, bits, truth)
    )
    scores = _of_counts(hits, num_named, real, n)
    with np.errstate(invalid="ignore"):
        micro = 2 * hits.sum(axis=1) / (num_named + real).sum(axis=1)
    return {
        "accuracy": (n - num_named - real + 2 * hits).mean(axis=1) / n,
        "balanced_accuracy": _means_of_defined(scores["balanced_accuracy"].T),
        "micro_f1": np.nan_to_num(micro),
        "macro_f1": scores["f1"].mean(axis=1),
        # of [L, B]
        "mean_average_precision": _means_of_defined(
            np.stack([metric(weights) for metric in ranked])
        ),
    }


def _means_of_defined(values: Floats) -> Floats:
    """Means over the labels `[L, B]` that are defined; NaN without one."""
    defined = np.isfinite(values)
    number = defined.sum(axis=0)
    return np.where(
        number > 0, np.where(defined, values, 0.0).sum(axis=0) / np.maximum(number, 1), np.nan
    )


def _precision_of(scores: Floats, truth: Bits) -> Precision:
    """Gives one label's average precision in each resample, `[B]`, from weights `[n, B]`; NaN without a positive.

    Samples stand from the highest score down, cut behind each group of equal scores with a positive.
    """
    order = np.argsort(scores)[::-1]
    # of groups of equal scores
    ends = np.append(np.flatnonzero(np.diff(scores[order])) + 1, len(order))
    found = np.cumsum(truth[order])[ends - 1]
    cuts = found > np.append(0, found[:-1])
    one_score = len(ends) == 1
    # `[C, n]`, 1 for the samples between two of the C cuts, and for the positive ones among them
    segments = _rows(order, ends[cuts], len(order))
    positives = _rows(order[truth[order]], found[cuts], len(order))

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
    """A row for each run of samples up to its end."""
    from scipy.sparse import csr_array  # loads slowly

    used_samples = samples[: ends[-1]] if len(ends) else samples[:0]
    return csr_array(
        (np.ones(len(used_samples), np.float32), used_samples, np.append(0, ends)),
        shape=(len(ends), num_samples),
    )


@dataclass(frozen=True, eq=False)
class Constant:
    """One set of labels for all samples, ranked by how frequent each label is."""

    labels: Bits  # bool `[L]`
    frequencies: Floats  # `[L]`, the score of each label

    @classmethod
    def prior(cls, frequencies: Floats) -> Self:
        """Each label's majority: the constant with the best accuracy."""
        return cls(frequencies > 0.5, frequencies)

    @classmethod
    def best(cls, frequencies: Floats) -> Self:
        """The k most frequent labels, k for the best micro-F1 on data with these frequencies."""
        # A set S of labels on n samples is right n sum_S f times, of n |S| that it names and n sum f that are there.
        order = np.argsort(-frequencies, kind="stable")
        ranks = np.cumsum(frequencies[order])
        micro_f1 = 2 * ranks / (np.arange(1, len(order) + 1) + ranks[-1])
        labels = np.zeros(len(order), dtype=np.bool_)
        labels[order[: int(np.argmax(micro_f1)) + 1]] = True
        return cls(labels, frequencies)

    def for_samples(self, count: int) -> tuple[Bits, Floats]:
        """Labels and scores for that many samples, `[count, L]` each."""
        return np.tile(self.labels, (count, 1)), np.tile(self.frequencies, (count, 1))

    def metrics(self, true: Bits) -> Scores:
        """Its metrics against true labels `[n, L]`."""
        return multilabel_metrics(*self.for_samples(len(true)), true)


CONSTANTS = {"prior": Constant.prior, "best_constant": Constant.best}
"""By the names of report.json, from the true frequency of each label `[L]`, which no epsilon covers."""


@dataclass(frozen=True, eq=False)
class PrecisionRecall:
    """A model's trade between precision and recall, on labels that no epsilon covers."""

    recall: Floats  # `[P]`, ascending
    precision: Floats  # `[P]`, at these
    chosen: tuple[float, float]  # recall and precision of the labels that the model predicts
    constant: tuple[float, float]  # the same of the best constant
    # the probability from which a label is predicted, one or one for each
    threshold: float | tuple[float, ...] | None

    @classmethod
    def of(
        cls,
        scores: NDArray[np.floating],
        predicted: Bits,
        true: Bits,
        *,
        constant: Bits,
        threshold: Any,
    ) -> Self | None:
        """At up to 200 levels of recall, of arrays `[n, L]` and the constant's labels `[L]`; None if no bit is true."""
        if not true.any():
            return None
        sorted_scores = np.sort(scores[true])
        every = np.sort(scores, axis=None)
        ranks = np.unique(
            np.linspace(1, len(sorted_scores), min(_POINTS, len(sorted_scores))).round().astype(int)
        )
        levels = sorted_scores[-ranks]
        above = len(sorted_scores) - np.searchsorted(sorted_scores, levels)
        precision = above / (len(every) - np.searchsorted(every, levels))

        def point(named: Bits) -> tuple[float, float]:
            hits = float((named & true).sum())
            return hits / float(true.sum()), hits / max(float(named.sum()), 1.0)

        of_constant = point(np.broadcast_to(constant, true.shape))
        return cls(above / len(sorted_scores), precision, point(predicted), of_constant, threshold)


@dataclass(frozen=True)
class Membership:
    """What attackers see of a training record: one takes those with the smallest loss for private. Not covered.

    The other one takes those whose loss is smallest beside that of models which never saw a private record: the
    offline LiRA of Carlini et al. 2022, "Membership inference attacks from first principles". Chance is what records
    have that differ in nothing.
    """

    # `[P]`, false positive rates in (0, 1), rising, 0.1% and 1% among them, in whole records
    fpr: tuple[float, ...]
    # `[P]`, the share of private records found at each; equal losses count in proportion
    tpr: tuple[float, ...]
    low: tuple[float, ...]  # `[P]`, the lower end of the 95% interval of `tpr` by chance
    high: tuple[float, ...]  # `[P]`, its upper end
    num_private: int  # private records that were tried, n
    num_test: int  # test records that were tried, m
    # `[P]`, what LiRA finds; empty where no reference models were trained
    tpr_by_reference: tuple[float, ...] = ()

    @classmethod
    def of(
        cls, private: Floats, test: Floats, by_reference: tuple[Floats, Floats] | None = None
    ) -> Self | None:
        """By the losses of independent records, `[n]` and `[m]`, and by `unusual`; None for fewer than one and two."""
        n = len(private)
        m = len(test)
        if not n or m < 2:
            return None
        counts_asked = np.append(np.geomspace(1, m - 1, _FALSE_COUNTS), np.multiply(_RATES, m))
        counts = np.unique(np.clip(counts_asked + 1e-9, 1, m - 1).astype(np.int64))
        fpr, low, high = (tuple(each.tolist()) for each in (counts / m, *_by_chance(counts, n, m)))
        reference_rates = () if by_reference is None else _found(*by_reference, counts)
        return cls(fpr, _found(private, test, counts), low, high, n, m, reference_rates)

    @property
    def text(self) -> str:
        """What it sees, in a sentence."""
        places = {int(np.abs(np.array(self.fpr) - rate).argmin()) for rate in _RATES}
        lines = []
        for place in sorted(places):
            rates = [
                each[place]
                for each in (self.fpr, self.high, self.tpr, self.tpr_by_reference)
                if each
            ]
            fpr, high, tpr, *beside = (f"{float(f'{100 * rate:.2g}'):g}%" for rate in rates)
            rates_found = " or ".join(
                [f"{tpr} of them", *(f"{rate} by reference models" for rate in beside)]
            )
            chance = "beyond" if max(rates[2:]) > rates[1] else "nothing beyond"
            lines.append(
                f"at a false positive rate of {fpr} it finds {rates_found}, {chance} chance (up to {high})"
            )
        return f"What an attacker sees of a training record: {'; '.join(lines)}."


def _found(private: Floats, test: Floats, counts: NDArray[np.int64]) -> tuple[float, ...]:
    """The share of private records before so many test ones, in ascending order."""
    levels = np.unique(np.append(private, test))
    true_rate, false = (
        np.append(0, np.searchsorted(np.sort(members), levels, side="right"))
        for members in (private, test)
    )
    # the most that is found with so many false ones
    last = np.searchsorted(false, counts, side="right") - 1
    share = (counts - false[last]) / (false[last + 1] - false[last])
    return tuple(
        (
            (true_rate[last] + share * (true_rate[last + 1] - true_rate[last])) / len(private)
        ).tolist()
    )


def label_losses(probabilities: NDArray[np.floating], true: Bits) -> Floats:
    """The binary cross-entropy of each sample, summed over its labels, `[n]`, from arrays `[n, L]`."""
    confidence = np.where(true, probabilities, 1 - probabilities.astype(np.float64))
    losses: Floats = -np.log(np.maximum(confidence, 1e-12)).sum(axis=1)
    return losses


def log_odds(probabilities: NDArray[np.floating], true: Bits) -> Floats:
    """Of being right, of each sample, summed over its labels, `[n]`, from arrays `[n, L]`."""
    return label_losses(probabilities, ~true) - label_losses(probabilities, true)


def unusual(odds: Floats, usual: Floats) -> Floats:
    """How far log-odds `[n]` lie below those of reference models, `[K, n]`, in a Gaussian's standard deviations.

    Of each record its own mean; half of its variance is that of all, as K models tell little of it.
    """
    variance = usual.var(axis=0)
    spread = np.sqrt((variance + variance.mean()) / 2)
    return np.asarray((usual.mean(axis=0) - odds) / np.where(spread > 0, spread, 1))


def _by_chance(counts: NDArray[np.int64], n: int, m: int) -> tuple[Floats, Floats]:
    """The 95% interval of the rate found at each count of false positives, from ratios of beta-binomial weights.

    Before the (k + 1)-th of m test records come as many of n private ones as a binomial of n counts whose rate is
    Beta(k + 1, m - k).
    """
    places = np.arange(n)
    k = counts[:, None]
    steps = np.log((n - places) * (places + k + 1.0) / ((places + 1.0) * (m - k + n - 1 - places)))
    weights = np.cumsum(np.pad(steps, ((0, 0), (1, 0))), axis=1)  # [P, n + 1], logarithms
    below = np.cumsum(np.exp(weights - weights.max(axis=1, keepdims=True)), axis=1)
    below /= below[:, -1:]
    return (below < 0.025).sum(axis=1) / n, (below < 0.975).sum(axis=1) / n
