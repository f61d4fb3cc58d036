"""Ridge regression in closed form: teachers, which are all solved together, and a student.

A leave-one-out residual is the error on a record of a model that was fitted without that record. It needs no second
fit: it equals the record's residual divided by one minus the record's leverage (Allen, 1974).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.aggregators.training_set import TrainingSet
from pate.array_types import BoolArray, Float32Array, FloatArray
from pate.device import require_device, torch
from pate.models.hyperparameters import require_settings
from pate.models.shards import PaddedBatch, Shard, as_rows, require_shards
from pate.models.student import OnEpoch, Student, require_rows
from pate.models.student_model import FlatModel
from pate.models.teacher import State, Teacher
from pate.models.thresholds import ThresholdedStudent, matched_threshold
from pate.validation import require, require_positive, require_probability

_THRESHOLD_STEPS = 100  # thresholds are whole hundredths
_LOWEST_STEP = 2
_HIGHEST_STEP = 98
_LEAST_ONE_MINUS_LEVERAGE = 1e-9  # of 1 - leverage; reached only by a shard of one record
_PENALTIES = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)


@dataclass(frozen=True)
class LinearTeacher(Teacher):
    """A recipe for teachers that are ridge regressions with an intercept and a threshold of their own.

    For each label, a teacher minimizes the sum over the records for which the label is known of the squared error on
    the label bits, plus `penalty * s * ||weights||^2`. Here s is the mean squared distance of the teacher's records to
    their mean. So the effect of the penalty does not depend on the unit of the inputs. The intercept is not penalized.

    The scores for a label that 2% of the records have rarely reach 0.5. So each teacher has its own threshold, one
    number for all labels out of 0.02, 0.03, …, 0.98. The threshold maximizes the micro-F1 of the teacher's
    leave-one-out predictions, and is then subtracted from the intercept.

    Edge cases: a teacher never votes for a label that none of its records has, and always for a label that all of them
    have. A teacher without any label, or with one record, has the threshold 0.5.

    Attributes:
        penalty: the penalty of the ridge regression, > 0; a larger penalty gives smaller weights.
        threshold: a fixed threshold in (0, 1) for all teachers; None lets each teacher choose its own.
        device: "cpu", "cuda", or "auto", which is the GPU if there is one.
    """

    penalty: float = 0.5
    threshold: float | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        require_settings(self)
        if self.threshold is not None:
            require_probability("threshold", self.threshold)

    @property
    def is_scale_sensitive(self) -> bool:
        """True, as the penalty keeps the weights of features with a small range too small."""
        return True

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits a teacher for each shard in closed form; the seeds are not used.

        The loss of a teacher is its leave-one-out mean squared error.
        """
        require_shards(shards, seeds)
        stack = PaddedBatch(shards, device=require_device(self.device), dtype=torch.float64)
        if stack.known is None:
            solution = _Solution.of(stack.inputs, stack.labels, stack.mask, penalty=self.penalty)
        else:
            solution = _Solution.of_known(stack, stack.known, penalty=self.penalty)
        weights = solution.weights
        left_out = solution.left_out
        if self.threshold is None:
            thresholds = _best_thresholds(scores=stack.labels - left_out, stack=stack)
        else:
            thresholds = torch.full(
                (len(shards),), self.threshold, dtype=weights.dtype, device=weights.device
            )
        bias = solution.intercept + (0.5 - thresholds)[:, None, None]
        losses = stack.mean(left_out * left_out).mean(dim=(1, 2))
        tensors = {
            "weights": weights,
            "bias": bias[:, 0],
            "threshold": thresholds,
            "loss_curve": losses[:, None],
        }
        arrays = {name: tensor.float().cpu().numpy() for name, tensor in tensors.items()}
        return [
            {name: np.array(array[row]) for name, array in arrays.items()}
            for row in range(len(shards))
        ]

    def predict_many(self, states: Sequence[State], inputs: Float32Array) -> Float32Array:
        """Returns the scores of the teachers, shifted so that the threshold becomes 0.5, and clipped to [0, 1]."""
        device = require_device(self.device)
        weights = torch.from_numpy(np.stack([state["weights"] for state in states])).to(device)
        bias = torch.from_numpy(np.stack([state["bias"] for state in states])).to(device)
        scores = torch.from_numpy(as_rows(inputs)).to(device) @ weights + bias[:, None]
        return np.asarray(scores.clamp_(0, 1).cpu().numpy())


