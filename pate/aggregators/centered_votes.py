"""Centered votes: all queries as one Gaussian release around a center, clipped together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, Event, GaussianEvent, Ledger, NonPrivateEvent, NoOpEvent
from pate.accounting.special import few_ndtr
from pate.aggregators import aggregator
from pate.aggregators.aggregator import Drawn, ExpectedRelease, ReleaseContext, TeacherVotesAggregator
from pate.aggregators.prevalence import Prevalence
from pate.aggregators.release import NoisyScores, Release, TrainingSet
from pate.aggregators.vote_rounds import RoundsRelease, VoteRounds
from pate.files.arrays import ArrayForm
from pate.mechanisms.noise.whole_numbers import RoundedGaussian
from pate.mechanisms.parameters import COUNT, NOISE, POSITIVE
from pate.validation import InvalidValue, require, require_array, require_entries, require_generator, require_positive
from pate.votes.clipping import ClippedSum, vote_blocks
from pate.votes.descent import shrink_singular_values
from pate.votes.moment_votes import RoundVotes
from pate.votes.source import MadeUpVotes, TeacherShares, VoteSource

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CenteredRelease(Release):
    """A release of real numbers; all of it may be published.

    Attributes:
        scores: float64 `[Q, L]`, the center plus the noisy mean of clipped votes: on a grid, with independent noise.
        noise_std: of each score.
        center: float64 `[Q, L]`.
        num_directions: of the public basis that the votes lie in; None where they may be anything.
    """

    scores: Array
    noise_std: float
    center: Array
    num_directions: int | None = None

    _FORMS: ClassVar[dict[str, ArrayForm]] = Release._FORMS | {
        "scores": ArrayForm("f", (None, None)),
        "center": ArrayForm("f", (None, None)),
        "noise_std": ArrayForm("f", ()),
    }

    def training_set(self, inputs: NDArray[np.float32]) -> TrainingSet:
        values, prevalence = self.scores - self.center, self.center.mean(axis=0)
        scores = NoisyScores(values, self.noise_std, prevalence, self.num_directions)
        return replace(super().training_set(inputs), scores=scores)


_SMALLEST_SHARE = 1e-3
_HALF = 0.5
_ROUNDS = 20
_FEWEST_IN_ROUNDS = 200  # teachers; with 99 one release was better
_DIRECTIONS = 128  # that a student reads scores in, as `LowRankStudent`


@dataclass(frozen=True, kw_only=True, eq=False)
class CenteredVotes(TeacherVotesAggregator):
    """Releases the mean of all teachers' votes, each minus the center and clipped over all Q x L entries together.

    Rule: r = votes - center; a teacher counts for min(1, clip / |r|) r with |r| the length over all queries and labels;
    the sum gets rounded Gaussian noise in every entry. Labels are the sums' low-rank part thresholded so that each
    label holds as often as the center says. Answers every query.

    Formal guarantees:
        * One teacher replaced moves the sum by at most 2 clip in l2, one added or removed by at most clip, rounding
          included: one Gaussian event. Of `ConvexTeacher` it is one group.
        * A teacher of weight w moves everything at most w times as far: for it the same release costs what
          `scaled(1 / w)` does (docs/proofs/budgets.md).
        * The noise is a whole number of steps, drawn exactly: no bits of a float are published.
        * The center is public, or released by `Prevalence` with `prevalence_share` of 1 / noise_multiplier**2; then the
          price is that of both, and the clip is a function of what was released.

    Edge cases: votes are bits or finite floats of any range. Where the blocks of a stream are cut makes no difference.

    Attributes:
        noise_multiplier: noise std over sensitivity, of everything that is released, > 0.
        prevalence_share: in [0, 1); 0 where the center is public.
        center: public, `[Q, L]`, `[L]` or a number, None for 1/2; read with `prevalence_share` 0 only.
        clip: length in votes, or None for `clip_factor` times the length that bits drawn by the center have around it.
        clip_factor: > 0.
        rounds: for teachers that can be asked again, as kernel teachers can: how often, each time against the student
            of the rounds before (`VoteRounds`), at the same price. None for 20, but 1 where `clip` is given, each query
            has a center of its own or there are fewer than 200; 1 for one matrix of votes, as of all other teachers.
        span: public, orthonormal `[Q, r]` where all votes are known to lie in it: sharper labels, the same scores.
        weights: public, `[N]` in [0, 1], what each teacher counts, for `aggregate`; of a source these are its own.

    Source: docs/proofs/centered_votes.md.

    >>> votes = np.array([[[0.9, 0.1]], [[0.8, 0.3]], [[0.7, 0.2]]])
    >>> aggregator = CenteredVotes(noise_multiplier=0.1, center=0.5, prevalence_share=0.0)
    >>> release = aggregator.aggregate(votes, num_teachers=3, rng=np.random.default_rng(0))
    >>> release.scores.round(2).tolist(), release.event
    ([[0.77, 0.15]], GaussianEvent(noise_multiplier=0.1))
    """

    input_form: ClassVar[aggregator.InputForm] = "centered"
    budgets_by: ClassVar[Literal["weights", "teachers"] | None] = "weights"
    remedies: ClassVar[Mapping[str, str]] = {  # one Gaussian release pays for any number of queries and teachers
        "noise": "a larger epsilon, or more private groups",
        "the teachers": "scaled inputs, or other features",
    }

    noise_multiplier: float = field(metadata=NOISE)
    prevalence_share: float = 0.1
    center: Any = field(default=None, repr=False)
    clip: float | None = field(default=None, metadata=POSITIVE)
    clip_factor: float = field(default=1.0, metadata=POSITIVE)
    rounds: int | None = field(default=None, metadata=COUNT)
    span: Any = field(default=None, repr=False)
    weights: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        share = self.prevalence_share
        require(isinstance(share, (int, float)) and 0 <= share < 1, "prevalence_share", share, "a number in [0, 1)")
        if self.weights is not None:
            weights = np.asarray(self.weights, dtype=np.float64)
            require_entries("weights", (weights >= 0) & (weights <= 1), "numbers in [0, 1]")
            object.__setattr__(self, "weights", weights)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CenteredVotes) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        """One Gaussian event for the prevalence and the votes; the numbers of queries and labels do not count."""
        aggregator.require_shape(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)
        if num_queries == 0:
            return NoOpEvent()
        if self.prevalence_share == 0:
            return GaussianEvent(self.noise_multiplier)
        return GaussianEvent.composed([self.prevalence.event.noise_multiplier, self.votes_multiplier])

    @property
    def prevalence(self) -> Prevalence:
        """What releases the center, where there is a share for it."""
        multiplier = self.noise_multiplier / math.sqrt(require_positive("prevalence_share", self.prevalence_share))
        return Prevalence(noise_multiplier=multiplier, adjacency=self.adjacency)

    @property
    def votes_multiplier(self) -> float:
        """noise_multiplier of the votes alone."""
        return self.noise_multiplier / math.sqrt(1 - self.prevalence_share)

    def centered_at(self, center: Any, **public: Any) -> CenteredVotes:
        """What releases the votes once the center is known, with a `span` and `weights`: the price of votes alone."""
        return replace(self, noise_multiplier=self.votes_multiplier, prevalence_share=0.0, center=center, **public)

    def aggregate(
        self, votes: Any, *, num_teachers: int, rng: np.random.Generator, ledger: Ledger | None = None
    ) -> Release:
        """As `Aggregator.aggregate`; with a `prevalence_share` votes are an array in [0, 1].

        The prevalence is then that of the votes themselves: each teacher's mean over the queries. Where it is that of
        the teachers' records, or votes depend on it, call `prevalence.release` and `centered_at`.
        """
        if self.prevalence_share == 0:
            return super().aggregate(votes, num_teachers=num_teachers, rng=rng, ledger=ledger)
        require_generator(rng)
        whole = isinstance(votes, (list, tuple)) or hasattr(votes, "__array__")
        rule = "an array [num_teachers, num_queries, num_labels], read twice; or prevalence_share=0"
        require(whole, "votes", type(votes).__name__, rule)
        array = require_array("votes", votes, kinds=None)  # all of it is checked before its first reading is charged
        for _ in vote_blocks(array, num_teachers=num_teachers, adjacency=self.adjacency):
            pass
        shares = TeacherShares(array.mean(axis=1), self.weights)
        center = self.prevalence.release(shares, num_teachers=num_teachers, rng=rng, ledger=ledger)
        release = self.centered_at(center).aggregate(array, num_teachers=num_teachers, rng=rng, ledger=ledger)
        shape = {"num_queries": array.shape[1], "num_labels": array.shape[2]}
        return replace(release, event=self.event_for(num_teachers=num_teachers, **shape))

    def release_from(self, source: VoteSource, context: ReleaseContext) -> Release:
        """The prevalence is that of the teachers' records; one charge covers all."""
        for_prevalence, for_votes = context.rng.spawn(2)
        votes, drawn = self._in_rounds(source), self._drawn(source, context)
        if votes is None:  # before the prevalence is paid for
            most = ClippedSum.most_queries(source.num_teachers, source.num_labels)
            rule = f"at most {most}, as one exact sum of {source.num_teachers:,} teachers holds no more"
            require(source.num_queries <= most, "num_queries", source.num_queries, rule)
        event, center, total = self._event_of(source), self.center, source.num_teachers
        if self.prevalence_share > 0:  # released once

            def released() -> dict[str, Array]:
                each, made = source.records_per_teacher, partial(self.prevalence.release, source.share_sums())
                return {
                    "prevalence": made(num_teachers=total, rng=for_prevalence, records_per_teacher=each, drawn=drawn)
                }

            center = drawn.once("prevalence", released)["prevalence"]

        if votes is None:
            arrays = drawn.read("release")
            if arrays is None:
                step, summary = self._gathered_around(center, source)  # before it is paid for: teachers may fail
                draw = partial(step.aggregate_summary, summary, num_teachers=total, rng=for_votes)
                arrays = drawn.once("release", lambda: draw().arrays())
            span = source.span(noise_multiplier=self.votes_multiplier)
            width = None if span is None else span.shape[1]
            return CenteredRelease.of_arrays(arrays, event=event, adjacency=self.adjacency, num_directions=width)

        within = replace(context, rng=for_votes, drawn=drawn)
        arrays = drawn.once("release", lambda: self._by_rounds(votes, center, within, source, event).arrays())
        return RoundsRelease.of_arrays(arrays, event=event, adjacency=self.adjacency)

    def noiseless_from(self, source: VoteSource, drawn: Drawn) -> Release:
        """Around the center that was released."""
        released = drawn.read("prevalence")
        center = self.center if released is None else released["prevalence"]
        if (votes := self._in_rounds(source)) is not None:
            return self._by_rounds(votes, center, None, source, NonPrivateEvent())
        step, summary = self._gathered_around(center, source)
        return step._released(summary, 0.0, NonPrivateEvent(), source.num_teachers)

    def _expected(self, votes: MadeUpVotes, num_queries: int) -> ExpectedRelease:
        """Of the scores as a student reads them, which no single one shows.

        A student with up to 128 directions averages the noise of Q / 128 queries. A bit is said right if what is left
        of the noise is less than half of the distance between the scores of present and absent labels.
        """
        share = votes.counts() / votes.num_teachers
        apart = float(share[votes.labels].mean() - share[~votes.labels].mean())
        likely = float(votes.labels.mean())
        length = math.sqrt(num_queries * votes.num_labels * likely * (1 - likely))
        clip = self.clip or self.clip_factor * length
        moves = 2 if self.adjacency is Adjacency.REPLACE_ONE else 1
        noise_of_one = moves * clip * self.votes_multiplier / votes.num_teachers
        noise = noise_of_one * math.sqrt(min(_DIRECTIONS / num_queries, 1.0))
        right = float(few_ndtr(min(1.0, clip / length) * apart / 2 / noise))
        return ExpectedRelease(1.0, right, right)

    def check_run(self) -> None:
        """Raises under add/remove, where the number of private groups, which a run goes by, would not be public."""
        rule = "replace_one: a run with centered_votes uses the number of private groups, which add_remove would reveal"
        require(self.adjacency is Adjacency.REPLACE_ONE, "adjacency", self.adjacency, rule)

    def require_source(self, source: VoteSource) -> None:
        """Rounds need teachers that can be asked again, a prevalence their shares."""
        in_rounds = self._in_rounds(source) is not None
        if self.prevalence_share > 0:
            source.share_sums()
        if not in_rounds:
            super().require_source(source)

    def _gathered_around(self, center: Any, source: VoteSource) -> tuple[CenteredVotes, NDArray[np.int64]]:
        """What releases the votes around a center, and the sum that it releases."""
        basis = {"noise_multiplier": self.votes_multiplier}
        step = self.centered_at(center, span=source.span(**basis), weights=source.weights)
        known = np.asarray(_HALF if center is None else center, dtype=np.float64)

        gather = partial(step.gather, num_teachers=source.num_teachers)
        key = ("summary", self._text, known.tobytes())
        return step, source.remembered(key, lambda: gather(source.votes_around(known, **basis)))

    @property
    def in_rounds(self) -> VoteRounds:
        """What releases the votes of teachers that can be asked again."""
        return VoteRounds(self.votes_multiplier, self.rounds or _ROUNDS, self.clip_factor, self.adjacency)

    def _in_rounds(self, source: VoteSource) -> RoundVotes | None:
        """The votes in rounds, where they are cast so."""
        once = self.rounds == 1 or (self.rounds is None and source.num_teachers < _FEWEST_IN_ROUNDS)
        if source.only_in_rounds:
            require(self.clip is None, "clip", self.clip, "no clip, but a clip_factor, for votes in rounds")
            require(np.ndim(self.center) < 2, "center.ndim", np.ndim(self.center), "0 or 1 for votes in rounds")
        elif once or self.clip is not None or np.ndim(self.center) > 1:
            return None
        self.in_rounds.require_shape(num_teachers=source.num_teachers, num_labels=source.num_labels)
        return source.in_rounds(noise_multiplier=self.votes_multiplier)

    def _by_rounds(
        self, votes: RoundVotes, center: Any, context: ReleaseContext | None, source: VoteSource, event: Event
    ) -> RoundsRelease:
        """All rounds, which begin with the prevalence of each label; without noise where there is no context."""
        known = np.asarray(_HALF if center is None else center, dtype=np.float64)
        found = np.broadcast_to(known.clip(_SMALLEST_SHARE, 1 - _SMALLEST_SHARE), votes.num_labels).copy()
        variance = 0.0
        if self.prevalence_share > 0:
            size = {"total": votes.total_weight, "records_per_teacher": votes.records_per_teacher}
            variance = self.prevalence.expected_variance(found, **size)
        weights = self.in_rounds.release(votes, found, context, variance=variance)
        return RoundsRelease.of(weights, votes.public, source.num_queries, event, self.adjacency)

    def gather(self, votes: Any, *, num_teachers: int) -> NDArray[np.int64]:
        """The sum of clipped votes minus the center, `[Q, L]`, in steps of the grid; also of `LowRankVotes`."""
        require(self.prevalence_share == 0, "prevalence_share", self.prevalence_share, "0 once the center is known")
        blocks = vote_blocks(votes, num_teachers=num_teachers, adjacency=self.adjacency, inside=False)
        first = next(blocks)
        shape = first.shape[1:]
        given = {"center": self._center(shape), "num_teachers": num_teachers, "weights": self.weights}
        return self._clipped_sum(shape).total(chain([first], blocks), **given)

    def _release(
        self, summary: NDArray[Any], event: Event, *, num_teachers: int, rng: np.random.Generator
    ) -> CenteredRelease:
        std = self.noise_multiplier * self._clipped_sum(summary.shape).l2_sensitivity
        noise = RoundedGaussian(std).sample(summary.shape, rng)
        return self._released(summary + noise, std, event, num_teachers)

    def _released(self, total: NDArray[np.int64], std: float, event: Event, num_teachers: int) -> CenteredRelease:
        """The release of a sum in steps that carries noise of that std."""
        each = num_teachers if self.weights is None else float(self.weights.sum())
        unit = self._clipped_sum(total.shape).step / each
        center, span = self._center(total.shape), self.span
        residual = np.asarray(total * unit, dtype=np.float64)
        if span is None:
            scores = shrink_singular_values(residual, noise_std=std * unit) + center
        else:
            scores = span @ shrink_singular_values(span.T @ residual, noise_std=std * unit) + center
        # of each label as many of the highest scores as the center expects; among equals the residual decides
        expected = np.rint(center.clip(0, 1).sum(axis=0)).astype(np.int64)
        labels, answered = np.zeros(scores.shape, dtype=np.bool_), np.ones(len(scores), dtype=np.bool_)
        chosen = np.arange(len(scores))[:, None] < expected
        np.put_along_axis(labels, np.lexsort((-residual, -scores), axis=0), chosen, axis=0)
        width = None if span is None else span.shape[1]
        return CenteredRelease(labels, answered, event, self.adjacency, center + residual, std * unit, center, width)

    @property
    def _text(self) -> str:
        return self.identity(num_labels=1, num_teachers=1)

    def _center(self, shape: tuple[int, ...]) -> Array:
        center = np.asarray(_HALF if self.center is None else self.center, dtype=np.float64)
        try:
            return np.broadcast_to(center, shape).copy()
        except ValueError as error:
            raise InvalidValue(f"center.shape={center.shape}: expected {shape}, its last axis, or a number") from error

    def _clipped_sum(self, shape: tuple[int, ...]) -> ClippedSum:
        """Where no clip is given, it is `clip_factor` sqrt(sum c (1 - c)): a function of the center."""
        clip = self.clip
        if clip is None:
            share = self._center(shape).clip(_SMALLEST_SHARE, 1 - _SMALLEST_SHARE)
            clip = self.clip_factor * math.sqrt(float((share * (1 - share)).sum()))
        return ClippedSum(clip, (shape[0], shape[1]), self.adjacency)
