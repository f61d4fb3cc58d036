"""Pictures as inputs of a model: decoded, scaled to one size, bytes as numbers in [0, 1]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import Preprocessing
from pate.validation import InvalidValue, require, require_choice, require_count

_MODES = {1: "L", 3: "RGB"}
_FITS = ("crop", "stretch")
_LARGEST = 4096


@dataclass(frozen=True)
class ImageForm(Preprocessing):
    """How pictures of any size become inputs `[channels, height, width]`.

    Attributes:
        channels: 1 for gray, 3 for red, green and blue.
        height: in pixels.
        width: in pixels.
        fit: `crop` scales until the shorter side fits and cuts the middle out; `stretch` scales both sides.
    """

    channels: int = 3
    height: int = 64
    width: int = 64
    fit: str = "crop"

    kind: ClassVar[str] = "images"

    def __post_init__(self) -> None:
        require(self.channels in _MODES, "channels", self.channels, "1 or 3")
        for name in ("height", "width"):
            size = require_count(name, getattr(self, name))
            require(size <= _LARGEST, name, size, f"at most {_LARGEST} pixels")
        require_choice("fit", self.fit, _FITS)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.channels, self.height, self.width

    @property
    def feature_names(self) -> tuple[str, ...]:
        return ()

    def inputs(self, given: Any) -> NDArray[np.float32]:
        """Of a list of files or of PIL images."""
        pictures = [given] if isinstance(given, (str, PathLike)) or hasattr(given, "resize") else list(given)
        levels = [self.levels(picture, f"data[{place}]") for place, picture in enumerate(pictures)]
        stacked = np.stack(levels) if levels else np.zeros((0, *self.input_shape), np.uint8)
        return stacked.astype(np.float32) / np.float32(255)

    def levels(self, picture: Any, name: str) -> NDArray[np.uint8]:
        """One picture as bytes `[channels, height, width]`.

        Args:
            picture: a file, or a PIL image.
            name: what it is called where it cannot be read.
        """
        from PIL import Image, ImageOps, UnidentifiedImageError

        if isinstance(picture, (str, PathLike)):
            try:
                with Image.open(Path(picture)) as opened:
                    return self.levels(ImageOps.exif_transpose(opened), name)
            except (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError) as error:
                raise InvalidValue(f"{name}: expected a picture that can be read, such as .png or .jpg") from error
        if not hasattr(picture, "convert"):
            raise InvalidValue(f"{name}={type(picture).__name__}: expected the file of a picture, or a PIL image")
        size = (self.width, self.height)
        image = picture.convert(_MODES[self.channels])
        if image.size != size:
            how = Image.Resampling.BILINEAR
            image = ImageOps.fit(image, size, how) if self.fit == "crop" else image.resize(size, how)
        pixels = np.asarray(image, np.uint8).reshape(self.height, self.width, self.channels)
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))

    def plain(self) -> dict[str, Any]:
        sizes = {"channels": self.channels, "height": self.height, "width": self.width}
        return {"kind": self.kind, **sizes, "fit": self.fit}

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> Self:
        """From what `plain` gave."""
        return cls(**{name: said[name] for name in ("channels", "height", "width", "fit")})
