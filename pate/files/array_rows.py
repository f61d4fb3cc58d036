"""The rows of large arrays: rows that move to a temporary file when they are many, and rows of mapped arrays.

A mapped array stays on the disk. The functions below drop its pages from memory after their use.
"""

import math
import mmap
import os
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

# The most bytes of rows that `Spilled` holds in memory.
_MAX_BYTES_IN_MEMORY = 2**28
# Large temporary files go here, since /tmp often lies in memory.
_PERSISTENT = Path("/var/tmp")
# The number of rows of a mapped array that are copied at once.
_COPIED_ROWS = 4096
# The number of bytes of a block of rows.
_BLOCK_BYTES = 2**24


class Spilled:
    """A collection of blocks of rows, all of one shape and dtype, that become one array.

    If the rows exceed `most_bytes`, by default 256 MiB, they move to a temporary file. It lies in TMPDIR if this
    variable is set, and otherwise in /var/tmp if that can be written. The file has no name, so no other process can
    open it, and it is gone when the process ends.
    """

    def __init__(self, most_bytes: int = _MAX_BYTES_IN_MEMORY) -> None:
        self.most_bytes = most_bytes
        self._blocks: list[NDArray[Any]] = []
        self._file: BinaryIO | None = None
        self._num_bytes = 0
        self._num_rows = 0

    def append(self, block: NDArray[Any]) -> None:
        """Adds a block of rows at the end."""
        self._dtype = block.dtype
        self._shape = block.shape[1:]
        self._num_rows += len(block)
        self._num_bytes += block.nbytes
        self._blocks.append(block)
        if self._file is None and self._num_bytes > self.most_bytes:
            folder = None
            if "TMPDIR" not in os.environ and os.access(_PERSISTENT, os.W_OK):
                folder = str(_PERSISTENT)
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - `whole` closes it
        if self._file is not None:
            for waiting_block in self._blocks:
                self._file.write(np.ascontiguousarray(waiting_block).data)
            self._blocks.clear()

    def whole(self) -> NDArray[Any]:
        """Returns all rows as one array, or as a read-only `np.memmap` that takes no memory.

        At least one block must have been added. The method may be called only once.
        """
        shape = (self._num_rows, *self._shape)
        if self._file is not None:
            self._file.flush()
            with self._file as file:
                return np.memmap(file, self._dtype, mode="r", shape=shape)
        joined = np.empty(shape, self._dtype)
        filled = 0
        self._blocks.reverse()
        # Each block is freed once it is copied, so that memory holds hardly more than one copy of the rows.
        while self._blocks:
            block = self._blocks.pop()
            joined[filled : filled + len(block)] = block
            filled += len(block)
        return joined


def let_go(array: Any) -> None:
    """Allows the operating system to drop the pages of a mapped array from memory; does nothing for another array."""
    # A view's base is an array; the base of the mapped array itself is the map.
    while isinstance(array, np.ndarray):
        base = array.base
        if isinstance(base, mmap.mmap):
            base.madvise(mmap.MADV_DONTNEED)
        array = base


def take_rows(array: Any, rows: NDArray[np.int64] | slice) -> Any:
    """Returns `array[rows]`; rows of a mapped array are copied in blocks, which keeps the memory small."""
    if not isinstance(array, np.memmap):
        return array[rows]
    places = np.arange(len(array))[rows]
    copy = np.empty((len(places), *array.shape[1:]), array.dtype)
    for first in range(0, len(places), _COPIED_ROWS):
        copy[first : first + _COPIED_ROWS] = array[places[first : first + _COPIED_ROWS]]
        let_go(array)
    return copy


def row_blocks(array: NDArray[Any]) -> Any:
    """Yields the rows of an array in order, in blocks of 16 MB; mapped blocks leave memory after their use."""
    rows = max(1, _BLOCK_BYTES // max(1, array.itemsize * math.prod(array.shape[1:])))
    for first in range(0, len(array), rows):
        yield array[first : first + rows]
        let_go(array)
