"""`ScoreModel` says how labels and ranks follow from a student's probabilities, and how scores depend on each record.

L is the number of labels, n a number of records. A model counts, for each label, the public records in each cell of the
logit of its probability. It takes the student's probability, or a correction of it by released sums, for the share of
these records that have the label; no true label of a public record is read. Macro-F1 and the mean average precision are
functions of both. The influence of a record is how much one more such record moves a score, to first order. All of this
is public.

Source: docs/proofs/scores.md; the expansion is that of R. von Mises, "On the asymptotic distribution of differentiable
statistical functions", 1947.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pate.accounting.special import expit
from pate.array_types import BoolArray, FloatArray, IntArray

# Cells divide the logits of probabilities between -12 and 12, with this many cells for each unit.
_LARGEST_LOGIT = 12
_CELLS_PER_UNIT = 20
_NUM_CELLS = 2 * _LARGEST_LOGIT * _CELLS_PER_UNIT
# The standard deviation of the prior of intercept and slope of a recalibration, before any sum is known.
_LINE_STD = 0.5
# A recalibration has at least this slope, so that it keeps the order of probabilities.
_MIN_SLOPE = 0.1
# The number of Newton steps in which a recalibration is fitted, and the largest change of intercept or slope in a step.
_NEWTON_STEPS = 25
_MAX_NEWTON_CHANGE = 0.5
# The intercept and slope of the student's own probabilities, which no recalibration has changed.
_IDENTITY_LINE = (0.0, 1.0)
# The logit in the middle of each cell, from high to low.
_MIDDLE_LOGIT_OF_CELLS = _LARGEST_LOGIT - (np.arange(_NUM_CELLS) + 0.5) / _CELLS_PER_UNIT


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class Influences:
    """How much one more record moves macro-F1 and the mean average precision, to first order.

    All figures are multiplied by the number of records, so they do not depend on it. A record moves a score by the sum
    of the influences of its labels. C is the number of cells, which are equal intervals of the logit of the student's
    probability; the first cell has the highest probabilities. L is the number of labels. A record that follows the
    `ScoreModel` moves both scores by 0 on average.

    Attributes:
        f1_influence_of_hit: the influence on macro-F1 of each label that is predicted and present, >= 0, `[L]`.
        f1_influence_of_error: the influence on macro-F1 of each label that is predicted or present but not both, <= 0,
            `[L]`.
        precision_influence_of_present: the influence on the mean average precision of each label that is present, by
            the cell of its probability, `[C, L]`.
        precision_influence_of_absent: the influence on the mean average precision of each label that is absent, by the
            cell of its probability, `[C, L]`.
    """

    f1_influence_of_hit: FloatArray
    f1_influence_of_error: FloatArray
    precision_influence_of_present: FloatArray
    precision_influence_of_absent: FloatArray

    def of_f1(self, predicted: BoolArray, labels: BoolArray) -> FloatArray:
        """Returns the influence of each label of each of n records on macro-F1, `[n, L]`.

        Args:
            predicted: the labels that the student predicts, `[n, L]`.
            labels: the true labels, `[n, L]`.
        """
        return np.asarray(
            np.where(
                labels & predicted,
                self.f1_influence_of_hit,
                (labels ^ predicted) * self.f1_influence_of_error,
            )
        )

    def of_precision(self, probabilities: FloatArray, labels: BoolArray) -> FloatArray:
        """Returns the influence of each label of each of n records on the mean average precision, `[n, L]`.

        Args:
            probabilities: the student's probability of each label, `[n, L]`.
            labels: the true labels, `[n, L]`.
        """
        cell_indices = _cells_of(probabilities)
        num_labels = cell_indices.shape[1]
        label_indices = np.arange(num_labels)
        return np.asarray(
            np.where(
                labels,
                self.precision_influence_of_present[cell_indices, label_indices],
                self.precision_influence_of_absent[cell_indices, label_indices],
            )
        )


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class ScoreModel:
    """A public model of records: how many lie in each cell of probability, and which share of these has the label.

    The C cells are equal intervals of the logit of the student's probability, the highest first. L is the number of
    labels.

    Attributes:
        masses_by_predicted_cell_label: the share of all records that lie in each cell, for each label. Index 0 is for
            records for which the label is not predicted, index 1 for the others; for each label all shares add up to 1,
            `[2, C, L]`.
        positive_share_by_cell: the share of the records in a cell that have the label, in (0, 1), the same for all
            labels, `[C]`.
        least_positive_share: a share of records. The influences on average precision of a label that fewer records have
            are made smaller in proportion, as those of rare labels grow without bound. So are those on macro-F1, if
            this share exceeds the sum of two others: of records with the label, and of those for which it is predicted.
    """

    masses_by_predicted_cell_label: FloatArray
    positive_share_by_cell: FloatArray
    least_positive_share: float

    @classmethod
    def of_public(cls, probabilities: FloatArray, predicted: BoolArray) -> ScoreModel:
        """Returns the student's own model of records: each label is present with the student's probability.

        Args:
            probabilities: the student's probability of each label on n public records, `[n, L]`.
            predicted: the labels that the student predicts for these records, `[n, L]`.
        """
        num_records, num_labels = probabilities.shape
        cell_indices = _cells_of(probabilities)
        cell_counts_shape = (2, _NUM_CELLS, num_labels)
        label_indices = np.broadcast_to(np.arange(num_labels), cell_indices.shape)
        flat_indices = np.ravel_multi_index(
            (predicted.astype(np.int64), cell_indices, label_indices), cell_counts_shape
        )
        cell_counts = np.bincount(flat_indices.ravel(), minlength=int(np.prod(cell_counts_shape)))
        return cls(
            masses_by_predicted_cell_label=cell_counts.reshape(cell_counts_shape) / num_records,
            positive_share_by_cell=expit(_MIDDLE_LOGIT_OF_CELLS),
            least_positive_share=1 / num_records,
        )

    def recalibrated(self, intercept: float, slope: float) -> ScoreModel:
        """Returns this model with other shares, whose logits are intercept + slope * middle logit of the cell."""
        return replace(
            self, positive_share_by_cell=expit(intercept + slope * _MIDDLE_LOGIT_OF_CELLS)
        )

    def variances(self, num_bins: int) -> FloatArray:
        """Returns for each of B bins of probability the variance of one record's calibration sum, `[B]`.

        The calibration sum of a bin adds up label (0 or 1) - share over those labels of the record whose probabilities
        lie in the bin. The variance is that of labels that are independent, each present with the share of its cell.

        Args:
            num_bins: B, the number of bins, which have equal widths.
        """
        labels_per_record_by_cell = self.masses_by_predicted_cell_label.sum(axis=(0, 2))
        cell_variances = (
            labels_per_record_by_cell
            * self.positive_share_by_cell
            * (1 - self.positive_share_by_cell)
        )
        return np.bincount(
            _bin_index_of_cells(num_bins), weights=cell_variances, minlength=num_bins
        ).astype(np.float64)

    def corrected(
        self, *, label_minus_probability_by_bin: FloatArray, difference_variances: FloatArray
    ) -> list[ScoreModel]:
        """Returns three recalibrations of this model (`recalibrated`).

        The first is the most probable one (`_fit_line`). The slope of the second is a standard deviation lower, that of
        the third a standard deviation higher; no slope is below 0.1.

        Args:
            label_minus_probability_by_bin: labels - probabilities, summed in each of B bins of probability, per record,
                `[B]`.
            difference_variances: the variance of each difference, `[B]`.
        """
        intercept_and_slope, covariance = self._fit_line(
            label_minus_probability_by_bin=label_minus_probability_by_bin,
            difference_variances=difference_variances,
        )
        # One standard deviation of the slope, with the change of the intercept that goes with it on average.
        slope_variance = covariance[1, 1]
        change = covariance[:, 1] / math.sqrt(slope_variance)
        return [
            self.recalibrated(float(intercept), slope=max(float(slope), _MIN_SLOPE))
            for intercept, slope in (
                intercept_and_slope,
                intercept_and_slope - change,
                intercept_and_slope + change,
            )
        ]

    def _fit_line(
        self, *, label_minus_probability_by_bin: FloatArray, difference_variances: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Returns the most probable intercept and slope of a recalibration, `[2]`, and their covariance, `[2, 2]`.

        `recalibrated` explains intercept and slope. They are found by Gauss-Newton steps. The differences are taken to
        be normal. The prior is normal, too, around intercept 0 and slope 1, which change nothing.

        Args:
            label_minus_probability_by_bin: labels - probabilities, summed in each of B bins of probability, per record,
                `[B]`.
            difference_variances: the variance of each difference, `[B]`.
        """
        labels_per_record_by_cell = self.masses_by_predicted_cell_label.sum(axis=(0, 2))
        own_positive_share_by_cell = expit(_MIDDLE_LOGIT_OF_CELLS)
        num_bins = len(label_minus_probability_by_bin)
        bin_index_of_cells = _bin_index_of_cells(num_bins)
        intercept_and_slope = np.array(_IDENTITY_LINE)
        prior_precision = np.eye(2) / _LINE_STD**2
        for _ in range(_NEWTON_STEPS):
            positive_share_by_cell = expit(
                intercept_and_slope[0] + intercept_and_slope[1] * _MIDDLE_LOGIT_OF_CELLS
            )
            explained_differences = np.bincount(
                bin_index_of_cells,
                weights=labels_per_record_by_cell
                * (positive_share_by_cell - own_positive_share_by_cell),
                minlength=num_bins,
            )
            by_intercept = (
                labels_per_record_by_cell * positive_share_by_cell * (1 - positive_share_by_cell)
            )
            by_slope = by_intercept * _MIDDLE_LOGIT_OF_CELLS
            jacobian = np.stack(  # [B, 2]
                [
                    np.bincount(bin_index_of_cells, weights=derivatives, minlength=num_bins)
                    for derivatives in (by_intercept, by_slope)
                ],
                axis=1,
            )
            weighted_jacobian = jacobian.T / difference_variances
            line_information = weighted_jacobian @ jacobian + prior_precision
            line_gradient = weighted_jacobian @ (
                label_minus_probability_by_bin - explained_differences
            )
            line_gradient = line_gradient - prior_precision @ (intercept_and_slope - _IDENTITY_LINE)
            line_step = np.linalg.solve(line_information, line_gradient)
            intercept_and_slope = intercept_and_slope + np.clip(
                line_step, -_MAX_NEWTON_CHANGE, _MAX_NEWTON_CHANGE
            )
            intercept_and_slope[1] = max(intercept_and_slope[1], _MIN_SLOPE)
        return intercept_and_slope, np.asarray(np.linalg.inv(line_information))

    @property
    def rates(self) -> FloatArray:
        """The expected numbers per record of hits, false alarms and misses of each label, in this order, `[L, 3]`.

        A hit is a label that is predicted and present.
        """
        positive_share_by_cell = self.positive_share_by_cell[:, None]
        masses_if_not_predicted, masses_if_predicted = self.masses_by_predicted_cell_label
        return np.stack(
            [
                (masses_if_predicted * positive_share_by_cell).sum(axis=0),
                (masses_if_predicted * (1 - positive_share_by_cell)).sum(axis=0),
                (masses_if_not_predicted * positive_share_by_cell).sum(axis=0),
            ],
            axis=1,
        )

    @cached_property
    def scores(self) -> tuple[float, float]:
        """Macro-F1 and the mean average precision of a set of records that this model describes."""
        hits, false_alarms, misses = self.rates.T
        macro_f1 = (2 * hits / (2 * hits + false_alarms + misses)).mean()
        return float(macro_f1), float(self._ranks.average_precisions.mean())

    @cached_property
    def _ranks(self) -> _Ranks:
        """For each label, the ranks of all records by cell, whether the label is predicted for a record or not."""
        return _Ranks.of_cells(
            self.masses_by_predicted_cell_label.sum(axis=0),
            positive_share_by_cell=self.positive_share_by_cell,
        )

    @property
    def influences_of_labels(self) -> Influences:
        """How much a record moves macro-F1 and the mean average precision, to first order around this model."""
        hits, false_alarms, misses = self.rates.T
        errors = false_alarms + misses
        f1_denominators = 2 * hits + errors
        num_labels = len(f1_denominators)
        # Both scores are means over labels. Rare labels have a smaller weight (`least_positive_share`).
        f1_weights = np.minimum(1.0, f1_denominators / self.least_positive_share) / num_labels
        ranks = self._ranks
        positive_mass_of_labels = ranks.positive_mass_by_cell_label.sum(axis=0)
        rank_weights = (
            np.minimum(1.0, positive_mass_of_labels / self.least_positive_share) / num_labels
        )
        return Influences(
            # The derivatives of 2 h / (2 h + e) by h and by e.
            f1_influence_of_hit=2 * errors / f1_denominators**2 * f1_weights,
            f1_influence_of_error=-2 * hits / f1_denominators**2 * f1_weights,
            # The derivatives of the average precision by the number of records in each cell, [C, L].
            precision_influence_of_present=ranks.influences_of_present * rank_weights,
            precision_influence_of_absent=ranks.influences_of_absent * rank_weights,
        )

    def expected(self, influences_of_labels: Influences, *, power: int = 1) -> tuple[float, float]:
        """Returns two expectations under this model: a record's influence on macro-F1, and on mean average precision.

        Each of the two is summed over the labels of the record.

        Args:
            influences_of_labels: the influences of labels; they may be those around another model.
            power: 1 sums the influences of the labels, 2 the squares of these influences.
        """
        hits, false_alarms, misses = self.rates.T
        cell_masses = self.masses_by_predicted_cell_label.sum(axis=0)
        positive_share_by_cell = self.positive_share_by_cell[:, None]
        influence_on_f1_by_label = (
            hits * influences_of_labels.f1_influence_of_hit**power
            + (false_alarms + misses) * influences_of_labels.f1_influence_of_error**power
        )
        influence_on_precision_by_cell = cell_masses * (
            positive_share_by_cell * influences_of_labels.precision_influence_of_present**power
            + (1 - positive_share_by_cell)
            * influences_of_labels.precision_influence_of_absent**power
        )
        return float(influence_on_f1_by_label.sum()), float(influence_on_precision_by_cell.sum())


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class _Ranks:
    """The ranking of records by probability, for each of L labels, in C cells from high to low probability.

    Records in a cell rank alike: each has half of its cell before it. Numbers of records are shares of all records.

    Attributes:
        positive_mass_by_cell_label: the number of records with the label in each cell, `[C, L]`.
        precision_by_cell_label: the share of records with the label among those from the first cell to the middle of
            this one, `[C, L]`.
        record_mass_before: the number of records from the first cell to the middle of this one, `[C, L]`; 1 where there
            are none.
    """

    positive_mass_by_cell_label: FloatArray
    precision_by_cell_label: FloatArray
    record_mass_before: FloatArray

    @classmethod
    def of_cells(cls, cell_masses: FloatArray, positive_share_by_cell: FloatArray) -> _Ranks:
        """Returns the ranks of records by cell.

        Args:
            cell_masses: the number of records in each cell, as a share of all records, `[C, L]`.
            positive_share_by_cell: the share of the records of a cell that have the label, `[C]`.
        """
        positive_mass_by_cell_label = cell_masses * positive_share_by_cell[:, None]
        record_mass_before = np.cumsum(cell_masses, axis=0) - cell_masses / 2
        # No record is in such a cell or above. A record there would be the first, with the precision of its cell alone.
        has_no_record_before = record_mass_before <= 0
        record_mass_before = np.where(has_no_record_before, 1.0, record_mass_before)
        precision_by_cell_label = (
            np.cumsum(positive_mass_by_cell_label, axis=0) - positive_mass_by_cell_label / 2
        ) / record_mass_before
        return cls(
            positive_mass_by_cell_label=positive_mass_by_cell_label,
            precision_by_cell_label=np.where(
                has_no_record_before, positive_share_by_cell[:, None], precision_by_cell_label
            ),
            record_mass_before=record_mass_before,
        )

    @property
    def average_precisions(self) -> FloatArray:
        """The average precision of each label, `[L]`."""
        return np.asarray(
            (self.positive_mass_by_cell_label * self.precision_by_cell_label).sum(axis=0)
            / self.positive_mass_by_cell_label.sum(axis=0)
        )

    @property
    def influences_of_present(self) -> FloatArray:
        """The derivative of the average precision by the number of records with the label in each cell, `[C, L]`."""
        gains_by_cell = _sums_below(
            self.positive_mass_by_cell_label
            * (1 - self.precision_by_cell_label)
            / self.record_mass_before
        )
        changes_by_cell = self.precision_by_cell_label + gains_by_cell - self.average_precisions
        return np.asarray(changes_by_cell / self.positive_mass_by_cell_label.sum(axis=0))

    @property
    def influences_of_absent(self) -> FloatArray:
        """The derivative of the average precision by the number of records without the label in each cell, `[C, L]`."""
        losses_by_cell = _sums_below(
            self.positive_mass_by_cell_label
            * self.precision_by_cell_label
            / self.record_mass_before
        )
        return np.asarray(-losses_by_cell / self.positive_mass_by_cell_label.sum(axis=0))


