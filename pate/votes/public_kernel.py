"""Nonlinear features of a public pool, which stand beside the linear features of `PublicPCA` in rounds.

The idea: a Gaussian kernel on public rows, the landmarks, gives an input as many values as there are landmarks. Linear
features explain most of these values; their least squares fit is taken off. What is left is reduced to its principal
components, so that nothing is there twice. A component of variance v would be as strong as its root; components are
evened out to a power of v, and all together get a set share of the energy of the linear features.

Only public inputs are read: no label, and no private record, decides a component.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.pool import in_order
from pate.votes.exact_product import exact_product
from pate.votes.recipe import Recipe

Array = NDArray[np.float64]

SMALLEST_VARIANCE = 1e-9
"""The share of the largest variance below which a direction or component is taken for rounding."""

_BLOCK_ROWS = 2048
_CUT_OFF = 1e-6  # of the largest singular value, in the least squares fit of linear features


@dataclass(frozen=True, eq=False)
class PublicKernel:
    """The components of a Gaussian kernel on rows of a public pool that linear features do not explain.

    Formal guarantee: the pool's inputs alone decide them, no label is read.

    Attributes:
        landmarks: `[m, D]`, linear features of public rows, of length 1.
        reach: of the kernel exp((cosine - 1) / reach), > 0.
        weights: `[m, K]`, of the kernel's values.
        linear: `[D, K]`, the part that linear features explain, which is taken off.
    """

    landmarks: Array
    reach: float
    weights: Array
    linear: Array

    @classmethod
    def fit(cls, linear_features: Array, count: int, recipe: Recipe) -> PublicKernel:
        """Fits at most `count` components of the greatest variance to a pool; perhaps none.

        Args:
            linear_features: `[n, D]`, of the whole pool.
            count: the number of components that are wanted.
            recipe: the numbers of landmarks and of fitted rows, and the strength of components.
        """
        rows = _evenly_spaced(linear_features, recipe.kernel_fitted_rows)
        landmarks = of_length_1(_evenly_spaced(rows, recipe.kernel_landmarks))
        distances = 1 - landmarks @ landmarks.T
        reach = float(np.median(distances[np.triu_indices(len(distances), 1)]))
        values_only = cls(
            landmarks=landmarks,
            reach=max(reach, SMALLEST_VARIANCE),
            weights=np.eye(len(landmarks)),
            linear=np.zeros((rows.shape[1], 1)),
        )
        values = np.concatenate(list(in_order(values_only._values, row_blocks(rows))))
        linear = np.linalg.lstsq(rows, values, rcond=_CUT_OFF)[0]
        unexplained = values - rows @ linear
        variances, vectors = np.linalg.eigh(unexplained.T @ unexplained / len(unexplained))
        variances = variances[::-1][:count]
        vectors = vectors[:, ::-1][:, :count]
        is_large = variances > SMALLEST_VARIANCE * max(variances[0], SMALLEST_VARIANCE)
        vectors = with_fixed_signs(vectors[:, is_large])
        variances = variances[is_large]
        # Component j gets the variance energy * variances[j]**evening: all together the recipe's share of the mean
        # square of the linear features.
        linear_energy = np.square(rows).sum() / len(rows)
        evened_sum = (variances**recipe.kernel_evening).sum()
        energy = recipe.kernel_energy * linear_energy / max(evened_sum, SMALLEST_VARIANCE)
        vectors = vectors * np.sqrt(energy * variances ** (recipe.kernel_evening - 1))
        return cls(
            landmarks=landmarks,
            reach=values_only.reach,
            weights=vectors,
            linear=linear @ vectors,
        )

    @property
    def num_components(self) -> int:
        """The number of components, K."""
        return int(self.weights.shape[1])

    def features(self, linear_features: Array) -> Array:
        """Returns the components `[n, K]` of rows of linear features `[n, D]`."""

        def components(rows: Array) -> Array:
            explained = exact_product(rows, self.linear)
            return exact_product(self._values(rows), self.weights) - explained

        return np.concatenate(list(in_order(components, row_blocks(linear_features))))

    def _values(self, rows: Array) -> Array:
        """Returns the kernel between rows `[n, D]` and all landmarks, `[n, m]`."""
        cosines = exact_product(of_length_1(rows), np.ascontiguousarray(self.landmarks.T))
        return np.asarray(np.exp((cosines - 1) / self.reach))


def row_blocks(rows: Array) -> list[Array]:
    """Returns rows in blocks of some thousand; an array without rows is one block."""
    starts = range(0, max(len(rows), 1), _BLOCK_ROWS)
    return [rows[start : start + _BLOCK_ROWS] for start in starts]


def of_length_1(rows: Array) -> Array:
    """Returns rows scaled to length 1; a row of zeros stays zero."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1))


def with_fixed_signs(vectors: Array) -> Array:
    """Returns eigenvectors, columns `[d, k]`, whose entry of the greatest size is positive.

    A library may return either sign; equal inputs must give equal features on every machine.
    """
    largest = np.abs(vectors).argmax(axis=0)
    return np.asarray(vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])]))


def _evenly_spaced(rows: Array, most: int) -> Array:
    """Returns at most so many rows, evenly spaced over all of them, the first and the last included."""
    count = min(len(rows), most)
    places = np.linspace(0, len(rows) - 1, count).astype(int)
    return np.asarray(rows[places])
