"""Networks for images: what each offers, the images that go into it, and how it is trained on its records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pate.device import require_device, torch
from pate.validation import (
    require,
    require_choice,
    require_count,
    require_non_negative,
    require_positive,
)

# All that a network is, by name: parameters, and buffers that training moves without a gradient.
Tensors: TypeAlias = "dict[str, torch.Tensor]"
PRECISIONS = ("auto", "float32", "bfloat16", "float16")
NORMS = ("group", "batch")
# lifts gradients out of float16's denormals; a power of two, so that undoing it is exact
_LOSS_SCALE = 1024.0
_BLOCK = 128  # images a forward pass without gradients
_FEW = 2**25  # values: 128 MiB as float32
_ADAMW: dict[str, Any] = {
    "fused": True,
    "amsgrad": False,
    "beta1": 0.9,
    "beta2": 0.999,
    "eps": 1e-8,
    "maximize": False,
}


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(
        ("hidden", "epochs", "batch_size", "chunk_size", "num_workers", "max_in_flight"),
        require_count,
    ),
    **dict.fromkeys(
        ("width", "patch", "grid", "kernel_size", "image_size", "num_directions", "rank"),
        require_count,
    ),
    **dict.fromkeys(
        ("blocks", "max_unlabeled", "max_deaths", "max_retries"), partial(require_count, minimum=0)
    ),
    "folds": partial(require_count, minimum=2),
    **dict.fromkeys(("learning_rate", "penalty", "labels_per_sample"), require_positive),
    **dict.fromkeys(("weight_decay", "num_cpus", "num_gpus"), require_non_negative),
    "precision": partial(require_choice, choices=PRECISIONS),
    "norm": partial(require_choice, choices=NORMS),
    "device": lambda _, device: require_device(device),
}


def require_settings(settings: Any) -> None:
    """Raises unless each setting that is known by its name is in range, or None where that is the default."""
    for item in fields(settings):
        value = getattr(settings, item.name)
        if item.name in _CHECKS and not (value is None and item.default is None):
            _CHECKS[item.name](item.name, value)


class Network(ABC):
    """An architecture without parameters of its own: they are an argument, by name."""

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
    require(
        images.dtype in (np.float32, np.uint8),
        "inputs.dtype",
        images.dtype,
        "float32 in [0, 1], or uint8",
    )
    return images


def centered(images: torch.Tensor) -> torch.Tensor:
    """Images of [0, 1] or 0..255 in [-1, 1], their channels innermost in memory; the constants are public."""
    scaled = images.float().mul_(2 / 255.0) if images.dtype == torch.uint8 else images * 2
    return scaled.sub_(1).contiguous(memory_format=torch.channels_last)


def mirrored(images: torch.Tensor, flips: torch.Tensor) -> torch.Tensor:
    """Images with those mirrored whose flip, bool `[n]`, is set."""
    return torch.where(flips[:, None, None, None], images.flip(3), images)


def blocks_of(
    images: NDArray[Any], size: int, device: torch.device
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Images a block at a time, as `centered` gives them, and which rows they are."""
    for first in range(0, len(images), size):
        rows = slice(first, first + size)
        yield rows, centered(torch.from_numpy(np.ascontiguousarray(images[rows])).to(device))


def logits_in_blocks(
    network: Network, tensors: Tensors, images: NDArray[Any], device: torch.device
) -> NDArray[np.float32]:
    """Log-odds of any number of images, `[n, num_labels]`, a block at a time and in float32."""
    logits = np.empty((len(images), network.num_labels), np.float32)
    with torch.no_grad():
        for rows, block in blocks_of(images, _BLOCK, device):
            logits[rows] = network.logits(tensors, block, training=False).float().cpu().numpy()
    return logits


@dataclass(frozen=True)
class Recipe:
    """AdamW on cross-entropy, the learning rate falling linearly to zero."""

    epochs: int  # passes over the records
    batch_size: int = 32  # records per step, at most
    learning_rate: float = 1e-3  # of the first step, > 0
    weight_decay: float = 1e-2  # of AdamW, >= 0
    flip: bool = False  # whether each image is mirrored with probability 1/2 each time it is shown
    # of the products inside the network: "float32", "bfloat16", "float16", or "auto": bfloat16 on a GPU that has it,
    # otherwise float32. Parameters and the optimizer are float32 throughout. With "float32" convolutions of recent GPUs
    # still round what they multiply to TF32, as torch has it (`torch.backends.cudnn.allow_tf32`).
    precision: str = field(default="auto", metadata={"public": True})

    def __post_init__(self) -> None:
        require_settings(self)

    def dtype(self, device: torch.device) -> torch.dtype:
        """The type of numbers that the network computes in."""
        if self.precision != "auto" or device.type != "cuda":
            dtype: torch.dtype = getattr(torch, self.precision.replace("auto", "float32"))
            return dtype
        # torch's own question says yes to GPUs that emulate bfloat16, slowly, too
        has_it = torch.version.hip is not None or torch.cuda.get_device_capability(device) >= (8, 0)
        return torch.bfloat16 if has_it else torch.float32

    def loss_scale(self, device: torch.device) -> float:
        """What losses are multiplied by before the backward pass, and gradients divided by after it."""
        return _LOSS_SCALE if self.dtype(device) == torch.float16 else 1.0

    @contextmanager
    def autocast(self, device: torch.device) -> Iterator[None]:
        """Returns the context in which torch computes in that type."""
        dtype = self.dtype(device)
        with torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
            yield


