"""Linear programs over distributions, solved together: one call of the solver costs more than a small program."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_PENALTY = 20.0  # the largest multiplier, in units of the largest value
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
    """The program's value; 0 where the solver failed."""

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
    """Those that make each bound small, zeros where the solver fails. Rows may be missed at a penalty.

    Args:
        programs: all over the same number of types, with the same number of rows.
    """
    found = [Multipliers(0.0, np.zeros(len(program.sides)), 0.0) for program in programs]
    blocks = {i: _Block.of(program) for i, program in enumerate(programs)}
    blocks = {i: block for i, block in blocks.items() if 0 < block.of_values < np.inf}
    if not blocks:
        return found
    solved = _solve(list(blocks.values()))
    if solved is None and len(blocks) > 1:  # find out which one it is
        return [multipliers([program])[0] for program in programs]
    for i, multiplier in zip(blocks, solved or [], strict=False):
        found[i] = multiplier
    return found


class _Block(NamedTuple):
    """A program with its penalties, for a solver that minimizes: `costs @ x` where `sides @ x` <= 0 and `even @ x` = b.

    b is (0, 1): the row with mean 0, and what makes x a distribution. Values and rows are in units of their largest
    entries, so that one penalty suits all.
    """

    costs: Array
    sides: Array
    even: Array
    of_values: float
    """The unit of values; `of_even` and `of_sides`, `[S]`, are those of the rows."""
    of_even: float
    of_sides: Array

    @classmethod
    def of(cls, program: LinearProgram) -> _Block:
        """Two columns of penalties for the row with mean 0, one for each other row."""
        num_sides, num_types = program.sides.shape
        of_values, of_even, of_sides = program.largest
        of_even, of_sides = of_even or 1.0, np.where(of_sides > 0, of_sides, 1.0)
        sides, even = (np.zeros((rows, num_types + 2 + num_sides)) for rows in (num_sides, 2))
        sides[:, :num_types], sides[:, num_types + 2 :] = program.sides / of_sides[:, None], -np.eye(num_sides)
        even[:, :num_types] = program.even / of_even, np.ones(num_types)
        even[0, num_types : num_types + 2] = 1, -1
        costs = np.concatenate([-program.values / of_values, np.full(2 + num_sides, _PENALTY)])
        return cls(costs, sides, even, of_values, of_even, of_sides)

    def multipliers(self, x: Array, of_even: float, of_sides: Array) -> Multipliers:
        """From the solution of the block to that of the program."""
        return Multipliers(
            of_even=of_even * self.of_values / self.of_even,
            of_sides=np.maximum(of_sides, 0.0) * self.of_values / self.of_sides,
            attained=-float(self.costs @ x) * self.of_values,
        )


def _solve(blocks: list[_Block]) -> list[Multipliers] | None:
    """None where the solver fails."""
    from scipy.optimize import linprog  # loads slowly

    solved = linprog(
        np.concatenate([block.costs for block in blocks]),
        A_ub=_diagonal([block.sides for block in blocks]),
        b_ub=np.zeros(sum(len(block.sides) for block in blocks)),
        A_eq=_diagonal([block.even for block in blocks]),
        b_eq=np.tile([0.0, 1.0], len(blocks)),
        method="highs-ds",
        options={"presolve": False},
    )
    if solved.status != 0:
        return None
    ends = np.cumsum([len(block.costs) for block in blocks])[:-1]
    parts = np.split(solved.x, ends)
    of_even, of_sides = -solved.eqlin.marginals[::2], np.split(-solved.ineqlin.marginals, len(blocks))
    return [block.multipliers(*part) for block, *part in zip(blocks, parts, of_even.tolist(), of_sides, strict=True)]


def _diagonal(blocks: list[Array]) -> Any:
    """A sparse matrix of blocks of one shape."""
    from scipy.sparse import csc_matrix

    columns = np.stack(blocks).transpose(0, 2, 1)
    num_blocks, width, height = columns.shape
    rows = np.broadcast_to(np.arange(num_blocks * height).reshape(-1, 1, height), columns.shape)
    starts = np.arange(num_blocks * width + 1) * height
    made = csc_matrix((columns.ravel(), rows.ravel(), starts), shape=(num_blocks * height, num_blocks * width))
    made.eliminate_zeros()
    return made
