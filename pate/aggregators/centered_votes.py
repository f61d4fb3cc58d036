"""Centered votes: the mean of all votes on all queries, around a center, in one Gaussian release or in rounds.

Most aggregators decide each query by itself, and each decision has a price. Here all Q x L votes of a teacher are one
vector, and the release is the noisy sum of these vectors. Its noise depends neither on Q nor on L, only on how long a
teacher's vector may be. Three things keep the noise small beside the sum:

- **The center.** Votes minus the prevalence of each label are short vectors, as most labels are rare. By default the
  prevalence is released first, for a tenth of the budget (`Prevalence`). The budget is 1 / `noise_multiplier`**2,
  because such terms add up over Gaussian releases.
- **The clip.** A vector longer than `clip` is scaled down to it. One replaced teacher moves the sum by at most two
  clips and some rounding, so noise of std `noise_multiplier` times as much is one Gaussian event (`ClippedSum`).
- **The directions.** The votes of kernel teachers lie in the span of a few principal directions of the public pool
  (`KernelTeacher`, `PublicPCA`). A student learns within this span alone, so noise outside of it has no effect.

Teachers that can be asked again vote in rounds, against the student of the rounds before, at the same price.

`CenteredVotes` chooses between both forms and divides the budget. For one matrix of votes, `CenteredMatrix`
(`centered_matrix.py`) clips, sums and adds the noise. For rounds, `CenteredRounds` (`centered_rounds.py`) does.
docs/how-centered-votes-work.md goes through both forms; docs/proofs/centered_votes.md has the theorem.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from pate.accounting import (
    Adjacency,
    Event,
    GaussianEvent,
    Ledger,
    NonPrivateEvent,
    NoOpEvent,
)
from pate.accounting.special import ndtr_without_scipy
from pate.aggregators.aggregator import Aggregator, Rng
from pate.aggregators.answers import Answers
from pate.aggregators.centered_matrix import CenteredMatrix
from pate.aggregators.centered_release import CenteredRelease, RoundsRelease
from pate.aggregators.centered_rounds import CenteredRounds, NoisyPrevalence
from pate.aggregators.expectation import ExpectedRelease, expected_from_votes, warn_if_useless
from pate.aggregators.prevalence import Prevalence, ReleasedShares
from pate.aggregators.record import Arrays, ReleaseRecord
from pate.aggregators.release import Release
from pate.array_types import FloatArray, IntArray
from pate.errors import InvalidValue
from pate.files.digests import field_texts, text_of_fields, unabridged_repr
from pate.mechanisms.parameters import COUNT, NOISE, POSITIVE
from pate.validation import (
    normalize_field,
    require,
    require_entries,
    require_generator,
    require_kind,
    require_positive,
)
from pate.votes.arrays import VoteBlocks
from pate.votes.blocks import is_whole, vote_blocks
from pate.votes.made_up import MadeUpVotes
from pate.votes.public_start import PublicStart, StartSource
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.round_votes import RoundVotes
from pate.votes.shape import VoteShape
from pate.votes.source import CenterableVotes, GroupVotes, TeacherVotes, VoteSource

# The number of directions of the scores from which a student learns, by default. Only the expectation uses it.
_STUDENT_DIRECTIONS = 128


# `eq=False`: some fields are arrays, which the generated `__eq__` and `__hash__` cannot compare. The class has its own.
@dataclass(frozen=True, kw_only=True, eq=False)
class CenteredVotes(Aggregator):
    """Releases the noisy mean of all teachers' votes minus a center, clipped over all queries and labels together.

    Rule for Q queries and L labels: let r = votes - center be the Q x L matrix of a teacher. The teacher adds
    min(1, clip / |r|) r to the sum, where |r| is the l2 length over all entries. Rounded Gaussian noise is added to
    every entry of the sum. Without noise the mean is nearly a matrix of low rank. That matrix is estimated from the
    noisy mean, and a threshold for each label turns it into labels that are as frequent as the center. Every query is
    answered.

    Formal guarantees:
        * Replacing one teacher moves the sum by at most two clips in l2, adding or removing a teacher by at most one
          clip, each plus rounding that the noise covers. (With `ConvexTeacher` this holds if one private group is
          replaced, not a whole teacher.) So the release is one Gaussian event. The noise is a whole number of steps,
          drawn exactly.
        * A teacher of weight w moves the sum by at most w times as much. For this teacher the release costs as much as
          one with 1 / w times the noise, `scaled(1 / w)` (docs/proofs/budgets.md).
        * The center is public, or it is released by `Prevalence` first. The prevalence takes `prevalence_share` of
          1 / noise_multiplier**2, and the event covers both releases. A clip that is not given is computed from the
          center.

    Votes are bits or finite floats of any range. The result does not depend on how votes are cut into blocks.

    In rounds, a public student predicts the probabilities p(x), and each teacher votes on its errors y - p(x). The vote
    of a kernel teacher is the mean of features(x) (y - p(x))^T over its records, up to a factor for their number
    (`MomentVotes`):
        1. Each label is scaled by (its variance)**(-1/4), so that rare labels are not lost among common ones.
        2. A vote is clipped to `clip_factor` times half of its usual length, that of a vote on labels drawn by p.
        3. The clipped votes are summed in whole steps, and get rounded Gaussian noise. The noise of a round is
           sqrt(rounds) times as large as for one round alone. So all rounds cost one Gaussian event, which is charged
           before anything is shown.
        4. The noisy sum gives one step of the student's `Descent`, which starts at the prevalence or at `start`.

    The clip and the student of a round are computed from earlier releases. A round is drawn once and stored, and later
    reads return the stored round.

    Attributes:
        noise_multiplier: standard deviation of the noise over sensitivity, for the whole release, > 0.
        prevalence_share: the part of the budget for the prevalence, in [0, 1); 0 where the center is public.
        center: the public center, `[num_queries, num_labels]`, `[num_labels]` or a number; None for 1/2. Votes are
            centered at it only if `prevalence_share` is 0.
        clip: the largest length of a vote in one matrix. None for `clip_factor` times the usual length, that of bits
            drawn with the center as probabilities.
        clip_factor: multiplies the usual length of a vote, > 0; in rounds, half of the usual length.
        rounds: the number of rounds, for teachers that can vote in rounds, such as kernel teachers. Any number of
            rounds has the same price. With 1, or if `clip` is given or each query has its own center, these teachers
            cast one matrix of votes, as all others do. None for 20 rounds, or for 1 if there are fewer than 200
            teachers. Groups of convex teachers are an exception: they vote in rounds with any number, 20 for None, and
            refuse a `clip` or a center for each query.
        span: a public orthonormal basis `[num_queries, rank]` in which all votes lie; None if there is none. A basis
            removes noise outside of it from the labels, and does not change the scores.
        weights: public, `[num_teachers]` in [0, 1], the weight of each teacher's vote in `aggregate`; None for weights
            of 1. `release` reads the weights of the vote source instead.
        recipe: the tuned constants, a `Recipe` or a dict of its fields; public, and published if any differs from its
            default.
        start: the public source of the weights at which the student of rounds begins, such as labels of public rows;
            None to begin at the prevalence.

    Source: docs/proofs/centered_votes.md and vote_rounds.md.

    >>> votes = np.array([[[0.9, 0.1]], [[0.8, 0.3]], [[0.7, 0.2]]])
    >>> aggregator = CenteredVotes(noise_multiplier=0.1, center=0.5, prevalence_share=0.0)
    >>> release = aggregator.aggregate(votes, num_teachers=3, rng=np.random.default_rng(0))
    >>> release.scores.round(2).tolist(), release.event
    ([[0.77, 0.15]], GaussianEvent(noise_multiplier=0.1))
    """

    reads: ClassVar[type[VoteSource]] = CenterableVotes
    queries_at_once: ClassVar[int | None] = None
    budgets_by: ClassVar[Literal["weights", "teachers"] | None] = "weights"
    # One Gaussian release has one price for any number of queries and teachers, so more of them do not help.
    remedies: ClassVar[Mapping[str, str]] = {
        "noise": "a larger epsilon, or more private groups",
        "the teachers": "scaled inputs, or other features",
    }

    noise_multiplier: float = field(metadata=NOISE)
    prevalence_share: float = 0.1
    center: Any = field(default=None, repr=False)
    clip: float | None = field(default=None, metadata=POSITIVE)
    clip_factor: float = field(default=1.0, metadata=POSITIVE)
    rounds: int | None = field(default=None, metadata=COUNT)
    span: FloatArray | None = field(default=None, repr=False)
    weights: FloatArray | None = field(default=None, repr=False)
    recipe: Recipe = field(default=DEFAULT_RECIPE, repr=False)
    # The start is not published as a field. A release names the setting that it comes from.
    start: StartSource | None = field(default=None, repr=False, metadata={"private": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.recipe, Mapping):
            normalize_field(self, "recipe", Recipe.from_setting(self.recipe))
        require_kind("recipe", self.recipe, Recipe, rule="a Recipe, or fields of one by name")
        prevalence_share = self.prevalence_share
        is_share = isinstance(prevalence_share, (int, float)) and 0 <= prevalence_share < 1
        require(is_share, "prevalence_share", prevalence_share, "a number in [0, 1)")
        if self.weights is not None:
            weights = np.asarray(self.weights, dtype=np.float64)
            require_entries("weights", (weights >= 0) & (weights <= 1), rule="numbers in [0, 1]")
            normalize_field(self, "weights", weights)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CenteredVotes) and self._identity_text == other._identity_text

    def __hash__(self) -> int:
        return hash(self._identity_text)

    def event(self, shape: VoteShape) -> Event:
        """Returns the price of prevalence and votes, one Gaussian event for any number > 0 of queries and labels."""
        if shape.num_queries == 0:
            return NoOpEvent()
        if self.prevalence_share == 0:
            return GaussianEvent(self.noise_multiplier)
        return GaussianEvent.composed(
            [self.prevalence.event.noise_multiplier, self.votes_multiplier]
        )

    def summarize(self, votes: VoteSource) -> IntArray:
        """Returns the sum over teachers of the clipped differences votes - public center, in steps.

        The shape is `[num_queries, num_labels]`; a step is the unit to which differences are rounded.

        Raises:
            InvalidValue: the prevalence is still to be released, so there is no center.
        """
        if self.prevalence_share != 0:
            rule = "0, as `centered_at` sets it once the center is released"
            raise InvalidValue("prevalence_share", self.prevalence_share, rule=rule)
        return self._matrix_mechanism.summarize(votes.require_type(CenterableVotes))

    def draw(self, summary: IntArray, shape: VoteShape, rng: Rng) -> Answers:
        """Draws labels around a public center; `release` returns the scores too."""
        release = self._matrix_mechanism.noisy_release(
            summary, event=self.event(shape), num_teachers=shape.num_teachers, rng=rng
        )
        return Answers.to_all(labels=release.labels)

    def release(self, votes: VoteSource, rng: Rng, record: ReleaseRecord) -> Release:
        """Releases the prevalence of the teachers' records, and then the votes around it; see `Aggregator.release`.

        The record stores parts, which are arrays under a name (`ReleaseRecord`). The three draws of the prevalence are
        the parts `lengths`, `mean-1` and `mean-2`, and the prevalence is `prevalence`. If teachers vote in rounds,
        round N is the part `step-N`. The last part is `release`. One charge, made with the first part, covers all.
        """
        require_generator(rng)
        centerable_votes = votes.require_type(CenterableVotes)
        # Two generators, so that the noise of the votes does not depend on whether the prevalence is drawn now or read
        # from the record.
        prevalence_rng, votes_rng = rng.spawn(2)
        votes_in_rounds = self.votes_in_rounds(centerable_votes)
        if votes_in_rounds is not None:
            return self._release_in_rounds(
                centerable_votes,
                votes_in_rounds,
                record,
                prevalence_rng=prevalence_rng,
                votes_rng=votes_rng,
            )
        self._require_no_start()
        return self._release_once(
            centerable_votes, record, prevalence_rng=prevalence_rng, votes_rng=votes_rng
        )

    def aggregate(
        self, votes: Any, *, num_teachers: int, rng: Rng, ledger: Ledger | None = None
    ) -> CenteredRelease:
        """Releases scores and labels for all queries of votes that are given as an array; see `Aggregator.aggregate`.

        The votes are one matrix; `rounds` and `start` are not read.

        If `prevalence_share` > 0, the votes must be a whole array with values in [0, 1], as it is read repeatedly. The
        shares of the prevalence are then computed from the votes: a teacher's share of a label is the mean of its votes
        over the queries. To center votes at the prevalence among the teachers' records instead, call
        `prevalence.release` and then `centered_at`.

        Args:
            votes: bits or numbers, `[num_teachers, num_queries, num_labels]`, or blocks of it along the first axis.
            num_teachers: the declared number of teachers, public.
            rng: the source of all noise.
            ledger: the ledger to charge before any noise is drawn; None charges nothing.
        """
        require_generator(rng)
        if self.prevalence_share > 0:
            if not is_whole(votes_or_blocks=votes):
                rule = "an array [num_teachers, num_queries, num_labels], read twice; or prevalence_share=0"
                raise InvalidValue("votes", type(votes).__name__, rule=rule)
            # All votes are checked before their first reading is charged.
            checked_blocks = vote_blocks(votes, num_teachers=num_teachers, adjacency=self.adjacency)
            for _ in checked_blocks:
                pass  # each block is checked as it is read
        vote_source = VoteBlocks(votes, num_teachers=num_teachers, weights=self.weights)
        warn_if_useless(self, vote_shape=vote_source.shape)
        memory_record = self._memory_record(vote_shape=vote_source.shape, ledger=ledger)
        # One generator for both: the new record holds nothing, so both are drawn, the prevalence first.
        return self._release_once(vote_source, memory_record, prevalence_rng=rng, votes_rng=rng)

    def noiseless_from(self, source: VoteSource, record: ReleaseRecord) -> Release:
        """Returns the release without the noise of the votes, around a public or an already released center.

        The center is the prevalence that the record holds, or the public center if it holds none. Only the votes are
        without noise: a prevalence in the record was released with noise, which stays.

        No epsilon covers the result; see `Aggregator.noiseless_from`.
        """
        centerable_votes = source.require_type(CenterableVotes)
        released_shares = _committed_shares(record)
        votes_in_rounds = self.votes_in_rounds(centerable_votes)
        if votes_in_rounds is not None:
            # Without `rng` no noise is added, and without `record` nothing is charged or stored.
            return self._rounds_mechanism.release(
                votes_in_rounds,
                self._prevalence_with_variance(votes_in_rounds, released_shares),
                num_queries=centerable_votes.num_queries,
                event=NonPrivateEvent(),
                public_start=self._public_start(votes_in_rounds),
            )
        matrix_mechanism = self._matrix_mechanism_of(
            centerable_votes, released_shares=released_shares
        )
        summary = matrix_mechanism.cached_summary(centerable_votes)
        return matrix_mechanism.release_from_sum(
            summary,
            std_in_steps=0.0,
            event=NonPrivateEvent(),
            num_teachers=centerable_votes.num_teachers,
        )

    def check_run(self) -> None:
        """Raises `InvalidValue` under add/remove.

        A run of `pate-train` uses the number of private groups, which is not public under add/remove.
        """
        if self.adjacency is not Adjacency.REPLACE_ONE:
            rule = (
                "replace_one: a run with centered_votes uses the number of private groups, "
                "which add_remove would reveal"
            )
            raise InvalidValue("adjacency", self.adjacency, rule=rule)

    def require_source(self, vote_source: VoteSource) -> None:
        """Raises `InvalidValue` for votes that the aggregator cannot read, before any charge.

        Votes that are not cast in rounds must be those of teachers with bits or confidences. A prevalence needs the
        label shares of the teachers.
        """
        centerable_votes = vote_source.require_type(CenterableVotes)
        votes_in_rounds = self.votes_in_rounds(centerable_votes)
        if self.prevalence_share > 0:
            centerable_votes.share_sums()  # made only to check that the votes have label shares
        if votes_in_rounds is None:
            for _ in vote_source.require_type(TeacherVotes).confidences():
                pass  # each block is checked as it is read

    def identity(self, shape: VoteShape) -> str:
        """Returns all public parameters as text; see `Aggregator.identity`."""
        return self._identity_text

    @property
    def prevalence(self) -> Prevalence:
        """The mechanism that releases the center; raises `InvalidValue` if `prevalence_share` is 0."""
        prevalence_share = require_positive("prevalence_share", self.prevalence_share)
        return Prevalence(
            noise_multiplier=self.noise_multiplier / math.sqrt(prevalence_share),
            adjacency=self.adjacency,
            recipe=self.recipe,
        )

    @property
    def votes_multiplier(self) -> float:
        """The noise multiplier of the votes alone, after the prevalence has taken its share of the budget."""
        return self.noise_multiplier / math.sqrt(1 - self.prevalence_share)

    def centered_at(self, center: Any) -> CenteredVotes:
        """Returns a copy of the aggregator with a fixed center, whose price is that of the votes alone.

        Args:
            center: the public or released center: `[num_queries, num_labels]`, `[num_labels]` or a number.
        """
        return replace(
            self, noise_multiplier=self.votes_multiplier, prevalence_share=0.0, center=center
        )

    def around(self, public_answers: FloatArray) -> CenteredVotes:
        """Returns a copy of the aggregator for answers of experts, which centers them at the answers of a public model.

        No prevalence is released. Unless the aggregator has a `clip`, the clip is `recipe.answer_clip` x `clip_factor`
        times the usual length: that of bits drawn with the public probabilities. Public values alone determine it.

        Args:
            public_answers: `[num_queries, num_labels]` in [0, 1]: the public model's answer to each query. No private
                record, and no answer of an expert, may have changed them.

        Raises:
            InvalidValue: the answers are no such matrix, or the aggregator has a center or several rounds.
        """
        answer_matrix = np.asarray(public_answers, dtype=np.float64)
        if answer_matrix.ndim != 2:
            rule = "[num_queries, num_labels]"
            raise InvalidValue("public_answers.shape", answer_matrix.shape, rule=rule)
        require_entries(
            "public_answers", (answer_matrix >= 0) & (answer_matrix <= 1), rule="in [0, 1]"
        )
        if self.center is not None:
            rule = "none, as public answers are the center"
            raise InvalidValue("center", np.shape(self.center), rule=rule)
        if self.rounds not in (None, 1):
            raise InvalidValue("rounds", self.rounds, rule="1 for answers, which are cast once")
        clip = self.clip
        if clip is None:
            mechanism_at_answers = replace(self._matrix_mechanism, center=answer_matrix)
            usual_clip = mechanism_at_answers.clipped_sum(answer_matrix.shape).clip
            clip = self.recipe.answer_clip * usual_clip
        return replace(self, prevalence_share=0.0, center=answer_matrix, clip=clip)

    # Both forms: the prevalence, the center, and the text by which a release is known.

    def _release_shares(
        self, centerable_votes: CenterableVotes, rng: Rng, record: ReleaseRecord
    ) -> ReleasedShares | None:
        """Returns the released prevalence of each label, and the shares of records for which labels are known.

        They are drawn unless the record already holds them. The result is None if `prevalence_share` is 0.
        """
        if self.prevalence_share == 0:
            return None

        def draw_part() -> Arrays:
            released_shares = self.prevalence.release_shares(
                centerable_votes.share_sums(),
                num_teachers=centerable_votes.num_teachers,
                rng=rng,
                record=record,
                records_per_teacher=centerable_votes.records_per_teacher,
            )
            return released_shares.arrays()

        return ReleasedShares.from_arrays(record.part("prevalence", draw_part))

    @property
    def _center_or_half(self) -> FloatArray:
        """The field `center` as a float64 array of unchanged shape; the number 1/2 if the field is None."""
        return np.asarray(0.5 if self.center is None else self.center, dtype=np.float64)

    @property
    def _identity_text(self) -> str:
        """All fields as text, from which the identity of a release is made; equal aggregators have equal texts.

        A public start appears by its own identity, and is left out if it is None. A recipe is left out if all its
        fields have their defaults.
        """
        texts_by_field = field_texts(replace(self, start=None))
        if self.start is None:
            del texts_by_field["start"]
        else:
            texts_by_field["start"] = self.start.identity
        if texts_by_field["recipe"] == unabridged_repr(DEFAULT_RECIPE):
            # Releases of versions without recipes are known by a text without one.
            del texts_by_field["recipe"]
        return text_of_fields(type(self), texts_by_field)

    # One matrix of votes.

    def _release_once(
        self,
        centerable_votes: CenterableVotes,
        record: ReleaseRecord,
        *,
        prevalence_rng: Rng,
        votes_rng: Rng,
    ) -> CenteredRelease:
        """Releases the prevalence, if it has a share of the budget, and then the votes on all queries at once.

        The votes are released around the released prevalence; without one, around the public center. `release` names
        the parts of the record.

        Args:
            centerable_votes: the private votes.
            record: charges the price and stores the parts.
            prevalence_rng: the source of the noise of the prevalence.
            votes_rng: the source of the noise of the votes.
        """
        vote_shape = centerable_votes.shape
        event = self.event(vote_shape)
        # This is checked before the prevalence is charged.
        CenteredMatrix.require_fits(vote_shape)
        released_shares = self._release_shares(centerable_votes, prevalence_rng, record)
        matrix_mechanism = self._matrix_mechanism_of(
            centerable_votes, released_shares=released_shares
        )
        arrays = record.committed("release")
        if arrays is None:
            # The votes are computed before the part is drawn, because teachers may fail.
            summary = matrix_mechanism.cached_summary(centerable_votes)

            def draw_part() -> Arrays:
                release = matrix_mechanism.noisy_release(
                    summary, event=event, num_teachers=vote_shape.num_teachers, rng=votes_rng
                )
                known_shares = None if released_shares is None else released_shares.known_shares
                return replace(release, known_shares=known_shares).arrays()

            arrays = record.part("release", draw_part)
        return CenteredRelease.from_arrays(
            arrays,
            event=event,
            adjacency=self.adjacency,
            num_directions=matrix_mechanism.num_directions,
            recipe=self.recipe,
        )

    @property
    def _matrix_mechanism(self) -> CenteredMatrix:
        """The mechanism that releases one matrix of votes, with this aggregator's center, teacher weights and span."""
        return CenteredMatrix(
            noise_multiplier=self.votes_multiplier,
            center=self._center_or_half,
            clip=self.clip,
            clip_factor=self.clip_factor,
            span_basis=self.span,
            teacher_weights=self.weights,
            adjacency=self.adjacency,
            recipe=self.recipe,
        )

    def _matrix_mechanism_of(
        self,
        centerable_votes: CenterableVotes,
        *,
        released_shares: ReleasedShares | None,
    ) -> CenteredMatrix:
        """Returns the mechanism that releases one matrix of votes around the released prevalence.

        The teacher weights are those of the votes. So is the span, unless the votes have none; then it is the field
        `span`.

        Args:
            centerable_votes: the private votes, of which the public span and weights are used.
            released_shares: the released prevalence; None for the public center.
        """
        matrix_mechanism = self._matrix_mechanism
        center = matrix_mechanism.center if released_shares is None else released_shares.prevalence
        span_basis = centerable_votes.span(
            noise_multiplier=self.votes_multiplier, recipe=self.recipe
        )
        return replace(
            matrix_mechanism,
            center=np.asarray(center, dtype=np.float64),
            span_basis=self.span if span_basis is None else span_basis,
            teacher_weights=centerable_votes.weights,
        )

    # Votes in rounds.

    @property
    def num_rounds(self) -> int:
        """The number of rounds of teachers that vote in rounds: `rounds`, or `recipe.num_rounds` if that is None."""
        return self.rounds or self.recipe.num_rounds

    def casts_one_matrix(self, num_teachers: int) -> bool:
        """Returns whether teachers that could vote in rounds cast one matrix of votes.

        They do if `clip` is given, if each query has its own center, or if `rounds` is 1. If `rounds` is None, they
        also do if there are fewer of them than `recipe.fewest_teachers_in_rounds`.

        Args:
            num_teachers: the number of teachers.
        """
        if self.clip is not None or np.ndim(self.center) > 1:
            return True
        if self.rounds is not None:
            return self.rounds == 1
        return num_teachers < self.recipe.fewest_teachers_in_rounds

    def votes_in_rounds(self, centerable_votes: CenterableVotes) -> RoundVotes | None:
        """Decides whether the teachers vote in rounds, and returns their votes for that; None if they vote once.

        Args:
            centerable_votes: the private votes.

        Raises:
            InvalidValue: the votes or this aggregator do not fit rounds.
        """
        center_axes = np.ndim(self.center)
        if isinstance(centerable_votes, GroupVotes):
            # Groups vote in rounds only.
            if self.clip is not None:
                rule = "no clip, but a clip_factor, for votes in rounds"
                raise InvalidValue("clip", self.clip, rule=rule)
            require(center_axes < 2, "center.ndim", center_axes, "0 or 1 for votes in rounds")
        elif self.casts_one_matrix(centerable_votes.num_teachers):
            return None
        self._rounds_mechanism.require_fits(
            num_teachers=centerable_votes.num_teachers, num_labels=centerable_votes.num_labels
        )
        noise_multiplier = self.votes_multiplier
        if self.start is None:
            return centerable_votes.in_rounds(noise_multiplier=noise_multiplier, recipe=self.recipe)
        return self.start.votes_in_rounds(
            centerable_votes, noise_multiplier=noise_multiplier, recipe=self.recipe
        )

    def start_weights(self, votes: VoteSource, record: ReleaseRecord) -> FloatArray | None:
        """Returns the weights `[num_features, num_labels]` at which the student began; None without a public start.

        Nothing private is read: they are computed from the public start and the released prevalence.

        Args:
            votes: the votes of the release. Only their public features and numbers are used, and no vote.
            record: the record of the release.
        """
        if self.start is None:
            return None
        votes_in_rounds = self.votes_in_rounds(votes.require_type(CenterableVotes))
        assert votes_in_rounds is not None  # a release with a start is drawn in rounds
        released_shares = _committed_shares(record)
        return self._rounds_mechanism.start_weights(
            votes_in_rounds,
            self._prevalence_with_variance(votes_in_rounds, released_shares),
            public_start=self.start.public_start(votes_in_rounds),
        )

    def _require_no_start(self) -> None:
        """Raises `InvalidValue` if the aggregator has a public start, which one matrix of votes cannot use."""
        if self.start is not None:
            rule = (
                "null, as only votes in rounds have a start: kernel, convex or trained teachers on numbers, "
                f"{self.recipe.fewest_teachers_in_rounds} of them or aggregator.rounds above 1, and no aggregator.clip"
            )
            raise InvalidValue("start", "given", rule=rule)

    def _release_in_rounds(
        self,
        centerable_votes: CenterableVotes,
        votes_in_rounds: RoundVotes,
        record: ReleaseRecord,
        *,
        prevalence_rng: Rng,
        votes_rng: Rng,
    ) -> RoundsRelease:
        """Releases the prevalence, if it has a share of the budget, and then the votes round after round.

        Args:
            centerable_votes: the private votes.
            votes_in_rounds: the same votes, as teachers cast them in rounds.
            record: charges the price and stores the parts.
            prevalence_rng: the source of the noise of the prevalence.
            votes_rng: the source of the noise of the votes.
        """
        if record.committed("release") is None:
            # A release that is committed is read back, and needs no votes.
            votes_in_rounds.open()
        event = self.event(centerable_votes.shape)
        released_shares = self._release_shares(centerable_votes, prevalence_rng, record)

        def draw_part() -> Arrays:
            release = self._rounds_mechanism.release(
                votes_in_rounds,
                self._prevalence_with_variance(votes_in_rounds, released_shares),
                num_queries=centerable_votes.num_queries,
                event=event,
                rng=votes_rng,
                record=record,
                public_start=self._public_start(votes_in_rounds),
            )
            known_shares = None if released_shares is None else released_shares.known_shares
            return replace(release, known_shares=known_shares).arrays()

        arrays = record.part("release", draw_part)
        return RoundsRelease.from_arrays(
            arrays, event=event, adjacency=self.adjacency, recipe=self.recipe
        )

    @property
    def _rounds_mechanism(self) -> CenteredRounds:
        """The mechanism that releases votes in rounds, with the noise that the prevalence leaves and `clip_factor`."""
        return CenteredRounds(
            noise_multiplier=self.votes_multiplier,
            num_rounds=self.num_rounds,
            clip_factor=self.clip_factor,
            adjacency=self.adjacency,
            recipe=self.recipe,
        )

    def _prevalence_with_variance(
        self, votes_in_rounds: RoundVotes, released_shares: ReleasedShares | None
    ) -> NoisyPrevalence:
        """Returns the prevalence of each label at which the student begins, with the variance of its noise.

        Args:
            votes_in_rounds: the private votes, of which public numbers are used.
            released_shares: the released prevalence; None takes the public center of votes, or 1/2 if there is none.
        """
        if released_shares is None:
            return NoisyPrevalence.public(
                self._center_or_half, num_labels=votes_in_rounds.num_labels, recipe=self.recipe
            )
        return NoisyPrevalence.from_shares(
            released_shares, votes_in_rounds, prevalence_mechanism=self.prevalence
        )

    def _public_start(self, votes_in_rounds: RoundVotes) -> PublicStart | None:
        """Returns the public weights at which the student begins; None to begin at the prevalence."""
        return None if self.start is None else self.start.public_start(votes_in_rounds)


