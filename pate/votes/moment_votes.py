"""What teachers say against a public student: features times what it does not know of their labels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.votes.clipping import FEATURE_STEPS, ClippedMoments, Integers
from pate.votes.public_pca import PublicPCA

Array = NDArray[np.float64]
Floats = NDArray[np.float32]
Rows = NDArray[np.int64]


class RoundVotes(ABC):
    """The sums of all teachers' votes in rounds, wherever the teachers are. Nothing of them is priced.

    Attributes:
        public: float32 `[m, D]`, features of the public pool, of length 1.
        variances: `[D - 1]`, of the pool along each feature but the constant.
        num_teachers: N, public.
        records_per_teacher: about, public.
        num_labels: L.
        weights: `[N]`, public, in [0, 1]: what each teacher counts; None where all count once.
    """

    public: NDArray[np.float32]
    variances: Array
    num_teachers: int
    records_per_teacher: float
    num_labels: int
    weights: Array | None = None

    @property
    def total_weight(self) -> float:
        """Of all teachers together, N where all count once."""
        return self.num_teachers if self.weights is None else float(self.weights.sum())

    @property
    def width(self) -> int:
        return int(self.public.shape[1])

    @abstractmethod
    def total(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        """The sum `[D, L]` of all teachers' clipped votes, in steps.

        Args:
            weights: `[D, L]`, the student's logits.
            label_scale: `[L]`, public: what residuals of each label are multiplied with.
            clipped: the sum.
        """


TRUST = 0.5
"""Of a teacher, in place of the student's probabilities; public and the same for all."""


@dataclass(frozen=True, eq=False)
class PoolAnswers:
    """Of every teacher the mean of features x confidence over public rows, minus that over its own records.

    A teacher's confidences are moved by a number for each label, so that on its own records they are its label shares.
    """

    beyond: Floats  # float32 `[N, D, L]`, features of length at most 1. Not private-safe: it is a part of the votes.
    asked: Floats  # float32 `[q, D]`, the features of the public rows that were asked

    def votes(self, teachers: NDArray[np.int64], weights: Array) -> Array:
        """What is added to the teachers' mean products with (label - (1 - TRUST) probability), `[c, D, L]`.

        TRUST (mean over the pool of features x (confidence - probability) - the teacher's own mean of features x
        confidence): where a teacher is right, the chance of which records it has is gone from its vote.

        Args:
            teachers: `[c]`.
            weights: `[D, L]`, the student's logits.
        """
        half = np.tanh(self.asked @ (weights / 2).astype(np.float32))
        of_student = self.asked.T @ (0.5 * (1 + half)) / len(self.asked)
        return np.asarray(TRUST * (self.beyond[teachers].astype(np.float64) - of_student))


def beyond_own(own: Floats, said: Floats, labels: NDArray[np.bool_], asked: Floats, of_pool: Floats) -> Floats:
    """One teacher's row of `PoolAnswers.beyond`, `[D, L]`.

    Args:
        own: `[n, D]`, features of its own records.
        said: `[n, L]`, its confidences there.
        labels: bool `[n, L]`, what is true there.
        asked: `[q, D]`, features of the public rows.
        of_pool: `[q, L]`, its confidences on the public rows.
    """
    moved = (said - labels).mean(axis=0)
    products = asked.T @ (of_pool - moved) / len(asked) - own.T @ (said - moved) / len(own)
    return np.asarray(products, dtype=np.float32)


MOST_PUBLIC = 20_000
"""Rows of the public pool that stand for it; as many as are asked, where those are more."""

_BLOCK = 512
_WEIGHT_BITS = 38  # of a column's length; a row of features has 14
_FEW = 32  # records of a teacher whose products are not formed one by one
_TEACHERS = 64  # of more records, at once


