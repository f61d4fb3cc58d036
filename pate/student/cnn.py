"""A student that is a small convolutional network."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from pate.networks import ConvNet
from pate.networks.convnet import require_network
from pate.student.image import ImageModel, ImageStudent
from pate.validation import require

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