@dataclass(frozen=True, eq=False)
class _Solution:
    """The ridge regressions of several shards.

    Attributes:
        weights: `[num_shards, d, num_labels]`.
        intercept: `[num_shards, 1, num_labels]`.
        left_out: the leave-one-out residuals, `[num_shards, n, num_labels]`; 0 for padding and unknown labels.
    """

    weights: torch.Tensor
    intercept: torch.Tensor
    left_out: torch.Tensor

    @classmethod
    def of(
        cls, inputs: torch.Tensor, labels: torch.Tensor, is_used: torch.Tensor, *, penalty: float
    ) -> _Solution:
        """Returns the regressions on those records of each shard that are used.

        Args:
            inputs: the inputs of the shards' records, padded to n records each, `[num_shards, n, d]`.
            labels: the label bits of the records, `[num_shards, n, num_labels]`.
            is_used: 1 for the records that are used, `[num_shards, n, 1]`.
            penalty: the penalty, relative to the mean squared length of a shard's inputs.
        """
        sizes = is_used.sum(dim=1, keepdim=True).clamp_min(1)
        center = (inputs * is_used).sum(dim=1, keepdim=True) / sizes
        prevalence = (labels * is_used).sum(dim=1, keepdim=True) / sizes
        centered = (inputs - center).mul_(is_used)
        residual = (labels - prevalence).mul_(is_used)
        weights, left_out = _solve(penalty, sizes, centered, residual)
        return cls(weights, intercept=prevalence - center @ weights, left_out=left_out)

    @classmethod
    def of_known(cls, stack: PaddedBatch, known: torch.Tensor, *, penalty: float) -> _Solution:
        """Returns the regressions of labels with gaps, each on the records of a shard that know the label.

        The labels of a shard that are known for the same records share one regression. A shard takes as long as
        without gaps if each label is known for all of its records or for none. It takes up to num_labels times as long
        if each label has gaps of its own. A label that no record knows has the weights and the intercept 0.

        Args:
            stack: the records of the shards, padded to n records each.
            known: 1 for each known label, `[num_shards, n, num_labels]`.
            penalty: the penalty, relative to the mean squared length of a shard's inputs.
        """
        labels = stack.labels
        num_shards, _, num_labels = labels.shape
        num_features = stack.inputs.shape[2]
        solution = cls(
            weights=labels.new_zeros((num_shards, num_features, num_labels)),
            intercept=labels.new_zeros((num_shards, 1, num_labels)),
            left_out=torch.zeros_like(labels),
        )
        groups_of_shards = [
            [group for group in equal_columns(mask) if mask[:, group[0]].any()]
            for mask in known.bool().cpu().numpy()
        ]
        for number in range(max(map(len, groups_of_shards))):
            # one group of each shard that has so many; a smaller group repeats its last label
            shards = [row for row, groups in enumerate(groups_of_shards) if len(groups) > number]
            groups = [groups_of_shards[row][number] for row in shards]
            size = max(map(len, groups))
            padded = np.stack([np.pad(group, (0, size - len(group)), "edge") for group in groups])
            rows = torch.tensor(shards, device=labels.device)[:, None]
            columns = torch.from_numpy(padded).to(labels.device)
            part = cls.of(
                stack.inputs[rows[:, 0]],
                labels[rows, :, columns].transpose(1, 2),
                known[rows, :, columns[:, :1]].transpose(1, 2),
                penalty=penalty,
            )
            solution.weights[rows, :, columns] = part.weights.transpose(1, 2)
            solution.intercept[rows, :, columns] = part.intercept.transpose(1, 2)
            solution.left_out[rows, :, columns] = part.left_out.transpose(1, 2)
        return solution


