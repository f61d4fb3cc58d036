"""The draw of a class by its weight."""

from typing import Any

import numpy as np

from pate.mechanisms.noise.uniforms import (
    Array,
    LazyUniforms,
    draw_index,
)
from pate.mechanisms.top_k.mechanism import Counts


def draw_class(logs: Array, weights: Any, error: float, rng: np.random.Generator) -> Counts:
    """A class of each row by its weight: the logarithm, and for a row the exact ones, with what they leave out last."""
    floats = np.exp(logs - logs.max(axis=1, keepdims=True))
    return draw_index(floats, LazyUniforms.draw((len(floats),), rng), weights, error)
