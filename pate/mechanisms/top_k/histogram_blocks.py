"""Draws of a batch of histograms in blocks, so that the memory of a draw stays bounded.

A class is a set of outcomes of equal probability. `draw_class` draws one of the classes of a histogram
(`weighted_class.py`), so the memory of a block grows with the number of classes of all its histograms.
"""

from collections.abc import Callable

import numpy as np

from pate.array_types import IntArray

# Histograms with at most so many classes are drawn several at a time, and others one by one.
_FEW_CLASSES = 16_384
# The number of classes of all histograms that are drawn at a time.
_CLASSES_PER_BLOCK = 1 << 20

# Draws k indices for each of q histograms `[q, d]`: `[q, k]`.
Draw = Callable[[IntArray], IntArray]


def draw_in_blocks(
    counts: IntArray, classes_per_histogram: int, *, draw_batch: Draw, draw_one: Draw
) -> IntArray:
    """Draws k indices for each of Q histograms: in blocks if a histogram has few classes, otherwise one by one.

    A block has at most about a million classes in all. A class is a group of outcomes that a mechanism draws together.

    Args:
        counts: `[Q, d]`.
        classes_per_histogram: the largest number of classes of one histogram.
        draw_batch: draws the indices of the histograms of one block, with few classes each.
        draw_one: draws the indices of one histogram with many classes, from `[1, d]`.

    Returns:
        The indices of all histograms, `[Q, k]`.
    """
    if classes_per_histogram > _FEW_CLASSES:
        return np.concatenate([draw_one(histogram[None]) for histogram in counts])
    rows_per_block = max(1, _CLASSES_PER_BLOCK // classes_per_histogram)
    # the drawn columns of the histograms of each block, [rows_per_block, k]
    drawn_columns_of_blocks = [
        draw_batch(counts[first_row : first_row + rows_per_block])
        for first_row in range(0, len(counts), rows_per_block)
    ]
    return np.concatenate(drawn_columns_of_blocks)
