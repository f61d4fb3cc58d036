"""The rounds of centered votes: teachers vote against a student, which each round moves by one noisy step.

A round goes like this. The student is public; so are its probabilities, and with them the usual length of a vote
against it. The clip is a multiple of that length. Teachers are asked for the sum of their clipped votes; the sum gets
noise of std `noise_multiplier` x sqrt(rounds) x sensitivity, and is released. Divided by the number of teachers it is a
noisy mean gradient, along which the student takes its step (`Descent`). The next round begins.

Every round's clip and student are functions of what earlier rounds released. So R rounds with R times the variance each
compose to one Gaussian event of `noise_multiplier`: sum over rounds of 1 / (R z**2) = 1 / z**2.

Labels are scaled before the clip by a power of their variance: else common labels would fill the clip, and rare ones
would be lost in the noise. The scale is taken off again after the sum.

Source: docs/proofs/vote_rounds.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pate import accounting as pa
from pate import validation
from pate.accounting.special import expit
from pate.aggregators.aggregator import Rng
from pate.aggregators.centered_release import RoundsRelease
from pate.aggregators.record import Arrays, MemoryRecord, ReleaseRecord
from pate.mechanisms.noise.whole_numbers import LARGEST_STD, RoundedGaussian
from pate.validation import require
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.descent import Descent, expected_f1_threshold
from pate.votes.moment_votes import RoundVotes
from pate.votes.recipe import DEFAULT_RECIPE, Recipe

Array = NDArray[np.float64]

# Labels of which products of residuals are summed: docs/proofs/vote_rounds.md.
_MOST_LABELS = 1024
# Of a round's clip, which then stays a length whose square is a number, whatever the recipe.
_LEAST_FACTOR = 1e-80


@dataclass(frozen=True, eq=False)
class NoisyPrevalence:
    """The prevalence of each label that rounds begin with: public, or released.

    Attributes:
        shares: `[L]`.
        variance: of the noise in each; 0 where they are public.
    """

    shares: Array
    variance: float


@dataclass(frozen=True, kw_only=True)
class CenteredRounds:
    """The rounds of `CenteredVotes`, which explains them.

    Formal guarantee: a round's clip, and the student that teachers vote against, are functions of what is public or was
    released before; its noise is sqrt(num_rounds) times as large as that of one round alone. All rounds cost one
    Gaussian event of `noise_multiplier`. The caller has paid for all of them, or pays with the first.

    Attributes:
        noise_multiplier: of all rounds together, > 0.
        num_rounds: how often teachers are asked, >= 1.
        clip_factor: by which the recipe's clip is multiplied, > 0.
        adjacency: as the aggregator's.
        recipe: the constants.
    """

    noise_multiplier: float
    num_rounds: int
    clip_factor: float
    adjacency: pa.Adjacency
    recipe: Recipe = DEFAULT_RECIPE

    def require_fits(self, *, num_teachers: int, num_labels: int) -> None:
        """Raises `InvalidValue` where the sum of so many teachers, or its noise, could not be drawn exactly."""
        rule = f"at least {_LEAST_FACTOR:g} for votes in rounds"
        require(self.clip_factor >= _LEAST_FACTOR, "clip_factor", self.clip_factor, rule)
        rule = f"at most {_MOST_LABELS} in rounds, or aggregator.rounds=1"
        require(num_labels <= _MOST_LABELS, "num_labels", num_labels, rule)
        # A clip just below a power of 2 has the most steps, and so the largest noise in steps.
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
        """Returns the release of all rounds; see `student`. Its event is to be set by the caller, who has paid.

        A label holds where its probability is at least the threshold with the best expected micro-F1 on the pool.

        Args:
            votes: of the teachers; private.
            start: the prevalence that the student begins with.
            num_queries: Q, the first public rows, of which labels are released.
            rng: the source of all noise.
            record: charges and commits each round.
        """
        weights = self.student(votes, start, rng=rng, record=record)
        probabilities = np.asarray(expit(votes.public @ weights), dtype=np.float64)
        scores = probabilities[:num_queries]
        return RoundsRelease(
            labels=scores >= expected_f1_threshold(probabilities),
            answered=np.ones(len(scores), dtype=np.bool_),
            event=pa.NonPrivateEvent(),
            adjacency=self.adjacency,
            scores=scores,
            student=weights,
            recipe=self.recipe,
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
        label_variance = start.shares * (1 - start.shares)
        label_scale = (label_variance / label_variance.mean()) ** self.recipe.label_scale_power
        descent = Descent(
            public=votes.public,
            variances=votes.variances,
            prevalence=start.shares,
            clip_factor=self._clip_factor,
            num_steps=self.num_rounds,
            recipe=self.recipe,
        )
        weights = descent.start()
        prevalence_seen = np.zeros_like(start.shares)
        for number in range(self.num_rounds):
            probabilities = descent.probabilities(weights)
            clipped = self._clip_against(probabilities, label_variance, label_scale, votes)
            ask = partial(votes.total, weights, label_scale, clipped)
            if rng is None:
                std = 0.0
                total = ask()
            else:
                std = self.noise_multiplier * math.sqrt(self.num_rounds) * clipped.l2_sensitivity
                # drawn also where the round is read back: a seeded run that is continued goes on with the same numbers
                noise = RoundedGaussian(std).sample((votes.width, votes.num_labels), rng)
                draw = partial(_noisy_total, ask, noise)
                total = rounds.part(f"step-{number}", draw)["total"]
            unit = (
                clipped.step / votes.total_weight / label_scale
            )  # of a step, in the mean gradient
            rate = (std * unit) ** 2 / self.num_rounds
            if number == 0:
                pace = descent.pace(rate)
            gradient = total * unit
            prevalence_seen += descent.prevalence_seen(probabilities, gradient) / self.num_rounds
            weights = descent.moved(weights, gradient, pace)
        prevalence = descent.prevalence_with(start.variance, prevalence_seen, rate)
        return descent.finished(weights, pace, rate, prevalence)

    @property
    def _clip_factor(self) -> float:
        """The clip of a round in usual lengths of a vote."""
        return self.recipe.round_clip * self.clip_factor

    def _clip_against(
        self,
        probabilities: NDArray[np.float32],
        label_variance: Array,
        label_scale: Array,
        votes: RoundVotes,
    ) -> ClippedMoments:
        """Returns the clip of votes against a student: a function of what is public or was released.

        The usual length is that of labels drawn by the student on as many unrelated inputs as a teacher has records.

        Args:
            probabilities: `[m, L]`, the student's on public rows.
            label_variance: `[L]`, p (1 - p) of the prevalence.
            label_scale: `[L]`, by which residuals are multiplied.
            votes: of which the numbers of teachers and records are read.
        """
        variance = (probabilities * (1 - probabilities)).mean(axis=0, dtype=np.float64)
        # of a student that is sure of everything
        variance = np.maximum(variance, self.recipe.least_round_variance * label_variance)
        squared_length = float((variance * label_scale**2).sum())
        usual_length = math.sqrt(squared_length / max(votes.records_per_teacher, 1.0))
        return ClippedMoments(
            clip=self._clip_factor * usual_length,
            num_teachers=votes.num_teachers,
            adjacency=self.adjacency,
        )


def _noisy_total(ask: Callable[[], NDArray[np.int64]], noise: NDArray[np.int64]) -> Arrays:
    """Returns the part of a round: the sum that teachers are asked for, with its noise."""
    return {"total": ask() + noise}
