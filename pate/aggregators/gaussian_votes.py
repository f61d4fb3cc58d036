"""Gaussian noise on counts: each against a threshold, with a clip or noise of many holders; the largest; screened."""

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from pate import accounting as pa
from pate.accounting.data_dependent import DataDependentCost as Cost
from pate.accounting.data_dependent import gnmax_cost, one_bit_cost
from pate.accounting.events import BitEvent
from pate.accounting.special import few_ndtr
from pate.aggregators import aggregator as base
from pate.aggregators.aggregator import Bits, Rng
from pate.aggregators.expectation import (
    ExpectedRelease,
    expected_by_drawing,
    expected_from_summary,
    expected_from_votes,
)
from pate.aggregators.record import Arrays, ReleaseRecord
from pate.aggregators.release import Answers, Release
from pate.mechanisms.noise.real_numbers import (
    Values,
    are_normally_above,
    draw_largest,
    draw_noise,
    largest_noisy,
)
from pate.mechanisms.noise.uniforms import LazyUniforms, index_of
from pate.mechanisms.noise.whole_numbers import NoiseShares
from pate.mechanisms.parameters import COUNT, NOISE, POSITIVE, PROBABILITY, one_of
from pate.validation import require, require_array, require_count
from pate.votes.clipping import bits_of, limited
from pate.votes.shape import VoteShape
from pate.votes.source import MadeUpVotes, NoisySum, VoteSource

Counts = NDArray[np.int64]
Summary = NDArray[np.void]

# noise stds: a count beyond is moved there, where an outcome differs with probability 1e-19
_FARTHEST = 9.0
_GRID = 2.0**32
_MOST_TEACHERS = 2**20  # sums of multiples of 1 / _GRID below it take 52 bits
_SETS_AT_ONCE = 1 << 20
_UP = 1 + 2.0**-46  # relative: far above the rounding error of a few operations


def squared_sensitivity(max_votes: int, *, num_labels: int, adjacency: pa.Adjacency) -> int:
    """The squared l2 distance by which one change moves counts, where no teacher votes for over `max_votes` labels."""
    # replace-one trades as many votes for others
    return min(adjacency.num_moved * max_votes, num_labels)


def _window(noise_std: float, threshold: float, num_teachers: int) -> tuple[int, int]:
    """The least and the largest count that are told apart."""
    low, high = (threshold + side * _FARTHEST * noise_std for side in (-1, 1))
    # noise too little to be added
    low = min(low, math.ceil(threshold) - 1)
    high = max(high, math.floor(threshold) + 1)
    return math.floor(max(low, 0.0)), math.ceil(min(high, num_teachers))


def threshold_event(
    noise_std: float, threshold_share: float, num_teachers: int
) -> pa.ThresholdEvent:
    """The price of saying whether a count that moves by at most 1, with noise, reaches a share of the teachers."""
    threshold = threshold_share * require_count("num_teachers", num_teachers)
    low, high = _window(noise_std, threshold, num_teachers)
    return pa.ThresholdEvent(noise_std, low - threshold, high - low + 1)


def threshold_cost(
    counts: Counts, noise_std: float, threshold_share: float, *, num_teachers: int, orders: object
) -> Cost:
    """What it cost on these counts, `[Q]` or `[Q, n]`, to say whether each reaches a share of the teachers."""
    low, high = _window(noise_std, threshold_share * num_teachers, num_teachers)
    event = threshold_event(noise_std, threshold_share, num_teachers)
    return one_bit_cost(np.clip(counts, low, high) - low, event=event, orders=orders)


def reach_threshold(
    counts: Counts, noise_std: float, threshold_share: float, *, num_teachers: int, rng: Rng
) -> Bits:
    """Whether count + N(0, noise_std**2) reaches a share of the teachers, elementwise and exactly: `[Q, n]`."""
    # Counts are moved into the window before there is noise. That moves no count farther from its neighbor's, so the
    # price needs the window alone, however many teachers there are.
    threshold = threshold_share * num_teachers
    return are_normally_above(
        counts, threshold, noise_std, rng, within=_window(noise_std, threshold, num_teachers)
    )


