"""Exact sums of clipped votes: one teacher moves the sum by a bounded length, rounding included.

A release that adds Gaussian noise to a sum of real votes needs to know how far one teacher can move the sum. So each
teacher's votes minus a center, over all queries and labels together, are scaled down to the length `clip` if they are
longer. In exact arithmetic a replaced teacher then moves the sum by at most two clips in l2.

Floats are not exact. Their sum depends on the order of the teachers, and the last bits of a noisy float can reveal the
sum without noise. So every clipped entry is rounded to a multiple of `step`, a power of 2, and whole numbers are added.
Sums below 2**53 are exact for any order and any blocks. The noise is a whole number of steps too (`RoundedGaussian`).
Rounding moves an entry by at most half a step, and so the Q x L entries of a vote by at most sqrt(Q L) / 2 steps. The
step is so small that this is at most 2**-15 of the clip. `l2_sensitivity` includes this rounding, and the float errors
of lengths.

Votes of low rank (`LowRankVotes`) are clipped and added by their weights. Their sum is multiplied by the span at the
end.

Source: docs/proofs/centered_votes.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pate.accounting import Adjacency
from pate.array_types import FloatArray, IntArray
from pate.validation import InvalidValue, require, require_count, require_positive
from pate.votes.blocks import LowRankVotes, vote_blocks

FLOAT_ERROR = 2.0**-20
"""A bound on the relative error of a computed length: n 2**-53 for a sum of n <= 2**30 squares, with room."""

LARGEST_SUM = 2.0**52
"""The bound below which sums of whole numbers are exact in doubles, with a bit of room."""

MIN_CLIP = 1e-100
"""The smallest clip: the square of a smaller length could underflow."""

# The largest length of a vote of one step in each entry, as a share of the clip.
_FINENESS = 2.0**-14
# A weight below this one counts as 0.
_MIN_WEIGHT = 2.0**-20


@dataclass(frozen=True)
class ClippedSum:
    """The sum over teachers of their votes minus a center, each teacher's scaled down to the length `clip` if longer.

    Rule: r = votes - center, over all queries and labels together. The teacher adds min(1, clip / |r|) r to the sum,
    with every entry rounded to a multiple of `step`. Whole numbers are added, so the sum does not depend on the order
    of the teachers or on how they are cut into blocks.

    Formal guarantee: one change replaces the votes of a teacher by any others (replace-one), or adds or removes a
    teacher (add/remove). It moves the sum by at most `l2_sensitivity` steps in l2, rounding and float errors included.
    A teacher of weight w moves the sum by at most w times as much. The center and the clip are public, or were released
    and charged before.

    Attributes:
        clip: the largest length of a teacher's votes minus the center, > 0, in votes.
        sum_shape: (num_queries, num_labels).
        adjacency: the adjacency of the release. Under add/remove fewer teachers may vote than are declared.
    """

    clip: float
    sum_shape: tuple[int, int]
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        require_positive("clip", self.clip)
        require(self.clip >= MIN_CLIP, "clip", self.clip, f"at least {MIN_CLIP:g}")
        num_queries, num_labels = self.sum_shape
        require_count("num_queries", num_queries)
        require_count("num_labels", num_labels)

    @property
    def _num_entries(self) -> int:
        """The number of entries of the sum, and of a teacher's votes: queries times labels."""
        num_queries, num_labels = self.sum_shape
        return num_queries * num_labels

    @property
    def step(self) -> float:
        """The spacing of the grid of the sum, in votes: a power of 2.

        The step is so small that rounding all entries moves a vote by a small part of the clip.
        """
        spacing = self.clip * _FINENESS / math.sqrt(self._num_entries)
        return 2.0 ** math.floor(math.log2(spacing))

    @property
    def l2_sensitivity(self) -> float:
        """The largest l2 distance, in steps (`step`), by which one change moves the sum, float errors included.

        This is about two clips under replace-one, and one clip under add/remove.
        """
        # Two contributions are rounded, and for votes of low rank two products with the span, each by at most half a
        # step in an entry. A third of the bound is room for the float errors of those products.
        rounding = 3 * math.sqrt(self._num_entries)
        clips = self.adjacency.num_moved * self.clip / self.step
        return clips * (1 + FLOAT_ERROR) + rounding

    @staticmethod
    def most_queries(num_teachers: int, num_labels: int) -> int:
        """Returns a number of queries for which the sum of the votes is exact with any clip; some clips allow more."""
        # `total` requires N (clip / step + 1) Q < 2^52, and clip / step is below 2 sqrt(Q L) / fineness.
        most_queries_to_three_halves = (
            0.999 * LARGEST_SUM * _FINENESS / (2 * num_teachers * math.sqrt(num_labels))
        )
        return int(most_queries_to_three_halves ** (2 / 3))

    def total(
        self,
        votes_or_blocks: Any,
        *,
        center: Any,
        num_teachers: int,
        teacher_weights: FloatArray | None = None,
    ) -> IntArray:
        """Returns the sum of the clipped votes, int64 `[num_queries, num_labels]`, in steps (`step`).

        Args:
            votes_or_blocks: real numbers `[num_teachers, num_queries, num_labels]`, or blocks of them along the first
                axis. Blocks of `LowRankVotes` must share one span; the center has been subtracted from them already.
            center: public or released: `[num_queries, num_labels]`, `[num_labels]` or a number.
            num_teachers: the declared number of teachers.
            teacher_weights: public, `[num_teachers]` in [0, 1], the weight of each teacher; None for 1.

        Raises:
            InvalidValue: votes or center are not finite, votes have another shape, or the sum needs more than 53 bits.
            ValueError: the center has another shape.
        """
        center_of_all = np.broadcast_to(np.asarray(center, dtype=np.float64), self.sum_shape)
        is_finite = bool(np.isfinite(center_of_all).all())
        require(is_finite, "center", "NaN or infinity", "finite numbers")
        num_queries, num_labels = self.sum_shape
        largest_sum = num_teachers * (self.clip / self.step + 1) * max(num_queries, 8)
        is_exact = largest_sum < LARGEST_SUM
        require(is_exact, "num_teachers", num_teachers, "fewer teachers for sums of 53 bits")
        reduced_weights = None if teacher_weights is None else self.reduce_weights(teacher_weights)
        dense_sum = np.zeros((num_queries, num_labels), dtype=np.int64)
        query_span = None
        sum_of_low_rank_weights = np.zeros((0, 0), dtype=np.int64)  # [rank, num_labels]
        first_teacher = 0
        checked_blocks = vote_blocks(
            votes_or_blocks,
            num_teachers=num_teachers,
            adjacency=self.adjacency,
            must_be_confidences=False,
        )
        for vote_block in checked_blocks:
            if vote_block.shape[1:] != self.sum_shape:
                rule = f"[num_teachers_in_block, {self.sum_shape[0]}, {self.sum_shape[1]}]"
                raise InvalidValue("votes.shape", vote_block.shape, rule=rule)
            teacher_range = slice(first_teacher, first_teacher + len(vote_block))
            weights_of_block = None if reduced_weights is None else reduced_weights[teacher_range]
            first_teacher += len(vote_block)
            if not isinstance(vote_block, LowRankVotes):
                centered_votes = np.asarray(vote_block - center_of_all)
                dense_sum += self._rounded_sum(centered_votes, reduced_weights=weights_of_block)
                continue
            if query_span is None:
                query_span = vote_block.span
                sum_of_low_rank_weights = np.zeros(vote_block.weights.shape[1:], dtype=np.int64)
            is_equal = vote_block.span is query_span or np.array_equal(vote_block.span, query_span)
            require(is_equal, "span", vote_block.span.shape, "the same span in every block")
            sum_of_low_rank_weights += self._rounded_sum(
                vote_block.weights, reduced_weights=weights_of_block
            )
        if query_span is None:
            return dense_sum
        return dense_sum + np.rint(query_span @ sum_of_low_rank_weights).astype(np.int64)

    def reduce_weights(self, weights: FloatArray) -> FloatArray:
        """Returns the factor that each teacher's clipped vote is multiplied by, `[num_teachers]`.

        The factor is 1 for a weight of 1, and slightly less than the weight for any smaller one. Rounding moves the
        vote of a teacher of small weight as far as any other vote, and the smaller factor leaves room for that. A
        factor below 2**-20 becomes 0.

        Args:
            weights: `[num_teachers]` in [0, 1].
        """
        clips = self.adjacency.num_moved * self.clip
        rounding = self.l2_sensitivity * self.step / clips - 1  # in clips, float errors included
        reduced_weights = weights - (1 - weights) * rounding
        return np.where(reduced_weights < _MIN_WEIGHT, 0.0, reduced_weights)

    def _rounded_sum(
        self, centered_votes: FloatArray, *, reduced_weights: FloatArray | None
    ) -> IntArray:
        """Returns the exact sum over a block's teachers of their clipped and rounded votes, int64 `[...]`, in steps.

        Args:
            centered_votes: `[num_teachers_in_block, ...]`, votes minus the center, or the weights of `LowRankVotes`.
            reduced_weights: `[num_teachers_in_block]`, the factor of each teacher's clipped vote, as `reduce_weights`
                returns it; None for 1.
        """
        vectors = centered_votes.reshape(len(centered_votes), -1)
        lengths = finite_lengths(vectors)
        factors = self.clip / np.maximum(lengths, self.clip) / self.step
        if reduced_weights is not None:
            if len(reduced_weights) != len(vectors):
                rule = "one for each teacher in votes"
                raise InvalidValue("len(weights)", len(reduced_weights), rule=rule)
            factors *= reduced_weights
        rounded_vectors = np.rint(vectors * factors[:, None])
        flat_total = rounded_vectors.sum(axis=0).astype(np.int64)
        return np.asarray(flat_total.reshape(centered_votes.shape[1:]))


def finite_lengths(vectors: FloatArray) -> FloatArray:
    """Returns the l2 length of each row, `[num_rows]`; raises `InvalidValue` for `votes` if one is not finite."""
    lengths: FloatArray = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    require_finite_lengths(lengths)
    return lengths


def require_finite_lengths(lengths: FloatArray) -> None:
    """Raises `InvalidValue` for the argument `votes` unless all lengths are finite."""
    is_finite = bool(np.isfinite(lengths).all())
    require(is_finite, "votes", "NaN or infinity", "finite numbers below 1e150")
