"""The lower convex hull of points in the plane, and the largest convex function below them."""

from typing import Any

import numpy as np

from pate.array_types import FloatArray, IntArray


def lower_hull(x: Any, y: Any) -> IntArray:
    """Returns the indices of the points (x, y) that are corners of their lower convex hull, `[num_corners]`.

    The algorithm is Andrew's monotone chain: a corner is removed again if it does not lie below the line from the
    corner before it to a later point.

    Args:
        x: the first coordinates, rising, `[num_points]`.
        y: the second coordinates, `[num_points]`.
    """
    hull_corner_indices: list[int] = []
    # Floats of Python are the same numbers, and faster.
    x = x.tolist()
    y = y.tolist()
    for i in range(len(x)):
        while len(hull_corner_indices) > 1:
            first, second = hull_corner_indices[-2:]
            rise_to_second = (y[second] - y[first]) * (x[i] - x[first])
            rise_to_point = (y[i] - y[first]) * (x[second] - x[first])
            if rise_to_second < rise_to_point:
                break
            hull_corner_indices.pop()
        hull_corner_indices.append(i)
    return np.array(hull_corner_indices, dtype=np.int64)


def convex_minorant(x: FloatArray, y: FloatArray) -> FloatArray:
    """Returns the largest convex function that is nowhere above the points (x, y), evaluated at x, `[num_points]`.

    Args:
        x: the first coordinates, rising, `[num_points]`.
        y: the second coordinates, `[num_points]`.
    """
    hull_corner_indices = lower_hull(x=x, y=y)
    return np.asarray(np.interp(x, x[hull_corner_indices], y[hull_corner_indices]))
