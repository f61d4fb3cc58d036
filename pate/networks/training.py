"""One network trained on its records."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from pate.networks.adam import StackedAdam
from pate.networks.minibatch import Minibatches
from pate.networks.network import Network, Pictures, Tensors, mirrored
from pate.networks.recipe import Recipe


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
    optimizer = StackedAdam([flat.vector], learning_rate=recipe.learning_rate, weight_decay=recipe.weight_decay)
    shown, wanted = Pictures(images, device), torch.from_numpy(targets).to(device)
    batches = Minibatches([len(images)], recipe.batch_size, recipe.epochs, [rng])
    curve = torch.zeros(batches.num_steps)
    loss_scale, always = recipe.loss_scale(device), torch.ones(1, dtype=torch.bool, device=device)
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
        active = always
        if loss_scale != 1:
            flat.gradient.div_(loss_scale)
            active = flat.gradient.isfinite().all()[None]
            flat.gradient.nan_to_num_(0, 0, 0)
        optimizer.step([flat.gradient], active, 1 - step / batches.num_steps)
        curve[step] = loss.detach()
    return {name: tensor.detach() for name, tensor in flat.tensors.items()}, curve.numpy()
