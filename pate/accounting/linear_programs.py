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

# The penalty for a violated row (the M of the big-M method), and so the largest dual price of a row.
_PENALTY = 20.0
# The limits of the rows are moved by this amount, at no cost. Then the solver returns the smallest of many equally good
# prices.
_TOLERANCE = 1e-7
# A reduced cost, or the fall of a variable, counts as positive above this.
_SMALLEST_POSITIVE = 1e-9
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

    def remainders(self, row_multipliers: FloatArray) -> FloatArray:
        """Returns v - y_1 r_1 - ... - y_R r_R of each program and type, `[B, K]`, for multipliers y, `[B, R]`.

        Here v are the values of a program, and r_1, ..., r_R its constraint rows.
        """
        term_weights_of_remainders = (
            self.term_weights[:, 0] - (row_multipliers[:, None] @ self.term_weights[:, 1:])[:, 0]
        )
        remainders_by_program_and_type = (
            term_weights_of_remainders @ self.shared_terms + self.added_values
        )
        return np.asarray(remainders_by_program_and_type)

    def bounds(
        self, row_multipliers: FloatArray, remainders_by_program_and_type: FloatArray
    ) -> FloatArray:
        """Returns an upper bound on the optimum of each program, `[B]`; infinity where it exceeds double precision.

        Args:
            row_multipliers: a multiplier for each constraint row, `[B, R]`; all but the first of a program are >= 0.
            remainders_by_program_and_type: the result of `remainders(row_multipliers)`, `[B, K]`.
        """
        magnitudes = self.magnitude_bounds[:, 0] + (
            np.abs(row_multipliers) * self.magnitude_bounds[:, 1:]
        ).sum(axis=1)
        bounds = remainders_by_program_and_type.max(axis=1) + _ROUNDING * magnitudes
        return np.where(np.isfinite(bounds), bounds, np.inf)


def best_multipliers(programs: LinearPrograms) -> tuple[FloatArray, FloatArray]:
    """Solves the programs, and returns the multipliers (dual prices) of the rows, `[B, R]`, and the optima, `[B]`.

    Both are 0 for a program that exceeds double precision, or whose values are all 0. The optima are approximate;
    `LinearPrograms.bounds` returns rigorous bounds for the multipliers.
    """
    # values and rows, `[B, 1 + R, K]`
    values_and_rows_by_program = programs.term_weights @ programs.shared_terms
    values_and_rows_by_program[:, 0] += programs.added_values
    largest_entries_of_rows = np.abs(values_and_rows_by_program).max(axis=2)
    row_prices_and_optima = np.zeros_like(largest_entries_of_rows)
    is_solvable_program = (largest_entries_of_rows[:, 0] > 0) & np.isfinite(
        largest_entries_of_rows
    ).all(axis=1)
    if is_solvable_program.any():
        # Values and rows are scaled to at most 1, so that one penalty suits all programs.
        entry_units = np.where(largest_entries_of_rows > 0, largest_entries_of_rows, 1.0)[
            is_solvable_program
        ]
        scaled_values_and_rows = (
            values_and_rows_by_program[is_solvable_program] / entry_units[:, :, None]
        )
        row_prices_and_optima[is_solvable_program] = (
            row_prices(
                values_by_program_and_type=scaled_values_and_rows[:, 0],
                constraint_rows=scaled_values_and_rows[:, 1:],
            )
            * entry_units[:, :1]
        )
        row_prices_and_optima[is_solvable_program, :-1] /= entry_units[:, 1:]
    np.maximum(row_prices_and_optima[:, 1:-1], 0.0, out=row_prices_and_optima[:, 1:-1])
    return row_prices_and_optima[:, :-1], row_prices_and_optima[:, -1]


@dataclass(eq=False)  # == of arrays is an array
class _SimplexState:
    """The state of the simplex method for B programs: the current basis of each.

    A program has R + 1 equations, for its rows and for the sum of the distribution. It has 2 R slack columns and K
    columns of types.

    Attributes:
        right_sides: the right sides of the equations: those of the rows, and 1, `[B, R + 1]`.
        tableau: the objective, the rows, and the coefficients of the sum, `[B, R + 2, 2 R + K]`.
        basis_columns: the columns in the basis, `[B, R + 1]`.
        basis_inverse: the inverse of the matrix of these columns, `[B, R + 1, R + 1]`.
    """

    right_sides: FloatArray
    tableau: FloatArray
    basis_columns: IntArray
    basis_inverse: FloatArray

    def restricted_to(self, is_chosen: BoolArray) -> _SimplexState:
        """Returns the state of some of the programs, those with True in `is_chosen`, `[B]`."""
        return _SimplexState(
            right_sides=self.right_sides[is_chosen],
            tableau=self.tableau[is_chosen],
            basis_columns=self.basis_columns[is_chosen],
            basis_inverse=self.basis_inverse[is_chosen],
        )

    def prices(self) -> FloatArray:
        """Returns the dual price of each equation in the current basis, `[B, 1, R + 1]`."""
        objective = np.take_along_axis(self.tableau[:, :1], self.basis_columns[:, None], axis=2)
        return np.asarray(objective @ self.basis_inverse)

    def pivot(self, entering_columns: IntArray) -> None:
        """Makes one pivot step in each program: a column enters the basis, and the column that reaches 0 first leaves.

        Args:
            entering_columns: the index of the entering column of each program, `[B]`.
        """
        program_indices = np.arange(len(self.basis_columns))
        # how fast the basic columns fall as the entering column rises
        entering_coefficients = self.tableau[program_indices, 1:, entering_columns][:, :, None]
        fall_rates = (self.basis_inverse @ entering_coefficients)[:, :, 0]
        basic_amounts = (self.basis_inverse @ self.right_sides[:, :, None])[:, :, 0]
        # the amounts of the entering column at which the basic columns reach 0
        amounts_at_zero = np.divide(
            basic_amounts,
            fall_rates,
            out=np.full_like(fall_rates, np.inf),
            where=fall_rates > _SMALLEST_POSITIVE,
        )
        leaving_positions = amounts_at_zero.argmin(axis=1)
        pivot_row = (
            self.basis_inverse[program_indices, leaving_positions]
            / fall_rates[program_indices, leaving_positions, None]
        )
        self.basis_inverse -= fall_rates[:, :, None] * pivot_row[:, None, :]
        self.basis_inverse[program_indices, leaving_positions] = pivot_row
        self.basis_columns[program_indices, leaving_positions] = entering_columns


