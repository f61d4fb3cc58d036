"""All pairs of neighboring histograms of a small instance."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Self

import numpy as np

from pate.accounting import Adjacency
from pate.array_types import IntArray
from pate.validation import InvalidValue, require_count

# The largest number of pairs that an instance may have.
_MAX_PAIRS = 5_000_000


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class Neighbors:
    """Ordered pairs of different neighboring histograms.

    In shapes, H is the number of histograms, P the number of pairs, and L the number of labels.

    Attributes:
        histograms: the different histograms, `[H, L]`.
        first_rows: the row in `histograms` of the first histogram of each pair, `[P]`.
        second_rows: the row in `histograms` of the second histogram of each pair, `[P]`.
    """

    histograms: IntArray
    first_rows: IntArray
    second_rows: IntArray

    def __post_init__(self) -> None:
        # Instances are cached, and a change of one would reach every later verification.
        for array in (self.histograms, self.first_rows, self.second_rows):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.first_rows)

    @classmethod
    def from_rows(cls, histograms: IntArray, first_rows: IntArray, second_rows: IntArray) -> Self:
        """Returns the given pairs, and keeps only the histograms that occur in a pair.

        Args:
            histograms: `[H, L]`.
            first_rows: the row of the first histogram of each pair, `[P]`.
            second_rows: the row of the second histogram of each pair, `[P]`.
        """
        used_rows, new_rows = np.unique(
            np.concatenate([first_rows, second_rows]), return_inverse=True
        )
        new_first_rows, new_second_rows = np.split(new_rows.reshape(-1), 2)
        return cls(
            histograms=histograms[used_rows], first_rows=new_first_rows, second_rows=new_second_rows
        )

    @property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """The first histograms of all pairs, `[P, L]`, and the second histograms, `[P, L]`."""
        return self.histograms[self.first_rows], self.histograms[self.second_rows]

    @cached_property
    def up_to_names(self) -> Self:
        """The pairs that remain if one of several equivalent pairs is kept.

        Two pairs are equivalent if a permutation of the labels turns one into the other and keeps the rank of each
        label in both histograms, where the lower index of equal counts ranks first. The remaining pairs suffice for
        mechanisms that treat all labels alike and break ties by the lowest index. The reverse of a pair may be missing.
        """
        # Such a distribution is a function of the sorted counts whose outcomes are then renamed from ranks to labels.
        # So the divergences of a pair depend on both sorted histograms, and on the rank in the second of each rank in
        # the first. Pairs that agree in all of this are of one kind. About 1 in 7 pairs of 4 labels and 6 teachers is
        # left.
        histogram_rows = self.histograms
        label_at_rank = np.argsort(-histogram_rows, axis=1, kind="stable")  # [H, L]
        rank_of_label = np.argsort(label_at_rank, axis=1)
        falling_counts = np.take_along_axis(histogram_rows, label_at_rank, axis=1)
        histogram_codes = np.ravel_multi_index(
            falling_counts.T, (int(falling_counts.max(initial=0)) + 1,) * falling_counts.shape[1]
        )
        sorted_histogram_of_row = np.unique(histogram_codes, return_inverse=True)[1]
        new_rank_of_rank = np.take_along_axis(
            rank_of_label[self.second_rows], label_at_rank[self.first_rows], axis=1
        )  # [P, L]
        pair_codes = (
            sorted_histogram_of_row[self.first_rows] * len(falling_counts)
            + sorted_histogram_of_row[self.second_rows]
        )
        for column in new_rank_of_rank.T:
            pair_codes = pair_codes * falling_counts.shape[1] + column
        first_is_unsorted = (
            label_at_rank[self.first_rows] != np.arange(falling_counts.shape[1])
        ).any(axis=1)
        # pairs whose first histogram is sorted share few histograms
        pairs_by_preference = np.argsort(first_is_unsorted, kind="stable")
        kept_pairs = np.sort(
            pairs_by_preference[np.unique(pair_codes[pairs_by_preference], return_index=True)[1]]
        )
        return self.from_rows(
            self.histograms,
            first_rows=self.first_rows[kept_pairs],
            second_rows=self.second_rows[kept_pairs],
        )


def all_histograms(num_labels: int, num_teachers: int) -> IntArray:
    """Returns all histograms of L labels with counts in 0..T, `[(T + 1)^L, L]`, for T = `num_teachers`."""
    ranges = [np.arange(num_teachers + 1)] * num_labels
    return np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, num_labels)


def neighbors(
    num_labels: int, num_teachers: int, adjacency: Adjacency, *, one_vote: bool = False
) -> Neighbors:
    """Returns every ordered pair of different neighboring histograms; each pair also occurs in reverse order.

    Args:
        num_labels: the number of labels L.
        num_teachers: the number of teachers T. Under add/remove the larger histogram of a pair has T teachers.
        adjacency: replace-one, where the votes of one teacher change arbitrarily; or add/remove, where one teacher is
            added or removed.
        one_vote: whether each teacher votes for exactly one label, and not for any set of labels.

    Raises:
        InvalidValue: the instance is too large: (3T + 1)^L is more than 5 million.

    >>> pairs = neighbors(1, 2, Adjacency.ADD_REMOVE)
    >>> [(int(h[0]), int(other[0])) for h, other in zip(*pairs.pairs)]
    [(1, 0), (2, 1), (0, 1), (1, 2)]
    """
    require_count("num_labels", num_labels)
    require_count("num_teachers", num_teachers)
    is_replace_one = Adjacency.parse(adjacency) is Adjacency.REPLACE_ONE
    num_pairs = (3 * num_teachers + 1) ** num_labels
    if num_pairs > _MAX_PAIRS:
        size = f"{num_labels}, {num_teachers}"
        raise InvalidValue("num_labels, num_teachers", size, rule="a smaller instance")
    return _neighbors(num_labels, num_teachers, is_replace_one=is_replace_one, one_vote=one_vote)


@lru_cache(maxsize=32)  # a suite asks for the same few instances, once for each mechanism
def _neighbors(
    num_labels: int, num_teachers: int, *, is_replace_one: bool, one_vote: bool
) -> Neighbors:
    """Returns every ordered pair of different neighboring histograms, for valid arguments of `neighbors`.

    The adjacency is replace-one if `is_replace_one`, add/remove otherwise.
    """
    # Labels are independent: one teacher's old and new bit, and a count in 0..T-1 from the others. With replace-one
    # both bits are free; with add/remove the new bit is 0.
    bits = [(0, 0), (1, 0), (0, 1), (1, 1)] if is_replace_one else [(0, 0), (1, 0)]
    one_label = np.array(
        sorted({(rest + old, rest + new) for rest in range(num_teachers) for old, new in bits})
    )
    first_codes = second_codes = np.zeros(1, dtype=np.int64)
    for _ in range(num_labels):
        first_codes = (first_codes[:, None] * (num_teachers + 1) + one_label[:, 0]).ravel()
        second_codes = (second_codes[:, None] * (num_teachers + 1) + one_label[:, 1]).ravel()
    histograms = all_histograms(num_labels, num_teachers)
    if one_vote:
        # The counts sum to T, or to T - 1 if a teacher is removed. One vote moves or is removed.
        totals = histograms.sum(axis=1)
        second_total = num_teachers if is_replace_one else num_teachers - 1
        has_totals = (totals[first_codes] == num_teachers) & (totals[second_codes] == second_total)
        first_codes = first_codes[has_totals]
        second_codes = second_codes[has_totals]
        differs_by_one_vote = (
            np.abs(histograms[first_codes] - histograms[second_codes]).sum(axis=1) <= 2
        )
        first_codes = first_codes[differs_by_one_vote]
        second_codes = second_codes[differs_by_one_vote]
    # The pairs that differ and their reverses, each once.
    codes = np.concatenate(
        [first_codes * len(histograms) + second_codes, second_codes * len(histograms) + first_codes]
    )
    distinct_pairs = np.unique(codes, return_index=True)[1]
    first_rows = np.concatenate([first_codes, second_codes])
    second_rows = np.concatenate([second_codes, first_codes])
    has_two_histograms = first_rows[distinct_pairs] != second_rows[distinct_pairs]
    used_pairs = np.sort(distinct_pairs[has_two_histograms])
    first_rows = first_rows[used_pairs]
    second_rows = second_rows[used_pairs]
    if one_vote:
        return Neighbors.from_rows(histograms, first_rows=first_rows, second_rows=second_rows)
    return Neighbors(histograms=histograms, first_rows=first_rows, second_rows=second_rows)
