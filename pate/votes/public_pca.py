"""Features of inputs along the principal directions of a public pool, and how many directions are affordable.

Centered votes are matrices, and the noise in a released matrix grows with its size. So votes are not cast on raw inputs
but along a few directions in which the public pool varies most: the pool decides them, no private record does. All
features of an input are cut to length 1 together. A record's vote is then as long as its label residual, and one clip
fits all records.

Two forms of features are built on the directions:

- `features`, for one matrix of votes: length 1, nothing added;
- `with_constant`, for rounds, in which a logistic student learns: the last feature is the same for all inputs and
  carries each label's constant. Where all of the pool's directions are kept, a *height* is added before the length is
  cut: it keeps how far an input is from the center. A kernel's components (`PublicKernel`) may stand beside them.

`span` turns the features of the queries into an orthonormal basis, in which a function of the queries is as long as its
weights. docs/proofs/centered_votes.md uses that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pate.pool import in_order
from pate.validation import InvalidValue, require, require_count, require_positive
from pate.votes.exact_product import exact_product
from pate.votes.public_kernel import (
    SMALLEST_VARIANCE,
    PublicKernel,
    of_length_1,
    row_blocks,
    with_fixed_signs,
)
from pate.votes.recipe import DEFAULT_RECIPE, Recipe

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PublicPCA:
    """Features of length 1 along the leading principal directions of a public pool, weighted by their variance.

    A direction of variance v is divided by the root of v plus a share, the ridge, of the mean variance of an input's
    entries.

    Formal guarantee: public inputs alone decide the features.

    Attributes:
        center: `[d]`, the pool's mean.
        projection: `[d, k]`; projected inputs of the pool have entries of mean square 1.
        variances: `[k]`, of the pool along each direction, falling.
        has_height: whether these are all of the pool's directions.
        kernel: nonlinear components beside the directions and their height; None for linear features alone.
        recipe: of which the constant feature and the expectation of a component are read.
    """

    center: Array
    projection: Array
    variances: Array
    has_height: bool = False
    kernel: PublicKernel | None = None
    recipe: Recipe = DEFAULT_RECIPE

    @classmethod
    def fit(
        cls,
        public_inputs: NDArray[np.floating],
        count: int,
        *,
        ridge: float | None = None,
        kernel_from: float | None = None,
        recipe: Recipe = DEFAULT_RECIPE,
    ) -> PublicPCA:
        """Fits the `count` directions of the greatest variance, or all that the pool has where these are fewer.

        Args:
            public_inputs: `[n, …]`, the pool.
            count: the number of features that are affordable (`affordable_directions`).
            ridge: in mean variances; by default the recipe's for one matrix of votes.
            kernel_from: a kernel's components stand beside the directions where `count` is more than `kernel_from`
                times the number of linear features; None for no kernel. Components are as many as `count` leaves,
                within the recipe's limits.
            recipe: the constants.

        Raises:
            InvalidValue: all public inputs are alike, or `count` is no whole number >= 1.
        """
        require_count("count", count)
        ridge = recipe.ridge_at_once if ridge is None else ridge
        rows = np.asarray(public_inputs, dtype=np.float64).reshape(len(public_inputs), -1)
        center = rows.mean(axis=0)
        variances, vectors = np.linalg.eigh((rows - center).T @ (rows - center) / len(rows))
        variances = variances[::-1]
        vectors = vectors[:, ::-1]
        num_varying = int(np.sum(variances > SMALLEST_VARIANCE * max(variances[0], 0.0)))
        num_kept = min(count, num_varying)
        require(num_kept > 0, "public_inputs", "all alike", "at least two different inputs")
        vectors = with_fixed_signs(vectors[:, :num_kept])
        # A direction of variance v keeps the mean square v / (v + ridge), scaled so that the mean over directions is 1.
        mean_squares = variances[:num_kept] / (
            variances[:num_kept] + ridge * max(variances.mean(), 0.0)
        )
        scales = np.sqrt(mean_squares / variances[:num_kept] / mean_squares.mean())
        linear = cls(
            center=center,
            projection=vectors * scales,
            variances=variances[:num_kept],
            has_height=num_kept == num_varying,
            recipe=recipe,
        )
        num_components = min(
            count - num_kept - 1,
            recipe.kernel_most_components,
            recipe.kernel_components_per_feature * (num_kept + 1),
            len(rows) // recipe.kernel_rows_per_component,
        )
        has_room = kernel_from is not None and count > kernel_from * (num_kept + 1)
        if num_components < 1 or not has_room:
            return linear
        kernel = PublicKernel.fit(linear._with_height(rows), num_components, recipe)
        return replace(linear, kernel=kernel) if kernel.weights.size else linear

    def features(self, inputs: NDArray[np.floating]) -> Array:
        """Returns features `[n, k]` of length 1; an input at the pool's mean has zeros."""
        return of_length_1(self._projected(inputs))

    def with_constant(self, inputs: NDArray[np.floating]) -> Array:
        """Returns the features that rounds vote on, `[n, D]` with D = `width` + 1, each row of length 1.

        The last feature is the constant. Where all directions of the pool are kept, the projected inputs get a 1 before
        they are cut to length: it becomes the height.
        """
        columns = self._with_height(np.asarray(inputs))
        if self.kernel is not None:
            columns = np.append(columns, self.kernel.features(columns), axis=1)
        constant = self.recipe.constant_feature
        lengths = np.linalg.norm(columns, axis=1, keepdims=True)
        columns *= math.sqrt(1 - constant**2) / np.where(lengths > 0, lengths, 1)
        return np.append(columns, np.full((len(columns), 1), constant), axis=1)

    @property
    def width(self) -> int:
        """The number of all features but the constant."""
        return len(self.feature_variances)

    @property
    def feature_variances(self) -> Array:
        """The variance that each feature but the constant is expected to explain, `[width]`.

        A direction has its own, a height that of an average direction, a component less.
        """
        average = self.variances.mean()
        height = np.full(int(self.has_height), average)
        num_components = 0 if self.kernel is None else self.kernel.num_components
        components = np.full(num_components, self.recipe.kernel_expected * average)
        return np.concatenate([self.variances, height, components])

    def span(self, queries: NDArray[np.floating]) -> Array:
        """Returns the orthonormal matrix `[Q, k]` that is nearest to the features of the queries, Q >= k.

        A function with weights `w` on the features has the values `span @ w` on the queries, which are as long as `w`.
        Raises `InvalidValue` for fewer queries than directions.
        """
        features = self.features(queries)
        rule = f"at least {features.shape[1]}, the directions"
        require(len(features) >= features.shape[1], "num_queries", len(features), rule)
        left, _, right = np.linalg.svd(features, full_matrices=False)
        return np.asarray(left @ right)

    def _with_height(self, inputs: NDArray[np.floating]) -> Array:
        """Returns the projected inputs, and a last column of 1 where features have a height."""
        projected = self._projected(inputs)
        if not self.has_height:
            return projected
        return np.append(projected, np.ones((len(projected), 1)), axis=1)

    def _projected(self, inputs: NDArray[np.floating]) -> Array:
        """Returns inputs minus the center along the directions, `[n, k]`; raises for inputs that are not finite."""
        rows = np.asarray(inputs, dtype=np.float64).reshape(len(inputs), -1)
        num_inputs = len(self.center)
        require(rows.shape[1] == num_inputs, "inputs.shape", rows.shape, f"[n, {num_inputs}]")

        def project(block: Array) -> Array:
            centered = block - self.center
            if not np.isfinite(np.einsum("ij,ij->i", centered, centered)).all():
                raise InvalidValue("inputs", "NaN or infinity", rule="finite numbers")
            return exact_product(centered, self.projection)

        return np.concatenate(list(in_order(project, row_blocks(rows))))


def affordable_directions(
    *,
    noise_multiplier: float,
    num_teachers: int,
    num_records: int,
    num_labels: int,
    noise_share: float,
) -> int:
    """Returns the most directions in which the noise stays at `noise_share` of the labels' variance, at least 1.

    With k directions, N teachers of n / N records each and clips of the length that labels drawn by their prevalence
    would give, the noise in the scores is 4 k**2 L z**2 / (n N) of the labels' variance, z being noise std over
    sensitivity. All of it is public.

    >>> affordable_directions(
    ...     noise_multiplier=5.0, num_teachers=400, num_records=62115, num_labels=40, noise_share=0.25
    ... )
    39
    """
    require_positive("noise_multiplier", noise_multiplier)
    require_positive("noise_share", noise_share)
    require_count("num_labels", num_labels)
    records_times_teachers = require_count("num_records", num_records) * require_count(
        "num_teachers", num_teachers
    )
    share = noise_share * records_times_teachers / (4 * num_labels)
    return max(1, math.floor(math.sqrt(share) / noise_multiplier))