@dataclass(frozen=True, kw_only=True)
class GaussianVotes(base.Aggregator):
    """Releases, for each label, whether count + N(0, noise_std**2) > num_teachers / 2. Answers every query.

    Formal guarantees:
        * All L counts of a query can move at once, each by at most 1 (d, where one change reaches d teachers). Only
          signs are released, of independent noises: a query costs L bits, 0.637 of what the vector of counts would,
          L a / (2 noise_std**2) at order a, where noise_std is large.
        * Under add/remove the threshold stays at the declared num_teachers / 2.

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

    def event(self, shape: VoteShape) -> pa.Event:
        bit: BitEvent = threshold_event(self.noise_std, 0.5, shape.num_teachers)
        if self.teachers_reached > 1:
            bit = pa.OneBitEvent(tuple(bit.log_odds.tolist()), reach=self.teachers_reached)
        return pa.SelfComposedEvent(bit, shape.num_queries * shape.num_labels)

    def cost_on(
        self, votes: Counts, *, num_teachers: int, orders: object, answered: Bits | None = None
    ) -> Cost:
        if self.teachers_reached > 1:
            rule = "1: theorems on votes know a change that reaches one teacher"
            raise base.UnknownCost("teachers_reached", self.teachers_reached, rule=rule)
        return threshold_cost(votes, self.noise_std, 0.5, num_teachers=num_teachers, orders=orders)

    def draw(self, summary: Counts, shape: VoteShape, rng: Rng) -> Answers:
        """Draws, for each label, whether its count with noise exceeds half of the teachers."""
        labels = reach_threshold(
            summary, self.noise_std, 0.5, num_teachers=shape.num_teachers, rng=rng
        )
        return Answers.to_all(labels)


@dataclass(frozen=True, kw_only=True)
class ClippedVotes(base.Aggregator):
    """Releases, for each label, whether clipped count + N(0, noise_std**2) > threshold_share * num_teachers.

    With norm l1 a teacher keeps at most `vote_clip` of its votes on a query: the most confident ones, and among equals
    those that come first in an order of labels that depends on the query's number alone. With norm l2 its n votes weigh
    min(1, sqrt(vote_clip / n)) each: a vector of length at most sqrt(vote_clip). Answers every query. Source: Zhu et
    al. 2020 and Dziedzic et al. 2022 for the clipping; docs/proofs/clipped_votes.md.

    Formal guarantees:
        * l1: one change moves m = min(2 vote_clip, L) counts of a query by 1 under replace-one, min(vote_clip, L) under
          add/remove: a query costs m bits.
        * l2: it moves the counts by at most sqrt(m) in l2, each a little; a query costs what the noisy counts cost.
        * Under add/remove the threshold stays at its share of the declared num_teachers.

    Attributes:
        noise_std: standard deviation in votes, > 0.
        vote_clip: tau, the most votes that a teacher's votes on a query count for, >= 1 and public.
        norm: l1 or l2.
        threshold_share: in (0, 1), public.

    >>> from pate.votes.arrays import VoteBlocks
    >>> votes = np.array([[[True, True, False]], [[True, False, False]], [[True, True, True]]])
    >>> aggregator = ClippedVotes(noise_std=0.1, vote_clip=1)
    >>> aggregator.summarize(VoteBlocks(votes, num_teachers=3))
    array([[3, 0, 0]])
    >>> aggregator.aggregate(votes, num_teachers=3, rng=np.random.default_rng(0)).labels
    array([[ True, False, False]])
    """

    input_form: ClassVar[base.InputForm] = "confidences"
    queries_at_once: ClassVar[int | None] = None

    noise_std: float = field(metadata=NOISE)
    vote_clip: int = field(metadata=COUNT)
    norm: str = field(default="l1", metadata=one_of(("l1", "l2")) | {"public": True})
    threshold_share: float = field(default=0.5, metadata=PROBABILITY)

    @property
    def max_labels(self) -> int:
        """The most labels that an answer is made to name: `vote_clip`."""
        return self.vote_clip

    def event(self, shape: VoteShape) -> pa.Event:
        moved = squared_sensitivity(
            self.vote_clip, num_labels=shape.num_labels, adjacency=self.adjacency
        )
        if self.norm == "l1":
            bit = threshold_event(self.noise_std, self.threshold_share, shape.num_teachers)
            return pa.SelfComposedEvent(bit, shape.num_queries * moved)
        return pa.SelfComposedEvent(
            pa.GaussianEvent(self.noise_std / moved**0.5), shape.num_queries
        )

    def summarize(self, votes: VoteSource) -> NDArray[Any]:
        """Returns the clipped counts, `[Q, L]`: int64 with l1, and with l2 multiples of 2**-32 as float64."""
        is_exact = self.norm == "l1" or votes.num_teachers <= _MOST_TEACHERS
        rule = f"at most {_MOST_TEACHERS}: above it sums of weights are not exact"
        require(is_exact, "num_teachers", votes.num_teachers, rule)
        blocks = self.checked_blocks(votes)
        if self.norm == "l1":
            limited_blocks = (limited(block, self.vote_clip) for block in blocks)
            return np.asarray(sum(block.sum(axis=0, dtype=np.int64) for block in limited_blocks))
        return np.asarray(sum(self._weighed(bits_of(block)) for block in blocks))

    def _weighed(self, bits: Bits) -> NDArray[np.float64]:
        """Returns the sum `[Q, L]` of a block's bits `[c, Q, L]`, a teacher's scaled down to the length of the clip."""
        sizes = np.maximum(np.arange(bits.shape[2] + 1), self.vote_clip)
        # weights are rounded down to a grid: sums are exact, and the length is not exceeded
        weights = np.floor(np.sqrt(self.vote_clip / sizes) * _GRID * (1 - 2.0**-50)) / _GRID
        weights[: self.vote_clip + 1] = 1.0
        return np.asarray(np.einsum("cq,cql->ql", weights[np.count_nonzero(bits, axis=-1)], bits))

    def draw(self, summary: NDArray[Any], shape: VoteShape, rng: Rng) -> Answers:
        """Draws, for each label, whether its clipped count with noise exceeds the threshold."""
        if self.norm == "l1":
            labels = reach_threshold(
                summary,
                self.noise_std,
                self.threshold_share,
                num_teachers=shape.num_teachers,
                rng=rng,
            )
        else:  # noisy counts, which cost the same whatever is asked of them
            threshold = self.threshold_share * shape.num_teachers
            labels = are_normally_above(summary, threshold, self.noise_std, rng)
        return Answers.to_all(labels)


@dataclass(frozen=True, kw_only=True)
class DistributedVotes(base.Aggregator):
    """Releases, for each label, whether count + noise > threshold_share * num_teachers; holders draw the noise.

    Every holder adds a share of discrete Gaussian noise to the counts of its own teachers (`contribution`). Secure
    aggregation shows the server their sum alone, and `release_of` makes labels of it. `aggregate` does all of it in one
    place, with one draw of the same width: for plans, and to compare. Answers every query. Source: Kairouz, Liu &
    Steinke 2021; docs/proofs/distributed_noise.md.

    Formal guarantees:
        * The price is that of all noisy counts, which the server sees: s**2 / (2 v) zCDP with s**2 = Q min(2 max_votes,
          L) under replace-one and Q min(max_votes, L) under add/remove, outside a failure of negligible probability.
        * v is the variance of `num_holders - max_dropouts - max_colluders` shares: the price holds where so many
          holders drop out, and against a server to which so many others tell their shares. Without secure aggregation
          it sees each holder's counts with one share of the noise; no price here is for that.
        * A teacher of an absent holder counts as one that votes for nothing, which under replace-one it may have cast.
          num_teachers and num_holders stay as they are declared.

    Attributes:
        noise_std: of the noise that is counted on, in votes, > 0; there is more where fewer drop out or collude.
        num_holders: how many draw a share, public.
        max_dropouts: how many of them may be absent.
        max_colluders: how many of the others may tell the server their share, or draw none.
        max_votes: the most labels of a query that a teacher votes for; None for all.
        threshold_share: in (0, 1), public.

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

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.shares

    @property
    def max_votes_per_teacher(self) -> int | None:
        """The most labels of a query that the price lets one teacher vote for: `max_votes`."""
        return self.max_votes

    @cached_property
    def shares(self) -> NoiseShares:
        """The noise of each holder, and of those that are counted on."""
        return self.part(NoiseShares)

    def event(self, shape: VoteShape) -> pa.Event:
        max_votes = self.max_votes or shape.num_labels
        moved = squared_sensitivity(
            max_votes, num_labels=shape.num_labels, adjacency=self.adjacency
        )
        price = pa.ZCdpEvent(shape.num_queries * moved / (2 * self.shares.variance) * _UP)
        failure_prob = self.shares.failure_prob(shape.num_queries * shape.num_labels)
        return pa.ApproximateEvent(price, failure_prob) if failure_prob else price

    def contribution(self, counts: Any, *, num_teachers: int, rng: Rng) -> Counts:
        """What one holder sends: the counts of its own teachers in steps, each with a share of the noise, `[Q, L]`.

        Where there is `max_votes` they are from `counts_for`; counts that these teachers cannot have cast are refused.
        The generator is the holder's own, from `secret_generator()`; whoever else knows it is a colluder.
        """
        require_count("num_teachers", num_teachers)
        own = self.checked_counts(counts, num_teachers=num_teachers)
        return own.astype(np.int64) * self.shares.steps + self.shares.share.sample(own.shape, rng)

    def release_of(self, total: Any, *, num_teachers: int, num_contributions: int) -> Release:
        """Labels of the sum of contributions, whole numbers `[Q, L]`, which was paid for before it was made.

        `num_teachers` are those of all holders, absent ones included. Raises `InvalidValue` for fewer contributions
        than the price counts on, or more than there are holders.
        """
        least = self.num_holders - self.max_dropouts
        rule = f"{least} to {self.num_holders}, as num_holders and max_dropouts say"
        require(
            least <= num_contributions <= self.num_holders,
            "num_contributions",
            num_contributions,
            rule,
        )
        noisy = require_array("total", total, kinds="iu")
        require(noisy.ndim == 2, "total.shape", noisy.shape, "[Q, L]")
        event = self.event(VoteShape.from_counts(noisy, num_teachers=num_teachers))
        labels = np.asarray(noisy > self.threshold_share * num_teachers * self.shares.steps)
        return Release(labels, np.ones(len(labels), dtype=np.bool_), event, self.adjacency)

    def require_source(self, votes: VoteSource) -> None:
        """See `Aggregator.require_source`; a sum that holders have yet to make is not asked for before it is paid."""
        if not isinstance(votes, NoisySum):
            super().require_source(votes)

    def release(self, votes: VoteSource, rng: Rng, record: ReleaseRecord) -> Release:
        """See `Aggregator.release`; a sum that holders make is asked for once the ledger was charged."""
        if not isinstance(votes, NoisySum):
            return super().release(votes, rng, record)
        # what holders send is the release: it is paid for before they are asked
        record.part("asked", dict)

        def ask() -> Arrays:
            total, num_contributions = votes.total()
            return {"total": np.asarray(total), "present": np.array(num_contributions)}

        arrays = record.part("total", ask)
        return self.release_of(
            arrays["total"],
            num_teachers=votes.num_teachers,
            num_contributions=int(arrays["present"]),
        )

    def draw(self, summary: Counts, shape: VoteShape, rng: Rng) -> Answers:
        """Draws the noise of all holders together, and compares each count with the threshold."""
        noisy = summary * self.shares.steps + self.shares.drawn_together(summary.shape, rng)
        threshold = self.threshold_share * shape.num_teachers * self.shares.steps
        return Answers.to_all(np.asarray(noisy > threshold))


