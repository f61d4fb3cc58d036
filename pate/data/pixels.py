"""Pictures that are kept as bytes and read as float32, so that a data set takes a quarter of the memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.array_types import Float32Array, IntArray
from pate.validation import require, require_entries

WHITE = np.float32(255)
"""The level of white in a byte."""

# The number of pictures that `Pixels.blocks` reads at once.
_BLOCK_SIZE = 4096


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class Pixels:
    """Pictures in bytes that behave like a float32 array `[n, channels, height, width]` with values in [0, 1].

    `pixels[rows]` converts the rows of a slice or of an array of row numbers. `np.asarray(pixels)` converts all rows,
    which is needed before arithmetic. The length, `shape`, `ndim` and `dtype` are those of the float32 array.

    >>> pixels = Pixels(np.full((2, 3, 8, 8), 51, np.uint8), np.array([1]))
    >>> pixels.shape, float(pixels[:1].max())
    ((1, 3, 8, 8), 0.20000000298023224)

    Attributes:
        levels: m pictures, uint8 `[m, channels, height, width]`, where 0 is black; perhaps a `np.memmap`.
        rows: the row numbers of the n pictures in `levels`, in order, int64 `[n]`.
    """

    levels: NDArray[np.uint8]
    rows: IntArray

    # Those of the array that `np.asarray` returns. `levels` are bytes.
    ndim: ClassVar[int] = 4
    dtype: ClassVar[np.dtype[np.float32]] = np.dtype(np.float32)

    def __post_init__(self) -> None:
        rank = self.levels.ndim
        require(self.levels.dtype == np.uint8, "levels.dtype", self.levels.dtype, "uint8")
        require(rank == 4, "levels.ndim", rank, "4: [m, channels, height, width]")
        are_row_numbers = self.rows.ndim == 1 and self.rows.dtype == np.int64
        require(are_row_numbers, "rows", self.rows.dtype, "int64 [n]")
        is_in_range = (self.rows >= 0) & (self.rows < len(self.levels))
        require_entries("rows", holds=is_in_range, rule=f"rows in 0..{len(self.levels) - 1}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array, `(n, channels, height, width)`."""
        return (len(self.rows), *self.levels.shape[1:])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: NDArray[Any] | slice) -> Float32Array:
        images = self.levels[self.rows[rows]].astype(np.float32)
        images /= WHITE
        return images

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(dtype or np.float32, copy=False)

    def blocks(self) -> Iterator[NDArray[np.uint8]]:
        """Yields the bytes of the n pictures that `rows` selects, in order, some thousand pictures at a time."""
        for first in range(0, len(self), _BLOCK_SIZE):
            rows = self.rows[first : first + _BLOCK_SIZE]
            yield np.ascontiguousarray(self.levels[rows])
