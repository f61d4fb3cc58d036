"""Linear programs over distributions on the same types, many at once, and what bounds them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting.joint_law.simplex import row_prices

Array = NDArray[np.float64]

_ROUNDING = 2.0**-46  # of a sum of at most 16 products, relative to the sum of their sizes


@dataclass(frozen=True, eq=False)
class LinearPrograms:
    """B programs: the largest mean of values under a distribution over K types that is limited by R rows.

    The mean of the first row is 0, that of every other row is at most 0. Values and rows are weighted sums of the same
    M parts.

    Attributes:
        parts: `[M, K]`
        weights: `[B, 1 + R, M]`: of the values, then of the rows.
        sizes: `[B, 1 + R]`: at least the sum of the sizes of all terms of which an entry is added up.
        own: `[B, K]`: what is added to the values of each program.
    """

    parts: Array
    weights: Array
    sizes: Array
    own: Array

    @property
    def table(self) -> Array:
        """Values and rows, `[B, 1 + R, K]`."""
        table = self.weights @ self.parts
        table[:, 0] += self.own
        return np.asarray(table)

    def left(self, multipliers: Array) -> Array:
        """What each type's value is beyond the rows, `[B, K]`, for multipliers `[B, R]` of the rows."""
        weights = self.weights[:, 0] - (multipliers[:, None] @ self.weights[:, 1:])[:, 0]
        return np.asarray(weights @ self.parts + self.own)

    def bounds(self, multipliers: Array, left: Array) -> Array:
        """At least the programs' values, rounded up, `[B]`; infinity where double precision cannot say it.

        Args:
            multipliers: `[B, R]`, any whatever that are at least 0 but for the first.
            left: `[B, K]`, what they leave; its maximum is the bound, but for rounding.
        """
        sizes = self.sizes[:, 0] + (np.abs(multipliers) * self.sizes[:, 1:]).sum(axis=1)
        bounds = left.max(axis=1) + _ROUNDING * sizes
        return np.where(np.isfinite(bounds), bounds, np.inf)


def best_multipliers(programs: LinearPrograms) -> tuple[Array, Array]:
    """Those that make each bound small, zeros where double precision cannot say them.

    Rows may be missed at a penalty.

    Returns:
        The multipliers, `[B, R]`, and about the programs' values, `[B]`; 0 where there are no multipliers.
    """
    table = programs.table
    largest = np.abs(table).max(axis=2)
    found = np.zeros_like(largest)
    known = (largest[:, 0] > 0) & np.isfinite(largest).all(axis=1)
    if known.any():
        units = np.where(largest > 0, largest, 1.0)[known]  # so that one penalty suits all
        scaled = table[known] / units[:, :, None]
        found[known] = row_prices(scaled[:, 0], scaled[:, 1:]) * units[:, :1]
        found[known, :-1] /= units[:, 1:]
    np.maximum(found[:, 1:-1], 0.0, out=found[:, 1:-1])
    return found[:, :-1], found[:, -1]
