"""Teachers for images: small convolutional networks, and networks with 50 residual layers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from pate.array_types import Float32Array
from pate.device import require_device
from pate.errors import InvalidValue
from pate.models.hyperparameters import require_settings
from pate.models.linear_teacher import LinearTeacher
from pate.models.networks.convnet import Architecture, ConvNet, fit_stacked, stacked_logits
from pate.models.networks.network import Network, iterate_batches, predict_logits, require_images
from pate.models.networks.resnet import FrozenBackbone, ResNet50
from pate.models.networks.training import AdamWRecipe, fit_network
from pate.models.shards import Shard, require_shards, targets_of
from pate.models.teacher import State, Teacher
from pate.validation import require_probability

_LOSS_CURVE = "loss_curve"
_STACKED_BATCH_SIZE = 64  # queries of a forward pass of a stack of networks


class ImageTeacher(AdamWRecipe, Teacher):
    """A recipe for teachers that are networks for images.

    Teachers are trained one after the other. A subclass may train them in one batch.

    Attributes:
        bias: the name of the tensor with one number for each label, whose length tells the number of labels.
    """

    bias: ClassVar[str]

    @property
    @abstractmethod
    def device(self) -> str:
        """The setting of the device: "cpu", "cuda" or "auto"."""

    @property
    def threshold(self) -> float:
        """The least probability with which a label gets a vote: 0.5, unless a subclass has a setting for it."""
        return 0.5

    @abstractmethod
    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> Network:
        """Returns the architecture of the teachers' networks for images of the shape (channels, height, width)."""

    def check(self, input_shape: tuple[int, ...]) -> None:
        """Raises `InvalidValue` if inputs of this shape are no images."""
        if len(input_shape) != 3:
            rule = (
                "pictures, which this teacher looks at: data of pictures with features=none, or a teacher of "
                "features, such as teacher=linear"
            )
            raise InvalidValue("inputs", "features", rule=rule)

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Trains a teacher for each shard by minibatches.

        The initial weights of a teacher and the order of its records are drawn with the teacher's own seed.
        """
        require_shards(shards, seeds=seeds)
        images_of_shards = [require_images(shard.inputs) for shard in shards]
        targets_of_shards = [targets_of(shard) for shard in shards]
        rngs = [np.random.default_rng(seed) for seed in seeds]
        return self._fit_networks(
            images_of_shards=images_of_shards, targets_of_shards=targets_of_shards, rngs=rngs
        )

    def _fit_networks(
        self,
        *,
        images_of_shards: list[NDArray[Any]],
        targets_of_shards: list[Float32Array],
        rngs: list[np.random.Generator],
    ) -> list[State]:
        """Trains a network for each shard, one after the other, and returns their states.

        Args:
            images_of_shards: the images of each shard, `[num_images, channels, height, width]`.
            targets_of_shards: the labels of each shard, 0 or 1, `[num_images, num_labels]`; NaN where they are unknown.
            rngs: the generator of each teacher.
        """
        network_architecture = self._network(
            input_shape=images_of_shards[0].shape[1:], num_labels=targets_of_shards[0].shape[1]
        )
        device = require_device(self.device)
        states: list[State] = []
        for shard_images, shard_targets, rng in zip(
            images_of_shards, targets_of_shards, rngs, strict=True
        ):
            state_dict, losses_by_step = fit_network(
                network_architecture,
                images=shard_images,
                targets=shard_targets,
                recipe=self,
                rng=rng,
                device=device,
            )
            state: State = {name: tensor.cpu().numpy() for name, tensor in state_dict.items()}
            state[_LOSS_CURVE] = losses_by_step
            states.append(state)
        return states

    @torch.no_grad()
    def predict_many(self, states: Sequence[State], inputs: Float32Array) -> Float32Array:
        """Returns the confidences, `[num_states, num_images, num_labels]`: the probabilities, shifted.

        The log-odds of a probability are shifted so that the teacher's threshold becomes 0.5. Confidences are never
        computed in half precision.
        """
        logits_of_teachers = self._logits(states_of_teachers=states, images=require_images(inputs))
        threshold_logit = math.log(self.threshold / (1 - self.threshold))
        shifted_logits = torch.from_numpy(logits_of_teachers).sub_(threshold_logit)
        return np.asarray(shifted_logits.sigmoid_().numpy())

    def _logits(self, states_of_teachers: Sequence[State], images: NDArray[Any]) -> Float32Array:
        """Returns the log-odds of each network, `[num_states, num_images, num_labels]`, one network after the other.

        Args:
            states_of_teachers: the states of the teachers.
            images: the images of the queries, `[num_images, channels, height, width]`.
        """
        device = require_device(self.device)
        network_architecture = self._network(
            input_shape=images.shape[1:],  # channels, height, width
            num_labels=len(states_of_teachers[0][self.bias]),
        )
        logits = np.empty(
            (len(states_of_teachers), len(images), network_architecture.num_labels), np.float32
        )
        for row, state in enumerate(states_of_teachers):
            state_dict = {
                name: torch.from_numpy(array).to(device)
                for name, array in state.items()
                if name != _LOSS_CURVE
            }
            logits[row] = predict_logits(
                network_architecture, state_dict=state_dict, images=images, device=device
            )
        return logits


def _state_of_row(
    stacked_arrays: State, teacher_position: int, losses_by_step: Float32Array
) -> State:
    """Returns the state of one teacher out of the stacked arrays of several teachers.

    Args:
        stacked_arrays: the arrays of all teachers, by name, stacked along the first axis.
        teacher_position: the position of the teacher along that axis.
        losses_by_step: the losses of the teacher's training steps, `[num_steps]`; NaN after its last step.
    """
    state = {name: array[teacher_position].copy() for name, array in stacked_arrays.items()}
    state[_LOSS_CURVE] = losses_by_step[np.isfinite(losses_by_step)]
    return state


def _predict_stacked(
    network_architecture: ConvNet,
    *,
    states_of_teachers: Sequence[State],
    images: Float32Array,
    device: torch.device,
) -> Float32Array:
    """Returns the log-odds of several networks for the same images, `[num_states, num_images, num_labels]`.

    The networks compute together. The images are processed in batches, so that they fit into memory.

    Args:
        network_architecture: the architecture of all networks.
        states_of_teachers: the state of each teacher.
        images: the images, `[num_images, channels, height, width]`.
        device: the device on which the log-odds are computed.
    """
    stacked_state_dict = {
        name: torch.from_numpy(np.stack([state[name] for state in states_of_teachers])).to(device)
        for name in states_of_teachers[0]
        if name != _LOSS_CURVE
    }
    logits = np.empty(
        (len(states_of_teachers), len(images), network_architecture.num_labels), np.float32
    )
    for rows, image_batch in iterate_batches(images, batch_size=_STACKED_BATCH_SIZE, device=device):
        is_valid_image = torch.ones(
            len(states_of_teachers), len(image_batch), dtype=torch.bool, device=device
        )
        stacked_batch = image_batch.contiguous().expand(len(states_of_teachers), *image_batch.shape)
        batch_logits = stacked_logits(
            network_architecture,
            stacked_state_dict=stacked_state_dict,
            images=stacked_batch,
            is_valid_image=is_valid_image,
            is_training=False,
        )
        logits[:, rows] = batch_logits.float().cpu().numpy()
    return logits


@dataclass(frozen=True)
class CNNTeacher(Architecture, ImageTeacher):
    """A recipe for teachers that are small convolutional networks with a logistic output for each label.

    Pixels are scaled by public constants. The loss of a minibatch is the mean over its records of the sum over the
    labels. The threshold is public and equal for all teachers.

    The attributes of the network are those of `Architecture`: `width`, `blocks`, `patch`, `grid`, `norm` and
    `kernel_size`. The attributes of the training are those of `AdamWRecipe`: `epochs`, `batch_size`, `learning_rate`,
    `weight_decay`, `flip` and `precision`. This class adds the following.

    Formal guarantees:
        * A teacher influences another one by rounding at most. In particular, they share no mean, variance or gradient
          of a batch.
        * On a CPU, unless `stacked` is true, each teacher is trained by itself. It has the same bytes in any chunk,
          engine and order.

    Attributes:
        threshold: a label gets a vote if its probability is at least this number in (0, 1).
        stacked: true trains the teachers of a chunk as one batched network; None does so on a GPU only.
        device: "cpu", "cuda", or "auto", which is the GPU if there is one.
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
        """Whether teachers are trained one by one, and not as one batched network."""
        if self.stacked is not None:
            return not self.stacked
        return require_device(self.device).type != "cuda"

    def _fit_networks(
        self,
        *,
        images_of_shards: list[NDArray[Any]],
        targets_of_shards: list[Float32Array],
        rngs: list[np.random.Generator],
    ) -> list[State]:
        """Trains a network for each shard, and returns their states.

        Unless `is_isolated` is true, all networks are trained together, as one batched network.
        """
        if self.is_isolated:
            return super()._fit_networks(
                images_of_shards=images_of_shards, targets_of_shards=targets_of_shards, rngs=rngs
            )
        network_architecture = self._network(
            input_shape=images_of_shards[0].shape[1:], num_labels=targets_of_shards[0].shape[1]
        )
        device = require_device(self.device)
        stacked_state_dict, losses_by_step_of_networks = fit_stacked(
            network_architecture,
            images_of_networks=images_of_shards,
            targets_of_networks=targets_of_shards,
            recipe=self,
            rngs=rngs,
            device=device,
        )
        stacked_arrays = {name: tensor.cpu().numpy() for name, tensor in stacked_state_dict.items()}
        return [
            _state_of_row(stacked_arrays, teacher_position=row, losses_by_step=losses_by_step)
            for row, losses_by_step in enumerate(losses_by_step_of_networks)
        ]

    def _logits(self, states_of_teachers: Sequence[State], images: NDArray[Any]) -> Float32Array:
        """Returns the log-odds of each network, `[num_states, num_images, num_labels]`.

        The networks compute together unless `is_isolated` is true.
        """
        if self.is_isolated:
            return super()._logits(states_of_teachers, images=images)
        device = require_device(self.device)
        network_architecture = self._network(
            input_shape=images.shape[1:],  # channels, height, width
            num_labels=len(states_of_teachers[0][self.bias]),
        )
        return _predict_stacked(
            network_architecture,
            states_of_teachers=states_of_teachers,
            images=images,
            device=device,
        )

    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> ConvNet:
        return ConvNet.from_architecture(
            architecture=self, shape=input_shape, num_labels=num_labels
        )


