"""Linear programs over distributions, and what bounds them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pate.accounting.joint_law.simplex import row_prices

Array = NDArray[np.float64]

_ROUNDING = 2.0**-46  # of values and rows, which are differences of numbers of about their largest entry, or of 1


@dataclass(frozen=True, eq=False)
class LinearProgram:
    """The largest mean of `values` under a distribution over K types that is limited by rows.

    Attributes:
        values: `[K]`
        even: `[K]`: its mean is 0.
        sides: `[S, K]`: the mean of each is at most 0.
    """

    values: Array
    even: Array
    sides: Array

    def take(self, places: NDArray[np.int64]) -> LinearProgram:
        """The same over some of the types."""
        return LinearProgram(self.values[places], self.even[places], self.sides[:, places])

    @property
    def table(self) -> Array:
        """Values and rows, `[2 + S, K]`."""
        return np.vstack([self.values, self.even, self.sides])

    @cached_property
    def largest(self) -> tuple[float, float, Array]:
        """The largest entries, by size, of values and rows."""
        values, even = (float(np.abs(part).max()) for part in (self.values, self.even))
        return values, even, np.asarray(np.abs(self.sides).max(axis=1))


class Multipliers(NamedTuple):
    """Of a program's rows. Any of them with `of_sides` >= 0 bound the program; see `bound`."""

    of_even: float
    of_sides: Array
    """`[S]`, >= 0."""
    attained: float
    """About the program's value; 0 where there are no multipliers."""

    def left(self, program: LinearProgram) -> Array:
        """What each type's value is beyond the rows, `[K]`. Its maximum is the bound, but for rounding."""
        return np.asarray(program.values - self.of_even * program.even - self.of_sides @ program.sides)

    def bound(self, program: LinearProgram) -> float:
        """At least the program's value, rounded up; infinity where double precision cannot say it."""
        values, even, sides = program.largest
        left = self.left(program)
        bound = float(np.where(np.isfinite(left), left, np.inf).max())
        return bound + _ROUNDING * float(values + abs(self.of_even) * (1 + even) + self.of_sides @ (1 + sides))


def multipliers(programs: list[LinearProgram]) -> list[Multipliers]:
    """Those that make each bound small, zeros where double precision cannot say them. Rows may be missed at a penalty.

    Args:
        programs: all over the same number of types, with the same number of rows.
    """
    found = [Multipliers(0.0, np.zeros(len(program.sides)), 0.0) for program in programs]
    largest = np.stack([np.hstack(program.largest) for program in programs])
    places = np.flatnonzero((largest[:, 0] > 0) & np.isfinite(largest).all(axis=1)).tolist()
    if places:
        units = np.where(largest > 0, largest, 1.0)[places]  # so that one penalty suits all
        tables = np.stack([programs[i].table for i in places]) / units[:, :, None]
        prices = row_prices(tables[:, 0], tables[:, 1:]) * units[:, :1]
        for i, unit, (*of_rows, attained) in zip(places, units, prices, strict=True):
            of_even, *of_sides = of_rows / unit[1:]
            found[i] = Multipliers(of_even, np.maximum(of_sides, 0.0), attained)
    return found
