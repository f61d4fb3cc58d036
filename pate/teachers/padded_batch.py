"""Parts of unequal size as one padded batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pate.teachers.teacher import Shard, as_rows


@dataclass(frozen=True, eq=False)
class PaddedBatch:
    """Several parts side by side, padded with zeros to the longest.

    Attributes:
        inputs: `[num_parts, n, d]`, records flattened.
        labels: `[num_parts, n, num_labels]`, 0 or 1.
        mask: `[num_parts, n, 1]`, 1 for a record and 0 for padding.
        sizes: `[num_parts, 1, 1]`, how many records each part has.
    """

    inputs: torch.Tensor
    labels: torch.Tensor
    mask: torch.Tensor
    sizes: torch.Tensor

    @classmethod
    def of(cls, parts: Sequence[Shard], device: torch.device, dtype: torch.dtype) -> PaddedBatch:
        """Copies the parts to the device."""
        longest = max(len(part) for part in parts)
        shape = (len(parts), longest)
        inputs = np.zeros((*shape, int(np.prod(parts[0].inputs.shape[1:]))), np.float32)
        labels = np.zeros((*shape, parts[0].labels.shape[1]), np.bool_)
        for row, part in enumerate(parts):
            inputs[row, : len(part)] = as_rows(part.inputs)
            labels[row, : len(part)] = part.labels
        sizes = torch.tensor([len(part) for part in parts], device=device)
        mask = torch.arange(longest, device=device) < sizes[:, None]
        return cls(
            torch.from_numpy(inputs).to(device, dtype),
            torch.from_numpy(labels).to(device, dtype),
            mask.to(dtype)[..., None],
            sizes.to(dtype)[:, None, None],
        )

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """Mean over each part's records of `[num_parts, n, k]`, `[num_parts, 1, k]`; padding must be 0."""
        return values.sum(dim=1, keepdim=True) / self.sizes
