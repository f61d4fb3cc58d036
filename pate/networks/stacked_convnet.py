"""The small convolutional network, many of them in one batch: matrix products over a leading axis of networks."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from pate.networks.convnet import EPSILON, GROUP, MOMENTUM, ConvNet
from pate.networks.network import Tensors


def stacked_logits(
    network: ConvNet, tensors: Tensors, images: torch.Tensor, valid: torch.Tensor, *, training: bool
) -> torch.Tensor:
    """Log-odds `[T, n, num_labels]` of T networks, each on its own images.

    Convolutions are products of gathered pixels with all networks' kernels at once: grouped convolutions, the other
    way to do it, are slow for many groups. Equal to `ConvNet.logits` up to rounding.

    Args:
        network: the architecture of all.
        tensors: theirs, each with a leading axis of T.
        images: in [-1, 1], `[T, n, channels, height, width]`.
        valid: bool `[T, n]`, which images count in the means and variances of a batch; a network without any
            keeps its buffers.
        training: whether batch statistics are used, and buffers moved.
    """
    values = _patches(images, network.patch)  # [T, n, rows, columns, inputs]
    for layer in range(network.blocks + 1):
        gathered = values if layer == 0 else Neighborhoods.gather(values, network.kernel_size)
        weight = tensors[f"layer{layer}.weight"]  # [T, channels, inputs]
        flat = gathered.flatten(1, 3)
        values = (flat @ weight.transpose(1, 2).to(flat.dtype)).view(*gathered.shape[:4], -1)
        values = _normalized(network, tensors, layer, values, valid, training).relu_()
    networks, count, rows, columns, channels = values.shape
    cells = network.cells
    means = values.view(networks, count, cells, rows // cells, cells, columns // cells, channels).mean(dim=(3, 5))
    return torch.baddbmm(tensors["head.bias"][:, None], means.flatten(2), tensors["head.weight"].transpose(1, 2))


class Neighborhoods(torch.autograd.Function):
    """Each pixel's k x k neighbors side by side, zeros outside: `[T, n, rows, columns, c]` to `[…, k * k * c]`."""

    @staticmethod
    def gather(values: torch.Tensor, side: int) -> torch.Tensor:
        """Applies the function."""
        gathered: torch.Tensor = Neighborhoods.apply(values, side)  # type: ignore[no-untyped-call]  # torch's
        return gathered

    @staticmethod
    def forward(context: Any, values: torch.Tensor, side: int) -> torch.Tensor:
        """Copies out of a padded array that overlaps itself."""
        networks, count, rows, columns, channels = values.shape
        context.side, edge = side, side // 2
        padded = functional.pad(values, (0, 0, edge, edge, edge, edge))
        steps = padded.stride()
        shape = (networks, count, rows, columns, side, side * channels)
        windows = padded.as_strided(shape, (steps[0], steps[1], steps[2], steps[3], steps[2], 1))
        return windows.reshape(networks, count, rows, columns, side * side * channels)

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Adds each neighbor's share back to its pixel."""
        networks, count, rows, columns, _ = gradients[0].shape
        side, edge = context.side, context.side // 2
        parts = gradients[0].view(networks, count, rows, columns, side, side, -1)
        total = parts.new_zeros(networks, count, rows + 2 * edge, columns + 2 * edge, parts.shape[-1])
        for row in range(side):
            for column in range(side):
                total[:, :, row : row + rows, column : column + columns] += parts[..., row, column, :]
        return total[:, :, edge : edge + rows, edge : edge + columns], None


def _patches(images: torch.Tensor, patch: int) -> torch.Tensor:
    """Patches without overlap, channels innermost: `[T, n, rows, columns, patch * patch * channels]`."""
    networks, count, channels, height, width = images.shape
    cut = images.view(networks, count, channels, height // patch, patch, width // patch, patch)
    return cut.permute(0, 1, 3, 5, 4, 6, 2).reshape(networks, count, height // patch, width // patch, -1)


def _normalized(
    network: ConvNet, tensors: Tensors, layer: int, values: torch.Tensor, valid: torch.Tensor, training: bool
) -> torch.Tensor:
    """Values `[T, n, rows, columns, channels]`, normalized in float32."""
    values = values.float()
    scale, shift = (tensors[f"layer{layer}.{name}"][:, None, None, None] for name in ("scale", "shift"))
    if network.norm == "group":
        grouped = values.view(*values.shape[:4], -1, GROUP)
        var, mean = torch.var_mean(grouped, dim=(2, 3, 5), correction=0, keepdim=True)
        return torch.addcmul(shift, ((grouped - mean) * (var + EPSILON).rsqrt()).flatten(4), scale)
    buffers = tensors[f"layer{layer}.mean"], tensors[f"layer{layer}.var"]
    mean, var = buffers
    if training:
        mean, var = _batch_statistics(values, valid, buffers)
    center, spread = mean[:, None, None, None], (var[:, None, None, None] + EPSILON).rsqrt()
    return torch.addcmul(shift, (values - center) * spread, scale)


def _batch_statistics(
    values: torch.Tensor, valid: torch.Tensor, buffers: tuple[torch.Tensor, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Means and variances over the valid images, `[T, channels]`; moves the running ones."""
    pixels = values.shape[2] * values.shape[3]
    mask = valid[:, :, None, None, None]
    count = (valid.sum(dim=1, keepdim=True) * pixels).clamp(min=1)  # [T, 1]
    mean = (values * mask).sum(dim=(1, 2, 3)) / count
    var = ((values - mean[:, None, None, None]).square() * mask).sum(dim=(1, 2, 3)) / count
    unbiased = var.detach() * count / (count - 1).clamp(min=1)
    share = MOMENTUM * valid.any(dim=1, keepdim=True)
    buffers[0].add_(share * (mean.detach() - buffers[0]))
    buffers[1].add_(share * (unbiased - buffers[1]))
    return mean, var
