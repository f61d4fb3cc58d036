"""Scores of a student with 95% intervals, computed from noisy sums over the test records.

The sums are released before, so everything here is post-processing and costs nothing. L is the number of labels.

- **Micro-F1** is a function of the noisy numbers of hits (labels that are predicted and present) and of errors (labels
  that are either predicted or present, but not both).
- **Accuracy** is a function of the noisy number of errors and of the number of known labels. That number is noisy if
  groups may count with several records or labels may be unknown.
- **Macro-F1 and the mean average precision** depend on more than these two numbers. Each is estimated as a sum of three
  terms. The first is its value on public records, labeled by the student's probabilities. The second is the mean
  influence of the test records, which is released. The third is a second-order term. It is computed from a public model
  of records, whose probabilities are recalibrated by the released sums of labels minus probabilities.
- **The interval** of macro-F1 or of the mean average precision reaches 1.96 standard deviations to both sides. Its
  variance is a sum of five squares: noise, draw of the test records, bias by clipping, second-order term, and the
  uncertainty of this term.

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
from pate.run.score_sums import INFLUENCE_BLOCKS, NUM_CALIBRATION_BINS, STEPS_PER_CLIP, ScoreDesign

# The number of random draws from which an interval takes its percentiles.
_NUM_DRAWS = 4000
# A larger ratio of noisy variances is taken to be noise.
_MAX_VARIANCE_INFLATION = 100.0
# The percentiles at the ends of a two-sided interval of 95%, and the normal quantile of its upper end.
_TWO_SIDED = (2.5, 97.5)
_NORMAL_QUANTILE = 1.96


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class ScoreEstimates:
    """The estimates of a student's scores on the test records, from one release of noisy sums over these records.

    A block is a part of the sums with a clip of its own, such as "totals" or "macro_f1" (`ScoreDesign.blocks`). The
    sums are whole numbers of steps, and 2**20 steps are as long as the clip of their block. Methods convert them into
    numbers of records and labels. A hit is a label that is predicted and present. An error is a label that is either
    predicted or present, but not both.

    Attributes:
        score_design: the public design of the sums: their blocks, their clips and the student's model of records.
        sums_by_block: the noisy sums in steps, int64 `[size of the block]` by the block's name.
        noise_multiplier: the noise std / l2 sensitivity of all blocks together.
        num_groups: the number of groups of test records.
    """

    score_design: ScoreDesign
    sums_by_block: Mapping[str, IntArray]
    noise_multiplier: float
    num_groups: int

    def scores(self) -> dict[str, ReleasedScore]:
        """Returns the scores over all test records, by their names in `privacy.json`."""
        macro_f1, mean_average_precision = map(self._influenced_score, INFLUENCE_BLOCKS)
        return {
            "micro_f1": self._micro_f1(
                self._pooled_hits_and_errors, covariance=self._noise_and_sampling_covariance
            ),
            "accuracy": self._accuracy(),
            "macro_f1": macro_f1,
            "mean_average_precision": mean_average_precision,
            "calibration_error": self._calibration_error(),
        }

    def subgroup_scores(self) -> list[list[ReleasedScore]]:
        """Returns micro-F1 on the test records of each subgroup: for each column a list with a score per value."""
        if not self.score_design.num_values:
            return []
        sums_of_subgroups = np.maximum(self._noisy_block(block_name="subgroups").reshape(-1, 2), 0)
        scores = []
        stop = 0
        for num_values in self.score_design.num_values:
            sums_of_column = sums_of_subgroups[stop : stop + num_values]
            shares_of_column = sums_of_column.sum(axis=1) / max(sums_of_column.sum(), 1.0)
            scores.append(
                [
                    self._subgroup_score(hits_and_errors, share_of_column_sums=share)
                    for hits_and_errors, share in zip(sums_of_column, shares_of_column, strict=True)
                ]
            )
            stop += num_values
        return scores

    # What the scores are computed from

    def _noisy_block(self, block_name: str) -> FloatArray:
        """Returns the noisy sums of the block `block_name`, converted from steps, `[size of the block]`."""
        return np.asarray(
            self.sums_by_block[block_name] * (self.score_design.clips[block_name] / STEPS_PER_CLIP)
        )

    def _noise_std(self, block_name: str) -> float:
        """Returns the standard deviation of the noise in each sum of the block `block_name`, converted from steps."""
        stds_in_steps_by_block = self.score_design.noise_stds(self.noise_multiplier)
        return (
            stds_in_steps_by_block[block_name]
            * self.score_design.clips[block_name]
            / STEPS_PER_CLIP
        )

    def _clipping_bias(self, block_name: str) -> float:
        """Returns the length that the clip of the block `block_name` takes off all groups of test records together.

        The length is an estimate: the mean over groups of public records, times the number of test groups.
        """
        return self.score_design.clip_losses[block_name] * self.num_groups

    @property
    def _variance_of_hits_and_errors(self) -> float:
        """The variance of each total, hits and errors alike: that of the noise, plus the squared clipping bias."""
        return (
            self._noise_std(block_name="totals") ** 2
            + self._clipping_bias(block_name="totals") ** 2
        )

    @cached_property
    def _num_test_records(self) -> float:
        """The number of test records, estimated from the noisy sums.

        A record counts by the share of its labels that are known. A group of more than
        `score_design.most_counted_records` records counts as that many. The result is the number of groups if each
        counts as one record and no label may be unknown. Otherwise it is cut to the range from 1 to the largest number
        that so many groups can count.
        """
        if "sizes" not in self.sums_by_block:
            return float(self.num_groups)
        return float(
            np.clip(
                self._noisy_block(block_name="sizes")[1],
                1.0,
                self.num_groups * self.score_design.most_counted_records,
            )
        )

    @property
    def _num_known_labels(self) -> float:
        """The number of pairs of a test record and a label known for it, as `_num_test_records` counts records."""
        return self._num_test_records * self.score_design.num_labels

    @cached_property
    def _pooled_hits_and_errors(self) -> FloatArray:
        """The noisy numbers of hits and of errors over all test records and labels, at least 0, `[2]`."""
        return np.maximum(self._noisy_block(block_name="totals"), 0.0)

    @cached_property
    def _sampling_covariance(self) -> FloatArray:
        """The covariance of the numbers of hits and errors over test sets that are drawn anew, `[2, 2]`.

        It is the noisy sum over groups of the products of their counts. No squares of means are subtracted, and the
        noise's standard deviation is added to both variances, so it is rather too large. It has no negative eigenvalue.
        """
        # Over groups: the squared numbers of hits, sqrt(2) hits times errors, and the squared numbers of errors.
        squared_hits, scaled_products, squared_errors = self._noisy_block(block_name="squares")
        noise_std = self._noise_std(block_name="squares")
        cross = scaled_products / math.sqrt(2)
        covariance_of_hits_and_errors = np.array(
            [[squared_hits + noise_std, cross], [cross, squared_errors + noise_std]]
        )
        eigenvalues, eigenvectors = np.linalg.eigh(covariance_of_hits_and_errors)
        return np.asarray((eigenvectors * np.maximum(eigenvalues, 0)) @ eigenvectors.T)

    @cached_property
    def _variance_inflation(self) -> float:
        """The variance of micro-F1 over test sets, divided by the variance for independent labels; from 1 to 100.

        Labels of a record, and records of a group, are right or wrong together. So all scores vary more than they would
        with independent labels, and this factor is taken for all of them. Surveys call it the design effect.
        """
        gradient = self._micro_f1_gradient
        variance = gradient @ self._sampling_covariance @ gradient
        variance_if_independent = (
            gradient @ _covariance_of_independent_labels(self._pooled_hits_and_errors) @ gradient
        )
        if variance_if_independent <= 0:
            return 1.0
        return float(np.clip(variance / variance_if_independent, 1.0, _MAX_VARIANCE_INFLATION))

    @property
    def _micro_f1_gradient(self) -> FloatArray:
        """The gradient of micro-F1 by the numbers of hits and errors, up to a positive factor, `[2]`."""
        hits, errors = self._pooled_hits_and_errors
        # The derivatives of 2 h / (2 h + e) by h and by e, without the factor 2 / (2 h + e)**2.
        derivative_by_hits = errors
        derivative_by_errors = -hits
        return np.array([derivative_by_hits, derivative_by_errors])

    @property
    def _noise_and_sampling_covariance(self) -> FloatArray:
        """The covariance of the noisy numbers of hits and errors, `[2, 2]`.

        It is the sum of two parts: that of noise and clip, and that of the draw of the test records. The second part is
        `_sampling_covariance`, or that of independent labels times `_variance_inflation` if micro-F1 varies more by it.
        """
        noise_covariance = np.eye(2) * self._variance_of_hits_and_errors
        covariance_if_independent = (
            _covariance_of_independent_labels(self._pooled_hits_and_errors)
            * self._variance_inflation
        )
        gradient = self._micro_f1_gradient
        sampling_covariance = self._sampling_covariance
        if (
            gradient @ sampling_covariance @ gradient
            < gradient @ covariance_if_independent @ gradient
        ):
            sampling_covariance = covariance_if_independent
        return np.asarray(noise_covariance + sampling_covariance)

    @cached_property
    def _calibration_differences(self) -> FloatArray:
        """The noisy sum of label (0 or 1) - probability in each bin of probability, `[NUM_CALIBRATION_BINS]`."""
        # Of label - probability, the sums of positive parts and of negative parts.
        positive_sums, negative_sums = self._noisy_block(block_name="calibration").reshape(
            2, NUM_CALIBRATION_BINS
        )
        return np.asarray(positive_sums - negative_sums)

    @cached_property
    def _calibration_variances(self) -> FloatArray:
        """The variances of `_calibration_differences`, `[NUM_CALIBRATION_BINS]`.

        Noise, clip and the draw of the test records contribute to them.
        """
        variances_of_record = self.score_design.model_of_records.variances(NUM_CALIBRATION_BINS)
        sampling_variances = variances_of_record * self._num_test_records * self._variance_inflation
        clipping_variance = (
            self._clipping_bias(block_name="calibration") ** 2 / NUM_CALIBRATION_BINS
        )
        return np.asarray(
            2 * self._noise_std(block_name="calibration") ** 2
            + clipping_variance
            + sampling_variances
        )

    @cached_property
    def _models(self) -> list[ScoreModel]:
        """Three versions of the student's model of records, recalibrated by `_calibration_differences`.

        The first is the most probable one. In the second and the third, the line from the student's logits to corrected
        logits has a slope that is a standard deviation lower or higher.
        """
        return self.score_design.model_of_records.corrected(
            label_minus_probability_by_bin=self._calibration_differences / self._num_test_records,
            difference_variances=self._calibration_variances / self._num_test_records**2,
        )

    # A method for each score

    def _micro_f1(self, num_hits_and_errors: FloatArray, covariance: FloatArray) -> ReleasedScore:
        """Returns micro-F1 with its 95% interval.

        Args:
            num_hits_and_errors: the noisy numbers of hits and errors, `[2]`.
            covariance: the covariance of these two numbers, `[2, 2]`.
        """
        normal_errors = _interval_rng().multivariate_normal(
            np.zeros(2), covariance, size=_NUM_DRAWS
        )
        hits_and_errors_of_draws = np.maximum(num_hits_and_errors + normal_errors, 0.0)
        interval_ends = np.percentile(
            _f1(
                num_pooled_hits=hits_and_errors_of_draws[:, 0],
                num_pooled_errors=hits_and_errors_of_draws[:, 1],
            ),
            _TWO_SIDED,
        )
        return _released_score(
            _f1(num_pooled_hits=num_hits_and_errors[0], num_pooled_errors=num_hits_and_errors[1]),
            interval_ends=interval_ends,
        )

    def _accuracy(self) -> ReleasedScore:
        """Returns the share of known labels of test records that are predicted rightly, with its 95% interval."""
        num_errors = self._pooled_hits_and_errors[1]
        num_labels = self._num_known_labels
        # the variance of a sum over groups; noise may make it too small, so it is at least that of independent labels
        sampling_variance = max(
            self._sampling_covariance[1, 1] - num_errors**2 / self.num_groups, num_errors
        )
        noise_variance = self._variance_of_hits_and_errors
        rng = _interval_rng()
        drawn_num_errors = num_errors + rng.standard_normal(_NUM_DRAWS) * math.sqrt(
            noise_variance + sampling_variance
        )
        drawn_num_labels = np.full(_NUM_DRAWS, num_labels)
        if "sizes" in self.sums_by_block:
            noise_std_of_num_records = self._noise_std(block_name="sizes")
            noise_std_of_num_labels = noise_std_of_num_records * self.score_design.num_labels
            standard_normal_draws = rng.standard_normal(_NUM_DRAWS)
            # the floor keeps a denominator that noise made tiny from dividing
            drawn_num_labels = np.maximum(
                num_labels + standard_normal_draws * noise_std_of_num_labels, num_labels / 10
            )
        ends_of_accuracy = np.percentile(1 - drawn_num_errors / drawn_num_labels, _TWO_SIDED)
        return _released_score(1 - num_errors / num_labels, interval_ends=ends_of_accuracy)

    def _influenced_score(self, block_name: str) -> ReleasedScore:
        """Returns macro-F1 or the mean average precision, with its 95% interval.

        The score is its value on public records, plus the mean influence of the test records, plus a second-order term.
        The influence of a record is how much one more such record moves the score, to first order, times the number of
        records (`Influences`).

        Args:
            block_name: "macro_f1" or "average_precision", the block of the sums of influences on the score.
        """
        score_index = INFLUENCE_BLOCKS.index(block_name)
        influences_of_labels = self.score_design.influences_of_labels
        sums_of_influences = self._noisy_block(block_name=block_name)
        public_value = self.score_design.model_of_records.scores[score_index]
        mean_influence = (sums_of_influences[0] - sums_of_influences[1]) / self._num_test_records
        # What influences, which are of first order, leave out of each model's score.
        second_order_term, *terms_of_other_slopes = [
            model.scores[score_index]
            - public_value
            - model.expected(influences_of_labels)[score_index]
            for model in self._models
        ]
        model_error = max(
            abs(other_term - second_order_term) for other_term in terms_of_other_slopes
        )
        noise_std = math.sqrt(2) * self._noise_std(block_name=block_name) / self._num_test_records
        mean_squared_influence = self._models[0].expected(influences_of_labels, power=2)[
            score_index
        ]
        sampling_std = math.sqrt(
            mean_squared_influence * self._variance_inflation / self._num_test_records
        )
        clipping_bias = self._clipping_bias(block_name=block_name) / self._num_test_records
        total_std_of_score = math.hypot(
            noise_std, sampling_std, clipping_bias, second_order_term, model_error
        )
        estimated_score = public_value + mean_influence + second_order_term
        interval_ends = estimated_score + np.array([-1, 1]) * _NORMAL_QUANTILE * total_std_of_score
        return _released_score(estimated_score, interval_ends=interval_ends)

    def _calibration_error(self) -> ReleasedScore:
        """Returns the calibration error of the student's probabilities, with its 95% interval.

        It is the sum over bins of |sum of labels - probabilities|, divided by the number of known labels.

        Let d be the differences in the bins without noise, and e their errors. Two inequalities hold:
        |d + e| - |d| <= |e|, and |d| - |d + e| <= -sign(d) e. So both ends of the interval hold whatever the
        differences are.

        The errors make the sum of |d + e| too large. So the score is that sum times sqrt(s). Here s is the share of the
        sum of squares (d + e)**2 that the variance of the errors does not explain.
        """
        calibration_differences = self._calibration_differences
        difference_variances = self._calibration_variances
        num_labels = self._num_known_labels
        sum_of_abs_differences = float(np.abs(calibration_differences).sum())
        standard_normal_draws = _interval_rng().standard_normal((_NUM_DRAWS, NUM_CALIBRATION_BINS))
        drawn_errors_by_bin = standard_normal_draws * np.sqrt(difference_variances)
        too_high = np.percentile(np.abs(drawn_errors_by_bin).sum(axis=1), _TWO_SIDED[1])
        too_low = _NORMAL_QUANTILE * math.sqrt(difference_variances.sum())
        sum_of_squares = float(np.square(calibration_differences).sum())
        # 1e-300 keeps all differences of 0 from dividing by 0
        signal_share = max(0.0, 1 - difference_variances.sum() / max(sum_of_squares, 1e-300))
        interval_ends = (
            np.array([sum_of_abs_differences - too_high, sum_of_abs_differences + too_low])
            / num_labels
        )
        calibration_error = math.sqrt(signal_share) * sum_of_abs_differences / num_labels
        return _released_score(calibration_error, interval_ends=interval_ends)

    def _subgroup_score(
        self, pooled_hits_and_errors: FloatArray, *, share_of_column_sums: float
    ) -> ReleasedScore:
        """Returns micro-F1 of a subgroup, with its 95% interval.

        Args:
            pooled_hits_and_errors: the noisy numbers of hits and errors of the subgroup, `[2]`.
            share_of_column_sums: the subgroup's share of the hits and errors of all values of its column together, and
            so of the bias by clipping.
        """
        clipping_bias = self._clipping_bias(block_name="subgroups") * share_of_column_sums
        noise_variance = self._noise_std(block_name="subgroups") ** 2 + clipping_bias**2
        sampling_covariance = (
            _covariance_of_independent_labels(pooled_hits_and_errors) * self._variance_inflation
        )
        return self._micro_f1(
            pooled_hits_and_errors, covariance=np.eye(2) * noise_variance + sampling_covariance
        )


def _interval_rng() -> np.random.Generator:
    """Returns a generator for the ends of intervals; its fixed seed gives every reader of the noisy sums the same ends.

    No privacy depends on these numbers: they perturb sums that are released.
    """
    return np.random.default_rng(0)


def _covariance_of_independent_labels(num_hits_and_errors: FloatArray) -> FloatArray:
    """Returns the covariance of the numbers of hits and errors if all labels were independent, `[2, 2]`.

    It is diagonal: the variance of each number is the number itself.
    """
    return np.diag(np.maximum(num_hits_and_errors, 0.0))


def _f1(
    *, num_pooled_hits: FloatArray | float, num_pooled_errors: FloatArray | float
) -> FloatArray:
    """Returns F1 = 2 hits / (2 hits + errors), in the shape of the arguments; 0 without hits and errors."""
    f1_denominators = 2 * np.asarray(num_pooled_hits) + np.asarray(num_pooled_errors)
    return np.asarray(
        np.where(
            f1_denominators > 0,
            2 * np.asarray(num_pooled_hits) / np.maximum(f1_denominators, 1e-12),
            0.0,
        )
    )


def _released_score(score: FloatArray | float, *, interval_ends: FloatArray) -> ReleasedScore:
    """Returns a score with the ends of its interval, all cut to [0, 1]; the interval is widened to contain the score.

    Args:
        score: the score, one number.
        interval_ends: the lower and the upper end, `[2]`.
    """
    lower_end, upper_end = np.clip(interval_ends, 0, 1)
    score_within_limits = float(np.clip(score, 0, 1))
    return ReleasedScore(
        value=score_within_limits,
        low=min(float(lower_end), score_within_limits),
        high=max(float(upper_end), score_within_limits),
    )