@dataclass(frozen=True, kw_only=True)
class GNMax(base.Aggregator):
    """Releases, for each query, the label whose count + N(0, noise_std**2) is largest. Answers every query.

    Formal guarantees:
        * Where no teacher votes for more than one label of a query, replace-one moves one count up and one down and
          add/remove moves one count. Only the winner is released: about 0.65 a / noise_std**2 at order a under
          replace-one and half of it under add/remove (`WinnerEvent`), 0.65 times what the noisy counts cost.
        * With `max_votes` labels per teacher, replace-one moves min(2 max_votes, L) counts by 1 and add/remove
          min(max_votes, L), and the price is that of the noisy counts: the number times a / (2 noise_std**2).
        * Counts do not say how many labels a teacher voted for: `counts_for` lets none have more than `max_votes`;
          whoever has counts alone promises it. Counts that no such teachers can have cast are refused.

    Attributes:
        noise_std: standard deviation in votes, > 0.
        max_votes: the most labels that one teacher votes for, >= 1 and public.

    Source: Papernot et al. 2018; docs/proofs/winner.md and gnmax.md.

    >>> votes = np.array([[90, 3, 7]])
    >>> GNMax(noise_std=2.0).aggregate(votes, num_teachers=100, rng=np.random.default_rng(0)).labels
    array([[ True, False, False]])
    """

    single_label: ClassVar[bool] = True

    noise_std: float = field(metadata=NOISE)
    max_votes: int = field(default=1, metadata=COUNT)

    @property
    def max_votes_per_teacher(self) -> int:
        """The most labels of a query that the price lets one teacher vote for: `max_votes`."""
        return self.max_votes

    def event(self, shape: VoteShape) -> pa.Event:
        moved = squared_sensitivity(
            self.max_votes, num_labels=shape.num_labels, adjacency=self.adjacency
        )
        if self.max_votes == 1:
            return pa.SelfComposedEvent(pa.WinnerEvent(self.noise_std, moved), shape.num_queries)
        # the largest costs at most what all of them do
        all_counts = pa.GaussianEvent(self.noise_std / moved**0.5)
        return pa.SelfComposedEvent(all_counts, shape.num_queries)

    def cost_on(
        self, votes: Counts, *, num_teachers: int, orders: object, answered: Bits | None = None
    ) -> Cost:
        """Computes at most the price, of votes of which each teacher has cast one per query, under replace-one."""
        one_each = (
            self.max_votes == 1
            and votes.shape[1] >= 2
            and bool((votes.sum(axis=1) == num_teachers).all())
        )
        if self.adjacency is not pa.Adjacency.REPLACE_ONE:
            raise base.UnknownCost(
                "adjacency", self.adjacency, rule="replace_one, which the theorem is about"
            )
        if not one_each:
            raise base.UnknownCost(
                "votes", rule="one vote of each teacher in each query, which the theorem is about"
            )
        cost = gnmax_cost(votes, noise_std=self.noise_std, num_teachers=num_teachers, orders=orders)
        event = self.event(VoteShape.from_counts(votes, num_teachers=num_teachers))
        return replace(
            cost, rdp=np.minimum(cost.rdp, pa.RdpAccountant(orders=cost.orders).compose(event).rdp)
        )

    def draw(self, summary: Counts, shape: VoteShape, rng: Rng) -> Answers:
        """Draws the label with the largest noisy count of each query."""
        noise = draw_noise("gaussian", summary.shape, rng)
        best = largest_noisy(Values.scaled(summary, self.noise_std), noise, 1)
        return Answers.to_all(best == np.arange(shape.num_labels))


