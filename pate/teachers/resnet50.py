"""Teachers that are residual networks of 50 layers, trained whole or as a head on frozen public features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from pate.networks import Recipe, ResNet50, fit, logits_in_blocks, require_device, require_images
from pate.networks.resnet import FrozenBackbone
from pate.teachers.linear import LinearTeacher
from pate.teachers.teacher import OnStep, Shard, State, Teacher, require_parts
from pate.validation import InvalidValue, require_positive

_CURVE = "loss_curve"


@dataclass(frozen=True)
class ResNet50Teacher(Teacher):
    """ResNet-50 with a logistic output for each label, from random weights or from a file of the user's.

    With `frozen`, the backbone is not trained: each record's 2,048 features are computed once, and a teacher is ridge
    regression on them with a threshold of its own (`LinearTeacher`), thousands of times cheaper.

    **Weights must come from public data.** A backbone trained on private records, or on data that overlaps them, leaks
    what no epsilon here covers.

    A trained teacher takes 94 MB on disk, a frozen one 2,049 numbers a label.

    Attributes:
        weights: file of backbone weights (`.safetensors`, or a state dictionary of torch's, such as torchvision's
            `resnet50-….pth`); None begins from random weights.
        frozen: whether only a head is trained; needs weights.
        image_size: images are resized to this height and width for the network; None takes them as they are.
        penalty: of the ridge regression on frozen features, > 0.
        epochs: passes over a teacher's records.
        batch_size: records a step, at most.
        learning_rate: of AdamW at the first step, > 0; it falls linearly to 0.
        weight_decay: of AdamW, >= 0.
        flip: whether images are mirrored at random; not with frozen features.
        precision: "float32", "bfloat16", "float16", or "auto": bfloat16 on a GPU that has it.
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
        _ = self._recipe, self._network(1)

    @property
    def is_isolated(self) -> bool:
        """See `Teacher.is_isolated`."""
        return not self.frozen

    def fit_many(self, parts: Sequence[Shard], seeds: Sequence[int], on_step: OnStep | None = None) -> list[State]:
        """Fits one part after the other; a ResNet-50 fills a GPU by itself. Frozen features are solved together."""
        require_parts(parts, seeds)
        images = [require_images(part.inputs) for part in parts]
        if self.frozen:
            features = [self._backbone.features(each) for each in images]
            pairs = zip(features, parts, strict=True)
            return self._head.fit_many([Shard(inputs, part.labels) for inputs, part in pairs], seeds, on_step)
        states: list[State] = []
        for shown, part, seed in zip(images, parts, seeds, strict=True):
            tensors, losses = fit(
                self._network(part.labels.shape[1]),
                shown,
                part.labels.astype(np.float32),
                recipe=self._recipe,
                rng=np.random.default_rng(seed),
                device=require_device(self.device),
            )
            states.append({name: tensor.cpu().numpy() for name, tensor in tensors.items()} | {_CURVE: losses})
        if on_step is not None:
            for step, losses in enumerate(np.stack([state[_CURVE][: _shortest(states)] for state in states], axis=1)):
                on_step(step, losses)
        return states

    def predict_many(self, states: Sequence[State], inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Probabilities, or with `frozen` the scores of the heads; a vote is one >= 0.5."""
        images, device = require_images(inputs), require_device(self.device)
        if self.frozen:
            return self._head.predict_many(states, self._backbone.features(images, remember=True))
        num_labels = len(states[0]["fc.bias"])
        network, confidences = self._network(num_labels), np.empty((len(states), len(images), num_labels), np.float32)
        for row, state in enumerate(states):
            tensors = {name: torch.from_numpy(array).to(device) for name, array in state.items() if name != _CURVE}
            logits = logits_in_blocks(network, tensors, images, device, num_labels)
            confidences[row] = torch.from_numpy(logits).sigmoid_().numpy()
        return confidences

    @property
    def _recipe(self) -> Recipe:
        optimizer = self.epochs, self.batch_size, self.learning_rate, self.weight_decay
        return Recipe(*optimizer, flip=self.flip, precision=self.precision)

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


def _shortest(states: Sequence[State]) -> int:
    return min(len(state[_CURVE]) for state in states)
