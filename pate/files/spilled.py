"""Rows that come block by block: in memory while they are few, in a file without a name once they are many."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

_MOST_BYTES = 2**28
_PERSISTENT = Path("/var/tmp")
_ROWS = 4096


class Spilled:
    """Collects blocks of rows of one shape and dtype, and gives them below each other.

    Beyond 256 MB they go to a file that has no name, so that nobody else can open it and nothing stays where the
    process is killed. It lies in the folder of the environment variable TMPDIR, or else in /var/tmp.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._blocks: list[NDArray[Any]] = []
        self._file: BinaryIO | None = None
        self._held = self._rows = 0
        self._form: tuple[np.dtype[Any], tuple[int, ...]] | None = None

    def append(self, block: NDArray[Any]) -> None:
        """Adds rows."""
        self._form = block.dtype, block.shape[1:]
        self._rows += len(block)
        self._held += block.nbytes
        self._blocks.append(block)
        if self._file is None and self._held > self.most_bytes:
            self._file = tempfile.TemporaryFile(dir=_folder())  # noqa: SIM115 - closed by whole, or with this object
        if self._file is not None:
            for each in self._blocks:
                self._file.write(np.ascontiguousarray(each).data)
            self._blocks.clear()

    def whole(self) -> NDArray[Any]:
        """All rows, once: an array, or a read-only `np.memmap` that takes no memory of its own."""
        if self._form is None:
            raise ValueError("no block was appended")
        dtype, shape = self._form
        if self._file is not None:
            self._file.flush()
            with self._file as file:
                return np.memmap(file, dtype, mode="r", shape=(self._rows, *shape))
        whole = np.empty((self._rows, *shape), dtype)
        filled = 0
        self._blocks.reverse()
        while self._blocks:  # each is let go once it is copied, so that hardly more than one copy is held
            block = self._blocks.pop()
            whole[filled : filled + len(block)] = block
            filled += len(block)
        return whole


def let_go(array: Any) -> None:
    """Tells the system that what was read of a mapped array is not needed for now; nothing of any other."""
    while isinstance(array, np.ndarray):
        if isinstance(mapped := array.base, mmap.mmap):
            mapped.madvise(mmap.MADV_DONTNEED)
        array = mapped


def taken(array: Any, rows: NDArray[np.int64] | slice) -> Any:
    """`array[rows]`; of a mapped one a copy, made some thousand rows at a time, each of which is let go again."""
    if not isinstance(array, np.memmap):
        return array[rows]
    places = np.arange(len(array))[rows]
    copy = np.empty((len(places), *array.shape[1:]), array.dtype)
    for first in range(0, len(places), _ROWS):
        copy[first : first + _ROWS] = array[places[first : first + _ROWS]]
        let_go(array)
    return copy


def row_blocks(array: NDArray[Any]) -> Any:
    """An array's rows in blocks of some megabytes, in order; those of a mapped one are let go after use."""
    rows = max(1, 2**24 // max(1, array.itemsize * math.prod(array.shape[1:])))
    for first in range(0, len(array), rows):
        yield array[first : first + rows]
        let_go(array)


def _folder() -> str | None:
    """Where a large file belongs; None for what the system says."""
    if "TMPDIR" in os.environ or not os.access(_PERSISTENT, os.W_OK):
        return None
    return str(_PERSISTENT)