@dataclass(frozen=True, kw_only=True)
class PowersetGNMax(base.Aggregator):
    """Releases the set of labels whose count of teachers + N(0, noise_std**2) is largest. Answers every query.

    All sets of at most `max_size` labels compete, those that nobody voted for with a count of 0: 2**L of them without
    a `max_size`. A teacher's larger set is cut down first, to its most confident labels (see `ClippedVotes`). The noise
    of the unseen sets is drawn as their maximum, and the set that has it uniformly among them; that is the distribution
    of noise on each. Over 2**40 sets it is about 7 noise_std: seen sets win only where enough teachers agree.

    Formal guarantee: a teacher votes for exactly one set. Replace-one moves two counts by 1, add/remove one, and only
    the winner is released: about 0.65 a / noise_std**2 at order a, or half of it, whatever L is (`WinnerEvent`).
    Source: Dziedzic et al. 2022, powerset voting; docs/proofs/winner.md and gnmax.md.

    Attributes:
        noise_std: standard deviation in votes, > 0.
        max_size: the largest set that competes, >= 1 and public; None for all.

    >>> votes = np.array([[[True, True, False]], [[True, True, False]], [[True, False, True]]])
    >>> aggregator = PowersetGNMax(noise_std=0.1)
    >>> aggregator.aggregate(votes, num_teachers=3, rng=np.random.default_rng(0)).labels
    array([[ True,  True, False]])
    """

    input_form: ClassVar[base.InputForm] = "confidences"
    queries_at_once: ClassVar[int | None] = None

    noise_std: float = field(metadata=NOISE)
    max_size: int | None = field(default=None, metadata=COUNT)

    @property
    def max_labels(self) -> int | None:
        """The most labels that an answer is made to name: `max_size`."""
        return self.max_size

    def event(self, shape: VoteShape) -> pa.Event:
        return pa.SelfComposedEvent(
            pa.WinnerEvent(self.noise_std, self.adjacency.num_moved), shape.num_queries
        )

    def summarize(self, votes: VoteSource) -> Summary:
        """Returns the different sets of each query, `[G]`: query, count and labels `[L]` of each, in a fixed order."""
        counted = (
            _counted(_one_each(limited(block, self.max_size or votes.num_labels)))
            for block in self.checked_blocks(votes)
        )
        return reduce(lambda one, other: _counted(np.concatenate([one, other])), counted)

    def draw(self, summary: Summary, shape: VoteShape, rng: Rng) -> Answers:
        """Draws the set with the largest noisy count of each query, seen or unseen."""
        num_queries = shape.num_queries
        num_labels = shape.num_labels
        first = np.searchsorted(summary["query"], np.arange(num_queries))
        seen = np.diff(np.append(first, len(summary)))
        largest = num_labels if self.max_size is None else min(self.max_size, num_labels)
        # how many sets of each size compete
        sizes = [math.comb(num_labels, size) for size in range(largest + 1)]
        labels = np.empty((num_queries, num_labels), dtype=np.bool_)
        rows = max(1, _SETS_AT_ONCE // int(seen.max()))
        for start in range(0, num_queries, rows):
            block = slice(start, start + rows)
            best = self._winners(summary["count"], first[block], seen[block], sum(sizes), rng)
            labels[block] = summary["labels"][first[block] + np.minimum(best, seen[block] - 1)]
            for query in (start + np.flatnonzero(best == seen[block])).tolist():
                known = summary["labels"][first[query] : first[query] + seen[query]]
                labels[query] = _unseen_set(known, sizes, rng)
        return Answers.to_all(labels)

    def _winners(
        self, counts: Counts, first: Counts, seen: Counts, num_sets: int, rng: Rng
    ) -> Counts:
        """Which of each query's seen sets has the largest noisy count, `[q]`; past the last for an unseen one."""
        places = np.arange(int(seen.max()) + 1)
        part = places < seen[:, None]
        table = np.where(part, counts[np.minimum(first[:, None] + places, len(counts) - 1)], 0)
        unseen = [num_sets - number for number in seen.tolist()]
        logs = np.array([[math.log(max(number, 1))] for number in unseen])
        largest = draw_largest("gaussian", logs, lambda row, place: unseen[row], rng)
        noise = draw_noise("gaussian", table.shape, rng).with_last(largest, seen)
        part[np.arange(len(seen)), seen] = np.array(unseen) > 0
        return largest_noisy(Values.scaled(table, self.noise_std), noise, 1, part)[:, 0]


def _one_each(bits: Bits) -> Summary:
    """One row for each teacher and query, with a count of 1: `[c Q]`."""
    kind = np.dtype(
        [("query", np.int64), ("labels", np.bool_, (bits.shape[2],)), ("count", np.int64)]
    )
    rows = np.empty(bits.shape[:2], dtype=kind)
    rows["query"] = np.arange(bits.shape[1])
    rows["labels"] = bits
    rows["count"] = 1
    return rows.reshape(-1)


def _right_sets(votes: MadeUpVotes) -> Summary:
    """Of each query its own labels, and how many teachers name just these."""
    rows = _one_each(votes.labels[None])
    missed = (votes.num_teachers - votes.counts()) * votes.labels
    rows["count"] = np.maximum(votes.num_teachers - missed.sum(axis=1), 0)
    return rows


def _counted(rows: Summary) -> Summary:
    """Equal sets of a query as one row with the sum of their counts; by query, then by the labels as bits."""
    packed = np.packbits(rows["labels"], axis=1)
    order = np.lexsort((*packed.T[::-1], rows["query"]))
    rows = rows[order]
    packed = packed[order]
    new = np.ones(len(rows), dtype=np.bool_)
    new[1:] = (rows["query"][1:] != rows["query"][:-1]) | (packed[1:] != packed[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    merged = rows[starts].copy()
    merged["count"] = np.add.reduceat(rows["count"], starts)
    return merged


def _unseen_set(seen: Bits, sizes: list[int], rng: Rng) -> Bits:
    """A set uniform among those that compete, `sizes` of each size, and were not seen `[S, L]`."""
    taken = {row.tobytes() for row in seen}
    weights = [(number, number) for number in sizes]
    while True:  # the size by its share, then labels in a random order
        size = index_of(LazyUniforms.draw((1,), rng).at(0), lambda digits: weights)
        candidate = np.zeros(seen.shape[1], dtype=np.bool_)
        candidate[rng.permutation(len(candidate))[:size]] = True
        if candidate.tobytes() not in taken:
            return candidate


@dataclass(frozen=True, kw_only=True)
class ScreenedAggregator(base.Aggregator):
    """Answers a query only where statistic + N(0, screening_std**2) >= threshold_share * num_teachers.

    The statistic is a number of teachers in 0..num_teachers which one change moves by at most 1. The price has the
    screening of every query and the answers of as many queries as can be answered, whatever comes out. That is all of
    them, or the first `max_answers` that pass. Then the session halts, and every later query is refused.
    """

    _answered_by: ClassVar[type[GNMax] | type[GaussianVotes]]  # the queries that pass

    screening_std: float = field(metadata=NOISE)
    threshold_share: float = field(metadata=POSITIVE)
    noise_std: float = field(metadata=NOISE)
    max_answers: int | None = field(default=None, metadata=COUNT)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.threshold_share <= 1, "threshold_share", self.threshold_share, "a number in (0, 1]"
        )

    @abstractmethod
    def _statistic(self, votes: Counts, *, num_teachers: int) -> Counts:
        """A number of teachers for each query, `[q]`, moved by at most 1 by one change."""

    @property
    def _answers(self) -> GNMax | GaussianVotes:
        return self.part(self._answered_by)

    def event(self, shape: VoteShape) -> pa.Event:
        bit = threshold_event(self.screening_std, self.threshold_share, shape.num_teachers)
        most = (
            shape.num_queries
            if self.max_answers is None
            else min(self.max_answers, shape.num_queries)
        )
        answers = self._answers.event(replace(shape, num_queries=most))
        return pa.ComposedEvent((pa.SelfComposedEvent(bit, shape.num_queries), answers))

    def cost_on(
        self, votes: Counts, *, num_teachers: int, orders: object, answered: Bits | None = None
    ) -> Cost:
        statistic = self._statistic(votes, num_teachers=num_teachers)
        share = self.threshold_share
        screening = threshold_cost(
            statistic, self.screening_std, share, num_teachers=num_teachers, orders=orders
        )
        asked = votes if answered is None else votes[answered]
        if not len(asked):
            return screening
        answers = self._answers.cost_on(asked, num_teachers=num_teachers, orders=orders)
        return screening + answers

    def draw_all(self, summary: Counts, shape: VoteShape, rng: Rng) -> Answers:
        """See `Aggregator.draw_all`; what passes after `max_answers` answers is refused, and none of it handed out."""
        labels, passed = super().draw_all(summary, shape, rng)
        if self.max_answers is None:
            return Answers(labels, passed)
        answered = passed & (np.cumsum(passed) <= self.max_answers)
        return Answers(labels & answered[:, None], answered)

    def draw(self, summary: Counts, shape: VoteShape, rng: Rng) -> Answers:
        """Draws which queries pass the screening, and then the answers, of which those that pass are handed out."""
        statistic = self._statistic(summary, num_teachers=shape.num_teachers)
        passed = reach_threshold(
            statistic[:, None],
            self.screening_std,
            self.threshold_share,
            num_teachers=shape.num_teachers,
            rng=rng,
        )[:, 0]
        labels = self._answers.draw(summary, shape, rng).labels
        return Answers(labels & passed[:, None], passed)


@dataclass(frozen=True, kw_only=True)
class ConfidentGNMax(ScreenedAggregator):
    """Releases the label with the largest noisy count, if the largest count with separate noise is large enough.

    Formal guarantee: the largest count moves by at most 1 under either adjacency, so screening costs one bit per query,
    and an answer what `GNMax` costs. Refused queries are charged like answered ones; `max_answers` bounds the answers.
    Source: Papernot et al. 2018, Algorithm 1; docs/proofs/gnmax.md.

    Attributes:
        screening_std: of the screening's noise, in votes, > 0.
        threshold_share: of the teachers that the largest count must reach, in (0, 1], public.
        noise_std: of the answers' noise, in votes, > 0.
        max_answers: after so many answers nothing more is answered, >= 1 and public; None for no limit.
        max_votes: the most labels that one teacher votes for, >= 1 and public.

    >>> aggregator = ConfidentGNMax(screening_std=2.0, threshold_share=0.6, noise_std=1.0)
    >>> votes = np.array([[90, 3, 7], [34, 33, 33]])
    >>> release = aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
    >>> release.answered, release.labels[0]
    (array([ True, False]), array([ True, False, False]))
    """

    single_label: ClassVar[bool] = True
    _answered_by: ClassVar[type[GNMax]] = GNMax

    max_votes: int = field(default=1, metadata=COUNT)

    @property
    def max_votes_per_teacher(self) -> int:
        """The most labels of a query that the price lets one teacher vote for: `max_votes`."""
        return self.max_votes

    def _statistic(self, votes: Counts, *, num_teachers: int) -> Counts:
        return np.asarray(votes.max(axis=1))


@dataclass(frozen=True, kw_only=True)
class ConfidentVotes(ScreenedAggregator):
    """Releases the bits of `GaussianVotes` on queries where even the smallest majority of a label is large, with noise.

    A label's majority is the number of teachers on its larger side, in num_teachers / 2..num_teachers. Fields are those
    of `ConfidentGNMax`, without `max_votes`.

    Formal guarantee: every majority moves by at most 1 under either adjacency, and so does the smallest: screening
    costs one bit per query, however many labels it looks at, and an answer one bit per label. Source: Confident-GNMax
    of Papernot et al. 2018, for several labels; docs/proofs/gnmax.md.

    >>> aggregator = ConfidentVotes(screening_std=2.0, threshold_share=0.7, noise_std=1.0)
    >>> votes = np.array([[90, 3, 88], [90, 3, 55]])
    >>> release = aggregator.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
    >>> release.answered, release.labels[0]
    (array([ True, False]), array([ True, False,  True]))
    """

    _answered_by: ClassVar[type[GaussianVotes]] = GaussianVotes

    def _statistic(self, votes: Counts, *, num_teachers: int) -> Counts:
        return np.asarray(np.maximum(votes, num_teachers - votes).min(axis=1))


def _expected_bits(
    votes: MadeUpVotes, *, threshold_share: float, noise_std: float
) -> ExpectedRelease:
    """Returns the expectation of one bit for each label, in closed form, as the noise is Gaussian."""
    counts, places = np.unique(votes.counts(), return_inverse=True)
    above = few_ndtr((counts - threshold_share * votes.num_teachers) / noise_std)
    above_of_votes = above[places.reshape(votes.labels.shape)]
    return ExpectedRelease(
        answered=1.0,
        present=float(above_of_votes[votes.labels].mean()),
        absent=float(1 - above_of_votes[~votes.labels].mean()),
    )


@expected_from_votes.register(GaussianVotes)
def _expected_from_gaussian_votes(
    aggregator: GaussianVotes, votes: MadeUpVotes, num_queries: int
) -> ExpectedRelease:
    return _expected_bits(votes, threshold_share=0.5, noise_std=aggregator.noise_std)


@expected_from_votes.register(DistributedVotes)
def _expected_from_distributed_votes(
    aggregator: DistributedVotes, votes: MadeUpVotes, num_queries: int
) -> ExpectedRelease:
    """Returns the expectation with the noise of all holders that may be present."""
    shares = aggregator.shares
    noise_std = (shares.variance * aggregator.num_holders / shares.num_counted) ** 0.5
    return _expected_bits(votes, threshold_share=aggregator.threshold_share, noise_std=noise_std)


@expected_from_votes.register(ClippedVotes)
def _expected_from_clipped_votes(
    aggregator: ClippedVotes, votes: MadeUpVotes, num_queries: int
) -> ExpectedRelease:
    """Returns the expectation from the counts: nobody names more labels than `vote_clip`, so nothing is clipped."""
    return expected_from_summary(aggregator, votes.counts(), votes)


@expected_from_votes.register(PowersetGNMax)
def _expected_from_powerset(
    aggregator: PowersetGNMax, votes: MadeUpVotes, num_queries: int
) -> ExpectedRelease:
    """Returns the expectation from the right set of each query alone; no other has many votes."""
    return expected_from_summary(aggregator, _right_sets(votes), votes)


@expected_from_votes.register(ScreenedAggregator)
def _expected_from_screened(
    aggregator: ScreenedAggregator, votes: MadeUpVotes, num_queries: int
) -> ExpectedRelease:
    """Returns the expectation of the queries before `max_answers`."""
    return expected_by_drawing(replace(aggregator, max_answers=None), votes)
