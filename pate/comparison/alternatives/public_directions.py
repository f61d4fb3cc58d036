"""The principal directions of the inputs of a public pool, which are the features of linear models."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.array_types import FloatArray
from pate.validation import InvalidValue, require_features, require_non_negative
from pate.votes.recipe import DEFAULT_RECIPE

# The largest number of directions.
_MAX_DIRECTIONS = 256
# The largest number of public inputs that determine the directions; further inputs are ignored.
MAX_ROWS = 10_000
# Directions with a smaller variance, as a share of the largest variance, are dropped.
_SMALLEST_VARIANCE = 1e-9
# The last feature of every input, which is the same number as in rounds of centered votes.
_CONSTANT_FEATURE = DEFAULT_RECIPE.constant_feature
# The l2 length of all other features of an input together, so that all its features have length 1.
_OTHER_LENGTH = math.sqrt(1 - _CONSTANT_FEATURE**2)


@dataclass(frozen=True, eq=False)
class PublicDirections:
    """The principal directions of the inputs of a public pool.

    Formal guarantee: the directions depend on public inputs alone.

    Attributes:
        center: the mean of the inputs, `[d]`.
        directions: orthonormal directions in falling order of variance, at most 256, `[d, k]`.
        variances: the variance of the inputs along each direction, > 0, `[k]`.
        has_height: whether these are all directions along which the inputs vary. If so, features have one more entry,
            the height, which is 1 for each input before the features are scaled to length 1.
    """

    center: FloatArray
    directions: FloatArray
    variances: FloatArray
    has_height: bool

    @classmethod
    def fit(cls, public_inputs: Any) -> Self:
        """Returns the widest directions of the first 10,000 public inputs, at most 256.

        Directions with less than 1e-9 of the largest variance are left out. Raises `InvalidValue` if all inputs are
        equal.
        """
        input_rows = _flat(np.asarray(public_inputs[:MAX_ROWS]))
        center = input_rows.mean(axis=0)
        input_rows = input_rows - center
        # If there are fewer rows than columns, the matrix of inner products of rows is the smaller one. It has the same
        # eigenvalues, and its eigenvectors are mapped to directions of inputs below.
        is_wide = input_rows.shape[1] > len(input_rows)
        inner_products = input_rows @ input_rows.T if is_wide else input_rows.T @ input_rows
        direction_variances, direction_columns = np.linalg.eigh(inner_products / len(input_rows))
        direction_variances = direction_variances[::-1]
        direction_columns = direction_columns[:, ::-1]
        num_varying = int(
            np.sum(direction_variances > _SMALLEST_VARIANCE * max(direction_variances[0], 1e-30))
        )
        if num_varying == 0:
            raise InvalidValue("public_inputs", "all alike", rule="at least two different inputs")
        num_directions = min(num_varying, _MAX_DIRECTIONS)
        direction_variances = direction_variances[:num_directions]
        direction_columns = direction_columns[:, :num_directions]
        if is_wide:
            direction_columns = (
                input_rows.T @ direction_columns / np.sqrt(len(input_rows) * direction_variances)
            )
        return cls(
            center=center,
            directions=direction_columns,
            variances=direction_variances,
            has_height=num_directions == num_varying,
        )

    @property
    def standard_deviations(self) -> FloatArray:
        """The standard deviation of the inputs for each of the D features but the last, which is constant, `[D - 1]`.

        There is one for each direction. If `has_height`, the height has one more, whose variance is the mean of the
        others.
        """
        variances = self.variances
        if self.has_height:
            height_variance = variances.mean()
            variances = np.append(variances, height_variance)
        return np.asarray(np.sqrt(variances))

    def features(self, inputs: Any, *, ridge: float) -> FloatArray:
        """Returns D features of each input, `[n, D]`, scaled to length 1.

        The features are the entries of the centered input along each direction, divided by a spread of this direction,
        then the height if `has_height`, and then a constant, as in `PublicPCA.with_constant`.

        Args:
            inputs: `[n, …]`.
            ridge: a number >= 0 in units of the mean variance. With 0 all directions get the same variance. With a
                large ridge the variances keep their proportions.
        """
        require_non_negative("ridge", ridge)
        direction_spreads = np.sqrt(self.variances + ridge * self.variances.mean())
        # Scaled so that the entries of the pool have a mean square of 1.
        direction_spreads *= np.sqrt((self.variances / direction_spreads**2).mean())
        feature_columns = (_flat(np.asarray(inputs)) - self.center) @ (
            self.directions / direction_spreads
        )
        if self.has_height:
            heights = np.ones((len(feature_columns), 1))
            feature_columns = np.append(feature_columns, heights, axis=1)
        row_lengths = np.linalg.norm(feature_columns, axis=1, keepdims=True)
        feature_columns *= _OTHER_LENGTH / np.where(row_lengths > 0, row_lengths, 1)
        return np.append(
            feature_columns, np.full((len(feature_columns), 1), _CONSTANT_FEATURE), axis=1
        )


def _flat(inputs: NDArray[Any]) -> FloatArray:
    """Returns n inputs of any shape as rows `[n, d]`."""
    input_rows = require_features("inputs", inputs)
    return input_rows.reshape(len(input_rows), int(np.prod(input_rows.shape[1:]))).astype(
        np.float64
    )
