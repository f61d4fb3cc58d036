"""Nonlinear features computed from a public pool, which are added to the linear features of `PublicPCA` in rounds.

A Gaussian kernel compares an input with public rows, the landmarks, and gives one value for each. Linear features
explain most of these values; their least squares fit is subtracted. The remainder is reduced to its principal
components. So no component repeats another or a linear feature. A component of variance v has the standard deviation
sqrt(v). Components are rescaled so that their variances are a power of v, which makes them more equal. All components
together have a fixed share of the mean square of the linear features.

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
"""The share of the largest variance below which a direction or component is assumed to be a rounding error."""

_BLOCK_ROWS = 512  # the number of rows whose kernel values fit into a processor's cache
# Singular values below this share of the largest one count as 0 in the least squares fit of linear features.
_RELATIVE_CUT_OFF = 1e-6


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class PublicKernel:
    """The components of a Gaussian kernel on rows of a public pool, without the part that linear features explain.

    Formal guarantee: the components are computed from the inputs of the pool; no label is read.

    Attributes:
        landmarks: `[num_landmarks, num_linear]`, the linear features of public rows, of length 1.
        kernel_width: the width of the kernel exp((cosine - 1) / kernel_width), > 0.
        component_weights: `[num_landmarks, num_components]`, the weight of each kernel value in each component.
        linear_weights: `[num_linear, num_components]`, the linear part, which is subtracted.
    """

    landmarks: FloatArray
    kernel_width: float
    component_weights: FloatArray
    linear_weights: FloatArray

    @classmethod
    def fit(
        cls, linear_features: FloatArray, *, max_components: int, recipe: Recipe
    ) -> PublicKernel:
        """Returns the components of the greatest variance on a pool, at most `max_components`, possibly none.

        Args:
            linear_features: `[num_public, num_linear]`, of the whole pool.
            max_components: the largest number of components.
            recipe: the numbers of landmarks and of fitted rows, and the strength of components.
        """
        sampled_linear_features = _evenly_spaced(
            linear_features, max_rows=recipe.kernel_fitted_rows
        )
        landmarks = of_length_1(
            _evenly_spaced(sampled_linear_features, max_rows=recipe.kernel_landmarks)
        )
        cosine_distances = 1 - landmarks @ landmarks.T
        above_diagonal = np.triu_indices(len(cosine_distances), k=1)
        kernel_width = float(np.median(cosine_distances[above_diagonal]))
        kernel_without_linear_part = cls(
            landmarks=landmarks,
            kernel_width=max(kernel_width, SMALLEST_VARIANCE),
            component_weights=np.eye(len(landmarks)),
            linear_weights=np.zeros((sampled_linear_features.shape[1], 1)),
        )
        kernel_values = np.concatenate(
            list(
                in_order(
                    kernel_without_linear_part._compute_kernel_values,
                    items=kernel_row_blocks(sampled_linear_features),
                )
            )
        )
        linear_weights = np.linalg.lstsq(
            sampled_linear_features, kernel_values, rcond=_RELATIVE_CUT_OFF
        )[0]
        # These are 80 MB for a large pool, so the array is changed and not copied.
        unexplained_kernel_values = kernel_values
        unexplained_kernel_values -= sampled_linear_features @ linear_weights
        component_variances, eigenvectors = np.linalg.eigh(
            unexplained_kernel_values.T @ unexplained_kernel_values / len(unexplained_kernel_values)
        )
        component_variances = component_variances[::-1][:max_components]
        eigenvectors = eigenvectors[:, ::-1][:, :max_components]
        is_large = component_variances > SMALLEST_VARIANCE * max(
            component_variances[0], SMALLEST_VARIANCE
        )
        eigenvectors = with_fixed_signs(eigenvectors[:, is_large])
        component_variances = component_variances[is_large]
        # Component j gets the variance factor * variances[j]**kernel_evening. The factor makes their sum the recipe's
        # share of the mean square of the linear features.
        linear_mean_square = np.square(sampled_linear_features).sum() / len(sampled_linear_features)
        evened_variance_sum = (component_variances**recipe.kernel_evening).sum()
        variance_factor = (
            recipe.kernel_energy * linear_mean_square / max(evened_variance_sum, SMALLEST_VARIANCE)
        )
        eigenvectors = eigenvectors * np.sqrt(
            variance_factor * component_variances ** (recipe.kernel_evening - 1)
        )
        return cls(
            landmarks=landmarks,
            kernel_width=kernel_without_linear_part.kernel_width,
            component_weights=eigenvectors,
            linear_weights=linear_weights @ eigenvectors,
        )

    @property
    def num_components(self) -> int:
        """The number of components."""
        return int(self.component_weights.shape[1])

    def features(self, linear_features: FloatArray) -> FloatArray:
        """Returns the components of inputs, `[num_rows, num_components]`.

        Args:
            linear_features: `[num_rows, num_linear]`, the linear features of the inputs, of any length.
        """

        def compute_components(row_block: FloatArray) -> FloatArray:
            component_values = self._exact_weights.product(self._compute_kernel_values(row_block))
            component_values -= self._exact_linear_weights.product(row_block)
            return component_values

        return np.concatenate(
            list(in_order(compute_components, items=kernel_row_blocks(linear_features)))
        )

    def _compute_kernel_values(self, feature_rows: FloatArray) -> FloatArray:
        """Returns the kernel between each row `[num_linear]` and each landmark, `[num_rows, num_landmarks]`."""
        cosines_minus_1 = self._exact_landmarks.product(of_length_1(feature_rows))
        cosines_minus_1 -= 1
        cosines_minus_1 /= self.kernel_width
        return np.asarray(np.exp(cosines_minus_1, out=cosines_minus_1))

    @cached_property
    def _exact_landmarks(self) -> ExactMatrix:
        return ExactMatrix.from_matrix(np.ascontiguousarray(self.landmarks.T))

    @cached_property
    def _exact_weights(self) -> ExactMatrix:
        return ExactMatrix.from_matrix(self.component_weights)

    @cached_property
    def _exact_linear_weights(self) -> ExactMatrix:
        return ExactMatrix.from_matrix(self.linear_weights)


def kernel_row_blocks(feature_rows: FloatArray) -> list[FloatArray]:
    """Returns rows in blocks of at most 512; an array without rows is one block."""
    first_rows = range(0, max(len(feature_rows), 1), _BLOCK_ROWS)
    return [feature_rows[start : start + _BLOCK_ROWS] for start in first_rows]


def of_length_1(feature_rows: FloatArray) -> FloatArray:
    """Returns each row divided by its length; a row of zeros stays zero."""
    row_lengths = np.linalg.norm(feature_rows, axis=1, keepdims=True)
    return np.asarray(feature_rows / np.where(row_lengths > 0, row_lengths, 1))


def with_fixed_signs(eigenvectors: FloatArray) -> FloatArray:
    """Returns the columns of a matrix of eigenvectors, each with the sign that makes its largest entry positive.

    The largest entry is the one with the largest absolute value. A library may return an eigenvector or its negative.
    With fixed signs no feature changes its sign from one machine to another.
    """
    column_indices = np.arange(eigenvectors.shape[1])
    largest_entries = eigenvectors[np.abs(eigenvectors).argmax(axis=0), column_indices]
    return np.asarray(eigenvectors * np.sign(largest_entries))


def _evenly_spaced(feature_rows: FloatArray, *, max_rows: int) -> FloatArray:
    """Returns at most `max_rows` of the rows `[num_rows, num_features]`, evenly spaced from the first to the last."""
    row_indices = np.linspace(
        start=0, stop=len(feature_rows) - 1, num=min(len(feature_rows), max_rows)
    ).astype(int)
    return np.asarray(feature_rows[row_indices])