class Minibatches:
    """Draws, step by step, one minibatch for each of several parts.

    Every part is walked through in a fresh random order each epoch, by its own generator. One that has done its epochs,
    `steps_of` steps of `num_steps`, sits the remaining steps out.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        batch_size: int,
        epochs: int,
        rngs: Sequence[np.random.Generator],
    ) -> None:
        self._sizes = sizes
        self._batch_size = batch_size
        self._rngs = rngs
        self._steps_per_epoch = [-(-size // batch_size) for size in sizes]
        self.steps_of = [epochs * steps for steps in self._steps_per_epoch]
        self.num_steps = max(self.steps_of)

    def __iter__(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Each step's rows, int64 `[num_parts, b]`, and how many of them count, `[num_parts]`; others are 0."""
        orders = [np.empty(0, np.int64)] * len(self._sizes)
        for step in range(self.num_steps):
            rows = np.zeros((len(self._sizes), min(self._batch_size, max(self._sizes))), np.int64)
            counts = np.zeros(len(self._sizes), np.int64)
            for part, per_epoch in enumerate(self._steps_per_epoch):
                if step < self.steps_of[part]:
                    if step % per_epoch == 0:
                        orders[part] = self._rngs[part].permutation(self._sizes[part])
                    first = step % per_epoch * self._batch_size
                    taken = orders[part][first : first + self._batch_size]
                    rows[part, : len(taken)], counts[part] = taken, len(taken)
            yield rows, counts


class StackedAdamW:
    """Torch's AdamW (Loshchilov and Hutter, 2019) on parameters `[num_parts, …]`: each part moves as it would alone.

    A part that sits a step out keeps its parameters; since it never comes back, its moments do not matter. Each step
    shrinks the parameters by `learning_rate * weight_decay`.
    """

    def __init__(
        self, parameters: Sequence[torch.Tensor], *, learning_rate: float, weight_decay: float
    ) -> None:
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self._parameters = list(parameters)
        self._first, self._second = (
            [torch.zeros_like(parameter) for parameter in parameters] for _ in range(2)
        )
        self._counts = [torch.zeros((), device=parameter.device) for parameter in parameters]

    def step(
        self,
        gradients: Sequence[torch.Tensor],
        active: torch.Tensor | None = None,
        scale: torch.Tensor | float = 1.0,
    ) -> None:
        """Moves the parts that are active, `[num_parts, 1, …]`, or all; the rate has a `scale`, for all or for each."""
        from torch.optim.adamw import adamw  # here, as torch is loaded late

        all_alike = isinstance(scale, float) and (active is None or bool(active.all()))
        before = [] if all_alike else [parameter.clone() for parameter in self._parameters]
        rate = self.learning_rate * scale if all_alike else self.learning_rate
        none: list[torch.Tensor] = []
        # `AdamW` around it takes twice as long here
        adamw(
            self._parameters,
            list(gradients),
            self._first,
            self._second,
            none,
            self._counts,
            lr=rate,
            weight_decay=self.weight_decay,
            **_ADAMW,
        )
        # A step is linear in its rate, weight decay included: a part with a smaller one goes a share of the way.
        share = scale if active is None else scale * active
        for parameter, previous in zip(self._parameters, before, strict=False):
            parameter.copy_(previous.lerp(parameter, share))


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

    Images are float32 in [0, 1] or uint8, `[n, channels, height, width]`; targets `[n, num_labels]` in [0, 1]. Returned
    are the tensors, on the device, and each step's loss, a batch's mean over records of the sum over labels.
    """
    # What is trained are views of one vector, with gradients that are views of another: a step of the optimizer is then
    # a handful of operations, however many layers there are.
    tensors = {name: tensor.to(device) for name, tensor in network.initial(rng).items()}
    start = 0
    trained = [name for name in tensors if not network.is_buffer(name)]
    vector = torch.cat([tensors[name].reshape(-1) for name in trained])
    gradient = torch.zeros_like(vector)
    for name in trained:
        shape = tensors[name].shape
        end = start + tensors[name].numel()
        tensors[name] = vector[start:end].view(shape).detach().requires_grad_()
        tensors[name].grad = gradient[start:end].view(shape)
        start = end
    optimizer = StackedAdamW(
        [vector], learning_rate=recipe.learning_rate, weight_decay=recipe.weight_decay
    )
    shown, labels = (torch.from_numpy(array).to(device) for array in (images, targets))
    # centered once; many stay as they are, since bytes take a quarter of the memory
    if fits_in_memory := shown.numel() <= _FEW:
        shown = centered(shown).permute(0, 2, 3, 1)
    batches = Minibatches([len(images)], recipe.batch_size, recipe.epochs, [rng])
    curve = torch.zeros(batches.num_steps)
    loss_scale = recipe.loss_scale(device)
    active = None
    for step, (rows, counts) in enumerate(batches):
        batch = torch.from_numpy(rows[0, : counts[0]]).to(device)
        batch_pictures = shown.index_select(0, batch)
        pictures = (
            batch_pictures.permute(0, 3, 1, 2) if fits_in_memory else centered(batch_pictures)
        )
        if recipe.flip:
            pictures = mirrored(pictures, torch.from_numpy(rng.random(len(batch)) < 0.5).to(device))
        gradient.zero_()
        with recipe.autocast(device):
            logits = network.logits(tensors, pictures, training=True)
        batch_labels = labels.index_select(0, batch)
        summed = torch.nn.functional.binary_cross_entropy_with_logits(
            logits.float(), batch_labels, reduction="sum"
        )
        loss = summed / len(batch)
        torch.autograd.backward(loss * loss_scale)
        if loss_scale != 1:
            gradient.div_(loss_scale)
            active = gradient.isfinite().all()[None]
            gradient.nan_to_num_(0, 0, 0)
        optimizer.step([gradient], active, 1 - step / batches.num_steps)
        curve[step] = loss.detach()
    return {name: tensor.detach() for name, tensor in tensors.items()}, curve.numpy()
