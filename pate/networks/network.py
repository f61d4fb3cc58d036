"""What every network offers, the images that go into it, and one network trained on its records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from pate.networks.training import Minibatches, Recipe, StackedAdamW
from pate.validation import InvalidValue, require

Tensors = dict[str, torch.Tensor]
"""All that a network is, by name: parameters, and buffers that training moves without a gradient."""

_BLOCK = 128  # images a forward pass without gradients
_FEW = 2**25  # values: 128 MiB as float32


class Network(ABC):
    """An architecture without parameters of its own: they are an argument, by name.

    Attributes:
        num_labels: L.
    """

    num_labels: int

    @abstractmethod
    def initial(self, rng: np.random.Generator) -> Tensors:
        """Parameters and buffers to begin with, drawn from the generator."""

    @abstractmethod
    def is_buffer(self, name: str) -> bool:
        """Whether no gradient belongs to the tensor of this name."""

    @abstractmethod
    def logits(self, tensors: Tensors, images: torch.Tensor, *, training: bool) -> torch.Tensor:
        """Log-odds `[n, num_labels]` of images in [-1, 1], `[n, channels, height, width]`; training moves buffers."""

    def traceable(self, tensors: Tensors) -> Callable[[torch.Tensor], torch.Tensor]:
        """`logits` of images in [-1, 1] as a function that torch's exporters can follow."""
        return lambda images: self.logits(tensors, images, training=False)


def require_images(inputs: Any) -> NDArray[Any]:
    """Returns images `[n, channels, height, width]`, float32 in [0, 1] or uint8, or raises `InvalidValue`."""
    images = np.asarray(inputs)
    require(images.ndim == 4, "inputs.shape", images.shape, "images [n, channels, height, width]")
    if images.dtype not in (np.float32, np.uint8):
        raise InvalidValue(f"inputs.dtype={images.dtype}: expected float32 in [0, 1], or uint8")
    return images


def require_pictures(input_shape: tuple[int, ...]) -> None:
    """Raises `InvalidValue` unless inputs of that shape are images."""
    rule = "pictures, which this teacher looks at: features=none, or a teacher that reads features"
    require(len(input_shape) == 3, "inputs", "features", rule)


def centered(images: torch.Tensor) -> torch.Tensor:
    """Images of [0, 1] or 0..255 in [-1, 1], their channels innermost in memory; the constants are public."""
    top = 255.0 if images.dtype == torch.uint8 else 1.0
    scaled = images.float().mul_(2 / top) if images.dtype == torch.uint8 else images * 2
    return scaled.sub_(1).contiguous(memory_format=torch.channels_last)


def mirrored(images: torch.Tensor, flips: torch.Tensor) -> torch.Tensor:
    """Images with those mirrored whose flip, bool `[n]`, is set."""
    return torch.where(flips[:, None, None, None], images.flip(3), images)


class Pictures:
    """Images on a device, drawn by their rows as `centered` gives them.

    Few are centered once, before the first is drawn; many stay as they are, since bytes take a quarter of the memory.
    """

    def __init__(self, images: NDArray[Any], device: torch.device) -> None:
        shown = torch.from_numpy(images).to(device)
        self._centered = shown.numel() <= _FEW
        self._shown = centered(shown).permute(0, 2, 3, 1) if self._centered else shown

    def draw(self, rows: torch.Tensor) -> torch.Tensor:
        """Those of the rows, int64 `[n]`: `[n, channels, height, width]` in [-1, 1]."""
        drawn = self._shown.index_select(0, rows)
        return drawn.permute(0, 3, 1, 2) if self._centered else centered(drawn)


def blocks_of(images: NDArray[Any], size: int, device: torch.device) -> Iterator[tuple[slice, torch.Tensor]]:
    """Images a block at a time, as `centered` gives them, and which rows they are."""
    for first in range(0, len(images), size):
        rows = slice(first, first + size)
        yield rows, centered(torch.from_numpy(np.ascontiguousarray(images[rows])).to(device))


