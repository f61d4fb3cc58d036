"""Plain PATE on many labels: each noisy count against a threshold; also with a clip, or with noise of many holders."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from pate.accounting import (
    Adjacency,
    ApproximateEvent,
    Event,
    GaussianEvent,
    OneBitEvent,
    SelfComposedEvent,
    ThresholdEvent,
    ZCdpEvent,
)
from pate.accounting.data_dependent import DataDependentCost, one_bit_cost
from pate.accounting.events import BitEvent
from pate.accounting.special import few_ndtr
from pate.aggregators.aggregator import (
    Arrays,
    Bits,
    ExpectedRelease,
    InputForm,
    PerQueryAggregator,
    ReleaseContext,
    TeacherVotesAggregator,
    require_shape,
)
from pate.aggregators.release import Release
from pate.mechanisms.noise.noisy_order import are_normally_above
from pate.mechanisms.noise.whole_numbers import NoiseShares
from pate.mechanisms.parameters import COUNT, NOISE, PROBABILITY, one_of
from pate.validation import InvalidValue, require, require_array, require_count, require_histogram
from pate.votes.clipping import Block, bits_of, limited, vote_blocks
from pate.votes.source import MadeUpVotes, NoisySum, VoteSource

Integers = NDArray[np.int64]


def squared_sensitivity(max_votes: int, *, num_labels: int, adjacency: Adjacency) -> int:
    """The squared l2 distance by which one change moves the counts, where no teacher votes for over `max_votes` labels.

    Replace-one trades up to `max_votes` votes for as many others; add/remove takes or gives up to `max_votes`.
    """
    return min(2 * max_votes if adjacency is Adjacency.REPLACE_ONE else max_votes, num_labels)


_FARTHEST = 9.0  # noise stds: a count beyond is moved there, where an outcome differs with probability 1e-19


def _window(noise_std: float, threshold: float, num_teachers: int) -> tuple[int, int]:
    """The least and the largest count that are told apart."""
    low, high = (threshold + side * _FARTHEST * noise_std for side in (-1, 1))
    low, high = min(low, math.ceil(threshold) - 1), max(high, math.floor(threshold) + 1)  # noise too little to be added
    return math.floor(max(low, 0.0)), math.ceil(min(high, num_teachers))


def threshold_event(noise_std: float, threshold_share: float, num_teachers: int) -> ThresholdEvent:
    """The price of saying whether a count that moves by at most 1, with noise, reaches a share of the teachers."""
    threshold = threshold_share * require_count("num_teachers", num_teachers)
    low, high = _window(noise_std, threshold, num_teachers)
    return ThresholdEvent(noise_std, low - threshold, high - low + 1)


def threshold_cost(
    counts: Integers, noise_std: float, threshold_share: float, *, num_teachers: int, orders: object
) -> DataDependentCost:
    """What it cost on these counts, `[Q]` or `[Q, n]`, to say whether each reaches a share of the teachers."""
    low, high = _window(noise_std, threshold_share * num_teachers, num_teachers)
    event = threshold_event(noise_std, threshold_share, num_teachers)
    return one_bit_cost(np.clip(counts, low, high) - low, event=event, orders=orders)


def reach_threshold(
    counts: Integers, noise_std: float, threshold_share: float, *, num_teachers: int, rng: np.random.Generator
) -> Bits:
    """Whether count + N(0, noise_std**2) reaches a share of the teachers, elementwise and exactly: `[Q, n]`."""
    # Counts are moved into the window before there is noise. That moves no count farther from its neighbor's, so the
    # price needs the window alone, however many teachers there are.
    threshold = threshold_share * num_teachers
    return are_normally_above(counts, threshold, noise_std, rng, within=_window(noise_std, threshold, num_teachers))


def _expected_bits(votes: MadeUpVotes, threshold_share: float, noise_std: float) -> ExpectedRelease:
    """In closed form, of Gaussian noise."""
    counts, places = np.unique(votes.counts(), return_inverse=True)
    above = few_ndtr((counts - threshold_share * votes.num_teachers) / noise_std)[places.reshape(votes.labels.shape)]
    return ExpectedRelease(1.0, float(above[votes.labels].mean()), float(1 - above[~votes.labels].mean()))


@dataclass(frozen=True, kw_only=True)
class GaussianVotes(PerQueryAggregator):
    """Releases, for each label, whether count + N(0, noise_std**2) > num_teachers / 2. Answers every query.

    Formal guarantees:
        * All L counts of a query can move at once, each by at most 1, so as a vector release it is a Gaussian with
          l2 sensitivity sqrt(L), under either adjacency: L a / (2 noise_std**2) at order a.
        * Only the signs are released and the noises are independent, so the price charged is that of L bits per
          query: 0.637 of the vector's where noise_std is large.
        * Under add/remove the threshold stays at the declared num_teachers / 2.
        * Where one change reaches d teachers, each count moves by at most d, and so does the statistic of each bit.

    Attributes:
        noise_std: standard deviation in votes, > 0.
        teachers_reached: d, by one change; more than 1 where groups are with several teachers.

    Source: Papernot et al. 2018 for one label; docs/proofs/gaussian_votes.md.

    >>> votes = np.array([[90, 3, 60]])
    >>> GaussianVotes(noise_std=2.0).aggregate(votes, num_teachers=100, rng=np.random.default_rng(0)).labels
    array([[ True, False,  True]])
    """

    budgets_by: ClassVar[Literal["weights", "teachers"] | None] = "teachers"

    noise_std: float = field(metadata=NOISE)
    teachers_reached: int = field(default=1, metadata=COUNT)

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        require_shape(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)
        bit: BitEvent = threshold_event(self.noise_std, 0.5, num_teachers)
        if self.teachers_reached > 1:
            bit = OneBitEvent(tuple(bit.log_odds.tolist()), reach=self.teachers_reached)
        return SelfComposedEvent(bit, num_queries * num_labels)

    def cost_on(
        self, votes: Integers, *, num_teachers: int, orders: object, answered: Bits | None = None
    ) -> DataDependentCost | None:
        if self.teachers_reached > 1:
            return None
        return threshold_cost(votes, self.noise_std, 0.5, num_teachers=num_teachers, orders=orders)

    def _expected(self, votes: MadeUpVotes, num_queries: int) -> ExpectedRelease:
        return _expected_bits(votes, 0.5, self.noise_std)

    def _draw(self, votes: Integers, *, num_teachers: int, rng: np.random.Generator) -> tuple[Bits, Bits]:
        labels = reach_threshold(votes, self.noise_std, 0.5, num_teachers=num_teachers, rng=rng)
        return labels, np.ones(len(votes), dtype=np.bool_)


_GRID = 2.0**32
_MOST_TEACHERS = 2**20  # sums of multiples of 1 / _GRID below it take 52 bits


@dataclass(frozen=True, kw_only=True)
class ClippedVotes(TeacherVotesAggregator):
    """Releases, for each label, whether clipped count + N(0, noise_std**2) > threshold_share * num_teachers.

    With norm l1 a teacher keeps at most `vote_clip` of its votes on a query: the most confident ones, and among equals
    those that come first in an order of labels that depends on the query's number alone. With norm l2 its n votes
    weigh min(1, sqrt(vote_clip / n)) each, so that their vector has length at most sqrt(vote_clip). Answers every
    query.

    Formal guarantees:
        * One change moves the counts of a query by at most sqrt(min(2 vote_clip, L)) in l2 under replace-one and
          sqrt(min(vote_clip, L)) under add/remove, with either norm.
        * l1: that many counts (without the root) move by 1 and the others stay, so a query costs that many bits.
        * l2: every count may move a little; a query costs what the noisy counts cost.
        * Under add/remove the threshold stays at its share of the declared num_teachers.

    Attributes:
        noise_std: standard deviation in votes, > 0.
        vote_clip: tau, the most votes that a teacher's votes on a query count for, >= 1 and public.
        norm: l1 or l2.
        threshold_share: in (0, 1), public.

    Source: Zhu et al. 2020 and Dziedzic et al. 2022 for the clipping; docs/proofs/clipped_votes.md.

    >>> votes = np.array([[[True, True, False]], [[True, False, False]], [[True, True, True]]])
    >>> aggregator = ClippedVotes(noise_std=0.1, vote_clip=1)
    >>> aggregator.gather(votes, num_teachers=3)
    array([[3, 0, 0]])
    >>> aggregator.aggregate(votes, num_teachers=3, rng=np.random.default_rng(0)).labels
    array([[ True, False, False]])
    """

    input_form: ClassVar[InputForm] = "confidences"

    noise_std: float = field(metadata=NOISE)
    vote_clip: int = field(metadata=COUNT)
    norm: str = field(default="l1", metadata=one_of(("l1", "l2")) | {"public": True})
    threshold_share: float = field(default=0.5, metadata=PROBABILITY)

    @property
    def max_labels(self) -> int:
        return self.vote_clip

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        require_shape(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)
        moved = squared_sensitivity(self.vote_clip, num_labels=num_labels, adjacency=self.adjacency)
        if self.norm == "l1":
            bit = threshold_event(self.noise_std, self.threshold_share, num_teachers)
            return SelfComposedEvent(bit, num_queries * moved)
        return SelfComposedEvent(GaussianEvent(self.noise_std / moved**0.5), num_queries)

    def gather(self, votes: Any, *, num_teachers: int) -> NDArray[Any]:
        """The clipped counts, `[Q, L]`: int64 with l1, and with l2 multiples of 2**-32 as float64."""
        rule = f"at most {_MOST_TEACHERS}: above it sums of weights are not exact"
        require(self.norm == "l1" or num_teachers <= _MOST_TEACHERS, "num_teachers", num_teachers, rule)
        blocks = vote_blocks(votes, num_teachers=num_teachers, adjacency=self.adjacency)
        if self.norm == "l2":
            return np.asarray(sum(map(self._weighed, blocks)))
        return np.asarray(sum(limited(block, self.vote_clip).sum(axis=0, dtype=np.int64) for block in blocks))

    def _expected(self, votes: MadeUpVotes, num_queries: int) -> ExpectedRelease:
        """From the counts: nobody names more labels than `vote_clip`, so nothing is clipped."""
        return self._expected_of(votes.counts(), votes)

    def _weighed(self, block: Block) -> NDArray[np.float64]:
        """Weights are rounded down to a grid: their sums are exact, and the length is never exceeded."""
        bits = bits_of(block)
        sizes = np.maximum(np.arange(bits.shape[2] + 1), self.vote_clip)
        weights = np.floor(np.sqrt(self.vote_clip / sizes) * _GRID * (1 - 2.0**-50)) / _GRID
        weights[: self.vote_clip + 1] = 1.0
        return np.asarray(np.einsum("cq,cql->ql", weights[np.count_nonzero(bits, axis=-1)], bits))

    def _release(self, summary: NDArray[Any], event: Event, *, num_teachers: int, rng: np.random.Generator) -> Release:
        if self.norm == "l1":
            labels = reach_threshold(summary, self.noise_std, self.threshold_share, num_teachers=num_teachers, rng=rng)
        else:  # noisy counts, which cost the same whatever is asked of them
            labels = are_normally_above(summary, self.threshold_share * num_teachers, self.noise_std, rng)
        return Release(labels, np.ones(len(labels), dtype=np.bool_), event, self.adjacency)


_UP = 1 + 2.0**-46  # relative: far above the rounding error of a few operations


@dataclass(frozen=True, kw_only=True)
class DistributedVotes(PerQueryAggregator):
    """Releases, for each label, whether count + noise > threshold_share * num_teachers; holders draw the noise.

    Every holder adds a share of discrete Gaussian noise to the counts of its own teachers (`contribution`). Secure
    aggregation shows the server their sum alone, and `release_of` makes labels of it. `aggregate` does all of it in one
    place, with one draw of the same width: for plans, and to compare. Answers every query.

    Formal guarantees:
        * The price is that of all noisy counts, which the server sees: s**2 / (2 v) zCDP with s**2 = Q min(2 max_votes,
          L) under replace-one and Q min(max_votes, L) under add/remove, outside a failure of negligible probability.
        * v is the variance of `num_holders - max_dropouts - max_colluders` shares. So the price holds where that many
          holders drop out, and against a server to which that many others tell their shares.
        * A teacher of a holder that is absent counts as one that votes for nothing: under replace-one that is one of
          the votes that it may have cast. num_teachers and num_holders stay as they are declared.
        * Without secure aggregation the server sees each holder's counts with one share of the noise; no price here is
          for that.

    Attributes:
        noise_std: standard deviation in votes of the noise that is counted on, > 0; there is more of it where fewer
            drop out or collude.
        num_holders: how many draw a share, public.
        max_dropouts: how many of them may be absent.
        max_colluders: how many of the others may tell the server their share, or draw none.
        max_votes: the most labels of a query that a teacher votes for; None for all.
        threshold_share: in (0, 1), public.

    Source: Kairouz, Liu & Steinke 2021; docs/proofs/distributed_noise.md.

    >>> aggregator = DistributedVotes(noise_std=2.0, num_holders=2)
    >>> parts = [aggregator.contribution([[40, 1, 20]], num_teachers=50, rng=np.random.default_rng(i)) for i in (0, 1)]
    >>> aggregator.release_of(sum(parts), num_teachers=100, num_contributions=2).labels
    array([[ True, False, False]])
    """

    noise_std: float = field(metadata=NOISE)
    num_holders: int
    max_dropouts: int = 0
    max_colluders: int = 0
    max_votes: int | None = field(default=None, metadata=COUNT)
    threshold_share: float = field(default=0.5, metadata=PROBABILITY)

    @property
    def max_votes_per_teacher(self) -> int | None:
        return self.max_votes

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.shares

    @cached_property
    def shares(self) -> NoiseShares:
        return self.part(NoiseShares)

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        require_shape(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)
        moved = squared_sensitivity(self.max_votes or num_labels, num_labels=num_labels, adjacency=self.adjacency)
        price = ZCdpEvent(num_queries * moved / (2 * self.shares.variance) * _UP)
        failure_prob = self.shares.failure_prob(num_queries * num_labels)
        return ApproximateEvent(price, failure_prob) if failure_prob else price

    def contribution(self, counts: Any, *, num_teachers: int, rng: np.random.Generator) -> Integers:
        """What one holder sends: the counts of its own teachers in steps, each with a share of the noise, `[Q, L]`.

        Where there is `max_votes` they are from `counts_for`. The generator is the holder's own, from
        `secret_generator()`; whoever else knows it is a colluder.

        Raises:
            InvalidValue: counts that these teachers cannot have cast.
        """
        own = require_histogram("counts", counts, num_teachers=require_count("num_teachers", num_teachers), rank=2)
        cast = own.sum(axis=1, dtype=np.int64) <= (self.max_votes or own.shape[1]) * num_teachers
        rule = f"counts of teachers that vote for at most max_votes={self.max_votes} labels of a query"
        require(bool(cast.all()), "counts", "some query", rule)
        return own.astype(np.int64) * self.shares.steps + self.shares.share.sample(own.shape, rng)

    def release_of(self, total: Any, *, num_teachers: int, num_contributions: int) -> Release:
        """Labels of the sum of contributions, whole numbers `[Q, L]`, which was paid for before it was made.

        `num_teachers` are those of all holders, absent ones included.

        Raises:
            InvalidValue: fewer contributions than the price counts on, or more than there are holders.
        """
        least = self.num_holders - self.max_dropouts
        rule = f"{least} to {self.num_holders}, as num_holders and max_dropouts say"
        require(least <= num_contributions <= self.num_holders, "num_contributions", num_contributions, rule)
        noisy = require_array("total", total, kinds="iu")
        if noisy.ndim != 2:
            raise InvalidValue(f"total.shape={noisy.shape}: expected [Q, L]")
        event = self.event_for(num_queries=len(noisy), num_labels=noisy.shape[1], num_teachers=num_teachers)
        labels = self._above(noisy.astype(np.int64), num_teachers)
        return Release(labels, np.ones(len(labels), dtype=np.bool_), event, self.adjacency)

    def require_source(self, source: VoteSource) -> None:
        if not isinstance(source, NoisySum):
            super().require_source(source)  # a sum that is still to be made is not asked for before it is paid

    def release_from(self, source: VoteSource, context: ReleaseContext) -> Release:
        """A sum that holders make is asked for once the ledger was charged."""
        if not isinstance(source, NoisySum):
            return super().release_from(source, context)
        drawn = self._drawn(source, context)
        drawn.once("asked", dict)  # what holders send is the release: it is paid for before they are asked

        def answered() -> Arrays:
            total, present = source.total()
            return {"total": np.asarray(total), "present": np.array(present)}

        found = drawn.once("total", answered)
        present = int(found["present"])
        return self.release_of(found["total"], num_teachers=source.num_teachers, num_contributions=present)

    def _expected(self, votes: MadeUpVotes, num_queries: int) -> ExpectedRelease:
        """With the noise of all holders that may be present."""
        noise_std = (self.shares.variance * self.num_holders / self.shares.num_counted) ** 0.5
        return _expected_bits(votes, self.threshold_share, noise_std)

    def _draw(self, votes: Integers, *, num_teachers: int, rng: np.random.Generator) -> tuple[Bits, Bits]:
        noisy = votes * self.shares.steps + self.shares.drawn_together(votes.shape, rng)
        return self._above(noisy, num_teachers), np.ones(len(votes), dtype=np.bool_)

    def _above(self, noisy: Integers, num_teachers: int) -> Bits:
        return np.asarray(noisy > self.threshold_share * num_teachers * self.shares.steps)
