"""Blocks of teachers' votes: checked, cut to a size that memory holds, or given as the product of two factors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency
from pate.validation import require, require_array, require_entries

_TOLERANCE = 2.0**-30  # of an orthonormal basis, in an entry of its Gram matrix
_BLOCK_ENTRIES = 2**21


@dataclass(frozen=True, eq=False)
class LowRankVotes:
    """A block of teachers whose votes minus the center are `span @ weights[t]`.

    The span is orthonormal, so the votes `[Q, L]` are as long as the weights `[r, L]`: clipping and adding need no
    votes, and millions of teachers are a few products of matrices. Raises `InvalidValue` for factors of other shapes,
    and for a span that is not orthonormal.

    Attributes:
        span: `[Q, r]`, public, orthonormal columns.
        weights: `[c, r, L]`, one matrix per teacher; private.
    """

    span: NDArray[np.float64]
    weights: NDArray[np.float64]

    def __post_init__(self) -> None:
        is_matrix = self.span.ndim == 2 and self.span.size > 0
        require(is_matrix, "span.shape", self.span.shape, "[num_queries, r]")
        width = self.span.shape[1]
        shape = self.weights.shape
        fits = len(shape) == 3 and self.weights.size > 0 and shape[1] == width
        require(fits, "weights.shape", shape, f"[c, {width}, num_labels]")
        error = float(np.abs(self.span.T @ self.span - np.eye(width)).max())
        require(error <= _TOLERANCE, "span", f"{error:.2g} off", "orthonormal columns")

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the votes: `[c, Q, L]`."""
        return len(self), len(self.span), self.weights.shape[2]


def is_whole(votes: Any) -> bool:
    """Returns whether votes are one array `[N, Q, L]`, a tensor or a list included, and not blocks of one."""
    return isinstance(votes, (list, tuple, LowRankVotes)) or hasattr(votes, "__array__")


def raw_blocks(votes: Any) -> Iterator[Any]:
    """Returns the blocks of votes that are one array `[N, Q, L]` or blocks already; unchecked."""
    blocks = [votes] if is_whole(votes) else votes
    rule = "an array [N, Q, L] or blocks of one"
    require(isinstance(blocks, Iterable), "votes", type(votes).__name__, rule)
    return iter(blocks)


def checked_block(block: Any, *, inside: bool = True) -> Any:
    """Returns a block `[c, Q, L]` of bits or floats as an array; raises `InvalidValue` for any other.

    Args:
        block: bits or floats; `LowRankVotes` too, which come back as they are, where floats need not be `inside`.
        inside: whether floats are confidences, in [0, 1].
    """
    if isinstance(block, LowRankVotes) and not inside:
        return block
    block = require_array("votes", block, kinds=None)
    rule = "[num_teachers, num_queries, num_labels]"
    require(block.ndim == 3, "votes.shape", block.shape, rule)
    rule = "at least one teacher, query and label"
    require(block.size > 0, "votes.shape", block.shape, rule)
    rule = "bool votes or confidences in [0, 1]" if inside else "bool votes or floats"
    require(block.dtype.kind in "bf", "votes.dtype", block.dtype, rule)
    if inside and block.dtype.kind == "f":
        require_entries("votes", (block >= 0) & (block <= 1), "confidences in [0, 1]")
    return block


def vote_blocks(
    votes: Any, *, num_teachers: int, adjacency: Adjacency, inside: bool = True
) -> Iterator[Any]:
    """Yields checked blocks `[c, Q, L]` of bits or floats; large ones are cut, but `LowRankVotes` stay whole.

    Args:
        votes: an array `[N, Q, L]`, or blocks of one.
        num_teachers: the number of teachers in all blocks together. Under add/remove, where a teacher may be missing
            from the declared ones, fewer will do.
        adjacency: what one change means.
        inside: whether floats are confidences, in [0, 1].

    Raises:
        InvalidValue: a block is no votes, has other queries and labels than the first block, or the blocks together
            have another number of teachers.
    """
    count = 0
    queries = None
    for raw_block in raw_blocks(votes):
        block = checked_block(raw_block, inside=inside)
        queries = queries or block.shape[1:]
        rule = f"[c, {queries[0]}, {queries[1]}] as before"
        require(block.shape[1:] == queries, "votes.shape", block.shape, rule)
        count += len(block)
        if isinstance(block, LowRankVotes):
            yield block
            continue
        teachers_at_once = max(1, _BLOCK_ENTRIES // math.prod(queries))
        for first in range(0, len(block), teachers_at_once):
            yield block[first : first + teachers_at_once]
    is_missing_one = adjacency is Adjacency.ADD_REMOVE and 0 < count < num_teachers
    rule = f"{count}, the teachers in votes"
    require(count == num_teachers or is_missing_one, "num_teachers", num_teachers, rule)
