"""Votes of convex teachers, of which one group moves the vote only so far."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from pate.validation import require
from pate.votes.clipping import FEATURE_STEPS, ClippedMoments, Integers
from pate.votes.moment_votes import Array, MomentVotes, Rows

_TINY = 1e-300
_GUESSES = 8
_ABOVE_GUESS = 1.1


def convex_fit(
    features: Array, targets: Array, *, counts: Array, limits: Array, ridge: float, tolerance: float, most_steps: int
) -> Array:
    """Nearly the weights W `[D, L]` that minimize the sum of counts h(|target - features W|) + ridge |W|^2 / 2.

    h is Huber's function of a record's distance over all labels together: a square up to the record's limit, a line
    from there on. So the gradient of a record is at most as long as its count times its limit. Gradient descent comes
    first with a step for the curvature that there seems to be, halved wherever it has not made the gradient shorter.
    If that does not end, it begins again at 0 with a step that is short enough for any records.

    Formal guarantee: it ends, whatever the records are. The weights are nearer than `tolerance / ridge` to the minimum,
    where `most_steps` is at least `steps_to_minimum`. Costs at most twice as many steps.

    Args:
        features: `[n, D]`, of length at most 1.
        targets: `[n, L]`, finite.
        counts: `[n]`, > 0.
        limits: `[n]`, > 0.
        ridge: > 0.
        tolerance: > 0.
        most_steps: >= 1.

    Source: docs/proofs/vote_rounds.md.
    """

    def gradient(weights: Array) -> Array:
        left = targets - features @ weights
        lengths = np.sqrt(np.einsum("ij,ij->i", left, left))
        left *= (counts * np.minimum(1.0, limits / np.maximum(lengths, _TINY)))[:, None]
        return np.asarray(ridge * weights - features.T @ left)

    # No eigenvalue of the Hessian is above ridge + sum of counts, as features have length 1 at most. Up to that step
    # every step takes the distance to the minimum down to 1 - step ridge of it.
    surely = 1 / (ridge + float(counts.sum()))
    probably = 2 / (2 * ridge + _ABOVE_GUESS * _curvature(features, counts))
    for step, least in ((max(probably, surely), surely), (surely, surely)):
        weights, before = np.zeros((features.shape[1], targets.shape[1])), math.inf
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

    The minimum is no farther from 0 than `pull / ridge`, and n steps leave at most e^(-n ridge / (ridge + curvature))
    of that.

    Args:
        pull: of all records together, the most that it may be.
        curvature: the most that the counts may add up to.
        ridge: > 0.
        tolerance: > 0.
    """
    return math.ceil((1 + curvature / ridge) * math.log(max(2 * pull / tolerance, 2.0)))


def _curvature(features: Array, counts: Array) -> float:
    """About the largest eigenvalue of the weighted Gram matrix, and no more than that: by the power method."""
    direction = counts @ features + 1
    for _ in range(_GUESSES):
        unit = direction / max(float(np.linalg.norm(direction)), _TINY)
        direction = (counts * (features @ unit)) @ features
    return float(np.linalg.norm(direction))


_TOLERANCE = 2.0**-12
"""Of a teacher's training, in clips; the clip is smaller by four times as much."""
_MOST_RECORDS, _MOST_WEIGHTS, _MOST_PULL, _MOST_LENGTHS = 2**18, 2**24, 2.0**37, 2.0**38
"""For which doubles have digits enough: see docs/proofs/vote_rounds.md."""
_MOST_TIMES_EXPECTED = 16
"""Records of a group over those that are expected of one: a group counts the root of its records, 4 times at most. So
no group makes training longer than that, and no more than 16 times as many numbers are multiplied."""
_MOST_STEPS = 2**20


