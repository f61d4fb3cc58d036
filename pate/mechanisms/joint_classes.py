"""The sequences of k indices, in classes that are decided by their worst place, without listing the sequences.

The loss of a sequence s is max over i of c(i) - h(s_i), where c are the counts h in falling order. All sequences of a
class have the same loss, and the number of them is a product of k factors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pate.mechanisms.ranking import stable_sort

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

NEGLIGIBLE = 60.0
"""Minus the logarithm of the weight, relative to that of the best sequence alone, below which losses are cut off."""
_LEVELS = 96


@dataclass(frozen=True, eq=False)
class JointClasses:
    """Classes of the sequences of k distinct ranks, rank 0 being that of the largest count.

    A class (i, first, last) holds the sequences whose worst place is position i, with a rank in first..last - 1 there.
    Of several worst places the first position decides. One class more, at loss 0, holds the sequence 0, 1, …, k - 1.

    Attributes:
        falling: `[Q, d]` counts in falling order.
        rows: `[n]` position i of each class; k for the sequence of the k best.
        first: `[n]` the first rank of each class.
        last: `[n]` the last one, exclusive.
        order: `[Q, n]` the classes by rising loss, the last position first among equal losses.
        losses: `[Q, n]` of the classes in this order.
        log_sizes: `[Q, n]` logarithms of how many sequences each holds, in this order.
    """

    falling: Counts
    rows: Counts
    first: Counts
    last: Counts
    order: Counts
    losses: Counts
    log_sizes: Array

    @classmethod
    def all(cls, falling: Counts, k: int) -> JointClasses:
        """Every class, one for each position and rank: k d of them, for a batch `[Q, d]`."""
        return cls._of(falling, *_all_places(falling.shape[1], k))

    @classmethod
    def likely(cls, falling: Counts, k: int, *, weight: float) -> JointClasses:
        """The classes of one histogram `[1, d]` that weigh anything, one for each position and distinct count.

        Those left out have a loss l such that all of them together weigh, by exp(-weight l), less than exp(-60) times
        the best sequence.
        """
        counts = falling[0]
        starts = np.flatnonzero(np.diff(counts, prepend=counts[0] + 1))
        ends, values = np.append(starts[1:], len(counts)), counts[starts]
        positions = np.arange(k)[::-1]
        begin = np.searchsorted(ends, positions + 1, side="right")  # the run of the next rank
        stop = np.searchsorted(-values, _cut(counts, k, weight) - counts[positions], side="right")
        lengths = np.maximum(stop - begin, 0)
        rows = np.repeat(positions, lengths)
        runs = np.arange(lengths.sum()) + np.repeat(begin - np.cumsum(lengths) + lengths, lengths)
        return cls._of(falling, *_with_the_best(k, rows, np.maximum(starts[runs], rows + 1), ends[runs]))

    @classmethod
    def _of(
        cls, falling: Counts, rows: Counts, first: Counts, last: Counts, steps: Array, parts: Array
    ) -> JointClasses:
        losses = falling[:, np.minimum(rows, first)] - falling[:, first]
        order, losses = stable_sort(losses)
        before = np.cumsum(steps[order], axis=1) - steps[order]
        return cls(falling, rows, first, last, order, losses, before + parts[order])

    def members(self, chosen: NDArray[np.int64], rng: np.random.Generator) -> Counts:
        """A uniform sequence of one class of each histogram: `[Q, k]` ranks, from indices `[Q]` into the order."""
        at = np.arange(len(chosen))
        places = self.order[at, chosen]
        rows, k = self.rows[places], int(self.rows[0])
        ranks = rng.integers(self.first[places], self.last[places])
        reach = self._reach(rows, self.losses[at, chosen], k)
        width = max(int(reach.max()), int(ranks.max()) + 1)
        left = np.tile(np.arange(width), (len(chosen), 1))
        for position in range(k):  # ranks already used stand before `position`; those in reach stay in reach
            picked = np.where(rows == position, ranks, rng.integers(position, reach[:, position]))
            left[at, picked], left[at, position] = left[at, position], left[at, picked]
        return left[:, :k]

    def _reach(self, rows: Counts, losses: Counts, k: int) -> Counts:
        """How many of the best ranks may stand at each position: `[Q, k]`; fewer before the position that decides."""
        floors = self.falling[:, :k] - (losses[:, None] - (np.arange(k) <= rows[:, None]))
        if len(floors) == 1:
            reach = np.searchsorted(-self.falling[0], -floors, side="right")
        else:
            reach = (self.falling[:, None, :] >= floors[:, :, None]).sum(axis=2)
        return np.maximum(reach, np.arange(1, k + 1))


def count_by_loss(falling: Counts, k: int) -> dict[int, int]:
    """How many sequences of k ranks have each loss, exactly, for counts `[d]` in falling order."""
    losses = np.unique(np.maximum(falling[:k, None] - falling, 0))
    reach = np.searchsorted(-falling, losses[:, None] - falling[:k], side="right")  # [losses, k]
    totals = [math.prod(max(0, n - used) for used, n in enumerate(row)) for row in reach.tolist()]
    sizes = [total - before for total, before in zip(totals, [0, *totals], strict=False)]
    return {loss: size for loss, size in zip(losses.tolist(), sizes, strict=True) if size}


@lru_cache(maxsize=32)
def _all_places(num_indices: int, k: int) -> tuple[Counts, Counts, Counts, Array, Array]:
    rows, first = np.triu_indices(k, 1, num_indices)
    last_row_first = np.argsort(-rows, kind="stable")
    rows, first = rows[last_row_first], first[last_row_first]
    return _with_the_best(k, rows, first, first + 1)


def _with_the_best(k: int, rows: Counts, first: Counts, last: Counts) -> tuple[Counts, Counts, Counts, Array, Array]:
    """Adds the class of the k best; also by how much each class grows the total of those before, and its part of it."""
    steps, parts = np.log((last - rows) / (first - rows)), np.log((last - first) / (first - rows))
    rows, first, last = (np.concatenate([[best], x]) for best, x in zip((k, 0, 1), (rows, first, last), strict=True))
    return rows, first, last, np.concatenate([[0.0], steps]), np.concatenate([[0.0], parts])


def _cut(falling: Counts, k: int, weight: float) -> int:
    """The loss above which all sequences together are negligible."""
    largest = int(falling[0] - falling[-1])
    levels = np.unique(np.append(np.geomspace(1, max(largest, 1), _LEVELS).astype(np.int64), [0, largest]))
    reach = np.searchsorted(-falling, levels[:, None] - falling[:k], side="right")
    log_totals = np.log(reach - np.arange(k)).sum(axis=1)
    above = log_totals[1:] - weight * (levels[:-1] + 1.0)  # of losses in (level, next level]
    tails = np.append(np.logaddexp.accumulate(above[::-1])[::-1], -np.inf)
    return int(levels[np.flatnonzero(tails < -NEGLIGIBLE)[0]])
