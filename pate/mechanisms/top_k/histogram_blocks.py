"""Draws of a batch of histograms in blocks, so that the memory of a draw stays bounded.

A class is a set of outcomes of equal probability. `draw_class` draws one of the classes of a histogram
(`weighted_class.py`), so the memory of a block grows with the number of classes of all its histograms.
"""

from typing import Protocol

import numpy as np

from pate.array_types import IntArray

# Histograms with at most so many classes are drawn several at a time, and others one by one.
_FEW_CLASSES = 16_384
# The number of classes of all histograms that are drawn at a time.
_CLASSES_PER_BLOCK = 1 << 20


class DrawBlock(Protocol):
    """The type of functions that draw k indices for each of a block of histograms, as `draw_in_blocks` calls them."""

    def __call__(self, counts: IntArray, *, has_few_outcome_classes: bool) -> IntArray:
        """Returns the indices `[q, k]` for counts `[q, d]`.

        Args:
            counts: the counts of q histograms; of one histogram unless `has_few_outcome_classes`.
            has_few_outcome_classes: whether a histogram has few classes, which are groups of outcomes that the
                mechanism draws together.
        """


def draw_in_blocks(counts: IntArray, num_outcome_classes: int, draw_block: DrawBlock) -> IntArray:
    """Draws k indices for each of Q histograms, in blocks that keep the use of memory small.

    A block has at most about a million classes in all, or is one histogram with many classes. A class is a group of
    outcomes that a mechanism draws together.

    Args:
        counts: `[Q, d]`.
        num_outcome_classes: the number of classes of one histogram.
        draw_block: draws the indices of the histograms of one block.

    Returns:
        The indices of all histograms, `[Q, k]`.
    """
    has_few_outcome_classes = num_outcome_classes <= _FEW_CLASSES
    rows_per_block = (
        max(1, _CLASSES_PER_BLOCK // num_outcome_classes) if has_few_outcome_classes else 1
    )
    blocks = [
        draw_block(
            counts[start : start + rows_per_block], has_few_outcome_classes=has_few_outcome_classes
        )
        for start in range(0, len(counts), rows_per_block)
    ]
    return np.concatenate(blocks)
