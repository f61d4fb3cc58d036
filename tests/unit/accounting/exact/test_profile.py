"""Profiles: reading both ways, where the grid ends, and what is remembered."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pate.accounting.exact.dominating_pairs import Box, ShiftedMaximum, Span
from pate.accounting.exact.loss_grid import LossGrid, rounded_spacing
from pate.accounting.exact.profile import Profile, composed, largest_loss

PAIR = Box.pair(0.2, -0.2)


def test_reading_epsilon_and_delta_are_inverse_between_points() -> None:
    profile = composed(((PAIR, 7), (Span(0.31), 2)), reach=2.0, smallest_delta=1e-12)
    for delta in (0.1, 1e-2, 1e-4):
        assert profile.delta(profile.epsilon(delta)) == pytest.approx(delta, rel=1e-12)


def test_epsilon_is_zero_where_delta_is_met_from_the_start_and_infinite_where_the_grid_ends_above() -> None:
    grid = LossGrid(first=-3, size=8, spacing=rounded_spacing(0.1))
    profile = Profile(grid, np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]))
    assert profile.epsilon(0.6) == 0
    assert profile.epsilon(0.1) == math.inf
    assert profile.delta(0.0) == 0.6
    assert 0 < profile.epsilon(0.59) < grid.spacing
    assert profile.delta(5.0) == 0.2


@pytest.mark.slow
def test_the_grid_divides_the_widest_range_and_holds_the_reach() -> None:
    for steps in (((Span(0.05), 600), (PAIR, 1)), ((PAIR, 40), (Span(0.0123), 3))):
        grid = composed(steps, reach=3.0, smallest_delta=1e-12, in_blocks=False).grid
        widest = 0.05 if steps[0][0] is not PAIR else 0.2
        assert widest / grid.spacing == pytest.approx(round(widest / grid.spacing), abs=1e-6)
        assert grid.points[0] < 0
        assert grid.points[-1] >= 3.0


def test_the_same_steps_are_composed_once() -> None:
    first, again = ((ShiftedMaximum(1, 0.3), 1), (PAIR, 2)), ((ShiftedMaximum(1, 0.3), 1), (PAIR, 2))
    assert composed(first, reach=2.5, smallest_delta=1e-12) is composed(again, reach=2.5, smallest_delta=1e-12)


def test_the_largest_loss_is_that_of_all_steps() -> None:
    assert largest_loss(((PAIR, 3), (Span(0.5), 2))) == pytest.approx(1.6)
    assert largest_loss(((PAIR, 3), (ShiftedMaximum(2, 0.1), 1))) == math.inf
