"""Adam with decoupled weight decay for networks trained side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
else:
    from pate.networks.later import torch


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
