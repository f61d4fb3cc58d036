"""The rounds of `CenteredVotes`: in each round teachers vote on the errors of a student, who then takes one step.

The student is public. So are its probabilities, and with them the usual length of a teacher's vote. A round clips each
vote to a multiple of that length. The sum of the clipped votes gets noise of std `noise_multiplier` x sqrt(rounds) x
sensitivity, and is released. The sum divided by the number of teachers is a noisy mean gradient; the student takes a
step along it (`Descent`), and the next round begins.

The clip and the student of a round are computed from earlier releases alone. So R rounds, with noise of R times the
variance in each, compose to one Gaussian event of `noise_multiplier` z: the sum over rounds of 1 / (R z**2) is 1 /
z**2.

Before the clip, each label is multiplied by a power of its variance. Otherwise common labels would fill the clip, and
rare labels would be lost in the noise. After the sum, each label is divided by the same factor.

A second student learns from the moments of all rounds (`MomentStudent`). The published weights are the mean of both
students' weights, `recipe.moment_share` of it the second one's.

Source: docs/proofs/vote_rounds.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from pate import accounting as pa
from pate import validation
from pate.accounting.special import expit
from pate.aggregators.aggregator import Rng
from pate.aggregators.centered_release import RoundsRelease
from pate.aggregators.record import Arrays, MemoryRecord, ReleaseRecord
from pate.array_types import FloatArray, IntArray
from pate.mechanisms.noise.rounded_gaussian import LARGEST_STD, RoundedGaussian
from pate.validation import require
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.descent import Descent
from pate.votes.f1_threshold import expected_f1_threshold
from pate.votes.moment_student import MomentStudent, mean_products
from pate.votes.noisy_moments import NoisyMoments
from pate.votes.public_start import PublicStart
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.round_votes import RoundQuestion, RoundVotes
from pate.votes.started_descent import StartedDescent

# Labels of which products of residuals are summed: docs/proofs/vote_rounds.md.
_MOST_LABELS = 8192
# Of a round's clip, which then stays a length whose square is a number, whatever the recipe.
_LEAST_FACTOR = 1e-80


@dataclass(frozen=True, eq=False)
class NoisyPrevalence:
    """The prevalence of each label at which the student begins; public, or released with noise.

    Attributes:
        shares: float64 `[num_labels]`, the prevalence of each label.
        variance: variance of the noise in each prevalence, one number or `[num_labels]`; 0 where they are public.
        known: the share of records for which each label is known, in (0, 1], one number or `[num_labels]`; public, or
            released with the prevalence. 1 where labels have no gaps, or nothing about gaps was released.
    """

    shares: FloatArray
    variance: FloatArray | float
    known: FloatArray | float = 1.0


@dataclass(frozen=True, eq=False)
class RoundsStudent:
    """The student after all rounds, and what the rounds told; both may be published.

    Attributes:
        weights: float64 `[num_features, num_labels]`, the student's weights.
        moments: the noisy moments of these rounds and, if the descent started at an earlier release, of that release.
    """

    weights: FloatArray
    moments: NoisyMoments


@dataclass(frozen=True, kw_only=True)
class CenteredRounds:
    """The computation of a `RoundsRelease`, used by `CenteredVotes`.

    Formal guarantee: the clip of a round, and the student whose errors teachers vote on, are computed from public
    values and earlier releases. The noise of each round is sqrt(num_rounds) times as large as that of a single round.
    All rounds together cost one Gaussian event of `noise_multiplier`. The caller charges that event before the first
    round or with it.

    Attributes:
        noise_multiplier: standard deviation over sensitivity, for all rounds together, > 0.
        num_rounds: the number of rounds, >= 1.
        clip_factor: multiplies the clip that the recipe gives, > 0.
        adjacency: the adjacency of the aggregator.
        recipe: the tuned constants.
    """

    noise_multiplier: float
    num_rounds: int
    clip_factor: float
    adjacency: pa.Adjacency
    recipe: Recipe = DEFAULT_RECIPE

    def require_fits(self, *, num_teachers: int, num_labels: int) -> None:
        """Raises `InvalidValue` for numbers that the rounds cannot use.

        These are a `clip_factor` below 1e-80, more than 8,192 labels, and noise that is too large to be drawn exactly.
        """
        rule = f"at least {_LEAST_FACTOR:g} for votes in rounds"
        require(self.clip_factor >= _LEAST_FACTOR, "clip_factor", self.clip_factor, rule)
        rule = f"at most {_MOST_LABELS} in rounds, or aggregator.rounds=1"
        require(num_labels <= _MOST_LABELS, "num_labels", num_labels, rule)
        # A clip just below a power of 2 has the most steps, and so the largest noise in steps.
        finest_clip = ClippedMoments(
            clip=math.nextafter(2.0, 0.0), num_teachers=num_teachers, adjacency=self.adjacency
        )
        most = LARGEST_STD / finest_clip.l2_sensitivity / math.sqrt(self.num_rounds)
        limit = f"{validation.rounded_down(most)} in {self.num_rounds} rounds"
        rule = f"at most {limit}: a larger epsilon, or aggregator.rounds=1"
        require(self.noise_multiplier <= most, "noise_multiplier", self.noise_multiplier, rule)

    def release(
        self,
        votes: RoundVotes,
        first_prevalence: NoisyPrevalence,
        *,
        num_queries: int,
        rng: Rng | None = None,
        record: ReleaseRecord | None = None,
        public_start: PublicStart | None = None,
    ) -> RoundsRelease:
        """Returns the release after all rounds: the student's weights, its probabilities, and labels.

        A label is released as present where its probability is at least a threshold. The threshold maximizes the
        expected micro-F1 on the public pool. The result has the event `NonPrivateEvent`; the caller, who has charged
        the rounds, replaces it.

        Args:
            votes: the private votes of teachers, which can be asked in rounds.
            first_prevalence: the prevalence at which the student begins.
            num_queries: the number of queries, which are the first rows of the public pool.
            rng: the source of all noise; None for no noise.
            record: charges and stores each round; None for a record in memory.
            public_start: the weights at which the student begins, and what is unknown about them; None to begin at the
                prevalence.
        """
        student = self.student(
            votes, first_prevalence, rng=rng, record=record, public_start=public_start
        )
        weights = student.weights
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
            moments=student.moments.values,
            moment_variances=student.moments.variances,
        )

    def student(
        self,
        votes: RoundVotes,
        first_prevalence: NoisyPrevalence,
        *,
        rng: Rng | None = None,
        record: ReleaseRecord | None = None,
        public_start: PublicStart | None = None,
    ) -> RoundsStudent:
        """Returns the student after all rounds, and what the rounds told.

        A round that the record already holds is read from the record. So a run that was killed continues with the next
        round. No epsilon covers a student without noise.

        Args:
            votes: the private votes of teachers, which can be asked in rounds.
            first_prevalence: the prevalence at which the student begins.
            rng: the source of all noise; None for no noise.
            record: charges and stores each round; None for a record in memory.
            public_start: the weights at which the student begins, and what is unknown about them; None to begin at the
                prevalence.
        """
        rounds = MemoryRecord() if record is None else record
        known = first_prevalence.known
        # of a residual, which is 0 where the label is unknown
        label_variance = first_prevalence.shares * (1 - first_prevalence.shares) * known
        label_scale = (label_variance / label_variance.mean()) ** self.recipe.label_scale_power
        descent = self._descent(votes, first_prevalence)
        earlier = None if public_start is None else public_start.moments
        started = None
        weights = descent.initial_weights()
        if public_start is not None and earlier is not None:
            weights = descent.with_constants(
                public_start.weights, prevalence=first_prevalence.shares
            )
        elif public_start is not None:
            started = StartedDescent(descent, public_start=public_start)
            weights = started.initial_weights()
        suggested_prevalence = np.zeros_like(first_prevalence.shares)
        products_seen = np.zeros_like(weights)
        for round_number in range(self.num_rounds):
            probabilities = descent.probabilities(weights)
            variance = (probabilities * (1 - probabilities)).mean(axis=0, dtype=np.float64) * known
            clipped_moments = self._clip_against(variance, label_variance, label_scale, votes)
            question = RoundQuestion(weights, label_scale, clipped_moments)
            sum_votes = partial(votes.total, question)
            if rng is None:
                noise_std = 0.0
                total = sum_votes()
            else:
                noise_of_round = self.noise_multiplier * math.sqrt(self.num_rounds)
                noise_std = noise_of_round * clipped_moments.l2_sensitivity
                # drawn also where the round is read back: a seeded run that is continued goes on with the same numbers
                noise = RoundedGaussian(noise_std).sample((votes.width, votes.num_labels), rng)
                draw = partial(_noisy_total, sum_votes, noise)
                total = rounds.part(f"step-{round_number}", draw)["total"]
            # of a step, in the mean gradient over the records for which a label is known
            unit = clipped_moments.step / votes.total_weight / label_scale / known
            noise_rate = (noise_std * unit) ** 2 / self.num_rounds
            gradient = total * unit
            suggested = descent.suggested_prevalence(probabilities, gradient=gradient)
            suggested_prevalence += suggested / self.num_rounds
            products = mean_products(votes.public, probabilities=probabilities)
            products_seen += (products + gradient / descent.unclipped) / self.num_rounds
            if started is not None:
                weights = started.take_step(
                    weights,
                    probabilities=probabilities,
                    gradient=gradient,
                    noise_rate=noise_rate,
                )
                continue
            if round_number == 0:
                learning_times = descent.learning_times(noise_rate)
            weights = descent.take_step(weights, gradient=gradient, learning_times=learning_times)
        prevalence = descent.average_prevalence(
            released_variance=first_prevalence.variance,
            suggested_prevalence=suggested_prevalence,
            noise_rate=noise_rate,
        )
        moment_student = MomentStudent(
            public_features=votes.public, feature_variances=votes.variances, recipe=self.recipe
        )
        moments = moment_student.moments_from_products(
            products_seen,
            prevalence=prevalence,
            noise_variance=noise_rate / descent.unclipped**2,
            num_records=votes.total_weight * max(votes.records_per_teacher, 1.0),
        )
        if earlier is not None:
            moments = moments.average_with(
                earlier, expected_squares=moment_student.expected_squares(prevalence)
            )
            weights = moment_student.fit(moments, prevalence=prevalence)
        else:
            if started is not None:
                by_rounds = started.final_weights(
                    weights, noise_rate=noise_rate, prevalence=prevalence
                )
                by_moments = moment_student.fit(
                    moments, prevalence=prevalence, start=started.trusted_start
                )
            else:
                by_rounds = descent.final_weights(
                    weights,
                    learning_times=learning_times,
                    noise_rate=noise_rate,
                    prevalence=prevalence,
                )
                by_moments = moment_student.fit(moments, prevalence=prevalence)
            share = self.recipe.moment_share
            mean_weights = (1 - share) * by_rounds[:-1] + share * by_moments[:-1]
            weights = descent.with_constants(mean_weights, prevalence=prevalence)
        return RoundsStudent(weights=weights, moments=moments)

    def start_weights(
        self, votes: RoundVotes, first_prevalence: NoisyPrevalence, public_start: PublicStart
    ) -> FloatArray:
        """Returns the student's weights before the first round, float64 `[num_features, num_labels]`.

        Args:
            votes: the votes in rounds, of which public features are read.
            first_prevalence: the prevalence of each label.
            public_start: the weights of all features but the constant.
        """
        descent = self._descent(votes, first_prevalence)
        return descent.with_constants(public_start.weights, prevalence=first_prevalence.shares)

    def _descent(self, votes: RoundVotes, first_prevalence: NoisyPrevalence) -> Descent:
        return Descent(
            public_features=votes.public,
            public_weights=votes.public_weights,
            feature_variances=votes.variances,
            prevalence=first_prevalence.shares,
            clip_factor=self._clip_factor,
            num_steps=self.num_rounds,
            recipe=self.recipe,
        )

    @property
    def _clip_factor(self) -> float:
        """The clip of a round, as a multiple of the usual length of a vote."""
        return self.recipe.round_clip * self.clip_factor

    def _clip_against(
        self,
        residual_variance: FloatArray,
        label_variance: FloatArray,
        label_scale: FloatArray,
        votes: RoundVotes,
    ) -> ClippedMoments:
        """Returns the clip of votes on the errors of a student, computed from public values and earlier releases.

        The clip is a multiple of the usual length of a vote. The usual length is the length of a vote if the labels of
        a teacher's records were drawn by the student's probabilities.

        Args:
            residual_variance: `[num_labels]`, the variance of a residual if labels were drawn by the student.
            label_variance: `[num_labels]`, the variance of a residual around the prevalence.
            label_scale: `[num_labels]`, the factor that residuals of each label are multiplied by.
            votes: the source of the numbers of teachers and of records for each teacher.
        """
        # of a student that is sure of everything
        variance = np.maximum(residual_variance, self.recipe.least_round_variance * label_variance)
        squared_length = float((variance * label_scale**2).sum())
        usual_length = math.sqrt(squared_length / max(votes.records_per_teacher, 1.0))
        return ClippedMoments(
            clip=self._clip_factor * usual_length,
            num_teachers=votes.num_teachers,
            adjacency=self.adjacency,
        )


def _noisy_total(sum_votes: Callable[[], IntArray], noise: IntArray) -> Arrays:
    """Returns the stored part of a round: the sum of the clipped votes plus noise.

    Args:
        sum_votes: returns the sum of the clipped votes, in steps of a grid, `[num_features, num_labels]`.
        noise: the noise in steps, of the same shape.
    """
    return {"total": sum_votes() + noise}
