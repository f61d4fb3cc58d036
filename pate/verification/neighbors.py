"""All neighboring histograms of a small instance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency
from pate.validation import require, require_count

Counts = NDArray[np.int64]
Indices = NDArray[np.int64]

_MOST_PAIRS = 5_000_000


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Ordered pairs of different neighboring histograms; where (h, h') is one, so is (h', h)."""

    histograms: Counts  # [H, L] all of the instance, one each
    first: Indices  # [P] rows of `histograms`
    second: Indices  # [P] rows of the neighbors

    def __len__(self) -> int:
        return len(self.first)

    @property
    def pairs(self) -> tuple[Counts, Counts]:
        """Both histograms of every pair: `[P, L]` each."""
        return self.histograms[self.first], self.histograms[self.second]

    def up_to_names(self) -> Neighbors:
        """One pair of each kind, for distributions that treat labels alike and break ties by the lowest index.

        Such a distribution is a function of the sorted counts whose outcomes are then renamed from ranks to labels. So
        a pair's divergences depend on both sorted histograms and on the rank in the second of each rank in the first;
        pairs that agree in these are one kind. About 1 in 7 pairs of 4 labels and 6 teachers is left.
        """
        order = np.argsort(-self.histograms, axis=1, kind="stable")  # [H, L] label at each rank
        rank = np.argsort(order, axis=1)
        falling = np.take_along_axis(self.histograms, order, axis=1)
        sorted_rows = np.unique(falling, axis=0, return_inverse=True)[1].reshape(-1)
        moved = np.take_along_axis(rank[self.second], order[self.first], axis=1)  # [P, L]
        code = sorted_rows[self.first] * len(falling) + sorted_rows[self.second]
        for column in moved.T:
            code = code * falling.shape[1] + column
        unsorted = (order[self.first] != np.arange(falling.shape[1])).any(axis=1)
        preferred = np.argsort(unsorted, kind="stable")  # few different histograms remain if the first is sorted
        kept = np.sort(preferred[np.unique(code[preferred], return_index=True)[1]])
        return Neighbors(self.histograms, self.first[kept], self.second[kept])


def all_histograms(num_labels: int, num_teachers: int) -> Counts:
    """Every histogram that `num_teachers` vote vectors of bits can have: `[H, L]`.

    Args:
        num_labels: L, small: there are (T + 1)^L of them.
        num_teachers: T.
    """
    ranges = [np.arange(num_teachers + 1)] * num_labels
    return np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, num_labels)


def neighbors(num_labels: int, num_teachers: int, adjacency: Adjacency, *, one_vote: bool = False) -> Neighbors:
    """Every ordered pair of neighboring histograms that differ.

    Args:
        num_labels: L.
        num_teachers: T; under add/remove, the larger of the two numbers.
        adjacency: replace-one: one teacher's votes change arbitrarily. Add/remove: one teacher's votes are absent, or
            come back; the pairs are the same whether T is said to change or not.
        one_vote: whether each teacher votes for exactly one label; else for any set of labels.

    Raises:
        InvalidValue: more than 5 million pairs.

    >>> pairs = neighbors(1, 2, Adjacency.ADD_REMOVE)
    >>> [(int(h[0]), int(other[0])) for h, other in zip(*pairs.pairs)]
    [(1, 0), (2, 1), (0, 1), (1, 2)]
    """
    require_count("num_labels", num_labels)
    require_count("num_teachers", num_teachers)
    adjacency = Adjacency.parse(adjacency)
    pairs = (3 * num_teachers + 1) ** num_labels
    require(pairs <= _MOST_PAIRS, "num_labels, num_teachers", f"{num_labels}, {num_teachers}", "a smaller instance")
    if one_vote:
        return _single_votes(num_labels, num_teachers, adjacency)
    # Labels are independent: one teacher's old and new bit, and a count in 0..T-1 from the others. With replace-one
    # both bits are free; with add/remove the new bit is 0.
    bits = [(0, 0), (1, 0), (0, 1), (1, 1)] if adjacency == Adjacency.REPLACE_ONE else [(0, 0), (1, 0)]
    one_label = np.array(sorted({(rest + old, rest + new) for rest in range(num_teachers) for old, new in bits}))
    first = second = np.zeros(1, dtype=np.int64)
    for _ in range(num_labels):
        first = (first[:, None] * (num_teachers + 1) + one_label[:, 0]).ravel()
        second = (second[:, None] * (num_teachers + 1) + one_label[:, 1]).ravel()
    return _both_ways(all_histograms(num_labels, num_teachers), first, second)


def _single_votes(num_labels: int, num_teachers: int, adjacency: Adjacency) -> Neighbors:
    """Counts that sum to T (and, under add/remove, to T - 1); one vote moves or goes."""
    everything = all_histograms(num_labels, num_teachers)
    totals = everything.sum(axis=1)
    base = (num_teachers + 1) ** np.arange(num_labels)[::-1]
    full = np.flatnonzero(totals == num_teachers)
    firsts, seconds = [], []
    for old in range(num_labels):
        holders = full[everything[full, old] > 0]
        news = [new for new in range(num_labels) if new != old] if adjacency == Adjacency.REPLACE_ONE else [None]
        for new in news:
            firsts.append(holders)
            seconds.append(holders - base[old] + (0 if new is None else base[new]))
    empty = [np.zeros(0, dtype=np.int64)]
    first, second = np.concatenate(empty + firsts), np.concatenate(empty + seconds)
    kept = np.unique(np.concatenate([full, first, second]))
    return _both_ways(everything[kept], np.searchsorted(kept, first), np.searchsorted(kept, second))


def _both_ways(histograms: Counts, first: Indices, second: Indices) -> Neighbors:
    """The pairs that differ and their reverses, each once."""
    codes = np.concatenate([first * len(histograms) + second, second * len(histograms) + first])
    _, places = np.unique(codes, return_index=True)
    one, other = np.concatenate([first, second]), np.concatenate([second, first])
    kept = np.sort(places[one[places] != other[places]])
    return Neighbors(histograms, one[kept], other[kept])
