"""The sequences of k indices, in classes that are decided by their worst place, without listing the sequences.

The loss of a sequence s is max over i of c(i) - h(s_i), where c are the counts h in falling order. All sequences of a
class have the same loss, and the number of them is a product of k factors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from pate.mechanisms.ranking import stable_sort

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

NEGLIGIBLE = 62.0
"""Minus the logarithm of the weight, relative to all sequences, below which losses are cut off at either end."""
_COARSE, _FINE = 32, 48


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
        window: losses in (low, high] are all there; (-1, largest) where nothing was left out.
    """

    falling: Counts
    rows: Counts
    first: Counts
    last: Counts
    order: Counts
    losses: Counts
    log_sizes: Array
    window: tuple[int, int]

    @classmethod
    def all(cls, falling: Counts, k: int) -> JointClasses:
        """Every class, one for each position and rank: k d of them, for a batch `[Q, d]`."""
        largest = int((falling[:, 0] - falling[:, -1]).max())
        return cls._of(falling, *_all_places(falling.shape[1], k), window=(-1, largest))

    @classmethod
    def likely(cls, falling: Counts, k: int, *, weight: float) -> JointClasses:
        """The classes of one histogram `[1, d]` that weigh anything, one for each position and distinct count.

        Those left out have losses l, smaller or larger than the others, such that all of them together weigh, by
        exp(-weight l), less than exp(-61) times all sequences. The best sequence is always there.
        """
        low, high, log_below = _window(falling[0], k, weight)
        return cls._within(falling, k, low, high, log_below)

    @classmethod
    def runs(cls, falling: Counts, k: int) -> JointClasses:
        """All classes of one histogram `[1, d]`, one for each position and distinct count."""
        return cls._within(falling, k, -1, int(falling[0, 0] - falling[0, -1]), 0.0)

    @classmethod
    def _within(cls, falling: Counts, k: int, low: int, high: int, log_below: float) -> JointClasses:
        counts = falling[0]
        starts = np.flatnonzero(np.diff(counts, prepend=counts[0] + 1))
        ends, values = np.append(starts[1:], len(counts)), counts[starts]
        positions = np.arange(k)[::-1]
        stop, seen = (np.searchsorted(-values, loss - counts[positions], side="right") for loss in (high, low))
        begin = np.maximum(np.searchsorted(ends, positions + 1, side="right"), seen)  # the run of the next rank, or on
        lengths = np.maximum(stop - begin, 0)
        rows = np.repeat(positions, lengths)
        runs = np.arange(lengths.sum()) + np.repeat(begin - np.cumsum(lengths) + lengths, lengths)
        places = _with_the_best(k, rows, np.maximum(starts[runs], rows + 1), ends[runs], log_below=log_below)
        return cls._of(falling, *places, window=(low, high))

    @classmethod
    def _of(
        cls,
        falling: Counts,
        rows: Counts,
        first: Counts,
        last: Counts,
        steps: Array,
        parts: Array,
        *,
        window: tuple[int, int],
    ) -> JointClasses:
        losses = falling[:, np.minimum(rows, first)] - falling[:, first]
        order, losses = stable_sort(losses)
        before = np.cumsum(steps[order], axis=1) - steps[order]
        return cls(falling, rows, first, last, order, losses, before + parts[order], window)

    @property
    def error(self) -> float:
        """How far a logarithm can be off: each is a running sum."""
        return float((self.log_sizes.shape[1] + 8) * 2.0**-52 * (1 + np.abs(self.log_sizes).max()))

    def sizes(self, row: int) -> Iterator[int]:
        """How many sequences each class of one histogram holds, exactly, in its order: numbers of many digits."""
        k, low = int(self.rows[0]), self.window[0]
        total = 1 if low < 0 else _count_up_to(low, self.falling[row], k)
        for place in self.order[row].tolist():
            position, first, last = (int(ranks[place]) for ranks in (self.rows, self.first, self.last))
            size = 1 if place == 0 else total * (last - first) // (first - position)
            yield size
            total += size if place else 0

    def size(self, row: int, place: int) -> int:
        """That of one class: all of a million at once do not fit into memory."""
        return next(islice(self.sizes(row), place, None))

    def after(self, window: JointClasses) -> tuple[JointClasses, Counts]:
        """All classes of one histogram with those of a window first, in its order; also where each was before."""
        low, high = window.window
        inside = (self.order[0] == 0) | ((self.losses[0] > low) & (self.losses[0] <= high))
        places = np.argsort(~inside, kind="stable")
        parts = {name: getattr(self, name)[:, places] for name in ("order", "losses", "log_sizes")}
        return replace(self, **parts), places

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


def _count_up_to(loss: int, falling: Counts, k: int) -> int:
    """How many sequences of k ranks have at most that loss, exactly."""
    reach = np.searchsorted(-falling, loss - falling[:k], side="right")
    return math.prod(n - used for used, n in enumerate(reach.tolist()))


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


def _with_the_best(
    k: int, rows: Counts, first: Counts, last: Counts, *, log_below: float = 0.0
) -> tuple[Counts, Counts, Counts, Array, Array]:
    """Adds the class of the k best; also by how much each class grows the total of those before, and its part of it.

    The first of the others finds a total of exp(log_below).
    """
    steps, parts = np.log((last - rows) / (first - rows)), np.log((last - first) / (first - rows))
    rows, first, last = (np.concatenate([[best], x]) for best, x in zip((k, 0, 1), (rows, first, last), strict=True))
    return rows, first, last, np.concatenate([[log_below], steps]), np.concatenate([[0.0], parts])


def _window(falling: Counts, k: int, weight: float) -> tuple[int, int, float]:
    """Losses (low, high], all sequences outside being negligible, and the logarithm of how many have up to low."""
    largest = int(falling[0] - falling[-1])
    levels = np.append(np.geomspace(1, max(largest, 1), _COARSE).astype(np.int64), [0, largest])
    low, high, _ = _window_among(np.unique(levels), falling, k, weight)
    levels = np.append(levels, np.linspace(max(low, 0), high, _FINE).astype(np.int64))
    return _window_among(np.unique(levels), falling, k, weight)


def _window_among(levels: Counts, falling: Counts, k: int, weight: float) -> tuple[int, int, float]:
    """The same with ends among some losses, from the least to the largest."""
    reach = np.searchsorted(-falling, levels[:, None] - falling[:k], side="right")
    log_totals = np.log(reach - np.arange(k)).sum(axis=1)
    negligible = (log_totals - weight * levels).max() - NEGLIGIBLE  # all sequences up to a level weigh at least that
    parts = log_totals[1:] - weight * (levels[:-1] + 1.0)  # of losses in (level, next level], at most
    tails = np.append(np.logaddexp.accumulate(parts[::-1])[::-1], -np.inf)
    heads = np.logaddexp.accumulate(np.append(log_totals[0], parts))
    high = int(levels[np.flatnonzero(tails < negligible)[0]])
    if heads[0] >= negligible:
        return -1, high, 0.0
    last = np.flatnonzero(heads < negligible)[-1]
    return int(levels[last]), high, float(log_totals[last])
