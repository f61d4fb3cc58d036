"""Shards of unequal size as one padded batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pate.teachers.teacher import Shard, as_rows

if TYPE_CHECKING:
    import torch
else:
    from pate.networks.later import torch


@dataclass(frozen=True, eq=False)
class PaddedBatch:
    """Several shards side by side, padded with zeros to the longest.

    Attributes:
        inputs: `[num_shards, n, d]`, records flattened.
        labels: `[num_shards, n, num_labels]`, 0 or 1.
        mask: `[num_shards, n, 1]`, 1 for a record and 0 for padding.
        sizes: `[num_shards, 1, 1]`, how many records each shard has.
    """

    inputs: torch.Tensor
    labels: torch.Tensor
    mask: torch.Tensor
    sizes: torch.Tensor

    @classmethod
    def of(cls, shards: Sequence[Shard], device: torch.device, dtype: torch.dtype) -> PaddedBatch:
        """Copies the shards to the device."""
        longest = max(len(shard) for shard in shards)
        shape = (len(shards), longest)
        inputs = np.zeros((*shape, int(np.prod(shards[0].inputs.shape[1:]))), np.float32)
        labels = np.zeros((*shape, shards[0].labels.shape[1]), np.bool_)
        for row, shard in enumerate(shards):
            inputs[row, : len(shard)] = as_rows(shard.inputs)
            labels[row, : len(shard)] = shard.labels
        sizes = torch.tensor([len(shard) for shard in shards], device=device)
        mask = torch.arange(longest, device=device) < sizes[:, None]
        return cls(
            torch.from_numpy(inputs).to(device, dtype),
            torch.from_numpy(labels).to(device, dtype),
            mask.to(dtype)[..., None],
            sizes.to(dtype)[:, None, None],
        )

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """Mean over each shard's records of `[num_shards, n, k]`, `[num_shards, 1, k]`; padding must be 0."""
        return values.sum(dim=1, keepdim=True) / self.sizes
