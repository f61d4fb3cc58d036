"""A small convolutional network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from pate.networks.network import Network, Tensors
from pate.validation import require, require_choice, require_count

NORMS = ("group", "batch")
GROUP = 8  # channels that are normalized together
MOMENTUM, EPSILON = 0.1, 1e-5
_SETTINGS = ("width", "blocks", "patch", "grid", "norm", "kernel_size")


@dataclass(frozen=True)
class ConvNet(Network):
    """Patches, a few convolutions, means over the cells of a grid, a linear head.

    The first layer sees patches without overlap, the others have twice as many channels and keep the resolution:
    nearly all work is in matrix products large enough for a processor to be fast at. Each layer is normalized, over
    groups of 8 channels of one image ("group"), or over the batch ("batch", with running means and variances of the
    network's own records). Weights are `[channels out, rows * columns * channels in]`, channels innermost.

    Attributes:
        shape: of an image, (channels, height, width); height and width multiples of patch.
        num_labels: L.
        width: channels of the first layer, a multiple of 8.
        blocks: convolutions after it.
        patch: height and width of a patch, in pixels.
        grid: at most that many rows and columns of cells that the head sees the means of: many where images are
            aligned, as faces are, few where a thing may be anywhere.
        norm: "group" or "batch".
        kernel_size: height and width of the convolutions' kernels, an odd number.

    Raises:
        InvalidValue: an attribute outside its range.
    """

    shape: tuple[int, ...]
    num_labels: int
    width: int = 32
    blocks: int = 2
    patch: int = 4
    grid: int = 4
    norm: str = "group"
    kernel_size: int = 3

    @classmethod
    def of(cls, settings: Any, shape: tuple[int, ...], num_labels: int) -> ConvNet:
        """The network that a teacher or student has among its own settings, under the same names."""
        return cls(tuple(shape), num_labels, **{name: getattr(settings, name) for name in _SETTINGS})

    def __post_init__(self) -> None:
        require_network(self)
        fits = len(self.shape) == 3 and all(size % self.patch == 0 and size > 0 for size in self.shape[1:])
        rule = f"(channels, height, width) in multiples of {self.patch} pixels"
        require(fits, "inputs.shape[1:]", tuple(self.shape), rule)

    @property
    def cells(self) -> int:
        """Rows and columns of cells: as many as `grid` allows and the patches can be dealt to evenly."""
        patches = math.gcd(*(size // self.patch for size in self.shape[1:]))
        return max(cells for cells in range(1, self.grid + 1) if patches % cells == 0)

    @property
    def kernels(self) -> list[tuple[int, int]]:
        """Channels out and inputs in of each layer before the head."""
        sizes = [(self.width, self.shape[0] * self.patch**2)]
        taps = self.kernel_size**2
        for block in range(self.blocks):
            sizes.append((2 * self.width, taps * (self.width if block == 0 else 2 * self.width)))
        return sizes

    @property
    def activations(self) -> int:
        """Numbers in the largest layer of one image."""
        channels = max(channels for channels, _ in self.kernels)
        return channels * math.prod(size // self.patch for size in self.shape[1:])

    def initial(self, rng: np.random.Generator) -> Tensors:
        """He-scaled normal weights, a head of zeros."""
        tensors: Tensors = {}
        for layer, (channels, inputs) in enumerate(self.kernels):
            drawn = rng.standard_normal((channels, inputs), np.float32) * np.float32(math.sqrt(2 / inputs))
            tensors[f"layer{layer}.weight"] = torch.from_numpy(drawn)
            tensors[f"layer{layer}.scale"], tensors[f"layer{layer}.shift"] = torch.ones(channels), torch.zeros(channels)
            if self.norm == "batch":
                tensors[f"layer{layer}.mean"] = torch.zeros(channels)
                tensors[f"layer{layer}.var"] = torch.ones(channels)
        tensors["head.weight"] = torch.zeros(self.num_labels, self.cells**2 * self.kernels[-1][0])
        tensors["head.bias"] = torch.zeros(self.num_labels)
        return tensors

    def is_buffer(self, name: str) -> bool:
        """Running means and variances."""
        return name.endswith((".mean", ".var"))

    def logits(self, tensors: Tensors, images: torch.Tensor, *, training: bool) -> torch.Tensor:
        """See `Network.logits`."""
        values = images
        for layer in range(self.blocks + 1):
            weight = tensors[f"layer{layer}.weight"]
            side = self.patch if layer == 0 else self.kernel_size
            kernel = weight.view(len(weight), side, side, -1).permute(0, 3, 1, 2)
            stride, padding = (self.patch, 0) if layer == 0 else (1, side // 2)
            values = functional.conv2d(values, kernel, stride=stride, padding=padding)
            values = self._normalized(tensors, layer, values, training).relu_()
        if values.shape[2:] != (self.cells, self.cells):  # else each pixel is a cell
            values = functional.adaptive_avg_pool2d(values, self.cells)
        means = values.permute(0, 2, 3, 1).flatten(1)
        return functional.linear(means, tensors["head.weight"], tensors["head.bias"])

    def _normalized(self, tensors: Tensors, layer: int, values: torch.Tensor, training: bool) -> torch.Tensor:
        scale, shift = tensors[f"layer{layer}.scale"], tensors[f"layer{layer}.shift"]
        if self.norm == "group":
            return functional.group_norm(values, len(scale) // GROUP, scale, shift, EPSILON)
        mean, var = tensors[f"layer{layer}.mean"], tensors[f"layer{layer}.var"]
        if training and values[:, 0].numel() == 1:  # torch would divide by 0: one value has no unbiased variance
            mean.lerp_(values.detach().flatten().to(mean.dtype), MOMENTUM)
            var.mul_(1 - MOMENTUM)
            return torch.batch_norm(values, scale, shift, None, None, True, MOMENTUM, EPSILON, True)
        return torch.batch_norm(values, scale, shift, mean, var, training, MOMENTUM, EPSILON, True)


def require_network(settings: Any) -> None:
    """Raises `InvalidValue` unless the settings describe a network, for images of whatever size."""
    for name in ("width", "patch", "grid", "kernel_size"):
        require_count(name, getattr(settings, name))
    require(settings.width % GROUP == 0, "width", settings.width, f"a multiple of {GROUP}")
    require_count("blocks", settings.blocks, minimum=0)
    require_choice("norm", settings.norm, NORMS)
    require(settings.kernel_size % 2 == 1, "kernel_size", settings.kernel_size, "an odd number")
