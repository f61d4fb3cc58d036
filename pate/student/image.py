"""Students that are networks for images: members, each trained without a fold of the rows."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
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
from pate.student.model import LARGEST_INPUT, StudentModel
from pate.student.student import OnEpoch, ThresholdedStudent, require_rows
from pate.validation import require, require_count

Arrays = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Members:
    """What was trained.

    Attributes:
        arrays: by name, `[members, …]`, and `released`, `[num_labels]`.
        held_out: `[n, num_labels]`, probabilities of each row from the member that never saw it.
        choices: for the record.
    """

    arrays: Arrays
    held_out: NDArray[np.float32]
    choices: dict[str, float]


def fit_members(
    network: Network,
    images: NDArray[np.float32],
    labels: NDArray[np.bool_],
    pool: NDArray[np.float32],
    *,
    recipe: Recipe,
    folds: int,
    device: torch.device,
    seed: int,
    on_epoch: OnEpoch | None,
) -> Members:
    """Trains each member without one fold of the rows.

    With a pool, a member is trained twice: on its rows; then, from new random weights, on its rows and on the pool
    with the probabilities that its first self gives there for labels. The fold that it never saw stays held out, so
    the threshold is placed on honest probabilities. All of it is post-processing of what was released.

    Args:
        network: the architecture.
        images: at least 2 labeled ones, `[n, channels, height, width]`.
        labels: bool `[n, num_labels]`.
        pool: unlabeled images `[m, channels, height, width]`; m may be 0.
        recipe: how each member is trained.
        folds: members, at least 2; fewer where there are fewer rows.
        device: where.
        seed: of folds and members.
        on_epoch: told the members' mean loss after each epoch of their last training.
    """
    rng = np.random.default_rng(seed)
    fold_of = rng.permutation(len(images)) % min(folds, len(images))
    released: NDArray[np.float32] = np.asarray(labels.any(axis=0), np.float32)
    held_out, members, curves = np.zeros(labels.shape, np.float32), [], []
    with one_thread(), device_memory("CUDA_VISIBLE_DEVICES= before the command trains it on the processor"):
        for fold in range(fold_of.max() + 1):
            kept = fold_of != fold
            targets = labels[kept].astype(np.float32)
            tensors, curve = _fit_member(network, images[kept], targets, pool, recipe=recipe, rng=rng, device=device)
            held_out[~kept] = _probabilities(network, tensors, images[~kept], device)
            members.append({name: tensor.cpu().float().numpy() for name, tensor in tensors.items()})
            curves.append(curve)
    if on_epoch is not None:
        for epoch, losses in enumerate(np.array_split(_mean_curve(curves), min(recipe.epochs, len(curves[0])))):
            on_epoch(epoch, {"loss": float(losses.mean())})
    arrays: Arrays = {name: np.stack([member[name] for member in members]) for name in members[0]}
    arrays["released"] = released
    return Members(arrays, held_out * released, {"unlabeled": float(len(pool))})


def members_probabilities(network: Network, arrays: Arrays, images: NDArray[np.float32]) -> NDArray[np.float32]:
    """The mean of the members' probabilities `[m, num_labels]`; 0 for labels that were never released."""
    released = arrays["released"]
    names = [name for name in arrays if name != "released"]
    total = np.zeros((len(images), len(released)), np.float32)
    count = len(arrays[names[0]])
    with one_thread():
        for member in range(count):
            tensors = {name: torch.from_numpy(np.ascontiguousarray(arrays[name][member])) for name in names}
            total += _probabilities(network, tensors, images, torch.device("cpu"))
    return total / np.float32(count) * released


def _fit_member(
    network: Network,
    images: NDArray[np.float32],
    targets: NDArray[np.float32],
    pool: NDArray[np.float32],
    *,
    recipe: Recipe,
    rng: np.random.Generator,
    device: torch.device,
) -> tuple[Tensors, NDArray[np.float32]]:
    tensors, curve = fit(network, images, targets, recipe=recipe, rng=rng, device=device)
    if len(pool):
        guessed = _probabilities(network, tensors, pool, device)
        joined, wanted = np.concatenate([images, pool]), np.concatenate([targets, guessed])
        tensors, curve = fit(network, joined, wanted, recipe=recipe, rng=rng, device=device)
    return tensors, curve


