"""Votes of teachers as checked blocks, few enough to hold at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from pate.accounting import Adjacency
from pate.validation import require, require_array, require_entries
from pate.votes.vote_limit import Block

_VOTES_AT_ONCE = 2**22  # so that working copies stay small


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


def _checked(given: Any) -> Block:
    block = require_array("votes", given, kinds=None)
    require(block.ndim == 3, "votes.shape", block.shape, "[num_teachers, num_queries, num_labels]")
    require(block.size > 0, "votes.shape", block.shape, "at least one teacher, query and label")
    real = block.dtype == np.bool_ or np.issubdtype(block.dtype, np.floating)
    require(bool(real), "votes.dtype", block.dtype, "bool votes or confidences in [0, 1]")
    if block.dtype != np.bool_:
        require_entries("votes", (block >= 0) & (block <= 1), "confidences in [0, 1]")
    return block
