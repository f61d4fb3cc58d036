"""The training of one network on its records, by minibatches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import Float32Array
from pate.device import torch
from pate.models.hyperparameters import require_settings
from pate.models.networks.minibatches import Minibatches, StackedAdamW
from pate.models.networks.network import (
    Network,
    Tensors,
    flip_horizontally,
    scale_pixels_around_zero,
)

# The factor that lifts gradients out of float16's denormals; a power of two, so that division by it is exact.
_LOSS_SCALE = 1024.0
# The largest number of pixels of all images that are scaled once, before the training: 128 MiB as float32.
_MAX_SCALED_PIXELS = 2**25


@dataclass(frozen=True)
class AdamWRecipe:
    """The hyper-parameters of the training of a network by AdamW on cross-entropy.

    The learning rate decreases linearly to zero.

    Attributes:
        epochs: the number of passes over the records.
        batch_size: the largest number of records of a step.
        learning_rate: the learning rate of the first step, > 0.
        weight_decay: the weight decay of AdamW, >= 0.
        flip: whether an image is mirrored from left to right with probability 1/2 in each epoch.
        precision: the type of the products inside the network: "float32", "bfloat16", "float16", or "auto", which is
            bfloat16 on a GPU that has it, and otherwise float32. Parameters and the optimizer are float32 throughout.
            With "float32", convolutions of recent GPUs still round their factors to TF32, which is torch's default
            (`torch.backends.cudnn.allow_tf32`).
    """

    epochs: int
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    flip: bool = False
    precision: str = field(default="auto", metadata={"public": True})

    def __post_init__(self) -> None:
        require_settings(self)

    def dtype(self, device: torch.device) -> torch.dtype:
        """Returns the floating-point type in which the network is computed on a device."""
        if self.precision != "auto" or device.type != "cuda":
            dtype: torch.dtype = getattr(torch, self.precision.replace("auto", "float32"))
            return dtype
        # `torch.cuda.is_bf16_supported` also accepts GPUs that emulate bfloat16, slowly.
        is_amd = torch.version.hip is not None
        has_bfloat16 = is_amd or torch.cuda.get_device_capability(device) >= (8, 0)
        return torch.bfloat16 if has_bfloat16 else torch.float32

    def loss_scale(self, device: torch.device) -> float:
        """Returns the factor of a loss before the backward pass, which is 1 unless the network is computed in float16.

        Gradients are divided by it afterwards. Small ones would become 0 in float16 without it.
        """
        return _LOSS_SCALE if self.dtype(device) == torch.float16 else 1.0

    @contextmanager
    def autocast(self, device: torch.device) -> Iterator[None]:
        """Lets torch compute products in the type `dtype(device)` during a `with` block; float32 turns autocast off.

        Args:
            device: the device on which the network is computed.
        """
        network_dtype = self.dtype(device)
        with torch.autocast(
            device.type, dtype=network_dtype, enabled=network_dtype != torch.float32
        ):
            yield


def fit_network(
    network: Network,
    *,
    images: NDArray[Any],
    targets: Float32Array,
    recipe: AdamWRecipe,
    rng: np.random.Generator,
    device: torch.device,
) -> tuple[Tensors, Float32Array]:
    """Trains a network; equal arguments give equal bytes on a CPU with one thread.

    In float16, a step whose gradients overflow leaves the parameters as they are.

    Args:
        network: the architecture.
        images: the images, float32 in [0, 1] or uint8, `[num_images, channels, height, width]`.
        targets: the targets in [0, 1], `[num_images, num_labels]`; NaN where they are unknown, which no loss counts.
        recipe: the hyper-parameters of the training.
        rng: the generator of the initial weights, the order of the records and the mirrored images.
        device: the device on which the network is trained.

    Returns:
        The trained tensors, on the device, and the loss of each step: the mean over the records of the minibatch of the
        sum over labels.
    """
    state_dict = {name: tensor.to(device) for name, tensor in network.initial(rng).items()}
    parameter_vector, gradient_vector = _store_in_one_vector(state_dict, network=network)
    optimizer = StackedAdamW(
        parameters=[parameter_vector],  # of a single network
        learning_rate=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
    )
    stored_images = torch.from_numpy(images).to(device)
    known_targets = KnownTargets.from_array(torch.from_numpy(targets).to(device))
    # Few images are scaled once. Many images are scaled batch by batch: as bytes they take a quarter of the memory.
    scaled_once = stored_images.numel() <= _MAX_SCALED_PIXELS
    if scaled_once:
        # [num_images, height, width, channels]
        stored_images = scale_pixels_around_zero(stored_images).permute(0, 2, 3, 1)
    minibatches = Minibatches(
        part_sizes=[len(images)], batch_size=recipe.batch_size, epochs=recipe.epochs, rngs=[rng]
    )
    losses_by_step = torch.zeros(minibatches.num_steps)
    loss_scale = recipe.loss_scale(device)
    has_finite_gradient = None
    for step, minibatch in enumerate(minibatches):
        image_rows = torch.from_numpy(minibatch.record_rows[0, : minibatch.records_per_part[0]]).to(
            device
        )
        stored_batch = stored_images.index_select(dim=0, index=image_rows)
        batch_images = (
            stored_batch.permute(0, 3, 1, 2)
            if scaled_once
            else scale_pixels_around_zero(stored_batch)
        )
        if recipe.flip:
            is_flipped = torch.from_numpy(rng.random(len(image_rows)) < 0.5).to(device)
            batch_images = flip_horizontally(batch_images, is_flipped=is_flipped)
        gradient_vector.zero_()
        with recipe.autocast(device):
            logits = network.logits(state_dict, images=batch_images, training=True)
        total_loss = torch.nn.functional.binary_cross_entropy_with_logits(
            logits.float(),
            target=known_targets.values.index_select(dim=0, index=image_rows),
            weight=known_targets.weights_of(rows=image_rows),
            reduction="sum",
        )
        mean_loss = total_loss / len(image_rows)
        torch.autograd.backward(mean_loss * loss_scale)
        if loss_scale != 1:  # Gradients may overflow in float16. Such a step is left out.
            gradient_vector.div_(loss_scale)
            has_finite_gradient = gradient_vector.isfinite().all()[None]
            gradient_vector.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        optimizer.step(
            [gradient_vector],
            is_active=has_finite_gradient,
            rate_factor=1 - step / minibatches.num_steps,
        )
        losses_by_step[step] = mean_loss.detach()
    return {name: tensor.detach() for name, tensor in state_dict.items()}, losses_by_step.numpy()


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class KnownTargets:
    """Targets of a training, with the weight 0 where they are unknown.

    Attributes:
        values: `[num_records, num_labels]` in [0, 1]; 0 where unknown.
        weights: `[num_records, num_labels]`, 1 where known; None if all are.
    """

    values: torch.Tensor
    weights: torch.Tensor | None

    @classmethod
    def from_array(cls, targets: torch.Tensor) -> KnownTargets:
        """Returns the targets in an array `[num_records, num_labels]` that is NaN where they are unknown."""
        is_unknown = targets.isnan()
        if not is_unknown.any():
            return cls(values=targets, weights=None)
        return cls(values=targets.nan_to_num(nan=0.0), weights=(~is_unknown).to(targets.dtype))

    def weights_of(self, rows: torch.Tensor) -> torch.Tensor | None:
        """Returns the weights of the records at indices `rows`, `[*rows.shape, num_labels]`; None if all are 1."""
        return None if self.weights is None else self.weights[rows]


def _store_in_one_vector(
    state_dict: Tensors, *, network: Network
) -> tuple[torch.Tensor, torch.Tensor]:
    """Stores all parameters in one vector and all gradients in another; the parameters become views of the vectors.

    A step of the optimizer then needs a few operations only, for any number of layers.

    Returns:
        The vector of parameters, and the vector of gradients.
    """
    parameter_names = [name for name in state_dict if not network.is_buffer(name)]
    parameter_vector = torch.cat([state_dict[name].reshape(-1) for name in parameter_names])
    gradient_vector = torch.zeros_like(parameter_vector)
    start = 0
    for name in parameter_names:
        tensor_shape = state_dict[name].shape
        end = start + state_dict[name].numel()
        state_dict[name] = parameter_vector[start:end].view(tensor_shape).detach().requires_grad_()
        state_dict[name].grad = gradient_vector[start:end].view(tensor_shape)
        start = end
    return parameter_vector, gradient_vector
