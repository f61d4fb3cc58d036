"""Principal components of public inputs: the features of kernel teachers' votes and of the student that fits them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pate.pool import in_order
from pate.validation import InvalidValue, require, require_count, require_positive

Array = NDArray[np.float64]

_BITS = 26  # of a row's length, and of a column's: their products and sums stay below 2**53
_SMALLEST_VARIANCE = 1e-9  # of the largest
_NOISE_SHARE = 0.25
_RIDGE = 0.1  # of the mean variance
# of a kernel
_LANDMARKS = 1024
_MOST_COMPONENTS = 512
_FITTED = 10_000  # public rows that a kernel is fitted on
# public rows for each component, at least: with 4 they matched chance, and a table lost .06
_ROWS_EACH = 20
_TIMES = 4  # as many components as linear features, at most
_ENERGY = 0.5  # of all components together, of the linear features'
_EVENED = 0.25  # power of a component's variance that is left of it
_EXPECTED = 0.1  # of a component's log-odds, of a linear feature's
_BLOCK = 2048

# the noise in their directions, of the labels' variance: descent learns little along most
SHARE_IN_ROUNDS = 0.5
# that of `PublicPCA.of` in rounds; a published student's features are made anew by it
RIDGE_IN_ROUNDS = 1.0
CONSTANT = 0.2  # the last feature of every input, where all together have length 1


@dataclass(frozen=True, eq=False)
class PublicKernel:
    """Nonlinear components beside linear features: what those leave of a Gaussian kernel on rows of a public pool.

    Formal guarantee: the pool's inputs alone decide them, no label is read.
    """

    landmarks: Array  # `[m, D]`, linear features of public rows, of length 1
    reach: float  # of the kernel exp((cosine - 1) / reach), > 0
    weights: Array  # `[m, K]`, of the kernel's values
    # `[D, K]`, what is taken off: the least squares fit of linear features in the pool
    linear: Array

    @classmethod
    def of(cls, linear_features: Array, count: int) -> PublicKernel:
        """At most `count` components of the greatest variance in the pool, of linear features `[n, D]`; maybe none."""
        rows = linear_features[
            np.linspace(0, len(linear_features) - 1, min(len(linear_features), _FITTED)).astype(int)
        ]
        landmarks = _of_length_1(
            rows[np.linspace(0, len(rows) - 1, min(len(rows), _LANDMARKS)).astype(int)]
        )
        apart = 1 - landmarks @ landmarks.T
        reach = float(np.median(apart[np.triu_indices(len(apart), 1)]))
        bare = cls(
            landmarks,
            max(reach, _SMALLEST_VARIANCE),
            np.eye(len(landmarks)),
            np.zeros((rows.shape[1], 1)),
        )
        values = np.concatenate(list(in_order(bare._values, _blocks(rows))))
        linear = np.linalg.lstsq(rows, values, rcond=1e-6)[0]
        left = values - rows @ linear
        variances, vectors = np.linalg.eigh(left.T @ left / len(left))
        variances = variances[::-1][:count]
        vectors = vectors[:, ::-1][:, :count]
        kept = variances > _SMALLEST_VARIANCE * max(variances[0], _SMALLEST_VARIANCE)
        vectors = vectors[:, kept] * np.sign(
            vectors[np.abs(vectors[:, kept]).argmax(axis=0), np.flatnonzero(kept)]
        )
        variances = variances[kept]
        energy = (
            _ENERGY
            * np.square(rows).sum()
            / len(rows)
            / max((variances**_EVENED).sum(), _SMALLEST_VARIANCE)
        )
        vectors *= np.sqrt(energy * variances ** (_EVENED - 1))
        return cls(landmarks, bare.reach, vectors, linear @ vectors)

    def features(self, linear_features: Array) -> Array:
        """Components `[n, K]` of rows of linear features `[n, D]`."""

        def components(rows: Array) -> Array:
            return exact_product(self._values(rows), self.weights) - exact_product(
                rows, self.linear
            )

        return np.concatenate(list(in_order(components, _blocks(linear_features))))

    def _values(self, rows: Array) -> Array:
        cosines = exact_product(_of_length_1(rows), np.ascontiguousarray(self.landmarks.T))
        return np.asarray(np.exp((cosines - 1) / self.reach))


def _blocks(rows: Array) -> list[Array]:
    """Some thousand rows at a time; without rows one block of none."""
    return [rows[start : start + _BLOCK] for start in range(0, max(len(rows), 1), _BLOCK)]


def _of_length_1(rows: Array) -> Array:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1))


@dataclass(frozen=True, eq=False)
class PublicPCA:
    """Inputs to features of length 1: their leading principal directions in a public pool, weighted by variance.

    A direction of variance v is divided by the root of v plus a share, the ridge, of the mean variance of an input's
    entries. Formal guarantee: public inputs alone decide it.
    """

    center: Array  # `[d]`, the pool's mean
    projection: Array  # `[d, k]`; of the pool's inputs the mean square of an entry is 1.
    variances: Array  # `[k]`, of the pool along each direction, falling
    has_height: bool = False  # whether these are all of the pool's directions
    # beside them and their height; None for linear features alone.
    kernel: PublicKernel | None = None

    @classmethod
    def of(
        cls,
        public_inputs: NDArray[np.floating],
        count: int,
        *,
        ridge: float = _RIDGE,
        kernel_from: float | None = None,
    ) -> PublicPCA:
        """The `count` directions of the greatest variance, or all that the pool has where those are fewer.

        Where `count` is more than `kernel_from` times these and their height, a kernel's components stand beside them:
        as many as `count` leaves, at most 512, four for each of them, and one for 20 public inputs.
        """
        require_count("count", count)
        rows = np.asarray(public_inputs, dtype=np.float64).reshape(len(public_inputs), -1)
        center = rows.mean(axis=0)
        variances, vectors = np.linalg.eigh((rows - center).T @ (rows - center) / len(rows))
        variances = variances[::-1]
        vectors = vectors[:, ::-1]
        there = int(np.sum(variances > _SMALLEST_VARIANCE * max(variances[0], 0.0)))
        kept = min(count, there)
        require(kept > 0, "public_inputs", "all alike", "at least two different inputs")
        vectors = vectors[:, :kept] * np.sign(
            vectors[np.abs(vectors[:, :kept]).argmax(axis=0), np.arange(kept)]
        )
        shrunk = variances[:kept] / (variances[:kept] + ridge * max(variances.mean(), 0.0))
        projection = vectors * np.sqrt(shrunk / variances[:kept] / shrunk.mean())
        linear = cls(center, projection, variances[:kept], kept == there)
        components = min(
            count - kept - 1, _MOST_COMPONENTS, _TIMES * (kept + 1), len(rows) // _ROWS_EACH
        )
        if kernel_from is None or components < 1 or count <= kernel_from * (kept + 1):
            return linear
        kernel = PublicKernel.of(linear._before_length(rows), components)
        return replace(linear, kernel=kernel) if kernel.weights.size else linear

    def features(self, inputs: NDArray[np.floating]) -> Array:
        """Features `[n, k]` of length 1, or 0 for the pool's mean."""
        return _of_length_1(self._projected(inputs))

    def with_constant(self, inputs: NDArray[np.floating]) -> Array:
        """What rounds vote on, `[n, D]`, D = `width` + 1: of length 1 with `CONSTANT`, which is the last one.

        Where all directions of the pool are kept, the projected inputs get a 1 before they are cut to that length. It
        becomes the height: how far an input is from the center, which features of one length forget.
        """
        found = self._before_length(np.asarray(inputs))
        if self.kernel is not None:
            found = np.append(found, self.kernel.features(found), axis=1)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        found *= math.sqrt(1 - CONSTANT**2) / np.where(lengths > 0, lengths, 1)
        return np.append(found, np.full((len(found), 1), CONSTANT), axis=1)

    def _before_length(self, inputs: NDArray[np.floating]) -> Array:
        """The projected inputs and their height."""
        found = self._projected(inputs)
        return np.append(found, np.ones((len(found), 1)), axis=1) if self.has_height else found

    @property
    def width(self) -> int:
        """Of all features but the constant."""
        return len(self.feature_variances)

    @property
    def feature_variances(self) -> Array:
        """Of all features but the constant, `[width]`; a height counts as an average direction, a component less."""
        usual = self.variances.mean()
        height = np.full(int(self.has_height), usual)
        components = np.full(
            0 if self.kernel is None else self.kernel.weights.shape[1], _EXPECTED * usual
        )
        return np.concatenate([self.variances, height, components])

    def span(self, queries: NDArray[np.floating]) -> Array:
        """The orthonormal `[Q, k]` nearest to the features of the queries, Q >= k.

        A function with weights `w` on the features is `span @ w` there: as long as `w`, so nothing is lost on the way.
        """
        features = self.features(queries)
        require(
            len(features) >= features.shape[1],
            "num_queries",
            len(features),
            f"at least {features.shape[1]}",
        )
        left, _, right = np.linalg.svd(features, full_matrices=False)
        return np.asarray(left @ right)

    def _projected(self, inputs: NDArray[np.floating]) -> Array:
        rows = np.asarray(inputs, dtype=np.float64).reshape(len(inputs), -1)
        require(
            rows.shape[1] == len(self.center),
            "inputs.shape",
            rows.shape,
            f"[n, {len(self.center)}]",
        )

        def projected(block: Array) -> Array:
            centered = block - self.center
            if not np.isfinite(np.einsum("ij,ij->i", centered, centered)).all():
                raise InvalidValue("inputs", "NaN or infinity", rule="finite numbers")
            return exact_product(centered, self.projection)

        return np.concatenate(list(in_order(projected, _blocks(rows))))


