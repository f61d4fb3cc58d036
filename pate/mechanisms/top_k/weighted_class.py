"""The draw of a class of outcomes with a probability in proportion to its weight."""

from collections.abc import Callable

import numpy as np

from pate.mechanisms.noise.lazy_uniforms import Array, LazyUniforms
from pate.mechanisms.noise.weighted_index import Weights, draw_index
from pate.mechanisms.top_k.mechanism import Counts


def draw_class(
    logs: Array, weights: Callable[[int], Weights], error: float, rng: np.random.Generator
) -> Counts:
    """Draws one of n classes for each of Q histograms, with a probability in proportion to the weight of the class.

    Args:
        logs: the logarithm of the weight of each class, `[Q, n]`.
        weights: returns the exact weights of the histogram at a row. They may have one more entry, for all classes that
            `logs` leaves out.
        error: a bound on the error of each logarithm.
        rng: draws a uniform number for each histogram.

    Returns:
        The index of the drawn class for each histogram, `[Q]`; n for a class that `logs` leaves out.
    """
    floats = np.exp(logs - logs.max(axis=1, keepdims=True))
    return draw_index(
        floats, uniforms=LazyUniforms.draw((len(floats),), rng), exact=weights, error=error
    )
