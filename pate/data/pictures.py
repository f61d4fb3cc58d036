"""Pictures from files or PIL images, read uniformly: rotated, in 8 bits, on a white background.

Files differ in more than their pixels. A camera stores its orientation in an EXIF tag, some pictures are transparent,
and gray pictures of more than 8 bits do not state which level is white. Training and prediction must treat all of these
alike, so both use this module.
"""

from __future__ import annotations

import math
from io import BytesIO
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import FloatArray
from pate.extras import require_extra
from pate.files.paths import at_home
from pate.validation import InvalidValue

if TYPE_CHECKING:
    from PIL.Image import Image

MODES = {1: "L", 3: "RGB"}
"""PIL's modes of pictures, by the number of channels."""

BACKGROUND = "white"
"""The color behind transparent pictures, as on paper and in a browser."""

UNREADABLE = "a picture that can be read, such as .png or .jpg"
"""The rule that a damaged picture, or a file that is no picture, violates."""

# The level of white in pictures with levels of 8 bits, and of 16 bits.
_WHITE_OF_BYTES = 255
_WHITE_OF_16_BITS = 65535
# The first letters of PIL's modes with more than 8 bits: I, I;16 and similar modes, F.
_DEEP_MODES = ("I", "F")
_TRANSPARENT_MODES = ("LA", "La", "PA", "RGBA", "RGBa")
# The numbers of bits of a level in pictures from cameras, scanners and files.
_DEPTHS = (8, 10, 12, 14, 16, 24, 31, 32)
# The rule for a picture of more than 8 bits for which nobody states the level of white.
_UNKNOWN_WHITE = (
    "a picture of 8 bits a channel; convert deeper ones, or say for training which level is white: "
    "data.white=65535, or 4095 of 12 bits, 1.0 of floats up to 1"
)
# The errors that PIL raises for damaged files, and for pictures that it cannot convert.
_DAMAGE_ERRORS = (OSError, ValueError, SyntaxError, TypeError, EOFError, OverflowError)


def read_picture(
    picture_or_file: Any,
    name: str,
    *,
    channels: int,
    white_level: float | None = None,
    refuses_unknown_white: bool = False,
) -> Image:
    """Returns a picture as a PIL image of 8 bits: rotated as its EXIF tag demands, on a white background.

    Args:
        picture_or_file: the path of a file, its bytes as `BytesIO`, or a PIL image.
        name: the name of the picture, for messages.
        channels: 1 for gray (PIL's mode `L`), 3 for color (`RGB`).
        white_level: the level that means white in a gray picture of more than 8 bits, whose file does not state it:
            65535, or 4095 from a camera of 12 bits. Pictures of 8 bits ignore the argument. None infers the level:
            2**b - 1 for the fewest bits b, of 8, 10, 12, 14, 16, 24, 31 and 32, that hold all levels of the picture.
            For floats up to 1 the level is 1.
        refuses_unknown_white: whether a picture of more than 8 bits is refused if `white_level` is None. A caller who
            reads many pictures sets it, because inferred levels could differ between the pictures.

    Raises:
        InvalidValue: the file is no picture, or `white_level` is None and `refuses_unknown_white` true for a picture of
            more than 8 bits, or the level cannot be inferred. Also if a level of such a picture is negative or exceeds
            `white_level`, or if a color picture of 16 bits comes with a `white_level` other than 65535.
    """
    require_extra("pictures", extra="train")
    from PIL import Image  # optional

    try:
        if isinstance(picture_or_file, (str, PathLike, BytesIO)):
            with Image.open(at_home(picture_or_file)) as opened:
                return _converted(
                    image=opened,
                    name=name,
                    channels=channels,
                    white_level=white_level,
                    refuses_unknown_white=refuses_unknown_white,
                )
        if isinstance(picture_or_file, Image.Image):
            return _converted(
                image=picture_or_file,
                name=name,
                channels=channels,
                white_level=white_level,
                refuses_unknown_white=refuses_unknown_white,
            )
    except InvalidValue:
        raise
    except (*_DAMAGE_ERRORS, Image.DecompressionBombError) as error:
        raise InvalidValue(name, rule=UNREADABLE) from error
    raise InvalidValue(
        name, type(picture_or_file).__name__, rule="the file of a picture, or a PIL image"
    )