def row_prices(values_by_program_and_type: FloatArray, constraint_rows: FloatArray) -> FloatArray:
    """Returns the dual price of each constraint row and, in the last column, the optimum of each program, `[B, R + 1]`.

    A program (`LinearPrograms`) maximizes the mean of its values over the distributions on K types for which the mean
    of its first row is 0, and that of every other row at most 0. Prices and optima are approximate, and no bounds.

    Args:
        values_by_program_and_type: the values v of each program, with absolute values of at most 1, `[B, K]`.
        constraint_rows: the constraint rows, with absolute values of at most 1, `[B, R, K]`.
    """
    num_programs, num_constraints, _ = constraint_rows.shape
    right_sides = np.full((num_programs, num_constraints + 1), _TOLERANCE)
    # The mean of the first row, an equation, is to be the tolerance in place of 0, with the sign of the entry whose
    # absolute value is the largest.
    first_rows = constraint_rows[:, 0]
    right_sides[:, 0] *= np.sign(first_rows.max(axis=1) + first_rows.min(axis=1))
    right_sides[:, -1] = 1
    simplex_state = _initial_state(
        values_by_program_and_type, constraint_rows=constraint_rows, right_sides=right_sides
    )
    dual_prices_of_all = np.zeros(simplex_state.basis_columns.shape)
    # the programs whose objective still rises
    indices_of_unsolved_programs = np.arange(len(simplex_state.basis_columns))
    for _ in range(_LARGEST_NUM_STEPS):
        dual_prices = simplex_state.prices()
        dual_prices_of_all[indices_of_unsolved_programs] = dual_prices[:, 0]
        tableau = simplex_state.tableau
        # the reduced cost of each column: the rise of the objective for each unit of the column
        reduced_costs = (tableau[:, :1] - dual_prices @ tableau[:, 1:])[:, 0]
        entering_columns = reduced_costs.argmax(axis=1)
        still_rises = reduced_costs.max(axis=1) > _SMALLEST_POSITIVE
        if not still_rises.any():
            break
        if not still_rises.all():
            indices_of_unsolved_programs = indices_of_unsolved_programs[still_rises]
            simplex_state = simplex_state.restricted_to(still_rises)
            entering_columns = entering_columns[still_rises]
        simplex_state.pivot(entering_columns)
    return dual_prices_of_all


def _initial_state(
    values_by_program_and_type: FloatArray, constraint_rows: FloatArray, right_sides: FloatArray
) -> _SimplexState:
    """Returns the simplex method's first basis of each program: the type of largest value, and a slack for each row.

    Args:
        values_by_program_and_type: the values v of each program, `[B, K]`.
        constraint_rows: the constraint rows, `[B, R, K]`.
        right_sides: the right sides of the equations, `[B, R + 1]`.
    """
    num_programs, num_constraints, num_types = constraint_rows.shape
    # The first slack columns take the excess of a row above its limit, at a penalty. The others take what is below it,
    # without a penalty except for the first row.
    excess_columns = slice(num_constraints)
    shortfall_columns = slice(num_constraints, 2 * num_constraints)
    type_columns = slice(2 * num_constraints, None)
    tableau = np.zeros((num_programs, num_constraints + 2, 2 * num_constraints + num_types))
    tableau[:, 1:-1, excess_columns] = -np.eye(num_constraints)
    tableau[:, 1:-1, shortfall_columns] = np.eye(num_constraints)
    tableau[:, 0, excess_columns] = -_PENALTY
    tableau[:, 0, num_constraints] = -_PENALTY  # the first row is an equation
    tableau[:, 0, type_columns] = values_by_program_and_type
    tableau[:, 1:-1, type_columns] = constraint_rows
    tableau[:, -1, type_columns] = 1
    best_type_indices = values_by_program_and_type.argmax(axis=1)
    entries_of_best_type = constraint_rows[np.arange(num_programs), :, best_type_indices]
    is_within_limit = entries_of_best_type <= right_sides[:, :-1]
    row_indices = np.arange(num_constraints)
    basis_columns = np.column_stack(
        [row_indices + num_constraints * is_within_limit, 2 * num_constraints + best_type_indices]
    )
    num_equations = num_constraints + 1  # those of the rows, and that of the sum
    basis_inverse = np.zeros((num_programs, num_equations, num_equations))
    basis_inverse[:, row_indices, row_indices] = np.where(is_within_limit, 1.0, -1.0)
    basis_inverse[:, :-1, -1] = np.where(
        is_within_limit, -entries_of_best_type, entries_of_best_type
    )
    basis_inverse[:, -1, -1] = 1
    return _SimplexState(
        right_sides=right_sides,
        tableau=tableau,
        basis_columns=basis_columns,
        basis_inverse=basis_inverse,
    )
