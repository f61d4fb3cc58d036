"""A model of labels and ranks by the student's probabilities on public records, and how scores depend on each record.

L is the number of labels, n a number of records. A model says for each label how many records lie in each cell of the
logit of its probability, and which share of these have the label. Macro-F1 and the mean average precision are functions
of that. Their influences say how much one record more moves them, to first order. All of this is public.

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
_OWN_LINE = (0.0, 1.0)
# The logit in the middle of each cell, from high to low.
_MIDDLES = _LARGEST_LOGIT - (np.arange(_NUM_CELLS) + 0.5) / _CELLS_PER_UNIT


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class Influences:
    """How much a record moves macro-F1 and the mean average precision, to first order, times the number of records.

    A record that a model expects moves both by 0 on average.

    Attributes:
        hits: of each label that is predicted and present, on macro-F1, >= 0, `[L]`.
        errors: of each label that is either predicted or present, on macro-F1, <= 0, `[L]`.
        present: of each label that is present, on the mean average precision, by the cell of its probability, `[C, L]`.
        absent: of each label that is absent, on the mean average precision, by the cell of its probability, `[C, L]`.
    """

    hits: FloatArray
    errors: FloatArray
    present: FloatArray
    absent: FloatArray

    def of_f1(self, predicted: BoolArray, labels: BoolArray) -> FloatArray:
        """Returns the influence of each label of each record on macro-F1, `[n, L]`."""
        return np.asarray(
            np.where(labels & predicted, self.hits, (labels ^ predicted) * self.errors)
        )

    def of_precision(self, probabilities: FloatArray, labels: BoolArray) -> FloatArray:
        """Returns the influence of each label of each record on the mean average precision, `[n, L]`."""
        cells = _cells_of(probabilities)
        columns = np.arange(cells.shape[1])
        return np.asarray(
            np.where(labels, self.present[cells, columns], self.absent[cells, columns])
        )


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class ScoreModel:
    """The numbers of records in cells of C logits of probability, and the shares of them that have the label.

    Attributes:
        sizes: for each label, of the records for which it is not predicted and of those for which it is, the share in
            each cell; together 1, `[2, C, L]`.
        shares: the share of the records in a cell that have the label, in (0, 1), `[C]`.
        least_positives: labels with a smaller expected share of records move scores as if they had this one.
    """

    sizes: FloatArray
    shares: FloatArray
    least_positives: float

    @classmethod
    def of_public(cls, probabilities: FloatArray, predicted: BoolArray) -> ScoreModel:
        """Returns the student's own model: each label is present with the student's probability.

        Args:
            probabilities: the student's probabilities on public records, `[n, L]`.
            predicted: its predictions, `[n, L]`.
        """
        num_records, num_labels = probabilities.shape
        cells = _cells_of(probabilities)
        shape = (2, _NUM_CELLS, num_labels)
        labels = np.broadcast_to(np.arange(num_labels), cells.shape)
        flat_indices = np.ravel_multi_index((predicted.astype(np.int64), cells, labels), shape)
        counts = np.bincount(flat_indices.ravel(), minlength=int(np.prod(shape)))
        return cls(
            sizes=counts.reshape(shape) / num_records,
            shares=expit(_MIDDLES),
            least_positives=1 / num_records,
        )

    def recalibrated(self, intercept: float, slope: float) -> ScoreModel:
        """Returns this model with shares whose logits are a line in those of the student's probabilities."""
        return replace(self, shares=expit(intercept + slope * _MIDDLES))

    def variances(self, num_bins: int) -> FloatArray:
        """Returns for each of B bins the variance of the calibration sum of one record, `[B]`.

        The calibration sum of a bin adds up label - share over the labels whose probability lies in the bin.
        """
        sizes = self.sizes.sum(axis=(0, 2))
        weights = sizes * self.shares * (1 - self.shares)
        return np.bincount(_bins(num_bins), weights=weights, minlength=num_bins).astype(np.float64)

    def corrected(self, differences: FloatArray, *, variances: FloatArray) -> list[ScoreModel]:
        """Returns this model recalibrated to explain differences best, and two models a standard deviation beside it.

        The second model has a lower slope, the third a higher one.

        Args:
            differences: labels - probabilities, summed in each of B bins of probability, per record, `[B]`.
            variances: the variance of each difference, `[B]`.
        """
        line, covariance = self._fit_line(differences, variances=variances)
        # One standard deviation of the slope, with the change of the intercept that goes with it on average.
        change = covariance[:, 1] / math.sqrt(covariance[1, 1])
        return [
            self.recalibrated(float(intercept), slope=max(float(slope), _MIN_SLOPE))
            for intercept, slope in (line, line - change, line + change)
        ]

    def _fit_line(
        self, differences: FloatArray, *, variances: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Returns the most probable intercept and slope of a recalibration, `[2]`, and their covariance, `[2, 2]`.

        They are found by Gauss-Newton steps for normal differences, with a normal prior around the line that changes
        nothing.

        Args:
            differences: labels - probabilities, summed in each of B bins of probability, per record, `[B]`.
            variances: the variance of each difference, `[B]`.
        """
        sizes = self.sizes.sum(axis=(0, 2))
        own_shares = expit(_MIDDLES)
        num_bins = len(differences)
        bins = _bins(num_bins)
        line = np.array(_OWN_LINE)
        prior_precision = np.eye(2) / _LINE_STD**2
        for _ in range(_NEWTON_STEPS):
            shares = expit(line[0] + line[1] * _MIDDLES)
            explained = np.bincount(bins, weights=sizes * (shares - own_shares), minlength=num_bins)
            by_intercept = sizes * shares * (1 - shares)
            by_slope = by_intercept * _MIDDLES
            jacobian = np.stack(  # [B, 2]
                [
                    np.bincount(bins, weights=derivatives, minlength=num_bins)
                    for derivatives in (by_intercept, by_slope)
                ],
                axis=1,
            )
            weighted_jacobian = jacobian.T / variances
            information = weighted_jacobian @ jacobian + prior_precision
            gradient = weighted_jacobian @ (differences - explained)
            gradient = gradient - prior_precision @ (line - _OWN_LINE)
            newton_step = np.linalg.solve(information, gradient)
            line = line + np.clip(newton_step, -_MAX_NEWTON_CHANGE, _MAX_NEWTON_CHANGE)
            line[1] = max(line[1], _MIN_SLOPE)
        return line, np.asarray(np.linalg.inv(information))

    @property
    def rates(self) -> FloatArray:
        """The numbers of hits, false alarms and misses of each label, per record, `[L, 3]`."""
        shares = self.shares[:, None]
        return np.stack(
            [
                (self.sizes[1] * shares).sum(axis=0),
                (self.sizes[1] * (1 - shares)).sum(axis=0),
                (self.sizes[0] * shares).sum(axis=0),
            ],
            axis=1,
        )

    @cached_property
    def scores(self) -> tuple[float, float]:
        """Macro-F1 and the mean average precision of records as the model expects them."""
        hits, false_alarms, misses = self.rates.T
        macro_f1 = (2 * hits / (2 * hits + false_alarms + misses)).mean()
        return float(macro_f1), float(self._ranks.average_precisions.mean())

    @cached_property
    def _ranks(self) -> _Ranks:
        """The records of each label by cell, predicted or not."""
        return _Ranks.of_cells(self.sizes.sum(axis=0), shares=self.shares)

    @property
    def influences(self) -> Influences:
        """How much a record moves both scores, to first order around this model."""
        hits, false_alarms, misses = self.rates.T
        errors = false_alarms + misses
        total = 2 * hits + errors
        num_labels = len(total)
        # Both scores are means over labels. Labels with less than `least_positives` have a smaller weight.
        f1_weights = np.minimum(1.0, total / self.least_positives) / num_labels
        ranks = self._ranks
        positives = ranks.present.sum(axis=0)
        rank_weights = np.minimum(1.0, positives / self.least_positives) / num_labels
        return Influences(
            # The derivatives of 2 h / (2 h + e) by h and by e.
            hits=2 * errors / total**2 * f1_weights,
            errors=-2 * hits / total**2 * f1_weights,
            present=ranks.influences_of_present * rank_weights,
            absent=ranks.influences_of_absent * rank_weights,
        )

    def expected(self, influences: Influences, *, power: int = 1) -> tuple[float, float]:
        """Returns what the model expects of a record: its influences on macro-F1 and on mean average precision.

        Each of the two is summed over labels.

        Args:
            influences: the influences around this model or around another one.
            power: 1 sums the influences, 2 their squares.
        """
        hits, false_alarms, misses = self.rates.T
        sizes = self.sizes.sum(axis=0)
        shares = self.shares[:, None]
        on_f1 = hits * influences.hits**power + (false_alarms + misses) * influences.errors**power
        on_precision = sizes * (
            shares * influences.present**power + (1 - shares) * influences.absent**power
        )
        return float(on_f1.sum()), float(on_precision.sum())


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class _Ranks:
    """Records of each label in C cells from high to low probability.

    Records in a cell rank alike: each has half of its cell before it.

    Attributes:
        present: the records with the label in each cell, `[C, L]`.
        precisions: the share of records with the label from the top to the middle of each cell, `[C, L]`.
        num_before: the number of records from the top to the middle of each cell, > 0, `[C, L]`.
    """

    present: FloatArray
    precisions: FloatArray
    num_before: FloatArray

    @classmethod
    def of_cells(cls, sizes: FloatArray, shares: FloatArray) -> _Ranks:
        """Returns the ranks of records by cell.

        Args:
            sizes: the records in each cell, `[C, L]`.
            shares: the share of them that have the label, `[C]`.
        """
        present = sizes * shares[:, None]
        num_before = np.cumsum(sizes, axis=0) - sizes / 2
        # No record is in such a cell or above. A record there would be the first, with the precision of its cell alone.
        is_top = num_before <= 0
        num_before = np.where(is_top, 1.0, num_before)
        precisions = (np.cumsum(present, axis=0) - present / 2) / num_before
        return cls(
            present=present,
            precisions=np.where(is_top, shares[:, None], precisions),
            num_before=num_before,
        )

    @property
    def average_precisions(self) -> FloatArray:
        """The average precision of each label, `[L]`."""
        return np.asarray((self.present * self.precisions).sum(axis=0) / self.present.sum(axis=0))

    @property
    def influences_of_present(self) -> FloatArray:
        """The derivative of the average precision by the number of records with the label in each cell, `[C, L]`."""
        gains = _sums_below(self.present * (1 - self.precisions) / self.num_before)
        changes = self.precisions + gains - self.average_precisions
        return np.asarray(changes / self.present.sum(axis=0))

    @property
    def influences_of_absent(self) -> FloatArray:
        """The derivative of the average precision by the number of records without the label in each cell, `[C, L]`."""
        losses = _sums_below(self.present * self.precisions / self.num_before)
        return np.asarray(-losses / self.present.sum(axis=0))


def _sums_below(cells: FloatArray) -> FloatArray:
    """Returns for each cell the sum of the cells below it and of half of itself, `[C, L]`."""
    return np.asarray(np.cumsum(cells[::-1], axis=0)[::-1] - cells / 2)


def _bins(num_bins: int) -> IntArray:
    """Returns the bin of the probability in the middle of each cell; bins have equal widths, `[C]`."""
    return np.asarray((expit(_MIDDLES) * num_bins).astype(np.int64))


def _cells_of(probabilities: FloatArray) -> IntArray:
    """Returns the cell of each probability, in an array of the same shape."""
    shares = np.clip(probabilities, expit(-_LARGEST_LOGIT), expit(_LARGEST_LOGIT))
    logits = np.log(shares) - np.log1p(-shares)
    cells = ((_LARGEST_LOGIT - logits) * _CELLS_PER_UNIT).astype(np.int64)
    return np.asarray(np.clip(cells, 0, _NUM_CELLS - 1))
