"""Privacy profiles: delta as a function of epsilon for a sequence of steps, composed optimally on a grid.

V_0(x) = max(0, 1 - exp(x)); each step replaces V by the largest expectation of V(x - loss) over the pairs that the step
allows, and delta(epsilon) is the last V at epsilon: the adversary picks neighbors adaptively, and this is its best.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pate.accounting.exact.blocks import CAPACITY, MOST_CONVOLVED, composed_in_blocks, cost, has_rare_losses
from pate.accounting.exact.composition_step import CompositionStep, composition_step, repeated_step
from pate.accounting.exact.dominating_pairs import Box, DominatingPairs, SampledPair, Span
from pate.accounting.exact.loss_grid import LossGrid, rounded_spacing

Array = NDArray[np.float64]
Steps = tuple[tuple[DominatingPairs, int], ...]

_WIDENING = 3e-3  # of the variance of all losses: what interpolation may add
_POINTS_PER_REACH = 2000
_MOST_POINTS = 200_000
_LEFT_SHARE = 0.25  # of the reach: how far left of 0 the grid begins at least
_FEW_STEPS = 10  # so few may move delta by much at once: the grid then begins as far left as it ends right
_NEGLIGIBLE = 1e-3  # of the smallest delta


@dataclass(frozen=True, eq=False)
class Profile:
    """Upper bounds for delta on the points of a grid, and between them by convexity in exp(epsilon).

    Attributes:
        grid: the epsilons.
        values: `[size]` the deltas.
    """

    grid: LossGrid
    values: Array

    def delta(self, epsilon: float) -> float:
        """The delta at an epsilon >= 0."""
        return self.grid.at(self.values, epsilon)

    def epsilon(self, delta: float) -> float:
        """Where the values fall to `delta`; 0 where they are there from the start, infinity where never."""
        above = np.flatnonzero((self.values > delta) & (np.arange(self.grid.size) + self.grid.first >= 0))
        if above.size == 0:
            return 0.0
        last = int(above[-1])
        if last + 1 == self.grid.size:
            return math.inf
        share = float((self.values[last] - delta) / (self.values[last] - self.values[last + 1]))
        return (self.grid.first + last) * self.grid.spacing + math.log1p(share * math.expm1(self.grid.spacing))


@lru_cache(maxsize=16)
def composed(steps: Steps, *, reach: float, smallest_delta: float, in_blocks: bool = True) -> Profile:
    """The profile of steps taken in this order; remembered, as the same release is priced again and again.

    Args:
        steps: families of pairs and how often each is taken, at least once in all.
        reach: the epsilon at which the grid ends.
        smallest_delta: of interest; errors far below it are allowed for speed.
        in_blocks: whether many steps may be composed in blocks, which gives away a little.
    """
    num_steps = sum(times for _, times in steps)
    negligible = _NEGLIGIBLE * smallest_delta / num_steps
    if in_blocks and cost(steps) > CAPACITY and not has_rare_losses(steps):
        spacing = _aligned(_narrow(steps, num_steps), steps)
        block = composed_in_blocks(steps, spacing=spacing, reach=reach, negligible=negligible)
        deltas = block.profile()[len(block.masses) // 2 :]
        return Profile(LossGrid(first=0, size=len(deltas), spacing=block.spacing), np.minimum(deltas, 1.0))
    grid = _grid(steps, reach, num_steps)
    made: dict[DominatingPairs, CompositionStep] = {}
    values = -np.expm1(np.minimum(grid.points, 0.0))
    for pairs, times in reversed(steps):
        if isinstance(pairs, SampledPair):
            values = repeated_step(pairs, grid, negligible=negligible, times=times)(values)
            continue
        if pairs not in made:
            made[pairs] = composition_step(pairs, grid, negligible=negligible)
        for _ in range(times):
            values = made[pairs](values)
    return Profile(grid, values)


def largest_loss(steps: Steps) -> float:
    """The sum of the largest losses of all steps: beyond it delta is 0."""
    return math.fsum(times * _largest(pairs) for pairs, times in steps)


def _grid(steps: Steps, reach: float, num_steps: int) -> LossGrid:
    """Spaced so that interpolation widens the losses little, and that the widest steps move by whole points."""
    spacing = min(reach / _POINTS_PER_REACH, _narrow(steps, num_steps))
    convolved = any(isinstance(pairs, SampledPair) for pairs, _ in steps)
    spacing = _aligned(max(spacing, reach / (MOST_CONVOLVED if convolved else _MOST_POINTS)), steps)
    left_share = min(max(_LEFT_SHARE, _FEW_STEPS / num_steps), 1.0)
    first = -math.ceil(left_share * reach / spacing) - 1
    return LossGrid(first=first, size=math.ceil(reach / spacing) + 3 - first, spacing=spacing)


def _narrow(steps: Steps, num_steps: int) -> float:
    """The widest spacing at which interpolation adds little."""
    variance = math.fsum(times * pairs.variance for pairs, times in steps)
    return math.sqrt(4 * _WIDENING * variance / num_steps)


def _aligned(spacing: float, steps: Steps) -> float:
    """About this spacing, one that divides the widest steps."""
    spacing = rounded_spacing(spacing)
    weights: dict[float, float] = {}
    for pairs, times in steps:
        if (length := _length(pairs)) >= spacing:
            weights[length] = weights.get(length, 0.0) + times * length * length
    if weights:
        length = max(weights, key=weights.__getitem__)
        spacing = rounded_spacing(length / (2 * math.ceil(length / (2 * spacing))))
    return spacing


def _largest(pairs: DominatingPairs) -> float:
    """The largest loss of one step."""
    return pairs.up if isinstance(pairs, Box) else pairs.length if isinstance(pairs, Span) else math.inf


def _length(pairs: DominatingPairs) -> float:
    """What should be a multiple of the spacing: the length of a span, the loss of a single pair; or 0."""
    if isinstance(pairs, Box):
        return 0.0 if pairs.halves else pairs.up
    return pairs.length if isinstance(pairs, Span) else 0.0
