"""Features that public inputs alone decide: principal directions of a public pool, nearly of one variance, length 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import require, require_features, require_non_negative

Array = NDArray[np.float64]

_MOST_DIRECTIONS = 256
_MOST_ROWS = 10_000
_SMALLEST_VARIANCE = 1e-9  # of the largest
_CONSTANT = 0.2  # the last feature, of every input
_LENGTH = math.sqrt(1 - _CONSTANT * _CONSTANT)


@dataclass(frozen=True, eq=False)
class PublicDirections:
    """The principal directions of a public pool.

    Formal guarantee: public inputs alone decide them.

    Attributes:
        center: `[d]`, the pool's mean.
        directions: `[d, k]`, orthonormal, the widest first, at most 256.
        variances: `[k]`, of the pool along them, > 0.
        has_height: whether these are all of the pool's directions.
    """

    center: Array
    directions: Array
    variances: Array
    has_height: bool

    @classmethod
    def of(cls, public_inputs: Any) -> PublicDirections:
        """Those of the first 10,000 public inputs.

        Raises:
            InvalidValue: inputs that are all alike.
        """
        rows = _flat(np.asarray(public_inputs[:_MOST_ROWS]))
        center = rows.mean(axis=0)
        rows = rows - center
        wide = rows.shape[1] > len(rows)
        variances, vectors = np.linalg.eigh((rows @ rows.T if wide else rows.T @ rows) / len(rows))
        variances, vectors = variances[::-1], vectors[:, ::-1]
        there = int(np.sum(variances > _SMALLEST_VARIANCE * max(variances[0], 1e-30)))
        require(there > 0, "public_inputs", "all alike", "at least two different inputs")
        kept = min(there, _MOST_DIRECTIONS)
        variances, vectors = variances[:kept], vectors[:, :kept]
        if wide:
            vectors = rows.T @ vectors / np.sqrt(len(rows) * variances)
        return cls(center, vectors, variances, kept == there)

    def features(self, inputs: Any, *, ridge: float) -> Array:
        """Features of length 1: the directions, a height where `PublicPCA.with_constant` has one, a constant last.

        Args:
            inputs: `[n, …]`.
            ridge: >= 0, in mean variances: 0 gives every direction the same variance, much of it leaves them as they
                are.
        """
        require_non_negative("ridge", ridge)
        spread = np.sqrt(self.variances + ridge * self.variances.mean())
        spread *= np.sqrt((self.variances / spread**2).mean())  # on the pool, entries have a mean square of 1
        found = (_flat(np.asarray(inputs)) - self.center) @ (self.directions / spread)
        if self.has_height:
            found = np.append(found, np.ones((len(found), 1)), axis=1)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        found *= _LENGTH / np.where(lengths > 0, lengths, 1)
        return np.append(found, np.full((len(found), 1), _CONSTANT), axis=1)

    @property
    def feature_variances(self) -> Array:
        """Of all features but the constant; a height counts as an average direction."""
        return np.append(self.variances, self.variances.mean()) if self.has_height else self.variances


def _flat(inputs: NDArray[Any]) -> Array:
    rows = require_features("inputs", inputs)
    return rows.reshape(len(rows), int(np.prod(rows.shape[1:]))).astype(np.float64)
