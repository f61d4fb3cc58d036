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

# The most bytes of rows that `Spilled` holds in memory by default.
MAX_BYTES_IN_MEMORY = 2**26
# The folder of large temporary files, since /tmp often lies in memory.
_PERSISTENT_FOLDER = Path("/var/tmp")
# The number of rows of a mapped array that are copied at once.
_COPIED_ROWS = 4096
# The most bytes of a block of several rows.
_BLOCK_BYTES = 2**24
# Rows of a file that begin at most this number of bytes apart are read together, and so are adjacent rows.
_CLOSE_BYTES = 2**12


class _ScratchFile:
    """A file without a name, which is closed when nobody refers to this object any more.

    Args:
        open_file: the file, which is closed; a duplicate of its descriptor stays open.
    """

    def __init__(self, open_file: BinaryIO) -> None:
        open_file.flush()
        self.descriptor = os.dup(open_file.fileno())
        open_file.close()

    def __del__(self) -> None:
        os.close(self.descriptor)


class FileRows:
    """The rows of an array in a file, which behave like a read-only array `[n, ...]` that takes no memory.

    `rows[selection]` reads the rows of a slice, of an array of row numbers or of an array of bits, and `rows[number]`
    reads one row. `np.asarray(rows)` reads all rows, which is needed before arithmetic. The rows may be read by several
    threads at once. A pickle holds all rows, as another process cannot open the file.

    Args:
        scratch_file: the file, whose first byte is that of the first row.
        dtype: the type of an entry.
        shape: the number of rows, and the shape of a row.
    """

    # With None, numpy refuses arithmetic, instead of reading each entry by itself.
    __array_ufunc__: ClassVar[None] = None

    def __init__(
        self, scratch_file: _ScratchFile, dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> None:
        self._file = scratch_file
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
        """The number of bytes of a row."""
        return self.itemsize * math.prod(self.shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, selection: Any) -> NDArray[Any]:
        if isinstance(selection, slice):
            start, stop, step = selection.indices(len(self))
            if step == 1:
                return self._read(first_row=start, num_rows=max(0, stop - start))
            return self._gather(np.arange(start, stop, step))
        if isinstance(selection, (int, np.integer)):
            return np.asarray(self._gather(row_numbers=np.array([selection]))[0])
        row_numbers = np.asarray(selection)
        if row_numbers.dtype == np.bool_:
            if row_numbers.shape != self.shape[:1]:
                raise IndexError(f"{row_numbers.shape} bits for {len(self)} rows")
            row_numbers = np.flatnonzero(row_numbers)
        return self._gather(row_numbers)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(dtype or self.dtype, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return np.asarray, (self[:],)

    def reshape(self, *shape: int) -> "FileRows":
        """Returns the same rows with another shape of each row.

        The first number of `shape` must be the number of rows, or -1. Each row keeps its number of entries.
        """
        if math.prod(shape[1:]) != math.prod(self.shape[1:]) or shape[0] not in (-1, len(self)):
            raise ValueError(f"cannot reshape rows of shape {self.shape} into {shape}")
        return FileRows(scratch_file=self._file, dtype=self.dtype, shape=(len(self), *shape[1:]))

    def _read(self, first_row: int, num_rows: int) -> NDArray[Any]:
        """Returns `num_rows` adjacent rows of the file, the first of which is `first_row`: `[num_rows, ...]`."""
        read_rows = np.empty((num_rows, *self.shape[1:]), self.dtype)
        self._fill(
            byte_buffer=read_rows.reshape(-1).view(np.uint8).data,
            file_offset=first_row * self._row_bytes,
        )
        return read_rows

    def _fill(self, byte_buffer: memoryview, file_offset: int) -> None:
        """Reads bytes of the file into a buffer until the buffer is full.

        Args:
            byte_buffer: the buffer.
            file_offset: the position in the file of the first byte that is read.
        """
        num_read = 0
        while num_read < len(byte_buffer):
            num_bytes = os.preadv(
                self._file.descriptor, [byte_buffer[num_read:]], file_offset + num_read
            )
            if num_bytes == 0:
                raise OSError("a file of rows that ends early")
            num_read += num_bytes

    def _gather(self, row_numbers: NDArray[Any]) -> NDArray[Any]:
        """Returns the rows with these numbers, `[num_numbers, ...]`. Numbers below 0 count from the end."""
        num_rows = len(self)
        row_numbers = row_numbers.astype(np.int64)
        row_numbers = np.where(row_numbers < 0, row_numbers + num_rows, row_numbers)
        if ((row_numbers < 0) | (row_numbers >= num_rows)).any():
            raise IndexError(f"a row beyond the {num_rows} rows")
        gathered_rows = np.empty((*row_numbers.shape, *self.shape[1:]), self.dtype)
        if len(row_numbers) == 0:
            return gathered_rows
        order = np.argsort(row_numbers, kind="stable")
        ascending_row_numbers = row_numbers[order]

        # Rows that lie close to each other form a range, which is read at once: its first and its last row,
        # `[num_ranges]`. `begins_range` marks the entries of `ascending_row_numbers` that begin a range.
        row_bytes = self._row_bytes
        max_distance = max(1, _CLOSE_BYTES // max(1, row_bytes))  # in rows
        begins_range = np.append(True, np.diff(ascending_row_numbers) > max_distance)
        first_indices = np.flatnonzero(begins_range)
        last_indices = np.append(first_indices[1:], len(ascending_row_numbers)) - 1
        first_rows = ascending_row_numbers[first_indices]
        range_lengths = ascending_row_numbers[last_indices] + 1 - first_rows

        # All ranges are read into one buffer, one behind the other.
        ends_in_buffer = np.cumsum(range_lengths)
        starts_in_buffer = ends_in_buffer - range_lengths
        read_rows = np.empty((int(ends_in_buffer[-1]), *self.shape[1:]), self.dtype)
        byte_buffer = read_rows.reshape(-1).view(np.uint8).data
        byte_ranges = np.stack([starts_in_buffer, ends_in_buffer, first_rows]) * row_bytes
        for start, end, file_offset in byte_ranges.T.tolist():
            self._fill(byte_buffer[start:end], file_offset=file_offset)

        # The distance from the number of a row in the file to its position in the buffer, for each range.
        shifts = starts_in_buffer - first_rows
        range_of_row = np.cumsum(begins_range) - 1
        gathered_rows[order] = read_rows[ascending_row_numbers + shifts[range_of_row]]
        return gathered_rows


def scratch_folder() -> Path:
    """Returns the folder of large temporary files: /var/tmp if it can be written and TMPDIR is not set.

    Otherwise it is the folder of Python's `tempfile`, which obeys TMPDIR.
    """
    if "TMPDIR" not in os.environ and os.access(_PERSISTENT_FOLDER, os.W_OK):
        return _PERSISTENT_FOLDER
    return Path(tempfile.gettempdir())


class Spilled:
    """A collection of blocks of rows, all of one shape and dtype, that become one array.

    If the rows are many, they move to a temporary file. The file has no name, so no other process can open it, and it
    is gone when the process ends, even if the process is killed.

    Args:
        most_bytes: the most bytes of rows in memory, by default 64 MiB.
        folder: the folder of the temporary file; None for that of `scratch_folder`.
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

    def append(self, row_block: NDArray[Any]) -> None:
        """Adds a block of rows at the end."""
        self._dtype = row_block.dtype
        self._shape = row_block.shape[1:]
        self._num_rows += len(row_block)
        self._num_bytes += row_block.nbytes
        self._blocks.append(row_block)
        if self._file is None and self._num_bytes > self.most_bytes:
            folder = self._folder or scratch_folder()
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - `whole` closes it
        if self._file is not None:
            for unwritten_rows in self._blocks:
                self._file.write(np.ascontiguousarray(unwritten_rows).data)
            self._blocks.clear()

    def whole(self) -> Any:
        """Returns all rows as one array, or as `FileRows` if they are in the temporary file.

        At least one block must have been added. The method may be called only once.
        """
        array_shape = (self._num_rows, *self._shape)
        if self._file is not None:
            return FileRows(
                scratch_file=_ScratchFile(self._file), dtype=self._dtype, shape=array_shape
            )
        joined_rows = np.empty(array_shape, self._dtype)
        num_copied = 0
        self._blocks.reverse()
        # Each block is freed once it is copied, so that memory holds hardly more than one copy of the rows.
        while self._blocks:
            block = self._blocks.pop()
            joined_rows[num_copied : num_copied + len(block)] = block
            num_copied += len(block)
        return joined_rows


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
    row_numbers = np.arange(len(array))[rows]
    taken_rows = np.empty((len(row_numbers), *array.shape[1:]), array.dtype)
    for start in range(0, len(row_numbers), _COPIED_ROWS):
        row_slice = slice(start, start + _COPIED_ROWS)
        taken_rows[row_slice] = array[row_numbers[row_slice]]
        let_go(array)
    return taken_rows


def row_blocks(array: Any) -> Iterator[NDArray[Any]]:
    """Yields the rows of an array in order, in blocks of up to 16 MiB; mapped blocks leave memory after their use."""
    row_bytes = array.itemsize * math.prod(array.shape[1:])
    rows_per_block = max(1, _BLOCK_BYTES // max(1, row_bytes))
    for start in range(0, len(array), rows_per_block):
        yield array[start : start + rows_per_block]
        let_go(array)
