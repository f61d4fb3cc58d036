"""The loss of a pair of continuous laws, moved to multiples of a grid's spacing without making it smaller."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pate.accounting.grid import Grid
from pate.accounting.two_point import ShiftedMaximum

Array = NDArray[np.float64]

_LOCATION = 1e-9  # relative to the spacing: how well the ends of a cell are known at best
_BISECTIONS = 80
_FARTHEST = 39.0  # standard deviations: beyond it there is no mass in double precision
_ROUNDING = 2.0**-44


def masses(law: ShiftedMaximum, grid: Grid, *, missing: float) -> tuple[int, Array, float]:
    """Masses at consecutive multiples of the spacing: the first multiple, `[C]` masses, and the mass beyond them all.

    The mass of a cell between two multiples goes to these, so that both laws keep theirs: no smaller for whatever is
    convex in exp(-loss). What rounding and the search for the ends may have moved goes one point farther, where V is
    larger.

    Args:
        law: the pair.
        grid: losses larger than it is wide count as missing.
        missing: how much may be left out at either end; it is counted as an infinite loss above, and moved up below.
    """
    first, x = _edges(grid, law, missing)
    losses = (first + np.arange(len(x))) * grid.spacing
    mass, rounding = _cells(*law.tails(x - law.shift))  # [C - 2] under the law with the losses
    other, other_rounding = _cells(*law.tails(x))  # [C - 2] under its neighbour
    ratio, scale = np.exp(losses[:-1]), -math.expm1(-grid.spacing)
    upper = np.clip((mass - ratio * other) / scale, 0.0, mass)
    location = _LOCATION + law.loss_rounding(x) / grid.spacing  # [C - 1]
    moved = (rounding + ratio * other_rounding) / scale + (mass + rounding) * np.maximum(location[:-1], location[1:])
    made = np.zeros(len(x) + 1)
    made[:-2] += mass - upper
    made[1:-1] += upper
    made[2:] += 2 * moved
    below, above = law.tails(x[[0, -1]] - law.shift)
    made[0] += below[0]
    return first, made, float(above[1]) * (1 + _ROUNDING)


def _edges(grid: Grid, law: ShiftedMaximum, missing: float) -> tuple[int, Array]:
    """Where the loss is a multiple of the spacing, between tails of at most `missing`; and the first multiple."""
    ends = _bisected(
        lambda x: np.where([True, False], law.tails(x - law.shift)[0] > missing, law.tails(x - law.shift)[1] < missing),
        low=np.full(2, law.shift - _FARTHEST),
        high=np.full(2, law.shift + _FARTHEST),
    )
    low, high = np.clip(law.loss(ends) / grid.spacing, -grid.size, grid.size).tolist()
    multiples = np.arange(math.floor(low), math.ceil(high) + 1)
    x = _bisected(
        lambda x: law.loss(x) > multiples * grid.spacing,
        low=np.full(len(multiples), law.shift - _FARTHEST),
        high=np.full(len(multiples), law.shift + _FARTHEST),
    )
    return int(multiples[0]), x


def _bisected(above: Callable[[Array], NDArray[np.bool_]], *, low: Array, high: Array) -> Array:
    """Where a rising condition begins to hold."""
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        holds = above(middle)
        low, high = np.where(holds, low, middle), np.where(holds, middle, high)
    return np.asarray(high)


def _cells(below: Array, above: Array) -> tuple[Array, Array]:
    """Differences of a distribution function from the side where it is small, and their rounding errors."""
    left = below[1:] < above[:-1]
    mass = np.where(left, below[1:] - below[:-1], above[:-1] - above[1:])
    return np.maximum(mass, 0.0), _ROUNDING * np.where(left, below[1:], above[:-1])