class ConvexVotes(MomentVotes):
    """See `RoundVotes`: of teachers that learn, in every round, what the student gets wrong of their own records.

    A teacher fits weights W to B (y - p(x)) by `convex_fit`, the penalty being Λ |W|^2 / 2. Its vote is Λ W, scaled up
    by what the penalty takes off along an average direction. At the minimum Λ W is the sum of the clipped gradients of
    its groups; where one group is replaced, it moves by at most two clips, however many groups the teacher has.

    To `RoundVotes` the groups are the teachers: `num_teachers` is their number. Of a group the first `most_records`
    count, a number that no record decides. So a vote is there for any records, after a number of steps that has a
    public bound: nothing is refused once the release is charged.

    Args:
        learner_of: int64 `[G]`, the teacher that learns from each group.
        num_learners: N.
        penalty: Λ over the groups per teacher times the mean variance of a direction, > 0.
        given: as `MomentVotes` of the groups.

    Raises:
        InvalidValue: so many groups per teacher that rounding could move a vote by more than the clip leaves room for,
            or that training could take too long. It depends on public numbers alone.
    """

    def __init__(self, *, learner_of: Rows, num_learners: int, penalty: float, **given: Any) -> None:
        super().__init__(**given)
        self.penalty, self.num_learners, self._learner_of = penalty, num_learners, learner_of
        self._ridge = penalty / self.width * self.num_teachers / num_learners
        num_weights, fewer = self.width * self.num_labels, "fewer directions of the public pool or fewer labels"
        require(num_weights <= _MOST_WEIGHTS, "weights", num_weights, fewer)
        groups = int(np.bincount(learner_of, minlength=num_learners).max())  # of the largest teacher
        smaller = "more teachers, or a larger penalty: these have too many groups"
        lengths = (self.num_labels + 4) * groups
        require(groups <= _MOST_RECORDS and lengths <= _MOST_LENGTHS, "num_teachers", num_learners, smaller)
        expected = math.ceil(_MOST_TIMES_EXPECTED * self.records_per_teacher)
        self.most_records = min(expected, _MOST_RECORDS // groups)
        counted = groups * math.sqrt(self.most_records / self.records_per_teacher)
        require(counted * groups * (self.width + 2) <= _MOST_PULL * self._ridge, "num_teachers", num_learners, smaller)
        steps = steps_to_minimum(groups, curvature=counted, ridge=self._ridge, tolerance=_TOLERANCE)
        require(steps <= _MOST_STEPS, "penalty", penalty, "a larger one, or fewer directions of the public pool")
        self._most_steps = int(steps)

    def total(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        residuals = self._residuals(weights) * label_scale
        gain = 1 + 1 / self.penalty
        clip = clipped.clip / gain * (1 - 4 * _TOLERANCE)
        total = np.zeros(weights.shape, dtype=np.int64)
        for rows, counts, weight in self._learners():
            found = convex_fit(
                self._features[rows].astype(np.float64) / FEATURE_STEPS,
                residuals[rows],
                counts=counts,
                limits=clip / weight,
                ridge=self._ridge,
                tolerance=_TOLERANCE * clip,
                most_steps=self._most_steps,
            )
            total += np.trunc(found * (gain * self._ridge / clipped.step)).astype(np.int64)
        return total

    def _learners(self) -> Iterator[tuple[Rows, Array, Array]]:
        """Of each teacher: its records, what each of them counts, and what the group of each counts."""
        groups = self._teacher_of[self._order]
        sizes = np.minimum(np.bincount(groups, minlength=self.num_teachers), self.most_records)[groups]
        weights = np.sqrt(sizes / self.records_per_teacher)
        for rows in filter(len, self._rows_of_learners):
            yield rows, weights[rows] / sizes[rows], weights[rows]

    @cached_property
    def _rows_of_learners(self) -> list[Rows]:
        """Of each teacher, in the order of the labels: the first records of each of its groups."""
        groups = self._teacher_of[self._order]  # all records of a group side by side
        firsts = np.flatnonzero(np.diff(groups, prepend=-1))
        place = np.arange(len(groups)) - np.repeat(firsts, np.diff(firsts, append=len(groups)))  # within its group
        kept = np.flatnonzero(place < self.most_records)
        learners = self._learner_of[groups[kept]]
        ends = np.cumsum(np.bincount(learners, minlength=self.num_learners))
        return np.split(kept[np.argsort(learners, kind="stable")], ends[:-1])
