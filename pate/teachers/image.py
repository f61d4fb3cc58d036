"""Teachers that are networks for images: small convolutional ones, and residual ones of 50 layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from pate.networks.convnet import ConvNet, fit_stacked, require_network, stacked_logits
from pate.networks.device import require_device
from pate.networks.network import Network, blocks_of, fit, logits_in_blocks, require_images, require_pictures
from pate.networks.resnet import FrozenBackbone, ResNet50
from pate.networks.training import Recipe
from pate.teachers.linear import LinearTeacher
from pate.teachers.teacher import Shard, State, Teacher, require_shards
from pate.validation import InvalidValue, require_positive, require_probability

_CURVE = "loss_curve"
_QUERIES = 64  # asked of a stack of networks at once


def fit_apart(
    network: Network, shards: Sequence[Shard], seeds: Sequence[int], *, recipe: Recipe, device: torch.device
) -> list[State]:
    """Trains a network per shard, one after the other; initial weights and order depend on a network's seed alone."""
    states: list[State] = []
    for images, targets, rng in zip(*_inputs(shards, seeds), strict=True):
        tensors, losses = fit(network, images, targets, recipe=recipe, rng=rng, device=device)
        states.append({name: tensor.cpu().numpy() for name, tensor in tensors.items()} | {_CURVE: losses})
    return states


def fit_side_by_side(
    network: ConvNet, shards: Sequence[Shard], seeds: Sequence[int], *, recipe: Recipe, device: torch.device
) -> list[State]:
    """Trains a network per shard, all in one batch; equal to `fit_apart` up to rounding."""
    images, targets, rngs = _inputs(shards, seeds)
    tensors, curve = fit_stacked(network, images, targets, recipe=recipe, rngs=rngs, device=device)
    arrays = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
    return [
        {name: array[row].copy() for name, array in arrays.items()} | {_CURVE: losses[np.isfinite(losses)]}
        for row, losses in enumerate(curve)
    ]


def logits_apart(
    network: Network, states: Sequence[State], images: NDArray[np.generic], device: torch.device
) -> NDArray[np.float32]:
    """Log-odds of each network on all images, `[num_states, n, num_labels]`, one network after the other."""
    loaded = ({name: torch.from_numpy(state[name]).to(device) for name in _names(state)} for state in states)
    return np.stack([logits_in_blocks(network, tensors, images, device) for tensors in loaded])


@torch.no_grad()
def logits_side_by_side(
    network: ConvNet, states: Sequence[State], images: NDArray[np.generic], device: torch.device
) -> NDArray[np.float32]:
    """What `logits_apart` gives up to rounding, from all networks at once."""
    stacks = {
        name: torch.from_numpy(np.stack([state[name] for state in states])).to(device) for name in _names(states[0])
    }
    found = np.empty((len(states), len(images), network.num_labels), np.float32)
    for rows, block in blocks_of(images, _QUERIES, device):
        valid = torch.ones(len(states), len(block), dtype=torch.bool, device=device)
        shown = block.contiguous().expand(len(states), *block.shape)
        logits = stacked_logits(network, stacks, shown, valid, training=False)
        found[:, rows] = logits.float().cpu().numpy()
    return found


def confidences(logits: NDArray[np.float32], threshold: float = 0.5) -> NDArray[np.float32]:
    """Probabilities, moved on the scale of log-odds so that the threshold is at 0.5; overwrites the log-odds."""
    moved = torch.from_numpy(logits).sub_(math.log(threshold / (1 - threshold)))
    found: NDArray[np.float32] = moved.sigmoid_().numpy()
    return found


def _inputs(
    shards: Sequence[Shard], seeds: Sequence[int]
) -> tuple[list[NDArray[np.generic]], list[NDArray[np.float32]], list[np.random.Generator]]:
    """Images, targets and generator of each network."""
    images = [require_images(shard.inputs) for shard in shards]
    targets = [shard.labels.astype(np.float32) for shard in shards]
    return images, targets, [np.random.default_rng(seed) for seed in seeds]


def _names(state: State) -> list[str]:
    return [name for name in state if name != _CURVE]


