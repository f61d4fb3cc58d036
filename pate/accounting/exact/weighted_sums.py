"""Weighted sums of shifted values, many at once: a product of matrices.

Neighboring pairs of a family move the values by few different numbers of points. So their expectations are sums over
the same few rows, the values as each of these numbers moves them. What a pair does not need it multiplies by 0, which
adds no rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pate.accounting.exact.loss_grid import LossGrid, Shift

Array = NDArray[np.float64]
Shifts = tuple[Shift, ...]

_TOGETHER = 16
_POINTS_AT_ONCE = 4096


class WeightedSums:
    """The sums of `LossGrid.moved` over some tuples of shifts."""

    def __init__(self, grid: LossGrid, pad: int, sums: Sequence[Shifts]) -> None:
        self._size = grid.size
        inside = [shift for shifts in sums for shift in shifts if shift.whole > -grid.size]
        wholes = sorted({whole for shift in inside for whole in (shift.whole, shift.whole + 1)})
        place = {whole: number for number, whole in enumerate(wholes)}
        self._starts = np.array(wholes, dtype=np.int64) + pad
        self._weights = np.zeros((len(sums), len(wholes)))
        self._beyond = np.zeros((len(sums), 1))  # left of all points the values are 1
        for row, shifts in enumerate(sums):
            for shift in shifts:
                if shift.whole <= -grid.size:
                    self._beyond[row] += shift.lower
                else:
                    self._weights[row, place[shift.whole]] += shift.lower
                    self._weights[row, place[shift.whole + 1]] += shift.upper

    def largest(self, moved: Array) -> Array:
        """The largest of them, `[size]`, of padded values as they are moved, `[2 pad + 1, size]`."""
        best = np.empty(self._size)
        for first in range(0, self._size, _POINTS_AT_ONCE):
            some = moved[self._starts, first : first + _POINTS_AT_ONCE]
            (self._weights @ some + self._beyond).max(axis=0, out=best[first : first + _POINTS_AT_ONCE])
        return best


def batched(sums: Sequence[Shifts]) -> Iterator[Sequence[Shifts]]:
    """At most 16 at a time; neighbors in a cover share most of their rows."""
    for first in range(0, len(sums), _TOGETHER):
        yield sums[first : first + _TOGETHER]
