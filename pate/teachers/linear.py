"""Linear teachers: ridge regression on the label bits, all teachers and labels solved together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pate.networks.device import require_device
from pate.teachers.teacher import PaddedBatch, Shard, State, Teacher, as_rows, require_shards
from pate.validation import require_positive, require_probability

if TYPE_CHECKING:
    import torch
else:
    from pate.networks.device import torch

_STEPS = 100  # thresholds are whole hundredths
_LOWEST, _HIGHEST = 2, 98


def best_thresholds(scores: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """For each shard, the threshold in 0.02, 0.03, …, 0.98 with the best micro-F1, of equals that nearest 0.5.

    Args:
        scores: float64 `[num_shards, n, num_labels]`, held-out scores.
        labels: 0 or 1, of the same shape; 0 in padded rows.
        mask: `[num_shards, n, 1]`, 1 for a record and 0 for padding.

    Returns:
        `[num_shards]`, of the dtype of the scores.
    """
    num_shards = len(scores)
    bins = (scores * _STEPS).clamp_(0, _STEPS - 1).long()
    bins += _STEPS * torch.arange(num_shards, device=scores.device)[:, None, None]

    def at_least(weights: torch.Tensor) -> torch.Tensor:
        counts = torch.bincount(bins.flatten(), weights.flatten(), minlength=_STEPS * num_shards)
        return counts.view(num_shards, _STEPS).flip(1).cumsum(1).flip(1)  # scores >= step / 100

    voted, right = at_least(mask.expand_as(scores)), at_least(labels)
    micro_f1 = 2 * right / (voted + right[:, :1]).clamp_min(1)
    steps = torch.arange(_LOWEST, _HIGHEST + 1, device=scores.device)
    ranked = micro_f1[:, steps] - 1e-9 * (steps - _STEPS // 2).abs()
    return steps[ranked.argmax(dim=1)].to(scores.dtype) / _STEPS


_SMALLEST_SLACK = 1e-9  # of 1 - leverage; reached only by a shard of one record


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
        penalty: > 0.
        threshold: a fixed threshold in (0, 1) for all teachers, or None for each teacher's own.
        device: "auto" (the GPU where there is one), "cpu" or "cuda".

    Raises:
        InvalidValue: a penalty, threshold or device outside these ranges.
    """

    penalty: float = 0.5
    threshold: float | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        require_positive("penalty", self.penalty)
        if self.threshold is not None:
            require_probability("threshold", self.threshold)
        require_device(self.device)

    @property
    def minds_scale(self) -> bool:
        return True

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits in closed form; seeds play no part. The loss is the leave-one-out mean squared error."""
        require_shards(shards, seeds)
        stack = PaddedBatch.of(shards, require_device(self.device), torch.float64)
        center, prevalence = stack.mean(stack.inputs), stack.mean(stack.labels)
        inputs = (stack.inputs - center).mul_(stack.mask)
        residual = (stack.labels - prevalence).mul_(stack.mask)
        weights, held_out = _solve(self.penalty, stack.sizes, inputs, residual)
        if self.threshold is None:
            thresholds = best_thresholds(stack.labels - held_out, stack.labels, stack.mask)
        else:
            thresholds = torch.full((len(shards),), self.threshold, dtype=weights.dtype, device=weights.device)
        bias = prevalence - center @ weights + (0.5 - thresholds)[:, None, None]
        losses = stack.mean(held_out * held_out).mean(dim=(1, 2))
        named = {"weights": weights, "bias": bias[:, 0], "threshold": thresholds, "loss_curve": losses[:, None]}
        arrays = {name: tensor.float().cpu().numpy() for name, tensor in named.items()}
        return [{name: np.array(array[row]) for name, array in arrays.items()} for row in range(len(shards))]

    def predict_many(self, states: Sequence[State], inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores with the threshold moved to 0.5, clipped to [0, 1]."""
        device = require_device(self.device)
        weights = torch.from_numpy(np.stack([state["weights"] for state in states])).to(device)
        bias = torch.from_numpy(np.stack([state["bias"] for state in states])).to(device)
        scores = torch.from_numpy(as_rows(inputs)).to(device) @ weights + bias[:, None]
        confidences: NDArray[np.float32] = scores.clamp_(0, 1).cpu().numpy()
        return confidences


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
