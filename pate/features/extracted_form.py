"""The preprocessing of a published model whose inputs are features of images."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from pate.array_types import Float32Array
from pate.data.image_form import ImageForm
from pate.data.pictures import require_image_levels
from pate.data.pixels import WHITE
from pate.data.preprocessing import Preprocessing
from pate.features.extractor import Extractor
from pate.validation import InvalidValue, require

EXTRACTOR_FILE = "extractor.safetensors"
"""The name of the extractor's file in a bundle."""


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on the arrays in `extractor`
class ExtractedForm(Preprocessing):
    """A preprocessing that resizes images and extracts their features, as part of a published model.

    Attributes:
        image_form: brings images of any size to the size that the extractor needs; None if only arrays of that size are
            accepted.
        extractor: computes the features.
    """

    image_form: ImageForm | None
    extractor: Extractor

    kind: ClassVar[str] = "extracted"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """An empty tuple, because features of images have no names."""
        return ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input: `(num_features,)`."""
        return (self.extractor.num_features,)

    @property
    def origin(self) -> Mapping[str, Any]:
        """The public description of the extractor: its kind, dimension, origin and digest."""
        extractor = self.extractor
        description = {"features": extractor.kind, "dimension": extractor.num_features}
        return {**description, **extractor.origin, "extractor_sha256": extractor.digest}

    def inputs(self, samples: Any) -> Float32Array:
        """Returns the features of images, float32 `[num_images, num_features]`.

        Args:
            samples: files or PIL images, or an array `[num_images, channels, height, width]` of bytes or of floats in
                [0, 1].

        Raises:
            InvalidValue: an image cannot be read, or an array has the wrong shape or other numbers.
        """
        picture_shape = self.extractor.picture_shape
        rule = f"[n, {', '.join(map(str, picture_shape))}]"
        if isinstance(samples, np.ndarray):
            require(samples.shape[1:] == picture_shape, "data.shape", samples.shape, rule)
            require_image_levels("data", images=samples)
            images = samples.astype(np.float32)
            are_bytes = samples.dtype == np.uint8
            return self.extractor.extract(images / WHITE if are_bytes else images)
        if self.image_form is None:
            raise InvalidValue("data", type(samples).__name__, rule=f"an array of pictures {rule}")
        return self.extractor.extract(self.image_form.inputs(samples))

    def plain(self) -> dict[str, Any]:
        """Returns this preprocessing as values for JSON, without the extractor's arrays, which `save` writes."""
        extractor = self.extractor
        return {
            "kind": self.kind,
            "pictures": None if self.image_form is None else self.image_form.plain(),
            "extractor": {
                "kind": extractor.kind,
                "file": EXTRACTOR_FILE,
                "sha256": extractor.digest,
                "settings": dict(extractor.settings),
                "origin": dict(extractor.origin),
            },
        }

    def save(self, folder: Path | str) -> None:
        """Writes the extractor's arrays into a folder, as one file that `from_plain` reads."""
        self.extractor.save(Path(folder, EXTRACTOR_FILE))

    @classmethod
    def from_plain(
        cls, plain_values: Mapping[str, Any], folder: Path | str, *, remedy: str
    ) -> Self:
        """Builds a preprocessing from the values that `plain` returned and the file that `save` wrote.

        Args:
            plain_values: the values.
            folder: the folder of the file.
            remedy: the advice at the end of an error message.

        Raises:
            DamagedFile: the file is missing, has another digest than the one in `plain_values`, or is no extractor.
            InvalidValue: the entries `pictures` and `extractor` of `plain_values` are for images of different shapes.
        """
        extractor_digest = plain_values["extractor"]["sha256"]
        extractor = Extractor.load(
            Path(folder, EXTRACTOR_FILE), remedy=remedy, sha256=extractor_digest
        )
        if plain_values["pictures"] is None:
            return cls(image_form=None, extractor=extractor)
        image_form = ImageForm.from_plain(plain_values["pictures"])
        picture_shape = image_form.input_shape
        rule = f"pictures {extractor.picture_shape}"
        require(picture_shape == extractor.picture_shape, "pictures", picture_shape, rule)
        return cls(image_form=image_form, extractor=extractor)
