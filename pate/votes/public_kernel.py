"""Nonlinear features computed from a public pool, which are added to the linear features of `PublicPCA` in rounds.

A Gaussian kernel compares an input with public rows, the landmarks, and gives one value for each. Linear features
explain most of these values; their least squares fit is subtracted. The rest is reduced to its principal components. So
no component repeats another or a linear feature. A component of variance v would have a strength of sqrt(v). The
strengths are made more equal, by a power of v, and all components together get a fixed share of the energy of the
linear features.

Only public inputs are read. No label and no private record changes a component.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pate.array_types import FloatArray
from pate.pool import in_order
from pate.votes.exact_product import ExactMatrix
from pate.votes.recipe import Recipe

SMALLEST_VARIANCE = 1e-9
"""The share of the largest variance below which a direction or component is taken for rounding."""

_BLOCK_ROWS = 512  # whose kernel values fit into a processor's cache
_CUT_OFF = 1e-6  # of the largest singular value, in the least squares fit of linear features


@dataclass(frozen=True, eq=False)
class PublicKernel:
    """The components of a Gaussian kernel on rows of a public pool, without the part that linear features explain.

    Formal guarantee: the components are computed from the inputs of the pool; no label is read.

    Attributes:
        landmarks: `[num_landmarks, num_linear]`, the linear features of public rows, of length 1.
        kernel_width: the width of the kernel exp((cosine - 1) / kernel_width), > 0.
        weights: `[num_landmarks, num_components]`, the weight of each kernel value in each component.
        linear_weights: `[num_linear, num_components]`, the linear part, which is subtracted.
    """

    landmarks: FloatArray
    kernel_width: float
    weights: FloatArray
    linear_weights: FloatArray

    @classmethod
    def fit(cls, linear_features: FloatArray, max_components: int, recipe: Recipe) -> PublicKernel:
        """Returns the components of the greatest variance on a pool, at most `max_components`, possibly none.

        Args:
            linear_features: `[num_public, num_linear]`, of the whole pool.
            max_components: the largest number of components.
            recipe: the numbers of landmarks and of fitted rows, and the strength of components.
        """
        rows = _evenly_spaced(linear_features, max_rows=recipe.kernel_fitted_rows)
        landmarks = of_length_1(_evenly_spaced(rows, max_rows=recipe.kernel_landmarks))
        distances = 1 - landmarks @ landmarks.T
        kernel_width = float(np.median(distances[np.triu_indices(len(distances), 1)]))
        values_only = cls(
            landmarks=landmarks,
            kernel_width=max(kernel_width, SMALLEST_VARIANCE),
            weights=np.eye(len(landmarks)),
            linear_weights=np.zeros((rows.shape[1], 1)),
        )
        values = np.concatenate(list(in_order(values_only._values, items=kernel_rows(rows))))
        linear_weights = np.linalg.lstsq(rows, values, rcond=_CUT_OFF)[0]
        unexplained = values  # 80 MB of a large pool, which are not copied
        unexplained -= rows @ linear_weights
        variances, vectors = np.linalg.eigh(unexplained.T @ unexplained / len(unexplained))
        variances = variances[::-1][:max_components]
        vectors = vectors[:, ::-1][:, :max_components]
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
            kernel_width=values_only.kernel_width,
            weights=vectors,
            linear_weights=linear_weights @ vectors,
        )

    @property
    def num_components(self) -> int:
        """The number of components."""
        return int(self.weights.shape[1])

    def features(self, linear_features: FloatArray) -> FloatArray:
        """Returns the components of inputs, `[num_rows, num_components]`, given their linear features."""

        def components(rows: FloatArray) -> FloatArray:
            products = self._exact_weights.product(self._values(rows))
            products -= self._exact_linear_weights.product(rows)
            return products

        return np.concatenate(list(in_order(components, items=kernel_rows(linear_features))))

    def _values(self, rows: FloatArray) -> FloatArray:
        """Returns the kernel between each row and each landmark, `[num_rows, num_landmarks]`."""
        values = self._exact_landmarks.product(of_length_1(rows))
        values -= 1
        values /= self.kernel_width
        return np.asarray(np.exp(values, out=values))

    @cached_property
    def _exact_landmarks(self) -> ExactMatrix:
        return ExactMatrix.of(np.ascontiguousarray(self.landmarks.T))

    @cached_property
    def _exact_weights(self) -> ExactMatrix:
        return ExactMatrix.of(self.weights)

    @cached_property
    def _exact_linear_weights(self) -> ExactMatrix:
        return ExactMatrix.of(self.linear_weights)


def kernel_rows(rows: FloatArray) -> list[FloatArray]:
    """Returns rows in blocks of at most 512; an array without rows is one block."""
    starts = range(0, max(len(rows), 1), _BLOCK_ROWS)
    return [rows[start : start + _BLOCK_ROWS] for start in starts]


def of_length_1(rows: FloatArray) -> FloatArray:
    """Returns each row divided by its length; a row of zeros stays zero."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1))


def with_fixed_signs(eigenvectors: FloatArray) -> FloatArray:
    """Returns eigenvectors, the columns of a matrix, with a positive sign of their largest entry in absolute value.

    A library may return either sign. With fixed signs equal inputs give equal features on every machine.
    """
    largest = np.abs(eigenvectors).argmax(axis=0)
    return np.asarray(
        eigenvectors * np.sign(eigenvectors[largest, np.arange(eigenvectors.shape[1])])
    )


def _evenly_spaced(rows: FloatArray, max_rows: int) -> FloatArray:
    """Returns at most `max_rows` rows, evenly spaced from the first to the last."""
    num_kept = min(len(rows), max_rows)
    places = np.linspace(0, len(rows) - 1, num_kept).astype(int)
    return np.asarray(rows[places])
