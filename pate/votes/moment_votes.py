"""The votes of teachers in rounds: what a public student gets wrong of their records, along public features.

In a round the student is public, and so are its probabilities p(x) on any input x. A teacher's vote is the mean over
its records of features(x) (y - p(x))^T, a matrix `[D, L]`: the gradient by which the student would learn the teacher's
labels. The vote is clipped to one length; clipped votes are added up in whole steps of a grid (`ClippedMoments`), and
noise is added by who calls.

Two kinds of teachers vote so. One that is not trained, as a kernel teacher, has only its records. One that was trained
also has an opinion on any input: half of p gives way to what the teacher itself is confident of, on its records and on
the public pool (`PoolAnswers`). Where a teacher is right, the chance of which records it has is then gone from its
vote.

Sums must come out alike however many processors and blocks there are, as noise and price are for one exact sum. So
features and weights are cut to grids on which doubles hold every product, and blocks have a fixed number of rows.

Source: docs/proofs/vote_rounds.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.pool import in_order
from pate.votes.clipped_moments import FEATURE_STEPS, ClippedMoments
from pate.votes.public_pca import PublicPCA
from pate.votes.weighted import Integers, Weighted

Array = NDArray[np.float64]
Floats = NDArray[np.float32]
RowNumbers = NDArray[np.int64]

_BLOCK_ROWS = 512
_WEIGHT_BITS = 38  # of a column's length; a row of features has 14, so products have 52
_MOST_OF_SMALL = 32  # records of a teacher whose products are not formed one by one
_LARGE_AT_ONCE = 64  # teachers of more records


class RoundVotes(Weighted):
    """The votes of all teachers in rounds, wherever the teachers are. Nothing of them is priced.

    Attributes:
        public: float32 `[m, D]`, features of the public pool, of length 1.
        variances: `[D - 1]`, that each feature but the constant is expected to explain (`PublicPCA.feature_variances`).
        records_per_teacher: about, public.
    """

    public: Floats
    variances: Array
    records_per_teacher: float

    @property
    def width(self) -> int:
        """The number of public features, the constant included: D."""
        return int(self.public.shape[1])

    @abstractmethod
    def total(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        """Returns the sum `[D, L]` of clipped votes against a student, in steps of `clipped`.

        Args:
            weights: `[D, L]`, the student's; public.
            label_scale: `[L]`, by which the residuals of each label are multiplied before the clip; public.
            clipped: the clip and the grid; public.
        """


@dataclass(frozen=True, eq=False)
class PoolAnswers:
    """The confidences of trained teachers on the public pool, as far as votes need them.

    `beyond` has, for every teacher, the mean of features x confidence over public rows, minus the mean over the
    teacher's own records. Before that, a teacher's confidences are moved by a number for each label, so that on the
    teacher's own records their mean is the share of records with the label.

    Attributes:
        beyond: float32 `[N, D, L]`, the difference of the two means. Private: it is a part of the votes.
        asked: float32 `[q, D]`, the features of the public rows that were asked.
    """

    beyond: Floats
    asked: Floats

    def votes(self, teachers: RowNumbers, weights: Array, trust: float) -> Array:
        """Returns the part of the votes of some teachers that comes from the pool, `[c, D, L]`.

        With trust t it is t (mean over the pool of features x (confidence - p) - the teacher's own mean of features x
        confidence), p being the student's probabilities. It is added to the mean over a teacher's records of features x
        (label - (1 - t) p).
        """
        # p = (1 + tanh(logit / 2)) / 2
        half = np.tanh(self.asked @ (weights / 2).astype(np.float32))
        student_mean = self.asked.T @ (0.5 * (1 + half)) / len(self.asked)
        return np.asarray(trust * (self.beyond[teachers].astype(np.float64) - student_mean))


def beyond_own(
    own_features: Floats,
    own_confidences: Floats,
    own_labels: NDArray[np.bool_],
    pool_features: Floats,
    pool_confidences: Floats,
) -> Floats:
    """Returns one teacher's row of `PoolAnswers.beyond`, float32 `[D, L]`.

    Args:
        own_features: `[n, D]`, of the teacher's records.
        own_confidences: `[n, L]`, the teacher's, on its records.
        own_labels: `[n, L]`, of its records.
        pool_features: `[q, D]`, of public rows.
        pool_confidences: `[q, L]`, the teacher's, on these.
    """
    excess = (own_confidences - own_labels).mean(axis=0)
    pool_mean = pool_features.T @ (pool_confidences - excess) / len(pool_features)
    own_mean = own_features.T @ (own_confidences - excess) / len(own_features)
    return np.asarray(pool_mean - own_mean, dtype=np.float32)


@dataclass(eq=False, repr=False, kw_only=True)
class MomentVotes(RoundVotes):
    """The votes in rounds of teachers whose records are at hand.

    A teacher's vote is the mean over its records of features(x) (y - p(x))^T, p being the student's probability. The
    features are public (`PublicPCA.with_constant`), computed once and kept as whole numbers. The mean of n records
    counts sqrt(n / records_per_teacher) times: where records are unrelated, the votes of all teachers are then about as
    long, and one clip fits all of them. The mean of a trained teacher counts once, and a part of p gives way to the
    teacher's own confidences (`PoolAnswers`).

    Attributes:
        inputs: float32 `[n, …]`, private; read a few thousand rows at a time.
        labels: bool `[n, L]`, private.
        teacher_of: `[n]`, the number of each record's teacher.
        num_teachers: N.
        directions: of the public pool; its `recipe` has the trust in trained teachers.
        public_inputs: float32 `[m, …]`, the rows that stand for the pool.
        records_per_teacher: about, public.
        ask: of trained teachers, asks them all about the pool; called once. None for teachers without training.
        weights: `[N]`, public, in [0, 1]: what each teacher counts; None where all count once.
    """

    inputs: Floats
    labels: NDArray[np.bool_]
    teacher_of: RowNumbers
    num_teachers: int
    directions: PublicPCA
    public_inputs: Floats
    records_per_teacher: float
    ask: Callable[[], PoolAnswers] | None = None
    weights: Array | None = None

    def __post_init__(self) -> None:
        self.num_labels = self.labels.shape[1]
        self.public = self.directions.with_constant(self.public_inputs).astype(np.float32)
        self.variances = self.directions.feature_variances
        # Records lie by their teacher, and teachers by their number of records: teachers of equal size are one array.
        sizes = np.bincount(self.teacher_of, minlength=self.num_teachers)
        place = sizes[self.teacher_of] * (self.num_teachers + 1) + self.teacher_of
        self._order = np.argsort(place, kind="stable")
        self._labels = self.labels[self._order]
        self._sizes = np.sort(sizes[sizes > 0])

    def total(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        """Returns the sum `[D, L]` of clipped votes against a student; see `RoundVotes.total`."""
        residuals = self._residuals(weights)
        answers = self._answers
        trust = self.directions.recipe.trust
        if answers is not None:
            # y - (1 - trust) p; `PoolAnswers.votes` has the rest
            residuals = (1 - trust) * residuals + trust * self._labels
        all_features = self._features

        def sum_of(group: _EqualSizes) -> Integers:
            """Returns the sum of the clipped votes of a few teachers with equally many records."""
            size = group.size
            features = all_features[group.rows].reshape(-1, size, self.width)
            scale = label_scale * self._count_of(size)
            scaled = residuals[group.rows].reshape(-1, size, self.num_labels) * scale
            teachers = self.teacher_of[self._order[group.rows][::size]]
            teacher_weights = 1.0 if self.weights is None else self.weights[teachers]
            if answers is not None:
                of_pool = answers.votes(teachers, weights, trust) * label_scale
                return clipped.sum_of_means(_means(features, scaled) + of_pool, teacher_weights)
            if size == 1:
                return clipped.sum_of_single(features[:, 0], scaled[:, 0], teacher_weights)
            if size <= _MOST_OF_SMALL:
                return clipped.sum_of_small(features, scaled, teacher_weights)
            return clipped.sum_of_means(_means(features, scaled), teacher_weights)

        total = np.zeros(weights.shape, dtype=np.int64)
        for votes in in_order(sum_of, _groups_of_equal_size(self._sizes)):
            total += votes
        return total

    def record_factors(
        self,
        inputs: Floats,
        labels: NDArray[np.bool_],
        weights: Array,
        label_scale: Array,
        clipped: ClippedMoments,
    ) -> tuple[Array, Array]:
        """Returns two factors of the votes of n teachers with one record each, in steps.

        They are features `[n, D]` and clipped residuals `[n, L]`; teacher t adds their outer product to the sum. An
        audit compares records by them.
        """
        features = self.directions.with_constant(inputs)
        residuals = labels - 0.5 * (1 + np.tanh(features @ weights / 2))
        residuals *= label_scale * self._count_of(1)
        lengths = np.linalg.norm(residuals, axis=1, keepdims=True)
        residuals *= clipped.clip / np.maximum(lengths, clipped.clip)
        return features, residuals / clipped.step

    def _count_of(self, size: int) -> float:
        """Returns how often the mean over so many records counts."""
        if self.ask is not None:
            return 1.0
        return math.sqrt(size / self.records_per_teacher)

    @cached_property
    def _answers(self) -> PoolAnswers | None:
        return None if self.ask is None else self.ask()

    def _residuals(self, weights: Array) -> Array:
        """Returns labels minus the student's probabilities, `[n, L]`, in the order of the teachers.

        Features and weights are whole numbers whose sums of products doubles hold, as in `exact_product`.
        """
        # numpy's tanh takes a fifth of the time of a logistic function: p = (1 + tanh(logit / 2)) / 2
        half_weights = weights / (2 * FEATURE_STEPS)
        largest = np.linalg.norm(half_weights, axis=0).max()
        bits = _WEIGHT_BITS - int(np.frexp(largest)[1])
        whole_weights = np.trunc(np.ldexp(half_weights, bits))
        unit = math.ldexp(1.0, -bits)
        all_features = self._features
        residuals = np.empty((len(self._labels), weights.shape[1]))

        def fill(rows: slice) -> None:
            labels = self._labels[rows]
            features = _padded(all_features[rows]).astype(np.float64)
            half_logits = ((features @ whole_weights) * unit).astype(np.float32)
            residuals[rows] = labels - 0.5 * (1 + np.tanh(half_logits)[: len(labels)])

        for _ in in_order(fill, _blocks(len(residuals))):
            pass
        return residuals

    @cached_property
    def _features(self) -> Floats:
        """The features `[n, D]` of all records in the order of the teachers: of length at most 1, in steps of 2**-14.

        Entries are cut towards 0, so that no row becomes longer.
        """
        features = np.empty((len(self._order), self.width), dtype=np.float32)

        def fill(rows: slice) -> None:
            records = self._order[rows]
            block = self.directions.with_constant(_padded(self.inputs[records]))[: len(records)]
            features[rows] = np.trunc(block * FEATURE_STEPS)

        for _ in in_order(fill, _blocks(len(features))):
            pass
        return features


@dataclass(frozen=True)
class _EqualSizes:
    """A few teachers with equally many records each, which lie side by side."""

    size: int  # of each teacher, in records
    rows: slice


def _groups_of_equal_size(sizes: RowNumbers) -> Iterator[_EqualSizes]:
    """Yields teachers in groups of equal size, given the sorted number of records of each."""
    first = 0
    distinct, counts = np.unique(sizes, return_counts=True)
    for size, count in zip(distinct.tolist(), counts.tolist(), strict=True):
        is_small = size <= _MOST_OF_SMALL
        at_once = max(1, _BLOCK_ROWS // size) if is_small else _LARGE_AT_ONCE
        for done in range(0, count, at_once):
            last = first + size * min(at_once, count - done)
            yield _EqualSizes(size, slice(first, last))
            first = last


def _blocks(num_rows: int) -> Iterator[slice]:
    return (
        slice(start, min(start + _BLOCK_ROWS, num_rows))
        for start in range(0, num_rows, _BLOCK_ROWS)
    )


def _padded(rows: NDArray[Any]) -> NDArray[Any]:
    """Returns rows with zeros below, so that there are 512.

    Products of one shape treat a record alike, however many stand beside it.
    """
    missing = _BLOCK_ROWS - len(rows)
    if missing == 0:
        return rows
    zeros = np.zeros((missing, *rows.shape[1:]), dtype=rows.dtype)
    return np.concatenate([rows, zeros])


def _means(features: Floats, residuals: Array) -> Array:
    """Returns each teacher's mean product of features `[c, n, D]` in steps and residuals `[c, n, L]`: `[c, D, L]`."""
    wide = features.transpose(0, 2, 1).astype(np.float64)
    return np.asarray(wide @ residuals / (FEATURE_STEPS * features.shape[1]))
