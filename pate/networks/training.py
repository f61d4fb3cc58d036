"""How networks are trained: public settings, minibatches, and the optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import require_choice, require_count, require_non_negative, require_positive

if TYPE_CHECKING:
    import torch
else:
    from pate.networks.device import torch

PRECISIONS = ("auto", "float32", "bfloat16", "float16")
_LOSS_SCALE = 1024.0  # lifts gradients out of float16's denormals; a power of two, so that undoing it is exact


@dataclass(frozen=True)
class Recipe:
    """AdamW on cross-entropy, the learning rate falling linearly to zero.

    Attributes:
        epochs: passes over the records.
        batch_size: records per step, at most.
        learning_rate: of the first step, > 0.
        weight_decay: of AdamW, >= 0.
        flip: whether each image is mirrored with probability 1/2 each time it is shown.
        precision: of the products inside the network: "float32", "bfloat16", "float16", or "auto": bfloat16 on
            a GPU that has it, otherwise float32. Parameters and the optimizer are float32 throughout. With "float32"
            convolutions of recent GPUs still round what they multiply to TF32, as torch has it
            (`torch.backends.cudnn.allow_tf32`).

    Raises:
        InvalidValue: an attribute outside its range.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    flip: bool = False
    precision: str = "auto"

    def __post_init__(self) -> None:
        require_count("epochs", self.epochs)
        require_count("batch_size", self.batch_size)
        require_positive("learning_rate", self.learning_rate)
        require_non_negative("weight_decay", self.weight_decay)
        require_choice("precision", self.precision, PRECISIONS)

    @classmethod
    def of(cls, settings: Any) -> Recipe:
        """The recipe that a teacher or student has among its own settings, under the same names."""
        return cls(**{setting.name: getattr(settings, setting.name) for setting in fields(cls)})

    def dtype(self, device: torch.device) -> torch.dtype:
        """What products are computed in on this device."""
        if self.precision == "auto":
            return torch.bfloat16 if device.type == "cuda" and _has_bfloat16(device) else torch.float32
        return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[self.precision]

    def loss_scale(self, device: torch.device) -> float:
        """What losses are multiplied by before the backward pass, and gradients divided by after it."""
        return _LOSS_SCALE if self.dtype(device) == torch.float16 else 1.0

    @contextmanager
    def autocast(self, device: torch.device) -> Iterator[None]:
        """Runs its body in the precision for this device."""
        dtype = self.dtype(device)
        with torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
            yield


def _has_bfloat16(device: torch.device) -> bool:
    """Whether the GPU multiplies in bfloat16; torch's own question says yes to those that emulate it, slowly, too."""
    return torch.version.hip is not None or torch.cuda.get_device_capability(device) >= (8, 0)


class Minibatches:
    """Draws, step by step, one minibatch for each of several parts.

    Every part is walked through in a fresh random order each epoch, in `ceil(size / batch_size)` steps; the
    order depends on the part's own size and generator alone. A part that has done its epochs sits the
    remaining steps out.

    Attributes:
        num_steps: steps until the part with the most steps has done its epochs.
        steps_of: how many each part has.
    """

    def __init__(self, sizes: Sequence[int], batch_size: int, epochs: int, rngs: Sequence[np.random.Generator]) -> None:
        self._sizes, self._batch_size, self._rngs = sizes, batch_size, rngs
        self._steps_per_epoch = [-(-size // batch_size) for size in sizes]
        self.steps_of = [epochs * steps for steps in self._steps_per_epoch]
        self._orders: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * len(sizes)
        self.num_steps = max(self.steps_of)
        self._next = 0

    def draw(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the next step's rows, int64 `[num_parts, b]`, and how many of them count, `[num_parts]`.

        Rows behind a part's count are 0; a part that has done its epochs has count 0.
        """
        step, self._next = self._next, self._next + 1
        rows = np.zeros((len(self._sizes), min(self._batch_size, max(self._sizes))), np.int64)
        counts = np.zeros(len(self._sizes), np.int64)
        for part, per_epoch in enumerate(self._steps_per_epoch):
            if step >= self.steps_of[part]:
                continue
            if step % per_epoch == 0:
                self._orders[part] = self._rngs[part].permutation(self._sizes[part])
            first = step % per_epoch * self._batch_size
            taken = self._orders[part][first : first + self._batch_size]
            rows[part, : len(taken)], counts[part] = taken, len(taken)
        return rows, counts


class StackedAdamW:
    """Torch's AdamW (Loshchilov and Hutter, 2019) on parameters `[num_parts, …]`: each part moves as it would alone.

    Nothing is averaged over the parts. A part that sits a step out keeps its parameters; since it never comes back,
    its moments do not matter.

    Attributes:
        learning_rate: > 0, for all parts.
        weight_decay: >= 0; each step shrinks the parameters by `learning_rate * weight_decay`.
    """

    def __init__(self, parameters: Sequence[torch.Tensor], *, learning_rate: float, weight_decay: float) -> None:
        self.learning_rate, self.weight_decay, self._parameters = learning_rate, weight_decay, list(parameters)
        self._first, self._second = ([torch.zeros_like(each) for each in parameters] for _ in range(2))
        self._counts = [torch.zeros((), device=parameter.device) for parameter in parameters]

    def step(
        self, gradients: Sequence[torch.Tensor], active: torch.Tensor | None = None, scale: torch.Tensor | float = 1.0
    ) -> None:
        """Moves the parts that are active.

        Args:
            gradients: one for each parameter.
            active: bool, of a shape that broadcasts with every parameter: `[num_parts, 1, …]`; None for all.
            scale: of this step's learning rate; a tensor, of the shape of `active`, where parts differ.
        """
        from torch.optim.adamw import adamw  # here, as torch is loaded late

        all_alike = isinstance(scale, float) and (active is None or bool(active.all()))
        before = [] if all_alike else [parameter.clone() for parameter in self._parameters]
        adamw(  # the class `AdamW` around it takes twice as long for parameters this small
            self._parameters,
            list(gradients),
            self._first,
            self._second,
            [],
            self._counts,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.learning_rate * scale if all_alike else self.learning_rate,
            weight_decay=self.weight_decay,
            eps=1e-8,
            maximize=False,
        )
        # A step is linear in its rate, weight decay included: a part with a smaller one goes a share of the way.
        share = scale if active is None else scale * active
        for parameter, kept in zip(self._parameters, before, strict=False):
            parameter.copy_(kept.lerp(parameter, share))
