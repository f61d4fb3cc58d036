"""The rounds of `CenteredVotes`: in each round teachers vote on the errors of a student, who then takes one step.

The student is public. So are its probabilities, and with them the usual length of a teacher's vote. A round clips each
vote to a multiple of that length. The sum of the clipped votes gets noise of std `noise_multiplier` x sqrt(rounds) x
sensitivity, and is released. The sum divided by the sum of the teachers' weights is a noisy mean gradient; the student
takes a step along it (`Descent`), and the next round begins.

The clip and the student of a round are computed from earlier releases alone. So R rounds, with noise of R times the
variance in each, compose to one Gaussian event of `noise_multiplier` z: the sum over rounds of 1 / (R z**2) is 1 /
z**2.

Before the clip, each label is multiplied by a power of its variance. Otherwise common labels would fill the clip, and
rare labels would be lost in the noise. After the sum, each label is divided by the same factor.

A second student learns from the moments of all rounds, which are noisy covariances of features and labels
(`MomentStudent`). The published weights are a mean of both students' weights, in which the second student has the share
`recipe.moment_share`. If the rounds start at an earlier release with moments, only the second student is published. It
then learns from the average of the moments of these rounds and of the earlier release.

Source: docs/proofs/vote_rounds.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from pate.accounting import Adjacency, Event
from pate.accounting.rounding import floor_to_digits
from pate.accounting.special import expit
from pate.aggregators.aggregator import Rng
from pate.aggregators.centered_release import RoundsRelease
from pate.aggregators.prevalence import Prevalence, ReleasedShares
from pate.aggregators.record import Arrays, MemoryRecord, ReleaseRecord
from pate.array_types import FloatArray, IntArray
from pate.mechanisms.noise.rounded_gaussian import LARGEST_STD, RoundedGaussian
from pate.validation import InvalidValue
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.descent import Descent
from pate.votes.f1_threshold import expected_f1_threshold
from pate.votes.fixed_times_descent import FixedTimesDescent
from pate.votes.label_shares import KNOWN_WEIGHT
from pate.votes.moment_student import MomentStudent, mean_products
from pate.votes.noisy_moments import NoisyMoments
from pate.votes.public_start import PublicStart
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.round_votes import RoundQuestion, RoundVotes
from pate.votes.started_descent import StartedDescent

# The largest number of labels of which products of residuals are summed (docs/proofs/vote_rounds.md).
_MAX_LABELS = 8192
# With a smaller factor, the square of a round's clip might underflow.
_MIN_CLIP_FACTOR = 1e-80


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class NoisyPrevalence:
    """The prevalence of each label at which the student begins; public, or released with noise.

    Attributes:
        values: float64 `[num_labels]`, the prevalence of each label.
        variance: variance of the noise in each prevalence, one number or `[num_labels]`; 0 for a public prevalence.
        known_shares: the share of records for which each label is known, in (0, 1], one number or `[num_labels]`;
            public, or released with the prevalence. 1 where labels have no gaps, or nothing about gaps was released.
    """

    values: FloatArray
    variance: FloatArray | float
    known_shares: FloatArray | float = 1.0

    @classmethod
    def public(cls, center: FloatArray, *, num_labels: int, recipe: Recipe) -> Self:
        """Returns a public prevalence, cut to [f, 1 - f] for the recipe's `center_floor` f; its variance is 0.

        Args:
            center: the public center of votes, a number or `[num_labels]`.
            num_labels: the number of labels.
            recipe: the tuned constants.
        """
        prevalence = np.broadcast_to(recipe.cut_to_floor(center), num_labels).copy()
        return cls(values=prevalence, variance=0.0)

    @classmethod
    def from_shares(
        cls,
        released_shares: ReleasedShares,
        votes_in_rounds: RoundVotes,
        *,
        prevalence_mechanism: Prevalence,
    ) -> Self:
        """Returns a released prevalence, cut as in `public`, with the approximate variance of its noise.

        Args:
            released_shares: the released prevalence, and the shares of records for which labels are known.
            votes_in_rounds: the private votes. Only public numbers are read: the number of labels, the number of
                records per teacher, and the sum of the teachers' weights.
            prevalence_mechanism: the mechanism that released the shares.
        """
        prevalence = np.broadcast_to(
            prevalence_mechanism.recipe.cut_to_floor(released_shares.prevalence),
            votes_in_rounds.num_labels,
        ).copy()
        known_shares = released_shares.known_shares
        if known_shares is None:
            known_shares = np.ones_like(prevalence)
        # The clip of the last mean is approximately the usual length of one teacher's shares.
        label_shares_of_all_records = prevalence * known_shares
        squared_residual_length = float(
            (label_shares_of_all_records * (1 - label_shares_of_all_records)).sum()
        )
        squared_residual_length += KNOWN_WEIGHT**2 * float(
            (known_shares * (1 - known_shares)).sum()
        )
        squared_clip = squared_residual_length / max(votes_in_rounds.records_per_teacher, 1.0)
        # The standard deviation of the noise in the last mean, for a clip of 1.
        multiplier = prevalence_mechanism.last_multiplier
        noise_per_clip = (
            prevalence_mechanism.adjacency.num_moved * multiplier / votes_in_rounds.total_weight
        )
        # The prevalence is a share of all records, divided by the known share.
        variance = np.asarray(squared_clip * noise_per_clip**2 / known_shares**2)
        return cls(values=prevalence, variance=variance, known_shares=known_shares)


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class RoundsStudent:
    """The student after all rounds, and what the rounds released; both may be published if the rounds had noise.

    Attributes:
        weights: float64 `[num_features, num_labels]`, the student's weights.
        feature_label_moments: the noisy moments of these rounds and, if the descent started at an earlier release, of
            that release.
    """

    weights: FloatArray
    feature_label_moments: NoisyMoments


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class RoundsOutcome:
    """The results of all rounds: what they released, and the descent of the student along them.

    All of it may be published if the rounds had noise.

    Attributes:
        weights: float64 `[num_features, num_labels]`, the student's weights after the last round.
        noise_variance_rates: `[num_labels]`, the variance of the noise in each entry of a label's mean gradient in the
            last round, divided by the number of rounds; 0 without noise.
        suggested_prevalence: `[num_labels]`, the mean over rounds of the prevalence that each suggests.
        mean_noisy_products: `[num_features, num_labels]`, the mean over rounds of the noisy mean products of features
            and labels.
        descent_rules: the rules and numbers of the student's descent.
        descent: the descent after its last step.
    """

    weights: FloatArray
    noise_variance_rates: FloatArray
    suggested_prevalence: FloatArray
    mean_noisy_products: FloatArray
    descent_rules: Descent
    descent: FixedTimesDescent | StartedDescent


@dataclass(frozen=True, kw_only=True)
class CenteredRounds:
    """The computation of a `RoundsRelease`, used by `CenteredVotes`.

    Formal guarantee: the clip of a round, and the student whose errors teachers vote on, are computed from public
    values and earlier releases. The noise of each round is sqrt(num_rounds) times as large as that of a single round.
    All rounds together cost one Gaussian event of `noise_multiplier`, which the caller charges no later than with the
    first round.

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
    adjacency: Adjacency
    recipe: Recipe = DEFAULT_RECIPE

    def require_fits(self, *, num_teachers: int, num_labels: int) -> None:
        """Raises `InvalidValue` for numbers that the rounds cannot use.

        These are a `clip_factor` below 1e-80, more than 8,192 labels, and noise that is too large to be drawn exactly.
        """
        if self.clip_factor < _MIN_CLIP_FACTOR:
            rule = f"at least {_MIN_CLIP_FACTOR:g} for votes in rounds"
            raise InvalidValue("clip_factor", self.clip_factor, rule=rule)
        if num_labels > _MAX_LABELS:
            rule = f"at most {_MAX_LABELS} in rounds, or aggregator.rounds=1"
            raise InvalidValue("num_labels", num_labels, rule=rule)
        # A clip just below a power of 2 has the most steps, and so the largest noise in steps.
        finest_clip = ClippedMoments(
            clip=math.nextafter(2.0, 0.0), num_teachers=num_teachers, adjacency=self.adjacency
        )
        largest_allowed_multiplier = (
            LARGEST_STD / finest_clip.l2_sensitivity / math.sqrt(self.num_rounds)
        )
        if self.noise_multiplier > largest_allowed_multiplier:
            limit = f"{floor_to_digits(largest_allowed_multiplier)} in {self.num_rounds} rounds"
            rule = f"at most {limit}: a larger epsilon, or aggregator.rounds=1"
            raise InvalidValue("noise_multiplier", self.noise_multiplier, rule=rule)

    def release(
        self,
        votes_in_rounds: RoundVotes,
        prevalence_with_variance: NoisyPrevalence,
        *,
        num_queries: int,
        event: Event,
        rng: Rng | None = None,
        record: ReleaseRecord | None = None,
        public_start: PublicStart | None = None,
    ) -> RoundsRelease:
        """Returns the release after all rounds: the student's weights, its probabilities, and labels.

        A label is released as present where its probability is at least a threshold. The threshold maximizes the
        expected micro-F1 on the public pool.

        A round that the record already holds is read from the record. So a release that was interrupted continues with
        the next round.

        Args:
            votes_in_rounds: the private votes of teachers, which can be asked in rounds.
            prevalence_with_variance: the prevalence at which the student begins.
            num_queries: the number of queries, which are the first rows of the public pool.
            event: the price that the release states, which the caller charges; `NonPrivateEvent` without noise, as no
                epsilon covers a student without noise.
            rng: the source of all noise; None for no noise.
            record: charges and stores each round; None for a record in memory.
            public_start: the weights at which the student begins, and what is unknown about them; None to begin at the
                prevalence.
        """
        rounds_student = self.student(
            votes_in_rounds,
            prevalence_with_variance,
            rng=rng,
            record=record,
            public_start=public_start,
        )
        student_weights = rounds_student.weights
        public_row_probabilities = np.asarray(
            expit(votes_in_rounds.public_features @ student_weights), dtype=np.float64
        )
        scores = public_row_probabilities[:num_queries]
        return RoundsRelease(
            labels=scores >= expected_f1_threshold(public_row_probabilities),
            answered=np.ones(len(scores), dtype=np.bool_),
            event=event,
            adjacency=self.adjacency,
            scores=scores,
            student=student_weights,
            recipe=self.recipe,
            moments=rounds_student.feature_label_moments.values,
            moment_variances=rounds_student.feature_label_moments.variances,
        )

    def student(
        self,
        votes_in_rounds: RoundVotes,
        prevalence_with_variance: NoisyPrevalence,
        *,
        rng: Rng | None = None,
        record: ReleaseRecord | None = None,
        public_start: PublicStart | None = None,
    ) -> RoundsStudent:
        """Returns the student after all rounds, and what the rounds released; `release` explains the arguments."""
        rounds_outcome = self.ask_rounds(
            votes_in_rounds,
            prevalence_with_variance,
            rng=rng,
            record=record,
            public_start=public_start,
        )
        earlier_release_moments = (
            None if public_start is None else public_start.feature_label_moments
        )
        return self._student_from(
            rounds_outcome,
            votes_in_rounds=votes_in_rounds,
            prevalence_variance=prevalence_with_variance.variance,
            earlier_release_moments=earlier_release_moments,
        )

    def ask_rounds(
        self,
        votes_in_rounds: RoundVotes,
        prevalence_with_variance: NoisyPrevalence,
        *,
        rng: Rng | None = None,
        record: ReleaseRecord | None = None,
        public_start: PublicStart | None = None,
    ) -> RoundsOutcome:
        """Asks the teachers in all rounds, and returns what the rounds released; `release` explains the arguments."""
        record_of_rounds = MemoryRecord() if record is None else record
        known_shares = prevalence_with_variance.known_shares
        # The variance of a residual around the prevalence. A residual is 0 where the label is unknown.
        variance_around_prevalence = (
            prevalence_with_variance.values * (1 - prevalence_with_variance.values) * known_shares
        )
        label_scale = (
            variance_around_prevalence / variance_around_prevalence.mean()
        ) ** self.recipe.label_scale_power
        descent_rules = self._descent(votes_in_rounds, prevalence_with_variance)
        descent, student_weights = self._begin_descent(
            descent_rules, prevalence=prevalence_with_variance.values, public_start=public_start
        )
        # Means over all rounds: the prevalence that each suggests, and its noisy products of features and labels.
        suggested_prevalence = np.zeros_like(prevalence_with_variance.values)
        mean_noisy_products = np.zeros_like(student_weights)
        for round_number in range(self.num_rounds):
            public_row_probabilities = descent_rules.probabilities(student_weights)
            variance_under_student = (
                public_row_probabilities * (1 - public_row_probabilities)
            ).mean(axis=0, dtype=np.float64) * known_shares
            moment_clipping = self._clip_against(
                variance_under_student=variance_under_student,
                variance_around_prevalence=variance_around_prevalence,
                label_scale=label_scale,
                votes_in_rounds=votes_in_rounds,
            )
            round_question = RoundQuestion(
                student_weights=student_weights,
                label_scale=label_scale,
                moment_clipping=moment_clipping,
            )
            noisy_total, noise_std = self._total_of_round(
                votes_in_rounds,
                round_question,
                round_number=round_number,
                rng=rng,
                record=record_of_rounds,
            )
            # One step of the integer sum is worth so much in the mean gradient over the records that know a label.
            gradient_of_step = (
                moment_clipping.step / votes_in_rounds.total_weight / label_scale / known_shares
            )
            noise_variance_rates = (noise_std * gradient_of_step) ** 2 / self.num_rounds
            mean_gradient = noisy_total * gradient_of_step
            suggestion = descent_rules.suggested_prevalence(
                public_row_probabilities, gradient=mean_gradient
            )
            suggested_prevalence += suggestion / self.num_rounds
            noiseless_products = mean_products(
                public_features=votes_in_rounds.public_features,
                probabilities=public_row_probabilities,
            )
            # The clip has left only `unclipped_share` of the gradient.
            mean_noisy_products += (
                noiseless_products + mean_gradient / descent_rules.unclipped_share
            ) / self.num_rounds
            student_weights = descent.take_step(
                student_weights,
                probabilities=public_row_probabilities,
                gradient=mean_gradient,
                noise_variance_rates=noise_variance_rates,
            )
        return RoundsOutcome(
            weights=student_weights,
            noise_variance_rates=noise_variance_rates,
            suggested_prevalence=suggested_prevalence,
            mean_noisy_products=mean_noisy_products,
            descent_rules=descent_rules,
            descent=descent,
        )

    def start_weights(
        self,
        votes_in_rounds: RoundVotes,
        prevalence_with_variance: NoisyPrevalence,
        public_start: PublicStart,
    ) -> FloatArray:
        """Returns the student's weights before the first round, float64 `[num_features, num_labels]`.

        Args:
            votes_in_rounds: the votes in rounds. Only features and weights of public rows are used, and no vote.
            prevalence_with_variance: the prevalence of each label.
            public_start: the weights of all features but the constant. The weights of the constant are computed such
                that each label has its prevalence as its mean probability on the public rows.
        """
        descent_rules = self._descent(votes_in_rounds, prevalence_with_variance)
        return descent_rules.with_constants(
            weights_without_constants=public_start.weights,
            prevalence=prevalence_with_variance.values,
        )

    def _begin_descent(
        self, descent_rules: Descent, *, prevalence: FloatArray, public_start: PublicStart | None
    ) -> tuple[FixedTimesDescent | StartedDescent, FloatArray]:
        """Returns the descent before its first step, and the weights `[num_features, num_labels]` at which it begins.

        Only a start without moments of an earlier release gets a `StartedDescent`, which estimates how far the start
        can be trusted.

        Args:
            descent_rules: the rules and numbers of the student's descent.
            prevalence: `[num_labels]`, the prevalence of each label at which the student begins.
            public_start: the public weights at which the student begins; None to begin at the prevalence.
        """
        if public_start is None:
            return FixedTimesDescent(descent_rules), descent_rules.initial_weights()
        if public_start.feature_label_moments is not None:
            # The moments of the earlier release are averaged with those of the rounds afterwards.
            weights = descent_rules.with_constants(
                weights_without_constants=public_start.weights, prevalence=prevalence
            )
            return FixedTimesDescent(descent_rules), weights
        descent = StartedDescent(descent_rules, public_start=public_start)
        return descent, descent.initial_weights()

    def _student_from(
        self,
        rounds_outcome: RoundsOutcome,
        *,
        votes_in_rounds: RoundVotes,
        prevalence_variance: FloatArray | float,
        earlier_release_moments: NoisyMoments | None,
    ) -> RoundsStudent:
        """Returns the student that all rounds teach, computed from public and released values alone.

        Its weights are an average of two: those after the descent, and those of a student that learns from the mean
        moments of all rounds. With `earlier_release_moments`, it is only a student that learns from moments: from the
        average of these and the moments of the rounds.

        Args:
            rounds_outcome: what the rounds released.
            votes_in_rounds: the votes in rounds. Only their public features and numbers are used, and no vote.
            prevalence_variance: variance of the noise in the prevalence at which the student began.
            earlier_release_moments: the moments of the release at which the student began; None for another start or
                none.
        """
        descent_rules = rounds_outcome.descent_rules
        prevalence = descent_rules.average_prevalence(
            released_variance=prevalence_variance,
            suggested_prevalence=rounds_outcome.suggested_prevalence,
            noise_variance_rates=rounds_outcome.noise_variance_rates,
        )
        moment_student = MomentStudent(
            public_features=votes_in_rounds.public_features,
            feature_variances=votes_in_rounds.feature_variances,
            recipe=self.recipe,
        )
        noisy_feature_label_moments = moment_student.moments_from_products(
            rounds_outcome.mean_noisy_products,
            prevalence=prevalence,
            noise_variance=rounds_outcome.noise_variance_rates / descent_rules.unclipped_share**2,
            num_records=votes_in_rounds.total_weight
            * max(votes_in_rounds.records_per_teacher, 1.0),
        )
        if earlier_release_moments is not None:
            noisy_feature_label_moments = noisy_feature_label_moments.average_with(
                earlier_release_moments,
                expected_squared_moments=moment_student.expected_squared_moments(prevalence),
            )
            weights = moment_student.fit(noisy_feature_label_moments, prevalence=prevalence)
            return RoundsStudent(weights=weights, feature_label_moments=noisy_feature_label_moments)
        descent_weights = rounds_outcome.descent.final_weights(
            rounds_outcome.weights,
            noise_variance_rates=rounds_outcome.noise_variance_rates,
            prevalence=prevalence,
        )
        moment_weights = moment_student.fit(
            noisy_feature_label_moments,
            prevalence=prevalence,
            public_start=rounds_outcome.descent.trusted_start,
        )
        moment_share = self.recipe.moment_share
        # The last row holds the constants, which `with_constants` computes from the prevalence.
        mean_weights_of_both_students = (1 - moment_share) * descent_weights[
            :-1
        ] + moment_share * moment_weights[:-1]
        weights = descent_rules.with_constants(
            weights_without_constants=mean_weights_of_both_students, prevalence=prevalence
        )
        return RoundsStudent(weights=weights, feature_label_moments=noisy_feature_label_moments)

    def _total_of_round(
        self,
        votes_in_rounds: RoundVotes,
        round_question: RoundQuestion,
        *,
        round_number: int,
        rng: Rng | None,
        record: ReleaseRecord,
    ) -> tuple[IntArray, float]:
        """Returns the noisy sum of the clipped votes of a round, `[num_features, num_labels]`, and the noise's std.

        Both are in steps of the grid of `round_question.moment_clipping`. Without `rng` the sum has no noise, and std
        is 0.

        Args:
            votes_in_rounds: the private votes of teachers.
            round_question: the student of the round, and the clip of its votes.
            round_number: the number of the round, from 0 on.
            rng: the source of the noise; None for no noise.
            record: charges and stores the round, or returns the stored round; not used without noise.
        """
        if rng is None:
            noise_std = 0.0
            return votes_in_rounds.total(round_question), noise_std
        noise_multiplier = self.noise_multiplier * math.sqrt(self.num_rounds)
        noise_std = noise_multiplier * round_question.moment_clipping.l2_sensitivity
        # Noise is drawn also if the round is read from the record, so that a seeded run that is continued draws the
        # same numbers in later rounds.
        noise_in_steps = RoundedGaussian(std=noise_std).sample(
            (votes_in_rounds.num_features, votes_in_rounds.num_labels), rng
        )

        def draw_part() -> Arrays:
            return {"total": votes_in_rounds.total(round_question) + noise_in_steps}

        arrays = record.part(f"step-{round_number}", draw_part)
        return arrays["total"], noise_std

    def _descent(
        self, votes_in_rounds: RoundVotes, prevalence_with_variance: NoisyPrevalence
    ) -> Descent:
        """Returns the rules and numbers of the student's gradient descent; no step has been taken.

        Args:
            votes_in_rounds: the votes in rounds. Only the features and weights of public rows and the variances of
                features are used, and no vote.
            prevalence_with_variance: the prevalence of each label, at which a student without a start begins.
        """
        return Descent(
            public_features=votes_in_rounds.public_features,
            public_row_weights=votes_in_rounds.public_row_weights,
            feature_variances=votes_in_rounds.feature_variances,
            prevalence=prevalence_with_variance.values,
            clip_factor=self._round_clip_factor,
            num_steps=self.num_rounds,
            recipe=self.recipe,
        )

    @property
    def _round_clip_factor(self) -> float:
        """The clip of a round divided by the usual length of a vote: `recipe.round_clip` times `clip_factor`."""
        return self.recipe.round_clip * self.clip_factor

    def _clip_against(
        self,
        *,
        variance_under_student: FloatArray,
        variance_around_prevalence: FloatArray,
        label_scale: FloatArray,
        votes_in_rounds: RoundVotes,
    ) -> ClippedMoments:
        """Returns the clip and the grid of the votes of a round, computed from public values and earlier releases.

        The votes are on residuals: label minus the student's probability. The clip is a multiple of the usual length of
        a vote, which is the length that a vote has if labels are drawn by the student's probabilities. No variance
        counts as less than a tiny share of `variance_around_prevalence`, so a sure student does not make the clip 0.

        Args:
            variance_under_student: `[num_labels]`, the variance of a residual if labels were drawn by the student.
            variance_around_prevalence: `[num_labels]`, the variance of a residual around the prevalence.
            label_scale: `[num_labels]`, the factor that residuals of each label are multiplied by.
            votes_in_rounds: the votes in rounds, of which the number of teachers and `records_per_teacher` are read.
        """
        # A student that is sure of everything would have no variance, so a share of the label's variance is the least.
        floored_variance_under_student = np.maximum(
            variance_under_student, self.recipe.least_round_variance * variance_around_prevalence
        )
        squared_residual_length = float((floored_variance_under_student * label_scale**2).sum())
        usual_vote_length = math.sqrt(
            squared_residual_length / max(votes_in_rounds.records_per_teacher, 1.0)
        )
        return ClippedMoments(
            clip=self._round_clip_factor * usual_vote_length,
            num_teachers=votes_in_rounds.num_teachers,
            adjacency=self.adjacency,
        )
