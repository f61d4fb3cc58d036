"""The threshold at which a teacher's own scores become votes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
else:
    from pate.networks.later import torch


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