@lru_cache(maxsize=1)
def _frozen_backbone(
    weights_file: str, image_size: int | None, device: torch.device
) -> FrozenBackbone:
    """Returns the backbone of a file of weights, which is read once for consecutive calls with equal arguments."""
    return FrozenBackbone(weights_file=weights_file, image_size=image_size, device=device)


@dataclass(frozen=True)
class ResNet50Teacher(ImageTeacher):
    """A recipe for teachers that are ResNet-50 networks with a logistic output for each label.

    With `frozen`, the backbone is not trained. The 2,048 features of each record are computed once, and each teacher is
    a ridge regression on these features with a threshold of its own (`LinearTeacher`). Such teachers are thousands of
    times cheaper.

    **Weights must come from public data.** A backbone that was trained on private records, or on data that overlaps
    them, reveals information that no epsilon covers.

    Images are never mirrored if `frozen` is true. A trained teacher takes 94 MB on disk. A frozen teacher takes 2,049
    numbers for each label.

    The attributes of the training are those of `AdamWRecipe`: `epochs`, `batch_size`, `learning_rate`, `weight_decay`,
    `flip` and `precision`. This class adds the following.

    Attributes:
        weights: a file of backbone weights: `.safetensors`, or a state dictionary of torch, such as torchvision's
            `resnet50-….pth`. None begins with random weights.
        frozen: true trains the head alone; this needs `weights`.
        image_size: the height and width to which images are resized for the network; None keeps the size of the images.
        penalty: the penalty of the ridge regression on frozen features, > 0.
        device: "cpu", "cuda", or "auto", which is the GPU if there is one.
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
            raise InvalidValue(name="frozen", value=True, rule=rule)
        require_settings(self)
        self._validate_weights()

    @property
    def is_isolated(self) -> bool:
        """Whether teachers are trained one by one; false if `frozen` is true, as heads alone are solved together."""
        return not self.frozen

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Trains a teacher for each shard, one after the other, as one ResNet-50 makes full use of a GPU.

        If `frozen` is true, the ridge regressions of all teachers are solved together.
        """
        if not self.frozen:
            return super().fit_many(shards, seeds=seeds)
        require_shards(shards, seeds=seeds)
        backbone = self._backbone
        feature_shards = [
            replace(shard, inputs=backbone.features(require_images(shard.inputs)))
            for shard in shards
        ]
        return self._head.fit_many(feature_shards, seeds=seeds)

    def predict_many(self, states: Sequence[State], inputs: Float32Array) -> Float32Array:
        """Returns the probability of each label or, if `frozen` is true, the score of the ridge regression.

        A teacher votes for a label if this number is at least 0.5.
        """
        if not self.frozen:
            return super().predict_many(states, inputs=inputs)
        # All teachers are asked about the same queries.
        features = self._backbone.features(require_images(inputs), keep_in_memory=True)
        return self._head.predict_many(states, inputs=features)

    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> ResNet50:
        return ResNet50(
            num_labels=num_labels, weights_file=self.weights, image_size=self.image_size
        )

    def _validate_weights(self) -> None:
        """Raises `InvalidValue` unless `weights` is None or names a file of the weights of a ResNet-50."""
        # Made only for its checks.
        ResNet50(num_labels=1, weights_file=self.weights, image_size=self.image_size)

    @property
    def _head(self) -> LinearTeacher:
        """The recipe of the ridge regressions that are the teachers if `frozen` is true; their inputs are features."""
        return LinearTeacher(penalty=self.penalty, device=self.device)

    @property
    def _backbone(self) -> FrozenBackbone:
        """The network that computes the features of images if `frozen` is true; it is not trained."""
        return _frozen_backbone(
            weights_file=str(self.weights),
            image_size=self.image_size,
            device=require_device(self.device),
        )