class MomentVotes(RoundVotes):
    """See `RoundVotes`: of teachers whose records are at hand.

    A teacher's vote is the mean over its records of features(x) (y - p(x))^T, p being the student's probability. The
    features are public (`PublicPCA.with_constant`); they are computed once and kept as whole numbers. The mean of n
    records counts sqrt(n / records_per_teacher) times: where they have nothing to do with each other, votes of all
    teachers are then about as long, and one clip fits them. Of teachers that were trained each mean counts once, and
    the half of p gives way to what the teacher says itself, of its records and of the pool (`PoolAnswers`).

    Args:
        inputs: float32 `[n, …]`, private; read a few thousand rows at a time.
        labels: bool `[n, L]`, private.
        teacher_of: int64 `[n]`, the teacher of each record.
        num_teachers: N.
        directions: of the public pool.
        public_inputs: float32 `[m, …]`, what stands for the pool.
        records_per_teacher: about, public.
        ask: gives what trained teachers say, called once; None for kernel teachers.
        weights: see `RoundVotes`.
    """

    def __init__(
        self,
        *,
        inputs: NDArray[np.float32],
        labels: NDArray[np.bool_],
        teacher_of: Rows,
        num_teachers: int,
        directions: PublicPCA,
        public_inputs: NDArray[np.float32],
        records_per_teacher: float,
        ask: Callable[[], PoolAnswers] | None = None,
        weights: Array | None = None,
    ) -> None:
        self.weights = weights
        self.num_teachers, self.records_per_teacher = num_teachers, records_per_teacher
        self.num_labels = labels.shape[1]
        self.public = directions.with_constant(public_inputs).astype(np.float32)
        self.variances = directions.feature_variances
        self._inputs, self.directions, self._teacher_of, self._ask = inputs, directions, teacher_of, ask
        sizes = np.bincount(teacher_of, minlength=num_teachers)
        order = np.argsort(sizes[teacher_of] * (num_teachers + 1) + teacher_of, kind="stable")
        self._order, self._labels = order, labels[order]
        self._sizes = np.sort(sizes[sizes > 0])

    def total(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        residuals = self._residuals(weights)
        answers = self._answers
        if answers is not None:
            residuals = (1 - TRUST) * residuals + TRUST * self._labels
        total = np.zeros(weights.shape, dtype=np.int64)
        for size, rows in _alike(self._sizes):
            shape = (-1, size, self.width), (-1, size, self.num_labels)
            scale = label_scale * self._weight(size)
            features, left = self._features[rows].reshape(shape[0]), residuals[rows].reshape(shape[1]) * scale
            teachers = self._teacher_of[self._order[rows][::size]]
            counted = 1.0 if self.weights is None else self.weights[teachers]
            if answers is not None:
                said = answers.votes(teachers, weights) * label_scale
                total += clipped.of_several(_means(features, left) + said, counted)
            elif size == 1:
                total += clipped.of_single(features[:, 0], left[:, 0], counted)
            elif size <= _FEW:
                total += clipped.of_few(features, left, counted)
            else:
                total += clipped.of_several(_means(features, left), counted)
        return total

    def of_each(
        self, inputs: Floats, labels: NDArray[np.bool_], weights: Array, label_scale: Array, clipped: ClippedMoments
    ) -> tuple[Array, Array]:
        """Features `[n, D]` and residuals `[n, L]` in steps of records of a teacher each: factors of what these add."""
        features = self.directions.with_constant(inputs)
        found = labels - 0.5 * (1 + np.tanh(features @ weights / 2))
        found *= label_scale * self._weight(1)
        found *= clipped.clip / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), clipped.clip)
        return features, found / clipped.step

    def _weight(self, size: int) -> float:
        """Of the mean over that many records."""
        return math.sqrt(size / self.records_per_teacher) if self._ask is None else 1.0

    @cached_property
    def _answers(self) -> PoolAnswers | None:
        return None if self._ask is None else self._ask()

    def _residuals(self, weights: Array) -> Array:
        """Labels minus the student's probabilities; numpy's tanh takes a fifth of the time of a logistic function.

        Floats and weights are whole numbers whose sums of products doubles hold, as in `exact_product`.
        """
        per_step = weights / (2 * FEATURE_STEPS)
        bits = _WEIGHT_BITS - int(np.frexp(np.linalg.norm(per_step, axis=0).max())[1])
        on_grid, unit = np.trunc(np.ldexp(per_step, bits)), math.ldexp(1.0, -bits)
        found = np.empty((len(self._labels), weights.shape[1]))
        for out, features, labels in zip(_blocks(found), _blocks(self._features), _blocks(self._labels), strict=True):
            halves = (_block(features).astype(np.float64) @ on_grid) * unit
            out[:] = labels - 0.5 * (1 + np.tanh(halves.astype(np.float32))[: len(out)])
        return found

    @cached_property
    def _features(self) -> NDArray[np.float32]:
        """`[n, D]` in the order of the labels: of length at most 1, cut towards 0, in steps of 2**-14."""
        found = np.empty((len(self._order), self.width), dtype=np.float32)
        for out, rows in zip(_blocks(found), _blocks(self._order), strict=True):
            out[:] = np.trunc(self.directions.with_constant(_block(self._inputs[rows]))[: len(out)] * FEATURE_STEPS)
        return found


def _blocks(rows: NDArray[Any]) -> Iterator[NDArray[Any]]:
    return (rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK))


def _block(rows: NDArray[Any]) -> NDArray[Any]:
    """Zeros below: products of one shape treat a record alike, however many stand beside it."""
    missing = _BLOCK - len(rows)
    return np.concatenate([rows, np.zeros((missing, *rows.shape[1:]), dtype=rows.dtype)]) if missing else rows


def _alike(sizes: Rows) -> Iterator[tuple[int, slice]]:
    """Teachers of the same number of records, a few at a time: that number, and where their records are."""
    first, (distinct, counts) = 0, np.unique(sizes, return_counts=True)
    for size, count in zip(distinct.tolist(), counts.tolist(), strict=True):
        most = max(1, _BLOCK // size) if size <= _FEW else _TEACHERS
        for done in range(0, count, most):
            last = first + size * min(most, count - done)
            yield size, slice(first, last)
            first = last


def _means(features: NDArray[np.float32], residuals: Array) -> Array:
    """Each teacher's mean product, `[c, D, L]`, with features of length at most 1."""
    wide = features.transpose(0, 2, 1).astype(np.float64)
    return np.asarray(wide @ residuals / (FEATURE_STEPS * features.shape[1]))
