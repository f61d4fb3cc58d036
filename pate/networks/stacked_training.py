"""Many small convolutional networks trained side by side, the way on a GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from pate.networks.adam import StackedAdam
from pate.networks.convnet import ConvNet
from pate.networks.minibatch import Minibatches
from pate.networks.network import Tensors, centered, mirrored
from pate.networks.recipe import Recipe
from pate.networks.stacked_convnet import stacked_logits


def fit_stacked(
    network: ConvNet,
    images: Sequence[NDArray[Any]],
    targets: Sequence[NDArray[np.float32]],
    *,
    recipe: Recipe,
    rngs: Sequence[np.random.Generator],
    device: torch.device,
) -> tuple[Tensors, NDArray[np.float32]]:
    """Trains T networks, each as `fit` would train it alone, up to rounding.

    Losses are summed over networks, never averaged, and nothing is clipped across them, so none moves another.

    Args:
        network: the architecture of all.
        images: of each network, `[n_t, channels, height, width]`; sizes may differ.
        targets: of each network, `[n_t, num_labels]`.
        recipe: how.
        rngs: one for each network.
        device: where.

    Returns:
        The tensors, each with a leading axis of T, and the losses `[T, steps]`, NaN where one had finished.
    """
    drawn = [network.initial(rng) for rng in rngs]
    names = [name for name in drawn[0] if not network.is_buffer(name)]
    tensors = {name: torch.stack([tensors[name] for tensors in drawn]).to(device) for name in drawn[0]}
    parameters = [tensors[name].requires_grad_() for name in names]
    shown, wanted, starts = _joined(images, targets, device)
    sizes = [len(part) for part in images]
    batches = Minibatches(sizes, recipe.batch_size, recipe.epochs, rngs)
    steps = torch.tensor([-(-size // recipe.batch_size) * recipe.epochs for size in sizes], device=device)
    can_overflow = recipe.loss_scale(device) != 1  # then a step is as if sizes differed: one network's overflow would
    alike = not can_overflow and bool((steps == batches.num_steps).all())  # else round the others' steps another way
    optimizer = StackedAdam(
        [parameter.detach().flatten(1) for parameter in parameters],
        learning_rate=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
    )
    curve = torch.full((len(sizes), batches.num_steps), math.nan, device=device)
    for step in range(batches.num_steps):
        rows, counts = batches.draw()
        flips = _flips(recipe, rngs, counts, rows.shape[1])
        valid = torch.from_numpy(np.arange(rows.shape[1]) < counts[:, None]).to(device)
        index = starts[:, None] + torch.from_numpy(rows).to(device)
        losses, gradients = _gradients(
            network, tensors, parameters, _pictures(shown, index, flips), wanted[index], valid, recipe
        )
        active = valid[:, :1]
        if can_overflow:
            finite = torch.stack([gradient.isfinite().all(dim=1) for gradient in gradients]).all(dim=0)
            active = active & finite[:, None]
            gradients = [gradient.nan_to_num_(0, 0, 0) for gradient in gradients]
        scale = 1 - step / batches.num_steps if alike else (1 - step / steps).clamp(min=0)[:, None]
        optimizer.step(gradients, active, scale)
        curve[:, step] = torch.where(valid[:, 0], losses, math.nan)
    return {name: tensor.detach() for name, tensor in tensors.items()}, curve.cpu().numpy()


def _joined(
    images: Sequence[NDArray[Any]], targets: Sequence[NDArray[np.float32]], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """All records one after the other, on the device once, and where each network's begin."""
    starts = np.cumsum([0, *(len(part) for part in images[:-1])])
    joined = (torch.from_numpy(np.concatenate(arrays)).to(device) for arrays in (images, targets))
    shown, wanted = joined
    return shown, wanted, torch.from_numpy(starts).to(device)


def _flips(
    recipe: Recipe, rngs: Sequence[np.random.Generator], counts: NDArray[np.int64], width: int
) -> NDArray[np.bool_] | None:
    """Which images are mirrored, `[T, n]`: each network's generator is asked for as many as `fit` would ask it."""
    if not recipe.flip:
        return None
    flips = np.zeros((len(rngs), width), np.bool_)
    for row, (rng, count) in enumerate(zip(rngs, counts, strict=True)):
        if count:
            flips[row, :count] = rng.random(count) < 0.5
    return flips


def _pictures(shown: torch.Tensor, index: torch.Tensor, flips: NDArray[np.bool_] | None) -> torch.Tensor:
    """The step's images in [-1, 1], `[T, n, channels, height, width]`."""
    pictures = centered(shown[index.flatten()])
    if flips is not None:
        pictures = mirrored(pictures, torch.from_numpy(flips.ravel()).to(shown.device))
    return pictures.contiguous().view(*index.shape, *shown.shape[1:])


def _gradients(
    network: ConvNet,
    tensors: Tensors,
    parameters: list[torch.Tensor],
    pictures: torch.Tensor,
    wanted: torch.Tensor,
    valid: torch.Tensor,
    recipe: Recipe,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Each network's loss `[T]`, and its gradients `[T, …]` flattened behind the first axis."""
    device, scale = pictures.device, recipe.loss_scale(pictures.device)
    with recipe.autocast(device):
        logits = stacked_logits(network, tensors, pictures, valid, training=True)
    each = functional.binary_cross_entropy_with_logits(logits.float(), wanted, reduction="none").sum(dim=2)
    losses = (each * valid).sum(dim=1) / valid.sum(dim=1).clamp(min=1)
    gradients = torch.autograd.grad(losses.sum() * scale, parameters)
    return losses.detach(), [gradient.flatten(1) / scale for gradient in gradients]
