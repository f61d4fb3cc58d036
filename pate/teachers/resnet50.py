"""Teachers that are residual networks of 50 layers, trained whole or as a head on frozen public features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from pate.networks import Recipe, ResNet50, require_device, require_images
from pate.networks.network import require_pictures
from pate.networks.resnet import FrozenBackbone
from pate.teachers.image import confidences, fit_apart, logits_apart
from pate.teachers.linear import LinearTeacher
from pate.teachers.teacher import Shard, State, Teacher, require_shards
from pate.validation import InvalidValue, require_positive


@dataclass(frozen=True)
class ResNet50Teacher(Teacher):
    """ResNet-50 with a logistic output for each label, from random weights or from a file of the user's.

    With `frozen`, the backbone is not trained: each record's 2,048 features are computed once, and a teacher is ridge
    regression on them with a threshold of its own (`LinearTeacher`), thousands of times cheaper.

    **Weights must come from public data.** A backbone trained on private records, or on data that overlaps them, leaks
    what no epsilon here covers.

    From `epochs` to `precision` the attributes are those of the training, `pate.networks.Recipe`; frozen features are
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
        """See `Voter.check`."""
        require_pictures(input_shape)

    @property
    def is_isolated(self) -> bool:
        """See `Teacher.is_isolated`."""
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
