"""A small convolutional network: one, or many in one batch, as a GPU likes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from pate.models.networks import network as net
from pate.models.networks.network import Network, Recipe, Tensors
from pate.validation import require

GROUP = 8  # channels that are normalized together
MOMENTUM = 0.1
EPSILON = 1e-5


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A small convolutional network, for images of whatever size."""

    width: int = 32  # channels of the first layer, a multiple of 8
    blocks: int = 2  # convolutions after it
    patch: int = 4  # height and width of a patch, in pixels
    # at most that many rows and columns of cells that the head sees the means of: many where images are aligned, as
    # faces are, few where a thing may be anywhere.
    grid: int = 4
    norm: str = field(default="group", metadata={"public": True})  # "group" or "batch"
    kernel_size: int = 3  # height and width of the convolutions' kernels, an odd number

    def __post_init__(self) -> None:
        net.require_settings(self)
        require(self.width % GROUP == 0, "width", self.width, f"a multiple of {GROUP}")
        require(self.kernel_size % 2 == 1, "kernel_size", self.kernel_size, "an odd number")


@dataclass(frozen=True)
class ConvNet(Architecture, Network):
    """Patches, a few convolutions, means over the cells of a grid, a linear head.

    The first layer sees patches without overlap, the others have twice as many channels and keep the resolution:
    nearly all work is in matrix products large enough for a processor to be fast at. Each layer is normalized, over
    groups of 8 channels of one image ("group"), or over the batch ("batch", with running means and variances of the
    network's own records). Weights are `[channels out, rows * columns * channels in]`, channels innermost.
    """

    # of an image, (channels, height, width); height and width multiples of patch
    shape: tuple[int, ...]
    num_labels: int  # L

    @classmethod
    def of(cls, settings: Architecture, shape: tuple[int, ...], num_labels: int) -> ConvNet:
        """Makes the network that settings describe, for pictures of a shape."""
        return cls(
            tuple(shape),
            num_labels,
            **{item.name: getattr(settings, item.name) for item in fields(Architecture)},
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = len(self.shape) == 3 and all(
            size % self.patch == 0 and size > 0 for size in self.shape[1:]
        )
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
        first = (self.width, self.shape[0] * self.patch**2)
        taps = self.kernel_size**2
        other_layers = [
            (2 * self.width, taps * (1 + (block > 0)) * self.width) for block in range(self.blocks)
        ]
        return [first, *other_layers]

    def initial(self, rng: np.random.Generator) -> Tensors:
        """He-scaled normal weights, a head of zeros."""
        tensors: Tensors = {}
        for layer, (channels, inputs) in enumerate(self.kernels):
            weights = rng.standard_normal((channels, inputs), np.float32) * np.float32(
                math.sqrt(2 / inputs)
            )
            tensors[f"layer{layer}.weight"] = torch.from_numpy(weights)
            tensors[f"layer{layer}.scale"], tensors[f"layer{layer}.shift"] = (
                torch.ones(channels),
                torch.zeros(channels),
            )
            if self.norm == "batch":
                tensors[f"layer{layer}.mean"] = torch.zeros(channels)
                tensors[f"layer{layer}.var"] = torch.ones(channels)
        tensors["head.weight"] = torch.zeros(self.num_labels, self.cells**2 * self.kernels[-1][0])
        tensors["head.bias"] = torch.zeros(self.num_labels)
        return tensors

    def is_buffer(self, name: str) -> bool:
        """True where an array is a running mean or variance, which no gradient changes."""
        return name.endswith((".mean", ".var"))

    def logits(self, tensors: Tensors, images: torch.Tensor, *, training: bool) -> torch.Tensor:
        """Returns logits `[c, n, L]` of a stack of networks."""
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

    def _normalized(
        self, tensors: Tensors, layer: int, values: torch.Tensor, training: bool
    ) -> torch.Tensor:
        scale = tensors[f"layer{layer}.scale"]
        shift = tensors[f"layer{layer}.shift"]
        if self.norm == "group":
            return functional.group_norm(values, len(scale) // GROUP, scale, shift, EPSILON)
        mean = tensors[f"layer{layer}.mean"]
        var = tensors[f"layer{layer}.var"]
        # torch would divide by 0: one value has no unbiased variance
        if training and values[:, 0].numel() == 1:
            mean.lerp_(values.detach().flatten().to(mean.dtype), MOMENTUM)
            var.mul_(1 - MOMENTUM)
            return torch.batch_norm(values, scale, shift, None, None, True, MOMENTUM, EPSILON, True)
        return torch.batch_norm(values, scale, shift, mean, var, training, MOMENTUM, EPSILON, True)


def stacked_logits(
    network: ConvNet, tensors: Tensors, images: torch.Tensor, valid: torch.Tensor, *, training: bool
) -> torch.Tensor:
    """Log-odds `[T, n, num_labels]` of T networks on images of their own, as `ConvNet.logits` up to rounding.

    Convolutions are products of gathered pixels with all networks' kernels at once: grouped convolutions, the other
    way to do it, are slow for many groups. Images that are `valid`, `[T, n]`, count in the means and variances of a
    batch; a network without any keeps its buffers.
    """
    parts, count, channels, height, width = images.shape
    rows = height // network.patch
    columns = width // network.patch
    cut = images.view(parts, count, channels, rows, network.patch, columns, network.patch)
    # patches, channels innermost
    values = cut.permute(0, 1, 3, 5, 4, 6, 2).reshape(parts, count, rows, columns, -1)
    for layer in range(network.blocks + 1):
        gathered = values
        if layer > 0:
            gathered = Neighborhoods.apply(values, network.kernel_size)  # type: ignore[no-untyped-call]  # torch's
        weight = tensors[f"layer{layer}.weight"]  # [T, channels, inputs]
        flat = gathered.flatten(1, 3)
        values = (flat @ weight.transpose(1, 2).to(flat.dtype)).view(*gathered.shape[:4], -1)
        values = _normalized(network, tensors, layer, values, valid, training).relu_()
    cells = network.cells
    means = values.view(parts, count, cells, rows // cells, cells, columns // cells, -1).mean(
        dim=(3, 5)
    )
    return torch.baddbmm(
        tensors["head.bias"][:, None], means.flatten(2), tensors["head.weight"].transpose(1, 2)
    )


class Neighborhoods(torch.autograd.Function):
    """Each pixel's k x k neighbors side by side, zeros outside: `[T, n, rows, columns, c]` to `[…, k * k * c]`."""

    @staticmethod
    def forward(context: Any, values: torch.Tensor, side: int) -> torch.Tensor:
        """Gathers each pixel's neighborhood; saves the shape for the gradient."""
        networks, count, rows, columns, channels = values.shape
        context.side = side
        edge = side // 2
        padded = functional.pad(values, (0, 0, edge, edge, edge, edge))
        steps = padded.stride()
        shape = (networks, count, rows, columns, side, side * channels)
        windows = padded.as_strided(shape, (steps[0], steps[1], steps[2], steps[3], steps[2], 1))
        return windows.reshape(networks, count, rows, columns, side * side * channels)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Adds the gradients of neighborhoods up at their pixels."""
        networks, count, rows, columns, _ = gradients[0].shape
        side = context.side
        edge = context.side // 2
        parts = gradients[0].view(networks, count, rows, columns, side, side, -1)
        total = parts.new_zeros(
            networks, count, rows + 2 * edge, columns + 2 * edge, parts.shape[-1]
        )
        for row in range(side):
            for column in range(side):
                total[:, :, row : row + rows, column : column + columns] += parts[
                    ..., row, column, :
                ]
        return total[:, :, edge : edge + rows, edge : edge + columns], None


def _normalized(
    network: ConvNet,
    tensors: Tensors,
    layer: int,
    values: torch.Tensor,
    valid: torch.Tensor,
    training: bool,
) -> torch.Tensor:
    """Values `[T, n, rows, columns, channels]`, normalized in float32."""
    values = values.float()
    scale, shift = (
        tensors[f"layer{layer}.{name}"][:, None, None, None] for name in ("scale", "shift")
    )
    if network.norm == "group":
        grouped = values.view(*values.shape[:4], -1, GROUP)
        var, mean = torch.var_mean(grouped, dim=(2, 3, 5), correction=0, keepdim=True)
        return torch.addcmul(shift, ((grouped - mean) * (var + EPSILON).rsqrt()).flatten(4), scale)
    mean = tensors[f"layer{layer}.mean"]
    var = tensors[f"layer{layer}.var"]
    if training:  # over the valid images, `[T, channels]`; moves the running ones
        running = (mean, var)
        mask = valid[:, :, None, None, None]
        # [T, 1]
        count = (valid.sum(dim=1, keepdim=True) * values.shape[2] * values.shape[3]).clamp(min=1)
        mean = (values * mask).sum(dim=(1, 2, 3)) / count
        var = ((values - mean[:, None, None, None]).square() * mask).sum(dim=(1, 2, 3)) / count
        # as torch's batch norm: biased within the batch, unbiased in the running mean
        unbiased = var.detach() * count / (count - 1).clamp(min=1)
        share = MOMENTUM * valid.any(dim=1, keepdim=True)
        for buffer, statistic in zip(running, (mean.detach(), unbiased), strict=True):
            buffer.add_(share * (statistic - buffer))
    center = mean[:, None, None, None]
    spread = (var[:, None, None, None] + EPSILON).rsqrt()
    return torch.addcmul(shift, (values - center) * spread, scale)


def fit_stacked(
    network: ConvNet,
    images: Sequence[NDArray[Any]],
    targets: Sequence[NDArray[np.float32]],
    *,
    recipe: Recipe,
    rngs: Sequence[np.random.Generator],
    device: torch.device,
) -> tuple[Tensors, NDArray[np.float32]]:
    """Trains T networks on records of their own, each as `fit` would train it alone, up to rounding.

    Losses are summed over networks, never averaged, and nothing is clipped across them, so none moves another. Returned
    are the tensors, with a leading axis of T, and the losses `[T, steps]`, NaN where one had finished.
    """
    initial = [network.initial(rng) for rng in rngs]
    names = [name for name in initial[0] if not network.is_buffer(name)]
    tensors = {
        name: torch.stack([tensors[name] for tensors in initial]).to(device) for name in initial[0]
    }
    parameters = [tensors[name].requires_grad_() for name in names]
    sizes = [len(part) for part in images]
    # once
    shown, labels = (
        torch.from_numpy(np.concatenate(arrays)).to(device) for arrays in (images, targets)
    )
    starts = torch.from_numpy(np.cumsum([0, *sizes[:-1]])).to(device)  # of each network's records
    batches = net.Minibatches(sizes, recipe.batch_size, recipe.epochs, rngs)
    steps = torch.tensor(batches.steps_of, device=device)
    loss_scale = recipe.loss_scale(device)
    # then a step is as if sizes differed: one network's overflow would
    can_overflow = loss_scale != 1
    # else round the others' steps another way
    alike = not can_overflow and bool((steps == batches.num_steps).all())
    optimizer = net.StackedAdamW(
        [parameter.detach().flatten(1) for parameter in parameters],
        learning_rate=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
    )
    curve = torch.full((len(sizes), batches.num_steps), math.nan, device=device)
    for step, (rows, counts) in enumerate(batches):
        valid = torch.from_numpy(np.arange(rows.shape[1]) < counts[:, None]).to(device)
        index = starts[:, None] + torch.from_numpy(rows).to(device)
        pictures = net.centered(shown[index.flatten()])
        if recipe.flip:  # each network's generator is asked for as many as `fit` would ask it
            flips = np.zeros(rows.shape, np.bool_)
            for row, (rng, size) in enumerate(zip(rngs, counts, strict=True)):
                flips[row, :size] = rng.random(size) < 0.5
            pictures = net.mirrored(pictures, torch.from_numpy(flips.ravel()).to(device))
        pictures = pictures.contiguous().view(*index.shape, *shown.shape[1:])
        with recipe.autocast(device):
            logits = stacked_logits(network, tensors, pictures, valid, training=True)
        loss = functional.binary_cross_entropy_with_logits(
            logits.float(), labels[index], reduction="none"
        ).sum(dim=2)
        losses = (loss * valid).sum(dim=1) / valid.sum(dim=1).clamp(min=1)  # [T]
        found = torch.autograd.grad(losses.sum() * loss_scale, parameters)
        gradients = [gradient.flatten(1) / loss_scale for gradient in found]
        active = valid[:, :1]
        if can_overflow:
            finite = torch.stack([gradient.isfinite().all(dim=1) for gradient in gradients]).all(
                dim=0
            )
            active = active & finite[:, None]
            gradients = [gradient.nan_to_num_(0, 0, 0) for gradient in gradients]
        scale = 1 - step / batches.num_steps if alike else (1 - step / steps).clamp(min=0)[:, None]
        optimizer.step(gradients, active, scale)
        curve[:, step] = torch.where(valid[:, 0], losses.detach(), math.nan)
    return {name: tensor.detach() for name, tensor in tensors.items()}, curve.cpu().numpy()
