"""The rows of large arrays: rows that move to a temporary file when they are many, and rows of mapped arrays.

Rows in a temporary file are read when they are asked for (`FileRows`). A mapped array stays on the disk, too, but the
pages of it that were read count as memory. So the functions below drop them after their use.
"""

import math
import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.array_types import IntArray

# The most bytes of rows that `Spilled` holds in memory.
MAX_BYTES_IN_MEMORY = 2**26
# Large temporary files go here, since /tmp often lies in memory.
_PERSISTENT = Path("/var/tmp")
# The number of rows of a mapped array that are copied at once.
_COPIED_ROWS = 4096
# The number of bytes of a block of rows.
_BLOCK_BYTES = 2**24


# Rows of a file that lie closer to each other than this number of bytes are read together.
_CLOSE_BYTES = 2**12


class _ScratchFile:
    """A file without a name, which is closed when nobody refers to this object any more.

    Args:
        file: the open file; it is closed, and only its descriptor stays open.
    """

    def __init__(self, file: BinaryIO) -> None:
        file.flush()
        self.descriptor = os.dup(file.fileno())
        file.close()

    def __del__(self) -> None:
        os.close(self.descriptor)


class FileRows:
    """The rows of an array in a file, which behave like a read-only array `[n, ...]` that takes no memory.

    `rows[places]` reads the rows of a slice, of an array of row numbers or of an array of bits, and `rows[place]` one
    row. `np.asarray(rows)` reads all rows, which is needed before arithmetic. The rows may be read by several threads
    at once. A pickle holds all rows, as another process cannot open the file.

    Args:
        file: the file, whose first byte is that of the first row.
        dtype: the type of an entry.
        shape: the number of rows, and the shape of a row.
    """

    __array_ufunc__: ClassVar[None] = (
        None  # numpy refuses arithmetic instead of reading each entry by itself
    )

    def __init__(self, file: _ScratchFile, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self._file = file
        self.dtype = dtype
        self.shape = shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """The number of bytes of an entry."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The number of bytes of all rows in the file."""
        return len(self) * self._row_bytes

    @property
    def _row_bytes(self) -> int:
        return self.itemsize * math.prod(self.shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, places: Any) -> NDArray[Any]:
        if isinstance(places, slice):
            start, stop, step = places.indices(len(self))
            if step == 1:
                return self._read(start, num_rows=max(0, stop - start))
            return self._gather(np.arange(start, stop, step))
        if isinstance(places, (int, np.integer)):
            return np.asarray(self._gather(np.array([places]))[0])
        places = np.asarray(places)
        if places.dtype == np.bool_:
            if places.shape != self.shape[:1]:
                raise IndexError(f"{places.shape} bits for {len(self)} rows")
            places = np.flatnonzero(places)
        return self._gather(places)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(dtype or self.dtype, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return np.asarray, (self[:],)

    def reshape(self, *shape: int) -> "FileRows":
        """Returns the same rows with another shape of a row; the first number of `shape` is that of the rows, or -1."""
        if math.prod(shape[1:]) != math.prod(self.shape[1:]) or shape[0] not in (-1, len(self)):
            raise ValueError(f"cannot reshape rows of shape {self.shape} into {shape}")
        return FileRows(self._file, self.dtype, (len(self), *shape[1:]))

    def _read(self, first: int, num_rows: int) -> NDArray[Any]:
        """Returns adjacent rows, `[num_rows, ...]`."""
        rows = np.empty((num_rows, *self.shape[1:]), self.dtype)
        self._fill(rows.reshape(-1).view(np.uint8).data, offset=first * self._row_bytes)
        return rows

    def _fill(self, buffer: memoryview, offset: int) -> None:
        """Reads bytes of the file into a buffer; `offset` is the place of the first one in the file."""
        done = 0
        while done < len(buffer):
            num_bytes = os.preadv(self._file.descriptor, [buffer[done:]], offset + done)
            if num_bytes == 0:
                raise OSError("a file of rows that ends early")
            done += num_bytes

    def _gather(self, places: NDArray[Any]) -> NDArray[Any]:
        """Returns the rows with the given numbers, `[num_places, ...]`. Numbers below 0 count from the end."""
        num_rows = len(self)
        places = places.astype(np.int64)
        places = np.where(places < 0, places + num_rows, places)
        if ((places < 0) | (places >= num_rows)).any():
            raise IndexError(f"a row beyond the {num_rows} rows")
        rows = np.empty((*places.shape, *self.shape[1:]), self.dtype)
        if len(places) == 0:
            return rows
        order = np.argsort(places, kind="stable")
        ascending = places[order]
        # ranges of rows that are read together, `[num_ranges]`: their first rows, and the places in `ascending`
        row_bytes = self._row_bytes
        is_first = np.append(True, np.diff(ascending) > max(1, _CLOSE_BYTES // max(1, row_bytes)))
        first_places = np.flatnonzero(is_first)
        starts = ascending[first_places]
        last_rows = ascending[np.append(first_places[1:], len(ascending)) - 1]
        ends_in_buffer = np.cumsum(last_rows + 1 - starts)
        starts_in_buffer = ends_in_buffer - (last_rows + 1 - starts)
        near = np.empty((int(ends_in_buffer[-1]), *self.shape[1:]), self.dtype)
        buffer = near.reshape(-1).view(np.uint8).data
        ranges = np.stack([starts_in_buffer, ends_in_buffer, starts]) * row_bytes
        for start, end, offset in ranges.T.tolist():
            self._fill(buffer[start:end], offset)
        shifts = (starts_in_buffer - starts)[np.cumsum(is_first) - 1]
        rows[order] = near[ascending + shifts]
        return rows


def scratch_folder() -> Path:
    """Returns the folder of large temporary files: TMPDIR if it is set, else /var/tmp if that can be written."""
    if "TMPDIR" not in os.environ and os.access(_PERSISTENT, os.W_OK):
        return _PERSISTENT
    return Path(tempfile.gettempdir())


class Spilled:
    """A collection of blocks of rows, all of one shape and dtype, that become one array.

    If the rows exceed `most_bytes`, by default 64 MiB, they move to a temporary file in `folder`. By default it lies
    in TMPDIR if this variable is set, and otherwise in /var/tmp if that can be written. The file has no name, so no
    other process can open it, and it is gone when the process ends, even if the process is killed.
    """

    def __init__(
        self, most_bytes: float = MAX_BYTES_IN_MEMORY, *, folder: Path | None = None
    ) -> None:
        self.most_bytes = most_bytes
        self._folder = folder
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
            folder = self._folder or scratch_folder()
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - `whole` closes it
        if self._file is not None:
            for waiting_block in self._blocks:
                self._file.write(np.ascontiguousarray(waiting_block).data)
            self._blocks.clear()

    def whole(self) -> Any:
        """Returns all rows as one array, or as `FileRows` if they are in the temporary file.

        At least one block must have been added. The method may be called only once.
        """
        shape = (self._num_rows, *self._shape)
        if self._file is not None:
            return FileRows(_ScratchFile(self._file), self._dtype, shape)
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


def take_rows(array: Any, rows: IntArray | slice) -> Any:
    """Returns `array[rows]`; rows of a mapped array are copied in blocks, which keeps the memory small."""
    if not isinstance(array, np.memmap):
        return array[rows]
    places = np.arange(len(array))[rows]
    copy = np.empty((len(places), *array.shape[1:]), array.dtype)
    for first in range(0, len(places), _COPIED_ROWS):
        copy[first : first + _COPIED_ROWS] = array[places[first : first + _COPIED_ROWS]]
        let_go(array)
    return copy


def row_blocks(array: Any) -> Iterator[NDArray[Any]]:
    """Yields the rows of an array in order, in blocks of 16 MB; mapped blocks leave memory after their use."""
    rows = max(1, _BLOCK_BYTES // max(1, array.itemsize * math.prod(array.shape[1:])))
    for first in range(0, len(array), rows):
        yield array[first : first + rows]
        let_go(array)
