"""One step of the optimal composition: the largest expectation of V(x - loss) over dominating pairs, bounded above.

A step takes V on the points of a grid and returns the new V on the same points. Every product and sum in it is of
numbers >= 0 that are exact to a few units in the last place, so the factor 1 + `rounding` covers what rounding may
have taken away (docs/proofs/exact_composition.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch
from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from pate.accounting.exact.block import Block
from pate.accounting.exact.discretized_loss import discretized_loss
from pate.accounting.exact.dominating_pairs import (
    Box,
    DominatingPairs,
    SampledPair,
    ShiftedMaximum,
    Span,
    probabilities,
)
from pate.accounting.exact.loss_grid import LossGrid, Shift
from pate.accounting.exact.weighted_sums import WeightedSums, batched
from pate.accounting.exact.winner_step import WinnerStep
from pate.accounting.winner.tree import Winner

Array = NDArray[np.float64]
CompositionStep = Callable[[Array], Array]

_ROUNDING = 2.0**-46  # 128 units of 2**-53; a value may be wrong by 72 of them
_SLACK = 3e-5  # relative, per step: a box is accepted whose value is this little above the best pair's
_USES_OF_A_COVER = 12
_MOST_PIECES = 64
_BENT = 1e-9  # relative, of the nearest value: more than rounding can take from a bend
_LEAST = 1e-300


@singledispatch
def composition_step(pairs: DominatingPairs, grid: LossGrid, *, negligible: float) -> CompositionStep:
    """The step of one event's pairs on a grid; an absolute error of `negligible`, upwards, is allowed for speed."""
    raise TypeError(type(pairs).__name__)


@composition_step.register
def _(pairs: Box, grid: LossGrid, *, negligible: float) -> CompositionStep:
    return _PairsStep(grid, pairs, negligible)


@composition_step.register
def _(pairs: Span, grid: LossGrid, *, negligible: float) -> CompositionStep:
    return _SpanStep(grid, pairs.length)


@composition_step.register
def _(pairs: ShiftedMaximum, grid: LossGrid, *, negligible: float) -> CompositionStep:
    first, masses, missing = discretized_loss(pairs, grid, missing=negligible)
    return _FixedPairStep(grid, first, masses, missing)