@torch.no_grad()
def logits_in_blocks(
    network: Network, tensors: Tensors, images: NDArray[Any], device: torch.device
) -> NDArray[np.float32]:
    """Log-odds of any number of images, `[n, num_labels]`, a block at a time and in float32."""
    found = np.empty((len(images), network.num_labels), np.float32)
    for rows, block in blocks_of(images, _BLOCK, device):
        found[rows] = network.logits(tensors, block, training=False).float().cpu().numpy()
    return found


class FlatParameters:
    """The trained tensors as views of one vector, their gradients as views of another.

    One optimizer step is then a handful of operations, however many layers there are.

    Attributes:
        vector: all parameters, `[P]`.
        gradient: of the same shape.
        tensors: the network's tensors, buffers included, on the device.
    """

    def __init__(self, network: Network, tensors: Tensors, device: torch.device) -> None:
        trained = {name: tensor for name, tensor in tensors.items() if not network.is_buffer(name)}
        self.vector = torch.cat([tensor.reshape(-1) for tensor in trained.values()]).to(device)
        self.gradient = torch.zeros_like(self.vector)
        self.tensors = {name: tensor.to(device) for name, tensor in tensors.items() if name not in trained}
        start = 0
        for name, tensor in trained.items():
            end = start + tensor.numel()
            view = self.vector[start:end].view(tensor.shape).detach().requires_grad_()
            view.grad = self.gradient[start:end].view(tensor.shape)
            self.tensors[name], start = view, end


def fit(
    network: Network,
    images: NDArray[Any],
    targets: NDArray[np.float32],
    *,
    recipe: Recipe,
    rng: np.random.Generator,
    device: torch.device,
) -> tuple[Tensors, NDArray[np.float32]]:
    """Trains a network; equal arguments give equal bytes on a processor with one thread.

    Args:
        network: the architecture.
        images: float32 in [0, 1] or uint8, `[n, channels, height, width]`, n >= 1.
        targets: what the probabilities should be, `[n, num_labels]`, in [0, 1].
        recipe: how.
        rng: of the initial parameters, the order of the records and the mirroring.
        device: where.

    Returns:
        The tensors, on the device, without gradients; and the loss of each step, a batch's mean over records of the
        sum over labels.
    """
    flat = FlatParameters(network, network.initial(rng), device)
    optimizer = StackedAdamW([flat.vector], learning_rate=recipe.learning_rate, weight_decay=recipe.weight_decay)
    shown, wanted = Pictures(images, device), torch.from_numpy(targets).to(device)
    batches = Minibatches([len(images)], recipe.batch_size, recipe.epochs, [rng])
    curve = torch.zeros(batches.num_steps)
    loss_scale, active = recipe.loss_scale(device), None
    for step in range(batches.num_steps):
        rows, counts = batches.draw()
        batch = torch.from_numpy(rows[0, : counts[0]]).to(device)
        pictures = shown.draw(batch)
        if recipe.flip:
            pictures = mirrored(pictures, torch.from_numpy(rng.random(len(batch)) < 0.5).to(device))
        flat.gradient.zero_()
        with recipe.autocast(device):
            logits = network.logits(flat.tensors, pictures, training=True)
        asked = wanted.index_select(0, batch)
        summed = functional.binary_cross_entropy_with_logits(logits.float(), asked, reduction="sum")
        loss = summed / len(batch)
        torch.autograd.backward(loss * loss_scale)
        if loss_scale != 1:
            flat.gradient.div_(loss_scale)
            active = flat.gradient.isfinite().all()[None]
            flat.gradient.nan_to_num_(0, 0, 0)
        optimizer.step([flat.gradient], active, 1 - step / batches.num_steps)
        curve[step] = loss.detach()
    return {name: tensor.detach() for name, tensor in flat.tensors.items()}, curve.numpy()
