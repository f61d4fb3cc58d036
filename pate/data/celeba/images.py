"""Photographs into arrays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue


def decode_images(paths: Sequence[Path], *, image_size: int) -> NDArray[np.float32]:
    """Reads images as float32 `[n, 3, image_size, image_size]` in [0, 1].

    Each is cropped to the square in its middle and resized, averaging over the pixels that fall together.

    Raises:
        InvalidValue: a file that is no image, or a damaged one.
    """
    from PIL import Image  # not when `pate.data` is imported: most data sets need no pictures

    images = np.empty((len(paths), 3, image_size, image_size), dtype=np.float32)
    for row, path in enumerate(paths):
        try:
            with Image.open(path) as opened:
                image = opened.convert("RGB")
        except (OSError, SyntaxError) as error:  # Pillow raises SyntaxError for some damaged files
            raise InvalidValue(f"image={path}: expected a readable image") from error
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        square = (left, top, left + side, top + side)
        resized = image.resize((image_size, image_size), Image.Resampling.BILINEAR, box=square)
        images[row] = np.asarray(resized, dtype=np.float32).transpose(2, 0, 1) / np.float32(255)
    return images