def affordable_directions(
    *,
    noise_multiplier: float,
    num_teachers: int,
    num_records: int,
    num_labels: int,
    noise_share: float = _NOISE_SHARE,
) -> int:
    """How many directions to vote in: as many as keep the noise at `noise_share` of the labels' variance, a quarter.

    With k directions, N teachers of n / N records each and clips of the length that labels drawn by their prevalence
    would give, the noise in the scores is 4 k**2 L z**2 / (n N) of the labels' variance, z being noise std over
    sensitivity. All of it is public.

    >>> affordable_directions(noise_multiplier=5.0, num_teachers=400, num_records=62115, num_labels=40)
    39
    """
    require_positive("noise_multiplier", noise_multiplier)
    records = require_count("num_records", num_records) * require_count(
        "num_teachers", num_teachers
    )
    share = (
        require_positive("noise_share", noise_share)
        * records
        / (4 * require_count("num_labels", num_labels))
    )
    return max(1, math.floor(math.sqrt(share) / noise_multiplier))


def exact_product(rows: Array, matrix: Array) -> Array:
    """`rows @ matrix`, both cut to 26 bits: of each row's length, and of the longest column's.

    Matrix products round in an order of their own, which differs between rows. Here products are whole numbers, and
    by Cauchy and Schwarz no sum of some of them exceeds 2**52: doubles hold them all.
    """
    of_rows = np.frexp(np.sqrt(np.einsum("ij,ij->i", rows, rows)))[1][:, None]
    of_matrix = np.frexp(np.sqrt(np.einsum("ij,ij->j", matrix, matrix)).max(initial=0.0))[1]
    left = np.ldexp(rows, _BITS - of_rows)
    right = np.ldexp(matrix, _BITS - of_matrix)
    whole = np.trunc(left, out=left) @ np.trunc(right)
    return np.asarray(np.ldexp(whole, of_rows + of_matrix - 2 * _BITS))
