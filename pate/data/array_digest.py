"""Digests of arrays: the bytes of an array are added to a digest of `hashlib`, a block of rows at a time."""

from typing import Any

import numpy as np

from pate.data.pixels import Pixels
from pate.files.array_rows import row_blocks


def add_shape_and_entries(hasher: Any, array: Any) -> None:
    """Adds the shape and the entries of an array to a digest, as bytes.

    Args:
        hasher: the digest, an object of `hashlib`.
        array: an array, `FileRows` or `Pixels`. The pictures of `Pixels` are added as uint8.
    """
    hasher.update(repr(array.shape).encode())
    add_entries(hasher, array)


def add_entries(hasher: Any, array: Any) -> None:
    """Adds the entries of an array to a digest as bytes; for the arguments see `add_shape_and_entries`."""
    blocks = array.blocks() if isinstance(array, Pixels) else row_blocks(array)
    for block in blocks:
        hasher.update(np.ascontiguousarray(block).data)
