"""Draws from known distributions: one uniform number per row instead of noise on every value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def draw_softmax(values: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """An index of each row with probability proportional to exp(value): `[Q]` from `[Q, n]`, which is overwritten."""
    values -= values.max(axis=1, keepdims=True)
    return draw_index(np.exp(values, out=values), rng.random(len(values)))


def draw_index(weights: Array, uniforms: Array) -> NDArray[np.int64]:
    """An index of each row with probability proportional to its weight: `[Q]` from `[Q, n]`, one uniform each."""
    cumulated = np.cumsum(weights, axis=1)
    indices = (cumulated <= (uniforms * cumulated[:, -1])[:, None]).sum(axis=1)
    return np.asarray(np.minimum(indices, weights.shape[1] - 1))  # a product that rounds up to the total
