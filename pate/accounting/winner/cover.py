"""Pairs that dominate every law of a winner: a cover of the plane of places of the two counts that move.

Four regions, each with a release that tells more or with points close enough (docs/proofs/winner.md):
    * a count that falls is far below the rest, or one that rises is: the censored count, and all of the other;
    * their sum is far above the rest: one bit of their difference, and seldom all of it;
    * between: the laws at the corners of squares, made larger by what bends in between.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import ndtr
from pate.accounting.winner.bends import bend_of_change, bend_of_mass, bend_of_rest
from pate.accounting.winner.law import moved_mass, vertices
from pate.accounting.winner.pairs import Pair, polygon

Array = NDArray[np.float64]

SMALLEST_MULTIPLIER, LARGEST_MULTIPLIER = 0.25, 1e7
"""With less noise, or more, the counts themselves are priced."""
LOWEST = -1.8
"""Of a place: below it its count is censored."""
HIGHEST_SUM = 2.8
"""Of both places: above it one bit is released, but for a share."""
FAR_BIT = 2.4
"""Where the threshold of a bit is farther off than this, the censored statistic is released."""

_HALF = np.append(np.arange(7) / 10, 0.6 + np.arange(1, 10) / 5)
_THRESHOLDS = np.append(-_HALF[:0:-1], _HALF)
_SMALL = 1e-3  # a shift so small that the squares for it are good for all
_TARGET = 1.3  # of a corner's cost; no law's second moment over shift**2 exceeds 1.2800
_SKEW = 0.1  # what large losses count extra
_STEEPEST = 4.0  # slope over shift: beyond it the test curve of the two counts themselves cuts the pairs off
_WIDEST, _NARROWEST = 0.64, 0.16
_CORNERS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
_ROUNDING = 1e-13
_BEND_OF_NORMAL, _BEND_OF_DENSITY = 0.2420, 0.3990  # the largest first and second derivative of the normal density


@lru_cache(maxsize=64)
def bits(shift: float) -> tuple[Pair, ...]:
    """Pairs above every bit "Z > t" of N(shift, 1) and N(0, 1) with shift - t in -FAR_BIT..FAR_BIT.

    Between two thresholds the curve's point lies within the bend from the chord.
    """
    steps = np.diff(_THRESHOLDS)
    width = np.maximum(np.append(steps, 0), np.append(0, steps))
    q, height = ndtr(_THRESHOLDS - shift), moved_mass(_THRESHOLDS, shift)
    slack = width**2 / 8 * _BEND_OF_NORMAL + _ROUNDING
    above = height + (width**2 / 8 * _BEND_OF_DENSITY + _ROUNDING) * shift
    return tuple(_polygons(q[None], above[None], slack, shift))


@lru_cache(maxsize=64)
def squares(shift: float) -> tuple[Pair, ...]:
    """Pairs above the laws at all places between the regions that are dominated otherwise."""
    lowest, width = _squares()
    places, corner_of = np.unique(_corners(lowest, width).reshape(-1, 2).round(6), axis=0, return_inverse=True)
    slack = np.zeros((5, len(places)))
    for side, of_square in zip(slack, _slacks(lowest, width, shift), strict=True):
        np.maximum.at(side, corner_of.ravel(), np.repeat(of_square, 4))
    q, height = vertices(places[:, 0], places[:, 1], shift)
    return tuple(_polygons(q, height + slack[1:], slack[0], 2**0.5 * shift))


@lru_cache(maxsize=1)
def _squares() -> tuple[Array, Array]:
    """The lowest corners `[S, 2]` and the widths `[S]` of squares that cover what lies between the other regions.

    Squares are halved where a law at a corner is worse than the target; which ones are is of no matter for validity.
    """
    starts = LOWEST + _WIDEST * np.arange(round((HIGHEST_SUM - 2 * LOWEST) / _WIDEST))
    lowest = np.stack([*map(np.ravel, np.meshgrid(starts, starts))], axis=1)
    done, width = list[tuple[Array, Array]](), _WIDEST
    while len(lowest):
        lowest = lowest[lowest.sum(axis=1) < HIGHEST_SUM - 1e-9]
        good = (_costs(lowest, width) <= _TARGET).all(axis=1) | (width < 1.5 * _NARROWEST)
        done.append((lowest[good], np.full(int(good.sum()), width)))
        width /= 2
        lowest = (lowest[~good][:, None] + width * _CORNERS).reshape(-1, 2)
    return np.concatenate([places for places, _ in done]), np.concatenate([widths for _, widths in done])


def _corners(lowest: Array, width: Array) -> Array:
    """`[S, 4, 2]`."""
    return np.asarray(lowest[:, None] + width[:, None, None] * _CORNERS)


def _costs(lowest: Array, width: float) -> Array:
    """About the second moments of the pairs at corners, over shift**2, large losses counted extra: `[S, 4]`."""
    widths = np.full(len(lowest), width)
    slack = np.repeat(_slacks(lowest, widths, _SMALL), 4, axis=1)
    corners = _corners(lowest, widths).reshape(-1, 2)
    q, height = vertices(corners[:, 0], corners[:, 1], _SMALL)
    above = (height + slack[1:]) / _SMALL
    masses = np.stack([q[0] - slack[0], q[1] - q[0] - 2 * slack[0], 1 - q[1] - slack[0]])
    rises = np.stack([above[0], above[1] - above[0], -above[1]])
    masses = np.maximum(masses, np.abs(rises) / _STEEPEST)
    costs = (rises**2 / masses * np.maximum(1 + _SKEW * rises / masses, 1)).sum(axis=0)
    return np.asarray(costs.reshape(-1, 4))


def _slacks(lowest: Array, width: Array, shift: float) -> Array:
    """How far the curve's points may lie from those between the corners of a square, `[5, S]`.

    Sideways, and upwards for each of the four sets of `vertices`. Bounds on second derivatives
    over the square and over all places that the counts move through.
    """
    (a0, b0), (a1, b1) = lowest.T, lowest.T + width
    a, b = (a0 - shift, a1), (b0, b1 + shift)
    difference = (a[0] - b[1]) / 2**0.5, (a[1] - b[0]) / 2**0.5
    total = (a0 + b0) / 2**0.5, (a1 + b1) / 2**0.5
    share = width**2 / 8
    sideways = share * np.maximum(bend_of_mass(a, b, difference, total), bend_of_mass(b, a, difference, total))
    first, second = (bend_of_change(x, y, difference, total) for x, y in ((a, b), (b, a)))
    upwards = share * shift * np.stack([first, second, bend_of_rest(a, b), bend_of_rest(b, a)]) + _ROUNDING * shift
    return np.concatenate([sideways[None] + _ROUNDING, upwards])


def _polygons(q: Array, height: Array, slack: Array, shift: float) -> list[Pair]:
    """The pairs above points `[S, N]` that may lie `slack` `[N]` to either side."""
    left, right = (q - slack).clip(0, 1), (q + slack).clip(0, 1)
    points = zip(left.T, right.T, height.T, strict=True)
    return [polygon(np.append(x, y), np.append(z, z), shift=shift) for x, y, z in points]
