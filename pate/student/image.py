"""Students that are networks for images: members, each trained without a fold of the rows."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from pate.aggregators.release import TrainingSet
from pate.networks.convnet import ConvNet, require_network
from pate.networks.device import device_memory, one_thread, require_device
from pate.networks.network import Network, Tensors, fit, logits_in_blocks, require_images
from pate.networks.resnet import ResNet50
from pate.networks.training import Recipe
from pate.student.student import LARGEST_INPUT, Labels, OnEpoch, Rows, StudentModel, ThresholdedStudent, require_rows
from pate.validation import require, require_count

_LARGEST_LAYER = 2**24
_SIZE = "image_size"


class ImageModel(StudentModel):
    """The mean of the members' probabilities. Labels that were never released have probability 0."""

    def _probabilities(self, rows: Rows) -> Rows:
        if "constant" in self.arrays:
            return np.tile(self.arrays["constant"], (len(rows), 1))
        network, images, released = self.network(), rows.reshape(-1, *self.input_shape), self.arrays["released"]
        names = [name for name in self.arrays if name != "released"]
        total, count = np.zeros((len(images), len(released)), np.float32), len(self.arrays[names[0]])
        with one_thread():
            for member in range(count):
                tensors = {name: torch.from_numpy(np.ascontiguousarray(self.arrays[name][member])) for name in names}
                total += _probabilities(network, tensors, images, torch.device("cpu"))
        return total / np.float32(count) * released

    @abstractmethod
    def network(self) -> Network:
        """The architecture, as arrays and choices show it."""


@dataclass(frozen=True, kw_only=True)
class ImageStudent(ThresholdedStudent):
    """A few networks, each trained without a fold of the rows.

    The rest of the public pool, which nobody labeled, is used by `learn`: each member is trained a second
    time, on its own probabilities for the pool beside the released labels (self-training). The fold that it never saw
    stays held out, so that the threshold is placed on honest probabilities. All of it is post-processing: no cost.

    From `epochs` to `precision` the attributes are those of the training, `Recipe`.

    Attributes:
        folds: members, at least 2; fewer where there are fewer rows.
        max_unlabeled: at most that many images of the pool are used; 0 for none.
        device: "auto" (the GPU where there is one), "cpu" or "cuda".

    Raises:
        InvalidValue: an attribute outside its range.
    """

    model: ClassVar[type[ImageModel]]

    folds: int
    max_unlabeled: int
    epochs: int
    batch_size: int = 32
    learning_rate: float
    weight_decay: float = 1e-2
    flip: bool
    precision: str = field(default="auto", metadata={"public": True})
    device: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("folds", self.folds, minimum=2)
        require_count("max_unlabeled", self.max_unlabeled, minimum=0)
        require_device(self.device)
        _ = Recipe.of(self)

    def check(self, input_shape: tuple[int, ...], num_labels: int) -> None:
        super().check(input_shape, num_labels)
        size, rule = math.prod(input_shape), f"at most {LARGEST_INPUT:,}, or the model could not be read back"
        require(size <= LARGEST_INPUT, "numbers in a picture", size, rule)
        require_images(np.zeros((1, *input_shape), np.float32))
        self._network(input_shape, num_labels)

    def fit(self, inputs: Rows, labels: Labels, *, seed: int, on_epoch: OnEpoch | None = None) -> StudentModel:
        """The loss reported is the members' mean."""
        nothing = np.asarray(inputs)[:0]
        return self.learn(TrainingSet(inputs, labels), pool=nothing, seed=seed, on_epoch=on_epoch)

    def learn(self, training: TrainingSet, *, pool: Rows, seed: int, on_epoch: OnEpoch | None = None) -> StudentModel:
        images = require_images(training.inputs)
        _, labels = require_rows(images, training.labels, seed)
        shape, released = tuple(images.shape[1:]), np.asarray(labels.any(axis=0), np.float32)
        network, device = self._network(shape, labels.shape[1]), require_device(self.device)
        if len(images) < 2:
            return self.model({"constant": released}, 0.5, shape, len(images), {})
        pool, rng = np.asarray(pool[: self.max_unlabeled]), np.random.default_rng(seed)
        fold_of = rng.permutation(len(images)) % min(self.folds, len(images))
        held_out, members, curves = np.zeros(labels.shape, np.float32), [], []
        with one_thread(), device_memory("CUDA_VISIBLE_DEVICES= before the command trains it on the processor"):
            for fold in range(fold_of.max() + 1):
                kept = fold_of != fold
                tensors, curve = self._member(network, images[kept], labels[kept], pool, rng)
                held_out[~kept] = _probabilities(network, tensors, images[~kept], device)
                members.append({name: tensor.cpu().float().numpy() for name, tensor in tensors.items()})
                curves.append(curve)
        if on_epoch is not None:
            for epoch, losses in enumerate(np.array_split(_mean_curve(curves), min(self.epochs, len(curves[0])))):
                on_epoch(epoch, {"loss": float(losses.mean())})
        arrays = {name: np.stack([member[name] for member in members]) for name in members[0]} | {"released": released}
        threshold = self._place(held_out * released, labels)
        choices = {"unlabeled": float(len(pool))} | self._choices
        return self.model(arrays, threshold, shape, len(images), choices)

    def _member(
        self,
        network: Network,
        images: Rows,
        labels: Labels,
        pool: Rows,
        rng: np.random.Generator,
    ) -> tuple[Tensors, Rows]:
        """Trains one member, with a pool twice: the second time, from new weights, on what the first says there too."""
        train = partial(fit, network, recipe=Recipe.of(self), rng=rng, device=require_device(self.device))
        targets = labels.astype(np.float32)
        tensors, curve = train(images, targets)
        if len(pool):
            guessed = _probabilities(network, tensors, pool, require_device(self.device))
            tensors, curve = train(np.concatenate([images, pool]), np.concatenate([targets, guessed]))
        return tensors, curve

    @abstractmethod
    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> Network:
        """The architecture for such images; raises `InvalidValue` where it does not fit them."""

    @property
    def _choices(self) -> dict[str, float]:
        """What the model must know beside its arrays."""
        return {}


