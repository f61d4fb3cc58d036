"""Photographs into arrays."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue


def decode_images(paths: Sequence[Path], *, image_size: int, crop: int | None = None) -> NDArray[np.uint8]:
    """Reads images as uint8 `[n, 3, image_size, image_size]`, 0 is black.

    Each is cropped to the square in its middle, of `crop` pixels a side (None: the largest; more than there are
    takes the largest too), and resized, averaging over the pixels that fall together. A few are decoded at once.

    Raises:
        InvalidValue: files that are no images, or damaged ones, all of them by name.
    """
    images, damaged = np.empty((len(paths), 3, image_size, image_size), dtype=np.uint8), dict[Path, Exception]()
    with ThreadPoolExecutor() as pool:
        for row, image in enumerate(pool.map(partial(_decode, image_size=image_size, crop=crop), paths)):
            if isinstance(image, Exception):
                damaged[paths[row]] = image
            else:
                images[row] = image
    if damaged:
        names = ", ".join([str(min(damaged)), *(path.name for path in sorted(damaged)[1:])])
        rule = "a readable image; fetch it again, or remove it: a missing one is passed over"
        raise InvalidValue(f"image={names}: expected {rule}") from damaged[min(damaged)]
    return images


def _decode(path: Path, *, image_size: int, crop: int | None) -> NDArray[np.uint8] | Exception:
    """One image, uint8 `[3, image_size, image_size]`, or what is wrong with it."""
    from PIL import Image  # not when `pate.data` is imported: most data sets need no pictures

    try:
        with Image.open(path) as opened:
            image = opened.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # what Pillow raises for damage
        return error
    side = min(*image.size, crop or min(image.size))
    left, top = (image.width - side) // 2, (image.height - side) // 2
    square = (left, top, left + side, top + side)
    resized = image.resize((image_size, image_size), Image.Resampling.BILINEAR, box=square)
    return np.asarray(resized).transpose(2, 0, 1)
