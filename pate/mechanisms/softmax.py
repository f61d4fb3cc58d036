"""Draws from the exponential mechanism's law: one uniform number a row, no noise on every value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def draw_softmax(values: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """An index of each row with probability proportional to exp(value): `[Q]` from `[Q, n]`, which is overwritten."""
    values -= values.max(axis=1, keepdims=True)
    cumulated = np.cumsum(np.exp(values, out=values), axis=1, out=values)
    thresholds = rng.random(len(values)) * cumulated[:, -1]
    winners = (cumulated <= thresholds[:, None]).sum(axis=1)
    return np.asarray(np.minimum(winners, values.shape[1] - 1))  # a product that rounds up to the total