def repeated_step(pair: SampledPair, grid: LossGrid, *, negligible: float, times: int) -> CompositionStep:
    """The steps of one fixed pair, all at once: nobody chooses between them, so their losses are summed."""
    block = repeated_block(pair, grid, negligible=negligible, times=times)
    return _FixedPairStep(grid, -(len(block.masses) // 2), block.masses, block.missing)


def repeated_block(pair: SampledPair, grid: LossGrid, *, negligible: float, times: int) -> Block:
    """The losses of one fixed pair, summed; those beyond the grid's last point count as infinite."""
    _, masses, missing = discretized_loss(pair, grid, missing=negligible)
    return Block(masses, missing, grid.spacing).power(times, most=grid.first + grid.size)


@composition_step.register
def _(pairs: Winner, grid: LossGrid, *, negligible: float) -> CompositionStep:
    return WinnerStep(grid, pairs, negligible)


class _PairsStep:
    """The largest over all pairs below a box, or little more.

    Boxes are split only where their bound exceeds what pairs attain. The boxes that were not split cover all pairs. The
    values of the next steps hardly differ, so those steps take the maximum over the same cover. At first the values
    differ most from one step to the next, so few steps share a cover.
    """

    def __init__(self, grid: LossGrid, root: Box, slack: float) -> None:
        self._grid, self._root, self._slack = grid, root, slack
        self._pad = grid.padding(max(root.up, -root.down))
        self._shifts: dict[Box, tuple[Shift, Shift]] = {}
        self._cover: list[Box] = []
        self._together: list[WeightedSums] = []
        self._splits = self._uses_left = 0

    def __call__(self, values: Array) -> Array:
        padded = self._grid.padded(values, self._pad)
        best = np.zeros_like(values)
        if self._uses_left > 0:
            moved = sliding_window_view(padded, self._grid.size)
            for some in self._together:
                np.maximum(best, some.largest(moved), out=best)
            self._uses_left -= 1
        else:
            best = self._split(padded)
            self._splits += 1
            self._uses_left = min(2 ** (self._splits // 2), _USES_OF_A_COVER)
        return np.minimum(best * (1 + _ROUNDING), 1.0)

    def _split(self, padded: Array) -> Array:
        """The maximum by splitting boxes from the root; renews the cover."""
        known = {box: self._expect(padded, box) for box in self._cover if not box.halves}
        attained: Array = np.max([np.zeros(self._grid.size), *known.values()], axis=0)
        best, cover, pending = attained.copy(), [], [self._root]
        enough = attained * (1 + _SLACK) + self._slack
        while pending:
            box = pending.pop()
            bound: Array = known[box] if box in known else self._expect(padded, box)
            if box.halves and (bound > enough).any():
                pending.extend(box.halves)
                continue
            if not box.halves:
                enough = np.maximum(attained, bound, out=attained) * (1 + _SLACK) + self._slack
            np.maximum(best, bound, out=best)
            cover.append(box)
        self._cover = cover
        moves = [self._shifts[box] for box in cover]
        self._together = [WeightedSums(self._grid, self._pad, some) for some in batched(moves)]
        return best

    def _expect(self, padded: Array, box: Box) -> Array:
        """P(up) V(x - up) + P(down) V(x - down)."""
        if box not in self._shifts:
            self._shifts[box] = _shifts(self._grid, box.up, box.down)
        first, second = self._shifts[box]
        return self._grid.moved(padded, self._pad, first) + self._grid.moved(padded, self._pad, second)


class _SpanStep:
    """The largest over all pairs (t, t - length), piece by piece.

    On a piece of t let V(x - t) and V(x - t + length) lie below their chords in exp(-t). Then the expectation is
    A + B s - C / s in s = exp(t), which is at most its chord plus D * share * (1 - share), where `share` runs from 0
    to 1 along the piece.
    """

    def __init__(self, grid: LossGrid, length: float) -> None:
        self._grid = grid
        length = grid.outward(length)
        ends = _pieces(grid, length)
        pairs = [(grid.outward(t), grid.outward(t - length)) for t in ends]
        self._pad = grid.padding(max(up - down for up, down in pairs))
        self._moves = [(grid.shift(up), grid.shift(down), *probabilities(up, down)) for up, down in pairs]
        widths = [after - before for before, after in pairwise(ends)]
        self._factors = [(-math.expm1(w) / math.expm1(-length), math.expm1(w) / math.expm1(length)) for w in widths]

    def __call__(self, values: Array) -> Array:
        padded = self._grid.padded(values, self._pad)
        best = values
        before: tuple[Array, Array, Array] | None = None
        for number, (up, down, p, q) in enumerate(self._moves):
            first, second = self._grid.moved(padded, self._pad, up), self._grid.moved(padded, self._pad, down)
            here = (first, second, p * first + q * second)
            if before is not None:
                best = np.maximum(best, _piece(before, here, *self._factors[number - 1]))
            before = here
        return np.minimum(best * (1 + _ROUNDING), 1.0)


def _piece(low: tuple[Array, Array, Array], high: tuple[Array, Array, Array], near: float, far: float) -> Array:
    """The largest of chord + D * share * (1 - share); D is rounded up by more than its terms can be wrong."""
    rise = np.abs(high[2] - low[2])
    bend = near * (high[0] * (1 + _BENT) - low[0]) - far * (high[1] - low[1])
    bend = np.maximum(np.maximum(bend, rise), _LEAST)
    return np.asarray((low[2] + high[2]) / 2 + (rise * (rise / bend) + bend) / 4)


def _pieces(grid: LossGrid, length: float) -> list[float]:
    """The ends of pieces of [0, length], at multiples of the spacing from either end."""
    count = max(math.ceil(length / grid.spacing - 0.5), 1)
    stride = max(1, math.ceil(count / _MOST_PIECES))
    whole = [k * grid.spacing for k in range(0, count, stride)]
    if count * grid.spacing == length:
        return [*whole, length]
    return sorted({*whole, *(length - t for t in whole), length})


class _FixedPairStep:
    """The expectation over one pair, its losses multiples of the spacing: `first` times it, and so on."""

    def __init__(self, grid: LossGrid, first: int, masses: Array, missing: float) -> None:
        self._grid, self._masses, self._missing = grid, masses, missing
        last = first + len(self._masses) - 1
        self._pad = max(abs(first), abs(last)) + 1
        self._start = self._pad - last
        self._rounding = _ROUNDING + len(self._masses) * 2.0**-52

    def __call__(self, values: Array) -> Array:
        padded = self._grid.padded(values, self._pad)
        reached = padded[self._start : self._start + self._grid.size + len(self._masses) - 1]
        total = np.convolve(reached, self._masses, mode="valid") + self._missing
        return np.minimum(total * (1 + self._rounding), 1.0)


def _shifts(grid: LossGrid, up: float, down: float) -> tuple[Shift, Shift]:
    """The shifts of both outcomes, weighted by their probabilities."""
    up, down = grid.outward(up), grid.outward(down)
    first, second = probabilities(up, down)
    return grid.shift(up, weight=first), grid.shift(down, weight=second)
