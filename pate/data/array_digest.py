"""Digests of arrays: the bytes of an array are added to a digest of `hashlib`, a block of rows at a time."""

from typing import Any

import numpy as np

from pate.data.pixels import Pixels
from pate.files.array_rows import row_blocks


def add_array(hasher: Any, array: Any) -> None:
    """Adds the shape and the bytes of an array, or of the pictures in `Pixels`, to a digest."""
    hasher.update(repr(array.shape).encode())
    add_bytes(hasher, array)


def add_bytes(hasher: Any, array: Any) -> None:
    """Adds the bytes of an array, or of the pictures in `Pixels`, to a digest."""
    blocks = array.blocks() if isinstance(array, Pixels) else row_blocks(array)
    for block in blocks:
        hasher.update(np.ascontiguousarray(block).data)
