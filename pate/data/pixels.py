"""Images kept as bytes, in memory or in a file, and read as float32 where they are indexed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import require, require_entries

_WHITE = np.float32(255)
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Pixels:
    """Reads like a float32 array `[n, channels, height, width]` with values in [0, 1], and holds none.

    `pixels[rows]` (a slice or an array of row numbers) converts those rows, `np.asarray(pixels)` all of them.
    Length, `shape`, `ndim` and `dtype` are those of the array; arithmetic needs `np.asarray` first. So 202,599
    images of 64x64 take 2.5 GB of file, not 10 GB of memory, as long as nobody asks for all rows at once.

    Attributes:
        levels: uint8 `[m, channels, height, width]`, 0 is black; may be a `np.memmap`.
        rows: int64 `[n]`, which of the m images these are, in this order.

    Example:
        >>> pixels = Pixels(np.full((2, 3, 8, 8), 51, np.uint8), np.array([1]))
        >>> pixels.shape, float(pixels[:1].max())
        ((1, 3, 8, 8), 0.20000000298023224)
    """

    levels: NDArray[np.uint8]
    rows: NDArray[np.int64]

    def __post_init__(self) -> None:
        require(self.levels.dtype == np.uint8, "levels.dtype", self.levels.dtype, "uint8")
        require(self.levels.ndim == 4, "levels.ndim", self.levels.ndim, "4: [m, channels, height, width]")
        require(self.rows.ndim == 1 and self.rows.dtype == np.int64, "rows", self.rows.dtype, "int64 [n]")
        inside = (self.rows >= 0) & (self.rows < len(self.levels))
        require_entries("rows", inside, f"rows in 0..{len(self.levels) - 1}")

    @property
    def shape(self) -> tuple[int, ...]:
        """`(n, channels, height, width)`."""
        return (len(self.rows), *self.levels.shape[1:])

    @property
    def ndim(self) -> int:
        """4."""
        return self.levels.ndim

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """float32, that of what is read."""
        return np.dtype(np.float32)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: NDArray[Any] | slice) -> NDArray[np.float32]:
        images = self.levels[self.rows[rows]].astype(np.float32)
        images /= _WHITE
        return images

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        images = self[:]
        return images if dtype is None else images.astype(dtype, copy=False)

    def blocks(self) -> Iterator[NDArray[np.uint8]]:
        """The levels, a few thousand images at a time, in order."""
        for first in range(0, len(self), _BLOCK):
            yield np.ascontiguousarray(self.levels[self.rows[first : first + _BLOCK]])
