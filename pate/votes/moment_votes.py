"""What teachers say against a public student: features times what it does not know of their labels, or a fit of it."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.pool import in_order
from pate.validation import require
from pate.votes.clipping import FEATURE_STEPS, ClippedMoments, Integers, Weighted
from pate.votes.public_pca import PublicPCA

Array = NDArray[np.float64]
Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

TRUST = 0.5  # of a teacher, in place of the student's probabilities; public and the same for all
# rows of the public pool that stand for it; as many as are asked, where those are more
MOST_PUBLIC = 20_000
_BLOCK = 512
_WEIGHT_BITS = 38  # of a column's length; a row of features has 14
_FEW = 32  # records of a teacher whose products are not formed one by one
_TEACHERS = 64  # of more records, at once
_TINY = 1e-300
_GUESSES = 8
_ABOVE_GUESS = 1.1

# of a teacher's training, in clips; the clip is smaller by four times as much
_TOLERANCE = 2.0**-12
# for which doubles have digits enough: see docs/proofs/vote_rounds.md
_MOST_RECORDS = 2**18
_MOST_WEIGHTS = 2**24
_MOST_PULL = 2.0**37
_MOST_LENGTHS = 2.0**38
# Records of a group over those that are expected of one: a group counts the root of its records, 4 times at most. So
# no group makes training longer than that, and no more than 16 times as many numbers are multiplied.
_MOST_TIMES_EXPECTED = 16
_MOST_STEPS = 2**20


class RoundVotes(Weighted):
    """The sums of all teachers' votes in rounds, wherever the teachers are. Nothing of them is priced."""

    public: NDArray[np.float32]  # `[m, D]`, features of the public pool, of length 1
    variances: Array  # `[D - 1]`, of the pool along each feature but the constant
    records_per_teacher: float  # about, public

    @property
    def width(self) -> int:
        """The number of public features, the constant included."""
        return int(self.public.shape[1])

    @abstractmethod
    def total(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        """The sum `[D, L]` of clipped votes, in steps, given the student's weights; residuals are scaled by label."""


@dataclass(frozen=True, eq=False)
class PoolAnswers:
    """Of every teacher the mean of features x confidence over public rows, minus that over its own records.

    A teacher's confidences are moved by a number for each label, so that on its own records they are its label shares.
    """

    # float32 `[N, D, L]`, features of length at most 1. Not private-safe: it is a part of the
    # votes.
    beyond: Floats
    asked: Floats  # float32 `[q, D]`, the features of the public rows that were asked

    def votes(self, teachers: NDArray[np.int64], weights: Array) -> Array:
        """What is added to the teachers' mean products with (label - (1 - TRUST) probability), `[c, D, L]`.

        TRUST (mean over the pool of features x (confidence - probability) - the teacher's own mean of features x
        confidence): where a teacher is right, the chance of which records it has is gone from its vote.
        """
        half = np.tanh(self.asked @ (weights / 2).astype(np.float32))
        of_student = self.asked.T @ (0.5 * (1 + half)) / len(self.asked)
        return np.asarray(TRUST * (self.beyond[teachers].astype(np.float64) - of_student))


def beyond_own(
    own: Floats, said: Floats, labels: NDArray[np.bool_], asked: Floats, of_pool: Floats
) -> Floats:
    """One teacher's row of `PoolAnswers.beyond`, from features, answers and labels of its records, and the pool's."""
    moved = (said - labels).mean(axis=0)
    products = asked.T @ (of_pool - moved) / len(asked) - own.T @ (said - moved) / len(own)
    return np.asarray(products, dtype=np.float32)


@dataclass(eq=False, repr=False, kw_only=True)
class MomentVotes(RoundVotes):
    """Of teachers whose records are at hand.

    A teacher's vote is the mean over its records of features(x) (y - p(x))^T, p being the student's probability. The
    features are public (`PublicPCA.with_constant`); they are computed once and kept as whole numbers. The mean of n
    records counts sqrt(n / records_per_teacher) times: where they have nothing to do with each other, votes of all
    teachers are then about as long, and one clip fits them. Of teachers that were trained each mean counts once, and
    the half of p gives way to what the teacher says itself, of its records and of the pool (`PoolAnswers`).
    """

    inputs: NDArray[np.float32]  # `[n, …]`, private; read a few thousand rows at a time
    labels: NDArray[np.bool_]  # `[n, L]`, private
    teacher_of: Rows  # `[n]`, of each record
    num_teachers: int
    directions: PublicPCA  # of the public pool
    public_inputs: NDArray[np.float32]  # `[m, …]`, what stands for the pool
    records_per_teacher: float
    ask: Callable[[], PoolAnswers] | None = None  # what trained teachers say, called once
    weights: Array | None = None

    def __post_init__(self) -> None:
        self.num_labels = self.labels.shape[1]
        self.public = self.directions.with_constant(self.public_inputs).astype(np.float32)
        self.variances = self.directions.feature_variances
        sizes = np.bincount(self.teacher_of, minlength=self.num_teachers)
        self._order = np.argsort(
            sizes[self.teacher_of] * (self.num_teachers + 1) + self.teacher_of, kind="stable"
        )
        self._labels = self.labels[self._order]
        self._sizes = np.sort(sizes[sizes > 0])

    def total(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        """Returns the sum of clipped votes against a student, in steps."""
        residuals = self._residuals(weights)
        answers = self._answers
        if answers is not None:
            residuals = (1 - TRUST) * residuals + TRUST * self._labels
        all_features = self._features

        def votes_of(alike: tuple[int, slice]) -> Integers:
            """The sum of a few teachers' votes, who have as many records each."""
            size, rows = alike
            features = all_features[rows].reshape(-1, size, self.width)
            left = residuals[rows].reshape(-1, size, self.num_labels) * (
                label_scale * self._weight(size)
            )
            teachers = self.teacher_of[self._order[rows][::size]]
            counted = 1.0 if self.weights is None else self.weights[teachers]
            if answers is not None:
                said = answers.votes(teachers, weights) * label_scale
                return clipped.of_several(_means(features, left) + said, counted)
            if size == 1:
                return clipped.of_single(features[:, 0], left[:, 0], counted)
            if size <= _FEW:
                return clipped.of_few(features, left, counted)
            return clipped.of_several(_means(features, left), counted)

        total = np.zeros(weights.shape, dtype=np.int64)
        for votes in in_order(votes_of, _alike(self._sizes)):
            total += votes
        return total

    def of_each(
        self,
        inputs: Floats,
        labels: NDArray[np.bool_],
        weights: Array,
        label_scale: Array,
        clipped: ClippedMoments,
    ) -> tuple[Array, Array]:
        """Features `[n, D]` and residuals `[n, L]` in steps of records of a teacher each: factors of what these add."""
        features = self.directions.with_constant(inputs)
        found = labels - 0.5 * (1 + np.tanh(features @ weights / 2))
        found *= label_scale * self._weight(1)
        found *= clipped.clip / np.maximum(
            np.linalg.norm(found, axis=1, keepdims=True), clipped.clip
        )
        return features, found / clipped.step

    def _weight(self, size: int) -> float:
        """Of the mean over that many records."""
        return math.sqrt(size / self.records_per_teacher) if self.ask is None else 1.0

    @cached_property
    def _answers(self) -> PoolAnswers | None:
        return None if self.ask is None else self.ask()

    def _residuals(self, weights: Array) -> Array:
        """Labels minus the student's probabilities; numpy's tanh takes a fifth of the time of a logistic function.

        Floats and weights are whole numbers whose sums of products doubles hold, as in `exact_product`.
        """
        per_step = weights / (2 * FEATURE_STEPS)
        bits = _WEIGHT_BITS - int(np.frexp(np.linalg.norm(per_step, axis=0).max())[1])
        on_grid = np.trunc(np.ldexp(per_step, bits))
        unit = math.ldexp(1.0, -bits)
        all_features = self._features
        found = np.empty((len(self._labels), weights.shape[1]))

        def fill(rows: slice) -> None:
            labels = self._labels[rows]
            halves = (_block(all_features[rows]).astype(np.float64) @ on_grid) * unit
            found[rows] = labels - 0.5 * (1 + np.tanh(halves.astype(np.float32))[: len(labels)])

        for _ in in_order(fill, _blocks(len(found))):
            pass
        return found

    @cached_property
    def _features(self) -> NDArray[np.float32]:
        """`[n, D]` in the order of the labels: of length at most 1, cut towards 0, in steps of 2**-14."""
        found = np.empty((len(self._order), self.width), dtype=np.float32)

        def fill(rows: slice) -> None:
            records = self._order[rows]
            features = self.directions.with_constant(_block(self.inputs[records]))[: len(records)]
            found[rows] = np.trunc(features * FEATURE_STEPS)

        for _ in in_order(fill, _blocks(len(found))):
            pass
        return found


def _blocks(num_rows: int) -> Iterator[slice]:
    return (slice(start, min(start + _BLOCK, num_rows)) for start in range(0, num_rows, _BLOCK))


def _block(rows: NDArray[Any]) -> NDArray[Any]:
    """Zeros below: products of one shape treat a record alike, however many stand beside it."""
    missing = _BLOCK - len(rows)
    return (
        np.concatenate([rows, np.zeros((missing, *rows.shape[1:]), dtype=rows.dtype)])
        if missing
        else rows
    )


def _alike(sizes: Rows) -> Iterator[tuple[int, slice]]:
    """Teachers of the same number of records, a few at a time: that number, and where their records are."""
    first = 0
    (distinct, counts) = np.unique(sizes, return_counts=True)
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


def convex_fit(
    features: Array,  # `[n, D]`, of length at most 1
    targets: Array,  # `[n, L]`, finite
    *,
    counts: Array,  # `[n]`, > 0, like the rest
    limits: Array,  # `[n]`
    ridge: float,
    tolerance: float,
    most_steps: int,
) -> Array:
    """Nearly the weights W `[D, L]` that minimize the sum of counts h(|target - features W|) + ridge |W|^2 / 2.

    h is Huber's function of a record's distance over all labels together: a square up to the record's limit, a line
    from there on. So the gradient of a record is at most as long as its count times its limit. Gradient descent comes
    first with a step for the curvature that there seems to be, halved wherever it has not made the gradient shorter.
    If that does not end, it begins again at 0 with a step that is short enough for any records.

    Formal guarantee: it ends, whatever the records are. The weights are nearer than `tolerance / ridge` to the minimum,
    where `most_steps` is at least `steps_to_minimum`. Costs at most twice as many steps. Source:
    docs/proofs/vote_rounds.md.
    """

    def gradient(weights: Array) -> Array:
        left = targets - features @ weights
        lengths = np.sqrt(np.einsum("ij,ij->i", left, left))
        left *= (counts * np.minimum(1.0, limits / np.maximum(lengths, _TINY)))[:, None]
        return np.asarray(ridge * weights - features.T @ left)

    # No eigenvalue of the Hessian is above ridge + sum of counts, as features have length 1 at most. Up to that step
    # every step takes the distance to the minimum down to 1 - step ridge of it.
    surely = 1 / (ridge + float(counts.sum()))
    direction = counts @ features + 1
    # the power method: about the largest eigenvalue of the weighted Gram matrix, or less
    for _ in range(_GUESSES):
        unit = direction / max(float(np.linalg.norm(direction)), _TINY)
        direction = (counts * (features @ unit)) @ features
    probably = 2 / (2 * ridge + _ABOVE_GUESS * float(np.linalg.norm(direction)))
    for step, least in ((max(probably, surely), surely), (surely, surely)):
        weights = np.zeros((features.shape[1], targets.shape[1]))
        before = math.inf
        for _ in range(most_steps):
            slope = gradient(weights)
            length = float(np.linalg.norm(slope))
            if length < tolerance:
                return weights
            if not length < before:
                step = max(step / 2, least)
            weights -= step * slope
            before = length
    return weights


def steps_to_minimum(pull: float, *, curvature: float, ridge: float, tolerance: float) -> float:
    """After so many steps from 0 weights are nearer than half of `tolerance / ridge` to the minimum.

    The pull is the most that of all records together may be, the curvature the most that the counts may add up to.
    The minimum is no farther from 0 than `pull / ridge`; n steps leave at most e^(-n ridge / (ridge + curvature)).
    """
    return math.ceil((1 + curvature / ridge) * math.log(max(2 * pull / tolerance, 2.0)))


@dataclass(eq=False, repr=False, kw_only=True)
class ConvexVotes(MomentVotes):
    """Of teachers that learn, in every round, what the student gets wrong of their own records.

    A teacher fits weights W to B (y - p(x)) by `convex_fit`, the penalty being Λ |W|^2 / 2. Its vote is Λ W, scaled up
    by what the penalty takes off along an average direction. At the minimum Λ W is the sum of the clipped gradients of
    its groups; where one group is replaced, it moves by at most two clips, however many groups the teacher has.

    To `RoundVotes` the groups are the teachers: `num_teachers` is their number. Of a group the first `most_records`
    count, a number that no record decides. So a vote is there for any records, after a number of steps that has a
    public bound: nothing is refused once the release is charged.

    Raises `InvalidValue` for so many groups per teacher that rounding could move a vote by more than the clip leaves
    room for, or that training could take too long: by public numbers alone.
    """

    learner_of: Rows  # the teacher of each group `[G]`
    num_learners: int  # N
    penalty: float  # Λ over the groups per teacher times the mean variance of a direction, > 0

    def __post_init__(self) -> None:
        super().__post_init__()
        penalty = self.penalty
        num_learners = self.num_learners
        self._ridge = penalty / self.width * self.num_teachers / num_learners
        num_weights = self.width * self.num_labels
        fewer = "fewer directions of the public pool or fewer labels"
        require(num_weights <= _MOST_WEIGHTS, "weights", num_weights, fewer)
        # of the largest teacher
        groups = int(np.bincount(self.learner_of, minlength=num_learners).max())
        smaller = "more teachers, or a larger penalty: these have too many groups"
        lengths = (self.num_labels + 4) * groups
        require(
            groups <= _MOST_RECORDS and lengths <= _MOST_LENGTHS,
            "num_teachers",
            num_learners,
            smaller,
        )
        expected = math.ceil(_MOST_TIMES_EXPECTED * self.records_per_teacher)
        self.most_records = min(expected, _MOST_RECORDS // groups)
        counted = groups * math.sqrt(self.most_records / self.records_per_teacher)
        require(
            counted * groups * (self.width + 2) <= _MOST_PULL * self._ridge,
            "num_teachers",
            num_learners,
            smaller,
        )
        steps = steps_to_minimum(groups, curvature=counted, ridge=self._ridge, tolerance=_TOLERANCE)
        require(
            steps <= _MOST_STEPS,
            "penalty",
            penalty,
            "a larger one, or fewer directions of the public pool",
        )
        self._most_steps = int(steps)

    def total(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        """Returns the sum of clipped votes against a student, in steps."""
        residuals = self._residuals(weights) * label_scale
        gain = 1 + 1 / self.penalty
        clip = clipped.clip / gain * (1 - 4 * _TOLERANCE)
        groups = self.teacher_of[self._order]
        sizes = np.minimum(np.bincount(groups, minlength=self.num_teachers), self.most_records)[
            groups
        ]
        counted = np.sqrt(sizes / self.records_per_teacher)  # what the group of each record counts
        all_features = self._features

        def vote_of(rows: Rows) -> Integers:
            """One teacher's."""
            found = convex_fit(
                all_features[rows].astype(np.float64) / FEATURE_STEPS,
                residuals[rows],
                counts=counted[rows] / sizes[rows],
                limits=clip / counted[rows],
                ridge=self._ridge,
                tolerance=_TOLERANCE * clip,
                most_steps=self._most_steps,
            )
            return np.asarray(
                np.trunc(found * (gain * self._ridge / clipped.step)).astype(np.int64)
            )

        total = np.zeros(weights.shape, dtype=np.int64)
        for vote in in_order(vote_of, filter(len, self._rows_of_learners)):
            total += vote
        return total

    @cached_property
    def _rows_of_learners(self) -> list[Rows]:
        """Of each teacher, in the order of the labels: the first records of each of its groups."""
        groups = self.teacher_of[self._order]  # all records of a group side by side
        firsts = np.flatnonzero(np.diff(groups, prepend=-1))
        # within its group
        place = np.arange(len(groups)) - np.repeat(firsts, np.diff(firsts, append=len(groups)))
        kept = np.flatnonzero(place < self.most_records)
        learners = self.learner_of[groups[kept]]
        ends = np.cumsum(np.bincount(learners, minlength=self.num_learners))
        return np.split(kept[np.argsort(learners, kind="stable")], ends[:-1])
