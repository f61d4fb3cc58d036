"""Votes in rounds, each against the student of the rounds before, and what they release."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, Event, GaussianEvent
from pate.accounting.special import expit
from pate.aggregators.aggregator import Drawn, ReleaseContext
from pate.aggregators.release import Release, TrainingSet
from pate.files.arrays import ArrayForm
from pate.mechanisms.noise.whole_numbers import LARGEST_STD, RoundedGaussian
from pate.validation import require, require_count, require_positive, rounded_down
from pate.votes.clipping import ClippedMoments, Integers
from pate.votes.descent import Descent, expected_f1_threshold
from pate.votes.moment_votes import RoundVotes

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RoundsRelease(Release):
    """What `VoteRounds` released; all of it may be published."""

    scores: Array  # float64 `[Q, L]`, the student's probabilities
    student: Array  # float64 `[D, L]`, its weights: logits on `PublicPCA.with_constant` of directions of the pool

    _FORMS: ClassVar[dict[str, ArrayForm]] = Release._FORMS | {
        "scores": ArrayForm("f", (None, None)),
        "student": ArrayForm("f", (None, None)),
    }

    @classmethod
    def of(cls, weights: Array, features: NDArray[np.float32], num_queries: int, event: Event, by: Adjacency) -> Self:
        """That of a student, given the features of the pool, which begins with the queries.

        Labels are those from the probability on that has the best expected micro-F1 on the pool.
        """
        probabilities = np.asarray(expit(features @ weights), dtype=np.float64)
        scores = probabilities[:num_queries]
        labels = scores >= expected_f1_threshold(probabilities)
        return cls(labels, np.ones(num_queries, dtype=np.bool_), event, by, scores, weights)

    def training_set(self, inputs: NDArray[np.float32]) -> TrainingSet:
        return replace(super().training_set(inputs), weights=self.student)


_CLIP = 0.5  # of a typical length
_LEAST_LEFT = 1e-4  # of a label's variance, in a round's clip
_MOST_LABELS = 1024  # of which products of residuals are summed: docs/proofs/vote_rounds.md
_LEAST_FACTOR = 1e-90  # of the clip, which then stays a length whose square is a number


@dataclass(frozen=True)
class VoteRounds:
    """Releases, in rounds, the mean over teachers of features times what the student of that round gets wrong.

    Rule: a vote is features(x) (y - p(x))^T, a teacher's mean over its records (`MomentVotes`), p the student's
    probabilities; labels are scaled by (their variance)**(-1/4), so that rare ones are not lost beside common ones.
    Votes are clipped to half of the length that labels drawn by p would give on as many unrelated public inputs as a
    teacher has records, summed, and released with Gaussian noise. Each round is a step of the student's `Descent`,
    which begins with the prevalence.

    Formal guarantees:
        * Each round's clip and student are functions of what was released. Every round has noise of
          `noise_multiplier * sqrt(num_rounds)` times its sensitivity: all together cost one Gaussian event, which is
          charged with the first of them.
        * A round is drawn once, around the sum that is there then, and is read back ever after: no two sums carry the
          same noise, and none is released twice.
        * Sums are whole numbers of steps, noise is rounded to whole numbers.

    Source: docs/proofs/vote_rounds.md.
    """

    noise_multiplier: float  # of all rounds together, > 0
    num_rounds: int  # >= 1
    clip_factor: float = 1.0  # times half of that length, > 0
    adjacency: Adjacency = Adjacency.REPLACE_ONE  # as the aggregator's

    def __post_init__(self) -> None:
        require_positive("noise_multiplier", self.noise_multiplier)
        require_count("rounds", self.num_rounds)
        factor = require_positive("clip_factor", self.clip_factor)
        require(factor >= _LEAST_FACTOR, "clip_factor", factor, f"at least {_LEAST_FACTOR:g} for votes in rounds")
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))

    @property
    def event(self) -> GaussianEvent:
        return GaussianEvent(self.noise_multiplier)

    def require_shape(self, *, num_teachers: int, num_labels: int) -> None:
        """Raises `InvalidValue` for more teachers or labels than sums are right for, or noise beyond draws."""
        rule = f"at most {_MOST_LABELS} in rounds, or aggregator.rounds=1"
        require(num_labels <= _MOST_LABELS, "num_labels", num_labels, rule)
        finest = ClippedMoments(math.nextafter(2.0, 0.0), num_teachers, self.adjacency).l2_sensitivity
        most = LARGEST_STD / finest / math.sqrt(self.num_rounds)
        rule = f"at most {rounded_down(most)} in {self.num_rounds} rounds: a larger epsilon, or aggregator.rounds=1"
        require(self.noise_multiplier <= most, "noise_multiplier", self.noise_multiplier, rule)

    def release(
        self, votes: RoundVotes, prevalence: Array, context: ReleaseContext | None, *, variance: float = 0.0
    ) -> Array:
        """The student's weights `[D, L]`, given a prevalence `[L]`, public or released, and the variance of its noise.

        What the context has drawn before is read back: a run that was killed goes on with the next round. Who calls it
        has paid for all rounds, or pays with the first. Without a context there is no noise, and no epsilon covers it.
        """
        done, own = (Drawn() if context is None else context.drawn or Drawn()), prevalence * (1 - prevalence)
        factor = _CLIP * self.clip_factor
        descent = Descent(votes.public, votes.variances, prevalence, clip_factor=factor, num_steps=self.num_rounds)
        weights, seen, scale = descent.start(), np.zeros_like(prevalence), (own / own.mean()) ** -0.25
        for number in range(self.num_rounds):
            probabilities = descent.probabilities(weights)
            # a round's clip and the scale of each label are functions of what is public or was released
            left = (probabilities * (1 - probabilities)).mean(axis=0, dtype=np.float64)
            left = np.maximum(left, _LEAST_LEFT * own)  # of a student that is sure of everything
            likely = math.sqrt(float((left * scale**2).sum()) / max(votes.records_per_teacher, 1.0))
            clipped = ClippedMoments(factor * likely, votes.num_teachers, self.adjacency)
            if context is None:
                std, total = 0.0, votes.total(weights, scale, clipped)
            else:
                std = self.noise_multiplier * math.sqrt(self.num_rounds) * clipped.l2_sensitivity
                # drawn also where the round is read back: a seeded run that is continued goes on with the same numbers
                noise = RoundedGaussian(std).sample((votes.width, votes.num_labels), context.rng)
                gather = partial(votes.total, weights, scale, clipped)
                total = done.once(f"step-{number}", partial(_noisy, gather, noise))["total"]
            unit = clipped.step / votes.total_weight / scale
            rate = (std * unit) ** 2 / self.num_rounds
            if number == 0:
                pace = descent.pace(rate)
            gradient = total * unit
            seen += descent.prevalence_seen(probabilities, gradient) / self.num_rounds
            weights = descent.moved(weights, gradient, pace)
        return descent.finished(weights, pace, rate, descent.prevalence_with(variance, seen, rate))


def _noisy(gather: Callable[[], Integers], noise: Integers) -> dict[str, Integers]:
    return {"total": gather() + noise}
