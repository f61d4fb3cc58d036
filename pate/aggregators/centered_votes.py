"""Centered votes: all queries as one Gaussian release around a released center, clipped together; also in rounds."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from pate import accounting as pa
from pate import validation
from pate.accounting.ledger import require_ledger
from pate.accounting.special import expit, few_ndtr
from pate.aggregators import aggregator as base
from pate.aggregators.aggregator import Rng
from pate.aggregators.expectation import (
    ExpectedRelease,
    expected_from_votes,
    warn_if_useless,
)
from pate.aggregators.record import Arrays, MemoryRecord, ReleaseRecord
from pate.aggregators.release import Answers, NoisyScores, Release, TrainingSet
from pate.files.arrays import ArrayForm
from pate.mechanisms.noise.whole_numbers import LARGEST_STD, RoundedGaussian
from pate.mechanisms.parameters import COUNT, NOISE, POSITIVE, Parameters
from pate.validation import require, require_generator, require_positive
from pate.votes.arrays import VoteBlocks
from pate.votes.clipping import ClippedMoments, ClippedSum, is_whole, vote_blocks
from pate.votes.descent import Descent, expected_f1_threshold, shrink_singular_values
from pate.votes.moment_votes import RoundVotes
from pate.votes.shape import VoteShape
from pate.votes.source import (
    NUM_LENGTHS,
    CenterableVotes,
    GroupVotes,
    MadeUpVotes,
    ShareSums,
    TeacherShares,
    VoteSource,
)

Array = NDArray[np.float64]


_SPLIT = (0.1, 0.3, 0.6)  # of 1 / noise_multiplier**2: length, first estimate, second
_RAREST = 0.005
# teachers in the simulation that chooses the last clip
_SIMULATED = 4096
_SIMULATED_SHARES = 2**20
_MOST_RECORDS = 2**20  # simulated shares of more records hardly differ from these
_UNBIASED = 1.15  # as large as another squared error may be one that is noise alone
_CLIP = 0.5  # of a typical length, in rounds
_LEAST_LEFT = 1e-4  # of a label's variance, in a round's clip
_MOST_LABELS = 1024  # of which products of residuals are summed: docs/proofs/vote_rounds.md
_LEAST_FACTOR = 1e-90  # of a round's clip, which then stays a length whose square is a number
# rounds, and teachers: with 99 one release was better
_ROUNDS = 20
_FEWEST_IN_ROUNDS = 200
_SMALLEST_SHARE = 1e-3
_HALF = 0.5
_DIRECTIONS = 128  # that a student reads scores in, as `LowRankStudent`


@dataclass(frozen=True, kw_only=True)
class Prevalence(Parameters):
    """Releases the teachers' mean label frequencies in three steps; each step starts from the result of the one before.

    Rule:
        1. The length of a teacher's shares: the most common power of the root of 2, by noisy counts of teachers.
           Teachers without any label are not counted, nor are lengths that are too short for a label of one record.
        2. The mean of the shares, each clipped to that length; or of how they differ from 1/2, where that is shorter.
        3. The mean of what the shares exceed this estimate by, clipped. A long clip needs much noise, a short one
           biases the mean. The clip is the one that errs least for simulated teachers: their records draw labels
           independently, by an estimate that is one standard deviation of the noise away. Where no clip errs clearly
           less, the mean is again of how the shares differ from 1/2.

    The second estimate is the result; if the first one was around 1/2, which clips nothing, it is their mean, weighted
    by their errors. It is cut to [0.005, 0.995].

    Formal guarantee: one teacher's shares change two counts by 1 (one, under add/remove), a clipped sum by two clips
    (one). Each step is Gaussian noise on whole numbers, its clip a function of what was released: together one Gaussian
    event, 1 / noise_multiplier**2 being the sum of the steps'. Of a teacher of weight w (`ShareSums.weights`) all of it
    is at most w times as much. `records_per_teacher` is public. Source: Biswas et al. 2020 (CoinPress) for the steps;
    docs/proofs/centered_votes.md.

    Attributes:
        noise_multiplier: of all steps together, > 0.
        adjacency: as the aggregator's.
    """

    noise_multiplier: float = field(metadata=POSITIVE)
    adjacency: pa.Adjacency = pa.Adjacency.REPLACE_ONE

    @property
    def event(self) -> pa.GaussianEvent:
        """The price of all its questions."""
        return pa.GaussianEvent.composed(self._multipliers)

    def release(
        self,
        label_shares: Any,
        *,
        num_teachers: int,
        rng: Rng,
        ledger: pa.Ledger | None = None,
        records_per_teacher: float = 1.0,
        record: ReleaseRecord | None = None,
    ) -> Array:
        """The prevalence of each label, `[L]`.

        Label shares are numbers in [0, 1], `[N, L]`, each teacher's share of records with the label, or sums of them;
        N is declared: under add/remove there may be fewer rows. The number of records per teacher, about, is >= 1. The
        ledger is charged before anything is drawn, where there is no `record`, which else keeps, and pays for, each of
        the three draws before the next sum is asked for.
        """
        require_generator(rng)
        each = require_positive("records_per_teacher", records_per_teacher)
        require(each >= 1, "records_per_teacher", each, "a number >= 1")
        shares = (
            label_shares if isinstance(label_shares, ShareSums) else TeacherShares(label_shares)
        )
        found = shares.num_teachers
        fewer = (
            self.adjacency == pa.Adjacency.ADD_REMOVE
            and found < num_teachers
            and shares.weights is None
        )
        require(
            found == num_teachers or fewer,
            "num_teachers",
            num_teachers,
            f"{found}, the shares' rows",
        )
        # whatever the clips, as a grid is finer by less than 2
        steps = 2 * ClippedSum(1.0, (1, shares.num_labels), self.adjacency).l2_sensitivity
        most = LARGEST_STD / steps / max(self._multipliers) * self.noise_multiplier
        rule = f"at most {validation.rounded_down(most, 3)}"
        require(self.noise_multiplier <= most, "noise_multiplier", self.noise_multiplier, rule)
        if record is None and ledger is not None:
            require_ledger(ledger).charge(
                self.event, adjacency=self.adjacency, description=repr(self)
            )
        total = num_teachers if shares.weights is None else shares.total_weight
        done = record or MemoryRecord()
        length = self._length(shares, done, rng, records_per_teacher)
        half = np.full(shares.num_labels, _HALF)
        whole = float(np.linalg.norm(half))
        around_half = whole < length

        # and the std of its noise
        def mean(step: int, center: Array, clip: float) -> tuple[Array, float]:
            clipped = ClippedSum(clip, (1, shares.num_labels), self.adjacency)
            std = self._multipliers[step] * clipped.l2_sensitivity
            unit = clipped.step / total
            noise = RoundedGaussian(std).sample((1, shares.num_labels), rng)
            noisy = done.part(
                f"mean-{step}", lambda: {"noisy": shares.total(clipped, center) + noise}
            )["noisy"]
            return np.asarray(center + noisy[0] * unit), std * unit

        first, std = mean(1, half if around_half else np.zeros_like(half), min(length, whole))
        center, clip, error = self._closer(first.clip(0, 1), std, total, records_per_teacher)
        second, _ = mean(2, center, clip)
        if around_half:
            second += (first - second) * error / (error + std**2)
        return second.clip(_RAREST, 1 - _RAREST)

    @property
    def _multipliers(self) -> list[float]:
        return [self.noise_multiplier / math.sqrt(share) for share in _SPLIT]

    def _length(self, shares: ShareSums, done: ReleaseRecord, rng: Rng, records: float) -> float:
        """The most common length, rounded up to sqrt(L) over a power of the root of 2."""
        longest = math.sqrt(shares.num_labels)
        # of all teachers but those that are much too large
        likely = records if records == 1 else 2 * records
        shortest = math.ceil(2 * math.log2(longest * likely))
        # drawn also where the part is read back: a seeded run that is continued goes on with the same numbers
        std = math.sqrt(self.adjacency.num_moved) * self._multipliers[0] * shares.parts
        noise = RoundedGaussian(std).sample((NUM_LENGTHS,), rng)
        noisy = done.part("lengths", lambda: {"noisy": shares.lengths() + noise})["noisy"]
        return longest / 2 ** (int(np.argmax(noisy[: 1 + shortest])) / 2)

    def _closer(
        self, first: Array, std: float, total: float, records: float
    ) -> tuple[Array, float, float]:
        """The second center and clip, those of least simulated error, and that error squared."""
        # They are the first estimate and one of the clips down from the longest, or 1/2 and a clip that cuts nothing.
        # What shares of simulated teachers exceed the estimate by, `[2, T, L]`: with its error, and with the opposite
        # one. Nothing here is private: the estimate was released.
        rng = np.random.default_rng(0)
        num_labels = len(first)
        num_teachers = min(_SIMULATED, max(_SIMULATED_SHARES // num_labels, 1))
        least = min(std, 0.5)  # of an estimate that noise may have cut to 0
        likely = first.clip(least, 1 - least)
        num_records = min(round(records), _MOST_RECORDS)
        shares = rng.binomial(num_records, likely, (num_teachers, num_labels)) / num_records
        of_noise = std * rng.choice([-1.0, 1.0], num_labels)
        rests = shares - likely + np.stack([of_noise, -of_noise])[:, None]
        norms = np.maximum(np.linalg.norm(rests, axis=2), np.finfo(np.float64).tiny)
        clips = norms.max() / 2 ** (np.arange(2 * NUM_LENGTHS) / 4)
        cut = 1 - np.minimum(1, clips[:, None, None] / norms)
        biases = np.einsum("cst,stl->csl", cut, rests) / norms.shape[1]
        noise_of_one = self.adjacency.num_moved * self._multipliers[2] / total
        errors = (biases**2).mean(axis=(1, 2)) + (noise_of_one * clips) ** 2
        half = np.full_like(first, _HALF)
        whole = float(np.linalg.norm(half))
        if (noise_of_one * whole) ** 2 < _UNBIASED * errors.min():
            return half, whole, (noise_of_one * whole) ** 2
        return first, float(clips[np.argmin(errors)]), float(errors.min())


@dataclass(frozen=True, repr=False)
class RoundsRelease(Release):
    """What was released in rounds; all of it may be published."""

    scores: Array  # float64 `[Q, L]`, the student's probabilities
    # float64 `[D, L]`, its weights: logits on `PublicPCA.with_constant` of directions of the pool
    student: Array

    _FORMS: ClassVar[dict[str, ArrayForm]] = Release._FORMS | {
        "scores": ArrayForm("f", (None, None)),
        "student": ArrayForm("f", (None, None)),
    }

    def training_set(self, inputs: NDArray[np.float32]) -> TrainingSet:
        return replace(super().training_set(inputs), weights=self.student)


@dataclass(frozen=True, repr=False)
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
        values = self.scores - self.center
        prevalence = self.center.mean(axis=0)
        scores = NoisyScores(values, self.noise_std, prevalence, self.num_directions)
        return replace(super().training_set(inputs), scores=scores)


@dataclass(frozen=True, kw_only=True, eq=False)
class CenteredVotes(base.Aggregator):
    """Releases the mean of all teachers' votes, each minus the center and clipped over all Q x L entries together.

    Rule: r = votes - center; a teacher counts for min(1, clip / |r|) r with |r| the length over all queries and labels.
    The sum gets rounded Gaussian noise in every entry. Labels are the sums' low-rank part thresholded so that each
    label holds as often as the center says. Answers every query.

    Formal guarantees:
        * One teacher (of `ConvexTeacher` one group) replaced moves the sum by at most 2 clip in l2, one added or
          removed by at most clip, rounding included: one Gaussian event. The noise is a whole number of steps, drawn
          exactly.
        * A teacher of weight w moves everything at most w times as far: for it the same release costs what
          `scaled(1 / w)` does (docs/proofs/budgets.md).
        * The center is public, or released by `Prevalence` with `prevalence_share` of 1 / noise_multiplier**2; then the
          price is that of both, and the clip is a function of what was released.

    Votes are bits or finite floats of any range. Where the blocks of a stream are cut makes no difference.

    Attributes:
        noise_multiplier: noise std over sensitivity, of everything that is released, > 0.
        prevalence_share: in [0, 1); 0 where the center is public.
        center: public, `[Q, L]`, `[L]` or a number, None for 1/2; read with `prevalence_share` 0 only.
        clip: length in votes, or None for `clip_factor` times the length that bits drawn by the center have around it.
        clip_factor: how many times its usual length the clip is, > 0.
        rounds: for teachers that can be asked again, as kernel teachers can: how often, each time against the student
            of the rounds before, at the same price. None for 20, but 1 where `clip` is given, each query has a center
            of its own or there are fewer than 200; 1 for one matrix of votes, as of all other teachers.
        span: public, orthonormal `[Q, r]` where all votes are known to lie in it: sharper labels, the same scores.
        weights: public, `[N]` in [0, 1], what each teacher counts, for `aggregate`; of a source these are its own.

    In rounds a vote is features(x) (y - p(x))^T, a teacher's mean over its records (`MomentVotes`), p the student's
    probabilities; labels are scaled by (their variance)**(-1/4), so that rare ones are not lost beside common ones.
    Votes are clipped to `clip_factor` times half of the length that labels drawn by p would give on as many unrelated
    public inputs as a teacher has records. They are summed in whole steps, and get rounded Gaussian noise. Each round
    is a step of the student's `Descent`, which begins with the prevalence. Its clip and student are functions of what
    was released, its noise is sqrt(rounds) times as large: all cost one Gaussian event, charged with the first. A round
    is drawn once, around the sum that is there then, and is read back ever after. Source: docs/proofs/centered_votes.md
    and vote_rounds.md.

    >>> votes = np.array([[[0.9, 0.1]], [[0.8, 0.3]], [[0.7, 0.2]]])
    >>> aggregator = CenteredVotes(noise_multiplier=0.1, center=0.5, prevalence_share=0.0)
    >>> release = aggregator.aggregate(votes, num_teachers=3, rng=np.random.default_rng(0))
    >>> release.scores.round(2).tolist(), release.event
    ([[0.77, 0.15]], GaussianEvent(noise_multiplier=0.1))
    """

    reads: ClassVar[type[VoteSource]] = CenterableVotes
    queries_at_once: ClassVar[int | None] = None
    budgets_by: ClassVar[Literal["weights", "teachers"] | None] = "weights"
    # one Gaussian release pays for any number of queries and teachers
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
    span: Any = field(default=None, repr=False)
    weights: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        share = self.prevalence_share
        require(
            isinstance(share, (int, float)) and 0 <= share < 1,
            "prevalence_share",
            share,
            "a number in [0, 1)",
        )
        if self.weights is not None:
            weights = np.asarray(self.weights, dtype=np.float64)
            validation.require_entries(
                "weights", (weights >= 0) & (weights <= 1), "numbers in [0, 1]"
            )
            object.__setattr__(self, "weights", weights)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CenteredVotes) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def event(self, shape: VoteShape) -> pa.Event:
        """Returns one Gaussian event for prevalence and votes; the numbers of queries and labels do not count."""
        if shape.num_queries == 0:
            return pa.NoOpEvent()
        if self.prevalence_share == 0:
            return pa.GaussianEvent(self.noise_multiplier)
        return pa.GaussianEvent.composed(
            [self.prevalence.event.noise_multiplier, self.votes_multiplier]
        )

    @property
    def prevalence(self) -> Prevalence:
        """What releases the center, where there is a share for it."""
        multiplier = self.noise_multiplier / math.sqrt(
            require_positive("prevalence_share", self.prevalence_share)
        )
        return Prevalence(noise_multiplier=multiplier, adjacency=self.adjacency)

    @property
    def votes_multiplier(self) -> float:
        """noise_multiplier of the votes alone."""
        return self.noise_multiplier / math.sqrt(1 - self.prevalence_share)

    def centered_at(self, center: Any, **public: Any) -> CenteredVotes:
        """What releases the votes once the center is known, with a `span` and `weights`: the price of votes alone."""
        return replace(
            self,
            noise_multiplier=self.votes_multiplier,
            prevalence_share=0.0,
            center=center,
            **public,
        )

    def aggregate(
        self, votes: Any, *, num_teachers: int, rng: Rng, ledger: pa.Ledger | None = None
    ) -> CenteredRelease:
        """See `Aggregator.aggregate`; with a `prevalence_share` votes are an array in [0, 1], which is read twice.

        The prevalence is then that of the votes themselves: each teacher's mean over the queries. Where it is that of
        the teachers' records, or votes depend on it, call `prevalence.release` and `centered_at`.
        """
        require_generator(rng)
        if self.prevalence_share > 0:
            rule = "an array [num_teachers, num_queries, num_labels], read twice; or prevalence_share=0"
            require(is_whole(votes), "votes", type(votes).__name__, rule)
            # all of it is checked before its first reading is charged
            blocks = vote_blocks(votes, num_teachers=num_teachers, adjacency=self.adjacency)
            deque(blocks, maxlen=0)
        source = VoteBlocks(votes, num_teachers=num_teachers, weights=self.weights)
        warn_if_useless(self, source.shape)
        record = self._memory_record(source.shape, ledger)
        return self._release_at_once(source, record, prevalence_rng=rng, votes_rng=rng)

    def release(self, votes: VoteSource, rng: Rng, record: ReleaseRecord) -> Release:
        """See `Aggregator.release`; the prevalence is that of the teachers' records.

        Its three draws are the parts `lengths`, `mean-1` and `mean-2`, its result is `prevalence`. In rounds, each is a
        part `step-N`. `release` is the last part; one charge covers all of them.
        """
        require_generator(rng)
        prevalence_rng, votes_rng = rng.spawn(2)
        rounds = self._in_rounds(votes)
        if rounds is None:
            return self._release_at_once(
                votes, record, prevalence_rng=prevalence_rng, votes_rng=votes_rng
            )
        event = self.event(votes.shape)
        center = self._released_center(votes, prevalence_rng, record)

        def draw() -> Arrays:
            release = self._by_rounds(
                rounds, center, num_queries=votes.num_queries, rng=votes_rng, record=record
            )
            return release.arrays()

        arrays = record.part("release", draw)
        return RoundsRelease.of_arrays(arrays, event=event, adjacency=self.adjacency)

    def _release_at_once(
        self,
        votes: VoteSource,
        record: ReleaseRecord,
        *,
        prevalence_rng: Rng,
        votes_rng: Rng,
    ) -> CenteredRelease:
        """Releases the prevalence, where there is a share for it, and then all votes around it in one part."""
        shape = votes.shape
        event = self.event(shape)
        # before the prevalence is paid for
        most = ClippedSum.most_queries(shape.num_teachers, shape.num_labels)
        rule = f"at most {most}, as one exact sum of {shape.num_teachers:,} teachers holds no more"
        require(shape.num_queries <= most, "num_queries", shape.num_queries, rule)
        center = self._released_center(votes, prevalence_rng, record)
        step = self._step_around(center, votes)
        arrays = record.committed("release")
        if arrays is None:
            summary = self._summary_around(center, votes)  # teachers may fail
            std = step.noise_multiplier * step._clipped_sum(summary.shape).l2_sensitivity

            def draw() -> Arrays:
                noise = RoundedGaussian(std).sample(summary.shape, votes_rng)
                return step._released(summary + noise, std, event, shape.num_teachers).arrays()

            arrays = record.part("release", draw)
        num_directions = None if step.span is None else step.span.shape[1]
        return CenteredRelease.of_arrays(
            arrays, event=event, adjacency=self.adjacency, num_directions=num_directions
        )

    def _released_center(self, votes: VoteSource, rng: Rng, record: ReleaseRecord) -> Any:
        """Returns the center: public, or the prevalence, which is released once."""
        if self.prevalence_share == 0:
            return self.center

        def draw() -> Arrays:
            prevalence = self.prevalence.release(
                votes.share_sums(),
                num_teachers=votes.num_teachers,
                rng=rng,
                record=record,
                records_per_teacher=votes.records_per_teacher,
            )
            return {"prevalence": prevalence}

        return record.part("prevalence", draw)["prevalence"]

    def noiseless_from(self, source: VoteSource, record: ReleaseRecord) -> Release:
        """See `Aggregator.noiseless_from`: around the center that was released."""
        released = record.committed("prevalence")
        center = self.center if released is None else released["prevalence"]
        rounds = self._in_rounds(source)
        if rounds is not None:
            return self._by_rounds(rounds, center, num_queries=source.num_queries)
        step = self._step_around(center, source)
        summary = self._summary_around(center, source)
        return step._released(summary, 0.0, pa.NonPrivateEvent(), source.num_teachers)

    def check_run(self) -> None:
        """Raises under add/remove, where the number of private groups, which a run goes by, would not be public."""
        rule = "replace_one: a run with centered_votes uses the number of private groups, which add_remove would reveal"
        require(self.adjacency is pa.Adjacency.REPLACE_ONE, "adjacency", self.adjacency, rule)

    def require_source(self, votes: VoteSource) -> None:
        """See `Aggregator.require_source`: rounds need teachers that can be asked again, a prevalence their shares."""
        is_in_rounds = self._in_rounds(votes) is not None
        if self.prevalence_share > 0:
            votes.share_sums()
        if not is_in_rounds:
            deque(votes.confidences(), maxlen=0)

    def _step_around(self, center: Any, votes: VoteSource) -> CenteredVotes:
        """Returns what releases the votes around a center, at the price of the votes alone."""
        span = votes.span(noise_multiplier=self.votes_multiplier)
        return self.centered_at(
            center, span=self.span if span is None else span, weights=votes.weights
        )

    def _summary_around(self, center: Any, votes: VoteSource) -> NDArray[np.int64]:
        """Returns the sum that is released around a center; teachers are asked for it once."""
        step = self._step_around(center, votes)
        key = ("summary", self._text, step._center_as_given.tobytes())
        return np.asarray(votes.remembered(key, lambda: step.summarize(votes)))

    @property
    def num_rounds(self) -> int:
        """How often teachers are asked, where they can be asked again."""
        return self.rounds or _ROUNDS

    def _in_rounds(self, source: VoteSource) -> RoundVotes | None:
        """The votes in rounds, where they are cast so."""
        once = self.rounds == 1 or (self.rounds is None and source.num_teachers < _FEWEST_IN_ROUNDS)
        if isinstance(source, GroupVotes):
            require(
                self.clip is None,
                "clip",
                self.clip,
                "no clip, but a clip_factor, for votes in rounds",
            )
            require(
                np.ndim(self.center) < 2,
                "center.ndim",
                np.ndim(self.center),
                "0 or 1 for votes in rounds",
            )
        elif once or self.clip is not None or np.ndim(self.center) > 1:
            return None
        factor = self.clip_factor
        rule = f"at least {_LEAST_FACTOR:g} for votes in rounds"
        require(factor >= _LEAST_FACTOR, "clip_factor", factor, rule)
        rule = f"at most {_MOST_LABELS} in rounds, or aggregator.rounds=1"
        require(source.num_labels <= _MOST_LABELS, "num_labels", source.num_labels, rule)
        finest = ClippedMoments(
            math.nextafter(2.0, 0.0), source.num_teachers, self.adjacency
        ).l2_sensitivity
        most = LARGEST_STD / finest / math.sqrt(self.num_rounds)
        said = f"{validation.rounded_down(most)} in {self.num_rounds} rounds"
        rule = f"at most {said}: a larger epsilon, or aggregator.rounds=1"
        require(self.votes_multiplier <= most, "noise_multiplier", self.votes_multiplier, rule)
        return source.in_rounds(noise_multiplier=self.votes_multiplier)

    def _by_rounds(
        self,
        votes: RoundVotes,
        center: Any,
        *,
        num_queries: int,
        rng: Rng | None = None,
        record: ReleaseRecord | None = None,
    ) -> RoundsRelease:
        """Returns what all rounds release, beginning with the prevalence of each label; no generator means no noise."""
        known = np.asarray(_HALF if center is None else center, dtype=np.float64)
        shares = known.clip(_SMALLEST_SHARE, 1 - _SMALLEST_SHARE)
        prevalence = np.broadcast_to(shares, votes.num_labels).copy()
        variance = 0.0
        if self.prevalence_share > 0:  # about, if the last clip is the length that such labels have
            likely = float((prevalence * (1 - prevalence)).sum())
            length2 = likely / max(votes.records_per_teacher, 1.0)
            noise_of_one = (
                self.adjacency.num_moved * self.prevalence._multipliers[2] / votes.total_weight
            )
            variance = length2 * noise_of_one**2
        weights = self._student(votes, prevalence, rng=rng, record=record, variance=variance)
        # labels are those from the probability on that has the best expected micro-F1 on the pool, queries first
        probabilities = np.asarray(expit(votes.public @ weights), dtype=np.float64)
        scores = probabilities[:num_queries]
        labels = scores >= expected_f1_threshold(probabilities)
        return RoundsRelease(
            labels=labels,
            answered=np.ones(len(scores), dtype=np.bool_),
            event=pa.NonPrivateEvent(),
            adjacency=self.adjacency,
            scores=scores,
            student=weights,
        )

    def _student(
        self,
        votes: RoundVotes,
        prevalence: Array,
        *,
        rng: Rng | None = None,
        record: ReleaseRecord | None = None,
        variance: float = 0.0,
    ) -> Array:
        """Returns its weights `[D, L]`, given a prevalence `[L]`, public or released, and the variance of its noise.

        A round that the record has committed is read back: a run that was killed goes on with the next one. Who calls
        it has paid for all rounds, or pays with the first. Without a generator there is no noise, and no epsilon covers
        the student.
        """
        rounds = MemoryRecord() if record is None else record
        own = prevalence * (1 - prevalence)
        factor = _CLIP * self.clip_factor
        num_rounds = self.num_rounds
        descent = Descent(
            votes.public, votes.variances, prevalence, clip_factor=factor, num_steps=num_rounds
        )
        weights = descent.start()
        seen = np.zeros_like(prevalence)
        scale = (own / own.mean()) ** -0.25
        for number in range(num_rounds):
            probabilities = descent.probabilities(weights)
            # a round's clip and the scale of each label are functions of what is public or was released
            left = (probabilities * (1 - probabilities)).mean(axis=0, dtype=np.float64)
            left = np.maximum(left, _LEAST_LEFT * own)  # of a student that is sure of everything
            likely = math.sqrt(float((left * scale**2).sum()) / max(votes.records_per_teacher, 1.0))
            clipped = ClippedMoments(factor * likely, votes.num_teachers, self.adjacency)
            ask = partial(votes.total, weights, scale, clipped)
            if rng is None:
                std = 0.0
                total = ask()
            else:
                std = self.votes_multiplier * math.sqrt(num_rounds) * clipped.l2_sensitivity
                # drawn also where the round is read back: a seeded run that is continued goes on with the same numbers
                noise = RoundedGaussian(std).sample((votes.width, votes.num_labels), rng)
                draw = partial(_noisy_total, ask, noise)
                total = rounds.part(f"step-{number}", draw)["total"]
            unit = clipped.step / votes.total_weight / scale
            rate = (std * unit) ** 2 / num_rounds
            if number == 0:
                pace = descent.pace(rate)
            gradient = total * unit
            seen += descent.prevalence_seen(probabilities, gradient) / num_rounds
            weights = descent.moved(weights, gradient, pace)
        return descent.finished(weights, pace, rate, descent.prevalence_with(variance, seen, rate))

    def summarize(self, votes: VoteSource) -> NDArray[np.int64]:
        """Returns the sum of clipped votes minus the center, `[Q, L]`, in steps of the grid; the center is public."""
        share = self.prevalence_share
        require(share == 0, "prevalence_share", share, "0 once the center is known")
        shape = (votes.num_queries, votes.num_labels)
        blocks = votes.votes_around(self._center_as_given, noise_multiplier=self.votes_multiplier)
        return self._clipped_sum(shape).total(
            blocks,
            center=self._center(shape),
            num_teachers=votes.num_teachers,
            weights=self.weights,
        )

    def draw(self, summary: NDArray[np.int64], shape: VoteShape, rng: Rng) -> Answers:
        """Draws labels around a public center; `release` has the scores that they come from, too."""
        std = self.noise_multiplier * self._clipped_sum(summary.shape).l2_sensitivity
        noise = RoundedGaussian(std).sample(summary.shape, rng)
        event = self.event(shape)
        return Answers.to_all(
            self._released(summary + noise, std, event, shape.num_teachers).labels
        )

    def _released(
        self, total: NDArray[np.int64], std: float, event: pa.Event, num_teachers: int
    ) -> CenteredRelease:
        """The release of a sum in steps that carries noise of that std."""
        each = num_teachers if self.weights is None else float(self.weights.sum())
        unit = self._clipped_sum(total.shape).step / each
        center = self._center(total.shape)
        span = self.span
        residual = np.asarray(total * unit, dtype=np.float64)
        if span is None:
            scores = shrink_singular_values(residual, noise_std=std * unit) + center
        else:
            scores = span @ shrink_singular_values(span.T @ residual, noise_std=std * unit) + center
        # of each label as many of the highest scores as the center expects; among equals the residual decides
        expected = np.rint(center.clip(0, 1).sum(axis=0)).astype(np.int64)
        labels = np.zeros(scores.shape, dtype=np.bool_)
        answered = np.ones(len(scores), dtype=np.bool_)
        chosen = np.arange(len(scores))[:, None] < expected
        np.put_along_axis(labels, np.lexsort((-residual, -scores), axis=0), chosen, axis=0)
        width = None if span is None else span.shape[1]
        return CenteredRelease(
            labels, answered, event, self.adjacency, center + residual, std * unit, center, width
        )

    @property
    def _text(self) -> str:
        return self.identity(num_labels=1, num_teachers=1)

    @property
    def _center_as_given(self) -> Array:
        """The center of any shape that was given; 1/2 without one."""
        return np.asarray(_HALF if self.center is None else self.center, dtype=np.float64)

    def _center(self, shape: tuple[int, ...]) -> Array:
        center = self._center_as_given
        try:
            return np.broadcast_to(center, shape).copy()
        except ValueError as error:
            rule = f"{shape}, its last axis, or a number"
            raise validation.InvalidValue("center.shape", center.shape, rule=rule) from error

    def _clipped_sum(self, shape: tuple[int, ...]) -> ClippedSum:
        """Where no clip is given, it is `clip_factor` sqrt(sum c (1 - c)): a function of the center."""
        clip = self.clip
        if clip is None:
            share = self._center(shape).clip(_SMALLEST_SHARE, 1 - _SMALLEST_SHARE)
            clip = self.clip_factor * math.sqrt(float((share * (1 - share)).sum()))
        return ClippedSum(clip, (shape[0], shape[1]), self.adjacency)


def _noisy_total(ask: Callable[[], NDArray[np.int64]], noise: NDArray[np.int64]) -> Arrays:
    """Returns the part of a round: the sum that teachers are asked for, with its noise."""
    return {"total": ask() + noise}


@expected_from_votes.register(CenteredVotes)
def _expected_from_centered_votes(
    aggregator: CenteredVotes, votes: MadeUpVotes, num_queries: int
) -> ExpectedRelease:
    """Returns the expectation of the scores as a student reads them.

    A student with up to 128 directions averages the noise of Q / 128 queries. A bit is right if the noise left is below
    half of the distance between scores of present and absent labels.
    """
    share = votes.counts() / votes.num_teachers
    apart = float(share[votes.labels].mean() - share[~votes.labels].mean())
    likely = float(votes.labels.mean())
    length = math.sqrt(num_queries * votes.num_labels * likely * (1 - likely))
    clip = aggregator.clip or aggregator.clip_factor * length
    clips_moved = aggregator.adjacency.num_moved * clip
    noise_of_one = clips_moved * aggregator.votes_multiplier / votes.num_teachers
    noise = noise_of_one * math.sqrt(min(_DIRECTIONS / num_queries, 1.0))
    right = float(few_ndtr(min(1.0, clip / length) * apart / 2 / noise))
    return ExpectedRelease(answered=1.0, present=right, absent=right)
