"""Plain PATE on many labels: every label's count against half the teachers, with Gaussian noise; also with a clip."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event, GaussianEvent, OneBitEvent, SelfComposedEvent, ThresholdEvent
from pate.accounting.data_dependent import DataDependentCost, one_bit_cost
from pate.accounting.events import BitEvent
from pate.accounting.special import few_ndtr
from pate.aggregators.aggregator import (
    Bits,
    ExpectedRelease,
    InputForm,
    PerQueryAggregator,
    TeacherVotesAggregator,
    require_shape,
    vote_blocks,
)
from pate.aggregators.gnmax import squared_sensitivity
from pate.aggregators.release import Release
from pate.mechanisms.noise.noisy_order import are_normally_above
from pate.mechanisms.parameters import COUNT, NOISE, PROBABILITY, one_of
from pate.validation import require, require_count
from pate.votes.histogram import Block, bits_of, limited
from pate.votes.made_up_votes import MadeUpVotes

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
    counts: NDArray[np.int64], noise_std: float, threshold_share: float, *, num_teachers: int, orders: object
) -> DataDependentCost:
    """What it cost on these counts, `[Q]` or `[Q, n]`, to say whether each reaches a share of the teachers."""
    low, high = _window(noise_std, threshold_share * num_teachers, num_teachers)
    event = threshold_event(noise_std, threshold_share, num_teachers)
    return one_bit_cost(np.clip(counts, low, high) - low, event=event, orders=orders)


def reach_threshold(
    counts: NDArray[np.int64], noise_std: float, threshold_share: float, *, num_teachers: int, rng: np.random.Generator
) -> Bits:
    """Whether count + N(0, noise_std**2) reaches a share of the teachers, elementwise and exactly: `[Q, n]`."""
    # Counts are moved into the window before there is noise. That moves no count farther from its neighbor's, so the
    # price needs the window alone, however many teachers there are.
    threshold = threshold_share * num_teachers
    return are_normally_above(counts, threshold, noise_std, rng, within=_window(noise_std, threshold, num_teachers))


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
        self, votes: NDArray[np.int64], *, num_teachers: int, orders: object, answered: Bits | None = None
    ) -> DataDependentCost | None:
        if self.teachers_reached > 1:
            return None
        return threshold_cost(votes, self.noise_std, 0.5, num_teachers=num_teachers, orders=orders)

    def _expected(self, votes: MadeUpVotes, num_queries: int) -> ExpectedRelease:
        counts, places = np.unique(votes.counts(), return_inverse=True)
        above = few_ndtr((counts - votes.num_teachers / 2) / self.noise_std)[places.reshape(votes.labels.shape)]
        return ExpectedRelease(1.0, float(above[votes.labels].mean()), float(1 - above[~votes.labels].mean()))

    def _draw(self, votes: NDArray[np.int64], *, num_teachers: int, rng: np.random.Generator) -> tuple[Bits, Bits]:
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

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        require_shape(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)
        moved = squared_sensitivity(self.vote_clip, num_labels=num_labels, adjacency=self.adjacency)
        if self.norm == "l1":
            bit = threshold_event(self.noise_std, self.threshold_share, num_teachers)
            return SelfComposedEvent(bit, num_queries * moved)
        return SelfComposedEvent(GaussianEvent(self.noise_std / moved**0.5), num_queries)

    @property
    def max_labels(self) -> int:
        return self.vote_clip

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
