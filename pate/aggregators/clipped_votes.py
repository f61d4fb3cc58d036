"""Clipped votes: a release of the labels whose noisy count exceeds a threshold, with few votes for each teacher.

With plain votes one teacher can move all L counts of a query. Where samples have few labels, a teacher can be limited
to `vote_clip` votes on each query, or to votes of less weight, at little loss. Then the query costs less.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event, GaussianEvent, SelfComposedEvent
from pate.aggregators.aggregator import Aggregator, Rng
from pate.aggregators.answers import Answers
from pate.aggregators.expectation import ExpectedRelease, expected_from_summary, expected_from_votes
from pate.aggregators.thresholds import (
    reach_threshold,
    squared_sensitivity,
    threshold_event,
    threshold_votes,
)
from pate.array_types import BoolArray, FloatArray
from pate.mechanisms.noise.comparisons import noisy_at_least
from pate.mechanisms.parameters import COUNT, NOISE, PROBABILITY, one_of
from pate.validation import InvalidValue
from pate.votes.counts import bits_of, limit_votes
from pate.votes.made_up import MadeUpVotes
from pate.votes.shape import VoteShape
from pate.votes.source import TeacherVotes, VoteSource

# The weight of a vote is a multiple of 1 / _GRID. Sums over at most so many teachers take 52 bits, so they are exact.
_GRID = 2.0**32
_MAX_TEACHERS = 2**20


@dataclass(frozen=True, kw_only=True)
class ClippedVotes(Aggregator):
    """Releases, for each label, whether clipped count + N(0, noise_std**2) > threshold_share * num_teachers.

    With norm l1 a teacher keeps at most `vote_clip` of its votes on a query: the most confident ones. Ties are broken
    by an order of the labels that depends on the query's index alone. With norm l2 each of the teacher's n votes has
    the weight min(1, sqrt(vote_clip / n)), so that the vector of its votes has a length of at most sqrt(vote_clip).
    Every query is answered. Source: Zhu et al. 2020 and Dziedzic et al. 2022 for the clipping;
    docs/proofs/clipped_votes.md.

    Formal guarantees, for L labels:
        * With norm l1, one change moves at most m counts of a query by 1, and a query costs m bits, each the outcome of
          one count's test. Under replace-one m is min(2 vote_clip, L), under add/remove min(vote_clip, L).
        * With norm l2, one change moves the vector of counts by at most sqrt(m), and a query costs as much as a release
          of its noisy counts.
        * Under add/remove the threshold is computed from the declared num_teachers, and no change moves it.

    Attributes:
        noise_std: standard deviation of the noise in votes, > 0.
        vote_clip: tau, >= 1 and public: the largest number of votes of a teacher on a query with norm l1, and the
            largest sum of the squares of their weights with norm l2.
        norm: "l1" or "l2", the norm in which votes are clipped.
        threshold_share: the threshold as a share of the teachers, in (0, 1), public.

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
    norm: str = field(default="l1", metadata=one_of(choices=("l1", "l2")) | {"public": True})
    threshold_share: float = field(default=0.5, metadata=PROBABILITY)

    @property
    def max_labels(self) -> int:
        """The largest number of labels that an answer is meant to name: `vote_clip`."""
        return self.vote_clip

    def event(self, shape: VoteShape) -> Event:
        """Returns the price: m bits for each query with norm l1, the noisy counts of each query with norm l2."""
        num_moved_votes = squared_sensitivity(
            self.vote_clip, num_labels=shape.num_labels, adjacency=self.adjacency
        )
        if self.norm == "l1":
            bit_event = threshold_event(self.noise_std, self.threshold_share, shape.num_teachers)
            return SelfComposedEvent(bit_event, count=shape.num_queries * num_moved_votes)
        noisy_counts_event = GaussianEvent(noise_multiplier=self.noise_std / num_moved_votes**0.5)
        return SelfComposedEvent(noisy_counts_event, count=shape.num_queries)

    def summarize(self, votes: VoteSource) -> NDArray[Any]:
        """Returns the clipped counts, `[num_queries, num_labels]`, plus a public number for each label.

        The number is `threshold_votes` of the teachers whose holder, the institution that owns a teacher's records,
        records nothing about the label; it is usually 0. The result is int64 with norm l1. With norm l2 it is float64,
        multiples of 2**-32.

        Raises:
            InvalidValue: the norm is l2, and there are more than 2**20 teachers.
        """
        if self.norm == "l2" and votes.num_teachers > _MAX_TEACHERS:
            rule = f"at most {_MAX_TEACHERS}: above it sums of weights are not exact"
            raise InvalidValue("num_teachers", votes.num_teachers, rule=rule)
        teacher_votes = votes.require_type(TeacherVotes)
        blocks = self.checked_blocks(teacher_votes.confidences(), vote_shape=votes.shape)
        if self.norm == "l1":
            clipped_blocks = (limit_votes(block, max_votes=self.vote_clip) for block in blocks)
            counts = np.asarray(sum(block.sum(axis=0, dtype=np.int64) for block in clipped_blocks))
        else:
            counts = np.asarray(sum(self._weighted_sum(bits_of(block)) for block in blocks))
        num_teachers_without_label = teacher_votes.num_without_label()
        return counts + threshold_votes(num_teachers_without_label, self.threshold_share)

    def _weighted_sum(self, vote_bits: BoolArray) -> FloatArray:
        """Returns the sum over teachers of their weighted bits, `[num_queries, num_labels]`.

        Each teacher's bits on a query are scaled down to a length of at most sqrt(vote_clip).

        Args:
            vote_bits: bool `[num_teachers_in_block, num_queries, num_labels]`.
        """
        possible_num_votes = np.arange(vote_bits.shape[2] + 1)
        exact_weights = np.sqrt(self.vote_clip / np.maximum(possible_num_votes, self.vote_clip))
        # Rounded down to a grid, so that sums are exact and the length is not exceeded. The factor below 1 is more than
        # the rounding errors of the square root and the division.
        weights_by_num_votes = np.floor(exact_weights * _GRID * (1 - 2.0**-50)) / _GRID
        weights_by_num_votes[: self.vote_clip + 1] = 1.0
        # The number of votes of each teacher on each query, [num_teachers_in_block, num_queries].
        num_votes_cast = np.count_nonzero(vote_bits, axis=-1)
        return np.asarray(np.einsum("tq,tql->ql", weights_by_num_votes[num_votes_cast], vote_bits))

    def draw(self, summary: NDArray[Any], shape: VoteShape, rng: Rng) -> Answers:
        """Draws, for each label, whether its clipped count plus noise exceeds the threshold."""
        if self.norm == "l1":
            labels = reach_threshold(
                counts=summary,
                noise_std=self.noise_std,
                threshold_share=self.threshold_share,
                num_teachers=shape.num_teachers,
                rng=rng,
            )
        else:
            # The noisy counts are charged, and any function of them is free.
            threshold = self.threshold_share * shape.num_teachers
            labels = noisy_at_least(summary, threshold=threshold, noise_std=self.noise_std, rng=rng)
        return Answers.to_all(labels=labels)


@expected_from_votes.register(ClippedVotes)
def _expected_from_clipped_votes(
    aggregator: ClippedVotes, made_up_votes: MadeUpVotes, num_queries: int
) -> ExpectedRelease:
    """Returns the expected shares of right labels, measured on answers drawn from the counts of made-up votes.

    The clip is left out, as no made-up teacher votes for more than `vote_clip` labels of a query. `num_queries` is not
    read.
    """
    return expected_from_summary(
        aggregator, summary=made_up_votes.counts(), made_up_votes=made_up_votes
    )
