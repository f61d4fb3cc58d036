"""The principal directions of a public pool, along which linear models of private records learn."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.array_types import FloatArray
from pate.validation import require, require_features, require_non_negative
from pate.votes.recipe import DEFAULT_RECIPE

# The most directions that are kept.
_MOST_DIRECTIONS = 256
# The most public inputs that determine the directions, from the first.
MOST_ROWS = 10_000
# Directions with a smaller variance, as a share of the largest variance, are dropped.
_SMALLEST_VARIANCE = 1e-9
# The last feature of every input, as in rounds of centered votes.
CONSTANT = DEFAULT_RECIPE.constant_feature
# The length of the other features of an input, so that all its features have length 1.
_LENGTH = math.sqrt(1 - CONSTANT * CONSTANT)


@dataclass(frozen=True, eq=False)
class PublicDirections:
    """The principal directions of the inputs of a public pool.

    Formal guarantee: the directions depend on public inputs alone.

    Attributes:
        center: the mean of the inputs, `[d]`.
        directions: orthonormal directions in falling order of variance, at most 256, `[d, k]`.
        variances: the variance of the inputs along each direction, > 0, `[k]`.
        has_height: whether the inputs vary along no further direction; then features have one constant entry more.
    """

    center: FloatArray
    directions: FloatArray
    variances: FloatArray
    has_height: bool

    @classmethod
    def fit(cls, public_inputs: Any) -> Self:
        """Returns the directions of the first 10,000 public inputs; raises `InvalidValue` if all inputs are equal."""
        rows = _flat(np.asarray(public_inputs[:MOST_ROWS]))
        center = rows.mean(axis=0)
        rows = rows - center
        # With fewer rows than entries the matrix of products of rows is the smaller one. It has the same variances, and
        # its vectors are mapped back to directions of inputs below.
        wide = rows.shape[1] > len(rows)
        variances, vectors = np.linalg.eigh((rows @ rows.T if wide else rows.T @ rows) / len(rows))
        variances = variances[::-1]
        vectors = vectors[:, ::-1]
        num_varying = int(np.sum(variances > _SMALLEST_VARIANCE * max(variances[0], 1e-30)))
        require(num_varying > 0, "public_inputs", "all alike", "at least two different inputs")
        num_kept = min(num_varying, _MOST_DIRECTIONS)
        variances = variances[:num_kept]
        vectors = vectors[:, :num_kept]
        if wide:
            vectors = rows.T @ vectors / np.sqrt(len(rows) * variances)
        return cls(
            center=center,
            directions=vectors,
            variances=variances,
            has_height=num_kept == num_varying,
        )

    @property
    def standard_deviations(self) -> FloatArray:
        """The standard deviation of the inputs along each direction, and along the height an average one: `[D - 1]`."""
        variances = self.variances
        if self.has_height:
            variances = np.append(variances, variances.mean())
        return np.asarray(np.sqrt(variances))

    def features(self, inputs: Any, *, ridge: float) -> FloatArray:
        """Returns D features of each input, `[n, D]`, scaled to length 1.

        The features are the input along each direction, then a constant "height" if `has_height`, and last a constant,
        as in `PublicPCA.with_constant`.

        Args:
            inputs: `[n, …]`.
            ridge: a number >= 0 in units of the mean variance. With 0 all directions get the same variance. A large
                ridge leaves the variances as they are.
        """
        require_non_negative("ridge", ridge)
        spread = np.sqrt(self.variances + ridge * self.variances.mean())
        # on the pool, entries have a mean square of 1
        spread *= np.sqrt((self.variances / spread**2).mean())
        columns = (_flat(np.asarray(inputs)) - self.center) @ (self.directions / spread)
        if self.has_height:
            columns = np.append(columns, np.ones((len(columns), 1)), axis=1)
        lengths = np.linalg.norm(columns, axis=1, keepdims=True)
        columns *= _LENGTH / np.where(lengths > 0, lengths, 1)
        return np.append(columns, np.full((len(columns), 1), CONSTANT), axis=1)


def _flat(inputs: NDArray[Any]) -> FloatArray:
    """Returns n inputs of any shape as rows `[n, d]`."""
    rows = require_features("inputs", inputs)
    return rows.reshape(len(rows), int(np.prod(rows.shape[1:]))).astype(np.float64)
