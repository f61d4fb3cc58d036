"""Linear programs over distributions, solved together: one call of the solver costs more than a small program."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_PENALTY = 20.0  # the largest multiplier, in units of the largest value


class LinearProgram(NamedTuple):
    """The largest mean of `values` under a distribution over K types that is limited by rows."""

    values: Array
    """`[K]`"""
    even: Array
    """`[K]`: its mean is 0."""
    sides: Array
    """`[S, K]`: the mean of each is at most 0."""


class Multipliers(NamedTuple):
    """Of a program's rows. Any of them with `of_sides` >= 0 bound the program; see `bound`."""

    of_even: float
    of_sides: Array
    """`[S]`, >= 0."""
    attained: float
    """The program's value; 0 where the solver failed."""

    def left(self, program: LinearProgram) -> Array:
        """What each type's value is beyond the rows, `[K]`. Its maximum is at least the program's value."""
        values, even, sides = program
        return np.asarray(values - self.of_even * even - self.of_sides @ sides)


def multipliers(programs: list[LinearProgram]) -> list[Multipliers]:
    """Those that make each bound small, zeros where the solver fails. Rows may be missed at a penalty."""
    tops = [float(np.abs(program.values).max()) for program in programs]
    found = [Multipliers(0.0, np.zeros(len(program.sides)), 0.0) for program in programs]
    places = [i for i, top in enumerate(tops) if 0 < top < np.inf]
    if not places:
        return found
    solved = _solve([_Block.of(programs[i], tops[i]) for i in places])
    if solved is None and len(places) > 1:  # find out which one it is
        return [multipliers([program])[0] for program in programs]
    for i, (value, of_even, of_sides) in zip(places, solved or [], strict=False):
        found[i] = Multipliers(of_even * tops[i], np.maximum(of_sides, 0.0) * tops[i], value * tops[i])
    return found


class _Block(NamedTuple):
    """A program with its penalties, for a solver that minimizes: `costs @ x` where `sides @ x` <= 0 and `even @ x` = b.

    b is (0, 1): the row with mean 0, and what makes x a distribution.
    """

    costs: Array
    sides: Array
    even: Array

    @classmethod
    def of(cls, program: LinearProgram, top: float) -> _Block:
        """Values in units of `top`; two columns of penalties for the row with mean 0, one for each other row."""
        num_sides, num_types = program.sides.shape
        return cls(
            costs=np.concatenate([-program.values / top, np.full(2 + num_sides, _PENALTY)]),
            sides=np.hstack([program.sides, np.zeros((num_sides, 2)), -np.eye(num_sides)]),
            even=np.hstack(
                [
                    np.stack([program.even, np.ones(num_types)]),
                    [[1.0, -1.0], [0.0, 0.0]],
                    np.zeros((2, num_sides)),
                ]
            ),
        )


def _solve(blocks: list[_Block]) -> list[tuple[float, float, Array]] | None:
    """Value, and multipliers of the row with mean 0 and of the others, for each block; None where the solver fails."""
    from scipy.optimize import linprog  # loads slowly
    from scipy.sparse import block_diag

    solved = linprog(
        np.concatenate([block.costs for block in blocks]),
        A_ub=block_diag([block.sides for block in blocks], format="csc"),
        b_ub=np.zeros(sum(len(block.sides) for block in blocks)),
        A_eq=block_diag([block.even for block in blocks], format="csc"),
        b_eq=np.tile([0.0, 1.0], len(blocks)),
        method="highs-ds",
        options={"presolve": False},
    )
    if solved.status != 0:
        return None
    ends = np.cumsum([len(block.costs) for block in blocks])[:-1]
    values = [-float(block.costs @ x) for block, x in zip(blocks, np.split(solved.x, ends), strict=True)]
    of_sides = np.split(-solved.ineqlin.marginals, len(blocks))
    of_even = (-solved.eqlin.marginals[::2]).tolist()
    return list(zip(values, of_even, of_sides, strict=True))
