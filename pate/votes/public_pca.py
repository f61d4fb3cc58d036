"""Features of inputs along the principal directions of a public pool, and the number of directions that noise allows.

Centered votes are matrices, and the noise in a released matrix grows with its size. So votes are not matrices over raw
inputs but over a few features: the directions in which the public pool varies most. The directions are computed from
the pool; no private record changes them. The features of an input are scaled to length 1. A record's vote is then as
long as its label residual, and one clip fits all records.

There are two forms of features:

- `features`, for one matrix of votes: the directions, scaled to length 1;
- `with_constant`, for rounds, in which a logistic student learns: the last feature is the same for all inputs and
  carries each label's constant. If all directions of the pool are kept, a *height* is added before the scaling; it
  keeps the distance of an input from the center. The components of a kernel (`PublicKernel`) may be added.

`span` turns the features of the queries into an orthonormal basis, in which a function on the queries is as long as its
weights (docs/proofs/centered_votes.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pate.array_types import FloatArray
from pate.pool import in_order
from pate.validation import InvalidValue, require, require_count, require_positive
from pate.votes.exact_product import ExactMatrix
from pate.votes.public_kernel import (
    SMALLEST_VARIANCE,
    PublicKernel,
    kernel_row_blocks,
    of_length_1,
    with_fixed_signs,
)
from pate.votes.recipe import DEFAULT_RECIPE, Recipe


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class PublicPCA:
    """Features of length 1 along the leading principal directions of a public pool, weighted by their variance.

    A direction of variance v is divided by sqrt(v + ridge m), where m is the mean variance of an input's entries.

    Formal guarantee: the features are computed from public inputs alone.

    Attributes:
        center: `[num_entries]`, the mean of the pool, for inputs of so many entries.
        projection: `[num_entries, num_directions]`, scaled such that projected inputs of the pool have entries of mean
            square 1.
        variances: `[num_directions]`, the variance of the pool along each direction, in falling order.
        has_height: whether all directions of the pool are kept, and features have a height.
        kernel: the nonlinear components that are added in rounds; None for linear features alone.
        recipe: the tuned constants; the constant feature and the expected variance of a component are read.
    """

    center: FloatArray
    projection: FloatArray
    variances: FloatArray
    has_height: bool = False
    kernel: PublicKernel | None = None
    recipe: Recipe = DEFAULT_RECIPE

    @classmethod
    def fit(
        cls,
        public_inputs: NDArray[np.floating],
        *,
        max_directions: int,
        least_directions: int = 0,
        ridge: float | None = None,
        kernel_from_multiple: float | None = None,
        recipe: Recipe = DEFAULT_RECIPE,
    ) -> PublicPCA:
        """Returns features along at most `max_directions` directions, or `least_directions` if those are more.

        The directions are those of the greatest variance.

        Args:
            public_inputs: `[num_public, ...]`, the pool.
            max_directions: the number of features that the noise allows (`affordable_directions`).
            least_directions: the number of directions that are kept even if the noise allows fewer, if the pool has as
                many.
            ridge: the ridge as a multiple of the mean variance; None for the recipe's value for one matrix of votes.
            kernel_from_multiple: kernel components are added if `max_directions` is more than this number times the
                number of linear features; None for no kernel. The number of components is `max_directions` minus the
                number of linear features, within the recipe's limits.
            recipe: the tuned constants.

        Raises:
            InvalidValue: all public inputs are equal, or `max_directions` is no whole number >= 1.
        """
        require_count("max_directions", max_directions)
        ridge = recipe.ridge_at_once if ridge is None else ridge
        input_rows = np.asarray(public_inputs, dtype=np.float64).reshape(len(public_inputs), -1)
        center = input_rows.mean(axis=0)
        pool_variances, eigenvectors = np.linalg.eigh(
            (input_rows - center).T @ (input_rows - center) / len(input_rows)
        )
        pool_variances = pool_variances[::-1]
        eigenvectors = eigenvectors[:, ::-1]
        num_varying_directions = int(
            np.sum(pool_variances > SMALLEST_VARIANCE * max(pool_variances[0], 0.0))
        )
        num_directions = min(max(max_directions, least_directions), num_varying_directions)
        require(num_directions > 0, "public_inputs", "all alike", "at least two different inputs")
        eigenvectors = with_fixed_signs(eigenvectors[:, :num_directions])
        # A direction of variance v gets the mean square v / (v + ridge m), with m the mean variance, scaled so that the
        # mean over directions is 1.
        mean_variance = max(pool_variances.mean(), 0.0)
        pool_variances = pool_variances[:num_directions]
        direction_mean_squares = pool_variances / (pool_variances + ridge * mean_variance)
        direction_scales = np.sqrt(
            direction_mean_squares / pool_variances / direction_mean_squares.mean()
        )
        linear_pca = cls(
            center=center,
            projection=eigenvectors * direction_scales,
            variances=pool_variances,
            has_height=num_directions == num_varying_directions,
            recipe=recipe,
        )
        # With the height. Without one, the directions use up `max_directions`, and no component has room.
        num_linear = num_directions + 1
        num_components = min(
            max_directions - num_linear,
            recipe.kernel_most_components,
            recipe.kernel_components_per_feature * num_linear,
            len(input_rows) // recipe.kernel_rows_per_component,
        )
        has_room = (
            kernel_from_multiple is not None and max_directions > kernel_from_multiple * num_linear
        )
        if num_components < 1 or not has_room:
            return linear_pca
        public_kernel = PublicKernel.fit(
            linear_features=linear_pca._project_with_height(input_rows),
            max_components=num_components,
            recipe=recipe,
        )
        return (
            replace(linear_pca, kernel=public_kernel)
            if public_kernel.component_weights.size
            else linear_pca
        )

    def features(self, inputs: NDArray[np.floating]) -> FloatArray:
        """Returns features of length 1, `[num_rows, num_directions]`; an input at the pool's mean has zeros."""
        return of_length_1(self._projected(inputs))

    def with_constant(self, inputs: NDArray[np.floating]) -> FloatArray:
        """Returns the features for votes in rounds, `[num_rows, width + 1]`, rows of length 1.

        The last feature is the constant. A row whose other features are all 0 has only the constant. If all directions
        of the pool are kept, a 1 is appended to the projected inputs before they are scaled to length 1. It becomes the
        height.
        """
        features = self._project_with_height(np.asarray(inputs))
        if self.kernel is not None:
            features = np.append(features, self.kernel.features(features), axis=1)
        constant_feature = self.recipe.constant_feature
        feature_lengths = np.linalg.norm(features, axis=1, keepdims=True)
        features *= math.sqrt(1 - constant_feature**2) / np.where(
            feature_lengths > 0, feature_lengths, 1
        )
        constant_column = np.full((len(features), 1), fill_value=constant_feature)
        return np.append(features, constant_column, axis=1)

    @property
    def width(self) -> int:
        """The number of all features but the constant."""
        return len(self.feature_variances)

    @property
    def feature_variances(self) -> FloatArray:
        """The variance that each feature but the constant is expected to explain, `[width]`.

        For a direction it is the direction's own variance, for the height the mean over directions, and for a component
        `recipe.kernel_expected` times that mean.
        """
        mean_variance = self.variances.mean()
        height_variances = np.full(int(self.has_height), fill_value=mean_variance)
        num_components = 0 if self.kernel is None else self.kernel.num_components
        variance_of_component = self.recipe.kernel_expected * mean_variance
        component_variances = np.full(num_components, fill_value=variance_of_component)
        variances_of_directions = self.variances
        return np.concatenate([variances_of_directions, height_variances, component_variances])

    def span(self, query_inputs: NDArray[np.floating]) -> FloatArray:
        """Returns the orthonormal matrix nearest to the features of the queries, `[num_queries, num_directions]`.

        A function with weights `w` on the features has the values `span @ w` on the queries, which are as long as `w`.
        Raises `InvalidValue` for fewer queries than directions.
        """
        features = self.features(query_inputs)
        if len(features) < features.shape[1]:
            rule = f"at least {features.shape[1]}, the directions"
            raise InvalidValue("num_queries", len(features), rule=rule)
        left_vectors, _, right_vectors = np.linalg.svd(features, full_matrices=False)
        return np.asarray(left_vectors @ right_vectors)

    def _project_with_height(self, inputs: NDArray[np.floating]) -> FloatArray:
        """Returns inputs minus the pool's mean along the directions, with a last column of 1 if features have a height.

        The shape is `[num_rows, num_directions]`, or one column more.
        """
        projected = self._projected(inputs)
        if not self.has_height:
            return projected
        height_column = np.ones((len(projected), 1))
        return np.append(projected, height_column, axis=1)

    def _projected(self, inputs: NDArray[np.floating]) -> FloatArray:
        """Returns inputs minus the pool's mean along the directions, `[num_rows, num_directions]`, of any length.

        Raises `InvalidValue` for inputs that are not finite, or have another number of entries than the pool.
        """
        input_rows = np.asarray(inputs, dtype=np.float64).reshape(len(inputs), -1)
        num_entries = len(self.center)
        require(
            input_rows.shape[1] == num_entries,
            "inputs.shape",
            input_rows.shape,
            f"[num_rows, {num_entries}]",
        )

        def project(row_block: FloatArray) -> FloatArray:
            centered_rows = row_block - self.center
            if not np.isfinite(np.einsum("ij,ij->i", centered_rows, centered_rows)).all():
                raise InvalidValue("inputs", "NaN or infinity", rule="finite numbers")
            return self._exact_projection.product(centered_rows)

        return np.concatenate(list(in_order(project, items=kernel_row_blocks(input_rows))))

    @cached_property
    def _exact_projection(self) -> ExactMatrix:
        """The field `projection`, in a form whose product with a row does not depend on the other rows."""
        return ExactMatrix.from_matrix(self.projection)


