"""Rejection sampling: candidates are drawn, and those that are not accepted are drawn again."""

import math
from collections.abc import Callable

import numpy as np

from pate.array_types import BoolArray, IntArray


def draw_by_rejection(
    shape: tuple[int, ...], draw_candidates: Callable[[int], tuple[IntArray, BoolArray]]
) -> IntArray:
    """Draws an array of whole numbers by rejection sampling.

    Args:
        shape: the shape of the array.
        draw_candidates: draws n candidates, for a number n, and returns their values `[n]` and bits `[n]`: True for a
            candidate that is accepted.
    """
    drawn_noise = np.empty(math.prod(shape), dtype=np.int64)
    missing_indices = np.arange(len(drawn_noise))
    while missing_indices.size:
        candidate_values, is_accepted = draw_candidates(missing_indices.size)
        drawn_noise[missing_indices[is_accepted]] = candidate_values[is_accepted]
        missing_indices = missing_indices[~is_accepted]
    return drawn_noise.reshape(shape)
