"""The base class of network architectures for images, and the preparation of images for a network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pate.array_types import Float32Array
from pate.device import torch
from pate.validation import require

# All arrays of a network by name: parameters, and buffers, which training updates without a gradient.
Tensors: TypeAlias = "dict[str, torch.Tensor]"
# The number of images of a forward pass without gradients: enough for fast products, few enough for any memory.
_INFERENCE_BATCH_SIZE = 128


class Network(ABC):
    """The architecture of a network. It holds no parameters: methods take them as an argument, by name.

    Attributes:
        num_labels: the number of labels that the network predicts.
    """

    num_labels: int

    @abstractmethod
    def initial(self, rng: np.random.Generator) -> Tensors:
        """Draws the parameters and buffers with which training begins."""

    @abstractmethod
    def is_buffer(self, name: str) -> bool:
        """Returns True if the tensor `name` has no gradient, such as a running mean."""

    @abstractmethod
    def logits(self, state_dict: Tensors, images: torch.Tensor, *, training: bool) -> torch.Tensor:
        """Returns the log-odds of images, `[num_images, num_labels]`.

        Args:
            state_dict: the parameters and buffers, by name.
            images: images with values in [-1, 1], `[num_images, channels, height, width]`.
            training: true normalizes by the statistics of this batch, and updates the running statistics.
        """

    def inference_function(self, state_dict: Tensors) -> Callable[[torch.Tensor], torch.Tensor]:
        """Returns a function from images with values in [-1, 1] to log-odds, for the exporters of torch."""

        def log_odds(images: torch.Tensor) -> torch.Tensor:
            return self.logits(state_dict, images=images, training=False)

        return log_odds


def require_images(inputs: Any) -> NDArray[Any]:
    """Returns `inputs` as an array of images `[num_images, channels, height, width]`, float32 or uint8.

    That float32 values are in [0, 1] is not checked.

    Raises:
        InvalidValue: the inputs do not have four axes, or have another type.
    """
    images = np.asarray(inputs)
    require(images.ndim == 4, "inputs.shape", images.shape, "images [n, channels, height, width]")
    is_pixel_type = images.dtype in (np.float32, np.uint8)
    require(is_pixel_type, "inputs.dtype", images.dtype, "float32 in [0, 1], or uint8")
    return images


def scale_pixels_around_zero(images: torch.Tensor) -> torch.Tensor:
    """Returns images with values in [-1, 1], from images in [0, 1] or 0..255, with channels innermost in memory."""
    scaled = images.float().mul_(2 / 255.0) if images.dtype == torch.uint8 else images * 2
    return scaled.sub_(1).contiguous(memory_format=torch.channels_last)


def flip_horizontally(images: torch.Tensor, *, is_flipped: torch.Tensor) -> torch.Tensor:
    """Returns images, mirrored from left to right where `is_flipped`, bool `[num_images]`, is true."""
    return torch.where(is_flipped[:, None, None, None], images.flip(dims=[3]), images)


def iterate_batches(
    images: NDArray[Any], *, batch_size: int, device: torch.device
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Yields batches of up to `batch_size` images: the range of their rows, and the images on `device`, in [-1, 1]."""
    for start in range(0, len(images), batch_size):
        row_slice = slice(start, start + batch_size)
        image_batch = torch.from_numpy(np.ascontiguousarray(images[row_slice])).to(device)
        yield row_slice, scale_pixels_around_zero(image_batch)


def predict_logits(
    network: Network, *, state_dict: Tensors, images: NDArray[Any], device: torch.device
) -> Float32Array:
    """Returns the log-odds of any number of images, `[num_images, num_labels]`, computed in float32 and in batches.

    Args:
        network: the architecture.
        state_dict: the parameters and buffers of the network, by name, on `device`.
        images: the images, float32 in [0, 1] or uint8, `[num_images, channels, height, width]`.
        device: the device on which the log-odds are computed.
    """
    logits = np.empty((len(images), network.num_labels), np.float32)
    image_batches = iterate_batches(images, batch_size=_INFERENCE_BATCH_SIZE, device=device)
    with torch.no_grad():
        for row_slice, image_batch in image_batches:
            batch_logits = network.logits(state_dict, images=image_batch, training=False)
            logits[row_slice] = batch_logits.float().cpu().numpy()
    return logits
