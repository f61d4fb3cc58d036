"""Clipped votes: each label against a threshold, where all votes of a teacher on a query count for a few.

Plain votes let a teacher move all L counts of a query. Where samples have few labels, a teacher's votes can be limited
to `vote_clip` of them at little loss, and the query costs fewer bits.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate import accounting as pa
from pate.aggregators import aggregator as base
from pate.aggregators.aggregator import Bits, Rng
from pate.aggregators.expectation import (
    ExpectedRelease,
    expected_from_summary,
    expected_from_votes,
)
from pate.aggregators.release import Answers
from pate.aggregators.thresholds import reach_threshold, squared_sensitivity, threshold_event
from pate.mechanisms.noise.comparisons import are_normally_above
from pate.mechanisms.parameters import COUNT, NOISE, PROBABILITY, one_of
from pate.validation import require
from pate.votes.counts import bits_of, limited
from pate.votes.made_up import MadeUpVotes
from pate.votes.shape import VoteShape
from pate.votes.source import TeacherVotes, VoteSource

_GRID = 2.0**32
_MOST_TEACHERS = 2**20  # sums of multiples of 1 / _GRID below it take 52 bits


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

    reads: ClassVar[type[VoteSource]] = TeacherVotes
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
        """Returns the price of m bits for each query, or of its noisy counts with l2; see `Aggregator.event`."""
        moved = squared_sensitivity(
            self.vote_clip, num_labels=shape.num_labels, adjacency=self.adjacency
        )
        if self.norm == "l1":
            bit = threshold_event(self.noise_std, self.threshold_share, shape.num_teachers)
            return pa.SelfComposedEvent(bit, shape.num_queries * moved)
        noisy_counts = pa.GaussianEvent(self.noise_std / moved**0.5)
        return pa.SelfComposedEvent(noisy_counts, shape.num_queries)

    def summarize(self, votes: VoteSource) -> NDArray[Any]:
        """Returns the clipped counts, `[Q, L]`: int64 with l1, and with l2 multiples of 2**-32 as float64."""
        is_exact = self.norm == "l1" or votes.num_teachers <= _MOST_TEACHERS
        rule = f"at most {_MOST_TEACHERS}: above it sums of weights are not exact"
        require(is_exact, "num_teachers", votes.num_teachers, rule)
        blocks = self.checked_blocks(votes.confidences(), votes.shape)
        if self.norm == "l1":
            limited_blocks = (limited(block, self.vote_clip) for block in blocks)
            return np.asarray(sum(block.sum(axis=0, dtype=np.int64) for block in limited_blocks))
        return np.asarray(sum(self._weighed(bits_of(block)) for block in blocks))

    def _weighed(self, bits: Bits) -> NDArray[np.float64]:
        """Returns the sum `[Q, L]` of a block's bits `[c, Q, L]`, each teacher's scaled down to the clip's length."""
        num_votes = np.arange(bits.shape[2] + 1)
        exact_weights = np.sqrt(self.vote_clip / np.maximum(num_votes, self.vote_clip))
        # rounded down to a grid: sums are exact, and the length is not exceeded
        weights = np.floor(exact_weights * _GRID * (1 - 2.0**-50)) / _GRID
        weights[: self.vote_clip + 1] = 1.0
        weights_of_teachers = weights[np.count_nonzero(bits, axis=-1)]  # [c, Q]
        return np.asarray(np.einsum("cq,cql->ql", weights_of_teachers, bits))

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
        else:  # the noisy counts are paid for, and any function of them is free
            threshold = self.threshold_share * shape.num_teachers
            labels = are_normally_above(summary, threshold, self.noise_std, rng)
        return Answers.to_all(labels)


@expected_from_votes.register(ClippedVotes)
def _expected_from_clipped_votes(
    aggregator: ClippedVotes, votes: MadeUpVotes, num_queries: int
) -> ExpectedRelease:
    """Returns the expectation from the counts: made-up queries have too few labels for a clip."""
    return expected_from_summary(aggregator, votes.counts(), votes)
