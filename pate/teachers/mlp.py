"""Teachers with one hidden layer, trained side by side by batched matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pate.networks.device import require_device
from pate.networks.training import Minibatches, StackedAdamW
from pate.teachers.teacher import PaddedBatch, Shard, State, Teacher, as_rows, require_shards
from pate.validation import require_count, require_non_negative, require_positive, require_probability

if TYPE_CHECKING:
    import torch

    Parameters = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
else:
    from pate.networks.device import torch

_NAMES = ("hidden_weights", "hidden_bias", "weights", "bias")


@dataclass(frozen=True)
class MLPTeacher(Teacher):
    """One hidden layer of rectified units, a logistic output for each label, AdamW on cross-entropy.

    Inputs are centered and divided by their root mean square distance to the mean, both of the teacher's own
    records; the scaling is folded into the hidden layer. A minibatch's loss is its mean over records and
    its sum over labels. The threshold is public and the same for all teachers; below 0.5 it lets rare
    labels be voted for.

    Attributes:
        hidden: units of the hidden layer.
        epochs: passes over a teacher's records.
        batch_size: records per step, at most.
        learning_rate: of AdamW, > 0.
        weight_decay: of AdamW, >= 0.
        threshold: probability from which a label is voted for, in (0, 1).
        device: "auto" (the GPU where there is one), "cpu" or "cuda".

    Raises:
        InvalidValue: an attribute outside its range.
    """

    hidden: int = 64
    epochs: int = 20
    batch_size: int = 64
    learning_rate: float = 1e-2
    weight_decay: float = 1.0
    threshold: float = 0.25
    device: str = "auto"

    def __post_init__(self) -> None:
        for name in ("hidden", "epochs", "batch_size"):
            require_count(name, getattr(self, name))
        require_positive("learning_rate", self.learning_rate)
        require_non_negative("weight_decay", self.weight_decay)
        require_probability("threshold", self.threshold)
        require_device(self.device)

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits by minibatches whose order, like the initial weights, depends on a teacher's seed alone."""
        require_shards(shards, seeds)
        device = require_device(self.device)
        stack = PaddedBatch.of(shards, device, torch.float32)
        center = stack.mean(stack.inputs)
        inputs = (stack.inputs - center).mul_(stack.mask)
        spread = _spread(stack, inputs)
        rngs = [np.random.default_rng(seed) for seed in seeds]
        parameters = _initial(rngs, inputs.shape[2], self.hidden, stack.labels.shape[2], device)
        batches = Minibatches([len(shard) for shard in shards], self.batch_size, self.epochs, rngs)
        curve = self._train(parameters, inputs.div_(spread), stack.labels, batches)
        hidden_weights, hidden_bias, weights, bias = parameters
        hidden_weights.div_(spread)
        hidden_bias.sub_(center @ hidden_weights)
        bias.sub_(math.log(self.threshold / (1 - self.threshold)))
        return _states((hidden_weights, hidden_bias, weights, bias), curve)

    def predict_many(self, states: Sequence[State], inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Probabilities, moved on the scale of log-odds so that the threshold is at 0.5."""
        device = require_device(self.device)
        parameters = tuple(torch.from_numpy(np.stack([state[name] for state in states])).to(device) for name in _NAMES)
        hidden_weights, hidden_bias, weights, bias = parameters
        queries = torch.from_numpy(as_rows(inputs)).to(device)
        units = (queries @ hidden_weights).add_(hidden_bias).relu_()
        confidences: NDArray[np.float32] = (units @ weights).add_(bias).sigmoid_().cpu().numpy()
        return confidences

    def _train(
        self, parameters: Parameters, inputs: torch.Tensor, labels: torch.Tensor, batches: Minibatches
    ) -> NDArray[np.float32]:
        """Moves the parameters; returns the losses `[num_shards, steps]`, NaN where one had finished."""
        optimizer = StackedAdamW(parameters, learning_rate=self.learning_rate, weight_decay=self.weight_decay)
        starts = torch.arange(len(inputs), device=inputs.device)[:, None] * inputs.shape[1]
        curve = inputs.new_full((len(inputs), batches.num_steps), math.nan)
        for step in range(batches.num_steps):
            rows, counts = batches.draw()
            active = torch.from_numpy(counts > 0).to(inputs.device)
            share = torch.from_numpy(_shares(rows.shape[1], counts)).to(inputs.device)
            drawn = torch.from_numpy(rows).to(inputs.device) + starts
            loss, gradients = _gradients(parameters, _rows(inputs, drawn), _rows(labels, drawn), share)
            optimizer.step(gradients, active[:, None, None])
            curve[:, step] = torch.where(active, loss, math.nan)
        return curve.cpu().numpy()


def _rows(stack: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
    """Rows `[num_shards, b, k]` of `[num_shards, n, k]`, numbered through all shards: whole rows, so twice as fast."""
    return stack.flatten(0, 1).index_select(0, drawn.flatten()).view(*drawn.shape, -1)


def _shares(width: int, counts: NDArray[np.int64]) -> NDArray[np.float32]:
    """Weight of each row in its teacher's mean loss, `[num_shards, width, 1]`; 0 behind the count."""
    valid = np.arange(width) < counts[:, None]
    return (valid / np.maximum(counts, 1)[:, None]).astype(np.float32)[..., None]


def _spread(stack: PaddedBatch, inputs: torch.Tensor) -> torch.Tensor:
    """Root mean square of each shard's centered inputs, `[num_shards, 1, 1]`; 1 where all records are equal."""
    square = stack.mean(inputs * inputs).mean(dim=2, keepdim=True)
    return torch.where(square > 0, square.sqrt(), torch.ones_like(square))


def _initial(
    rngs: Sequence[np.random.Generator], num_inputs: int, hidden: int, num_labels: int, device: torch.device
) -> Parameters:
    """He-scaled normal weights from each teacher's generator, biases 0."""

    def draw(rows: int, columns: int) -> torch.Tensor:
        scale = math.sqrt(2 / rows)
        drawn = [scale * rng.standard_normal((rows, columns), np.float32) for rng in rngs]
        return torch.from_numpy(np.stack(drawn)).to(device)

    first, second = draw(num_inputs, hidden), draw(hidden, num_labels)
    return first, first.new_zeros(len(rngs), 1, hidden), second, second.new_zeros(len(rngs), 1, num_labels)


def _gradients(
    parameters: Parameters, inputs: torch.Tensor, labels: torch.Tensor, share: torch.Tensor
) -> tuple[torch.Tensor, Parameters]:
    """Cross-entropy of each teacher, `[num_shards]`, and its gradients.

    Args:
        parameters: of the two layers.
        inputs: `[num_shards, b, d]`.
        labels: `[num_shards, b, num_labels]`.
        share: `[num_shards, b, 1]`, each record's weight in its teacher's loss, 0 for padding.
    """
    hidden_weights, hidden_bias, weights, bias = parameters
    units = torch.baddbmm(hidden_bias, inputs, hidden_weights).relu_()
    logits = torch.baddbmm(bias, units, weights)
    loss = ((torch.nn.functional.softplus(logits) - logits * labels) * share).sum(dim=(1, 2))
    slope = (logits.sigmoid() - labels).mul_(share)  # softplus(z) - z y has the derivative sigmoid(z) - y
    back = slope @ weights.transpose(1, 2).contiguous()  # faster than a product with the transposed view
    back = torch.ops.aten.threshold_backward(back, units, 0)
    gradients = (
        inputs.transpose(1, 2) @ back,
        back.sum(dim=1, keepdim=True),
        units.transpose(1, 2) @ slope,
        slope.sum(dim=1, keepdim=True),
    )
    return loss, gradients


def _states(parameters: Parameters, curve: NDArray[np.float32]) -> list[State]:
    arrays = [parameter.cpu().numpy() for parameter in parameters]
    return [
        {name: array[row].copy() for name, array in zip(_NAMES, arrays, strict=True)}
        | {"loss_curve": losses[np.isfinite(losses)]}
        for row, losses in enumerate(curve)
    ]
