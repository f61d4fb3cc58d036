"""How networks are trained: public settings, minibatches, and the optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache
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
    """

    def __init__(self, sizes: Sequence[int], batch_size: int, epochs: int, rngs: Sequence[np.random.Generator]) -> None:
        self._sizes, self._batch_size, self._rngs = sizes, batch_size, rngs
        self._steps_per_epoch = [-(-size // batch_size) for size in sizes]
        self._last_step = [epochs * steps for steps in self._steps_per_epoch]
        self._orders: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * len(sizes)
        self.num_steps = max(self._last_step)
        self._next = 0

    def draw(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the next step's rows, int64 `[num_parts, b]`, and how many of them count, `[num_parts]`.

        Rows behind a part's count are 0; a part that has done its epochs has count 0.
        """
        step, self._next = self._next, self._next + 1
        rows = np.zeros((len(self._sizes), min(self._batch_size, max(self._sizes))), np.int64)
        counts = np.zeros(len(self._sizes), np.int64)
        for part, per_epoch in enumerate(self._steps_per_epoch):
            if step >= self._last_step[part]:
                continue
            if step % per_epoch == 0:
                self._orders[part] = self._rngs[part].permutation(self._sizes[part])
            first = step % per_epoch * self._batch_size
            taken = self._orders[part][first : first + self._batch_size]
            rows[part, : len(taken)], counts[part] = taken, len(taken)
        return rows, counts


_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


class StackedAdam:
    """AdamW (Loshchilov and Hutter, 2019) on parameters `[num_parts, …]`, in place.

    Nothing is averaged over the parts, so each moves as it would alone. Parts that sit a step out keep
    their parameters; since they never come back, their moments do not matter.

    Attributes:
        learning_rate: > 0, for all parts.
        weight_decay: >= 0; each step shrinks the parameters by `learning_rate * weight_decay`.
    """

    def __init__(self, parameters: Sequence[torch.Tensor], *, learning_rate: float, weight_decay: float) -> None:
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self._parameters = parameters
        self._first = [torch.zeros_like(parameter) for parameter in parameters]
        self._second = [torch.zeros_like(parameter) for parameter in parameters]
        self._steps = 0
        self._counts = [torch.zeros((), device=parameter.device) for parameter in parameters]

    def step(self, gradients: Sequence[torch.Tensor], active: torch.Tensor, scale: torch.Tensor | float = 1.0) -> None:
        """Moves the parts that are active.

        Args:
            gradients: one for each parameter.
            active: bool, of a shape that broadcasts with every parameter: `[num_parts, 1, …]`.
            scale: of this step's learning rate; a tensor, of the shape of `active`, where parts differ.
        """
        self._steps += 1
        all_active = bool(active.all())
        if isinstance(scale, float) and all_active and (fused := fused_step()) is not None:
            self._step_at_once(fused, gradients, scale)
            return
        first_bias, second_bias = (1 - beta**self._steps for beta in _BETAS)
        shrink = 1 - scale * (self.learning_rate * self.weight_decay)
        rate = scale * (self.learning_rate * math.sqrt(second_bias) / first_bias)
        for parameter, gradient, first, second in zip(
            self._parameters, gradients, self._first, self._second, strict=True
        ):
            resting = None if all_active else parameter.clone()
            first.lerp_(gradient, 1 - _BETAS[0])
            second.mul_(_BETAS[1]).addcmul_(gradient, gradient, value=1 - _BETAS[1])
            spread = second.sqrt().add_(_EPSILON * math.sqrt(second_bias))
            parameter.mul_(shrink)
            if isinstance(rate, torch.Tensor):
                parameter.sub_((first / spread).mul_(rate))
            else:
                parameter.addcdiv_(first, spread, value=-rate)
            if resting is not None:
                parameter.copy_(torch.where(active, parameter, resting))

    def _step_at_once(self, fused: Callable[..., Any], gradients: Sequence[torch.Tensor], scale: float) -> None:
        """All parts alike: the same formulas in one pass over memory."""
        for count in self._counts:
            count.fill_(self._steps)
        moments = self._first, self._second
        rate = scale * self.learning_rate
        _call(fused, list(self._parameters), list(gradients), *moments, self._counts, rate, self.weight_decay)


@cache
def fused_step() -> Callable[..., Any] | None:
    """Torch's step in one pass, which is no part of its public interface; None where this torch has no such function.

    Without it every step takes the formulas above in several passes: slower, and equal up to rounding.
    """
    fused: Callable[..., Any] | None = getattr(torch, "_fused_adamw_", None)
    if fused is None:
        return None
    parameter, gradient, first, second, count = (torch.tensor([value]) for value in (1.0, 1.0, 0.0, 0.0, 1.0))
    try:
        _call(fused, [parameter], [gradient], [first], [second], [count[0]], 0.25, 0.5)
    except (TypeError, RuntimeError):  # other arguments than those known here
        return None
    return fused if abs(float(parameter) - 0.625) < 1e-6 else None  # 1 - rate * decay - rate


def _call(
    fused: Callable[..., Any],
    parameters: list[torch.Tensor],
    gradients: list[torch.Tensor],
    first: list[torch.Tensor],
    second: list[torch.Tensor],
    counts: list[torch.Tensor],
    rate: float,
    weight_decay: float,
) -> None:
    fused(
        parameters,
        gradients,
        first,
        second,
        [],
        counts,
        lr=rate,
        beta1=_BETAS[0],
        beta2=_BETAS[1],
        weight_decay=weight_decay,
        eps=_EPSILON,
        amsgrad=False,
        maximize=False,
    )