def equal_columns(mask: BoolArray) -> list[NDArray[np.intp]]:
    """Returns the indices of the columns of a mask in groups of equal columns, the largest group first.

    Args:
        mask: `[num_rows, num_columns]`.
    """
    packed = np.ascontiguousarray(np.packbits(mask, axis=0).T)
    _, group_of, sizes = np.unique(packed, axis=0, return_inverse=True, return_counts=True)
    columns = np.argsort(group_of.ravel(), kind="stable")
    groups = np.split(columns, np.cumsum(sizes)[:-1])
    return sorted(groups, key=len, reverse=True)


def _solve(
    penalty: float, sizes: torch.Tensor, inputs: torch.Tensor, residual: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Solves the ridge regressions of several shards at once, by the smaller of the two Gram matrices.

    Shards have different numbers of records. All are padded to n, the largest number. d is the number of features.

    Args:
        penalty: the penalty, relative to the mean squared length of a shard's inputs.
        sizes: the number of records of each shard, `[num_shards, 1, 1]`.
        inputs: the centered inputs, 0 for padding, `[num_shards, n, d]`.
        residual: the labels minus their prevalence, 0 for padding, `[num_shards, n, num_labels]`.

    Returns:
        The weights `[num_shards, d, num_labels]`, and the leave-one-out residuals `[num_shards, n, num_labels]`.
    """
    by_record = inputs.shape[1] <= inputs.shape[2]
    transposed = inputs.transpose(1, 2)
    gram = inputs @ transposed if by_record else transposed @ inputs
    diagonal = gram.diagonal(dim1=1, dim2=2)
    mean_square = diagonal.sum(dim=1)[:, None, None] / sizes
    penalties = penalty * torch.where(mean_square > 0, mean_square, torch.ones_like(mean_square))
    diagonal.add_(penalties[:, 0])  # `diagonal` is a view, so this adds to `gram`
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
    # one minus the leverage, in which the intercept has 1/n
    if by_record:
        dual = inverse @ residual
        weights = transposed @ dual
        fit_residual = penalties * dual
        one_minus_leverage = penalties * inverse.diagonal(dim1=1, dim2=2)[..., None] - 1 / sizes
    else:
        weights = inverse @ (transposed @ residual)
        fit_residual = torch.baddbmm(residual, inputs, weights, alpha=-1)
        one_minus_leverage = (
            1 - (inputs @ inverse).mul_(inputs).sum(dim=2, keepdim=True) - 1 / sizes
        )
    one_minus_leverage.clamp_min_(_LEAST_ONE_MINUS_LEVERAGE)
    return weights, fit_residual.div_(one_minus_leverage)  # Allen, 1974


def _best_thresholds(scores: torch.Tensor, stack: PaddedBatch) -> torch.Tensor:
    """Returns the threshold of each shard, out of 0.02, 0.03, …, 0.98, with the best leave-one-out micro-F1.

    If several thresholds are equally good, the one nearest to 0.5 is returned.

    Args:
        scores: the leave-one-out scores, `[num_shards, n, num_labels]`.
        stack: the records of the shards, padded to n records each.
    """
    num_shards = len(scores)
    device = scores.device
    bins = (scores * _THRESHOLD_STEPS).clamp_(0, _THRESHOLD_STEPS - 1).long()
    bins += _THRESHOLD_STEPS * torch.arange(num_shards, device=device)[:, None, None]

    def sums_from_step(weights: torch.Tensor) -> torch.Tensor:
        """Returns the sum of the weights of all scores >= step / 100 for each step, `[num_shards, 100]`."""
        sums = torch.bincount(
            bins.flatten(), weights.flatten(), minlength=_THRESHOLD_STEPS * num_shards
        )
        return sums.view(num_shards, _THRESHOLD_STEPS).flip(1).cumsum(1).flip(1)

    is_counted = stack.mask if stack.known is None else stack.known
    num_predicted = sums_from_step(is_counted.expand_as(scores))
    num_right = sums_from_step(stack.labels)
    micro_f1 = 2 * num_right / (num_predicted + num_right[:, :1]).clamp_min(1)
    steps = torch.arange(_LOWEST_STEP, _HIGHEST_STEP + 1, device=device)
    ranked = micro_f1[:, steps] - 1e-9 * (steps - _THRESHOLD_STEPS // 2).abs()
    return steps[ranked.argmax(dim=1)].to(scores.dtype) / _THRESHOLD_STEPS


def require_penalties(penalties: Any) -> None:
    """Raises `InvalidValue` unless `penalties` is a list or tuple of at least one number, each > 0."""
    is_list = isinstance(penalties, (tuple, list)) and len(penalties) > 0
    require(is_list, "penalties", penalties, "a list of numbers > 0")
    for penalty in penalties:
        require_positive("penalties", penalty)


class LinearModel(FlatModel):
    """A trained student with the probabilities `inputs @ weights + bias`, clipped to [0, 1]."""

    kind: ClassVar[str] = "linear"
    forms: ClassVar[Mapping[str, str]] = {"weights": "dL", "bias": "L"}

    @classmethod
    def constant(cls, labels: ArrayLike, inputs: Float32Array) -> LinearModel:
        """Returns a model that predicts the same labels for every input.

        Every recipe of a student returns such a model if it has too few rows to learn from.

        Args:
            labels: the label bits that are predicted, `[num_labels]`.
            inputs: the inputs of the training, whose shape the model takes.
        """
        shape = np.shape(inputs)[1:]
        bias = np.asarray(labels, np.float32)
        arrays = {"weights": np.zeros((math.prod(shape), len(bias)), np.float32), "bias": bias}
        return cls(arrays, threshold=0.5, input_shape=shape, num_rows=len(inputs), choices={})

    @staticmethod
    def formula(inputs: Any, arrays: Mapping[str, Any], xp: Any) -> Any:
        """Returns the probabilities `[num_rows, num_labels]` for flat inputs `[num_rows, num_features]`."""
        return (inputs @ arrays["weights"] + arrays["bias"]).clip(0, 1)


@dataclass(frozen=True)
class LinearStudent(ThresholdedStudent):
    """A recipe for a student that is a ridge regression; leave-one-out predictions choose its penalty and threshold.

    Each candidate penalty is multiplied by the mean squared distance of the inputs to their mean. So its effect does
    not depend on the unit of the inputs. The intercept is not penalized. The candidate with the least leave-one-out
    squared error over all labels is used. The threshold, one number for all labels, then maximizes the leave-one-out
    micro-F1.

    A released label set tends to miss rare labels, so the threshold becomes too high. If the mean number of labels of a
    sample is public knowledge, `labels_per_sample` determines the threshold instead.

    Attributes:
        penalties: the candidate penalties, each > 0.
        rank: the number of directions in the space of labels that the scores are projected on: the leading directions
            of the fitted scores. A small rank removes noise, which helps if the released labels have much of it. None
            does not project.
        labels_per_sample: the public mean number of labels of a sample, > 0; None uses the micro-F1.
    """

    is_scale_sensitive: ClassVar[bool] = True

    penalties: tuple[float, ...] = field(default=_PENALTIES, metadata={"public": True})
    rank: int | None = None
    labels_per_sample: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_penalties(self.penalties)

    @property
    def ceiling(self) -> Student:
        """A logistic student, which suits the true labels of all private records, as these have no noise."""
        from pate.models.logistic import LogisticStudent  # which imports this module

        return LogisticStudent()

    def fit(
        self, inputs: Float32Array, labels: BoolArray, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> LinearModel:
        """Fits the model in closed form, without randomness; reports once its mean leave-one-out squared error."""
        return self.fit_known(TrainingSet(inputs, labels), seed=seed, on_epoch=on_epoch)

    def fit_known(
        self, training: TrainingSet, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> LinearModel:
        """Fits the model as `fit` does, each label to the rows for which it is known."""
        inputs = training.inputs
        rows, labels = require_rows(inputs, training.labels, seed)
        if len(rows) < 2:  # predicts the labels of the only row, or none
            return LinearModel.constant(labels.any(axis=0), inputs)
        known = training.known
        ridge: _RidgePath | _RidgePaths = (
            _RidgePath(rows, labels) if known is None else _RidgePaths(rows, labels, known)
        )
        errors = [ridge.squared_error(penalty) for penalty in self.penalties]
        penalty = self.penalties[int(np.argmin(errors))]
        held_out = ridge.left_out_scores(penalty)
        weights = ridge.weights(penalty)
        intercept = ridge.intercept(weights)
        if self.rank is not None:
            projection = ridge.leading_label_directions(weights, self.rank)
            weights = weights @ projection
            held_out = held_out @ projection
        probabilities = (held_out + intercept).clip(0, 1)
        # where a label is unknown, it is never predicted
        threshold = self._place(probabilities if known is None else probabilities * known, labels)
        if self.labels_per_sample is not None:
            threshold = matched_threshold(probabilities, self.labels_per_sample)
        if on_epoch is not None:
            on_epoch(0, {"loss": min(errors)})
        bias = intercept - ridge.center @ weights
        return LinearModel(
            arrays={"weights": weights.astype(np.float32), "bias": bias.astype(np.float32)},
            threshold=threshold,
            input_shape=np.shape(inputs)[1:],
            num_rows=len(rows),
            choices={"penalty": float(penalty)},
        )


class _RidgePath:
    """The ridge regressions of all candidate penalties, computed from one singular value decomposition.

    n is the number of rows and d the number of features. The centered rows are U diag(s) V^T. With a penalty, the part
    of the labels along singular direction i is multiplied by s_i^2 / (s_i^2 + penalty * u), where u is the mean squared
    distance of the rows to their mean.
    """

    def __init__(self, rows: Float32Array, labels: BoolArray) -> None:
        self.center = rows.mean(axis=0, dtype=np.float64)  # [d]
        self.prevalence = labels.mean(axis=0)  # [num_labels]
        self._residual = np.asarray(labels - self.prevalence)  # [n, num_labels]
        self._left, self._singular, self._right = np.linalg.svd(
            rows - self.center, full_matrices=False
        )
        self._square = self._singular**2
        self._projected = self._left.T @ self._residual
        # the unit of penalties: the mean squared distance of the rows to their mean, 1 if all are equal
        self._unit = self._square.sum() / len(rows) or 1.0

    def left_out_scores(self, penalty: float) -> FloatArray:
        """Returns the leave-one-out score of each row minus the prevalence of each label, `[n, num_labels]`."""
        shrinkage = self._square / (self._square + penalty * self._unit)
        fitted = self._left @ (shrinkage[:, None] * self._projected)
        # Left out, a row's residual is its residual over 1 - its leverage, which is the diagonal of
        # U diag(shrinkage) U^T + 1/n (Allen, 1974).
        one_minus_leverage = 1 - self._left**2 @ shrinkage - 1 / len(self._left)
        one_minus_leverage = np.maximum(one_minus_leverage, _LEAST_ONE_MINUS_LEVERAGE)[:, None]
        return np.asarray(self._residual - (self._residual - fitted) / one_minus_leverage)

    def squared_error(self, penalty: float) -> float:
        """Returns the mean over rows and labels of the leave-one-out squared error, for one penalty."""
        return float(np.square(self._residual - self.left_out_scores(penalty)).mean())

    def weights(self, penalty: float) -> FloatArray:
        """Returns the weights of the regression on all rows, `[d, num_labels]`, for one penalty."""
        singular = self._singular
        inverse = np.divide(1, singular, out=np.zeros_like(singular), where=singular > 0)
        factors = self._square / (self._square + penalty * self._unit) * inverse
        return np.asarray(self._right.T @ (factors[:, None] * self._projected))

    def intercept(self, weights: FloatArray) -> FloatArray:
        """Returns the score of each label at the center, which is its prevalence for any weights, `[num_labels]`."""
        return np.asarray(self.prevalence)

    def leading_label_directions(self, weights: FloatArray, rank: int) -> FloatArray:
        """Returns the projection on the leading directions of the fitted scores, `[num_labels, num_labels]`.

        Args:
            weights: the weights of the regression, `[d, num_labels]`.
            rank: the number of leading directions.
        """
        scores = (self._left * self._singular) @ (self._right @ weights)
        return _leading_directions(scores, rank, has_label=self.prevalence > 0)


class _RidgePaths:
    """The ridge regressions of labels with gaps: one path for the labels that are known for the same rows.

    All have one center, the mean of all rows, beside the means of the rows that they are fitted to. A label that is
    known for no row has the score 0.
    """

    def __init__(self, rows: Float32Array, labels: BoolArray, known: BoolArray) -> None:
        self.center = rows.mean(axis=0, dtype=np.float64)  # [d]
        self._centered = np.asarray(rows - self.center)
        self._labels = labels
        self._known = known
        self._groups = [group for group in equal_columns(known) if known[:, group[0]].any()]
        self._paths = [
            _RidgePath(rows[known[:, group[0]]], labels[known[:, group[0]]][:, group])
            for group in self._groups
        ]

    def left_out_scores(self, penalty: float) -> FloatArray:
        """Returns the score of each row minus the intercept of each label, `[n, num_labels]`.

        The score of a row for which a label is known is that of a model without the row. Other rows are not in the
        label's model, whose score it is.
        """
        weights = self.weights(penalty)
        scores = self._centered @ weights
        intercept = self.intercept(weights)
        for path, group in zip(self._paths, self._groups, strict=True):
            cells = np.ix_(np.flatnonzero(self._known[:, group[0]]), group)
            scores[cells] = path.left_out_scores(penalty) + path.prevalence - intercept[group]
        return np.asarray(scores)

    def squared_error(self, penalty: float) -> float:
        """Returns the mean over known labels of the leave-one-out squared error, for one penalty."""
        num_cells = [
            np.count_nonzero(self._known[:, group[0]]) * len(group) for group in self._groups
        ]
        errors = [path.squared_error(penalty) for path in self._paths]
        return float(np.average(errors, weights=num_cells)) if errors else 0.0

    def weights(self, penalty: float) -> FloatArray:
        """Returns the weights of the regressions, `[d, num_labels]`, for one penalty."""
        weights = np.zeros((len(self.center), self._labels.shape[1]))
        for path, group in zip(self._paths, self._groups, strict=True):
            weights[:, group] = path.weights(penalty)
        return weights

    def intercept(self, weights: FloatArray) -> FloatArray:
        """Returns the score of each label at the mean of all rows, `[num_labels]`."""
        intercept = np.zeros(self._labels.shape[1])
        for path, group in zip(self._paths, self._groups, strict=True):
            intercept[group] = path.prevalence + (self.center - path.center) @ weights[:, group]
        return intercept

    def leading_label_directions(self, weights: FloatArray, rank: int) -> FloatArray:
        """Returns the projection on the leading directions of the scores of all rows; see `_RidgePath`."""
        return _leading_directions(
            self._centered @ weights, rank, has_label=np.asarray(self._labels.any(axis=0))
        )


def _leading_directions(scores: FloatArray, rank: int, *, has_label: BoolArray) -> FloatArray:
    """Returns the projection on the leading directions of scores, `[num_labels, num_labels]`.

    Args:
        scores: the scores of rows, `[n, num_labels]`.
        rank: the number of leading directions.
        has_label: whether a row has each label, `[num_labels]`; scores of others stay 0.
    """
    directions = np.linalg.svd(scores, full_matrices=False)[2][:rank]
    return np.asarray((directions.T @ directions) * has_label)  # rounding must not lift scores of 0
