"""Votes of any form, looked at before they are read."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import require, require_array, require_entries
from pate.votes.low_rank_votes import LowRankVotes


def dense_votes(votes: Any, rule: str) -> NDArray[Any]:
    """An array of votes that is read twice, all of it checked before its first reading is charged."""
    array = require_array("votes", votes, kinds=None)
    require(array.ndim == 3 and array.size > 0, "votes.shape", array.shape, rule)
    require(array.dtype.kind in "bf", "votes.dtype", array.dtype, "bool votes or floats")
    if array.dtype.kind == "f":
        require_entries("votes", (array >= 0) & (array <= 1), "numbers in [0, 1]")
    return array


def peeked_votes(votes: Any) -> tuple[tuple[int, int], Any]:
    """Q and L of the first block, and all blocks."""
    first, blocks = votes, votes
    if not isinstance(votes, (np.ndarray, LowRankVotes)):
        stream = iter(votes)
        first = next(stream, None)
        require(first is not None, "votes", "no block", "at least one teacher")
        blocks = chain([first], stream)
    if isinstance(first, LowRankVotes):
        return (len(first.span), first.weights.shape[2]), blocks
    shape = np.shape(first)
    require(len(shape) == 3, "votes.shape", shape, "[num_teachers, num_queries, num_labels]")
    require(min(shape) > 0, "votes.shape", shape, "at least one teacher, query and label")
    return (shape[1], shape[2]), blocks