def _converted(
    image: Image,
    name: str,
    *,
    channels: int,
    white_level: float | None,
    refuses_unknown_white: bool,
) -> Image:
    """Returns a PIL image upright and in 8 bits; for the arguments and errors see `read_picture`."""
    from PIL import ImageOps

    _require_white_of_colors(image, name=name, white_level=white_level)
    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith(_DEEP_MODES):
        if white_level is None and refuses_unknown_white:
            raise InvalidValue(name, rule=_UNKNOWN_WHITE)
        upright = _reduced_to_8_bits(gray_image=upright, name=name, white_level=white_level)
    elif upright.mode in _TRANSPARENT_MODES or "transparency" in upright.info:
        upright = _on_background(image=upright)
    return upright.convert(MODES[channels])


def _on_background(image: Image) -> Image:
    """Returns a transparent PIL image on a white background, as an image with the mode RGBA."""
    from PIL import Image

    if image.mode == "La":
        image = image.convert("LA")  # PIL converts La to no other mode
    background = Image.new("RGBA", size=image.size, color=BACKGROUND)
    return Image.alpha_composite(background, image.convert("RGBA"))


def _require_white_of_colors(image: Image, name: str, white_level: float | None) -> None:
    """Raises `InvalidValue` for a color picture of 16 bits and a `white_level` other than None and 65535.

    PIL reads only the upper 8 bits of such a picture.
    """
    # The last entry of a tile in PIL names the form of the levels in the file, such as RGB;16B.
    decoders = [str(arguments) for _, _, _, arguments in getattr(image, "tile", ())]
    has_16_bits = any(";16" in decoder for decoder in decoders)
    is_color = not image.mode.startswith(_DEEP_MODES)
    if has_16_bits and is_color and white_level not in (None, _WHITE_OF_16_BITS):
        rule = f"data.white={_WHITE_OF_16_BITS} beside colors of 16 bits; others are converted to 8 bits"
        raise InvalidValue(name, rule=rule)


def _reduced_to_8_bits(gray_image: Image, name: str, white_level: float | None) -> Image:
    """Returns a gray picture of 8 bits, with levels scaled so that white becomes 255.

    Args:
        gray_image: a gray picture of more than 8 bits.
        name: the name of the picture, for messages.
        white_level: the level that means white; None infers it by `_likely_white`.

    Raises:
        InvalidValue: a level is negative or exceeds that of white.
    """
    from PIL import Image

    levels = np.asarray(gray_image).astype(np.float64)
    if white_level is None:
        white_level = _likely_white(mode=gray_image.mode, levels=levels, name=name)
    transparent_level = gray_image.info.get("transparency")
    if isinstance(transparent_level, int):
        # Transparent pixels get the color of the background.
        levels = np.where(levels == transparent_level, white_level, levels)
    if not ((levels >= 0) & (levels <= white_level)).all():
        rule = f"levels from 0 to data.white={white_level:g}, which a picture exceeds"
        raise InvalidValue(name, rule=rule)
    scaled_levels = np.rint(levels * (_WHITE_OF_BYTES / white_level))
    return Image.fromarray(scaled_levels.astype(np.uint8))


def _likely_white(mode: str, levels: FloatArray, name: str) -> float:
    """Returns the level that probably means white: the largest number of the fewest bits that hold all levels.

    The numbers of bits are those in `_DEPTHS`. For floats up to 1 the level is 1.

    Args:
        mode: the mode of the PIL image.
        levels: the levels of the picture, `[height, width]`.
        name: the name of the picture, for messages.

    Raises:
        InvalidValue: a level is negative, above the largest number of 32 bits, or a float above 1.
    """
    whites = [1.0] if mode == "F" else [2.0**depth - 1 for depth in _DEPTHS]
    for white in whites:
        if ((levels >= 0) & (levels <= white)).all():
            return white
    raise InvalidValue(name, rule=_UNKNOWN_WHITE)


def require_image_levels(name: str, images: NDArray[Any]) -> None:
    """Raises `InvalidValue` if images of an integer type other than uint8 have levels other than 0 and 1.

    Args:
        name: the name of the images, for messages.
        images: `[num_images, channels, height, width]`.
    """
    if images.dtype.kind not in "iu" or images.dtype == np.uint8 or images.size == 0:
        return
    are_bits = int(images.min()) >= 0 and int(images.max()) <= 1
    if not are_bits:
        rule = "images as bytes (uint8, 255 is white) or as floats in [0, 1]: divide them by the level that is white"
        raise InvalidValue(f"{name}.dtype", images.dtype, rule=rule)


def is_white(value: Any) -> bool:
    """Returns True if a setting is valid as the level of white: None, or a finite number above 0."""
    if value is None:
        return True
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 < value < math.inf
