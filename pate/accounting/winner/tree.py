"""Pairs of a winner for optimal composition, in a tree: a pair above many, and below it those that it stands for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pate.accounting.winner.cover import FAR_BIT, HIGHEST_SUM, LOWEST, bits, squares
from pate.accounting.winner.pairs import FARTHEST, Pair, censored_pair, common_pair, gaussian_pair, share_below

Array = NDArray[np.float64]

_STEPS = np.array([0.0, 0.6, 1.2, 1.8, 2.6, 3.6, 5.0, FARTHEST])
_EDGES = np.append(-_STEPS[:0:-1], _STEPS)
_UP = 1 + 1e-12
_FEW = 40


@dataclass(frozen=True, eq=False)
class Winner:
    """All laws of a winner: levels of pairs, each above those that it covers one level further down.

    Attributes:
        levels: coarse to fine.
        children: for each level but the last, the places one level down of each pair's own.
    """

    levels: tuple[tuple[Pair, ...], ...]
    children: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def variance(self) -> float:
        """The largest second moment of the finest pairs: a measure, not a bound."""
        return max(pair.second_moment for pair in self.levels[-1])


@lru_cache(maxsize=16)
def winner_pairs(noise_multiplier: float, num_moving: int) -> Winner:
    """The tree for a noise multiplier > 0 and one or two counts that move."""
    shift = 1 / noise_multiplier
    if num_moving == 1:
        return _tree([*_bit_pairs(shift)])
    wide = math.sqrt(2) * shift
    rare, everything = share_below(-HIGHEST_SUM / math.sqrt(2)) * _UP, gaussian_pair(wide, _EDGES)
    high = [pair.beside(everything, share=rare) for pair in _bit_pairs(wide)]
    one = gaussian_pair(shift, _EDGES)
    low = [censored_pair(shift, -LOWEST, falls=falls).times(one) for falls in (True, False)]
    return _tree([*high, *low, *squares(shift)])


def _bit_pairs(shift: float) -> list[Pair]:
    far = [censored_pair(shift, FAR_BIT, falls=falls) for falls in (True, False)]
    return [*bits(shift), *far]


def _tree(pairs: list[Pair]) -> Winner:
    """Halves pairs by what speaks clearly for either side, again and again; upwards, a pair above four."""
    scale = max(pair.second_moment for pair in pairs) ** 0.5 / 4
    order = _near_first(
        np.array([[p.masses[p.excess > scale].sum(), p.masses[p.excess < -scale].sum()] for p in pairs])
    )
    levels, children = [tuple(pairs[i] for i in order)], list[tuple[tuple[int, ...], ...]]()
    while len(levels[0]) > _FEW:
        below = levels[0]
        runs = [tuple(range(start, min(start + 4, len(below)))) for start in range(0, len(below), 4)]
        levels.insert(0, tuple(common_pair([below[i] for i in run]) for run in runs))
        children.insert(0, tuple(runs))
    return Winner(tuple(levels), tuple(children))


def _near_first(points: Array) -> list[int]:
    """An order `[N]` of points `[N, 2]` in which runs of 4, 16, … are near each other."""
    pending, order = [np.arange(len(points))], list[int]()
    while pending:
        some = pending.pop()
        if len(some) <= 2:
            order += some.tolist()
            continue
        spread = np.ptp(points[some], axis=0)
        rank = some[np.argsort(points[some, int(spread.argmax())], kind="stable")]
        half = 2 ** (math.ceil(math.log2(len(some))) - 1)
        pending += [rank[half:], rank[:half]]
    return order
