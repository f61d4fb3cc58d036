"""Teachers that are ridge regressions in closed form, all solved together.

A *leave-one-out* residual is the error on a record of a model that was fitted without that record. It needs no second
fit: it equals the record's residual divided by one minus the record's leverage (Allen, 1974).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.array_types import Float32Array
from pate.device import require_device, torch
from pate.models.hyperparameters import require_settings
from pate.models.label_groups import LabelGroup, label_groups
from pate.models.ridge_paths import MIN_ONE_MINUS_LEVERAGE
from pate.models.shards import PaddedBatch, Shard, as_rows, require_shards
from pate.models.teacher import State, Teacher
from pate.validation import require_probability

# Thresholds are whole hundredths, from 0.02 to 0.98.
_THRESHOLD_STEPS = 100
_LOWEST_THRESHOLD_STEP = 2
_HIGHEST_THRESHOLD_STEP = 98
# What a step of distance to 0.5 takes from the micro-F1 of a threshold, so that the nearest of equally good ones wins.
_TIE_BREAK = 1e-9


@dataclass(frozen=True)
class LinearTeacher(Teacher):
    """A recipe for teachers that are ridge regressions with an intercept and a threshold of their own.

    For each label, a teacher minimizes the sum of the squared errors on the label bits plus
    `penalty * s * ||weights||^2`. The sum runs over the records for which the label is known, and s is the mean squared
    distance of these records' inputs to their mean. So the effect of the penalty does not depend on the unit of the
    inputs. The intercept is not penalized.

    The scores for a label that 2% of the records have rarely reach 0.5. So each teacher has its own threshold, one
    number for all labels out of 0.02, 0.03, …, 0.98. The threshold maximizes the micro-F1 of the teacher's
    leave-one-out predictions. The intercept is then shifted so that the threshold becomes 0.5.

    Edge cases: a teacher never votes for a label that none of its records has, and always for a label that all of them
    have. A teacher without any label, or with one record, chooses the threshold 0.5.

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

        The loss of a teacher is its leave-one-out mean squared error, in which an unknown label counts as no error.
        """
        require_shards(shards, seeds=seeds)
        padded_batch = PaddedBatch(shards, device=require_device(self.device), dtype=torch.float64)
        if padded_batch.known_label_mask is None:
            fits = _RidgeFits.of_complete_labels(
                inputs=padded_batch.inputs,
                labels=padded_batch.labels,
                is_used=padded_batch.record_mask,
                penalty=self.penalty,
            )
        else:
            fits = _RidgeFits.of_labels_with_gaps(
                padded_batch, known_label_mask=padded_batch.known_label_mask, penalty=self.penalty
            )
        leave_one_out_residuals = fits.leave_one_out_residuals
        if self.threshold is None:
            thresholds = _best_thresholds(
                leave_one_out_scores=padded_batch.labels - leave_one_out_residuals,
                padded_batch=padded_batch,
            )
        else:
            thresholds = torch.full(
                (len(shards),),
                self.threshold,
                dtype=leave_one_out_residuals.dtype,
                device=leave_one_out_residuals.device,
            )
        bias = fits.intercept + (0.5 - thresholds)[:, None, None]
        losses = padded_batch.mean_over_records(
            leave_one_out_residuals * leave_one_out_residuals
        ).mean(dim=(1, 2))
        tensors = {
            "weights": fits.weights,
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
        """Returns the scores of the teachers, float32 `[num_states, num_queries, num_labels]`, clipped to [0, 1].

        They are shifted so that the teacher's threshold becomes 0.5.
        """
        device = require_device(self.device)
        weights = torch.from_numpy(np.stack([state["weights"] for state in states])).to(device)
        bias = torch.from_numpy(np.stack([state["bias"] for state in states])).to(device)
        scores = torch.from_numpy(as_rows(inputs)).to(device) @ weights + bias[:, None]
        return np.asarray(scores.clamp_(min=0, max=1).cpu().numpy())


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class _RidgeFits:
    """The ridge regressions of several shards, whose records are padded to n, the number of the largest shard.

    Attributes:
        weights: `[num_shards, d, num_labels]`.
        intercept: `[num_shards, 1, num_labels]`.
        leave_one_out_residuals: `[num_shards, n, num_labels]`, leave-one-out residuals; 0 for padding and unknown
            labels.
    """

    weights: torch.Tensor
    intercept: torch.Tensor
    leave_one_out_residuals: torch.Tensor

    @classmethod
    def of_complete_labels(
        cls, *, inputs: torch.Tensor, labels: torch.Tensor, is_used: torch.Tensor, penalty: float
    ) -> _RidgeFits:
        """Returns the regressions of all labels on those records of each shard that are used.

        Args:
            inputs: the inputs of the shards' records, padded to n records each, `[num_shards, n, d]`.
            labels: the label bits of the records, `[num_shards, n, num_labels]`.
            is_used: 1 for the records that are used, `[num_shards, n, 1]`.
            penalty: the penalty, relative to the mean squared distance of a shard's used inputs to their mean.
        """
        num_used_records = is_used.sum(dim=1, keepdim=True).clamp_min(1)
        center = (inputs * is_used).sum(dim=1, keepdim=True) / num_used_records
        prevalence = (labels * is_used).sum(dim=1, keepdim=True) / num_used_records
        weights, leave_one_out_residuals = _solve(
            centered_inputs=(inputs - center).mul_(is_used),
            label_residuals=(labels - prevalence).mul_(is_used),
            num_records=num_used_records,
            penalty=penalty,
        )
        return cls(
            weights=weights,
            intercept=prevalence - center @ weights,
            leave_one_out_residuals=leave_one_out_residuals,
        )

    @classmethod
    def of_labels_with_gaps(
        cls, padded_batch: PaddedBatch, *, known_label_mask: torch.Tensor, penalty: float
    ) -> _RidgeFits:
        """Returns the regressions of labels with gaps, each on the records of a shard that know the label.

        The labels of a shard that are known for the same records share one regression. A shard takes as long as
        without gaps if each label is known for all of its records or for none. It takes up to num_labels times as long
        if each label has gaps of its own. A label that no record knows has the weights and the intercept 0.

        Args:
            padded_batch: the records of the shards, padded to n records each.
            known_label_mask: 1 for each known label, `[num_shards, n, num_labels]`.
            penalty: the penalty, relative to the mean squared distance of a regression's inputs to their mean.
        """
        num_shards, _, num_labels = padded_batch.labels.shape
        num_features = padded_batch.inputs.shape[2]
        device = known_label_mask.device
        fits = cls(
            weights=padded_batch.labels.new_zeros((num_shards, num_features, num_labels)),
            intercept=padded_batch.labels.new_zeros((num_shards, 1, num_labels)),
            leave_one_out_residuals=torch.zeros_like(padded_batch.labels),
        )
        groups_of_shards = [
            label_groups(mask_of_shard) for mask_of_shard in known_label_mask.bool().cpu().numpy()
        ]
        most_groups = max(map(len, groups_of_shards))
        for group_number in range(most_groups):
            # One batch holds group `group_number` of each shard that has so many groups.
            shard_indices = [
                shard_index
                for shard_index, groups_of_shard in enumerate(groups_of_shards)
                if len(groups_of_shard) > group_number
            ]
            label_groups_of_batch = [
                groups_of_shards[shard_index][group_number] for shard_index in shard_indices
            ]
            shard_column = torch.tensor(shard_indices, device=device)[:, None]  # [batch, 1]
            padded_indices = _pad_label_indices(groups=label_groups_of_batch)
            label_indices = torch.from_numpy(padded_indices).to(device)  # [batch, group_size]
            # Indexing by [shard_column, :, label_indices] returns [batch, group_size, n]: the last axes are swapped.
            group_fits = cls.of_complete_labels(
                inputs=padded_batch.inputs[shard_indices],
                labels=padded_batch.labels[shard_column, :, label_indices].mT,
                is_used=known_label_mask[shard_column, :, label_indices[:, :1]].mT,
                penalty=penalty,
            )
            fits.weights[shard_column, :, label_indices] = group_fits.weights.mT
            fits.intercept[shard_column, :, label_indices] = group_fits.intercept.mT
            fits.leave_one_out_residuals[shard_column, :, label_indices] = (
                group_fits.leave_one_out_residuals.mT
            )
        return fits


def _pad_label_indices(groups: Sequence[LabelGroup]) -> NDArray[np.intp]:
    """Returns the indices of the labels of groups as one matrix, `[num_groups, size of the largest group]`.

    A smaller group repeats its last label, which then is solved several times with the same result.
    """
    largest_size = max(len(group.label_indices) for group in groups)
    return np.stack(
        [
            np.pad(group.label_indices, (0, largest_size - len(group.label_indices)), mode="edge")
            for group in groups
        ]
    )


def _solve(
    *,
    centered_inputs: torch.Tensor,
    label_residuals: torch.Tensor,
    num_records: torch.Tensor,
    penalty: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Solves the ridge regressions of several shards at once, by the smaller Gram matrix: of records or of features.

    Shards have different numbers of records. All are padded to n, the largest number. d is the number of features.

    Args:
        centered_inputs: the inputs minus their mean, 0 for padding, `[num_shards, n, d]`.
        label_residuals: the labels minus their prevalence, 0 for padding, `[num_shards, n, num_labels]`.
        num_records: the number of records of each shard, `[num_shards, 1, 1]`.
        penalty: the penalty, relative to the mean squared length of a shard's centered inputs.

    Returns:
        The weights `[num_shards, d, num_labels]`, and the leave-one-out residuals `[num_shards, n, num_labels]`.
    """
    by_record = centered_inputs.shape[1] <= centered_inputs.shape[2]
    transposed = centered_inputs.mT
    gram = centered_inputs @ transposed if by_record else transposed @ centered_inputs
    diagonal = gram.diagonal(dim1=1, dim2=2)  # a view: what is added to it is added to `gram`
    mean_squared_lengths = diagonal.sum(dim=1)[:, None, None] / num_records
    # If all inputs are equal, `gram` is 0, and any penalty makes it invertible.
    ridge_penalties = penalty * torch.where(
        mean_squared_lengths > 0, mean_squared_lengths, torch.ones_like(mean_squared_lengths)
    )
    diagonal.add_(ridge_penalties[:, 0])
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
    # The leverage of a record has a part 1/n, which is the intercept's.
    if by_record:
        # With the Gram matrix K and the penalty p, the residuals y - K (K + p I)^-1 y are p (K + p I)^-1 y. So the
        # diagonal of p (K + p I)^-1 is one minus the leverage without the intercept's part.
        dual = inverse @ label_residuals
        weights = transposed @ dual
        fit_residuals = ridge_penalties * dual
        inverse_diagonal = inverse.diagonal(dim1=1, dim2=2)[..., None]
        one_minus_leverage = ridge_penalties * inverse_diagonal - 1 / num_records
    else:
        weights = inverse @ (transposed @ label_residuals)
        fit_residuals = torch.baddbmm(label_residuals, centered_inputs, weights, alpha=-1)
        leverage = (centered_inputs @ inverse).mul_(centered_inputs).sum(dim=2, keepdim=True)
        one_minus_leverage = 1 - leverage - 1 / num_records
    one_minus_leverage.clamp_min_(MIN_ONE_MINUS_LEVERAGE)
    return weights, fit_residuals.div_(one_minus_leverage)  # Allen, 1974


