"""A matrix of low rank behind noise of known size."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def shrink_singular_values(noisy: Array, *, noise_std: float) -> Array:
    """The matrix `[m, n]` that is expected behind independent noise in every entry.

    Let y be a singular value in units of noise_std times the root of the longer side, and b the ratio of the sides.
    Above 1 + sqrt(b) it becomes sqrt((y**2 - b - 1)**2 - 4 b) / y, below that 0, because noise alone explains it. In
    mean square no other function of singular values does better asymptotically.

    Source: Gavish & Donoho 2017, "Optimal shrinkage of singular values", Frobenius loss.

    >>> shrink_singular_values(np.diag([100.0, 0.1]), noise_std=1.0).round(1).tolist()
    [[100.0, 0.0], [0.0, 0.0]]
    """
    if noise_std == 0:
        return noisy
    left, singular, right = np.linalg.svd(noisy, full_matrices=False)
    ratio = min(noisy.shape) / max(noisy.shape)
    unit = noise_std * math.sqrt(max(noisy.shape))
    value = singular / unit
    edge = np.maximum((value**2 - ratio - 1) ** 2 - 4 * ratio, 0)
    kept = np.where(value > 1 + math.sqrt(ratio), np.sqrt(edge) / np.maximum(value, 1), 0)
    return np.asarray((left * (kept * unit)) @ right)
