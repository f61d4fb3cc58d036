"""Blocks of teachers' votes: checks of their form, cuts to a size that fits into memory, and blocks of low rank.

A block holds the votes of some teachers, `[num_teachers_in_block, num_queries, num_labels]`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pate.accounting import Adjacency
from pate.array_types import FloatArray
from pate.validation import InvalidValue, require, require_array, require_entries

# The largest error of an entry of the Gram matrix of an orthonormal basis.
_TOLERANCE = 2.0**-30
# The largest number of votes in a block, unless one teacher has more: 16 MiB as float64.
_BLOCK_ENTRIES = 2**21


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class LowRankVotes:
    """A block of teachers' votes as a product: the votes of teacher t minus the center are `span @ weights[t]`.

    The columns of the span are orthonormal, so the votes of a teacher are as long as its weights. Votes can be clipped
    and summed by their weights, which are much smaller. Raises `InvalidValue` if the shapes do not fit, or if the span
    is not orthonormal.

    Attributes:
        span: float64 `[num_queries, rank]`, public, orthonormal columns.
        weights: float64 `[num_teachers_in_block, rank, num_labels]`, private.
    """

    span: FloatArray
    weights: FloatArray

    def __post_init__(self) -> None:
        is_matrix = self.span.ndim == 2 and self.span.size > 0
        require(is_matrix, "span.shape", self.span.shape, "[num_queries, rank]")
        rank = self.span.shape[1]
        weights_shape = self.weights.shape
        shape_fits = len(weights_shape) == 3 and self.weights.size > 0 and weights_shape[1] == rank
        require(
            shape_fits,
            "weights.shape",
            weights_shape,
            f"[num_teachers_in_block, {rank}, num_labels]",
        )
        # The Gram matrix of the columns, each of which has an entry for each query.
        largest_error = float(np.abs(self.span.T @ self.span - np.eye(rank)).max())
        require(
            largest_error <= _TOLERANCE, "span", f"{largest_error:.2g} off", "orthonormal columns"
        )

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the votes, (num_teachers_in_block, num_queries, num_labels)."""
        return len(self), len(self.span), self.weights.shape[2]


def is_whole(votes_or_blocks: Any) -> bool:
    """Returns True for all votes in one array, tensor, list, tuple or `LowRankVotes`; False for any other iterable."""
    return isinstance(votes_or_blocks, (list, tuple, LowRankVotes)) or hasattr(
        votes_or_blocks, "__array__"
    )


def raw_blocks(votes_or_blocks: Any) -> Iterator[Any]:
    """Yields the blocks of votes without checks; one array of all votes is a single block."""
    blocks = [votes_or_blocks] if is_whole(votes_or_blocks) else votes_or_blocks
    if not isinstance(blocks, Iterable):
        rule = "an array [N, Q, L] or blocks of one"
        raise InvalidValue("votes", type(votes_or_blocks).__name__, rule=rule)
    return iter(blocks)


def checked_block(vote_block: Any, *, must_be_confidences: bool = True) -> Any:
    """Returns a block of votes as an array, once its form is checked; raises `InvalidValue` for another form.

    Args:
        vote_block: bits or floats, `[num_teachers_in_block, num_queries, num_labels]`; or `LowRankVotes`, which are
            returned unchanged if `must_be_confidences` is False.
        must_be_confidences: whether floats have to be confidences in [0, 1].
    """
    if isinstance(vote_block, LowRankVotes) and not must_be_confidences:
        return vote_block
    vote_block = require_array("votes", vote_block, dtype_kinds=None)
    if vote_block.ndim != 3:
        rule = "[num_teachers, num_queries, num_labels]"
        raise InvalidValue("votes.shape", vote_block.shape, rule=rule)
    require(
        vote_block.size > 0,
        "votes.shape",
        vote_block.shape,
        "at least one teacher, query and label",
    )
    if vote_block.dtype.kind not in "bf":
        rule = "bool votes or floats"
        if must_be_confidences:
            rule = "bool votes or confidences in [0, 1]"
        raise InvalidValue("votes.dtype", vote_block.dtype, rule=rule)
    if must_be_confidences and vote_block.dtype.kind == "f":
        require_entries(
            "votes", (vote_block >= 0) & (vote_block <= 1), rule="confidences in [0, 1]"
        )
    return vote_block


def vote_blocks(
    votes_or_blocks: Any,
    *,
    num_teachers: int,
    adjacency: Adjacency,
    must_be_confidences: bool = True,
) -> Iterator[Any]:
    """Yields checked blocks of votes, `[num_teachers_in_block, num_queries, num_labels]`.

    Large blocks are cut along the first axis, except for `LowRankVotes`.

    Args:
        votes_or_blocks: an array `[num_teachers, num_queries, num_labels]`, or blocks of it along the first axis.
        num_teachers: the declared number of teachers. Under add/remove the blocks may hold fewer.
        adjacency: the adjacency of the release.
        must_be_confidences: whether floats have to be confidences in [0, 1].

    Raises:
        InvalidValue: a block holds no votes, or another number of queries or labels than the first block, or the blocks
            together hold another number of teachers than is allowed.
    """
    num_read = 0
    matrix_shape = None  # (num_queries, num_labels) of the first block
    for raw_vote_block in raw_blocks(votes_or_blocks):
        vote_block = checked_block(raw_vote_block, must_be_confidences=must_be_confidences)
        matrix_shape = matrix_shape or vote_block.shape[1:]
        if vote_block.shape[1:] != matrix_shape:
            rule = (
                f"[num_teachers_in_block, {matrix_shape[0]}, {matrix_shape[1]}], as the first block"
            )
            raise InvalidValue("votes.shape", vote_block.shape, rule=rule)
        num_read += len(vote_block)
        if isinstance(vote_block, LowRankVotes):
            yield vote_block
            continue
        teachers_at_once = max(1, _BLOCK_ENTRIES // math.prod(matrix_shape))
        for first in range(0, len(vote_block), teachers_at_once):
            yield vote_block[first : first + teachers_at_once]
    may_be_fewer = adjacency is Adjacency.ADD_REMOVE and 0 < num_read < num_teachers
    if num_read != num_teachers and not may_be_fewer:
        raise InvalidValue("num_teachers", num_teachers, rule=f"{num_read}, the teachers in votes")
