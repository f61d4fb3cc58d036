"""Ridge regressions of all candidate penalties at the cost of one, with leave-one-out scores for each candidate.

A *leave-one-out* score of a row is the score that a model gives to the row if the model was fitted to all other rows.
It needs no second fit: the leave-one-out residual of a row is its residual divided by one minus its leverage (Allen,
1974).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from pate.array_types import BoolArray, Float32Array, FloatArray
from pate.models.label_groups import LabelGroup, label_groups

MIN_ONE_MINUS_LEVERAGE = 1e-9
"""The least value of one minus a leverage that divides a residual; only a single record has less, with leverage 1."""


class RidgePath(ABC):
    """The ridge regressions of several labels on the same features, for any penalty.

    Scores are inputs times weights plus intercept, where the inputs are measured from `center`.

    Attributes:
        center: the mean of all rows, `[num_features]`.
    """

    center: FloatArray

    @abstractmethod
    def left_out_scores(self, penalty: float) -> FloatArray:
        """Returns the leave-one-out score of each row minus the intercept of each label, `[num_rows, num_labels]`.

        A row whose label is unknown is in no regression of the label, and has the score of the model of the others.
        """

    @abstractmethod
    def squared_error(self, penalty: float) -> float:
        """Returns the mean over known labels of the leave-one-out squared error, for one penalty."""

    @abstractmethod
    def weights(self, penalty: float) -> FloatArray:
        """Returns the weights of the regressions, `[num_features, num_labels]`, for one penalty.

        Each label is fitted to all rows for which it is known.
        """

    @abstractmethod
    def intercept(self, weights: FloatArray) -> FloatArray:
        """Returns the score of each label at `center`, `[num_labels]`.

        Args:
            weights: the weights of the regressions, `[num_features, num_labels]`.
        """

    @abstractmethod
    def leading_label_directions(self, weights: FloatArray, rank: int) -> FloatArray:
        """Returns the projection on the leading directions of the scores of all rows, `[num_labels, num_labels]`.

        The directions are right singular vectors of the scores without intercept. A label that no row has gets the
        score 0.

        Args:
            weights: the weights of the regressions, `[num_features, num_labels]`.
            rank: the number of leading directions.
        """


def fit_ridge_path(
    input_rows: Float32Array, *, labels: BoolArray, known_label_mask: BoolArray | None
) -> RidgePath:
    """Returns the regressions of each label on the rows for which it is known.

    Args:
        input_rows: the inputs, `[num_rows, num_features]`.
        labels: the labels of the rows, bool `[num_rows, num_labels]`.
        known_label_mask: which labels are known, bool `[num_rows, num_labels]`; None where all are.
    """
    if known_label_mask is None:
        return _CompleteRidgePath(input_rows, labels=labels)
    return _GappedRidgePath(input_rows, labels=labels, known_label_mask=known_label_mask)


class _CompleteRidgePath(RidgePath):
    """The ridge regressions of labels without gaps, computed from one singular value decomposition.

    n is the number of rows and d the number of features. The centered rows are U diag(s) V^T. With a penalty, the part
    of the labels along singular direction i is multiplied by s_i^2 / (s_i^2 + penalty * u), where u is the mean squared
    distance of the rows to their mean, or 1 if all rows are equal.
    """

    def __init__(self, input_rows: Float32Array, *, labels: BoolArray) -> None:
        self.center = input_rows.mean(axis=0, dtype=np.float64)  # [d]
        self.label_shares = labels.mean(axis=0)  # [num_labels]
        self._residuals = np.asarray(labels - self.label_shares)  # [n, num_labels]
        self._left_vectors, self._singular_values, self._right_vectors = np.linalg.svd(
            input_rows - self.center, full_matrices=False
        )
        self._squared_singular_values = self._singular_values**2
        self._projected = self._left_vectors.T @ self._residuals
        # the unit of penalties: the mean squared distance of the rows to their mean, 1 if all are equal
        self._penalty_unit = self._squared_singular_values.sum() / len(input_rows) or 1.0

    def left_out_scores(self, penalty: float) -> FloatArray:
        """Returns the leave-one-out scores of each row, each minus the intercept of its label, `[n, num_labels]`.

        The intercept is the share of rows that have the label. All n rows count in it, the row itself included.
        """
        shrinkage = self._shrinkage(penalty)
        fitted = self._left_vectors @ (shrinkage[:, None] * self._projected)
        # The leverages are the diagonal of U diag(shrinkage) U^T + 1/n.
        one_minus_leverage = 1 - self._left_vectors**2 @ shrinkage - 1 / len(self._left_vectors)
        one_minus_leverage = np.maximum(one_minus_leverage, MIN_ONE_MINUS_LEVERAGE)[:, None]
        return np.asarray(self._residuals - (self._residuals - fitted) / one_minus_leverage)

    def squared_error(self, penalty: float) -> float:
        """Returns the mean over rows and labels of the leave-one-out squared error, for one penalty."""
        return float(np.square(self._residuals - self.left_out_scores(penalty)).mean())

    def weights(self, penalty: float) -> FloatArray:
        """Returns the weights of the regression on all rows, `[d, num_labels]`, for one penalty."""
        singular_values = self._singular_values
        inverse_singular_values = np.divide(
            1, singular_values, out=np.zeros_like(singular_values), where=singular_values > 0
        )
        factors = self._shrinkage(penalty) * inverse_singular_values
        return np.asarray(self._right_vectors.T @ (factors[:, None] * self._projected))

    def intercept(self, weights: FloatArray) -> FloatArray:
        """Returns the score of each label at the center, `[num_labels]`: its share of rows, for any weights."""
        return np.asarray(self.label_shares)

    def leading_label_directions(self, weights: FloatArray, rank: int) -> FloatArray:
        """Returns the projection on `rank` leading directions of the scores of all rows, `[num_labels, num_labels]`.

        A label that no row has gets the score 0.
        """
        scores = (self._left_vectors * self._singular_values) @ (self._right_vectors @ weights)
        return _leading_directions(scores, rank=rank, occurring_label_mask=self.label_shares > 0)

    def _shrinkage(self, penalty: float) -> FloatArray:
        """Returns the factor s_i^2 / (s_i^2 + penalty * u) of each singular direction i, in [0, 1]."""
        return np.asarray(
            self._squared_singular_values
            / (self._squared_singular_values + penalty * self._penalty_unit)
        )


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on the arrays in it
class _GroupPath:
    """The ridge regressions of the labels of one `LabelGroup` on the rows for which these labels are known."""

    group: LabelGroup
    path: _CompleteRidgePath


class _GappedRidgePath(RidgePath):
    """The ridge regressions of labels with gaps: one path for the labels that are known for the same rows.

    The inputs of all paths are measured from one center, the mean of all rows. A label that is known for no row has the
    score 0.
    """

    def __init__(
        self, input_rows: Float32Array, *, labels: BoolArray, known_label_mask: BoolArray
    ) -> None:
        self.center = input_rows.mean(axis=0, dtype=np.float64)  # [d]
        self._centered_inputs = np.asarray(input_rows - self.center)
        self._labels = labels
        self._group_paths = [
            _GroupPath(
                group=label_group,
                path=_CompleteRidgePath(
                    input_rows[label_group.known_record_mask],
                    labels=labels[label_group.known_record_mask][:, label_group.label_indices],
                ),
            )
            for label_group in label_groups(known_label_mask)
        ]

    def left_out_scores(self, penalty: float) -> FloatArray:
        """Returns the score of each row minus the intercept of each label, `[n, num_labels]`.

        If the label of a row is known, the score comes from a model without the row. Other rows are not in the model of
        the label, and have the score of that model.
        """
        weights = self.weights(penalty)
        scores = self._centered_inputs @ weights
        intercept = self.intercept(weights)
        for group_path in self._group_paths:
            label_indices = group_path.group.label_indices
            known_cells = np.ix_(np.flatnonzero(group_path.group.known_record_mask), label_indices)
            known_scores = group_path.path.left_out_scores(penalty) + group_path.path.label_shares
            scores[known_cells] = known_scores - intercept[label_indices]
        return np.asarray(scores)

    def squared_error(self, penalty: float) -> float:
        """Returns the mean over known labels of the leave-one-out squared error, for one penalty."""
        if not self._group_paths:
            return 0.0
        num_known_by_label_group = [
            np.count_nonzero(group_path.group.known_record_mask)
            * len(group_path.group.label_indices)
            for group_path in self._group_paths
        ]
        squared_errors_by_label_group = [
            group_path.path.squared_error(penalty) for group_path in self._group_paths
        ]
        return float(np.average(squared_errors_by_label_group, weights=num_known_by_label_group))

    def weights(self, penalty: float) -> FloatArray:
        """Returns the weights of the regressions, `[d, num_labels]`, for one penalty."""
        weights = np.zeros((len(self.center), self._labels.shape[1]))
        for group_path in self._group_paths:
            weights[:, group_path.group.label_indices] = group_path.path.weights(penalty)
        return weights

    def intercept(self, weights: FloatArray) -> FloatArray:
        """Returns the score of each label at the mean of all rows, `[num_labels]`."""
        intercept = np.zeros(self._labels.shape[1])
        for group_path in self._group_paths:
            label_indices = group_path.group.label_indices
            path = group_path.path
            shift = self.center - path.center
            intercept[label_indices] = path.label_shares + shift @ weights[:, label_indices]
        return intercept

    def leading_label_directions(self, weights: FloatArray, rank: int) -> FloatArray:
        """Returns the projection on `rank` leading directions of the scores of all rows, `[num_labels, num_labels]`.

        A label that no row has gets the score 0.
        """
        occurring_label_mask = np.asarray(self._labels.any(axis=0))
        return _leading_directions(
            self._centered_inputs @ weights, rank=rank, occurring_label_mask=occurring_label_mask
        )


def _leading_directions(
    scores: FloatArray, *, rank: int, occurring_label_mask: BoolArray
) -> FloatArray:
    """Returns the projection on the leading right singular vectors of scores, `[num_labels, num_labels]`.

    Args:
        scores: the scores of rows, `[n, num_labels]`.
        rank: the number of leading vectors.
        occurring_label_mask: true for each label that some row has, `[num_labels]`. The projection makes scores of
            others 0.
    """
    directions = np.linalg.svd(scores, full_matrices=False)[2][:rank]
    # Rounding must not lift the score of a label that no row has, which is 0.
    return np.asarray((directions.T @ directions) * occurring_label_mask)
