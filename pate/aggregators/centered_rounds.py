"""Centered votes in rounds: teachers vote against a student, which each round moves by one noisy step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate import accounting as pa
from pate import validation
from pate.accounting.special import expit
from pate.aggregators.aggregator import Rng
from pate.aggregators.record import Arrays, MemoryRecord, ReleaseRecord
from pate.aggregators.release import Release, TrainingSet
from pate.files.arrays import ArrayForm
from pate.mechanisms.noise.whole_numbers import LARGEST_STD, RoundedGaussian
from pate.validation import require
from pate.votes.clipping import ClippedMoments
from pate.votes.descent import Descent, expected_f1_threshold
from pate.votes.moment_votes import RoundVotes

Array = NDArray[np.float64]

_CLIP = 0.5  # of a typical length, in rounds
_LEAST_LEFT = 1e-4  # of a label's variance, in a round's clip
_MOST_LABELS = 1024  # of which products of residuals are summed: docs/proofs/vote_rounds.md
_LEAST_FACTOR = 1e-90  # of a round's clip, which then stays a length whose square is a number


@dataclass(frozen=True, repr=False)
class RoundsRelease(Release):
    """A release in rounds; all of it may be published."""

    scores: Array  # float64 `[Q, L]`, the student's probabilities
    # float64 `[D, L]`, its weights: logits on `PublicPCA.with_constant` of directions of the pool
    student: Array

    _FORMS: ClassVar[dict[str, ArrayForm]] = Release._FORMS | {
        "scores": ArrayForm("f", (None, None)),
        "student": ArrayForm("f", (None, None)),
    }

    def training_set(self, inputs: NDArray[np.float32]) -> TrainingSet:
        return replace(super().training_set(inputs), weights=self.student)


@dataclass(frozen=True, eq=False)
class NoisyPrevalence:
    """The prevalence of each label that rounds begin with: public, or released."""

    shares: Array  # `[L]`
    variance: float  # of the noise in each; 0 where they are public


@dataclass(frozen=True, kw_only=True)
class CenteredRounds:
    """The rounds of `CenteredVotes`, which explains them.

    Formal guarantee: a round's clip, and the student that teachers vote against, are functions of what is public or was
    released before; its noise is sqrt(num_rounds) times as large as that of one round alone. All rounds cost one
    Gaussian event of `noise_multiplier`. Who calls this has paid for all of them, or pays with the first.

    Attributes:
        noise_multiplier: of all rounds together, > 0.
        num_rounds: how often teachers are asked, >= 1.
        clip_factor: how many times half of its usual length a round's clip is.
        adjacency: as the aggregator's.
    """

    noise_multiplier: float
    num_rounds: int
    clip_factor: float
    adjacency: pa.Adjacency

    def require_fits(self, *, num_teachers: int, num_labels: int) -> None:
        """Raises `InvalidValue` where the sum of so many teachers, or its noise, could not be drawn exactly."""
        rule = f"at least {_LEAST_FACTOR:g} for votes in rounds"
        require(self.clip_factor >= _LEAST_FACTOR, "clip_factor", self.clip_factor, rule)
        rule = f"at most {_MOST_LABELS} in rounds, or aggregator.rounds=1"
        require(num_labels <= _MOST_LABELS, "num_labels", num_labels, rule)
        finest_clip = ClippedMoments(math.nextafter(2.0, 0.0), num_teachers, self.adjacency)
        most = LARGEST_STD / finest_clip.l2_sensitivity / math.sqrt(self.num_rounds)
        limit = f"{validation.rounded_down(most)} in {self.num_rounds} rounds"
        rule = f"at most {limit}: a larger epsilon, or aggregator.rounds=1"
        require(self.noise_multiplier <= most, "noise_multiplier", self.noise_multiplier, rule)

    def release(
        self,
        votes: RoundVotes,
        start: NoisyPrevalence,
        *,
        num_queries: int,
        rng: Rng | None = None,
        record: ReleaseRecord | None = None,
    ) -> RoundsRelease:
        """Returns what all rounds release; see `student`. Its event is to be set by who has paid."""
        weights = self.student(votes, start, rng=rng, record=record)
        # labels are those from the probability on that has the best expected micro-F1 on the pool, queries first
        probabilities = np.asarray(expit(votes.public @ weights), dtype=np.float64)
        scores = probabilities[:num_queries]
        return RoundsRelease(
            labels=scores >= expected_f1_threshold(probabilities),
            answered=np.ones(len(scores), dtype=np.bool_),
            event=pa.NonPrivateEvent(),
            adjacency=self.adjacency,
            scores=scores,
            student=weights,
        )

    def student(
        self,
        votes: RoundVotes,
        start: NoisyPrevalence,
        *,
        rng: Rng | None = None,
        record: ReleaseRecord | None = None,
    ) -> Array:
        """Returns the student's weights `[D, L]` after all rounds.

        A round that the record has committed is read back: a run that was killed goes on with the next one. Without a
        generator there is no noise, and no epsilon covers the student.
        """
        rounds = MemoryRecord() if record is None else record
        prevalence = start.shares
        own_variance = prevalence * (1 - prevalence)
        scale = (own_variance / own_variance.mean()) ** -0.25
        clip_factor = _CLIP * self.clip_factor
        descent = Descent(
            votes.public,
            votes.variances,
            prevalence,
            clip_factor=clip_factor,
            num_steps=self.num_rounds,
        )
        weights = descent.start()
        prevalence_seen = np.zeros_like(prevalence)
        for number in range(self.num_rounds):
            probabilities = descent.probabilities(weights)
            # a round's clip and the scale of each label are functions of what is public or was released
            variance = (probabilities * (1 - probabilities)).mean(axis=0, dtype=np.float64)
            # of a student that is sure of everything
            variance = np.maximum(variance, _LEAST_LEFT * own_variance)
            squared_length = float((variance * scale**2).sum())
            usual_length = math.sqrt(squared_length / max(votes.records_per_teacher, 1.0))
            clipped = ClippedMoments(clip_factor * usual_length, votes.num_teachers, self.adjacency)
            ask = partial(votes.total, weights, scale, clipped)
            if rng is None:
                std = 0.0
                total = ask()
            else:
                std = self.noise_multiplier * math.sqrt(self.num_rounds) * clipped.l2_sensitivity
                # drawn also where the round is read back: a seeded run that is continued goes on with the same numbers
                noise = RoundedGaussian(std).sample((votes.width, votes.num_labels), rng)
                draw = partial(_noisy_total, ask, noise)
                total = rounds.part(f"step-{number}", draw)["total"]
            unit = clipped.step / votes.total_weight / scale
            rate = (std * unit) ** 2 / self.num_rounds
            if number == 0:
                pace = descent.pace(rate)
            gradient = total * unit
            prevalence_seen += descent.prevalence_seen(probabilities, gradient) / self.num_rounds
            weights = descent.moved(weights, gradient, pace)
        prevalence_after = descent.prevalence_with(start.variance, prevalence_seen, rate)
        return descent.finished(weights, pace, rate, prevalence_after)


def _noisy_total(ask: Callable[[], NDArray[np.int64]], noise: NDArray[np.int64]) -> Arrays:
    """Returns the part of a round: the sum that teachers are asked for, with its noise."""
    return {"total": ask() + noise}
