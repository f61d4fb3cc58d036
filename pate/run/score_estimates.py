"""Scores with 95% intervals, estimated from noisy sums over test records and the student's probabilities in public.

L is the number of labels, R the number of draws. All of this is post-processing of released sums, and costs nothing.

Counts over all labels are known well, as noise is small beside them: they give micro-F1 and accuracy without a model. A
label's own counts may be smaller than their noise. So each is divided by what the student expects of public records.
These ratios are moved towards their mean over labels, by as much as the noise explains of their differences (an
empirical Bayes estimate). Draws from what the noise leaves open, and from what other test records would change, give
the intervals.

Source: docs/proofs/scores.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import expit
from pate.report.released_scores import ReleasedScore
from pate.run.score_sums import (
    CALIBRATION_BINS,
    STEPS_PER_CLIP,
    Integers,
    PublicScores,
    ScoreDesign,
    bins_of,
)

Array = NDArray[np.float64]

_NUM_DRAWS = 400
_CELLS = 12  # on each side of a label's threshold, by rank of probability, smaller where it is high
_LEAST_EXPECTED = 0.5  # records
_LEAST_RATIO = 0.02
# the spread of the ratios over labels before any label is seen, which counts like a few labels
_PRIOR_STD = 0.2
_PRIOR_LABELS = 3.0
_SLOPE_STD = 0.05  # of the ratios over the logarithm of a label's size
_EM_STEPS = 60
_LARGEST_LOGIT = 12.0
_LOGIT_CELLS = 40  # in each unit
_LINE_STD = 0.5  # of intercept and slope, before any sum is seen
_LEAST_SLOPE = 0.1
_NEWTON_STEPS = 25
_FEWEST_LABELS = 8  # for a line in their sizes
_MOST_EFFECT = 100.0
# the errors of the models behind two scores, by their biases on WordNet and on simulated students
_MACRO_STD = 0.008
_PRECISION_STD = 0.015
_TWO_SIDED = (2.5, 97.5)  # percentiles


@dataclass(frozen=True, eq=False)
class ScoreEstimates:
    """The estimates of all scores from one release of noisy sums.

    Attributes:
        design: the public design of the sums.
        public: the student's probabilities and predictions on public records.
        sums: the noisy sums, in steps, by block.
        noise_multiplier: the noise std / l2 sensitivity of all blocks together.
        num_groups: the number of groups of test records.
    """

    design: ScoreDesign
    public: PublicScores
    sums: Mapping[str, Integers]
    noise_multiplier: float
    num_groups: int

    def scores(self) -> dict[str, ReleasedScore]:
        """Returns the scores over all test records, by their names in `privacy.json`."""
        macro_f1, mean_average_precision = self._label_scores()
        return {
            "micro_f1": self._micro_f1(self._totals, self._totals_covariance),
            "accuracy": self._accuracy(),
            "macro_f1": macro_f1,
            "mean_average_precision": mean_average_precision,
            "calibration_error": self._calibration_error(),
        }

    def subgroup_scores(self) -> list[list[ReleasedScore]]:
        """Returns micro-F1 of each value of each column of subgroups."""
        if not self.design.num_values:
            return []
        sums = self._block("subgroups").reshape(-1, 2)
        noise = np.eye(2) * self._noise_std("subgroups") ** 2
        scores = []
        for totals in np.maximum(sums, 0):
            sampling = _independent_covariance(totals) * self._design_effect
            scores.append(self._micro_f1(totals, covariance=noise + sampling))
        stops = np.cumsum(self.design.num_values)
        return [
            scores[stop - size : stop]
            for stop, size in zip(stops, self.design.num_values, strict=True)
        ]

    def _block(self, name: str) -> Array:
        """Returns the noisy sums of a block, in records and labels."""
        return np.asarray(self.sums[name] * (self.design.clips[name] / STEPS_PER_CLIP))

    def _noise_std(self, name: str) -> float:
        """Returns the standard deviation of the noise in each sum of a block, in records and labels."""
        stds = self.design.noise_stds(self.noise_multiplier)
        return stds[name] * self.design.clips[name] / STEPS_PER_CLIP

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(0)

    @cached_property
    def _num_known(self) -> float:
        """Returns the number of test records, as if all had all labels known; groups of many records count less."""
        if "sizes" not in self.sums:
            return float(self.num_groups)
        return float(
            np.clip(self._block("sizes")[1], 1.0, self.num_groups * self.design.most_records)
        )

    @cached_property
    def _totals(self) -> Array:
        """Returns the numbers of hits and errors over all labels, `[2]`."""
        labels = self._block("labels").reshape(3, -1).sum(axis=1)
        by_label = np.array([labels[0], labels[1] + labels[2]])
        weights = 1 / self._variances_of_totals
        together = weights[0] * self._block("totals") + weights[1] * by_label
        return np.asarray(np.maximum(together / weights.sum(axis=0), 0.0))

    @property
    def _variances_of_totals(self) -> Array:
        """Returns the variances of the noise in hits and errors, from `totals` and from `labels`, `[2, 2]`."""
        num_labels = self.design.num_labels
        of_label = self._noise_std("labels") ** 2
        return np.array(
            [
                [self._noise_std("totals") ** 2] * 2,
                [num_labels * of_label, 2 * num_labels * of_label],
            ]
        )

    @cached_property
    def _sampling_covariance(self) -> Array:
        """Returns the covariance of hits and errors over test sets drawn again, `[2, 2]`, rather too large."""
        squares = self._block("squares")
        noise = self._noise_std("squares")
        cross = squares[1] / math.sqrt(2)
        matrix = np.array([[squares[0] + noise, cross], [cross, squares[2] + noise]])
        values, vectors = np.linalg.eigh(matrix)
        return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)

    @cached_property
    def _design_effect(self) -> float:
        """Returns how much more micro-F1 varies over test sets than it would with independent labels, >= 1."""
        hits, errors = self._totals
        slope = np.array([errors, -hits])  # of micro-F1, up to a factor
        variance = slope @ self._sampling_covariance @ slope
        independent = slope @ _independent_covariance(self._totals) @ slope
        if independent <= 0:
            return 1.0
        return float(np.clip(variance / independent, 1.0, _MOST_EFFECT))

    @property
    def _totals_covariance(self) -> Array:
        """Returns the covariance of hits and errors by noise and by the draw of the test records, `[2, 2]`."""
        noise = np.diag(1 / (1 / self._variances_of_totals).sum(axis=0))
        independent = _independent_covariance(self._totals) * self._design_effect
        slope = np.array([self._totals[1], -self._totals[0]])
        sampling = self._sampling_covariance
        if slope @ sampling @ slope < slope @ independent @ slope:
            sampling = independent
        return np.asarray(noise + sampling)

    def _micro_f1(self, totals: Array, covariance: Array) -> ReleasedScore:
        """Returns micro-F1 from the numbers of hits and errors, with their covariance."""
        normal = self._rng().multivariate_normal(np.zeros(2), covariance, size=_NUM_DRAWS)
        draws = np.maximum(totals + normal, 0.0)
        return _score(_f1(totals[0], totals[1]), draws=_f1(draws[:, 0], draws[:, 1]))

    def _accuracy(self) -> ReleasedScore:
        """Returns the share of known labels that are predicted rightly."""
        errors = self._totals[1]
        cells = self._num_known * self.design.num_labels
        sampling = max(self._sampling_covariance[1, 1] - errors**2 / self.num_groups, errors)
        noise = 1 / (1 / self._variances_of_totals).sum(axis=0)[1]
        rng = self._rng()
        drawn_errors = errors + rng.standard_normal(_NUM_DRAWS) * math.sqrt(noise + sampling)
        drawn_cells = np.full(_NUM_DRAWS, cells)
        if "sizes" in self.sums:
            std = self._noise_std("sizes") * self.design.num_labels
            drawn_cells = np.maximum(cells + rng.standard_normal(_NUM_DRAWS) * std, cells / 10)
        return _score(1 - errors / cells, draws=1 - drawn_errors / drawn_cells)

    def _calibration_error(self) -> ReleasedScore:
        """Returns the sum over bins of |labels - probabilities|, over the number of known labels."""
        sums = self._block("calibration").reshape(2, CALIBRATION_BINS)
        differences = sums[0] - sums[1]
        noise = 2 * self._noise_std("calibration") ** 2
        cells = self._num_known * self.design.num_labels
        signal = max(0.0, 1 - CALIBRATION_BINS * noise / np.square(differences).sum())
        value = signal * np.abs(differences).sum() / cells
        width = 1.96 * math.sqrt(CALIBRATION_BINS * noise + self._residual_variances.sum()) / cells
        # the shrunk value may be too low by as much as it was shrunk
        high = max(value + width, np.abs(differences).sum() / cells)
        return _score(value, draws=np.array([value - width, high]), percentiles=(0, 100))

    @property
    def _residual_variances(self) -> Array:
        """Returns the variance of each bin's sum of labels - probabilities over test sets, `[CALIBRATION_BINS]`."""
        probabilities = self.public.probabilities
        variances = np.bincount(
            bins_of(probabilities).ravel(),
            weights=(probabilities * (1 - probabilities)).ravel(),
            minlength=CALIBRATION_BINS,
        )
        return np.asarray(variances * self._records_per_public * self._design_effect)

    @cached_property
    def _recalibrations(self) -> list[tuple[float, float]]:
        """Returns lines (intercept, slope) between the logits of probabilities and of shares, by the calibration sums.

        The first line is the most likely one; two others lie a standard deviation beside it, the slope lower and
        higher.
        """
        sums = self._block("calibration").reshape(2, CALIBRATION_BINS)
        return _recalibrations(
            self.public.probabilities,
            differences=(sums[0] - sums[1]) / self._records_per_public,
            variances=(2 * self._noise_std("calibration") ** 2 + self._residual_variances)
            / self._records_per_public**2,
        )

    @property
    def _records_per_public(self) -> float:
        """Returns the effective number of test records (`_num_known`) divided by the number of public records."""
        return self._num_known / len(self.public.probabilities)

    @cached_property
    def _expected(self) -> Array:
        """Returns the hits, false alarms and misses of each label that the student expects, `[L, 3]`."""
        probabilities = self.public.probabilities
        predicted = self.public.predicted
        counts = np.stack(
            [
                (probabilities * predicted).sum(axis=0),
                ((1 - probabilities) * predicted).sum(axis=0),
                (probabilities * ~predicted).sum(axis=0),
            ],
            axis=1,
        )
        return np.asarray(np.maximum(counts * self._records_per_public, _LEAST_EXPECTED))

    def _label_scores(self) -> tuple[ReleasedScore, ReleasedScore]:
        """Returns macro-F1 and the mean average precision."""
        expected = self._expected
        ratios = self._block("labels").reshape(3, -1).T / expected
        variances = (self._noise_std("labels") / expected) ** 2
        rng = self._rng()
        draws = _drawn_ratios(ratios, variances, sizes=expected.sum(axis=1), rng=rng)  # [R, L, 3]
        counts = np.maximum(draws, _LEAST_RATIO) * expected
        noise = rng.standard_normal(counts.shape) * np.sqrt(self._design_effect * counts)
        resampled = np.maximum(counts + noise, _LEAST_RATIO * expected)
        macro = _f1(counts[..., 0], counts[..., 1] + counts[..., 2]).mean(axis=1)
        macro_again = _f1(resampled[..., 0], resampled[..., 1] + resampled[..., 2]).mean(axis=1)
        cells, *others = (
            _RankCells.of_public(self.public, line=line, num_known=self._num_known)
            for line in self._recalibrations
        )
        precision = cells.average_precisions(counts).mean(axis=1)
        precision_again = cells.average_precisions(resampled).mean(axis=1)
        beside = [other.average_precisions(counts[:1]).mean() - precision[0] for other in others]
        model_std = math.hypot(_PRECISION_STD, max(map(abs, beside)))
        model = rng.standard_normal((2, _NUM_DRAWS)) * np.array([[_MACRO_STD], [model_std]])
        return (
            _score(macro.mean(), draws=macro_again - macro_again.mean() + macro.mean() + model[0]),
            _score(
                precision.mean(),
                draws=precision_again - precision_again.mean() + precision.mean() + model[1],
            ),
        )


