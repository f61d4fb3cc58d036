"""A student that is a residual network of 50 layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.networks import Recipe, ResNet50, require_device, require_images
from pate.student.model import StudentModel
from pate.student.network import Training, fit_members, members_probabilities
from pate.student.student import OnEpoch, Student, require_rows
from pate.validation import require_count

_SIZE = "image_size"


class ResNet50Model(StudentModel):
    """The mean of the members' probabilities. Labels that were never released have probability 0."""

    kind = "resnet50"

    def _probabilities(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        if "constant" in self.arrays:
            return np.tile(self.arrays["constant"], (len(rows), 1))
        size = int(self.choices.get(_SIZE, 0)) or None
        network = ResNet50(self.arrays["fc.bias"].shape[1], None, size)
        return members_probabilities(network, dict(self.arrays), rows.reshape(-1, *self.input_shape))


@dataclass(frozen=True)
class ResNet50Student(Student):
    """A few networks ResNet-50, each trained without a fold of the rows, and again with the pool: see `CNNStudent`.

    Attributes:
        weights: file of backbone weights from PUBLIC data to begin with (see `pate.networks.read_weights`), or None.
        image_size: images are resized to this height and width for the network; None takes them as they are.
        folds: members, at least 2; 94 MB each in the published folder.
        max_unlabelled: at most that many images of the pool are used; 0 for none.
        epochs: passes over the rows.
        batch_size: rows a step, at most.
        learning_rate: of AdamW at the first step, > 0; it falls linearly to 0.
        weight_decay: of AdamW, >= 0.
        flip: whether images are mirrored at random.
        precision: "float32", "bfloat16", "float16", or "auto": bfloat16 on a GPU that has it.
        device: "auto" (the GPU where there is one), "cpu" or "cuda".

    Raises:
        InvalidValue: an attribute outside its range.
    """

    weights: str | None = None
    image_size: int | None = None
    folds: int = 2
    max_unlabelled: int = 10_000
    epochs: int = 30
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    flip: bool = True
    precision: str = "auto"
    device: str = "auto"

    def __post_init__(self) -> None:
        require_count("folds", self.folds, minimum=2)
        require_count("max_unlabelled", self.max_unlabelled, minimum=0)
        require_device(self.device)
        _ = self._training, ResNet50(1, self.weights, self.image_size)

    def fit(
        self,
        inputs: NDArray[np.float32],
        labels: NDArray[np.bool_],
        *,
        seed: int,
        on_epoch: OnEpoch | None = None,
    ) -> ResNet50Model:
        """See `Student.fit`. The loss reported is the members' mean."""
        return self.fit_with_pool(inputs, labels, pool=np.asarray(inputs)[:0], seed=seed, on_epoch=on_epoch)

    def fit_with_pool(
        self,
        inputs: NDArray[np.float32],
        labels: NDArray[np.bool_],
        *,
        pool: NDArray[np.float32],
        seed: int,
        on_epoch: OnEpoch | None = None,
    ) -> ResNet50Model:
        """See `Student.fit_with_pool`."""
        images = require_images(inputs)
        _, labels = require_rows(images, labels, seed)
        shape = tuple(images.shape[1:])
        if len(images) < 2:
            return ResNet50Model({"constant": np.asarray(labels.any(axis=0), np.float32)}, 0.5, shape, len(images), {})
        network = ResNet50(labels.shape[1], self.weights, self.image_size)
        unlabelled = np.asarray(pool[: self.max_unlabelled])
        members = fit_members(network, images, labels, unlabelled, self._training, seed=seed, on_epoch=on_epoch)
        choices = members.choices | {_SIZE: float(self.image_size or 0)}
        return ResNet50Model(members.arrays, members.threshold, shape, len(images), choices)

    @property
    def _training(self) -> Training:
        optimiser = self.epochs, self.batch_size, self.learning_rate, self.weight_decay
        recipe = Recipe(*optimiser, flip=self.flip, precision=self.precision)
        return Training(recipe, self.folds, self.max_unlabelled, require_device(self.device))
