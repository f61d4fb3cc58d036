"""What students that are networks on images have in common: members, each trained without a fold of the rows."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.aggregators.release import TrainingSet
from pate.networks import Network, Recipe, require_device, require_images
from pate.student.model import LARGEST_INPUT, StudentModel
from pate.student.network import fit_members, members_probabilities
from pate.student.student import OnEpoch, require_rows
from pate.student.threshold import ThresholdedStudent
from pate.validation import require, require_count


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
