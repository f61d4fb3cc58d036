"""An architecture for images, and the images that go into it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pate.device import torch
from pate.validation import require

# All arrays of a network by name: parameters, and buffers, which training moves without a gradient.
Tensors: TypeAlias = "dict[str, torch.Tensor]"
_BLOCK_IMAGES = 128  # of a forward pass without gradients


class Network(ABC):
    """An architecture without parameters of its own: they are an argument, by name."""

    num_labels: int

    @abstractmethod
    def initial(self, rng: np.random.Generator) -> Tensors:
        """Draws the parameters and buffers that training begins with."""

    @abstractmethod
    def is_buffer(self, name: str) -> bool:
        """Returns True if the tensor of this name has no gradient, such as a running mean."""

    @abstractmethod
    def logits(self, tensors: Tensors, images: torch.Tensor, *, training: bool) -> torch.Tensor:
        """Returns log-odds `[n, num_labels]` of images; training moves buffers.

        Args:
            tensors: parameters and buffers.
            images: in [-1, 1], `[n, channels, height, width]`.
            training: whether normalization takes the statistics of the batch, and updates the running ones.
        """

    def traceable(self, tensors: Tensors) -> Callable[[torch.Tensor], torch.Tensor]:
        """Returns `logits` of images in [-1, 1] as a function that torch's exporters can follow."""
        return lambda images: self.logits(tensors, images, training=False)


def require_images(inputs: Any) -> NDArray[Any]:
    """Returns images `[n, channels, height, width]`, float32 in [0, 1] or uint8, or raises `InvalidValue`."""
    images = np.asarray(inputs)
    require(images.ndim == 4, "inputs.shape", images.shape, "images [n, channels, height, width]")
    has_levels = images.dtype in (np.float32, np.uint8)
    require(has_levels, "inputs.dtype", images.dtype, "float32 in [0, 1], or uint8")
    return images


def centered(images: torch.Tensor) -> torch.Tensor:
    """Returns images of [0, 1] or 0..255 in [-1, 1], channels innermost in memory; the constants are public."""
    scaled = images.float().mul_(2 / 255.0) if images.dtype == torch.uint8 else images * 2
    return scaled.sub_(1).contiguous(memory_format=torch.channels_last)


def mirrored(images: torch.Tensor, flips: torch.Tensor) -> torch.Tensor:
    """Returns images with those mirrored whose flip, bool `[n]`, is set."""
    return torch.where(flips[:, None, None, None], images.flip(3), images)


def blocks_of(
    images: NDArray[Any], size: int, device: torch.device
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Yields `size` images at a time: the rows that they are, and the images as `centered` returns them."""
    for start in range(0, len(images), size):
        rows = slice(start, start + size)
        yield rows, centered(torch.from_numpy(np.ascontiguousarray(images[rows])).to(device))


def logits_in_blocks(
    network: Network, tensors: Tensors, images: NDArray[Any], device: torch.device
) -> NDArray[np.float32]:
    """Returns log-odds of any number of images, `[n, num_labels]`, computed a block at a time in float32."""
    logits = np.empty((len(images), network.num_labels), np.float32)
    with torch.no_grad():
        for rows, block in blocks_of(images, _BLOCK_IMAGES, device):
            logits[rows] = network.logits(tensors, block, training=False).float().cpu().numpy()
    return logits
