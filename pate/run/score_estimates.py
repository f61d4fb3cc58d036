"""Scores of a student with 95% intervals, computed from noisy sums over the test records.

The sums are released before, so everything here is post-processing and costs nothing. L is the number of labels.

- **Micro-F1 and accuracy** are functions of the noisy numbers of hits and errors over all labels.
- **Macro-F1 and the mean average precision** depend on more than these sums. Each is estimated as a sum of three terms.
  The first is its value on public records, labeled by the student's probabilities. The second is the mean influence of
  the test records, which is released. The third is a second-order term, computed from a public model of records that
  the calibration sums correct.
- **The interval** of these two reaches 1.96 standard deviations to both sides. Its variance is a sum of five squares:
  noise, draw of the test records, bias by clipping, second-order term, and the uncertainty of this term.

Source: docs/proofs/scores.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pate.array_types import FloatArray, IntArray
from pate.report.released_scores import ReleasedScore
from pate.run.score_model import ScoreModel
from pate.run.score_sums import CALIBRATION_BINS, INFLUENCE_BLOCKS, STEPS_PER_CLIP, ScoreDesign

# The number of random draws from which an interval takes its percentiles.
_NUM_DRAWS = 4000
# A larger ratio of noisy variances is taken to be noise.
_MAX_VARIANCE_INFLATION = 100.0
# The percentiles at the ends of a two-sided interval of 95%, and the normal quantile of its upper end.
_TWO_SIDED = (2.5, 97.5)
_NORMAL_QUANTILE = 1.96


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class ScoreEstimates:
    """The estimates of all scores from one release of noisy sums.

    The sums come in steps of a grid, with 2**20 steps to the clip of a block. Methods compute in records and labels.

    Attributes:
        score_design: the public design of the sums.
        sums: the noisy sums, in steps, by block.
        noise_multiplier: the noise std / l2 sensitivity of all blocks together.
        num_groups: the number of groups of test records.
    """

    score_design: ScoreDesign
    sums: Mapping[str, IntArray]
    noise_multiplier: float
    num_groups: int

    def scores(self) -> dict[str, ReleasedScore]:
        """Returns the scores over all test records, by their names in `privacy.json`."""
        macro_f1, mean_average_precision = map(self._influenced_score, INFLUENCE_BLOCKS)
        return {
            "micro_f1": self._micro_f1(self._totals, covariance=self._totals_covariance),
            "accuracy": self._accuracy(),
            "macro_f1": macro_f1,
            "mean_average_precision": mean_average_precision,
            "calibration_error": self._calibration_error(),
        }

    def subgroup_scores(self) -> list[list[ReleasedScore]]:
        """Returns micro-F1 of each value of each column of subgroups."""
        if not self.score_design.num_values:
            return []
        sums = np.maximum(self._noisy_block("subgroups").reshape(-1, 2), 0)
        scores = []
        stop = 0
        for num_values in self.score_design.num_values:
            column_sums = sums[stop : stop + num_values]
            shares = column_sums.sum(axis=1) / max(column_sums.sum(), 1.0)
            scores.append(
                [
                    self._subgroup_score(hits_and_errors, share_of_column=share)
                    for hits_and_errors, share in zip(column_sums, shares, strict=True)
                ]
            )
            stop += num_values
        return scores

    # What the scores are computed from

    def _noisy_block(self, name: str) -> FloatArray:
        """Returns the noisy sums of a block."""
        return np.asarray(self.sums[name] * (self.score_design.clips[name] / STEPS_PER_CLIP))

    def _noise_std(self, name: str) -> float:
        """Returns the standard deviation of the noise in each sum of a block."""
        stds = self.score_design.noise_stds(self.noise_multiplier)
        return stds[name] * self.score_design.clips[name] / STEPS_PER_CLIP

    def _clipping_bias(self, name: str) -> float:
        """Returns the length that the clip of a block takes off the sum of all groups, estimated on public records."""
        return self.score_design.clip_losses[name] * self.num_groups

    @property
    def _variance_of_totals(self) -> float:
        """The variance of the number of hits, and of that of errors, by noise and clip."""
        return self._noise_std("totals") ** 2 + self._clipping_bias("totals") ** 2

    @cached_property
    def _num_known(self) -> float:
        """The number of test records, as if all had all labels known; groups of many records count less."""
        if "sizes" not in self.sums:
            return float(self.num_groups)
        return float(
            np.clip(
                self._noisy_block("sizes")[1], 1.0, self.num_groups * self.score_design.most_records
            )
        )

    @property
    def _num_known_labels(self) -> float:
        """The number of known labels of all test records together."""
        return self._num_known * self.score_design.num_labels

    @cached_property
    def _totals(self) -> FloatArray:
        """The numbers of hits and errors over all labels, `[2]`."""
        return np.maximum(self._noisy_block("totals"), 0.0)

    @cached_property
    def _sampling_covariance(self) -> FloatArray:
        """The covariance of hits and errors over test sets drawn again, `[2, 2]`, rather too large."""
        squares = self._noisy_block("squares")
        noise = self._noise_std("squares")
        cross = squares[1] / math.sqrt(2)
        matrix = np.array([[squares[0] + noise, cross], [cross, squares[2] + noise]])
        values, vectors = np.linalg.eigh(matrix)
        return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)

    @cached_property
    def _variance_inflation(self) -> float:
        """The variance of micro-F1 over test sets, divided by that for independent labels, >= 1.

        Labels of a record, and records of a group, are right or wrong together. So all scores vary more than they would
        with independent labels, and this factor is taken for all of them. Surveys call it the design effect.
        """
        gradient = self._micro_f1_gradient
        variance = gradient @ self._sampling_covariance @ gradient
        independent = gradient @ _independent_covariance(self._totals) @ gradient
        if independent <= 0:
            return 1.0
        return float(np.clip(variance / independent, 1.0, _MAX_VARIANCE_INFLATION))

    @property
    def _micro_f1_gradient(self) -> FloatArray:
        """The gradient of micro-F1 by the numbers of hits and errors, up to a factor, `[2]`."""
        hits, errors = self._totals
        return np.array([errors, -hits])

    @property
    def _totals_covariance(self) -> FloatArray:
        """The covariance of hits and errors by noise and by the draw of the test records, `[2, 2]`."""
        noise = np.eye(2) * self._variance_of_totals
        independent = _independent_covariance(self._totals) * self._variance_inflation
        gradient = self._micro_f1_gradient
        sampling = self._sampling_covariance
        if gradient @ sampling @ gradient < gradient @ independent @ gradient:
            sampling = independent
        return np.asarray(noise + sampling)

    @cached_property
    def _calibration_differences(self) -> FloatArray:
        """The sum of labels - probabilities in each bin of probability, `[CALIBRATION_BINS]`."""
        sums = self._noisy_block("calibration").reshape(2, CALIBRATION_BINS)
        return np.asarray(sums[0] - sums[1])

    @cached_property
    def _calibration_variances(self) -> FloatArray:
        """The variances of these sums by noise and by the draw of the test records, `[CALIBRATION_BINS]`."""
        of_record = self.score_design.model.variances(CALIBRATION_BINS)
        sampling = of_record * self._num_known * self._variance_inflation
        clipping = self._clipping_bias("calibration") ** 2 / CALIBRATION_BINS
        return np.asarray(2 * self._noise_std("calibration") ** 2 + clipping + sampling)

    @cached_property
    def _models(self) -> list[ScoreModel]:
        """The student's model of records, corrected by the calibration sums.

        The first is the most likely one. Two others lie a standard deviation beside it, with a lower and a higher
        slope.
        """
        return self.score_design.model.corrected(
            self._calibration_differences / self._num_known,
            variances=self._calibration_variances / self._num_known**2,
        )

    # A method for each score

    def _micro_f1(self, hits_and_errors: FloatArray, covariance: FloatArray) -> ReleasedScore:
        """Returns micro-F1 from the numbers of hits and errors, with their covariance."""
        normal = _interval_rng().multivariate_normal(np.zeros(2), covariance, size=_NUM_DRAWS)
        draws = np.maximum(hits_and_errors + normal, 0.0)
        ends = np.percentile(_f1(hits=draws[:, 0], errors=draws[:, 1]), _TWO_SIDED)
        return _released_score(
            _f1(hits=hits_and_errors[0], errors=hits_and_errors[1]), interval_ends=ends
        )

    def _accuracy(self) -> ReleasedScore:
        """Returns the share of known labels that are predicted rightly."""
        errors = self._totals[1]
        num_labels = self._num_known_labels
        # the variance of a sum over groups; noise may make it too small, so it is at least that of independent labels
        sampling = max(self._sampling_covariance[1, 1] - errors**2 / self.num_groups, errors)
        noise = self._variance_of_totals
        rng = _interval_rng()
        drawn_errors = errors + rng.standard_normal(_NUM_DRAWS) * math.sqrt(noise + sampling)
        drawn_num_labels = np.full(_NUM_DRAWS, num_labels)
        if "sizes" in self.sums:
            std = self._noise_std("sizes") * self.score_design.num_labels
            normal = rng.standard_normal(_NUM_DRAWS)
            # the floor keeps a denominator that noise made tiny from dividing
            drawn_num_labels = np.maximum(num_labels + normal * std, num_labels / 10)
        ends = np.percentile(1 - drawn_errors / drawn_num_labels, _TWO_SIDED)
        return _released_score(1 - errors / num_labels, interval_ends=ends)

    def _influenced_score(self, block_name: str) -> ReleasedScore:
        """Returns macro-F1 or the mean average precision, from the sums of influences in its block.

        The score is its value on public records, plus the mean influence of the test records, plus a second-order term.
        """
        index = INFLUENCE_BLOCKS.index(block_name)
        influences = self.score_design.influences
        sums = self._noisy_block(block_name)
        public_value = self.score_design.model.scores[index]
        mean_influence = (sums[0] - sums[1]) / self._num_known
        # What influences, which are of first order, leave out of each model's score.
        second_order, *second_order_aside = [
            model.scores[index] - public_value - model.expected(influences)[index]
            for model in self._models
        ]
        model_error = max(abs(aside - second_order) for aside in second_order_aside)
        noise = math.sqrt(2) * self._noise_std(block_name) / self._num_known
        mean_square = self._models[0].expected(influences, power=2)[index]
        sampling = math.sqrt(mean_square * self._variance_inflation / self._num_known)
        clipping = self._clipping_bias(block_name) / self._num_known
        std = math.hypot(noise, sampling, clipping, second_order, model_error)
        value = public_value + mean_influence + second_order
        ends = value + np.array([-1, 1]) * _NORMAL_QUANTILE * std
        return _released_score(value, interval_ends=ends)

    def _calibration_error(self) -> ReleasedScore:
        """Returns the sum over bins of |labels - probabilities|, over the number of known labels.

        Let d be the differences and e their errors. Then |d + e| - |d| <= |e|, and |d| - |d + e| <= -sign(d) e. So both
        ends of the interval hold whatever the differences are.

        The errors make the sum of |d + e| too large. So the score is that sum times sqrt(s). Here s is the share of the
        sum of squares (d + e)**2 that the variance of the errors does not explain.
        """
        differences = self._calibration_differences
        variances = self._calibration_variances
        num_labels = self._num_known_labels
        noisy = float(np.abs(differences).sum())
        normal = _interval_rng().standard_normal((_NUM_DRAWS, CALIBRATION_BINS))
        errors = normal * np.sqrt(variances)
        too_high = np.percentile(np.abs(errors).sum(axis=1), _TWO_SIDED[1])
        too_low = _NORMAL_QUANTILE * math.sqrt(variances.sum())
        sum_of_squares = float(np.square(differences).sum())
        # 1e-300 keeps all differences of 0 from dividing by 0
        signal_share = max(0.0, 1 - variances.sum() / max(sum_of_squares, 1e-300))
        ends = np.array([noisy - too_high, noisy + too_low]) / num_labels
        calibration_error = math.sqrt(signal_share) * noisy / num_labels
        return _released_score(calibration_error, interval_ends=ends)

    def _subgroup_score(
        self, hits_and_errors: FloatArray, *, share_of_column: float
    ) -> ReleasedScore:
        """Returns micro-F1 from the hits and errors of a subgroup, and its share of those of its column."""
        clipping = self._clipping_bias("subgroups") * share_of_column
        variance = self._noise_std("subgroups") ** 2 + clipping**2
        sampling = _independent_covariance(hits_and_errors) * self._variance_inflation
        return self._micro_f1(hits_and_errors, covariance=np.eye(2) * variance + sampling)


def _interval_rng() -> np.random.Generator:
    """Returns random numbers for the ends of intervals; the fixed seed gives every reader of the sums the same ends.

    No privacy depends on these numbers: they perturb sums that are released.
    """
    return np.random.default_rng(0)


def _independent_covariance(hits_and_errors: FloatArray) -> FloatArray:
    """Returns the covariance of hits and errors if the labels of all records were independent, `[2, 2]`."""
    return np.diag(np.maximum(hits_and_errors, 0.0))


def _f1(*, hits: FloatArray | float, errors: FloatArray | float) -> FloatArray:
    """Returns F1 from numbers of hits and of errors; 0 without either."""
    total = 2 * np.asarray(hits) + np.asarray(errors)
    return np.asarray(np.where(total > 0, 2 * np.asarray(hits) / np.maximum(total, 1e-12), 0.0))


def _released_score(score: FloatArray | float, *, interval_ends: FloatArray) -> ReleasedScore:
    """Returns a score with the two ends of its interval; all are cut to [0, 1]."""
    low, high = np.clip(interval_ends, 0, 1)
    inside = float(np.clip(score, 0, 1))
    return ReleasedScore(value=inside, low=min(float(low), inside), high=max(float(high), inside))
