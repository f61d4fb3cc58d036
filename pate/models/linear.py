"""Linear teachers, all solved together, and linear students: by squares in closed form, or by the logistic loss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.device import require_device, torch
from pate.models.networks.network import require_settings
from pate.models.student import (
    FlatModel,
    Labels,
    OnEpoch,
    Rows,
    ThresholdedStudent,
    matched_threshold,
    require_rows,
)
from pate.models.teacher import PaddedBatch, Shard, State, Teacher, as_rows, require_shards
from pate.pool import in_order
from pate.validation import require, require_positive, require_probability

Floats = NDArray[np.float64]

_STEPS = 100  # thresholds are whole hundredths
_LOWEST = 2
_HIGHEST = 98
_SMALLEST_SLACK = 1e-9  # of 1 - leverage; reached only by a shard of one record
_PENALTIES = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
_LOGISTIC_PENALTIES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
_SMALLEST_VARIANCE = 1e-9  # of the largest one
_LEAST_FREQUENCY = 1e-4  # where the search begins
_SEARCH = {"maxiter": 100, "ftol": 1e-6}
_BLOCK_ROWS = 2**14  # that are centered or made white at once
_MANY_ROWS = 2**16  # as many choose, and as many are in a product of a loss
_FEWEST_ROWS = 10


def _best_thresholds(scores: torch.Tensor, stack: PaddedBatch) -> torch.Tensor:
    """For each shard, the threshold in 0.02, 0.03, …, 0.98 with the best held-out micro-F1, of equals nearest 0.5."""
    count = len(scores)
    device = scores.device
    bins = (scores * _STEPS).clamp_(0, _STEPS - 1).long()
    bins += _STEPS * torch.arange(count, device=device)[:, None, None]

    def at_least(weights: torch.Tensor) -> torch.Tensor:
        counts = torch.bincount(bins.flatten(), weights.flatten(), minlength=_STEPS * count)
        return counts.view(count, _STEPS).flip(1).cumsum(1).flip(1)  # scores >= step / 100

    voted = at_least(stack.mask.expand_as(scores))
    right = at_least(stack.labels)
    micro_f1 = 2 * right / (voted + right[:, :1]).clamp_min(1)
    steps = torch.arange(_LOWEST, _HIGHEST + 1, device=device)
    ranked = micro_f1[:, steps] - 1e-9 * (steps - _STEPS // 2).abs()
    return steps[ranked.argmax(dim=1)].to(scores.dtype) / _STEPS


@dataclass(frozen=True)
class LinearTeacher(Teacher):
    """Ridge regression with an intercept, and a threshold that each teacher finds on its own records.

    Minimizes, for each label, the squared error on the bits plus
    `penalty * s * ||weights||^2`, where s is the mean squared distance of the teacher's records to their
    mean: the penalty means the same whatever the unit of the inputs. The intercept is not penalized.

    A label held by 2% of the records hardly ever reaches a score of 0.5. So each teacher has its own threshold: one
    number for all labels, from 0.02 to 0.98 in steps of 0.01. It is the one with the best micro-F1 of the teacher's
    leave-one-out predictions (in closed form from the leverages), and is folded into the intercept.

    Edge cases: a label that no (every) record of a shard has is never (always) voted for; a shard without
    any label, or of one record, keeps the threshold 0.5.

    Attributes:
        penalty: of the ridge regression, > 0: more keeps the weights smaller.
        threshold: a fixed threshold in (0, 1) for all teachers, or None for each teacher's own.
        device: "auto" (the GPU where there is one), "cpu" or "cuda".
    """

    penalty: float = 0.5
    threshold: float | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        require_settings(self)
        if self.threshold is not None:
            require_probability("threshold", self.threshold)

    @property
    def minds_scale(self) -> bool:
        """True where inputs of very different widths make it worse."""
        return True

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits in closed form; seeds play no part. The loss is the leave-one-out mean squared error."""
        require_shards(shards, seeds)
        stack = PaddedBatch(shards, require_device(self.device), torch.float64)
        center = stack.mean(stack.inputs)
        prevalence = stack.mean(stack.labels)
        inputs = (stack.inputs - center).mul_(stack.mask)
        residual = (stack.labels - prevalence).mul_(stack.mask)
        weights, held_out = _solve(self.penalty, stack.sizes, inputs, residual)
        if self.threshold is None:
            thresholds = _best_thresholds(stack.labels - held_out, stack)
        else:
            thresholds = torch.full(
                (len(shards),), self.threshold, dtype=weights.dtype, device=weights.device
            )
        bias = prevalence - center @ weights + (0.5 - thresholds)[:, None, None]
        losses = stack.mean(held_out * held_out).mean(dim=(1, 2))
        named = {
            "weights": weights,
            "bias": bias[:, 0],
            "threshold": thresholds,
            "loss_curve": losses[:, None],
        }
        arrays = {name: tensor.float().cpu().numpy() for name, tensor in named.items()}
        return [
            {name: np.array(array[row]) for name, array in arrays.items()}
            for row in range(len(shards))
        ]

    def predict_many(
        self, states: Sequence[State], inputs: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Scores with the threshold moved to 0.5, clipped to [0, 1]."""
        device = require_device(self.device)
        weights = torch.from_numpy(np.stack([state["weights"] for state in states])).to(device)
        bias = torch.from_numpy(np.stack([state["bias"] for state in states])).to(device)
        scores = torch.from_numpy(as_rows(inputs)).to(device) @ weights + bias[:, None]
        return np.asarray(scores.clamp_(0, 1).cpu().numpy())


def _solve(
    penalty: float, sizes: torch.Tensor, inputs: torch.Tensor, residual: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Ridge weights `[num_shards, d, num_labels]` and leave-one-out residuals `[num_shards, n, num_labels]`.

    Works with the smaller of the two Gram matrices of the centered inputs. A record's leave-one-out residual
    is its residual over one minus its leverage (Allen, 1974), the intercept's leverage 1/n included.
    """
    by_record = inputs.shape[1] <= inputs.shape[2]
    transposed = inputs.transpose(1, 2)
    gram = inputs @ transposed if by_record else transposed @ inputs
    diagonal = gram.diagonal(dim1=1, dim2=2)
    mean_square = diagonal.sum(dim=1)[:, None, None] / sizes
    penalties = penalty * torch.where(mean_square > 0, mean_square, torch.ones_like(mean_square))
    diagonal.add_(penalties[:, 0])
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
    if by_record:
        dual = inverse @ residual
        weights = transposed @ dual
        left = penalties * dual
        slack = penalties * inverse.diagonal(dim1=1, dim2=2)[..., None] - 1 / sizes
    else:
        weights = inverse @ (transposed @ residual)
        left = torch.baddbmm(residual, inputs, weights, alpha=-1)
        slack = 1 - (inputs @ inverse).mul_(inputs).sum(dim=2, keepdim=True) - 1 / sizes
    return weights, left.div_(slack.clamp_min_(_SMALLEST_SLACK))


def require_penalties(penalties: Any) -> None:
    """Raises unless there is at least one penalty, each > 0."""
    good = isinstance(penalties, (tuple, list)) and len(penalties) > 0
    require(good, "penalties", penalties, "a list of numbers > 0")
    for penalty in penalties:
        require_positive("penalties", penalty)


class LinearModel(FlatModel):
    """Scores `inputs @ weights + bias`, clipped to [0, 1]."""

    kind = "linear"
    forms: ClassVar[Mapping[str, str]] = {"weights": "dL", "bias": "L"}

    @classmethod
    def constant(cls, said: Any, inputs: Rows) -> LinearModel:
        """What any student is of too few rows: these labels, `[L]`, for every input."""
        shape = np.shape(inputs)[1:]
        arrays = {
            "weights": np.zeros((math.prod(shape), len(said)), np.float32),
            "bias": said.astype(np.float32),
        }
        return cls(arrays, 0.5, shape, len(inputs), {})

    @staticmethod
    def formula(rows: Any, arrays: Mapping[str, Any], xp: Any) -> Any:
        """The rule of prediction, in words for a model card."""
        return (rows @ arrays["weights"] + arrays["bias"]).clip(0, 1)


@dataclass(frozen=True)
class LinearStudent(ThresholdedStudent):
    """Ridge regression on the label bits, its penalty and threshold chosen by leaving one row out.

    The penalty of each candidate is multiplied by the mean squared distance of the inputs to their mean, so it means
    the same whatever their unit; the intercept is not penalized. The one with the least leave-one-out squared error
    over all labels wins. The threshold, one for all labels, is then that of the best leave-one-out micro-F1.

    A released label set tends to miss rare labels, which pulls the threshold up. Where the mean number of
    labels of a sample is public knowledge, `labels_per_sample` places the threshold instead.

    Attributes:
        penalties: candidates, each > 0.
        rank: number of directions in the space of labels that the scores are confined to, the leading ones of the
            fitted scores. None for all. A small rank takes noise out of labels released with much of it.
        labels_per_sample: public mean number of labels per sample, > 0, or None to use the micro-F1.
    """

    minds_scale: ClassVar[bool] = True

    penalties: tuple[float, ...] = field(default=_PENALTIES, metadata={"public": True})
    rank: int | None = None
    labels_per_sample: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_penalties(self.penalties)

    @property
    def ceiling(self) -> LogisticStudent:
        """Returns a student for the labels of all private records, which have no noise."""
        return LogisticStudent()

    def fit(
        self, inputs: Rows, labels: Labels, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> LinearModel:
        """Nothing is random; the one loss reported is the leave-one-out squared error."""
        rows, labels = require_rows(inputs, labels, seed)
        if len(rows) < 2:  # the one row's labels, or none
            return LinearModel.constant(labels.any(axis=0), inputs)
        # [d], [num_labels]
        center = rows.mean(axis=0, dtype=np.float64)
        prevalence = labels.mean(axis=0)
        residual = np.asarray(labels - prevalence)  # [n, num_labels]
        left, singular, right = np.linalg.svd(rows - center, full_matrices=False)
        square = singular**2
        projected = left.T @ residual
        unit = square.sum() / len(rows) or 1.0

        def left_out(penalty: float) -> Floats:
            """Each row's scores minus the prevalence when it is left out, `[n, num_labels]` (Allen, 1974)."""
            # what each singular direction keeps, in [0, 1]
            shrinkage = square / (square + penalty * unit)
            fitted = left @ (shrinkage[:, None] * projected)
            # Left out, a row's residual is its residual over 1 - its leverage, the diagonal of U diag(shrinkage) U^T
            # + 1/n.
            slack = 1 - left**2 @ shrinkage - 1 / len(rows)
            return np.asarray(
                residual - (residual - fitted) / np.maximum(slack, _SMALLEST_SLACK)[:, None]
            )

        errors = [
            float(np.square(residual - left_out(penalty)).mean()) for penalty in self.penalties
        ]
        penalty = self.penalties[int(np.argmin(errors))]
        held_out = left_out(penalty)
        inverse = np.divide(1, singular, out=np.zeros_like(singular), where=singular > 0)
        weights = right.T @ ((square / (square + penalty * unit) * inverse)[:, None] * projected)
        if self.rank is not None:  # in the leading directions of the fitted scores
            directions = np.linalg.svd((left * singular) @ (right @ weights), full_matrices=False)[
                2
            ][: self.rank]
            projection = directions.T @ directions * (prevalence > 0)  # rounding must not lift 0
            weights = weights @ projection
            held_out = held_out @ projection
        probabilities = (held_out + prevalence).clip(0, 1)
        threshold = self._place(probabilities, labels)
        if self.labels_per_sample is not None:
            threshold = matched_threshold(probabilities, self.labels_per_sample)
        if on_epoch is not None:
            on_epoch(0, {"loss": min(errors)})
        arrays = {
            "weights": weights.astype(np.float32),
            "bias": (prevalence - center @ weights).astype(np.float32),
        }
        return LinearModel(
            arrays, threshold, np.shape(inputs)[1:], len(rows), {"penalty": float(penalty)}
        )


class LogisticModel(FlatModel):
    """Probabilities `expit(inputs @ weights + bias)`; 0 for a label that no row has."""

    kind = "logistic"
    forms: ClassVar[Mapping[str, str]] = {"weights": "dL", "bias": "L"}

    @staticmethod
    def formula(rows: Any, arrays: Mapping[str, Any], xp: Any) -> Any:
        """The rule of prediction, in words for a model card."""
        return FlatModel.logistic(rows @ arrays["weights"] + arrays["bias"])


@dataclass(frozen=True)
class LogisticStudent(ThresholdedStudent):
    """Logistic regression of every label at once, its penalty and threshold chosen on a fifth of the rows.

    Rule: L-BFGS on the mean logistic loss plus `penalty / 2` times the squared weights, in units of the inputs' spread
    and in the coordinates in which the inputs are white, where the search is short. Penalties are tried from the
    largest down until the held-out loss grows; all rows then fit the best one, and the threshold, one for all labels,
    is that of the best held-out micro-F1. Of more than 65,536 rows so many, drawn at random, choose.

    Attributes:
        penalties: candidates, each > 0.
        held_out: share of the rows that choose, in (0, 1).
    """

    penalties: tuple[float, ...] = field(default=_LOGISTIC_PENALTIES, metadata={"public": True})
    held_out: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        require_penalties(self.penalties)
        require(
            0 < require_positive("held_out", self.held_out) < 1,
            "held_out",
            self.held_out,
            "a number in (0, 1)",
        )

    def fit(
        self, inputs: Rows, labels: Labels, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> FlatModel:
        """Random is which rows choose; the one loss reported is theirs."""
        rows, labels = require_rows(inputs, labels, seed)
        if len(rows) < _FEWEST_ROWS:  # the labels that most of a few rows have, or none
            return LinearModel.constant(2 * labels.sum(axis=0) > len(rows), inputs)
        order = np.random.default_rng(seed).permutation(len(rows))
        white = _White(rows)
        features = white.features(rows, order)
        labels = labels[order]
        num = max(1, round(self.held_out * len(features[:_MANY_ROWS])))
        # by which the penalty is chosen, the others of the first ones fit
        sample = features[:num]
        true = labels[:num]
        frequency = labels[:_MANY_ROWS].mean(axis=0).clip(_LEAST_FREQUENCY, 1 - _LEAST_FREQUENCY)
        best = math.inf
        weights = np.zeros((features.shape[1], labels.shape[1]))
        weights[-1] = np.log(frequency / (1 - frequency))
        for penalty in sorted(self.penalties, reverse=True):
            weights = white.fit(features[num:_MANY_ROWS], labels[num:_MANY_ROWS], penalty, weights)
            scores = sample @ weights.astype(np.float32)
            loss = float((np.logaddexp(0, scores) - scores * true).mean())
            if loss >= best < math.inf:
                break
            best = loss
            chosen = (penalty, weights, FlatModel.logistic(scores))
        penalty, weights, probabilities = chosen
        threshold = self._place(probabilities, true)
        weights = white.fit(features, labels, penalty, weights)
        if on_epoch is not None:
            on_epoch(0, {"loss": best})
        of_inputs = white.directions @ weights[:-1]
        never = np.where(labels.any(axis=0), 0.0, -np.inf)
        bias = weights[-1] - white.center @ of_inputs + never
        arrays = {"weights": of_inputs.astype(np.float32), "bias": bias.astype(np.float32)}
        return LogisticModel(
            arrays, threshold, np.shape(inputs)[1:], len(rows), {"penalty": float(penalty)}
        )


class _White:
    """The coordinates in which the inputs have spread 1 in every direction, and a constant beside them."""

    def __init__(self, rows: Rows) -> None:
        center = self.center = rows.mean(axis=0, dtype=np.float64)  # [d]
        # X X^T and X^T X have the same eigenvalues > 0: take the smaller matrix
        wide = rows.shape[1] > len(rows)
        if wide:
            centered = rows - center
            squares = centered @ centered.T
        else:

            def squares_of(block: Rows) -> Floats:
                centered = block - center
                return np.asarray(centered.T @ centered)

            blocks = np.split(rows, range(_BLOCK_ROWS, len(rows), _BLOCK_ROWS))
            squares = sum(in_order(squares_of, blocks))
        variances, directions = np.linalg.eigh(squares / len(rows))
        has_variance = variances > _SMALLEST_VARIANCE * max(
            variances[-1], np.finfo(np.float64).tiny
        )
        spread = variances[has_variance]
        directions = directions[:, has_variance]
        if wide:
            # X^T u / |X^T u|, the other one's
            directions = centered.T @ directions / np.sqrt(len(rows) * spread)
        # [d, r], from centered inputs to white ones
        self.directions = np.asarray(directions / np.sqrt(spread))
        # [r + 1, 1], what a squared weight counts for in the penalty; 0 for the constant
        self.penalized = np.append(spread.sum() / spread, 0.0)[:, None]

    def features(self, rows: Rows, order: NDArray[np.intp]) -> Rows:
        """White coordinates and the constant 1, `[n, r + 1]`, of the rows in an order; at no time a second copy."""
        solution = np.ones((len(rows), len(self.penalized)), np.float32)
        center = self.center.astype(np.float32)
        directions = self.directions.astype(np.float32)

        def fill(block: slice) -> None:
            solution[block, :-1] = (rows[order[block]] - center) @ directions

        blocks = (slice(start, start + _BLOCK_ROWS) for start in range(0, len(rows), _BLOCK_ROWS))
        for _ in in_order(fill, blocks):
            pass
        return solution

    def fit(self, features: Rows, labels: Labels, penalty: float, start: Floats) -> Floats:
        """The weights `[r + 1, L]` of the least penalized loss, searched from others."""
        from scipy.optimize import minimize  # loads slowly

        penalized = penalty * self.penalized
        frequency = labels.mean(axis=0).clip(_LEAST_FREQUENCY, 1 - _LEAST_FREQUENCY)
        # White inputs have the second moment 1, so the loss bends by about f (1 - f) + penalty in a label's weights:
        # in units of that curvature's root all weights are alike, and the search takes a fifth of the steps.
        units = 1 / np.sqrt(frequency * (1 - frequency) + penalized)
        bits = labels.astype(np.float32)

        def loss(flat: Floats) -> tuple[float, Floats]:
            """The penalized mean loss and its gradient at weights given in one row, in units of theirs."""
            weights = flat.reshape(units.shape) * units
            narrow = weights.astype(np.float32)

            def of_block(start: int) -> tuple[float, Rows]:
                """The loss and the gradient of some rows."""
                rows = features[start : start + _MANY_ROWS]
                true = bits[start : start + _MANY_ROWS]
                scores = rows @ narrow
                small = np.exp(-np.abs(scores))
                # log(1 + e^z) = max(z, 0) + log(1 + e^-|z|), which does not overflow; its derivative is expit(z)
                losses = np.maximum(scores, 0) + np.log1p(small) - scores * true
                slopes = np.where(scores >= 0, 1, small) / (1 + small) - true
                return float(losses.sum(dtype=np.float64)), np.asarray(rows.T @ slopes)

            loss = 0.0
            gradient = np.zeros(weights.shape, np.float32)
            blocks = range(0, len(bits), _MANY_ROWS)  # so that working copies stay small
            for of_rows, slope_of_rows in in_order(of_block, blocks):
                loss += of_rows
                gradient += slope_of_rows
            total = loss / len(bits) + (penalized * weights**2).sum() / 2
            slope = gradient / len(bits) + penalized * weights
            return float(total), np.asarray(slope * units, dtype=np.float64).ravel()

        optimum = minimize(
            loss, (start / units).ravel(), jac=True, method="L-BFGS-B", options=_SEARCH
        )
        return np.asarray(optimum.x.reshape(start.shape) * units)
