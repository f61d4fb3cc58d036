"""Many steps, in blocks: the adversary's best play within a block, and blocks composed as the pairs above them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pate.accounting.exact.block import Block
from pate.accounting.exact.composition_step import CompositionStep, composition_step, repeated_block
from pate.accounting.exact.dominating_pairs import Box, DominatingPairs, SampledPair, Span
from pate.accounting.exact.loss_grid import LossGrid, MirroredGrid, rounded_spacing
from pate.accounting.winner.tree import Winner

Array = NDArray[np.float64]
Steps = tuple[tuple[DominatingPairs, int], ...]
Run = tuple[DominatingPairs, ...]

CAPACITY = 720
"""Of a block, in quarters of a step: enough that it gives away little, with many divisors, as releases repeat."""
MOST_CONVOLVED = 6000
"""Points up to the reach where the losses of a fixed pair are summed: a second's work at most."""
_ENORMOUS = 30.0
_COST, _COST_OF_A_WINNER = 4, 10
_WIDENING = 3e-4  # of the variance of all losses: what the wider spacing between blocks may add
_DEVIATIONS = 9.2
_LOGARITHM = 42.0  # of the mass beyond the largest loss of a block


def composed_in_blocks(steps: Steps, *, spacing: float, reach: float, negligible: float) -> Block:
    """The pair above all steps, in this order.

    Args:
        steps: families of pairs and how often each is taken.
        spacing: of the grid on which a block's best play is found.
        reach: the largest epsilon of interest.
        negligible: a delta for each step that is too small to matter.
    """
    runs = Counter(_runs(steps))
    fixed = [(pairs, times) for pairs, times in steps if isinstance(pairs, SampledPair)]
    negligible = 10.0 ** math.floor(math.log10(negligible))  # the same for similar counts
    variance = math.fsum(times * pairs.variance for pairs, times in steps)
    number = runs.total() + sum(times for _, times in fixed)
    coarser = max(int(math.sqrt(4 * _WIDENING * variance / number) / spacing), 1)
    if fixed:
        coarser = max(coarser, math.ceil(reach / spacing / MOST_CONVOLVED))
    most = math.ceil(reach / spacing / coarser) + 1
    made: Block | None = None
    for run, block in _blocks(runs, spacing, coarser, reach, negligible).items():
        block = block.power(runs[run], most=most)
        made = block if made is None else made.times(block, most=most)
    between = LossGrid(first=0, size=most, spacing=coarser * rounded_spacing(spacing))
    for pair, times in fixed:
        block = repeated_block(pair, between, negligible=negligible, times=times)
        made = block if made is None else made.times(block, most=most)
    if made is None:
        raise ValueError("steps: expected at least one")
    return made


def cost(steps: Steps) -> int:
    """How long the steps take one by one, in the units of `CAPACITY`."""
    return sum(times * _cost(pairs) for pairs, times in steps)


def work(steps: Steps) -> int:
    """How long it takes to compose the steps, in the same units: blocks that come again take none."""
    if cost(steps) <= CAPACITY or has_rare_losses(steps):
        return cost(steps)
    return sum(sum(map(_cost, run)) for run in set(_runs(steps)))


def has_rare_losses(steps: Steps) -> bool:
    """Whether losses are possible that are enormous beside the usual ones: there blocks give away much."""
    return any(_largest(pairs) > _ENORMOUS * math.sqrt(pairs.variance) for pairs, _ in steps)


def _cost(pairs: DominatingPairs) -> int:
    if isinstance(pairs, SampledPair):
        return 0  # the steps of a fixed pair are one convolution
    return _COST_OF_A_WINNER if isinstance(pairs, Winner) else _COST


def _runs(steps: Steps) -> Iterable[Run]:
    """Consecutive steps, as many at a time as a block holds; those of a fixed pair need none."""
    run: list[DominatingPairs] = []
    left = CAPACITY
    for pairs, times in steps:
        while times > 0 and not isinstance(pairs, SampledPair):
            some = min(times, max(left // _cost(pairs), 1))
            run += [pairs] * some
            left, times = left - some * _cost(pairs), times - some
            if left <= 0:
                yield tuple(run)
                run, left = [], CAPACITY
    if run:
        yield tuple(run)


def _blocks(runs: Iterable[Run], spacing: float, coarser: int, reach: float, negligible: float) -> dict[Run, Block]:
    """A block for each run; one that another run ends with is read off on the way."""
    made: dict[Run, Block] = {}
    waiting = sorted(runs, key=len)
    while waiting:
        longest = waiting.pop()
        if longest in made:
            continue
        grid = _grid(longest, spacing, reach)
        ends = {len(run): run for run in waiting if longest[len(longest) - len(run) :] == run} | {len(longest): longest}
        profiles = _profiles(longest, grid, negligible)
        made |= {
            run: Block.above(profiles[count - 1][::coarser], coarser * grid.spacing) for count, run in ends.items()
        }
    return made


@lru_cache(maxsize=6)
def _profiles(run: Run, grid: MirroredGrid, negligible: float) -> Array:
    """The profiles of the last 1, 2, … steps at 0 and above, `[steps, size]`; kept, as other counts need them, too."""
    steps: dict[DominatingPairs, CompositionStep] = {}
    values = np.zeros(grid.size)
    made = np.empty((len(run), grid.size))
    for place, pairs in enumerate(reversed(run)):
        if pairs not in steps:
            steps[pairs] = composition_step(pairs, grid, negligible=negligible)
        made[place] = values = steps[pairs](values)
    return made


def _grid(run: Run, spacing: float, reach: float) -> MirroredGrid:
    """As far as the losses of a run reach but for a tiny share, which counts as infinite."""
    far = _DEVIATIONS * math.sqrt(math.fsum(pairs.variance for pairs in run))
    beyond = max(_largest(pairs) - 2 * math.sqrt(pairs.variance) for pairs in run)
    far += max(_LOGARITHM / 3 * beyond, 0.0)
    return MirroredGrid(first=0, size=math.ceil(min(far, reach) / spacing) + 3, spacing=rounded_spacing(spacing))


def _largest(pairs: DominatingPairs) -> float:
    return pairs.up if isinstance(pairs, Box) else pairs.length if isinstance(pairs, Span) else 0.0
