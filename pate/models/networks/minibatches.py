"""Minibatches and an optimizer for several models at once, each of which is trained as if it were alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pate.array_types import IntArray
from pate.device import torch


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class Minibatch:
    """The records of one training step, for several models.

    Attributes:
        record_rows: the indices of the step's records within each part, `[num_parts, batch_size]`. Of part i, the first
            `records_per_part[i]` entries count, and the others are 0.
        records_per_part: the number of records of each part in this step, `[num_parts]`.
    """

    record_rows: IntArray
    records_per_part: IntArray


class Minibatches:
    """`Minibatches` yields the records of each step for several models trained at once, each on its part of the data.

    A model passes through its part `epochs` times. The next pass begins in the step after the last minibatch of a pass,
    in a new random order by the part's own generator. A small part ends before the others, and its minibatches are
    empty from then on.

    Attributes:
        steps_by_part: the number of steps after which each part ends, `[num_parts]`.
        num_steps: the number of steps of the longest part.
    """

    def __init__(
        self,
        *,
        part_sizes: Sequence[int],
        batch_size: int,
        epochs: int,
        rngs: Sequence[np.random.Generator],
    ) -> None:
        """Prepares the minibatches.

        Args:
            part_sizes: the number of records of each part, `[num_parts]`.
            batch_size: the largest number of records of a part in one step.
            epochs: the number of passes over each part.
            rngs: the generator of each part, `[num_parts]`.
        """
        self._part_sizes = part_sizes
        self._batch_size = batch_size
        self._rngs = rngs
        self._steps_per_epoch = [-(-size // batch_size) for size in part_sizes]
        self.steps_by_part = [epochs * steps for steps in self._steps_per_epoch]
        self.num_steps = max(self.steps_by_part)

    def __iter__(self) -> Iterator[Minibatch]:
        """Yields the minibatch of each step."""
        orders_of_parts = [np.empty(0, np.int64)] * len(self._part_sizes)
        most_records = min(self._batch_size, max(self._part_sizes))
        for step in range(self.num_steps):
            record_rows = np.zeros((len(self._part_sizes), most_records), np.int64)
            records_per_part = np.zeros(len(self._part_sizes), np.int64)
            for part_index, steps_per_epoch in enumerate(self._steps_per_epoch):
                if step >= self.steps_by_part[part_index]:
                    continue
                step_of_epoch = step % steps_per_epoch
                if step_of_epoch == 0:
                    orders_of_parts[part_index] = self._rngs[part_index].permutation(
                        self._part_sizes[part_index]
                    )
                start = step_of_epoch * self._batch_size
                batch_rows = orders_of_parts[part_index][start : start + self._batch_size]
                record_rows[part_index, : len(batch_rows)] = batch_rows
                records_per_part[part_index] = len(batch_rows)
            yield Minibatch(record_rows=record_rows, records_per_part=records_per_part)


class StackedAdamW:
    """Torch's AdamW (Loshchilov and Hutter, 2019) for several models at once, with parameters `[num_parts, …]`.

    Each model, a part, moves as it would alone. A part that is not active in a step keeps its parameters, but its
    moments are updated by the gradient that it is given. Before a part moves by its gradient, its parameters are
    multiplied by `1 - rate_factor * learning_rate * weight_decay`.
    """

    def __init__(
        self, parameters: Sequence[torch.Tensor], *, learning_rate: float, weight_decay: float
    ) -> None:
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self._parameters = list(parameters)
        self._first_moments = [torch.zeros_like(parameter) for parameter in parameters]
        self._second_moments = [torch.zeros_like(parameter) for parameter in parameters]
        self._step_counts = [torch.zeros((), device=parameter.device) for parameter in parameters]

    def step(
        self,
        gradients: Sequence[torch.Tensor],
        is_active: torch.Tensor | None = None,
        rate_factor: torch.Tensor | float = 1.0,
    ) -> None:
        """Moves the parameters of the active parts.

        Args:
            gradients: the gradient of each parameter, of the parameter's shape.
            is_active: true for each part that moves, bool `[num_parts, 1, …]`; None moves all parts.
            rate_factor: a factor of the learning rate, one number or `[num_parts, 1, …]`.
        """
        from torch.optim.adamw import adamw  # torch is loaded when it is first used

        all_active = is_active is None or bool(is_active.all())
        has_one_rate = isinstance(rate_factor, float) and all_active
        previous_parameters = (
            [] if has_one_rate else [parameter.clone() for parameter in self._parameters]
        )
        max_second_moments: list[torch.Tensor] = []  # only AMSGrad has them
        # This function is called, as the class `torch.optim.AdamW` around it takes twice as long here.
        adamw(
            self._parameters,
            list(gradients),
            self._first_moments,
            self._second_moments,
            max_second_moments,
            self._step_counts,
            lr=self.learning_rate * rate_factor if has_one_rate else self.learning_rate,
            weight_decay=self.weight_decay,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            eps=1e-8,
            maximize=False,
        )
        # A step is linear in its rate, weight decay included. So a part with a smaller rate goes a share of the way.
        step_share = rate_factor if is_active is None else rate_factor * is_active
        # `strict=False`: `previous_parameters` is empty where one rate holds for all: nothing is to be corrected.
        for parameter, previous_parameter in zip(
            self._parameters, previous_parameters, strict=False
        ):
            parameter.copy_(previous_parameter.lerp(parameter, step_share))
