"""The falling order of the counts of each histogram."""

import numpy as np

from pate.array_types import IntArray

# Keys of at most so many bits fit into int64.
_MAX_KEY_BITS = 62


def falling_order(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Sorts the counts of each histogram, `[Q, d]`, in falling order. Of equal counts the lower index comes first.

    Returns two arrays `[Q, d]`: the index of each count, and the sorted counts.
    """
    largest = counts.max(axis=1, keepdims=True)
    indices_by_count, deficits = stable_sort(largest - counts)
    return indices_by_count, largest - deficits


def stable_sort(values: IntArray) -> tuple[IntArray, IntArray]:
    """Sorts each row of numbers >= 0, `[Q, n]`, in rising order. Equal numbers keep their order.

    Returns two arrays `[Q, n]`: the column from which each number comes, and the sorted numbers.
    """
    # Where value and column fit into one integer, these integers are sorted, which is much faster than an argsort.
    column_bits = values.shape[1].bit_length()
    if int(values.max()).bit_length() + column_bits <= _MAX_KEY_BITS:
        sorted_keys = np.sort((values << column_bits) | np.arange(values.shape[1]), axis=1)
        return sorted_keys & ((1 << column_bits) - 1), sorted_keys >> column_bits
    columns_in_order = np.argsort(values, axis=1, kind="stable")
    return columns_in_order, np.take_along_axis(values, columns_in_order, axis=1)