def _best_thresholds(leave_one_out_scores: torch.Tensor, padded_batch: PaddedBatch) -> torch.Tensor:
    """Returns the threshold of each shard, out of 0.02, 0.03, …, 0.98, with the best leave-one-out micro-F1.

    If several thresholds are equally good, the one nearest to 0.5 is returned.

    Args:
        leave_one_out_scores: the leave-one-out scores, `[num_shards, n, num_labels]`.
        padded_batch: the records of the shards, padded to n records each.
    """
    num_shards = len(leave_one_out_scores)
    device = leave_one_out_scores.device
    shard_numbers = torch.arange(num_shards, device=device)[:, None, None]
    steps_of_scores = (
        (leave_one_out_scores * _THRESHOLD_STEPS).clamp_(min=0, max=_THRESHOLD_STEPS - 1).long()
    )
    score_bins = steps_of_scores + _THRESHOLD_STEPS * shard_numbers
    counted_label_mask = (
        padded_batch.record_mask
        if padded_batch.known_label_mask is None
        else padded_batch.known_label_mask
    )
    num_predicted = _sums_from_step(
        score_bins,
        score_weights=counted_label_mask.expand_as(leave_one_out_scores),
        num_shards=num_shards,
    )
    num_true_positives = _sums_from_step(
        score_bins, score_weights=padded_batch.labels, num_shards=num_shards
    )
    num_present_labels = num_true_positives[:, :1]  # every score reaches the step 0
    micro_f1 = 2 * num_true_positives / (num_predicted + num_present_labels).clamp_min(1)
    steps = torch.arange(_LOWEST_THRESHOLD_STEP, _HIGHEST_THRESHOLD_STEP + 1, device=device)
    f1_by_shard_and_step = micro_f1[:, steps] - _TIE_BREAK * (steps - _THRESHOLD_STEPS // 2).abs()
    return (
        steps[f1_by_shard_and_step.argmax(dim=1)].to(leave_one_out_scores.dtype) / _THRESHOLD_STEPS
    )


def _sums_from_step(
    score_bins: torch.Tensor, *, score_weights: torch.Tensor, num_shards: int
) -> torch.Tensor:
    """Returns, for each shard, the sum of the weights of the scores that reach each step in 0..99, `[num_shards, 100]`.

    A score reaches all steps up to its own, which is 100 times the score, rounded down and clipped to 0..99.

    Args:
        score_bins: the step of each score plus 100 times the number of its shard, int64 `[num_shards, n, num_labels]`.
        score_weights: the weight of each score, of the same shape.
        num_shards: the number of shards.
    """
    num_bins = _THRESHOLD_STEPS * num_shards
    weight_sums_by_bin = torch.bincount(
        score_bins.flatten(), score_weights.flatten(), minlength=num_bins
    )
    weight_sums_by_step = weight_sums_by_bin.view(num_shards, _THRESHOLD_STEPS)
    return weight_sums_by_step.flip(dims=[1]).cumsum(dim=1).flip(dims=[1])
