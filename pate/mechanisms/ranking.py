"""Ranks and gaps of vote histograms: counts in falling order, ties broken by the lowest index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_LARGEST_KEY = 62  # bits


def stable_sort(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The stable rising order of each row, and the rows in this order: `[Q, n]` each, from numbers >= 0.

    Value and place share one integer where they fit: a sort is many times as fast as an argsort.
    """
    bits = values.shape[1].bit_length()
    if int(values.max()).bit_length() + bits <= _LARGEST_KEY:
        keys = np.sort((values << bits) | np.arange(values.shape[1]), axis=1)
        return keys & ((1 << bits) - 1), keys >> bits
    order = np.argsort(values, axis=1, kind="stable")
    return order, np.take_along_axis(values, order, axis=1)


def falling_order(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The indices of each row in falling order of their counts, ties to the lowest, and the counts in this order."""
    largest = counts.max(axis=1, keepdims=True)
    order, deficits = stable_sort(largest - counts)
    return order, largest - deficits


def largest_in_order(values: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """The indices of the k largest of each row `[Q, d]`, the largest first: `[Q, k]`."""
    if k == values.shape[1]:
        return np.argsort(-values, axis=1)
    indices = np.argpartition(values, values.shape[1] - k, axis=1)[:, -k:]
    order = np.argsort(-np.take_along_axis(values, indices, axis=1), axis=1)
    return np.take_along_axis(indices, order, axis=1)


@dataclass(frozen=True)
class Ranking:
    """The labels of each query in falling order of their counts.

    Attributes:
        keys: `[Q, L]` distinct numbers in label order; a larger key is a better rank.
        sorted_keys: `[Q, L]` the same in falling order.
        num_labels: L.
    """

    keys: NDArray[np.int64]
    sorted_keys: NDArray[np.int64]
    num_labels: int

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> Ranking:
        """Ranks `[Q, L]` counts; one sort, no argsort: count and index share one integer."""
        num_labels = counts.shape[1]
        keys = counts * num_labels + np.arange(num_labels - 1, -1, -1)
        return cls(keys, np.sort(keys, axis=1)[:, ::-1], num_labels)

    @property
    def sorted_counts(self) -> NDArray[np.int64]:
        """`[Q, L]` counts in falling order."""
        return self.sorted_keys // self.num_labels

    def gaps(self, *, padded: bool, num_teachers: int) -> NDArray[np.int64]:
        """The gap after each rank: `[Q, L - 1]` for k = 1..L-1, or padded `[Q, L + 1]` for k = 0..L.

        Padding puts `num_teachers` before the first count and 0 after the last, so that "no label" and "all labels"
        compete as well.
        """
        counts = self.sorted_counts
        if padded:
            counts = np.pad(counts, ((0, 0), (1, 1)))
            counts[:, 0] = num_teachers
        return counts[:, :-1] - counts[:, 1:]

    def top(self, k: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The k best labels of each query as bits: `[Q, L]`, k `[Q]` in 0..L."""
        last = self.sorted_keys[np.arange(len(k)), np.maximum(k, 1) - 1]
        return np.asarray((self.keys >= last[:, None]) & (k > 0)[:, None])
