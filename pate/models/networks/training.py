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
from pate.models.networks.network import Network, Tensors, centered, mirrored

# lifts gradients out of float16's denormals; a power of two, so that undoing it is exact
_LOSS_SCALE = 1024.0
_MOST_CENTERED = 2**25  # numbers in images: 128 MiB as float32


@dataclass(frozen=True)
class AdamWRecipe:
    """The hyper-parameters of the training of a network by AdamW on cross-entropy.

    The learning rate decreases linearly to zero.
    """

    epochs: int  # passes over the records
    batch_size: int = 32  # number of records of a step, at most
    learning_rate: float = 1e-3  # of the first step, > 0
    weight_decay: float = 1e-2  # of AdamW, >= 0
    flip: bool = False  # whether an image is mirrored with probability 1/2 in each epoch
    # Type of the products inside the network: "float32", "bfloat16", "float16", or "auto": bfloat16 on a GPU that has
    # it, otherwise float32. Parameters and the optimizer are float32 throughout. With "float32" convolutions of recent
    # GPUs still round what they multiply to TF32, as torch has it (`torch.backends.cudnn.allow_tf32`).
    precision: str = field(default="auto", metadata={"public": True})

    def __post_init__(self) -> None:
        require_settings(self)

    def dtype(self, device: torch.device) -> torch.dtype:
        """Returns the floating-point type in which the network is computed on a device."""
        if self.precision != "auto" or device.type != "cuda":
            dtype: torch.dtype = getattr(torch, self.precision.replace("auto", "float32"))
            return dtype
        # `torch.cuda.is_bf16_supported` also accepts GPUs that emulate bfloat16, slowly
        has_bfloat16 = torch.version.hip is not None or torch.cuda.get_device_capability(
            device
        ) >= (8, 0)
        return torch.bfloat16 if has_bfloat16 else torch.float32

    def loss_scale(self, device: torch.device) -> float:
        """Returns the factor of a loss before the backward pass; afterwards gradients are divided by this factor."""
        return _LOSS_SCALE if self.dtype(device) == torch.float16 else 1.0

    @contextmanager
    def autocast(self, device: torch.device) -> Iterator[None]:
        """Lets torch compute in the type `dtype` during a `with` block."""
        dtype = self.dtype(device)
        with torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
            yield


def fit_network(
    network: Network,
    images: NDArray[Any],
    targets: Float32Array,
    *,
    recipe: AdamWRecipe,
    rng: np.random.Generator,
    device: torch.device,
) -> tuple[Tensors, Float32Array]:
    """Trains a network; equal arguments give equal bytes on a CPU with one thread.

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
    tensors = {name: tensor.to(device) for name, tensor in network.initial(rng).items()}
    vector, gradient = _one_vector(network, tensors)
    optimizer = StackedAdamW(
        parameters=[vector], learning_rate=recipe.learning_rate, weight_decay=recipe.weight_decay
    )
    stored = torch.from_numpy(images).to(device)
    known_targets = KnownTargets.of(torch.from_numpy(targets).to(device))
    # Few images are centered once, with channels innermost. Many stay as they are: bytes take a quarter of the memory.
    fits_in_memory = stored.numel() <= _MOST_CENTERED
    if fits_in_memory:
        stored = centered(stored).permute(0, 2, 3, 1)
    batches = Minibatches(
        sizes=[len(images)], batch_size=recipe.batch_size, epochs=recipe.epochs, rngs=[rng]
    )
    curve = torch.zeros(batches.num_steps)
    loss_scale = recipe.loss_scale(device)
    is_finite = None
    for step, batch in enumerate(batches):
        rows = torch.from_numpy(batch.rows[0, : batch.counts[0]]).to(device)
        batch_images = stored.index_select(0, rows)
        pictures = batch_images.permute(0, 3, 1, 2) if fits_in_memory else centered(batch_images)
        if recipe.flip:
            pictures = mirrored(
                images=pictures, flips=torch.from_numpy(rng.random(len(rows)) < 0.5).to(device)
            )
        gradient.zero_()
        with recipe.autocast(device):
            logits = network.logits(tensors, pictures, training=True)
        total_loss = torch.nn.functional.binary_cross_entropy_with_logits(
            logits.float(),
            known_targets.values.index_select(0, rows),
            weight=known_targets.weights_of(rows),
            reduction="sum",
        )
        loss = total_loss / len(rows)
        torch.autograd.backward(loss * loss_scale)
        if loss_scale != 1:  # gradients may overflow in float16: such a step is left out
            gradient.div_(loss_scale)
            is_finite = gradient.isfinite().all()[None]
            gradient.nan_to_num_(0, 0, 0)
        optimizer.step([gradient], is_active=is_finite, rate_factor=1 - step / batches.num_steps)
        curve[step] = loss.detach()
    return {name: tensor.detach() for name, tensor in tensors.items()}, curve.numpy()


@dataclass(frozen=True, eq=False)
class KnownTargets:
    """Targets of a training, with the weight 0 where they are unknown.

    Attributes:
        values: `[num_records, num_labels]` in [0, 1]; 0 where unknown.
        weights: `[num_records, num_labels]`, 1 where known; None if all are.
    """

    values: torch.Tensor
    weights: torch.Tensor | None

    @classmethod
    def of(cls, targets: torch.Tensor) -> KnownTargets:
        """Returns the targets `[num_records, num_labels]`, which are NaN where they are unknown."""
        is_unknown = targets.isnan()
        if not is_unknown.any():
            return cls(targets, weights=None)
        return cls(targets.nan_to_num(0.0), weights=(~is_unknown).to(targets.dtype))

    def weights_of(self, rows: torch.Tensor) -> torch.Tensor | None:
        """Returns the weights of some records, with the shape of `rows` and an axis of labels; None for 1."""
        return None if self.weights is None else self.weights[rows]


def _one_vector(network: Network, tensors: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    """Stores all parameters in one vector and all gradients in another; the tensors become views of these vectors.

    A step of the optimizer then needs a few operations only, for any number of layers.

    Returns:
        The vector of parameters, and the vector of gradients.
    """
    trained = [name for name in tensors if not network.is_buffer(name)]
    vector = torch.cat([tensors[name].reshape(-1) for name in trained])
    gradient = torch.zeros_like(vector)
    start = 0
    for name in trained:
        shape = tensors[name].shape
        end = start + tensors[name].numel()
        tensors[name] = vector[start:end].view(shape).detach().requires_grad_()
        tensors[name].grad = gradient[start:end].view(shape)
        start = end
    return vector, gradient
