"""The projection of measurements of images on their principal directions, which is fitted to public images."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from pate.array_types import Float32Array
from pate.validation import InvalidValue

# Only measurements with a larger standard deviation are used.
_MIN_STD = 1e-6
# Only directions whose variance is a larger share of the largest variance are used. Smaller ones are rounding errors.
_MIN_VARIANCE_SHARE = 1e-9


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class PrincipalProjection:
    """An affine map from measurements to features.

    The features of measurements `x`, `[num_images, d]`, are `(x - center) @ matrix`.

    Attributes:
        center: the mean of the measurements of public images, `[d]`.
        matrix: the principal directions, `[d, num_features]`, times the factors that standardize the measurements and
            the one common factor of all features.
    """

    center: Float32Array
    matrix: Float32Array

    @classmethod
    def fit(cls, measurements: Float32Array, *, dimension: int, seed: int) -> Self:
        """Returns the projection on the principal directions of standardized measurements.

        All features are multiplied by one factor, so that the mean square of all features of all these images is 1.

        Args:
            measurements: the measurements of public images, `[num_images, d]`.
            dimension: the largest number of directions.
            seed: the seed of the randomized decomposition.

        Raises:
            InvalidValue: all public images have the same measurements.
        """
        from sklearn.decomposition import PCA

        center = measurements.mean(axis=0, dtype=np.float64).astype(np.float32)
        centered = measurements - center
        column_squares = np.einsum("ij,ij->j", centered, centered)
        column_std = np.sqrt(column_squares / np.float32(len(centered)))
        varies = column_std > _MIN_STD
        if not varies.any():
            rule = "public pictures that differ, features are fitted on them"
            raise InvalidValue("data", rule=rule)
        column_scales = np.where(varies, 1 / np.maximum(column_std, _MIN_STD), 0).astype(np.float32)
        standardized = np.multiply(centered, column_scales, out=centered)
        num_directions = min(dimension, len(standardized) - 1, standardized.shape[1])
        needs_most = num_directions > 0.5 * min(standardized.shape)
        pca = PCA(
            num_directions,
            copy=False,  # overwrites `standardized`
            svd_solver="full" if needs_most else "randomized",
            random_state=seed,
            iterated_power=2,
        )
        projected = pca.fit_transform(standardized)
        variances = projected.var(axis=0)
        is_direction = variances > _MIN_VARIANCE_SHARE * variances.max()
        directions = column_scales[:, None] * pca.components_[is_direction].T
        feature_scale = np.sqrt(np.mean(np.square(projected[:, is_direction], dtype=np.float64)))
        return cls(
            center=center, matrix=np.ascontiguousarray(directions / feature_scale, np.float32)
        )
