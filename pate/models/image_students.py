"""Students for images: ensembles of small convolutional networks, or of networks with 50 residual layers."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from pate.aggregators.training_set import TrainingSet
from pate.array_types import BoolArray, Float32Array
from pate.device import device_memory, require_device
from pate.models.linear_model import LinearModel
from pate.models.networks.convnet import Architecture, ConvNet
from pate.models.networks.network import Network, Tensors, predict_logits, require_images
from pate.models.networks.resnet import ResNet50
from pate.models.networks.training import AdamWRecipe, fit_network
from pate.models.student import OnEpoch, require_rows
from pate.models.student_model import LARGEST_INPUT, StudentModel
from pate.models.thresholds import ThresholdedStudent
from pate.threads import one_thread
from pate.validation import require

_IMAGE_SIZE = "image_size"  # the name of a choice in the card of a ResNet-50
_LARGEST_LAYER = 2**24  # the most numbers that a layer may have for one picture: 64 MiB
# A picture of a ResNet-50 may have at most so many numbers more than the arrays of the model have.
_LARGEST_PICTURE = 2**20


class ImageModel(StudentModel):
    """A trained student for images. Its probabilities are the mean of the probabilities of several networks.

    The probability of a label that was never released is 0.
    """

    def _probabilities(self, inputs: Float32Array) -> Float32Array:
        # Earlier versions published constant probabilities if there was one answer or none.
        if "constant" in self.arrays:
            return np.tile(self.arrays["constant"], (len(inputs), 1))
        network = self.network()
        images = inputs.reshape(-1, *self.input_shape)
        released_label_mask = self.arrays["released"]
        array_names = [name for name in self.arrays if name != "released"]
        total = np.zeros((len(images), len(released_label_mask)), np.float32)
        num_ensemble_members = len(self.arrays[array_names[0]])
        with one_thread():
            for member_index in range(num_ensemble_members):
                state_dict = {
                    name: torch.from_numpy(np.ascontiguousarray(self.arrays[name][member_index]))
                    for name in array_names
                }
                total += _probabilities(
                    network=network,
                    state_dict=state_dict,
                    images=images,
                    device=torch.device("cpu"),
                )
        return total / np.float32(num_ensemble_members) * released_label_mask

    @abstractmethod
    def network(self) -> Network:
        """Returns the architecture of the networks, with the sizes that the model's arrays have."""