@dataclass(frozen=True, eq=False)
class _RankCells:
    """Public records of each label in cells by rank of probability: first predicted ones, then the others.

    Attributes:
        present: the share of the predicted records with the label, and of the other records with it, that lie in each
            cell, `[L, 2, cells]`; the shares of each side add up to 1.
        absent: the same for records without the label.
        num_below: the number of test records for which the label is not predicted, `[L]`.
    """

    present: Array
    absent: Array
    num_below: Array

    @classmethod
    def of_public(
        cls, public: PublicScores, *, line: tuple[float, float], num_known: float
    ) -> _RankCells:
        """Returns the cells of all labels.

        Args:
            public: the student's probabilities and predictions on public records.
            line: the intercept and slope that correct the logits of probabilities.
            num_known: the number of test records.
        """
        num_public, num_labels = public.probabilities.shape
        intercept, slope = line
        stops = np.square(np.arange(1, _CELLS) / _CELLS)
        present = np.zeros((num_labels, 2, _CELLS))
        absent = np.zeros((num_labels, 2, _CELLS))
        for label in range(num_labels):
            probabilities = public.probabilities[:, label]
            order = np.argsort(-probabilities, kind="stable")
            corrected = expit(intercept + slope * _logits(probabilities[order]))
            is_predicted = public.predicted[order, label]
            for side, members in enumerate((corrected[is_predicted], corrected[~is_predicted])):
                cuts = np.append(np.ceil(stops * len(members)).astype(np.int64), len(members))
                sums = np.append(0.0, np.cumsum(members))[cuts]
                present[label, side] = np.diff(sums, prepend=0.0)
                absent[label, side] = np.diff(cuts - sums, prepend=0.0)
        num_below = (~public.predicted).sum(axis=0) * (num_known / num_public)
        return cls(
            present=present / np.maximum(present.sum(axis=2, keepdims=True), 1e-12),
            absent=absent / np.maximum(absent.sum(axis=2, keepdims=True), 1e-12),
            num_below=num_below,
        )

    def average_precisions(self, counts: Array) -> Array:
        """Returns the average precision of each label in each draw, `[R, L]`.

        Args:
            counts: hits, false alarms and misses of each label, `[R, L, 3]`.
        """
        hits = counts[..., 0, None] * self.present[:, 0]
        misses = counts[..., 2, None] * self.present[:, 1]
        others_below = np.maximum(self.num_below - counts[..., 2], 0.0)
        present = np.concatenate([hits, misses], axis=-1)
        false_alarms = counts[..., 1, None] * self.absent[:, 0]
        absent = np.concatenate(
            [false_alarms, others_below[..., None] * self.absent[:, 1]], axis=-1
        )
        num_present = np.cumsum(present, axis=-1) - present / 2
        num_all = num_present + np.cumsum(absent, axis=-1) - absent / 2
        precision = num_present / np.maximum(num_all, 1e-12)
        weight = np.maximum(present.sum(axis=-1), 1e-12)
        return np.asarray((present * precision).sum(axis=-1) / weight)