def _probabilities(
    network: Network, tensors: Tensors, images: NDArray[Any], device: torch.device
) -> NDArray[np.float32]:
    logits = torch.from_numpy(logits_in_blocks(network, tensors, images, device))
    probabilities: NDArray[np.float32] = logits.sigmoid_().numpy()
    return probabilities


def _mean_curve(curves: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Folds differ by at most a row, hence curves by a few steps: the first ones of each."""
    shortest = min(map(len, curves))
    return np.asarray(np.stack([curve[:shortest] for curve in curves]).mean(axis=0), np.float32)


class ImageModel(StudentModel):
    """The mean of the members' probabilities. Labels that were never released have probability 0."""

    def _probabilities(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        if "constant" in self.arrays:
            return np.tile(self.arrays["constant"], (len(rows), 1))
        return members_probabilities(self.network(), dict(self.arrays), rows.reshape(-1, *self.input_shape))

    @abstractmethod
    def network(self) -> Network:
        """The architecture, as arrays and choices show it."""


@dataclass(frozen=True, kw_only=True)
class ImageStudent(ThresholdedStudent):
    """A few networks, each trained without a fold of the rows.

    The rest of the public pool, which nobody labeled, is used by `learn`: each member is trained a second
    time, on its own probabilities for the pool beside the released labels (self-training). That costs nothing: the
    pool is public.

    From `epochs` to `precision` the attributes are those of the training, `pate.networks.Recipe`.

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
        """See `Student.check`."""
        super().check(input_shape, num_labels)
        size, rule = math.prod(input_shape), f"at most {LARGEST_INPUT:,}, or the model could not be read back"
        require(size <= LARGEST_INPUT, "numbers in a picture", size, rule)
        require_images(np.zeros((1, *input_shape), np.float32))
        self._network(input_shape, num_labels)

    def fit(
        self,
        inputs: NDArray[np.float32],
        labels: NDArray[np.bool_],
        *,
        seed: int,
        on_epoch: OnEpoch | None = None,
    ) -> StudentModel:
        """See `Student.fit`. The loss reported is the members' mean."""
        nothing = np.asarray(inputs)[:0]
        return self.learn(TrainingSet(inputs, labels), pool=nothing, seed=seed, on_epoch=on_epoch)

    def learn(
        self,
        training: TrainingSet,
        *,
        pool: NDArray[np.float32],
        seed: int,
        on_epoch: OnEpoch | None = None,
    ) -> StudentModel:
        """See `Student.learn`."""
        inputs, labels = training.inputs, training.labels
        images = require_images(inputs)
        _, labels = require_rows(images, labels, seed)
        shape = tuple(images.shape[1:])
        network = self._network(shape, labels.shape[1])
        if len(images) < 2:
            return self.model({"constant": np.asarray(labels.any(axis=0), np.float32)}, 0.5, shape, len(images), {})
        members = fit_members(
            network,
            images,
            labels,
            np.asarray(pool[: self.max_unlabeled]),
            recipe=Recipe.of(self),
            folds=self.folds,
            device=require_device(self.device),
            seed=seed,
            on_epoch=on_epoch,
        )
        threshold = self._place(members.held_out, labels)
        choices = members.choices | self._choices
        return self.model(members.arrays, threshold, shape, len(images), choices)

    @abstractmethod
    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> Network:
        """The architecture for such images; raises `InvalidValue` where it does not fit them."""

    @property
    def _choices(self) -> dict[str, float]:
        """What the model must know beside its arrays."""
        return {}


_LARGEST_LAYER = 2**24


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

    From `width` to `kernel_size` the attributes are those of the architecture, `pate.networks.ConvNet`.

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


_SIZE = "image_size"


class ResNet50Model(ImageModel):
    """The mean of the members' probabilities. Labels that were never released have probability 0."""

    kind = "resnet50"

    def network(self) -> ResNet50:
        """See `ImageModel.network`."""
        image_size = int(self.choices.get(_SIZE, 0))
        most = 2**20 + sum(array.size for array in self.arrays.values())  # a small file must not ask for much memory
        require(3 * image_size**2 <= most, _SIZE, image_size, f"a square root of at most {most / 3:.0f}")
        return ResNet50(self.arrays["fc.bias"].shape[1], None, image_size or None)


@dataclass(frozen=True, kw_only=True)
class ResNet50Student(ImageStudent):
    """A few networks ResNet-50, trained as `ImageStudent` says, whose attributes are not listed again.

    Attributes:
        weights: file of backbone weights from PUBLIC data to begin with (see `pate.networks.read_weights`), or None.
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