def _sums_below(cell_values: FloatArray) -> FloatArray:
    """Returns for each cell the sum over all cells of lower probability and half of the cell itself, `[C, L]`.

    Args:
        cell_values: a value for each cell and label, `[C, L]`.
    """
    return np.asarray(np.cumsum(cell_values[::-1], axis=0)[::-1] - cell_values / 2)


def _bin_index_of_cells(num_bins: int) -> IntArray:
    """Returns, for each of the C cells of logits, the number of the bin that holds its middle probability, `[C]`.

    Args:
        num_bins: the number of bins; they divide the probabilities from 0 to 1 into equal widths.
    """
    return np.asarray((expit(_MIDDLE_LOGIT_OF_CELLS) * num_bins).astype(np.int64))


def _cells_of(probabilities: FloatArray) -> IntArray:
    """Returns the number of the cell that each probability's logit lies in, in an array of the same shape.

    Cell 0 has the highest probabilities. Logits beyond -12 and 12 count as these two.
    """
    clipped_probabilities = np.clip(probabilities, expit(-_LARGEST_LOGIT), expit(_LARGEST_LOGIT))
    logits = np.log(clipped_probabilities) - np.log1p(-clipped_probabilities)
    cell_indices = ((_LARGEST_LOGIT - logits) * _CELLS_PER_UNIT).astype(np.int64)
    return np.asarray(np.clip(cell_indices, 0, _NUM_CELLS - 1))
