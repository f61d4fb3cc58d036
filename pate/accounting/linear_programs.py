"""Many small linear programs, solved together: the largest mean of some values under a constrained distribution.

Each of B programs has K types, values v `[K]`, and R constraint rows r_1, ..., r_R, `[K]` each. The program is

    max over distributions p on the types of   E_p[v]   such that   E_p[r_1] = 0 and E_p[r_i] <= 0 for i > 1.

For any multipliers y (y_i >= 0 for i > 1), the maximum over the types of v - y_1 r_1 - ... - y_R r_R is an upper bound
on the optimum (weak duality). So a wrong solution never makes the bound invalid, only large. The solver is the simplex
method, which makes one step of all programs in each array operation. A call of a library's solver takes longer than
such a small program, and one price needs a thousand programs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pate.array_types import BoolArray, FloatArray, IntArray

# The penalty for a violated row, and so the largest dual price of a row.
_PENALTY = 20.0
# A row may be violated by this amount without a penalty. Then the solver returns the smallest of many equally good
# prices.
_TOLERANCE = 1e-7
# A gain, or the fall of a variable, counts as positive above this.
_POSITIVE = 1e-9
# The solver stops after so many steps of the simplex method; the bound that it has reached is valid.
_LARGEST_NUM_STEPS = 200
# The rounding error of a sum of at most 16 products, relative to the sum of their sizes.
_ROUNDING = 2.0**-46


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class LinearPrograms:
    """B linear programs over K types with R constraint rows.

    Each program maximizes the mean of its values, one for each type, over the probability distributions on the types.
    The mean of its first row has to be 0, and the mean of every other row at most 0. The values and rows of all
    programs are weighted sums of the same M arrays, the shared terms. Each program may add values of its own.

    Attributes:
        shared_terms: the M arrays, `[M, K]`.
        term_weights: the weights of the shared terms in the values, and then in each row, `[B, 1 + R, M]`.
        magnitude_bounds: for the values and for each row, an upper bound on the sum of the absolute values of all terms
            that an entry is the sum of, `[B, 1 + R]`.
        added_values: the amounts that are added to the values of each program, `[B, K]`.
    """

    shared_terms: FloatArray
    term_weights: FloatArray
    magnitude_bounds: FloatArray
    added_values: FloatArray

    def remainders(self, multipliers: FloatArray) -> FloatArray:
        """Returns v - y_1 r_1 - ... - y_R r_R of each program and type, `[B, K]`, for multipliers y, `[B, R]`.

        Here v are the values of a program, and r_1, ..., r_R its constraint rows.
        """
        sum_weights = (
            self.term_weights[:, 0] - (multipliers[:, None] @ self.term_weights[:, 1:])[:, 0]
        )
        return np.asarray(sum_weights @ self.shared_terms + self.added_values)

    def bounds(self, multipliers: FloatArray, remainders: FloatArray) -> FloatArray:
        """Returns an upper bound on the optimum of each program, `[B]`; infinity where it exceeds double precision.

        Args:
            multipliers: a multiplier for each constraint row, `[B, R]`; all but the first of a program are >= 0.
            remainders: the result of `remainders(multipliers)`, `[B, K]`.
        """
        magnitudes = self.magnitude_bounds[:, 0] + (
            np.abs(multipliers) * self.magnitude_bounds[:, 1:]
        ).sum(axis=1)
        bounds = remainders.max(axis=1) + _ROUNDING * magnitudes
        return np.where(np.isfinite(bounds), bounds, np.inf)


def best_multipliers(programs: LinearPrograms) -> tuple[FloatArray, FloatArray]:
    """Solves the programs, and returns the multipliers (dual prices) of the rows, `[B, R]`, and the optima, `[B]`.

    Both are 0 for a program that exceeds double precision, or whose values are all 0. The optima are approximate;
    `LinearPrograms.bounds` returns rigorous bounds for the multipliers.
    """
    table = programs.term_weights @ programs.shared_terms  # values and rows, `[B, 1 + R, K]`
    table[:, 0] += programs.added_values
    largest = np.abs(table).max(axis=2)
    prices = np.zeros_like(largest)
    is_solvable = (largest[:, 0] > 0) & np.isfinite(largest).all(axis=1)
    if is_solvable.any():
        # Values and rows are scaled to at most 1, so that one penalty suits all programs.
        units = np.where(largest > 0, largest, 1.0)[is_solvable]
        scaled = table[is_solvable] / units[:, :, None]
        prices[is_solvable] = row_prices(values=scaled[:, 0], rows=scaled[:, 1:]) * units[:, :1]
        prices[is_solvable, :-1] /= units[:, 1:]
    np.maximum(prices[:, 1:-1], 0.0, out=prices[:, 1:-1])
    return prices[:, :-1], prices[:, -1]


@dataclass(eq=False)  # == of arrays is an array
class _SimplexState:
    """The state of the simplex method for B programs: the current basis of each.

    A program has R + 1 equations, for its rows and for the sum of the distribution. It has 2 R slack columns and K
    columns of types.

    Attributes:
        limits: the right sides of the equations: those of the rows, and 1, `[B, R + 1]`.
        tableau: the objective, the rows, and the coefficients of the sum, `[B, R + 2, 2 R + K]`.
        basis: the columns in the basis, `[B, R + 1]`.
        inverse: the inverse of the matrix of these columns, `[B, R + 1, R + 1]`.
    """

    limits: FloatArray
    tableau: FloatArray
    basis: IntArray
    inverse: FloatArray

    def restricted_to(self, is_chosen: BoolArray) -> _SimplexState:
        """Returns the state of some of the programs, those with True in `is_chosen`, `[B]`."""
        return _SimplexState(
            limits=self.limits[is_chosen],
            tableau=self.tableau[is_chosen],
            basis=self.basis[is_chosen],
            inverse=self.inverse[is_chosen],
        )

    def prices(self) -> FloatArray:
        """Returns the dual price of each equation in the current basis, `[B, 1, R + 1]`."""
        objective = np.take_along_axis(self.tableau[:, :1], self.basis[:, None], axis=2)
        return np.asarray(objective @ self.inverse)

    def exchange(self, entering_columns: IntArray) -> None:
        """Makes one pivot step in each program: a column enters the basis, and the column that reaches 0 first leaves.

        Args:
            entering_columns: the index of the entering column of each program, `[B]`.
        """
        programs = np.arange(len(self.basis))
        # how fast the basic columns fall as the entering column rises
        columns = self.tableau[programs, 1:, entering_columns][:, :, None]
        falls = (self.inverse @ columns)[:, :, 0]
        amounts = (self.inverse @ self.limits[:, :, None])[:, :, 0]
        # the amounts of the entering column at which the basic columns reach 0
        rises = np.divide(amounts, falls, out=np.full_like(falls, np.inf), where=falls > _POSITIVE)
        leaving = rises.argmin(axis=1)
        pivot_row = self.inverse[programs, leaving] / falls[programs, leaving, None]
        self.inverse -= falls[:, :, None] * pivot_row[:, None, :]
        self.inverse[programs, leaving] = pivot_row
        self.basis[programs, leaving] = entering_columns


def row_prices(values: FloatArray, rows: FloatArray) -> FloatArray:
    """Returns the dual price of each constraint row and, in the last column, the optimum of each program, `[B, R + 1]`.

    A program (`LinearPrograms`) maximizes the mean of its values under a constrained distribution on K types.

    Args:
        values: the values v of each program, with absolute values of at most 1, `[B, K]`.
        rows: the constraint rows, with absolute values of at most 1, `[B, R, K]`.
    """
    limits = np.full((len(rows), rows.shape[1] + 1), _TOLERANCE)
    # The first row, of an equation, may be missed on the side of its larger entries.
    limits[:, 0] *= np.sign(rows[:, 0].max(axis=1) + rows[:, 0].min(axis=1))
    limits[:, -1] = 1
    state = _initial_state(values, rows=rows, limits=limits)
    prices_of_all = np.zeros(state.basis.shape)
    rising = np.arange(len(state.basis))  # the programs whose objective still rises
    for _ in range(_LARGEST_NUM_STEPS):
        prices = state.prices()
        prices_of_all[rising] = prices[:, 0]
        gains = (state.tableau[:, :1] - prices @ state.tableau[:, 1:])[:, 0]
        entering_columns = gains.argmax(axis=1)
        still_rises = gains.max(axis=1) > _POSITIVE
        if not still_rises.any():
            break
        if not still_rises.all():
            rising = rising[still_rises]
            state = state.restricted_to(still_rises)
            entering_columns = entering_columns[still_rises]
        state.exchange(entering_columns)
    return prices_of_all


def _initial_state(values: FloatArray, rows: FloatArray, limits: FloatArray) -> _SimplexState:
    """Returns the simplex method's first basis of each program: the type of largest value, and a slack for each row.

    Args:
        values: the values v of each program, `[B, K]`.
        rows: the constraint rows, `[B, R, K]`.
        limits: the right sides of the equations, `[B, R + 1]`.
    """
    num_programs, num_rows, num_types = rows.shape
    # The first slack columns take the excess of a row above its limit, at a penalty; the others what is below it.
    above = slice(num_rows)
    below = slice(num_rows, 2 * num_rows)
    types = slice(2 * num_rows, None)
    tableau = np.zeros((num_programs, num_rows + 2, 2 * num_rows + num_types))
    tableau[:, 1:-1, above] = -np.eye(num_rows)
    tableau[:, 1:-1, below] = np.eye(num_rows)
    tableau[:, 0, above] = -_PENALTY
    tableau[:, 0, num_rows] = -_PENALTY  # the first row is an equation
    tableau[:, 0, types] = values
    tableau[:, 1:-1, types] = rows
    tableau[:, -1, types] = 1
    chosen = values.argmax(axis=1)
    entries = np.take_along_axis(rows, chosen[:, None, None], axis=2)[:, :, 0]
    fits = entries <= limits[:, :-1]
    diagonal = np.arange(num_rows)
    basis = np.column_stack([diagonal + num_rows * fits, 2 * num_rows + chosen])
    inverse = np.zeros((num_programs, num_rows + 1, num_rows + 1))
    inverse[:, diagonal, diagonal] = np.where(fits, 1.0, -1.0)
    inverse[:, :-1, -1] = np.where(fits, -entries, entries)
    inverse[:, -1, -1] = 1
    return _SimplexState(limits=limits, tableau=tableau, basis=basis, inverse=inverse)
