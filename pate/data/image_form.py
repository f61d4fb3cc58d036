"""The preprocessing of pictures of any size into inputs of one size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pate.array_types import Float32Array
from pate.data.pictures import MODES, is_white, read_picture
from pate.data.pixels import WHITE
from pate.data.preprocessing import Preprocessing
from pate.validation import require, require_choice, require_count

# The largest height and width of an input, in pixels.
_MAX_SIDE = 4096


@dataclass(frozen=True)
class ImageForm(Preprocessing):
    """A preprocessing that turns pictures of any size into inputs `[channels, height, width]`.

    Pictures are rotated as their EXIF tag demands, reduced to 8 bits, and put on a white background where transparent.

    Attributes:
        channels: 1 for gray, 3 for red, green and blue.
        height: the height of an input, in pixels.
        width: the width of an input, in pixels.
        fit: `crop` scales a picture until it just covers the input, and cuts the middle out; `stretch` scales each side
            by itself.
        white: the level that is white in gray pictures of more than 8 bits, such as 65535; None if no such picture was
            used in training.
    """

    channels: int = 3
    height: int = 64
    width: int = 64
    fit: str = "crop"
    white: float | None = None

    kind: ClassVar[str] = "images"

    def __post_init__(self) -> None:
        require(self.channels in MODES, "channels", self.channels, "1 or 3")
        for name in ("height", "width"):
            size = require_count(name, getattr(self, name))
            require(size <= _MAX_SIDE, name, size, f"at most {_MAX_SIDE} pixels")
        require_choice("fit", self.fit, ("crop", "stretch"))
        require(is_white(self.white), "white", self.white, "a number > 0, or null")

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape `(channels, height, width)` of an input."""
        return self.channels, self.height, self.width

    @property
    def feature_names(self) -> tuple[str, ...]:
        """An empty tuple, because pixels have no names."""
        return ()

    def inputs(self, samples: Any) -> Float32Array:
        """Returns pictures as float32 `[num_pictures, channels, height, width]` in [0, 1].

        Args:
            samples: a file, a PIL image, or a list of files and PIL images.

        Raises:
            InvalidValue: a picture cannot be read.
        """
        # A PIL image is known by its method `resize`, as PIL is optional and may be missing.
        is_one_picture = isinstance(samples, (str, PathLike)) or hasattr(samples, "resize")
        pictures_or_files = [samples] if is_one_picture else list(samples)
        all_levels = [
            self.levels(picture_or_file, name=f"data[{index}]")
            for index, picture_or_file in enumerate(pictures_or_files)
        ]
        return np.reshape(all_levels, (-1, *self.input_shape)).astype(np.float32) / WHITE

    def levels(
        self, picture: Any, name: str, *, refuses_unknown_white: bool = False
    ) -> NDArray[np.uint8]:
        """Returns one picture as bytes `[channels, height, width]`, where 0 is black.

        Args:
            picture: a file or a PIL image.
            name: the picture's name in an error.
            refuses_unknown_white: whether a picture of more than 8 bits is refused if the field `white` is None.
        """
        image = read_picture(
            picture,
            name,
            channels=self.channels,
            white_level=self.white,
            refuses_unknown_white=refuses_unknown_white,
        )
        from PIL import Image, ImageOps  # optional

        size = (self.width, self.height)
        if image.size != size and self.fit == "crop":
            image = ImageOps.fit(image, size=size, method=Image.Resampling.BILINEAR)
        elif image.size != size:
            image = image.resize(size, resample=Image.Resampling.BILINEAR)
        pixels = np.asarray(image, np.uint8).reshape(self.height, self.width, self.channels)
        return np.ascontiguousarray(np.moveaxis(pixels, source=2, destination=0))

    def plain(self) -> dict[str, Any]:
        """Returns the settings as values for JSON. The key `white` is left out if `white` is None."""
        settings = {
            name: value
            for name, value in vars(self).items()
            if name != "white" or value is not None
        }
        return {"kind": self.kind, **settings}

    @classmethod
    def from_plain(cls, plain_values: Mapping[str, Any]) -> Self:
        """Builds an `ImageForm` from the values that `plain` returned.

        Raises `LookupError` if a value other than `white` is missing.
        """
        return cls(
            channels=plain_values["channels"],
            height=plain_values["height"],
            width=plain_values["width"],
            fit=plain_values["fit"],
            white=plain_values.get("white"),
        )