@dataclass(frozen=True, kw_only=True)
class ImageStudent(AdamWRecipe, ThresholdedStudent):
    """A recipe for an ensemble of a few networks. Each network, a member, is trained on all rows but one fold.

    `learn` also uses public samples that were not queries. Each member is trained a second time, from new initial
    weights, on the released labels and on its own predicted probabilities for those samples (self-training). The fold
    that a member was not trained on stays held out, so the threshold is placed by probabilities for samples that are
    new to the member. All of it is post-processing and costs no privacy.

    The attributes of the training are those of `AdamWRecipe`: `epochs`, `batch_size`, `learning_rate`, `weight_decay`,
    `flip` and `precision`.

    Attributes:
        model: the class of the trained student.
        folds: the number of members, at least 2; there are fewer if there are fewer rows.
        max_unlabeled: the largest number of images of the pool that are used; 0 uses none.
        device: "cpu", "cuda", or "auto", which is the GPU if there is one.
    """

    model: ClassVar[type[ImageModel]]

    folds: int
    max_unlabeled: int
    device: str = "auto"

    def __post_init__(self) -> None:
        ThresholdedStudent.__post_init__(self)  # also checks the settings of the recipe

    def check(self, input_shape: tuple[int, ...], num_labels: int) -> None:
        """Raises `InvalidValue` if inputs of this shape are no images, or have a size that the network cannot take."""
        super().check(input_shape, num_labels=num_labels)
        numbers_per_picture = math.prod(input_shape)
        rule = f"at most {LARGEST_INPUT:,}, or the model could not be read back"
        require(
            numbers_per_picture <= LARGEST_INPUT, "numbers in a picture", numbers_per_picture, rule
        )
        require_images(np.zeros((1, *input_shape), np.float32))
        # Made only for its checks: a network refuses sizes that it cannot take.
        self._network(input_shape, num_labels=num_labels)

    def fit(
        self, inputs: Float32Array, labels: BoolArray, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> StudentModel:
        """Trains the members on inputs with labels, once and without a pool.

        When all are trained, `on_epoch` gets the mean loss of the members in each epoch.
        """
        empty_pool = np.asarray(inputs)[:0]
        training_set = TrainingSet(inputs, labels)
        return self.learn(training_set, pool=empty_pool, seed=seed, on_epoch=on_epoch)

    def learn(
        self,
        training: TrainingSet,
        *,
        pool: Float32Array,
        seed: int,
        on_epoch: OnEpoch | None = None,
    ) -> StudentModel:
        """Trains the members on released labels, and then once more on released labels and public samples.

        The second training needs a public sample in `pool` and `max_unlabeled` > 0. With fewer than two answered
        queries nothing is trained, and the model predicts the same labels for all inputs.
        """
        images = require_images(training.inputs)
        _, labels = require_rows(inputs=images, labels=training.labels, seed=seed)
        known_label_mask = training.known
        labels_or_nan = labels.astype(np.float32)
        if known_label_mask is not None:
            labels_or_nan[~known_label_mask] = np.nan
        input_shape = tuple(images.shape[1:])
        released_label_mask = np.asarray(labels.any(axis=0), np.float32)
        network_architecture = self._network(input_shape=input_shape, num_labels=labels.shape[1])
        device = require_device(self.device)
        if len(images) < 2:
            return LinearModel.constant(predicted_labels=released_label_mask, inputs=images)
        pool = np.asarray(pool[: self.max_unlabeled])
        rng = np.random.default_rng(seed)
        fold_of_image = rng.permutation(len(images)) % min(self.folds, len(images))
        held_out_probabilities = np.zeros(labels.shape, np.float32)
        arrays_of_members: list[dict[str, Float32Array]] = []
        losses_by_step_of_members: list[Float32Array] = []
        with (
            one_thread(),
            device_memory(
                advice="CUDA_VISIBLE_DEVICES= before the command trains it on the processor"
            ),
        ):
            for fold in range(fold_of_image.max() + 1):
                in_training = fold_of_image != fold
                state_dict, losses_by_step = self._train_member(
                    network_architecture,
                    images=images[in_training],
                    targets=labels_or_nan[in_training],
                    pool=pool,
                    rng=rng,
                    device=device,
                )
                held_out_probabilities[~in_training] = _probabilities(
                    network=network_architecture,
                    state_dict=state_dict,
                    images=images[~in_training],
                    device=device,
                )
                arrays_of_members.append(
                    {name: tensor.cpu().float().numpy() for name, tensor in state_dict.items()}
                )
                losses_by_step_of_members.append(losses_by_step)
        if on_epoch is not None:
            self._report(losses_by_step_of_members, on_epoch=on_epoch)
        stacked_arrays = {
            name: np.stack([arrays_of_member[name] for arrays_of_member in arrays_of_members])
            for name in arrays_of_members[0]
        }
        stacked_arrays["released"] = released_label_mask
        if known_label_mask is not None:  # A label that is unknown counts as not predicted.
            held_out_probabilities *= known_label_mask
        return self.model(
            arrays=stacked_arrays,
            threshold=self._choose_threshold(
                held_out_probabilities * released_label_mask, labels=labels
            ),
            input_shape=input_shape,
            num_rows=len(images),
            choices={"unlabeled": float(len(pool)), **self._choices_of_network()},
        )

    def _choices_of_network(self) -> dict[str, float]:
        """Returns the settings of the network that its weights do not tell, by name, for `StudentModel.choices`.

        There are none unless a subclass overrides this method.
        """
        return {}

    def _train_member(
        self,
        network_architecture: Network,
        *,
        images: NDArray[Any],
        targets: Float32Array,
        pool: NDArray[Any],
        rng: np.random.Generator,
        device: torch.device,
    ) -> tuple[Tensors, Float32Array]:
        """Trains one member; returns its tensors and the losses of its last training.

        Args:
            network_architecture: the architecture.
            images: the images that the member is trained on, those of answered queries outside of its fold.
            targets: their released labels, 0 or 1, `[num_images, num_labels]`; NaN where they are unknown.
            pool: images without labels for the second training; may be empty.
            rng: the generator of the initial weights and of the order of the images.
            device: the device on which the member is trained.
        """
        state_dict, losses_by_step = fit_network(
            network_architecture,
            images=images,
            targets=targets,
            recipe=self,
            rng=rng,
            device=device,
        )
        if len(pool) == 0:
            return state_dict, losses_by_step
        pool_probabilities = _probabilities(
            network=network_architecture, state_dict=state_dict, images=pool, device=device
        )
        # The second training begins with new weights.
        return fit_network(
            network_architecture,
            images=np.concatenate([images, pool]),
            targets=np.concatenate([targets, pool_probabilities]),
            recipe=self,
            rng=rng,
            device=device,
        )

    def _report(self, losses_by_step_of_members: list[Float32Array], on_epoch: OnEpoch) -> None:
        """Calls `on_epoch` once for each epoch, with the mean loss over the members and over the steps of the epoch.

        The folds may differ by one row, so the members may have different numbers of steps. Steps beyond the smallest
        of these numbers are left out.

        Args:
            losses_by_step_of_members: the loss of each training step, one array for each member.
            on_epoch: is called with the index of the epoch, from 0, and a dictionary that has its mean loss as "loss".
        """
        num_steps = min(map(len, losses_by_step_of_members))
        mean_losses_by_step = np.asarray(
            np.mean(
                [losses_by_step[:num_steps] for losses_by_step in losses_by_step_of_members], axis=0
            ),
            np.float32,
        )
        num_epochs = min(self.epochs, num_steps)
        for epoch, epoch_losses in enumerate(np.array_split(mean_losses_by_step, num_epochs)):
            on_epoch(epoch, {"loss": float(epoch_losses.mean())})

    @abstractmethod
    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> Network:
        """Returns the architecture for images of the shape (channels, height, width).

        Raises `InvalidValue` if no such network can process images of this shape.
        """


class CNNModel(ImageModel):
    """A trained student that is an ensemble of small convolutional networks."""

    kind: ClassVar[str] = "cnn"

    def network(self) -> ConvNet:
        """Returns the architecture of the networks, with the sizes that the model's arrays have."""
        # All arrays have a first axis of members. Weights are [members, channels out, inputs].
        layer0_weight = self.arrays["layer0.weight"]
        head_weight = self.arrays["head.weight"]
        num_later_convolutions = sum(name.endswith(".scale") for name in self.arrays) - 1
        last_channels = self.arrays[f"layer{num_later_convolutions}.weight"].shape[1]
        num_taps = (
            self.arrays["layer1.weight"].shape[2] // layer0_weight.shape[1]
            if num_later_convolutions
            else 1
        )
        patch = math.isqrt(layer0_weight.shape[2] // self.input_shape[0])
        grid = math.isqrt(head_weight.shape[2] // last_channels)
        norm = "batch" if "layer0.mean" in self.arrays else "group"
        architecture_settings = Architecture(
            width=layer0_weight.shape[1],
            blocks=num_later_convolutions,
            patch=patch,
            grid=grid,
            norm=norm,
            kernel_size=math.isqrt(num_taps),
        )
        return _require_moderate(
            ConvNet.from_architecture(
                architecture=architecture_settings,
                shape=self.input_shape,
                num_labels=head_weight.shape[1],
            )
        )


@dataclass(frozen=True, kw_only=True)
class CNNStudent(Architecture, ImageStudent):
    """A recipe for an ensemble of small convolutional networks, trained as `ImageStudent` describes.

    The attributes of the network are those of `Architecture`: `width`, `blocks`, `patch`, `grid`, `norm` and
    `kernel_size`. The other attributes are those of `ImageStudent`.
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
        return _require_moderate(
            ConvNet.from_architecture(architecture=self, shape=input_shape, num_labels=num_labels)
        )


def _require_moderate(network: ConvNet) -> ConvNet:
    """Returns `network`; raises `InvalidValue` if one layer of it needs too much memory for one image.

    So a small file of a model cannot demand much memory. The limit holds for training too, so that every trained model
    can be read back.
    """
    most_channels = max(num_channels for num_channels, _ in network.weight_shapes)
    numbers_per_layer = most_channels * math.prod(
        length // network.patch for length in network.shape[1:]
    )
    rule = f"at most {_LARGEST_LAYER:,}: a larger patch or smaller pictures"
    require(numbers_per_layer <= _LARGEST_LAYER, "numbers in a layer", numbers_per_layer, rule)
    return network


class ResNet50Model(ImageModel):
    """A trained student that is an ensemble of ResNet-50 networks."""

    kind: ClassVar[str] = "resnet50"

    def network(self) -> ResNet50:
        """Returns the architecture of the networks, which resize images to the size that `choices` names, if any."""
        image_size = int(self.choices.get(_IMAGE_SIZE, 0))
        # A small file must not demand much memory.
        most_numbers = _LARGEST_PICTURE + sum(array.size for array in self.arrays.values())
        rule = f"a square root of at most {most_numbers / 3:.0f}"
        require(3 * image_size**2 <= most_numbers, _IMAGE_SIZE, image_size, rule)
        num_labels = self.arrays["fc.bias"].shape[1]
        return ResNet50(num_labels=num_labels, weights_file=None, image_size=image_size or None)


@dataclass(frozen=True, kw_only=True)
class ResNet50Student(ImageStudent):
    """A recipe for an ensemble of ResNet-50 networks, trained as `ImageStudent` describes.

    The attributes of `ImageStudent` apply, and the following.

    Attributes:
        weights: a file of backbone weights from PUBLIC data that training begins with (see `read_weights`); None begins
            with random weights.
        image_size: the height and width to which images are resized for the network; None keeps the size of the images.
        folds: the number of networks, at least 2. Each network takes 94 MB in the published folder.
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
        self._validate_weights()

    def _validate_weights(self) -> None:
        """Raises `InvalidValue` unless `weights` is None or names a file of the weights of a ResNet-50."""
        # Made only for its checks.
        ResNet50(num_labels=1, weights_file=self.weights, image_size=self.image_size)

    def _choices_of_network(self) -> dict[str, float]:
        return {_IMAGE_SIZE: float(self.image_size or 0)}

    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> ResNet50:
        return ResNet50(
            num_labels=num_labels, weights_file=self.weights, image_size=self.image_size
        )


def _probabilities(
    network: Network, state_dict: Tensors, images: NDArray[Any], device: torch.device
) -> Float32Array:
    """Returns the probabilities that one network predicts for images, float32 `[num_images, num_labels]`.

    Args:
        network: the architecture.
        state_dict: the weights of the network.
        images: the images, `[num_images, channels, height, width]`.
        device: the device on which the probabilities are computed.
    """
    logits = torch.from_numpy(
        predict_logits(network, state_dict=state_dict, images=images, device=device)
    )
    return np.asarray(logits.sigmoid_().numpy())
