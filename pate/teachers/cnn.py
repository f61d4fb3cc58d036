"""Teachers that are small convolutional networks, trained one by one on a processor and side by side on a GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pate.networks import ConvNet, Recipe, fit, fit_stacked, logits_in_blocks, require_device, require_images
from pate.networks.convnet import require_network
from pate.networks.network import centered
from pate.networks.stacked_convnet import stacked_logits
from pate.teachers.teacher import OnStep, Shard, State, Teacher, require_parts
from pate.validation import require_probability

_CURVE = "loss_curve"
_QUERIES = 64  # asked of a stack of networks at once


@dataclass(frozen=True)
class CNNTeacher(Teacher):
    """A small convolutional network with a logistic output for each label.

    See `pate.networks.ConvNet` for the architecture. Pixels are scaled by public constants. A minibatch's loss is its
    mean over records and its sum over labels. The threshold is public and the same for all teachers.

    Formal guarantees:
        * Nothing crosses from one teacher to another: not a batch's mean and variance, not a gradient.
        * On a processor each teacher is trained by itself: the same bytes in whatever chunk, engine and order.

    Attributes:
        width: channels of the first layer, a multiple of 8; the others have twice as many.
        blocks: convolutions after the first layer.
        patch: height and width of the first layer's patches, in pixels; those of images are multiples of it.
        grid: at most that many rows and columns of cells whose means the last layer sees: many for aligned images, few
            for others.
        norm: "group", or "batch" with running means and variances of the teacher's own records.
        kernel_size: height and width of the convolutions' kernels, an odd number.
        epochs: passes over a teacher's records.
        batch_size: records a step, at most.
        learning_rate: of AdamW at the first step, > 0; it falls linearly to 0.
        weight_decay: of AdamW, >= 0.
        flip: whether images are mirrored at random.
        precision: "float32", "bfloat16", "float16", or "auto": bfloat16 on a GPU that has it.
        threshold: probability from which a label is voted for, in (0, 1).
        stacked: whether the teachers of a call are one batched network; None does so on a GPU.
        device: "auto" (the GPU where there is one), "cpu" or "cuda".

    Raises:
        InvalidValue: an attribute outside its range.
    """

    width: int = 32
    blocks: int = 1
    patch: int = 4
    grid: int = 8
    norm: str = field(default="group", metadata={"public": True})
    kernel_size: int = 5
    epochs: int = 12
    batch_size: int = 32
    learning_rate: float = 3e-3
    weight_decay: float = 1e-2
    flip: bool = False
    precision: str = field(default="auto", metadata={"public": True})
    threshold: float = 0.5
    stacked: bool | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        require_network(self.width, self.blocks, self.patch, self.grid, self.norm, self.kernel_size)
        require_probability("threshold", self.threshold)
        require_device(self.device)
        _ = self._recipe

    @property
    def is_isolated(self) -> bool:
        """See `Teacher.is_isolated`."""
        return not self._is_stacked

    def fit_many(self, parts: Sequence[Shard], seeds: Sequence[int], on_step: OnStep | None = None) -> list[State]:
        """Fits by minibatches whose order, like the initial weights, depends on a teacher's seed alone."""
        require_parts(parts, seeds)
        images, targets = [require_images(part.inputs) for part in parts], [_targets(part) for part in parts]
        network = self._network(images[0].shape[1:], targets[0].shape[1])
        settings: dict[str, Any] = {"recipe": self._recipe, "device": require_device(self.device)}
        rngs = [np.random.default_rng(seed) for seed in seeds]
        if self._is_stacked:
            tensors, curve = fit_stacked(network, images, targets, rngs=rngs, on_losses=on_step, **settings)
            arrays = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
            states = [{name: array[row].copy() for name, array in arrays.items()} for row in range(len(parts))]
            return [state | {_CURVE: row[np.isfinite(row)]} for state, row in zip(states, curve, strict=True)]
        states = []
        for part_images, part_targets, rng in zip(images, targets, rngs, strict=True):
            trained, losses = fit(network, part_images, part_targets, rng=rng, **settings)
            states.append({name: tensor.cpu().numpy() for name, tensor in trained.items()} | {_CURVE: losses})
        if on_step is not None:
            _replay([state[_CURVE] for state in states], on_step)
        return states

    def predict_many(self, states: Sequence[State], inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Probabilities, moved on the scale of log-odds so that the threshold is at 0.5; never in half precision."""
        images, num_labels = require_images(inputs), len(states[0]["head.bias"])
        network, device = self._network(images.shape[1:], num_labels), require_device(self.device)
        if self._is_stacked:
            logits = _stacked_logits(network, states, images, device)
        else:
            loaded = ({name: torch.from_numpy(state[name]).to(device) for name in _names(state)} for state in states)
            logits = np.stack([logits_in_blocks(network, each, images, device, num_labels) for each in loaded])
        moved = torch.from_numpy(logits).sub_(math.log(self.threshold / (1 - self.threshold)))
        confidences: NDArray[np.float32] = moved.sigmoid_().numpy()
        return confidences

    @property
    def _is_stacked(self) -> bool:
        return require_device(self.device).type == "cuda" if self.stacked is None else self.stacked

    @property
    def _recipe(self) -> Recipe:
        optimizer = self.epochs, self.batch_size, self.learning_rate, self.weight_decay
        return Recipe(*optimizer, flip=self.flip, precision=self.precision)

    def _network(self, shape: tuple[int, ...], num_labels: int) -> ConvNet:
        sizes = self.width, self.blocks, self.patch, self.grid
        return ConvNet(tuple(shape), num_labels, *sizes, norm=self.norm, kernel_size=self.kernel_size)


def _targets(part: Shard) -> NDArray[np.float32]:
    return part.labels.astype(np.float32)


def _names(state: State) -> list[str]:
    return [name for name in state if name != _CURVE]


def _replay(curves: Sequence[NDArray[Any]], on_step: OnStep) -> None:
    """Tells the losses step by step, NaN where a teacher had finished."""
    table = np.full((len(curves), max(map(len, curves))), np.nan, np.float32)
    for row, curve in enumerate(curves):
        table[row, : len(curve)] = curve
    for step in range(table.shape[1]):
        on_step(step, table[:, step])


@torch.no_grad()
def _stacked_logits(
    network: ConvNet, states: Sequence[State], images: NDArray[Any], device: torch.device
) -> NDArray[np.float32]:
    """Log-odds of each teacher on all images, `[num_states, n, num_labels]`."""
    stacks = {
        name: torch.from_numpy(np.stack([state[name] for state in states])).to(device) for name in _names(states[0])
    }
    found = np.empty((len(states), len(images), network.num_labels), np.float32)
    for first in range(0, len(images), _QUERIES):
        block = centered(
            torch.from_numpy(np.ascontiguousarray(images[first : first + _QUERIES])).to(device)
        ).contiguous()
        valid = torch.ones(len(states), len(block), dtype=torch.bool, device=device)
        shown = block.expand(len(states), *block.shape)
        logits = stacked_logits(network, stacks, shown, valid, training=False)
        found[:, first : first + _QUERIES] = logits.float().cpu().numpy()
    return found
