"""The ranking of the labels of each query by their vote counts, with the gaps between the sorted counts."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from pate.array_types import BoolArray, IntArray


@dataclass(frozen=True)
class VoteRanking:
    """The labels of each query in falling order of their counts. Of equal counts the lower index ranks first.

    Shapes: Q is the number of queries, L the number of labels.

    Attributes:
        rank_keys_of_labels: numbers in label order, `[Q, L]`, distinct within a query; a larger key is a better rank.
        falling_rank_keys: the keys in falling order, `[Q, L]`.
        num_labels: the number of labels L.
    """

    rank_keys_of_labels: IntArray
    falling_rank_keys: IntArray
    num_labels: int

    @classmethod
    def from_counts(cls, counts: IntArray) -> Self:
        """Returns the ranking of the labels of each query, from counts `[Q, L]`."""
        # Count and index share one integer, because a sort is faster than an argsort.
        num_labels = counts.shape[1]
        rank_keys_of_labels = counts * num_labels + np.arange(num_labels - 1, -1, -1)
        falling_rank_keys = np.sort(rank_keys_of_labels, axis=1)[:, ::-1]
        return cls(
            rank_keys_of_labels=rank_keys_of_labels,
            falling_rank_keys=falling_rank_keys,
            num_labels=num_labels,
        )

    @property
    def num_queries(self) -> int:
        """The number of queries Q."""
        return len(self.rank_keys_of_labels)

    @cached_property
    def sorted_counts(self) -> IntArray:
        """The counts of each query in falling order, `[Q, L]`."""
        return self.falling_rank_keys // self.num_labels

    def gaps(self, *, with_outer_gaps: bool, num_teachers: int) -> IntArray:
        """Returns the gap c_(k) - c_(k+1) of the sorted counts for each k.

        Args:
            with_outer_gaps: False for k = 1..L-1, which returns `[Q, L - 1]`. True for k = 0..L, which returns
                `[Q, L + 1]`; then c_(0) is `num_teachers` and c_(L+1) is 0.
            num_teachers: the number of teachers T, which only the outer gaps need.
        """
        if with_outer_gaps:
            return np.asarray(-np.diff(self.sorted_counts, axis=1, prepend=num_teachers, append=0))
        return np.asarray(self.sorted_counts[:, :-1] - self.sorted_counts[:, 1:])

    def top(self, k: IntArray) -> BoolArray:
        """Returns bits `[Q, L]` that mark the k labels with the largest counts of each query, for k `[Q]` in 0..L."""
        last_top_keys = self.falling_rank_keys[np.arange(len(k)), np.maximum(k, 1) - 1]
        return np.asarray((self.rank_keys_of_labels >= last_top_keys[:, None]) & (k > 0)[:, None])
