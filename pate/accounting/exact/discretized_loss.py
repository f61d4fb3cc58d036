"""The loss of a pair of continuous distributions, moved to multiples of a grid's spacing without making it smaller."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pate.accounting.exact.dominating_pairs import SampledPair, ShiftedMaximum
from pate.accounting.exact.loss_grid import LossGrid

Array = NDArray[np.float64]

_LOCATION = 1e-9  # relative to the spacing: how well the ends of an interval are known at best
_BISECTIONS = 80
_ROUNDING = 2.0**-44
_LARGEST_LOSS = 700.0  # a larger one counts as missing; its exponential may be no float


def discretized_loss(pair: ShiftedMaximum | SampledPair, grid: LossGrid, *, missing: float) -> tuple[int, Array, float]:
    """The masses of a pair's loss at consecutive multiples of the spacing.

    A `SampledPair` is taken as it is. Of a shifted maximum, the pair is (M + shift, M) from the point x on where
    P(M + shift > x) = P(M <= x), together with its mirror image, the same losses with their signs and the two
    distributions exchanged (docs/proofs/exact_composition.md).

    Args:
        pair: its two distributions.
        grid: losses larger than it is wide count as missing.
        missing: how much may be left out; it counts as an infinite loss.

    Returns:
        The first multiple, the masses there and at the following ones, and the mass beyond them all.
    """
    x, multiples = _edges(pair, grid, missing)
    location = _LOCATION + pair.loss_rounding(x) / grid.spacing  # [C + 1]
    blur = np.maximum(location[:-1], location[1:])
    mass, rounding = _interval_masses(*pair.first(x))  # [C] under the distribution that the losses favor
    other, other_rounding = _interval_masses(*pair.second(x))  # [C] under its neighbor
    last = int(np.abs(multiples).max())
    made, middle = np.zeros(2 * last + 3), last + 1
    losses = multiples.astype(np.float64) * grid.spacing
    images = [(losses[:-1], (mass, other), (rounding, other_rounding))]
    if isinstance(pair, ShiftedMaximum):
        images.append((-losses[1:], (other, mass), (other_rounding, rounding)))
    for low, masses, roundings in images:
        at = middle + np.round(low / grid.spacing).astype(np.int64)
        for farther, moved in enumerate(_split(low, masses, roundings, blur, -math.expm1(-grid.spacing))):
            np.add.at(made, at + farther, moved)
    (below, _), (above, last_above) = (tails.tolist() for tails in pair.first(x[[0, -1]]))
    if isinstance(pair, SampledPair):
        made[middle + int(multiples[0]) + 1] += below * (1 + _ROUNDING)
        return -middle, made, last_above * (1 + _ROUNDING)
    other_above, other_last_above = pair.second(x[[0, -1]])[1].tolist()
    made[middle - int(multiples[-1])] += other_last_above
    unmatched = abs(1 - above - other_above)
    return -middle, made, (last_above + unmatched) * (1 + _ROUNDING)


def _split(
    low: Array, masses: tuple[Array, Array], roundings: tuple[Array, Array], blur: Array, scale: float
) -> tuple[Array, Array, Array]:
    """The mass of each interval, `[C]`, that goes to its lower end, to its upper end and one point farther.

    The first two are such that both distributions keep their masses: no smaller for whatever is convex in exp(-loss).
    What rounding and the search for the ends may have moved goes one point farther, where V is larger.
    """
    ratio = np.exp(low)
    upper = np.clip((masses[0] - ratio * masses[1]) / scale, 0.0, masses[0])
    moved = (roundings[0] + ratio * roundings[1]) / scale + (masses[0] + roundings[0]) * blur
    return masses[0] - upper, upper, 2 * moved


def _edges(pair: ShiftedMaximum | SampledPair, grid: LossGrid, missing: float) -> tuple[Array, NDArray[np.int64]]:
    """Where the loss is a multiple of the spacing, up to a tail of `missing`; and these multiples."""
    most = min(grid.size, int(_LARGEST_LOSS / grid.spacing))

    def begins(x: Array) -> NDArray[np.bool_]:
        if isinstance(pair, SampledPair):
            return np.asarray(pair.loss(x) > -most * grid.spacing)
        return np.asarray(pair.second(x)[0] > pair.first(x)[1])

    farthest = np.full(2, pair.farthest)
    ends = _bisected(
        lambda x: np.where([True, False], begins(x), pair.first(x)[1] < missing), low=-farthest, high=farthest
    )
    low, high = np.clip(pair.loss(ends) / grid.spacing, -most, most).tolist()
    multiples = np.arange(math.floor(low), max(math.ceil(high), math.floor(low) + 1) + 1)
    x = _bisected(
        lambda x: pair.loss(x) > multiples * grid.spacing,
        low=np.full(len(multiples), ends[0]),
        high=np.full(len(multiples), farthest[0]),
    )
    x[0] = ends[0]
    return x, multiples


def _bisected(above: Callable[[Array], NDArray[np.bool_]], *, low: Array, high: Array) -> Array:
    """Where a rising condition begins to hold."""
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        holds = above(middle)
        low, high = np.where(holds, low, middle), np.where(holds, middle, high)
    return np.asarray(high)


def _interval_masses(below: Array, above: Array) -> tuple[Array, Array]:
    """Differences of a distribution function from the side where it is small, and their rounding errors."""
    left = below[1:] < above[:-1]
    mass = np.where(left, below[1:] - below[:-1], above[:-1] - above[1:])
    return np.asarray(np.maximum(mass, 0.0)), _ROUNDING * np.where(left, below[1:], above[:-1])
