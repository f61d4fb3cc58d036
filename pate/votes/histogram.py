"""Counting teacher votes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import require, require_array

_BYTE_MAX = 255


def histogram(teacher_votes: Any) -> NDArray[np.int64]:
    """Counts `[num_queries, num_labels]` of the teachers that voted for each label, of their bits `[N, Q, L]`.

    Raises:
        InvalidValue: not bool (a confidence is no vote yet), or not of rank 3, or empty.

    >>> histogram(np.array([[[True, False]], [[True, True]]])).tolist()
    [[2, 1]]
    """
    votes = require_teacher_votes("teacher_votes", teacher_votes)
    # in bytes over at most 255 teachers at a time, which cannot overflow and moves an eighth of the memory of int64
    counts = np.zeros(votes.shape[1:], np.int64)
    for first in range(0, len(votes), _BYTE_MAX):
        counts += votes[first : first + _BYTE_MAX].view(np.uint8).sum(axis=0, dtype=np.uint8)
    return counts


def require_teacher_votes(name: str, teacher_votes: Any) -> NDArray[np.bool_]:
    """Returns bool `[num_teachers, num_queries, num_labels]` with at least one entry, or raises."""
    votes = require_array(name, teacher_votes, kinds=None)
    require(votes.dtype == np.bool_, f"{name}.dtype", votes.dtype, "bool votes")
    require(votes.ndim == 3, f"{name}.shape", votes.shape, "[num_teachers, num_queries, num_labels]")
    require(votes.size > 0, f"{name}.shape", votes.shape, "at least one teacher, query and label")
    return votes


Bits = NDArray[np.bool_]

Block = NDArray[np.bool_] | NDArray[np.floating]


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