class CNNModel(ImageModel):
    """The mean of the members' probabilities. Labels that were never released have probability 0."""

    kind = "cnn"

    def network(self) -> ConvNet:
        """The architecture, as the arrays show it."""
        first, head = self.arrays["layer0.weight"], self.arrays["head.weight"]
        blocks = sum(name.endswith(".scale") for name in self.arrays) - 1
        last = self.arrays[f"layer{blocks}.weight"].shape[1]
        taps = self.arrays["layer1.weight"].shape[2] // first.shape[1] if blocks else 1
        network = ConvNet(
            self.input_shape,
            num_labels=head.shape[1],
            width=first.shape[1],
            blocks=blocks,
            patch=math.isqrt(first.shape[2] // self.input_shape[0]),
            grid=math.isqrt(head.shape[2] // last),
            norm="batch" if "layer0.mean" in self.arrays else "group",
            kernel_size=math.isqrt(taps),
        )
        return _moderate(network)


@dataclass(frozen=True, kw_only=True)
class CNNStudent(ImageStudent):
    """A few small convolutional networks, trained as `ImageStudent` says, whose attributes are not listed again.

    From `width` to `kernel_size` the attributes are those of the architecture, `ConvNet`.

    Raises:
        InvalidValue: an attribute outside its range.
    """

    model: ClassVar[type[ImageModel]] = CNNModel

    width: int = 32
    blocks: int = 2
    patch: int = 4
    grid: int = 4
    norm: str = field(default="group", metadata={"public": True})
    kernel_size: int = 3
    folds: int = 3
    max_unlabeled: int = 2000
    epochs: int = 15
    learning_rate: float = 3e-3
    flip: bool = False

    def __post_init__(self) -> None:
        require_network(self)
        super().__post_init__()

    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> ConvNet:
        return _moderate(ConvNet.of(self, input_shape, num_labels))


def _moderate(network: ConvNet) -> ConvNet:
    """Returns the network, or raises: a small file must not ask for much memory, and what was trained can be read."""
    size, rule = network.activations, f"at most {_LARGEST_LAYER:,}: a larger patch or smaller pictures"
    require(size <= _LARGEST_LAYER, "numbers in a layer", size, rule)
    return network


class ResNet50Model(ImageModel):
    """The mean of the members' probabilities. Labels that were never released have probability 0."""

    kind = "resnet50"

    def network(self) -> ResNet50:
        image_size = int(self.choices.get(_SIZE, 0))
        most = 2**20 + sum(array.size for array in self.arrays.values())  # a small file must not ask for much memory
        require(3 * image_size**2 <= most, _SIZE, image_size, f"a square root of at most {most / 3:.0f}")
        return ResNet50(self.arrays["fc.bias"].shape[1], None, image_size or None)


@dataclass(frozen=True, kw_only=True)
class ResNet50Student(ImageStudent):
    """A few networks ResNet-50, trained as `ImageStudent` says, whose attributes are not listed again.

    Attributes:
        weights: file of backbone weights from PUBLIC data to begin with (see `read_weights`), or None.
        image_size: images are resized to this height and width for the network; None takes them as they are.
        folds: members, at least 2; each takes 94 MB in the published folder.

    Raises:
        InvalidValue: an attribute outside its range.
    """

    model: ClassVar[type[ImageModel]] = ResNet50Model

    weights: str | None = None
    image_size: int | None = None
    folds: int = 2
    max_unlabeled: int = 10_000
    epochs: int = 30
    learning_rate: float = 1e-3
    flip: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = ResNet50(1, self.weights, self.image_size)

    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> ResNet50:
        return ResNet50(num_labels, self.weights, self.image_size)

    @property
    def _choices(self) -> dict[str, float]:
        return {_SIZE: float(self.image_size or 0)}


def _probabilities(network: Network, tensors: Tensors, images: NDArray[Any], device: torch.device) -> Rows:
    logits = torch.from_numpy(logits_in_blocks(network, tensors, images, device))
    probabilities: Rows = logits.sigmoid_().numpy()
    return probabilities


def _mean_curve(curves: list[Rows]) -> Rows:
    """Folds differ by at most a row, hence curves by a few steps: the first ones of each."""
    shortest = min(map(len, curves))
    return np.asarray(np.stack([curve[:shortest] for curve in curves]).mean(axis=0), np.float32)
