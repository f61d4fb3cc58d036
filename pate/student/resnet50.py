"""A student that is a residual network of 50 layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pate.networks import ResNet50
from pate.student.image import ImageModel, ImageStudent
from pate.validation import require

_SIZE = "image_size"


class ResNet50Model(ImageModel):
    """The mean of the members' probabilities. Labels that were never released have probability 0."""

    kind = "resnet50"

    def network(self) -> ResNet50:
        """See `ImageModel.network`."""
        image_size = int(self.choices.get(_SIZE, 0))
        most = 2**20 + sum(array.size for array in self.arrays.values())  # a small file must not ask for much memory
        require(3 * image_size**2 <= most, _SIZE, image_size, f"a square root of at most {most / 3:.0f}")
        return ResNet50(self.arrays["fc.bias"].shape[1], None, image_size or None)


@dataclass(frozen=True, kw_only=True)
class ResNet50Student(ImageStudent):
    """A few networks ResNet-50, trained as `ImageStudent` says, whose attributes are not listed again.

    Attributes:
        weights: file of backbone weights from PUBLIC data to begin with (see `pate.networks.read_weights`), or None.
        image_size: images are resized to this height and width for the network; None takes them as they are.
        folds: members, at least 2; each takes 94 MB in the published folder.

    Raises:
        InvalidValue: an attribute outside its range.
    """

    model: ClassVar[type[ImageModel]] = ResNet50Model

    weights: str | None = None
    image_size: int | None = None
    folds: int = 2
    max_unlabeled: int = 10_000
    epochs: int = 30
    learning_rate: float = 1e-3
    flip: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = ResNet50(1, self.weights, self.image_size)

    def _network(self, input_shape: tuple[int, ...], num_labels: int) -> ResNet50:
        return ResNet50(num_labels, self.weights, self.image_size)

    @property
    def _choices(self) -> dict[str, float]:
        return {_SIZE: float(self.image_size or 0)}
