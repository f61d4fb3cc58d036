"""Features of pictures from filters on their patches: rectified both ways, pooled by region, projected."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from pate.features.extractor import Extractor
from pate.features.patch_filters import CONTRAST
from pate.networks.device import require_device


class PatchExtractor(Extractor):
    """See `Extractor`. Arrays: `filters` and `offsets` of `learn_filters`, `center` and `projection` of `Projection`.

    Rule: the answers a of all filters to a contrast-normalized patch become max(a - t, 0) and max(-a - t, 0); their
    means over a grid of regions are projected.
    """

    kind = "patches"

    @property
    def batch_size(self) -> int:
        """See `Extractor.batch_size`."""
        return 512 if self._device.type == "cuda" else 64

    def features(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """See `Extractor.features`."""
        tensors = self._tensors
        with torch.inference_mode():
            features = (self._pooled(images) - tensors["center"]) @ tensors["projection"]
        found: NDArray[np.float32] = features.cpu().numpy()
        return found

    def pooled(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """What is projected, `[n, 2 * filters * grid * grid]`."""
        with torch.inference_mode():
            found: NDArray[np.float32] = self._pooled(images).cpu().numpy()
        return found

    def _pooled(self, images: NDArray[np.float32]) -> torch.Tensor:
        """A picture at a time where there is no GPU: its answers then stay in the processor's cache."""
        shown = torch.from_numpy(np.ascontiguousarray(images)).to(self._device)
        step = len(shown) if self._device.type == "cuda" else 1
        return torch.cat([self._means(shown[first : first + step]) for first in range(0, len(shown), max(step, 1))])

    def _means(self, shown: torch.Tensor) -> torch.Tensor:
        """Means of max(a - t, 0) and of max(-a - t, 0) by region: half of the sum and of the difference of two more."""
        tensors, stride = self._tensors, int(self.settings["stride"])
        filters, regions = tensors["filters"], self._regions
        size = int(filters.shape[-1])
        patches = functional.unfold(shown, size, stride=stride)  # [n, channels * size * size, positions]
        variance, _ = torch.var_mean(patches, dim=1, keepdim=True, correction=0)
        patches.mul_(torch.rsqrt(variance + float(CONTRAST)))  # filters have mean 0: the mean may stay
        answers = torch.matmul(filters.flatten(1), patches).sub_(tensors["offsets"][:, None])
        shrunk = functional.softshrink(answers, float(self.settings["threshold"]))
        signed, total = shrunk @ regions, shrunk.abs_() @ regions
        return torch.cat([(total + signed).flatten(1), (total - signed).flatten(1)], dim=1).div_(2)

    @property
    def _device(self) -> torch.device:
        return require_device("auto")

    @cached_property
    def _tensors(self) -> dict[str, Any]:
        return {name: torch.from_numpy(np.array(array)).to(self._device) for name, array in self.arrays.items()}

    @cached_property
    def _regions(self) -> torch.Tensor:
        """`[positions, grid * grid]`: what each position counts in the mean of each region."""
        _, height, width = self.picture_shape
        size, stride, grid = self.arrays["filters"].shape[-1], int(self.settings["stride"]), int(self.settings["grid"])
        rows, columns = (
            np.arange(count) * grid // count for count in ((side - size) // stride + 1 for side in (height, width))
        )
        region = (rows[:, None] * grid + columns).ravel()
        member = (region[:, None] == np.arange(grid * grid)).astype(np.float32)
        return torch.from_numpy(member / member.sum(axis=0).clip(1)).to(self._device)
