"""A student that is a small convolutional network."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from pate.networks import ConvNet
from pate.networks.convnet import require_network
from pate.student.image import ImageModel, ImageStudent


class CNNModel(ImageModel):
    """The mean of the members' probabilities. Labels that were never released have probability 0."""

    kind = "cnn"

    def _network(self) -> ConvNet:
        """The architecture, as the arrays show it."""
        first, head = self.arrays["layer0.weight"], self.arrays["head.weight"]
        blocks = sum(name.endswith(".scale") for name in self.arrays) - 1
        last = self.arrays[f"layer{blocks}.weight"].shape[1]
        taps = self.arrays["layer1.weight"].shape[2] // first.shape[1] if blocks else 1
        return ConvNet(
            self.input_shape,
            num_labels=head.shape[1],
            width=first.shape[1],
            blocks=blocks,
            patch=math.isqrt(first.shape[2] // self.input_shape[0]),
            grid=math.isqrt(head.shape[2] // last),
            norm="batch" if "layer0.mean" in self.arrays else "group",
            kernel_size=math.isqrt(taps),
        )


@dataclass(frozen=True, kw_only=True)
class CNNStudent(ImageStudent):
    """A few small convolutional networks, trained as `ImageStudent` says: see `pate.networks.ConvNet`.

    Attributes:
        width: channels of the first layer, a multiple of 8.
        blocks: convolutions after the first layer.
        patch: height and width of the first layer's patches, in pixels; those of images are multiples of it.
        grid: at most that many rows and columns of cells whose means the last layer sees.
        norm: "group" or "batch".
        kernel_size: height and width of the convolutions' kernels, an odd number.
        folds: members, at least 2; fewer where there are fewer rows.
        max_unlabeled: at most that many images of the pool are used; 0 for none.
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
    batch_size: int = 32
    learning_rate: float = 3e-3
    weight_decay: float = 1e-2
    flip: bool = False
    precision: str = field(default="auto", metadata={"public": True})
    device: str = "auto"

    def __post_init__(self) -> None:
        require_network(self.width, self.blocks, self.patch, self.grid, self.norm, self.kernel_size)
        super().__post_init__()

    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> ConvNet:
        sizes = self.width, self.blocks, self.patch, self.grid
        return ConvNet(input_shape, num_labels, *sizes, norm=self.norm, kernel_size=self.kernel_size)