def _recalibrations(
    probabilities: Array, *, differences: Array, variances: Array
) -> list[tuple[float, float]]:
    """Returns the most likely line (intercept, slope) for logits, and two with a lower and a higher slope.

    Args:
        probabilities: the student's probabilities on public records, `[n, L]`.
        differences: labels - probabilities, summed in each bin, for as many records, `[CALIBRATION_BINS]`.
        variances: the variance of each difference, `[CALIBRATION_BINS]`.
    """
    # a histogram of logits stands for the probabilities
    logits = _logits(probabilities).ravel()
    places = np.clip(((logits + _LARGEST_LOGIT) * _LOGIT_CELLS).astype(np.int64), 0, None)
    sizes = np.bincount(places)
    middles = np.bincount(places, weights=logits) / np.maximum(sizes, 1)
    bins = bins_of(expit(middles))
    line = np.array([0.0, 1.0])
    precision_of_prior = np.diag([1 / _LINE_STD**2] * 2)
    for _ in range(_NEWTON_STEPS):
        shares = expit(line[0] + line[1] * middles)
        moved = np.bincount(
            bins, weights=sizes * (shares - expit(middles)), minlength=CALIBRATION_BINS
        )
        slopes = sizes * shares * (1 - shares)
        jacobian = np.stack(
            [
                np.bincount(bins, weights=weights, minlength=CALIBRATION_BINS)
                for weights in (slopes, slopes * middles)
            ],
            axis=1,
        )
        weighted = jacobian.T / variances
        information = weighted @ jacobian + precision_of_prior
        gradient = weighted @ (differences - moved) - precision_of_prior @ (line - [0.0, 1.0])
        line = line + np.clip(np.linalg.solve(information, gradient), -0.5, 0.5)
        line[1] = max(line[1], _LEAST_SLOPE)
    covariance = np.linalg.inv(information)
    aside = covariance[:, 1] / math.sqrt(covariance[1, 1])  # with the intercept that goes with it
    lines = [line, line - aside, line + aside]
    return [(float(intercept), max(float(slope), _LEAST_SLOPE)) for intercept, slope in lines]


