"""The draw of a class by its weight."""

from collections.abc import Callable

import numpy as np

from pate.mechanisms.noise.lazy_uniforms import Array, LazyUniforms
from pate.mechanisms.noise.weighted_index import Weights, draw_index
from pate.mechanisms.top_k.mechanism import Counts


def draw_class(
    logs: Array, weights: Callable[[int], Weights], error: float, rng: np.random.Generator
) -> Counts:
    """Draws a class of each row by its weight.

    Args:
        logs: logarithms of the weights, `[Q, n]`.
        weights: the exact weights of a row, what they leave out last.
        error: a bound on the error of a logarithm.
        rng: draws a uniform number for each row.

    Returns:
        The index of the class of each row, `[Q]`.
    """
    floats = np.exp(logs - logs.max(axis=1, keepdims=True))
    return draw_index(floats, LazyUniforms.draw((len(floats),), rng), weights, error)
