"""Teachers and students that are networks for images: small convolutional ones, and residual ones of 50 layers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from pate.aggregators.release import TrainingSet
from pate.device import device_memory, require_device
from pate.models.linear import LinearModel, LinearTeacher
from pate.models.networks import network as net
from pate.models.networks.convnet import Architecture, ConvNet, fit_stacked, stacked_logits
from pate.models.networks.resnet import FrozenBackbone, ResNet50
from pate.models.student import (
    LARGEST_INPUT,
    Labels,
    OnEpoch,
    Rows,
    StudentModel,
    ThresholdedStudent,
    require_rows,
)
from pate.models.teacher import Shard, State, Teacher, require_shards
from pate.threads import one_thread
from pate.validation import InvalidValue, require, require_probability

_CURVE = "loss_curve"
_SIZE = "image_size"
_LARGEST_LAYER = 2**24
_QUERIES = 64  # asked of a stack of networks at once


class ImageTeacher(net.Recipe, Teacher):
    """Teachers that are networks: one after the other, or in one batch, which is the same up to rounding."""

    bias: ClassVar[str]  # the tensor of the head with a number for each label
    device: str
    threshold: float = 0.5

    @abstractmethod
    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> net.Network:
        """The architecture for such images."""

    def check(self, input_shape: tuple[int, ...]) -> None:
        """Raises `InvalidValue` for inputs that are no pictures of a size that the network takes."""
        rule = (
            "pictures, which this teacher looks at: data of pictures with features=none, or a teacher of features, "
            "such as teacher=linear"
        )
        require(len(input_shape) == 3, "inputs", "features", rule)

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits by minibatches whose order, like the initial weights, depends on a teacher's seed alone."""
        require_shards(shards, seeds)
        images = [net.require_images(shard.inputs) for shard in shards]
        targets = [shard.labels.astype(np.float32) for shard in shards]
        network = self._network(images[0].shape[1:], targets[0].shape[1])
        rngs = [np.random.default_rng(seed) for seed in seeds]
        device = require_device(self.device)
        if isinstance(network, ConvNet) and not self.is_isolated:
            tensors, curve = fit_stacked(
                network, images, targets, recipe=self, rngs=rngs, device=device
            )
            arrays = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
            return [
                {name: array[row].copy() for name, array in arrays.items()}
                | {_CURVE: losses[np.isfinite(losses)]}
                for row, losses in enumerate(curve)
            ]
        states: list[State] = []
        for pictures, labels, rng in zip(images, targets, rngs, strict=True):
            tensors, losses = net.fit(
                network, pictures, labels, recipe=self, rng=rng, device=device
            )
            states.append(
                {name: tensor.cpu().numpy() for name, tensor in tensors.items()} | {_CURVE: losses}
            )
        return states

    @torch.no_grad()
    def predict_many(
        self, states: Sequence[State], inputs: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Probabilities, moved on the scale of log-odds so that the threshold is at 0.5; never in half precision."""
        images = net.require_images(inputs)
        device = require_device(self.device)
        network = self._network(images.shape[1:], len(states[0][self.bias]))
        names = [name for name in states[0] if name != _CURVE]
        logits = np.empty((len(states), len(images), network.num_labels), np.float32)
        if isinstance(network, ConvNet) and not self.is_isolated:
            stacks = {
                name: torch.from_numpy(np.stack([state[name] for state in states])).to(device)
                for name in names
            }
            for rows, block in net.blocks_of(images, _QUERIES, device):
                valid = torch.ones(len(states), len(block), dtype=torch.bool, device=device)
                stacked_block = block.contiguous().expand(len(states), *block.shape)
                found = stacked_logits(network, stacks, stacked_block, valid, training=False)
                logits[:, rows] = found.float().cpu().numpy()
        else:
            for row, state in enumerate(states):
                tensors = {name: torch.from_numpy(state[name]).to(device) for name in names}
                logits[row] = net.logits_in_blocks(network, tensors, images, device)
        moved = torch.from_numpy(logits).sub_(math.log(self.threshold / (1 - self.threshold)))
        return np.asarray(moved.sigmoid_().numpy())


@dataclass(frozen=True)
class CNNTeacher(Architecture, ImageTeacher):
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
        """True: each teacher is trained by itself, as no weights are shared."""
        return (
            require_device(self.device).type != "cuda" if self.stacked is None else not self.stacked
        )

    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> ConvNet:
        return ConvNet.of(self, input_shape, num_labels)


@dataclass(frozen=True)
class ResNet50Teacher(ImageTeacher):
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
            raise InvalidValue(
                "frozen", "True", rule="weights=FILE, a backbone trained on public data"
            )
        net.require_settings(self)
        _ = self._network((), 1)  # refuses a file that is none

    @property
    def is_isolated(self) -> bool:
        """True: each teacher is trained by itself, as no weights are shared."""
        return not self.frozen

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits one shard after the other; a ResNet-50 fills a GPU by itself. Frozen features are solved together."""
        if not self.frozen:
            return super().fit_many(shards, seeds)
        require_shards(shards, seeds)
        features = (self._backbone.features(net.require_images(shard.inputs)) for shard in shards)
        pairs = zip(features, shards, strict=True)
        return self._head.fit_many([Shard(inputs, shard.labels) for inputs, shard in pairs], seeds)

    def predict_many(
        self, states: Sequence[State], inputs: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Probabilities, or with `frozen` the scores of the heads; a vote is one >= 0.5."""
        if not self.frozen:
            return super().predict_many(states, inputs)
        return self._head.predict_many(
            states, self._backbone.features(net.require_images(inputs), remember=True)
        )

    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> ResNet50:
        return ResNet50(num_labels, self.weights, self.image_size)

    @property
    def _head(self) -> LinearTeacher:
        return LinearTeacher(penalty=self.penalty, device=self.device)

    @property
    def _backbone(self) -> FrozenBackbone:
        return _frozen_backbone(str(self.weights), self.image_size, require_device(self.device))


_frozen_backbone = lru_cache(maxsize=1)(FrozenBackbone)  # read once a process


class ImageModel(StudentModel):
    """The mean of the members' probabilities. Labels that were never released have probability 0."""

    def _probabilities(self, rows: Rows) -> Rows:
        # earlier versions published it where there was one answer or none
        if "constant" in self.arrays:
            return np.tile(self.arrays["constant"], (len(rows), 1))
        network = self.network()
        images = rows.reshape(-1, *self.input_shape)
        released = self.arrays["released"]
        names = [name for name in self.arrays if name != "released"]
        total = np.zeros((len(images), len(released)), np.float32)
        count = len(self.arrays[names[0]])
        with one_thread():
            for member in range(count):
                tensors = {
                    name: torch.from_numpy(np.ascontiguousarray(self.arrays[name][member]))
                    for name in names
                }
                total += _probabilities(network, tensors, images, torch.device("cpu"))
        return total / np.float32(count) * released

    @abstractmethod
    def network(self) -> net.Network:
        """The architecture, as arrays and choices show it."""


@dataclass(frozen=True, kw_only=True)
class ImageStudent(net.Recipe, ThresholdedStudent):
    """A few networks, each trained without a fold of the rows.

    The rest of the public pool, which nobody labeled, is used by `learn`: each member is trained a second
    time, on its own probabilities for the pool beside the released labels (self-training). The fold that it never saw
    stays held out, so that the threshold is placed on honest probabilities. All of it is post-processing: no cost.

    From `epochs` to `precision` the attributes are those of the training, `Recipe`.
    """

    model: ClassVar[type[ImageModel]]

    folds: int  # members, at least 2; fewer where there are fewer rows
    max_unlabeled: int  # at most that many images of the pool are used; 0 for none
    device: str = "auto"

    def __post_init__(self) -> None:
        ThresholdedStudent.__post_init__(self)  # with what the recipe has to be

    def check(self, input_shape: tuple[int, ...], num_labels: int) -> None:
        """Raises `InvalidValue` for inputs that are no pictures of a size that the network takes."""
        super().check(input_shape, num_labels)
        size = math.prod(input_shape)
        rule = f"at most {LARGEST_INPUT:,}, or the model could not be read back"
        require(size <= LARGEST_INPUT, "numbers in a picture", size, rule)
        net.require_images(np.zeros((1, *input_shape), np.float32))
        self._network(input_shape, num_labels)

    def fit(
        self, inputs: Rows, labels: Labels, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> StudentModel:
        """The loss reported is the members' mean."""
        nothing = np.asarray(inputs)[:0]
        return self.learn(TrainingSet(inputs, labels), pool=nothing, seed=seed, on_epoch=on_epoch)

    def learn(
        self, training: TrainingSet, *, pool: Rows, seed: int, on_epoch: OnEpoch | None = None
    ) -> StudentModel:
        """Trains the network on released labels; `pool` has no use for it."""
        images = net.require_images(training.inputs)
        _, labels = require_rows(images, training.labels, seed)
        shape = tuple(images.shape[1:])
        released = np.asarray(labels.any(axis=0), np.float32)
        network = self._network(shape, labels.shape[1])
        device = require_device(self.device)
        if len(images) < 2:
            return LinearModel.constant(released, images)
        pool = np.asarray(pool[: self.max_unlabeled])
        rng = np.random.default_rng(seed)
        fold_of = rng.permutation(len(images)) % min(self.folds, len(images))
        held_out = np.zeros(labels.shape, np.float32)
        members = []
        curves = []
        train = partial(net.fit, network, recipe=self, rng=rng, device=device)
        with (
            one_thread(),
            device_memory("CUDA_VISIBLE_DEVICES= before the command trains it on the processor"),
        ):
            for fold in range(fold_of.max() + 1):
                in_training = fold_of != fold
                pictures = images[in_training]
                targets = labels[in_training].astype(np.float32)
                tensors, curve = train(pictures, targets)
                # a second time, from new weights, on what the first says of the pool too
                if len(pool):
                    guessed = _probabilities(network, tensors, pool, device)
                    tensors, curve = train(
                        np.concatenate([pictures, pool]), np.concatenate([targets, guessed])
                    )
                held_out[~in_training] = _probabilities(
                    network, tensors, images[~in_training], device
                )
                members.append(
                    {name: tensor.cpu().float().numpy() for name, tensor in tensors.items()}
                )
                curves.append(curve)
        if on_epoch is not None:  # folds differ by at most a row, hence curves by a few steps
            curves = [curve[: min(map(len, curves))] for curve in curves]
            mean = np.asarray(np.mean(curves, axis=0), np.float32)
            for epoch, losses in enumerate(np.array_split(mean, min(self.epochs, len(mean)))):
                on_epoch(epoch, {"loss": float(losses.mean())})
        arrays = {name: np.stack([member[name] for member in members]) for name in members[0]} | {
            "released": released
        }
        threshold = self._place(held_out * released, labels)
        choices = {"unlabeled": float(len(pool))}
        if isinstance(network, ResNet50):
            choices[_SIZE] = float(network.image_size or 0)
        return self.model(arrays, threshold, shape, len(images), choices)

    @abstractmethod
    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> net.Network:
        """The architecture for such images; raises `InvalidValue` where it does not fit them."""


class CNNModel(ImageModel):
    """Of small convolutional networks."""

    kind = "cnn"

    def network(self) -> ConvNet:
        """Returns the network that the arrays belong to."""
        first = self.arrays["layer0.weight"]
        head = self.arrays["head.weight"]
        blocks = sum(name.endswith(".scale") for name in self.arrays) - 1
        last = self.arrays[f"layer{blocks}.weight"].shape[1]
        taps = self.arrays["layer1.weight"].shape[2] // first.shape[1] if blocks else 1
        patch = math.isqrt(first.shape[2] // self.input_shape[0])
        grid = math.isqrt(head.shape[2] // last)
        norm = "batch" if "layer0.mean" in self.arrays else "group"
        architecture = Architecture(
            width=first.shape[1],
            blocks=blocks,
            patch=patch,
            grid=grid,
            norm=norm,
            kernel_size=math.isqrt(taps),
        )
        return _moderate(ConvNet.of(architecture, self.input_shape, head.shape[1]))


@dataclass(frozen=True, kw_only=True)
class CNNStudent(Architecture, ImageStudent):
    """A few small convolutional networks, trained as `ImageStudent` says, whose attributes are not listed again.

    From `width` to `kernel_size` the attributes are those of the architecture, `ConvNet`.
    """

    model: ClassVar[type[ImageModel]] = CNNModel

    folds: int = 3
    max_unlabeled: int = 2000
    epochs: int = 15
    learning_rate: float = 3e-3

    def __post_init__(self) -> None:
        Architecture.__post_init__(self)
        ImageStudent.__post_init__(self)

    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> ConvNet:
        return _moderate(ConvNet.of(self, input_shape, num_labels))


def _moderate(network: ConvNet) -> ConvNet:
    """Returns the network, or raises: a small file must not ask for much memory, and what was trained can be read."""
    channels = max(channels for channels, _ in network.kernels)
    size = channels * math.prod(length // network.patch for length in network.shape[1:])
    rule = f"at most {_LARGEST_LAYER:,}: a larger patch or smaller pictures"
    require(size <= _LARGEST_LAYER, "numbers in a layer", size, rule)
    return network


class ResNet50Model(ImageModel):
    """Of networks ResNet-50."""

    kind = "resnet50"

    def network(self) -> ResNet50:
        """Returns the network that the arrays belong to."""
        image_size = int(self.choices.get(_SIZE, 0))
        # a small file must not ask for much memory
        most = 2**20 + sum(array.size for array in self.arrays.values())
        require(
            3 * image_size**2 <= most, _SIZE, image_size, f"a square root of at most {most / 3:.0f}"
        )
        return ResNet50(self.arrays["fc.bias"].shape[1], None, image_size or None)


@dataclass(frozen=True, kw_only=True)
class ResNet50Student(ImageStudent):
    """A few networks ResNet-50, trained as `ImageStudent` says, whose attributes are not listed again.

    Attributes:
        weights: file of backbone weights from PUBLIC data to begin with (see `read_weights`), or None.
        image_size: images are resized to this height and width for the network; None takes them as they are.
        folds: members, at least 2; each takes 94 MB in the published folder.
    """

    model: ClassVar[type[ImageModel]] = ResNet50Model

    weights: str | None = None
    image_size: int | None = None
    folds: int = 2
    max_unlabeled: int = 10_000
    epochs: int = 30
    flip: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = ResNet50(1, self.weights, self.image_size)

    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> ResNet50:
        return ResNet50(num_labels, self.weights, self.image_size)


def _probabilities(
    network: net.Network, tensors: net.Tensors, images: NDArray[Any], device: torch.device
) -> Rows:
    return np.asarray(
        torch.from_numpy(net.logits_in_blocks(network, tensors, images, device)).sigmoid_().numpy()
    )
