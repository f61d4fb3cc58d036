"""Pictures from files or PIL images, all read in one way: upright, in 8 bits, on white.

Files differ in more than their pixels. A camera notes in an EXIF tag how it was held, some pictures are transparent,
and gray ones may have more than 8 bits without saying which level is white. Training and prediction must treat all of
that alike, so both come here.
"""

from __future__ import annotations

import math
from io import BytesIO
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pate.extras import require_extra
from pate.files.disk import at_home
from pate.validation import InvalidValue, require

if TYPE_CHECKING:
    from PIL.Image import Image

MODES = {1: "L", 3: "RGB"}  # of pictures, by channels
BACKGROUND = "white"  # of transparent pictures, as on paper and in a browser
UNREADABLE = "a picture that can be read, such as .png or .jpg"

_WHITE_OF_BYTES = 255
_WHITE_OF_16_BITS = 65535
# the first letters of PIL's modes with more than 8 bits: I, I;16 and the like, F
_DEEP = ("I", "F")
_TRANSPARENT = ("LA", "La", "PA", "RGBA", "RGBa")
_DEPTHS = (8, 10, 12, 14, 16, 24, 31, 32)  # in bits, of cameras, scanners and files
_UNKNOWN_WHITE = (
    "a picture of 8 bits a channel; convert deeper ones, or say for training which level is white: "
)
_UNKNOWN_WHITE += "data.white=65535, or 4095 of 12 bits, 1.0 of floats up to 1"
# the errors that PIL raises for damaged files, and for pictures that it cannot convert
_DAMAGE_ERRORS = (OSError, ValueError, SyntaxError, TypeError, EOFError, OverflowError)


def read_picture(
    picture: Any, name: str, *, channels: int, white: float | None = None, needs_white: bool = False
) -> Image:
    """Reads a picture as PIL's `L` or `RGB`: turned as its EXIF tag says, in 8 bits, on a white background.

    Args:
        picture: the file of a picture, its bytes, or a PIL image.
        name: of the picture, for messages.
        channels: 1 for gray, 3 for color.
        white: the level that is white in gray pictures of more than 8 bits, which do not say it: 65535, or 4095 where
            a camera of 12 bits wrote them. Pictures of 8 bits do not need it. None takes the largest level of the
            fewest bits (8, 10, 12, 14, 16, 24, 31 or 32) that hold the picture, and 1 of floats up to 1.
        needs_white: whether deeper pictures are refused where `white` is None, as many are to be read by one scale.

    Raises:
        InvalidValue: a file that is no picture; a picture of more than 8 bits whose white is not known; a level above
            white.
    """
    require_extra("pictures", "train")
    from PIL import Image  # which is optional

    try:
        if isinstance(picture, (str, PathLike, BytesIO)):
            with Image.open(at_home(picture)) as opened:
                return _converted(opened, name, channels, white, needs_white)
        if isinstance(picture, Image.Image):
            return _converted(picture, name, channels, white, needs_white)
    except InvalidValue:
        raise
    except (*_DAMAGE_ERRORS, Image.DecompressionBombError) as error:
        raise InvalidValue(name, rule=UNREADABLE) from error
    raise InvalidValue(name, type(picture).__name__, rule="the file of a picture, or a PIL image")


def _converted(
    image: Image, name: str, channels: int, white: float | None, needs_white: bool
) -> Image:
    from PIL import Image, ImageOps

    _require_white_of_colors(image, name, white)
    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith(_DEEP):
        if white is None and needs_white:
            raise InvalidValue(name, rule=_UNKNOWN_WHITE)
        return _of_8_bits(upright, name, white).convert(MODES[channels])
    if upright.mode in _TRANSPARENT or "transparency" in upright.info:
        if upright.mode == "La":  # which PIL converts to LA alone
            upright = upright.convert("LA")
        background = Image.new("RGBA", upright.size, BACKGROUND)
        upright = Image.alpha_composite(background, upright.convert("RGBA"))
    return upright.convert(MODES[channels])


def _require_white_of_colors(image: Image, name: str, white: float | None) -> None:
    """Raises `InvalidValue` for colors of 16 bits and a white below 65535: PIL reads their upper 8 bits alone."""
    decoders = [str(arguments) for _, _, _, arguments in getattr(image, "tile", ())]
    has_16_bits = any(";16" in decoder for decoder in decoders)
    is_color = not image.mode.startswith(_DEEP)
    if has_16_bits and is_color and white not in (None, _WHITE_OF_16_BITS):
        rule = f"data.white={_WHITE_OF_16_BITS} beside colors of 16 bits; others are converted to 8 bits"
        raise InvalidValue(name, rule=rule)


def _of_8_bits(image: Image, name: str, white: float | None) -> Image:
    """Scales the levels of a gray picture so that `white` becomes 255."""
    from PIL import Image

    levels = np.asarray(image).astype(np.float64)
    if white is None:
        white = _likely_white(image.mode, levels, name)
    transparent_level = image.info.get("transparency")
    if isinstance(transparent_level, int):
        levels = np.where(levels == transparent_level, white, levels)  # as the background is
    if not ((levels >= 0) & (levels <= white)).all():
        rule = f"levels from 0 to data.white={white:g}, which a picture exceeds"
        raise InvalidValue(name, rule=rule)
    scaled = np.rint(levels * (_WHITE_OF_BYTES / white))
    return Image.fromarray(scaled.astype(np.uint8))


def _likely_white(mode: str, levels: NDArray[np.float64], name: str) -> float:
    """Returns the largest level of the fewest bits that hold all levels, or 1 for floats up to 1.

    Raises:
        InvalidValue: a level is negative, or above the largest of 32 bits or of floats.
    """
    whites = [1.0] if mode == "F" else [2.0**depth - 1 for depth in _DEPTHS]
    for white in whites:
        if ((levels >= 0) & (levels <= white)).all():
            return white
    raise InvalidValue(name, rule=_UNKNOWN_WHITE)


def require_image_levels(name: str, images: NDArray[Any]) -> None:
    """Raises `InvalidValue` for images `[n, channels, height, width]` of integers that are neither bytes nor bits."""
    if images.dtype.kind in "iu" and images.dtype != np.uint8 and images.size:
        are_bits = int(images.min()) >= 0 and int(images.max()) <= 1
        rule = "images as bytes (uint8, 255 is white) or as floats in [0, 1]: divide them by the level that is white"
        require(are_bits, f"{name}.dtype", images.dtype, rule)


def is_white(value: Any) -> bool:
    """Tells whether a setting can be the level that is white: None, or a finite number above 0."""
    if value is None:
        return True
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 < value < math.inf