def _logits(probabilities: Array) -> Array:
    """Returns log(p / (1 - p)), cut to numbers of moderate size."""
    least = float(expit(-_LARGEST_LOGIT))
    shares = np.clip(probabilities, least, 1 - least)
    return np.log(shares) - np.log1p(-shares)


def _drawn_ratios(
    ratios: Array, variances: Array, *, sizes: Array, rng: np.random.Generator
) -> Array:
    """Returns draws of the true ratios of all labels, given noisy ones, `[R, L, 3]`.

    The ratios of a label are three normal numbers. All labels share their covariance, and a mean that is a line in the
    logarithm of the label's size; both are estimated by expectation maximization. The covariance begins with some
    labels' worth of a prior, so that few labels or much noise do not make it vanish.

    Args:
        ratios: the noisy ratios, `[L, 3]`.
        variances: the variances of their noise, `[L, 3]`.
        sizes: the expected number of test records in all three counts of each label, `[L]`.
        rng: draws.
    """
    num_labels, size = ratios.shape
    prior = np.eye(size) * _PRIOR_STD**2
    covariance = prior.copy()
    noise = variances[:, :, None] * np.eye(size)  # [L, 3, 3]
    basis = _line_basis(sizes)  # [L, B]
    num_terms = basis.shape[1]
    # the slopes are near 0, the intercepts anywhere
    line_prior = np.diag(np.repeat([0.0, 1 / _SLOPE_STD**2][:num_terms], size))
    for _ in range(_EM_STEPS):
        weights = np.linalg.inv(covariance + noise)
        gain = covariance @ weights
        normal_matrix = np.einsum("la,lb,lij->aibj", basis, basis, weights)
        information = normal_matrix.reshape(num_terms * size, num_terms * size) + line_prior
        right_side = np.einsum("la,lij,lj->ai", basis, weights, ratios).reshape(-1)
        line = np.linalg.solve(information, right_side).reshape(num_terms, size)
        deviations = np.einsum("lij,lj->li", gain, ratios - basis @ line)
        spreads = covariance - gain @ covariance
        second = np.einsum("li,lj->ij", deviations, deviations) + spreads.sum(axis=0)
        covariance = (second + _PRIOR_LABELS * prior) / (num_labels + _PRIOR_LABELS)
    line_draws = rng.multivariate_normal(
        np.zeros(num_terms * size), np.linalg.inv(information), size=_NUM_DRAWS
    ).reshape(_NUM_DRAWS, num_terms, size)
    roots = np.linalg.cholesky(spreads + np.eye(size) * 1e-12)
    normal = rng.standard_normal((_NUM_DRAWS, num_labels, size))
    return np.asarray(
        basis @ line
        + deviations
        + np.einsum("lij,rlj->rli", roots, normal)
        + np.einsum("lij,la,raj->rli", np.eye(size) - gain, basis, line_draws)
    )