def _committed_shares(record: ReleaseRecord) -> ReleasedShares | None:
    """Returns the prevalence that a record holds; None if it holds none."""
    prevalence_arrays = record.committed("prevalence")
    return None if prevalence_arrays is None else ReleasedShares.from_arrays(prevalence_arrays)


@expected_from_votes.register(CenteredVotes)
def _expected_from_centered_votes(
    aggregator: CenteredVotes, made_up_votes: MadeUpVotes, num_queries: int
) -> ExpectedRelease:
    """Returns the expected shares of right labels, if a student reads the scores; a formula, which draws nothing.

    For Q = `num_queries`, a student with D = 128 directions averages the noise of Q / D queries, of one if Q < D. A
    label counts as right if the remaining noise is below half of the distance between the scores of present and absent
    labels.
    """
    vote_shares = made_up_votes.counts() / made_up_votes.num_teachers
    score_distance = float(
        vote_shares[made_up_votes.labels].mean() - vote_shares[~made_up_votes.labels].mean()
    )
    prevalence = float(made_up_votes.labels.mean())
    vote_length = math.sqrt(num_queries * made_up_votes.num_labels * prevalence * (1 - prevalence))
    clip = aggregator.clip or aggregator.clip_factor * vote_length
    sensitivity = aggregator.adjacency.num_moved * clip
    noise_of_score = sensitivity * aggregator.votes_multiplier / made_up_votes.num_teachers
    student_noise = noise_of_score * math.sqrt(min(_STUDENT_DIRECTIONS / num_queries, 1.0))
    clip_scale = min(1.0, clip / vote_length)  # the factor by which the clip shortens a vote
    share_right = float(ndtr_without_scipy(clip_scale * score_distance / 2 / student_noise))
    return ExpectedRelease(answered=1.0, present=share_right, absent=share_right)
