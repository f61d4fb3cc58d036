"""Distinct values of arrays, and values that two arrays share, for arrays of millions of ids.

numpy's `unique` and `isin` do the same. For a million whole numbers they take about ten times as long.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, IntArray


def distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    """Returns the distinct numbers, or texts, of an array `[n]` in ascending order.

    `np.unique` of numpy 2.3 and later builds a hash table of the numbers first.
    """
    ascending = np.sort(numbers)
    is_new = np.ones(len(ascending), np.bool_)
    is_new[1:] = ascending[1:] != ascending[:-1]
    return np.asarray(ascending[is_new])


def count_shared(ids: IntArray, other_ids: IntArray) -> int:
    """Returns the number of distinct ids that occur in both arrays."""
    shorter, longer = sorted((ids, other_ids), key=len)
    if len(shorter) == 0:
        return 0
    have_disjoint_ranges = shorter.max() < longer.min() or longer.max() < shorter.min()
    if have_disjoint_ranges:
        return 0
    return len(distinct(shorter[are_among(shorter, longer)]))


def are_among(numbers: NDArray[Any], other_numbers: NDArray[Any]) -> BoolArray:
    """Returns True for each number that occurs among the other numbers, bool `[num_numbers]`.

    Args:
        numbers: the numbers to look up, `[num_numbers]`.
        other_numbers: the numbers among which they are looked up; at least one.
    """
    ascending = np.sort(other_numbers)
    positions = np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)
    return np.asarray(ascending[positions] == numbers)
