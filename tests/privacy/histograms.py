"""All neighboring histograms of small instances, and the gaps and top-k sets that a top-k release depends on."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pate import testing
from pate.accounting import Adjacency
from pate.array_types import BoolArray, IntArray
from pate.testing import all_histograms

__all__ = ["GapPairs", "all_histograms", "gap_pairs", "gaps_of", "neighbors", "top_sets"]


def neighbors(
    num_labels: int, num_teachers: int, adjacency: Adjacency
) -> tuple[IntArray, IntArray]:
    """Returns every ordered pair of different neighboring histograms, as two arrays `[num_pairs, num_labels]`."""
    return testing.neighbors(num_labels, num_teachers, adjacency).pairs


def top_sets(counts: IntArray) -> IntArray:
    """Returns the k labels with the largest of L counts as a bit mask, for k = 0..L and H histograms: `[H, L + 1]`.

    Of equal counts the lower index is larger.
    """
    order = np.argsort(-counts, axis=1, kind="stable")
    return np.pad(np.cumsum(1 << order, axis=1), ((0, 0), (1, 0)))


class GapPairs(NamedTuple):
    """Pairs of neighbors, by all that decides a top-k release: the gaps, and which top-k sets agree, `[N, n]` each.

    The distribution of k depends on the gaps alone, and so does the probability that the set of the k best is released.
    Two histograms can release the same set only for the same k. So gaps and agreement determine both distributions up
    to the names of the outcomes.
    """

    first: IntArray  # the gap of each candidate k
    second: IntArray  # the same of the neighbor
    same_set: BoolArray  # whether the k best labels are the same


def gaps_of(counts: IntArray, *, num_teachers: int, padded: bool) -> IntArray:
    """Returns the gaps between the L counts of H histograms in falling order, `[H, L - 1]`.

    If `padded`, `num_teachers` stands before the counts and 0 after them, and the gaps are `[H, L + 1]`.
    """
    falling = np.pad(-np.sort(-counts, axis=1), ((0, 0), (1, 1)))
    falling[:, 0] = num_teachers
    gaps = falling[:, :-1] - falling[:, 1:]
    return gaps if padded else gaps[:, 1:-1]


@lru_cache(maxsize=64)
def gap_pairs(
    num_labels: int, num_teachers: int, adjacency: Adjacency, *, padded: bool
) -> GapPairs:
    """Returns the gaps of all pairs of neighboring histograms; pairs with equal gaps and agreements are listed once."""
    first_counts, second_counts = neighbors(
        num_labels=num_labels, num_teachers=num_teachers, adjacency=adjacency
    )
    has_same_set = top_sets(first_counts) == top_sets(second_counts)
    gaps = [
        gaps_of(counts, num_teachers=num_teachers, padded=padded)
        for counts in (first_counts, second_counts)
    ]
    columns = np.unique(
        np.concatenate([*gaps, has_same_set if padded else has_same_set[:, 1:-1]], axis=1), axis=0
    )
    parts = np.split(columns, 3, axis=1)
    return GapPairs(first=parts[0], second=parts[1], same_set=parts[2].astype(bool))
