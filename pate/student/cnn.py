"""A student that is a small convolutional network."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.networks import ConvNet, Recipe, require_device, require_images
from pate.networks.convnet import require_network
from pate.student.model import StudentModel
from pate.student.network import Training, fit_members, members_probabilities
from pate.student.student import OnEpoch, Student, require_rows
from pate.validation import require_count


class CNNModel(StudentModel):
    """The mean of the members' probabilities. Labels that were never released have probability 0."""

    kind = "cnn"

    def _probabilities(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        if "constant" in self.arrays:
            return np.tile(self.arrays["constant"], (len(rows), 1))
        return members_probabilities(self._network(), dict(self.arrays), rows.reshape(-1, *self.input_shape))

    def _network(self) -> ConvNet:
        """The architecture, as the arrays show it."""
        first, head = self.arrays["layer0.weight"], self.arrays["head.weight"]
        blocks = sum(name.endswith(".scale") for name in self.arrays) - 1
        last = self.arrays[f"layer{blocks}.weight"].shape[1]
        return ConvNet(
            self.input_shape,
            num_labels=head.shape[1],
            width=first.shape[1],
            blocks=blocks,
            patch=math.isqrt(first.shape[2] // self.input_shape[0]),
            grid=math.isqrt(head.shape[2] // last),
            norm="batch" if "layer0.mean" in self.arrays else "group",
        )


@dataclass(frozen=True)
class CNNStudent(Student):
    """A few small convolutional networks, each trained without a fold of the rows: see `pate.networks.ConvNet`.

    The rest of the public pool, which nobody labelled, is used by `fit_with_pool`: each member is trained a second
    time, on its own probabilities for the pool beside the released labels (self-training). That costs nothing: the
    pool is public.

    Attributes:
        width: channels of the first layer, a multiple of 8.
        blocks: convolutions after the first layer.
        patch: height and width of the first layer's patches, in pixels; images are multiples of patch * grid.
        grid: rows and columns of cells whose means the last layer sees.
        norm: "group" or "batch".
        folds: members, at least 2; fewer where there are fewer rows.
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

    width: int = 32
    blocks: int = 2
    patch: int = 4
    grid: int = 4
    norm: str = "group"
    folds: int = 3
    max_unlabelled: int = 2000
    epochs: int = 15
    batch_size: int = 32
    learning_rate: float = 3e-3
    weight_decay: float = 1e-2
    flip: bool = False
    precision: str = "auto"
    device: str = "auto"

    def __post_init__(self) -> None:
        require_network(self.width, self.blocks, self.patch, self.grid, self.norm)
        require_count("folds", self.folds, minimum=2)
        require_count("max_unlabelled", self.max_unlabelled, minimum=0)
        require_device(self.device)
        _ = self._training

    def fit(
        self,
        inputs: NDArray[np.float32],
        labels: NDArray[np.bool_],
        *,
        seed: int,
        on_epoch: OnEpoch | None = None,
    ) -> CNNModel:
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
    ) -> CNNModel:
        """See `Student.fit_with_pool`."""
        images = require_images(inputs)
        _, labels = require_rows(images, labels, seed)
        shape = tuple(images.shape[1:])
        network = ConvNet(shape, labels.shape[1], self.width, self.blocks, self.patch, self.grid, self.norm)
        if len(images) < 2:
            return CNNModel({"constant": np.asarray(labels.any(axis=0), np.float32)}, 0.5, shape, len(images), {})
        unlabelled = np.asarray(pool[: self.max_unlabelled])
        members = fit_members(network, images, labels, unlabelled, self._training, seed=seed, on_epoch=on_epoch)
        return CNNModel(members.arrays, members.threshold, shape, len(images), members.choices)

    @property
    def _training(self) -> Training:
        optimiser = self.epochs, self.batch_size, self.learning_rate, self.weight_decay
        recipe = Recipe(*optimiser, flip=self.flip, precision=self.precision)
        return Training(recipe, self.folds, self.max_unlabelled, require_device(self.device))
