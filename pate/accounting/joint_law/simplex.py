"""The simplex method on many small programs at once, a step of all of them per array operation.

A library's solver takes longer to call than such a program takes to solve, and a price needs a thousand of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Places = NDArray[np.int64]

_PENALTY = 20.0  # the largest price of a row
_ALLOWED = 1e-7  # by which rows may be missed for nothing: of many prices that are as good, the smallest are found
_MORE = 1e-9  # than 0
_MOST_STEPS = 200


def row_prices(values: Array, rows: Array) -> Array:
    """What relaxing each row would add to the largest mean of the values, and that mean.

    The mean is over distributions on K types. That of the first row is 0, that of each other row at most 0. Rows may
    be missed at a penalty, so there always is a solution. The prices are approximate. After too many steps they are
    those of a mean that is not the largest.

    Args:
        values: `[B, K]` in -1..1
        rows: `[B, R, K]` in -1..1

    Returns:
        `[B, R + 1]`: R prices, of either sign for the first row and at least 0 for the others, and the mean.
    """
    limits = _limits(rows)
    tableau, basis, inverse = _start(values, rows, limits)
    found = np.zeros(basis.shape)
    rising = np.arange(len(basis))
    for _ in range(_MOST_STEPS):
        prices = np.take_along_axis(tableau[:, :1], basis[:, None], axis=2) @ inverse
        found[rising] = prices[:, 0]
        gains = (tableau[:, :1] - prices @ tableau[:, 1:])[:, 0]
        entering = gains.argmax(axis=1)
        more = gains.max(axis=1) > _MORE
        if not more.any():
            break
        if not more.all():
            parts = (rising, limits, tableau, basis, inverse, entering)
            rising, limits, tableau, basis, inverse, entering = (part[more] for part in parts)
        _step(tableau, limits, basis, inverse, entering)
    return found


def _limits(rows: Array) -> Array:
    """What the rows and the ones add up to, `[B, R + 1]`, with what is allowed.

    The first row is allowed on the side to which its entries reach farther.
    """
    limits = np.full((len(rows), rows.shape[1] + 1), _ALLOWED)
    limits[:, 0] *= np.sign(rows[:, 0].max(axis=1) + rows[:, 0].min(axis=1))
    limits[:, -1] = 1
    return limits


def _start(values: Array, rows: Array, limits: Array) -> tuple[Array, Places, Array]:
    """All weight on the type with the largest value.

    Returns:
        The tableau, `[B, 1 + R + 1, N]`: values, rows and ones. Its columns are by how much each row is above 0, by how
        much each is below, and the types. Then the columns of the basis, `[B, R + 1]`, and its inverse.
    """
    num_programs, num_rows, num_types = rows.shape
    above, below, types = slice(num_rows), slice(num_rows, 2 * num_rows), slice(2 * num_rows, None)
    tableau = np.zeros((num_programs, num_rows + 2, 2 * num_rows + num_types))
    tableau[:, 1:-1, above], tableau[:, 1:-1, below] = -np.eye(num_rows), np.eye(num_rows)
    tableau[:, 0, above], tableau[:, 0, num_rows] = -_PENALTY, -_PENALTY  # the first row may not be below 0 either
    tableau[:, 0, types], tableau[:, 1:-1, types], tableau[:, -1, types] = values, rows, 1

    chosen = values.argmax(axis=1)
    entries = np.take_along_axis(rows, chosen[:, None, None], axis=2)[:, :, 0]
    fits, diagonal = entries <= limits[:, :-1], np.arange(num_rows)
    basis = np.column_stack([diagonal + num_rows * fits, 2 * num_rows + chosen])
    inverse = np.zeros((num_programs, num_rows + 1, num_rows + 1))
    inverse[:, diagonal, diagonal] = np.where(fits, 1.0, -1.0)
    inverse[:, :-1, -1], inverse[:, -1, -1] = np.where(fits, -entries, entries), 1
    return tableau, basis, inverse


def _step(tableau: Array, limits: Array, basis: Places, inverse: Array, entering: Places) -> None:
    """Exchanges one column of each basis, in place."""
    each = np.arange(len(basis))
    falls = (inverse @ tableau[each, 1:, entering][:, :, None])[:, :, 0]  # of the basis, as the new column rises
    held = (inverse @ limits[:, :, None])[:, :, 0]
    room = np.divide(held, falls, out=np.full_like(falls, np.inf), where=falls > _MORE)
    leaving = room.argmin(axis=1)
    row = inverse[each, leaving] / falls[each, leaving, None]
    inverse -= falls[:, :, None] * row[:, None, :]
    inverse[each, leaving], basis[each, leaving] = row, entering
