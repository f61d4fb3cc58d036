"""Sums of clipped gradients of single records, by Opacus."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from pate.comparison.alternatives.group_gradients import Array

_CHUNK_VALUES = 2**20  # of gradients of single records at once


@contextmanager
def clipped_sums(network: nn.Module, clip: float) -> Iterator[Callable[[Array, Array], Array]]:
    """Sums of clipped gradients of single records, by Opacus, which is off the network again after the block."""
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    module: Any = GradSampleModule(network, loss_reduction="sum")
    parameters: list[Any] = list(network.parameters())
    size = sum(parameter.numel() for parameter in parameters)
    clipping: Any = DPOptimizer(
        torch.optim.SGD(parameters, lr=0.0),
        noise_multiplier=0.0,
        expected_batch_size=None,
        loss_reduction="sum",
        max_grad_norm=clip,
    )

    def summed(inputs: Array, labels: Array) -> Array:
        """The sum over records `[m, …]`, as one vector; its sign is that of the loss's gradient."""
        if not len(inputs):  # nobody takes part
            return np.zeros(size)
        for parameter in parameters:
            parameter.summed_grad = None
        rows = max(1, _CHUNK_VALUES // size)
        for first in range(0, len(inputs), rows):
            some, wanted = (
                torch.from_numpy(each[first : first + rows]) for each in (inputs, labels)
            )
            loss = functional.binary_cross_entropy_with_logits(
                module(some), wanted, reduction="sum"
            )
            torch.autograd.backward(loss)
            clipping.clip_and_accumulate()
            for parameter in parameters:
                parameter.grad_sample = parameter.grad = None
        return np.concatenate(
            [parameter.summed_grad.detach().numpy().ravel() for parameter in parameters]
        )

    yield summed
    module.to_standard_module()
    for parameter in parameters:
        parameter.requires_grad_(False)
