"""Sums of clipped gradients of single records, which Opacus computes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from pate.array_types import FloatArray
from pate.models.networks.training import KnownTargets

# The most entries of gradients of single records that are in memory at once, unless a single gradient has more.
_CHUNK_ENTRIES = 2**20


@contextmanager
def clipped_sums(
    network: nn.Module, clip: float
) -> Iterator[Callable[[FloatArray, FloatArray], FloatArray]]:
    """Yields a function of inputs `[m, …]` and labels `[m, L]` that returns the sum of m records' clipped gradients.

    The loss of a record is the binary cross-entropy, summed over its known labels. The gradient of this loss is a
    vector over all parameters of the network, and is clipped before the sum.

    The hooks of Opacus are removed from the network if the `with` block ends without an error, and its parameters then
    need no gradients.

    Args:
        network: the network whose parameters are trained.
        clip: the largest l2 length of a record's gradient.
    """
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    grad_sample_module = GradSampleModule(network, loss_reduction="sum")
    parameters: list[Any] = list(network.parameters())
    num_weights = sum(parameter.numel() for parameter in parameters)
    clipping = DPOptimizer(
        torch.optim.SGD(parameters, lr=0.0),
        noise_multiplier=0.0,
        expected_batch_size=None,
        loss_reduction="sum",
        max_grad_norm=clip,
    )

    def clipped_sum(inputs: FloatArray, labels_or_nan: FloatArray) -> FloatArray:
        """Returns the sum of the clipped gradients of the loss over m records, as one vector over all parameters.

        Without records the sum is 0.

        Args:
            inputs: `[m, …]`.
            labels_or_nan: the labels, `[m, L]`; NaN where they are unknown, which no loss counts.
        """
        if not len(inputs):  # no group takes part in the step
            return np.zeros(num_weights)
        for parameter in parameters:
            parameter.summed_grad = None
        rows_per_chunk = max(1, _CHUNK_ENTRIES // num_weights)
        for first_row in range(0, len(inputs), rows_per_chunk):
            row_slice = slice(first_row, first_row + rows_per_chunk)
            input_chunk = torch.from_numpy(inputs[row_slice])
            label_targets = KnownTargets.from_array(torch.from_numpy(labels_or_nan[row_slice]))
            loss_sum_of_records = functional.binary_cross_entropy_with_logits(
                grad_sample_module(input_chunk),
                label_targets.values,
                weight=label_targets.weights,
                reduction="sum",
            )
            torch.autograd.backward(loss_sum_of_records)
            clipping.clip_and_accumulate()
            for parameter in parameters:
                parameter.grad_sample = parameter.grad = None
        return np.concatenate(
            [parameter.summed_grad.detach().numpy().ravel() for parameter in parameters]
        )

    yield clipped_sum
    grad_sample_module.to_standard_module()
    for parameter in parameters:
        parameter.requires_grad_(False)
