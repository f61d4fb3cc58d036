"""The grid: weights that keep both distributions, bounds left, right and between, spacings of few digits."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pate.accounting.exact.loss_grid import LossGrid, rounded_spacing

GRID = LossGrid(first=-50, size=200, spacing=rounded_spacing(0.037))


@pytest.mark.parametrize("spacing", [1e-250, 3e-9, 0.1, 1 / 3, 7.0])
def test_a_rounded_spacing_is_never_smaller_and_has_exact_multiples(spacing: float) -> None:
    made = rounded_spacing(spacing)
    assert spacing <= made <= spacing * (1 + 2.0**-31)
    for multiple in (3, 1023, 65537, 2**21 - 1):
        assert Fraction(multiple * made) == multiple * Fraction(made)


@pytest.mark.parametrize("loss", [0.0, 1e-300, 0.037, 0.05, 1.0, -1e-17, -0.036999999, -2.2, 7.3])
def test_a_shift_keeps_the_mass_and_the_expected_ratio(loss: float) -> None:
    shift = GRID.shift(loss, weight=0.75)
    with mpmath.workdps(400):
        low = mpmath.mpf(GRID.spacing) * shift.whole
        scale = mpmath.expm1(GRID.spacing)
        upper = mpmath.expm1(-mpmath.mpf(loss) - low) / scale * 0.75
        lower = 0.75 - upper
        assert abs(shift.upper - upper) <= 1e-14 * upper
        assert abs(shift.lower - lower) <= 1e-14 * lower


def test_multiples_are_moved_by_whole_points() -> None:
    for multiple in (-30, -1, 0, 1, 17):
        shift = GRID.shift(multiple * GRID.spacing)
        assert (shift.whole, shift.lower, shift.upper) == (-multiple, 1.0, 0.0)


def test_a_loss_is_rounded_away_from_0() -> None:
    assert GRID.outward(3 * GRID.spacing * (1 - 1e-9)) == 3 * GRID.spacing
    assert GRID.outward(-3 * GRID.spacing * (1 - 1e-9)) == -3 * GRID.spacing
    for loss in (3 * GRID.spacing * (1 + 1e-9), 0.5 * GRID.spacing, -1e-9, 1e305):
        assert abs(loss) < abs(GRID.outward(loss)) < abs(loss) * (1 + 1e-14)


def test_the_bound_left_right_and_between() -> None:
    """For a function convex in exp(x): 1 / (1 + exp(x))."""
    values = 1 / (1 + np.exp(GRID.points))
    padded = GRID.padded(values, 40)
    assert len(padded) == 280
    before = GRID.points[0] - GRID.spacing * np.arange(40, 0, -1)
    assert (padded[:40] >= 1 / (1 + np.exp(before))).all()
    assert (padded[:40] <= 1).all()
    assert (np.diff(padded) <= 0).all()
    assert (padded[-40:] == values[-1]).all()
    for x in (-1.83, -0.01, 0.0, 0.02, 2.345, 5.5, 6.0):
        truth = 1 / (1 + np.exp(x))
        assert truth * (1 - 1e-15) <= GRID.at(values, x) <= max(truth * (1 + 1e-3), values[-1])
    assert GRID.at(values, 1e300) == values[-1]


def test_a_shift_beyond_the_grid_gives_one_or_the_last_value() -> None:
    values = np.linspace(1, 0.1, GRID.size)
    pad = GRID.padding(1e300)
    padded = GRID.padded(values, pad)
    assert (GRID.moved(padded, pad, GRID.shift(1e300)) == 1).all()
    assert (GRID.moved(padded, pad, GRID.shift(-1e300)) == 0.1).all()


@pytest.mark.parametrize("loss", [7.2, 7.3627, 7.37, 7.3999, 7.4, -7.37, -7.4])
def test_a_shift_as_wide_as_the_grid_leaves_no_part_out(loss: float) -> None:
    """1 - exp(x) where that is positive falls and is convex in exp(x); the grid is 7.4 wide, its last cell begins at
    7.363."""
    values = np.maximum(-np.expm1(GRID.points), 0)
    pad = GRID.padding(abs(loss))
    found = GRID.moved(GRID.padded(values, pad), pad, GRID.shift(loss, weight=0.5))
    assert (found >= 0.5 * np.maximum(-np.expm1(GRID.points - loss), 0) - 1e-15).all()
    assert (found <= 0.5).all()