def affordable_directions(
    *,
    noise_multiplier: float,
    num_teachers: int,
    num_records: int,
    num_labels: int,
    noise_share: float,
) -> int:
    """Returns the largest number of directions at which the noise is at most `noise_share` of the labels' variance.

    The result is at least 1. Let k be the number of directions, and let N teachers have n / N records each. Let the
    clip be the usual length of a vote, and z the noise multiplier. Then the noise in the scores is 4 k**2 L z**2 / (n
    N) of the variance of L labels. All of these numbers are public.

    Args:
        noise_multiplier: z, standard deviation over sensitivity.
        num_teachers: N.
        num_records: n, the number of private records.
        num_labels: L.
        noise_share: the largest noise, as a share of the labels' variance.

    >>> affordable_directions(
    ...     noise_multiplier=5.0, num_teachers=400, num_records=62115, num_labels=40, noise_share=0.25
    ... )
    39
    """
    require_positive("noise_multiplier", noise_multiplier)
    require_positive("noise_share", noise_share)
    require_count("num_labels", num_labels)
    require_count("num_records", num_records)
    require_count("num_teachers", num_teachers)
    # The largest k with 4 k**2 L z**2 / (n N) <= noise_share.
    squared_limit = noise_share * (num_records * num_teachers) / (4 * num_labels)
    return max(1, math.floor(math.sqrt(squared_limit) / noise_multiplier))
