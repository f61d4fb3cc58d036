"""Teachers that are small convolutional networks, trained one by one on a processor and side by side on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pate.networks import ConvNet, Recipe, require_device, require_images
from pate.networks.convnet import require_network
from pate.networks.network import require_pictures
from pate.teachers.image import confidences, fit_apart, fit_side_by_side, logits_apart, logits_side_by_side
from pate.teachers.teacher import Shard, State, Teacher, require_shards
from pate.validation import require_probability


@dataclass(frozen=True)
class CNNTeacher(Teacher):
    """A small convolutional network with a logistic output for each label.

    From `width` to `kernel_size` the attributes are those of its architecture, `pate.networks.ConvNet`; from `epochs`
    to `precision`, those of its training, `pate.networks.Recipe`. Pixels are scaled by public constants. A minibatch's
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
        """See `Voter.check`."""
        require_pictures(input_shape)

    @property
    def is_isolated(self) -> bool:
        """See `Teacher.is_isolated`."""
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