def _line_basis(sizes: Array) -> Array:
    """Returns 1 and the logarithm of each label's size less their mean, `[L, 2]`; for few labels 1 alone, `[L, 1]`."""
    ones = np.ones((len(sizes), 1))
    logarithms = np.log(sizes)
    if len(sizes) < _FEWEST_LABELS or np.ptp(logarithms) < 1:
        return ones
    return np.concatenate([ones, (logarithms - logarithms.mean())[:, None]], axis=1)


def _independent_covariance(totals: Array) -> Array:
    """Returns the covariance of hits and errors if the labels of all records were independent, `[2, 2]`."""
    return np.diag(np.maximum(totals, 0.0))


def _f1(hits: Array | float, errors: Array | float) -> Array:
    """Returns F1 from numbers of hits and of errors; 0 without either."""
    total = 2 * np.asarray(hits) + np.asarray(errors)
    return np.asarray(np.where(total > 0, 2 * np.asarray(hits) / np.maximum(total, 1e-12), 0.0))


def _score(
    value: Array | float, *, draws: Array, percentiles: tuple[float, float] = _TWO_SIDED
) -> ReleasedScore:
    """Returns a score with the interval between two percentiles of draws; all are cut to [0, 1]."""
    low, high = np.clip(np.percentile(draws, percentiles), 0, 1)
    inside = float(np.clip(value, 0, 1))
    return ReleasedScore(value=inside, low=min(float(low), inside), high=max(float(high), inside))
