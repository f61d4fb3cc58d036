"""Many measurements of a picture to fewer features: standardized, then their principal directions in a public pool."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue

Array = NDArray[np.float32]

_SMALLEST_STD = 1e-6


@dataclass(frozen=True, eq=False)
class Projection:
    """`(measured - center) @ projection`.

    Features are scaled together, so that those of the public pictures have a mean square of 1.

    Attributes:
        center: `[d]`.
        projection: `[d, k]`.
    """

    center: Array
    projection: Array

    @classmethod
    def fit(cls, measured: Array, dimension: int, *, seed: int) -> Projection:
        """That of measurements `[n, d]` of public pictures, onto `dimension` directions or as many as they have.

        The measurements are overwritten.

        Raises:
            InvalidValue: pictures that are all alike.
        """
        from sklearn.decomposition import PCA

        center = measured.mean(axis=0, dtype=np.float64).astype(np.float32)
        measured -= center
        spread = np.sqrt(np.einsum("ij,ij->j", measured, measured) / np.float32(len(measured)))
        if not (spread > _SMALLEST_STD).any():
            raise InvalidValue("data: expected public pictures that differ, features are fitted on them")
        weight = np.where(spread > _SMALLEST_STD, 1 / np.maximum(spread, _SMALLEST_STD), 0).astype(np.float32)
        measured *= weight
        count = min(dimension, len(measured) - 1, measured.shape[1])
        few = count > 0.5 * min(measured.shape)
        found = PCA(count, svd_solver="full" if few else "randomized", random_state=seed, iterated_power=2)
        projected = found.fit_transform(measured)
        kept = projected.var(axis=0) > 1e-9 * projected.var(axis=0).max()
        directions = weight[:, None] * found.components_[kept].T
        scale = np.sqrt(np.mean(np.square(projected[:, kept], dtype=np.float64)))
        return cls(center, np.ascontiguousarray(directions / scale, np.float32))

    @classmethod
    def of(cls, arrays: dict[str, Array]) -> Projection:
        """From the arrays of an extractor."""
        return cls(arrays["center"], arrays["projection"])

    @property
    def arrays(self) -> dict[str, Array]:
        """For an extractor."""
        return {"center": self.center, "projection": self.projection}


def stacked(blocks: Iterable[Array], count: int) -> Array:
    """Blocks of rows as one array `[count, d]`, without a second copy of all."""
    filled, first = None, 0
    for block in blocks:
        if filled is None:
            filled = np.empty((count, block.shape[1]), np.float32)
        filled[first : first + len(block)] = block
        first += len(block)
    if filled is None:
        raise InvalidValue("data: expected public pictures, features are fitted on them")
    return filled
