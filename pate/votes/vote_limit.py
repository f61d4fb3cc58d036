"""Limiting what one teacher says of one query: to a few votes, whatever the other teachers say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency
from pate.validation import require

Bits = NDArray[np.bool_]

_VOTES_AT_ONCE = 2**22  # so that working copies stay small

Block = NDArray[np.bool_] | NDArray[np.floating]


def vote_blocks(votes: Any, *, num_teachers: int, adjacency: Adjacency) -> Iterator[Block]:
    """Yields checked blocks `[c, Q, L]` of bits or of confidences in [0, 1], together `num_teachers` teachers.

    Under add/remove, where a teacher may be missing from the declared ones, fewer will do. Large blocks are cut.
    """
    whole = isinstance(votes, (list, tuple)) or hasattr(votes, "__array__")  # a tensor, too
    blocks: Iterable[Any] = [votes] if whole else votes
    require(isinstance(blocks, Iterable), "votes", type(votes).__name__, "an array [N, Q, L] or blocks of one")
    found, queries = 0, None
    for given in blocks:
        block = _checked(given)
        queries = queries or block.shape[1:]
        require(block.shape[1:] == queries, "votes.shape", block.shape, f"[c, {queries[0]}, {queries[1]}] as before")
        found += len(block)
        rows = max(1, _VOTES_AT_ONCE // block[0].size)
        yield from (block[first : first + rows] for first in range(0, len(block), rows))
    missing = adjacency is Adjacency.ADD_REMOVE and 0 < found < num_teachers
    require(found == num_teachers or missing, "num_teachers", num_teachers, f"{found}, the teachers in votes")


def bits_of(block: Block) -> Bits:
    """Votes of a block: bits as they are, confidences of at least a half."""
    return np.asarray(block if block.dtype == np.bool_ else block >= 0.5, dtype=np.bool_)


def limited(block: Block, most: int) -> Bits:
    """Votes `[c, Q, L]` of which each teacher keeps at most `most` a query: its most confident ones.

    Among equals, which all bits are, those that come first in the order of labels that begins with label q mod L in
    query q and goes round. So what a teacher keeps is a function of its own votes alone.
    """
    bits = bits_of(block)
    teacher, query = np.nonzero(np.count_nonzero(bits, axis=-1) > most)
    if len(teacher) == 0:
        return bits
    num_labels = bits.shape[2]
    turned = (query[:, None] + np.arange(num_labels)) % num_labels  # [R, L] labels in the order of the query
    ranked = np.take_along_axis(np.where(bits, block, -1.0)[teacher, query], turned, axis=1)
    chosen = np.argsort(-ranked, axis=1, kind="stable")[:, :most]
    kept = np.zeros((len(teacher), num_labels), dtype=np.bool_)
    np.put_along_axis(kept, np.take_along_axis(turned, chosen, axis=1), True, axis=1)
    fewer = bits.copy()
    fewer[teacher, query] = kept
    return fewer


def _checked(given: Any) -> Block:
    try:
        block = np.asarray(given)
    except ValueError:
        block = np.empty(0, dtype=object)
    require(block.ndim == 3, "votes.shape", block.shape, "[num_teachers, num_queries, num_labels]")
    require(block.size > 0, "votes.shape", block.shape, "at least one teacher, query and label")
    real = block.dtype == np.bool_ or np.issubdtype(block.dtype, np.floating)
    require(bool(real), "votes.dtype", block.dtype, "bool votes or confidences in [0, 1]")
    if block.dtype != np.bool_:
        outside = ~((block >= 0) & (block <= 1))
        require(not outside.any(), "votes", block[outside][:1], "confidences in [0, 1]")
    return block
