"""Principal components of public inputs: the features of kernel teachers' votes and of the student that fits them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue, require, require_count, require_positive

Array = NDArray[np.float64]

_BITS = 26  # of a row's length, and of a column's: their products and sums stay below 2**53
_SMALLEST_VARIANCE = 1e-9  # of the largest
_NOISE_SHARE = 0.25
_RIDGE = 0.1  # of the mean variance

SHARE_IN_ROUNDS = 0.125
"""The noise in the directions of rounds, of the labels' variance."""


@dataclass(frozen=True, eq=False)
class PublicPCA:
    """Inputs to features of length 1: their leading principal directions in a public pool, weighted by variance.

    A direction of variance v is divided by the root of v plus a tenth of the mean variance of an input's entries.

    Formal guarantee: public inputs alone decide it.

    Attributes:
        center: `[d]`, the pool's mean.
        projection: `[d, k]`; of the pool's inputs the mean square of an entry is 1.
        variances: `[k]`, of the pool along each direction, falling.
        has_height: whether these are all of the pool's directions.
    """

    center: Array
    projection: Array
    variances: Array
    has_height: bool = False

    @classmethod
    def of(cls, public_inputs: NDArray[np.floating], count: int) -> PublicPCA:
        """The `count` directions of the greatest variance, or all that the pool has where those are fewer.

        Raises:
            InvalidValue: no two different inputs.
        """
        require_count("count", count)
        rows = np.asarray(public_inputs, dtype=np.float64).reshape(len(public_inputs), -1)
        center = rows.mean(axis=0)
        variances, vectors = np.linalg.eigh((rows - center).T @ (rows - center) / len(rows))
        variances, vectors = variances[::-1], vectors[:, ::-1]
        there = int(np.sum(variances > _SMALLEST_VARIANCE * max(variances[0], 0.0)))
        kept = min(count, there)
        require(kept > 0, "public_inputs", "all alike", "at least two different inputs")
        vectors = vectors[:, :kept] * np.sign(vectors[np.abs(vectors[:, :kept]).argmax(axis=0), np.arange(kept)])
        shrunk = variances[:kept] / (variances[:kept] + _RIDGE * max(variances.mean(), 0.0))
        projection = vectors * np.sqrt(shrunk / variances[:kept] / shrunk.mean())
        return cls(center, projection, variances[:kept], kept == there)

    def features(self, inputs: NDArray[np.floating]) -> Array:
        """Features `[n, k]` of length 1, or 0 for the pool's mean."""
        found = self._projected(inputs)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        return np.asarray(found / np.where(lengths > 0, lengths, 1))

    def with_constant(self, inputs: NDArray[np.floating]) -> Array:
        """What rounds vote on: of length sqrt(D - 1), and the constant 1, `[n, D]`, D = k + 1, or k + 2 with a height.

        Where all directions of the pool are kept, the projected inputs get a 1 before they are cut to that length. It
        becomes the height: how far an input is from the center, which features of one length forget.
        """
        found = self._projected(inputs)
        if self.has_height:
            found = np.append(found, np.ones((len(found), 1)), axis=1)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        found *= math.sqrt(found.shape[1]) / np.where(lengths > 0, lengths, 1)
        return np.append(found, np.ones((len(found), 1)), axis=1)

    @property
    def feature_variances(self) -> Array:
        """Of all features but the constant, `[D - 1]`; a height counts as an average direction."""
        return np.append(self.variances, self.variances.mean()) if self.has_height else self.variances

    def span(self, queries: NDArray[np.floating]) -> Array:
        """The orthonormal `[Q, k]` nearest to the features of the queries, Q >= k.

        A function with weights `w` on the features is `span @ w` there: as long as `w`, so nothing is lost on the way.
        """
        features = self.features(queries)
        require(len(features) >= features.shape[1], "num_queries", len(features), f"at least {features.shape[1]}")
        left, _, right = np.linalg.svd(features, full_matrices=False)
        return np.asarray(left @ right)

    def _projected(self, inputs: NDArray[np.floating]) -> Array:
        """`[n, k]`."""
        rows = np.asarray(inputs, dtype=np.float64).reshape(len(inputs), -1)
        require(rows.shape[1] == len(self.center), "inputs.shape", rows.shape, f"[n, {len(self.center)}]")
        rows = rows - self.center
        if not np.isfinite(np.einsum("ij,ij->i", rows, rows)).all():
            raise InvalidValue("inputs=NaN or infinity: expected finite numbers")
        return exact_product(rows, self.projection)


def affordable_directions(
    *, noise_multiplier: float, num_teachers: int, num_records: int, num_labels: int, noise_share: float = _NOISE_SHARE
) -> int:
    """How many directions to vote in: as many as keep the noise at `noise_share` of the labels' variance, a quarter.

    With k directions, N teachers of n / N records each and clips of the length that labels drawn by their prevalence
    would give, the noise in the scores is 4 k**2 L z**2 / (n N) of the labels' variance, z being noise std over
    sensitivity. All of it is public.

    >>> affordable_directions(noise_multiplier=5.0, num_teachers=400, num_records=62115, num_labels=40)
    39
    """
    require_positive("noise_multiplier", noise_multiplier)
    records = require_count("num_records", num_records) * require_count("num_teachers", num_teachers)
    share = require_positive("noise_share", noise_share) * records / (4 * require_count("num_labels", num_labels))
    return max(1, math.floor(math.sqrt(share) / noise_multiplier))


def exact_product(rows: Array, matrix: Array) -> Array:
    """`rows @ matrix`, both cut to 26 bits: of each row's length, and of the longest column's.

    Matrix products round in an order of their own, which differs between rows. Here products are whole numbers, and
    by Cauchy and Schwarz no sum of some of them exceeds 2**52: doubles hold them all.

    Args:
        rows: finite `[n, d]`.
        matrix: finite `[d, k]`.
    """
    of_rows = np.frexp(np.sqrt(np.einsum("ij,ij->i", rows, rows)))[1][:, None]
    of_matrix = np.frexp(np.sqrt(np.einsum("ij,ij->j", matrix, matrix)).max(initial=0.0))[1]
    left, right = np.ldexp(rows, _BITS - of_rows), np.ldexp(matrix, _BITS - of_matrix)
    whole = np.trunc(left, out=left) @ np.trunc(right)
    return np.asarray(np.ldexp(whole, of_rows + of_matrix - 2 * _BITS))
