"""Features of pictures from filters on their patches: rectified both ways, pooled by region, projected."""

from __future__ import annotations

import math
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
    weighted means m over a grid of regions become log(1 + compression m) and are projected. Regions share nothing, or
    they overlap: see `region_weights`.

    Settings that a file does not name are those of older files: no overlap, and m itself.
    """

    kind = "patches"

    @property
    def batch_size(self) -> int:
        """See `Extractor.batch_size`."""
        return 512 if self._device.type == "cuda" else 64

    def _numbers_at_once(self) -> int:
        """See `Extractor._numbers_at_once`: patches, the answers of filters to them, and the regions' weights."""
        channels, height, width = self.picture_shape
        stride, grid = int(self.settings["stride"]), int(self.settings["grid"])
        shape: tuple[int, ...] = self.arrays["filters"].shape
        count, patch, size = shape[0], math.prod(shape[1:]), shape[-1]
        shapes = {"filters": (count, channels, size, size), "offsets": (count,), "center": (2 * count * grid**2,)}
        shapes["projection"] = (2 * count * grid**2, self.num_features)
        if any(self.arrays[name].shape != shape for name, shape in shapes.items()):
            raise ValueError("arrays of other shapes")
        rows, columns = ((side - size) // stride + 1 for side in (height, width))
        sides = (rows + columns) * grid
        return channels * height * width + rows * columns * (patch + 3 * count + grid**2) + sides

    def features(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """See `Extractor.features`."""
        tensors = self._tensors
        with torch.inference_mode():
            features = (self._pooled(images) - tensors["center"]) @ tensors["projection"]
        found: NDArray[np.float32] = features.cpu().numpy()
        return found

    def pooled(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """What is projected, `[n, 2 * filters * grid * grid]`, at least 0."""
        with torch.inference_mode():
            found: NDArray[np.float32] = self._pooled(images).cpu().numpy()
        return found

    def _pooled(self, images: NDArray[np.float32]) -> torch.Tensor:
        """A picture at a time where there is no GPU: its answers then stay in the processor's cache."""
        shown = torch.from_numpy(np.ascontiguousarray(images)).to(self._device)
        step = len(shown) if self._device.type == "cuda" else 1
        means = torch.cat([self._means(shown[first : first + step]) for first in range(0, len(shown), max(step, 1))])
        compression = float(self.settings.get("compression", 0))
        return means.mul_(compression).log1p_() if compression else means

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
        overlap = bool(self.settings.get("overlap", False))
        rows, columns = (region_weights((side - size) // stride + 1, grid, overlap=overlap) for side in (height, width))
        return torch.from_numpy(np.kron(rows, columns).astype(np.float32)).to(self._device)


def region_weights(count: int, grid: int, *, overlap: bool) -> NDArray[np.float64]:
    """What each of `count` positions along a side counts in the mean of each of `grid` regions, `[count, grid]`.

    Without overlap, each position counts in one region, all alike. With it, weights fall linearly from a region's
    middle to 0 at the middles of its neighbors. Columns sum to 1, or to 0 for a region without positions.
    """
    if overlap:
        middles = (np.arange(grid) + 0.5) * count / grid - 0.5
        weights = np.maximum(1 - np.abs(np.arange(count)[:, None] - middles) * grid / count, 0)
    else:
        weights = (np.arange(count)[:, None] * grid // count == np.arange(grid)).astype(np.float64)
    total = weights.sum(axis=0)
    return np.asarray(weights / np.where(total > 0, total, 1))
