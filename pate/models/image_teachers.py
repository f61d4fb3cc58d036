"""Teachers that are networks for images: small convolutional ones, and residual ones of 50 layers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from pate.device import require_device
from pate.models.hyperparameters import require_settings
from pate.models.linear import LinearTeacher
from pate.models.networks.convnet import Architecture, ConvNet, fit_stacked, stacked_logits
from pate.models.networks.network import Network, blocks_of, logits_in_blocks, require_images
from pate.models.networks.resnet import FrozenBackbone, ResNet50
from pate.models.networks.training import AdamWRecipe, fit_network
from pate.models.shards import Shard, require_shards
from pate.models.teacher import State, Teacher
from pate.validation import InvalidValue, require, require_probability

_CURVE = "loss_curve"
_STACKED_QUERIES = 64  # asked of a stack of networks at once


class ImageTeacher(AdamWRecipe, Teacher):
    """Teachers that are networks: one after the other, or in one batch, which is the same up to rounding."""

    bias: ClassVar[str]  # the tensor of the head with a number for each label
    device: str
    threshold: float = 0.5

    @abstractmethod
    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> Network:
        """Returns the architecture for images of a shape."""

    def check(self, input_shape: tuple[int, ...]) -> None:
        """Raises `InvalidValue` for inputs that are no pictures."""
        rule = (
            "pictures, which this teacher looks at: data of pictures with features=none, or a teacher of features, "
            "such as teacher=linear"
        )
        require(len(input_shape) == 3, "inputs", "features", rule)

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits by minibatches whose order, like the initial weights, depends on a teacher's seed alone."""
        require_shards(shards, seeds)
        images = [require_images(shard.inputs) for shard in shards]
        targets = [shard.labels.astype(np.float32) for shard in shards]
        network = self._network(images[0].shape[1:], targets[0].shape[1])
        rngs = [np.random.default_rng(seed) for seed in seeds]
        device = require_device(self.device)
        if isinstance(network, ConvNet) and not self.is_isolated:
            tensors, curves = fit_stacked(
                network, images, targets, recipe=self, rngs=rngs, device=device
            )
            arrays = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
            return [_state_of_row(arrays, row, losses) for row, losses in enumerate(curves)]
        states: list[State] = []
        for pictures, labels, rng in zip(images, targets, rngs, strict=True):
            tensors, losses = fit_network(
                network, pictures, labels, recipe=self, rng=rng, device=device
            )
            state: State = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
            state[_CURVE] = losses
            states.append(state)
        return states

    @torch.no_grad()
    def predict_many(
        self, states: Sequence[State], inputs: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Returns probabilities, moved on the scale of log-odds so that the threshold is at 0.5.

        Never computed in half precision.
        """
        images = require_images(inputs)
        device = require_device(self.device)
        network = self._network(images.shape[1:], len(states[0][self.bias]))
        if isinstance(network, ConvNet) and not self.is_isolated:
            logits = _stacked_predictions(network, states, images, device)
        else:
            logits = np.empty((len(states), len(images), network.num_labels), np.float32)
            for row, state in enumerate(states):
                tensors = {
                    name: torch.from_numpy(array).to(device)
                    for name, array in state.items()
                    if name != _CURVE
                }
                logits[row] = logits_in_blocks(network, tensors, images, device)
        threshold_logit = math.log(self.threshold / (1 - self.threshold))
        return np.asarray(torch.from_numpy(logits).sub_(threshold_logit).sigmoid_().numpy())


def _state_of_row(arrays: State, row: int, losses: NDArray[np.float32]) -> State:
    """Returns the state of one teacher of a stack; its losses are NaN after its last step."""
    state = {name: array[row].copy() for name, array in arrays.items()}
    state[_CURVE] = losses[np.isfinite(losses)]
    return state


def _stacked_predictions(
    network: ConvNet, states: Sequence[State], images: NDArray[np.float32], device: torch.device
) -> NDArray[np.float32]:
    """Returns logits `[num_states, n, num_labels]` of a stack of networks, a block of images at a time."""
    stacks = {
        name: torch.from_numpy(np.stack([state[name] for state in states])).to(device)
        for name in states[0]
        if name != _CURVE
    }
    logits = np.empty((len(states), len(images), network.num_labels), np.float32)
    for rows, block in blocks_of(images, _STACKED_QUERIES, device):
        valid = torch.ones(len(states), len(block), dtype=torch.bool, device=device)
        stacked_block = block.contiguous().expand(len(states), *block.shape)
        block_logits = stacked_logits(network, stacks, stacked_block, valid, training=False)
        logits[:, rows] = block_logits.float().cpu().numpy()
    return logits


@dataclass(frozen=True)
class CNNTeacher(Architecture, ImageTeacher):
    """A small convolutional network with a logistic output for each label.

    From `width` to `kernel_size` the attributes are those of its architecture, `ConvNet`; from `epochs`
    to `precision`, those of its training, `AdamWRecipe`. Pixels are scaled by public constants. A minibatch's
    loss is its mean over records and its sum over labels. The threshold is public and the same for all teachers.

    Formal guarantees:
        * Nothing crosses from one teacher to another: not a batch's mean and variance, not a gradient.
        * On a processor each teacher is trained by itself: the same bytes in whatever chunk, engine and order.

    Attributes:
        threshold: probability from which a label is voted for, in (0, 1).
        stacked: whether the teachers of a call are one batched network; None does so on a GPU.
        device: "auto" (the GPU where there is one), "cpu" or "cuda".
    """

    stays_together: ClassVar[bool] = True
    bias: ClassVar[str] = "head.bias"

    blocks: int = field(default=1, kw_only=True)
    grid: int = field(default=8, kw_only=True)
    kernel_size: int = field(default=5, kw_only=True)
    epochs: int = 12
    learning_rate: float = 3e-3
    threshold: float = 0.5
    stacked: bool | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_probability("threshold", self.threshold)

    @property
    def is_isolated(self) -> bool:
        """True unless the teachers of a call are one batched network."""
        if self.stacked is not None:
            return not self.stacked
        return require_device(self.device).type != "cuda"

    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> ConvNet:
        return ConvNet.from_architecture(self, input_shape, num_labels)


@dataclass(frozen=True)
class ResNet50Teacher(ImageTeacher):
    """ResNet-50 with a logistic output for each label, from random weights or from a file of the user's.

    With `frozen`, the backbone is not trained: each record's 2,048 features are computed once, and a teacher is ridge
    regression on them with a threshold of its own (`LinearTeacher`), thousands of times cheaper.

    **Weights must come from public data.** A backbone trained on private records, or on data that overlaps them, leaks
    what no epsilon here covers.

    From `epochs` to `precision` the attributes are those of the training, `AdamWRecipe`; frozen features are
    never mirrored. A trained teacher takes 94 MB on disk, a frozen one 2,049 numbers per label.

    Attributes:
        weights: file of backbone weights (`.safetensors`, or a state dictionary of torch's, such as torchvision's
            `resnet50-….pth`); None begins from random weights.
        frozen: whether only a head is trained; needs weights.
        image_size: images are resized to this height and width for the network; None takes them as they are.
        penalty: of the ridge regression on frozen features, > 0.
        device: "auto" (the GPU where there is one), "cpu" or "cuda".
    """

    bias: ClassVar[str] = "fc.bias"

    weights: str | None = None
    frozen: bool = False
    image_size: int | None = None
    penalty: float = 0.5
    epochs: int = 20
    flip: bool = True
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.frozen and self.weights is None:
            rule = "weights=FILE, a backbone trained on public data"
            raise InvalidValue("frozen", "True", rule=rule)
        require_settings(self)
        _ = self._network(input_shape=(), num_labels=1)  # refuses a file without weights

    @property
    def is_isolated(self) -> bool:
        """True unless `frozen`: a network is trained by itself, and heads are solved together."""
        return not self.frozen

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits one shard after the other; a ResNet-50 fills a GPU by itself. Frozen features are solved together."""
        if not self.frozen:
            return super().fit_many(shards, seeds)
        require_shards(shards, seeds)
        backbone = self._backbone
        feature_shards = [
            Shard(backbone.features(require_images(shard.inputs)), shard.labels) for shard in shards
        ]
        return self._head.fit_many(feature_shards, seeds)

    def predict_many(
        self, states: Sequence[State], inputs: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Returns probabilities, or with `frozen` the scores of the heads; a vote is a number >= 0.5."""
        if not self.frozen:
            return super().predict_many(states, inputs)
        # all teachers are asked about the same queries
        features = self._backbone.features(require_images(inputs), remember=True)
        return self._head.predict_many(states, features)

    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> ResNet50:
        return ResNet50(num_labels, self.weights, self.image_size)

    @property
    def _head(self) -> LinearTeacher:
        return LinearTeacher(penalty=self.penalty, device=self.device)

    @property
    def _backbone(self) -> FrozenBackbone:
        return _frozen_backbone(str(self.weights), self.image_size, require_device(self.device))


_frozen_backbone = lru_cache(maxsize=1)(FrozenBackbone)  # read once a process
