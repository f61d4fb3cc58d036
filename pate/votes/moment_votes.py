"""The votes of teachers in rounds: the gradient of a public student's errors on their records.

In a round the student is public, and so are its probabilities p(x) on any input x. A teacher's vote is the mean over
its records of features(x) (y - p(x))^T, a matrix `[num_features, num_labels]`. This is the gradient by which the
student would learn the teacher's labels y. The vote is clipped to a fixed length. The clipped votes are added in whole
steps of a grid (`ClippedMoments`), and the caller adds noise.

Two kinds of teachers vote in this way. A teacher without training, such as a kernel teacher, uses its records alone. A
trained teacher also uses its own confidences on its records and on the public pool (`PoolAnswers`). In its vote half of
p is replaced by these confidences. If the teacher is right, its vote then no longer depends on which records it happens
to have.

Noise and price hold for one exact sum. So a sum must not depend on the number of processors or blocks. Features and
weights are therefore rounded to grids on which doubles hold every product, and blocks have a fixed number of rows.

Source: docs/proofs/vote_rounds.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.pool import in_order
from pate.votes.clipped_moments import FEATURE_STEPS, ClippedMoments
from pate.votes.pool_answers import PoolAnswers
from pate.votes.public_pca import PublicPCA
from pate.votes.round_votes import RoundVotes
from pate.votes.weighted import Integers

Array = NDArray[np.float64]
Floats = NDArray[np.float32]
RowNumbers = NDArray[np.int64]

_BLOCK_ROWS = 512
_WEIGHT_BITS = 38  # of a column's length; a row of features has 14, so products have 52
_MOST_OF_SMALL = 32  # records of a teacher whose products are not formed one by one
_LARGE_AT_ONCE = 64  # teachers of more records


@dataclass(eq=False, repr=False, kw_only=True)
class MomentVotes(RoundVotes):
    """The votes in rounds of teachers whose records are in memory.

    A teacher's vote is the mean over its records of features(x) (y - p(x))^T, where p is the student's probability. The
    features are public (`PublicPCA.with_constant`). The mean over n records is multiplied by sqrt(n /
    records_per_teacher). If records are independent, the votes of all teachers then have about the same length, and one
    clip fits all of them. The vote of a trained teacher is not multiplied, and its own confidences replace a part of p
    (`PoolAnswers`).

    Attributes:
        inputs: float32 `[num_records, ...]`, private; read a few thousand rows at a time.
        labels: bool `[num_records, num_labels]`, private.
        teacher_of: int `[num_records]`, the index of each record's teacher.
        num_teachers: the number of teachers.
        directions: the directions of the public pool; its `recipe` holds the trust in trained teachers.
        public_inputs: float32 `[num_public, ...]`, the rows that stand for the pool.
        records_per_teacher: the approximate number of records of a teacher, public.
        ask: a function that returns the confidences of all trained teachers on the pool; called once. None for teachers
            without training.
        weights: public, `[num_teachers]` in [0, 1], the weight of each teacher; None for 1.
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
        sort_keys = sizes[self.teacher_of] * (self.num_teachers + 1) + self.teacher_of
        self._order = np.argsort(sort_keys, kind="stable")
        self._labels = self.labels[self._order]
        self._sizes = np.sort(sizes[sizes > 0])

    def total(
        self, weights: Array, label_scale: Array, clipped_moments: ClippedMoments
    ) -> Integers:
        """Returns the sum of the clipped votes, `[num_features, num_labels]`, in steps; see `RoundVotes.total`."""
        residuals = self._residuals(weights)
        answers = self._answers
        trust = self.directions.recipe.trust
        if answers is not None:
            # y - (1 - trust) p; `PoolAnswers.votes` has the rest
            residuals = (1 - trust) * residuals + trust * self._labels
        all_features = self._features

        def sum_of(group: _EqualSizes) -> Integers:
            """Returns the sum of the clipped votes of some teachers with equal numbers of records."""
            num_records = group.records_per_teacher
            features = all_features[group.rows].reshape(-1, num_records, self.width)
            scale = label_scale * self._vote_factor(num_records)
            group_residuals = residuals[group.rows].reshape(-1, num_records, self.num_labels)
            scaled = group_residuals * scale
            teachers = self.teacher_of[self._order[group.rows][::num_records]]
            teacher_weights = 1.0 if self.weights is None else self.weights[teachers]
            if answers is not None:
                votes_on_pool = answers.votes(teachers, weights, trust) * label_scale
                means = _means(features, residuals=scaled) + votes_on_pool
                return clipped_moments.sum_of_means(means, teacher_weights)
            if num_records == 1:
                return clipped_moments.sum_of_single(
                    features[:, 0], residuals=scaled[:, 0], weights=teacher_weights
                )
            if num_records <= _MOST_OF_SMALL:
                return clipped_moments.sum_of_small(
                    features, residuals=scaled, weights=teacher_weights
                )
            means = _means(features, residuals=scaled)
            return clipped_moments.sum_of_means(means, teacher_weights)

        total = np.zeros(weights.shape, dtype=np.int64)
        for votes in in_order(sum_of, items=_groups_of_equal_size(self._sizes)):
            total += votes
        return total

    def record_factors(
        self,
        inputs: Floats,
        labels: NDArray[np.bool_],
        weights: Array,
        label_scale: Array,
        clipped_moments: ClippedMoments,
    ) -> tuple[Array, Array]:
        """Returns the two factors of the votes of teachers with one record each.

        The factors are features `[num_records, num_features]` and clipped residuals `[num_records, num_labels]`. Their
        outer product is a teacher's vote in steps. The privacy audit compares the votes of records by these factors.

        Args:
            inputs: float32 `[num_records, ...]`.
            labels: bool `[num_records, num_labels]`.
            weights: `[num_features, num_labels]`, the weights of the student.
            label_scale: `[num_labels]`, the factor of each label's residuals before the clip.
            clipped_moments: the clip and the grid of the sum.
        """
        features = self.directions.with_constant(inputs)
        residuals = labels - 0.5 * (1 + np.tanh(features @ weights / 2))
        residuals *= label_scale * self._vote_factor(num_records=1)
        lengths = np.linalg.norm(residuals, axis=1, keepdims=True)
        residuals *= clipped_moments.clip / np.maximum(lengths, clipped_moments.clip)
        return features, residuals / clipped_moments.step

    def _vote_factor(self, num_records: int) -> float:
        """Returns the factor by which a vote multiplies the mean over `num_records` records."""
        if self.ask is not None:
            return 1.0
        return math.sqrt(num_records / self.records_per_teacher)

    @cached_property
    def _answers(self) -> PoolAnswers | None:
        return None if self.ask is None else self.ask()

    def _residuals(self, weights: Array) -> Array:
        """Returns labels minus the student's probabilities, `[num_records, num_labels]`, sorted by teacher.

        Features and weights are whole numbers, and doubles hold the sums of their products exactly, as in
        `exact_product`.
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

        for _ in in_order(fill, items=_blocks(len(residuals))):
            pass
        return residuals

    @cached_property
    def _features(self) -> Floats:
        """The features of all records, sorted by teacher: `[num_records, num_features]` in steps of 2**-14.

        Entries are rounded towards 0, so that no row becomes longer than 1.
        """
        features = np.empty((len(self._order), self.width), dtype=np.float32)

        def fill(rows: slice) -> None:
            records = self._order[rows]
            inputs = _padded(self.inputs[records])
            block = self.directions.with_constant(inputs)[: len(records)]
            features[rows] = np.trunc(block * FEATURE_STEPS)

        for _ in in_order(fill, items=_blocks(len(features))):
            pass
        return features


@dataclass(frozen=True)
class _EqualSizes:
    """Some teachers with equal numbers of records, whose records are adjacent.

    Attributes:
        records_per_teacher: the number of records of each teacher.
        rows: the range of their records.
    """

    records_per_teacher: int
    rows: slice


def _groups_of_equal_size(records_per_teacher: RowNumbers) -> Iterator[_EqualSizes]:
    """Yields groups of teachers with equal numbers of records.

    Args:
        records_per_teacher: the number of records of each teacher, sorted.
    """
    first = 0
    distinct, counts = np.unique(records_per_teacher, return_counts=True)
    for num_records, num_teachers in zip(distinct.tolist(), counts.tolist(), strict=True):
        is_small = num_records <= _MOST_OF_SMALL
        at_once = max(1, _BLOCK_ROWS // num_records) if is_small else _LARGE_AT_ONCE
        for done in range(0, num_teachers, at_once):
            last = first + num_records * min(at_once, num_teachers - done)
            yield _EqualSizes(records_per_teacher=num_records, rows=slice(first, last))
            first = last


def _blocks(num_rows: int) -> Iterator[slice]:
    return (
        slice(start, min(start + _BLOCK_ROWS, num_rows))
        for start in range(0, num_rows, _BLOCK_ROWS)
    )


def _padded(rows: NDArray[Any]) -> NDArray[Any]:
    """Returns rows with rows of zeros appended, so that there are 512.

    A matrix product then has the same shape for every block, and rounds a record in the same way in each of them.
    """
    missing = _BLOCK_ROWS - len(rows)
    if missing == 0:
        return rows
    zeros = np.zeros((missing, *rows.shape[1:]), dtype=rows.dtype)
    return np.concatenate([rows, zeros])


def _means(features: Floats, residuals: Array) -> Array:
    """Returns the mean over a teacher's records of feature x residual^T, `[num_teachers, num_features, num_labels]`.

    Args:
        features: `[num_teachers, num_records, num_features]`, in steps.
        residuals: `[num_teachers, num_records, num_labels]`.
    """
    wide = features.transpose(0, 2, 1).astype(np.float64)
    return np.asarray(wide @ residuals / (FEATURE_STEPS * features.shape[1]))
