"""The draw of a class of outcomes with a probability in proportion to its weight."""

from collections.abc import Callable

import numpy as np

from pate.array_types import FloatArray, IntArray
from pate.mechanisms.noise.lazy_uniforms import LazyUniforms
from pate.mechanisms.noise.weighted_index import WeightEncloser, draw_index


def draw_class(
    log_weights: FloatArray,
    make_encloser: Callable[[int], WeightEncloser],
    log_rounding_error: float,
    rng: np.random.Generator,
) -> IntArray:
    """Draws one of n classes for each of Q histograms, with a probability in proportion to the weight of the class.

    Args:
        log_weights: the logarithm of the weight of each class, `[Q, n]`.
        make_encloser: takes the row of a histogram, and returns the function that encloses its exact weights. They may
            be more than n, for classes that `log_weights` leaves out.
        log_rounding_error: a bound on the error of each logarithm.
        rng: draws a uniform number for each histogram.

    Returns:
        The index of the drawn class for each histogram, `[Q]`; n or more for a class that `log_weights` leaves out.
    """
    approximate_weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    num_histograms = len(approximate_weights)
    return draw_index(
        approximate_weights=approximate_weights,
        lazy_uniforms=LazyUniforms.draw(shape=(num_histograms,), rng=rng),
        make_encloser=make_encloser,
        relative_error=log_rounding_error,
    )