@dataclass(frozen=True)
class CNNTeacher(Teacher):
    """A small convolutional network with a logistic output for each label.

    From `width` to `kernel_size` the attributes are those of its architecture, `ConvNet`; from `epochs`
    to `precision`, those of its training, `Recipe`. Pixels are scaled by public constants. A minibatch's
    loss is its mean over records and its sum over labels. The threshold is public and the same for all teachers.

    Formal guarantees:
        * Nothing crosses from one teacher to another: not a batch's mean and variance, not a gradient.
        * On a processor each teacher is trained by itself: the same bytes in whatever chunk, engine and order.

    Attributes:
        threshold: probability from which a label is voted for, in (0, 1).
        stacked: whether the teachers of a call are one batched network; None does so on a GPU.
        device: "auto" (the GPU where there is one), "cpu" or "cuda".

    Raises:
        InvalidValue: an attribute outside its range.
    """

    stays_together: ClassVar[bool] = True

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
        require_network(self)
        require_probability("threshold", self.threshold)
        require_device(self.device)
        _ = Recipe.of(self)

    def check(self, input_shape: tuple[int, ...]) -> None:
        require_pictures(input_shape)

    @property
    def is_isolated(self) -> bool:
        return not self._is_stacked

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits by minibatches whose order, like the initial weights, depends on a teacher's seed alone."""
        require_shards(shards, seeds)
        network = ConvNet.of(self, require_images(shards[0].inputs).shape[1:], shards[0].labels.shape[1])
        fit = fit_side_by_side if self._is_stacked else fit_apart
        return fit(network, shards, seeds, recipe=Recipe.of(self), device=require_device(self.device))

    def predict_many(self, states: Sequence[State], inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Probabilities, moved on the scale of log-odds so that the threshold is at 0.5; never in half precision."""
        images = require_images(inputs)
        network = ConvNet.of(self, images.shape[1:], len(states[0]["head.bias"]))
        logits = logits_side_by_side if self._is_stacked else logits_apart
        return confidences(logits(network, states, images, require_device(self.device)), self.threshold)

    @property
    def _is_stacked(self) -> bool:
        return require_device(self.device).type == "cuda" if self.stacked is None else self.stacked


@dataclass(frozen=True)
class ResNet50Teacher(Teacher):
    """ResNet-50 with a logistic output for each label, from random weights or from a file of the user's.

    With `frozen`, the backbone is not trained: each record's 2,048 features are computed once, and a teacher is ridge
    regression on them with a threshold of its own (`LinearTeacher`), thousands of times cheaper.

    **Weights must come from public data.** A backbone trained on private records, or on data that overlaps them, leaks
    what no epsilon here covers.

    From `epochs` to `precision` the attributes are those of the training, `Recipe`; frozen features are
    never mirrored. A trained teacher takes 94 MB on disk, a frozen one 2,049 numbers per label.

    Attributes:
        weights: file of backbone weights (`.safetensors`, or a state dictionary of torch's, such as torchvision's
            `resnet50-….pth`); None begins from random weights.
        frozen: whether only a head is trained; needs weights.
        image_size: images are resized to this height and width for the network; None takes them as they are.
        penalty: of the ridge regression on frozen features, > 0.
        device: "auto" (the GPU where there is one), "cpu" or "cuda".

    Raises:
        InvalidValue: an attribute outside its range; frozen without weights.
    """

    weights: str | None = None
    frozen: bool = False
    image_size: int | None = None
    penalty: float = 0.5
    epochs: int = 20
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    flip: bool = True
    precision: str = field(default="auto", metadata={"public": True})
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.frozen and self.weights is None:
            raise InvalidValue("frozen=True: expected weights=FILE, a backbone trained on public data")
        require_positive("penalty", self.penalty)
        require_device(self.device)
        _ = Recipe.of(self), self._network(1)

    def check(self, input_shape: tuple[int, ...]) -> None:
        require_pictures(input_shape)

    @property
    def is_isolated(self) -> bool:
        return not self.frozen

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits one shard after the other; a ResNet-50 fills a GPU by itself. Frozen features are solved together."""
        require_shards(shards, seeds)
        images = [require_images(shard.inputs) for shard in shards]
        if self.frozen:
            pairs = zip(map(self._backbone.features, images), shards, strict=True)
            return self._head.fit_many([Shard(inputs, shard.labels) for inputs, shard in pairs], seeds)
        network = self._network(shards[0].labels.shape[1])
        return fit_apart(network, shards, seeds, recipe=Recipe.of(self), device=require_device(self.device))

    def predict_many(self, states: Sequence[State], inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Probabilities, or with `frozen` the scores of the heads; a vote is one >= 0.5."""
        images = require_images(inputs)
        if self.frozen:
            return self._head.predict_many(states, self._backbone.features(images, remember=True))
        network = self._network(len(states[0]["fc.bias"]))
        logits = logits_apart(network, states, images, require_device(self.device))
        return np.stack([confidences(each) for each in logits])

    def _network(self, num_labels: int) -> ResNet50:
        return ResNet50(num_labels, self.weights, self.image_size)

    @property
    def _head(self) -> LinearTeacher:
        return LinearTeacher(penalty=self.penalty, device=self.device)

    @property
    def _backbone(self) -> FrozenBackbone:
        return _frozen_backbone(str(self.weights), self.image_size, require_device(self.device))


@lru_cache(maxsize=1)
def _frozen_backbone(weights: str, image_size: int | None, device: torch.device) -> FrozenBackbone:
    """Read once a process."""
    return FrozenBackbone(weights, image_size, device)
