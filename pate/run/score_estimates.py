"""Scores with 95% intervals, estimated from noisy sums over test records and the student's probabilities in public.

L is the number of labels. All of this is post-processing of released sums, and costs nothing.

Counts over all labels give micro-F1 and accuracy without a model. Macro-F1 and the mean average precision are not sums
over records. To first order they are: their value for a public model of records, and the mean influence of the test
records, which is released. The model, corrected by the calibration sums, gives the rest: a difference estimate, as
surveys use it. What the model corrects counts as a standard deviation of its error.

Source: docs/proofs/scores.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pate.report.released_scores import ReleasedScore
from pate.run.score_model import ScoreModel
from pate.run.score_sums import (
    CALIBRATION_BINS,
    INFLUENCE_BLOCKS,
    STEPS_PER_CLIP,
    Integers,
    ScoreDesign,
)

Array = NDArray[np.float64]

_NUM_DRAWS = 4000
_MOST_EFFECT = 100.0
_TWO_SIDED = (2.5, 97.5)  # percentiles
_NORMAL_QUANTILE = 1.96


@dataclass(frozen=True, eq=False)
class ScoreEstimates:
    """The estimates of all scores from one release of noisy sums.

    Attributes:
        design: the public design of the sums.
        sums: the noisy sums, in steps, by block.
        noise_multiplier: the noise std / l2 sensitivity of all blocks together.
        num_groups: the number of groups of test records.
    """

    design: ScoreDesign
    sums: Mapping[str, Integers]
    noise_multiplier: float
    num_groups: int

    def scores(self) -> dict[str, ReleasedScore]:
        """Returns the scores over all test records, by their names in `privacy.json`."""
        macro_f1, mean_average_precision = self._influenced_scores()
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
        sums = np.maximum(self._block("subgroups").reshape(-1, 2), 0)
        scores = []
        stop = 0
        for size in self.design.num_values:
            of_column = sums[stop : stop + size]
            shares = of_column.sum(axis=1) / max(of_column.sum(), 1.0)
            scores.append(
                [
                    self._subgroup_score(totals, share)
                    for totals, share in zip(of_column, shares, strict=True)
                ]
            )
            stop += size
        return scores

    def _subgroup_score(self, totals: Array, share: float) -> ReleasedScore:
        """Returns micro-F1 from the hits and errors of a subgroup, and its share of those of its column."""
        variance = self._noise_std("subgroups") ** 2 + (self._cut_off("subgroups") * share) ** 2
        sampling = _independent_covariance(totals) * self._design_effect
        return self._micro_f1(totals, covariance=np.eye(2) * variance + sampling)

    def _block(self, name: str) -> Array:
        """Returns the noisy sums of a block, in records and labels."""
        return np.asarray(self.sums[name] * (self.design.clips[name] / STEPS_PER_CLIP))

    def _noise_std(self, name: str) -> float:
        """Returns the standard deviation of the noise in each sum of a block, in records and labels."""
        stds = self.design.noise_stds(self.noise_multiplier)
        return stds[name] * self.design.clips[name] / STEPS_PER_CLIP

    def _cut_off(self, name: str) -> float:
        """Returns the length that the clip of a block cuts off all groups, by public records, in records and labels."""
        return self.design.clip_losses[name] * self.num_groups

    @property
    def _variance_of_totals(self) -> float:
        """Returns the variance of the number of hits, and of that of errors, by noise and clip."""
        return self._noise_std("totals") ** 2 + self._cut_off("totals") ** 2

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
        return np.maximum(self._block("totals"), 0.0)

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
        noise = np.eye(2) * self._variance_of_totals
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
        ends = np.percentile(_f1(draws[:, 0], draws[:, 1]), _TWO_SIDED)
        return _score(_f1(totals[0], totals[1]), ends)

    def _accuracy(self) -> ReleasedScore:
        """Returns the share of known labels that are predicted rightly."""
        errors = self._totals[1]
        cells = self._num_known * self.design.num_labels
        sampling = max(self._sampling_covariance[1, 1] - errors**2 / self.num_groups, errors)
        noise = self._variance_of_totals
        rng = self._rng()
        drawn_errors = errors + rng.standard_normal(_NUM_DRAWS) * math.sqrt(noise + sampling)
        drawn_cells = np.full(_NUM_DRAWS, cells)
        if "sizes" in self.sums:
            std = self._noise_std("sizes") * self.design.num_labels
            drawn_cells = np.maximum(cells + rng.standard_normal(_NUM_DRAWS) * std, cells / 10)
        ends = np.percentile(1 - drawn_errors / drawn_cells, _TWO_SIDED)
        return _score(1 - errors / cells, ends)

    def _calibration_error(self) -> ReleasedScore:
        """Returns the sum over bins of |labels - probabilities|, over the number of known labels.

        Let d be the differences and e their errors. Then |d + e| - |d| <= |e|, and |d| - |d + e| <= -sign(d) e. So both
        ends of the interval hold whatever the differences are.
        """
        differences = self._calibration_differences
        variances = self._calibration_variances
        cells = self._num_known * self.design.num_labels
        noisy = float(np.abs(differences).sum())
        errors = self._rng().standard_normal((_NUM_DRAWS, CALIBRATION_BINS)) * np.sqrt(variances)
        too_high = np.percentile(np.abs(errors).sum(axis=1), _TWO_SIDED[1])
        too_low = _NORMAL_QUANTILE * math.sqrt(variances.sum())
        signal = max(0.0, 1 - variances.sum() / max(float(np.square(differences).sum()), 1e-300))
        ends = np.array([noisy - too_high, noisy + too_low]) / cells
        return _score(math.sqrt(signal) * noisy / cells, ends)

    @cached_property
    def _calibration_differences(self) -> Array:
        """Returns the sum of labels - probabilities in each bin of probability, `[CALIBRATION_BINS]`."""
        sums = self._block("calibration").reshape(2, CALIBRATION_BINS)
        return np.asarray(sums[0] - sums[1])

    @cached_property
    def _calibration_variances(self) -> Array:
        """Returns the variances of these sums by noise and by the draw of the test records, `[CALIBRATION_BINS]`."""
        of_record = self.design.model.variances(CALIBRATION_BINS)
        sampling = of_record * self._num_known * self._design_effect
        cut_off = self._cut_off("calibration") ** 2 / CALIBRATION_BINS
        return np.asarray(2 * self._noise_std("calibration") ** 2 + cut_off + sampling)

    @cached_property
    def _models(self) -> list[ScoreModel]:
        """Returns the student's model of records, corrected by the calibration sums.

        The first is the most likely one. Two others lie a standard deviation beside it, with a lower and a higher
        slope.
        """
        return self.design.model.corrected(
            self._calibration_differences / self._num_known,
            variances=self._calibration_variances / self._num_known**2,
        )

    def _influenced_scores(self) -> tuple[ReleasedScore, ReleasedScore]:
        """Returns macro-F1 and the mean average precision."""
        influences = self.design.influences
        reference = self.design.model
        model, *others = self._models
        scores = []
        for place, name in enumerate(INFLUENCE_BLOCKS):
            sums = self._block(name)
            moved = (sums[0] - sums[1]) / self._num_known
            first = reference.scores[place]
            # what the model knows of the terms of second order
            second = [
                each.scores[place] - first - each.expected(influences)[place]
                for each in (model, *others)
            ]
            beside = max(abs(each - second[0]) for each in second)
            noise = math.sqrt(2) * self._noise_std(name) / self._num_known
            square = model.expected(influences, power=2)[place]
            sampling = math.sqrt(square * self._design_effect / self._num_known)
            cut_off = self._cut_off(name) / self._num_known
            std = math.hypot(noise, sampling, cut_off, second[0], beside)
            value = first + moved + second[0]
            scores.append(_score(value, value + np.array([-1, 1]) * _NORMAL_QUANTILE * std))
        return scores[0], scores[1]


def _independent_covariance(totals: Array) -> Array:
    """Returns the covariance of hits and errors if the labels of all records were independent, `[2, 2]`."""
    return np.diag(np.maximum(totals, 0.0))


def _f1(hits: Array | float, errors: Array | float) -> Array:
    """Returns F1 from numbers of hits and of errors; 0 without either."""
    total = 2 * np.asarray(hits) + np.asarray(errors)
    return np.asarray(np.where(total > 0, 2 * np.asarray(hits) / np.maximum(total, 1e-12), 0.0))


def _score(value: Array | float, ends: Array) -> ReleasedScore:
    """Returns a score with the two ends of its interval; all are cut to [0, 1]."""
    low, high = np.clip(ends, 0, 1)
    inside = float(np.clip(value, 0, 1))
    return ReleasedScore(value=inside, low=min(float(low), inside), high=max(float(high), inside))
