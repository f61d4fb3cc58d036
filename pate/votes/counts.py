"""Bits of teachers, counted: how many teachers vote for each label of each query."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import require, require_array

Bits = NDArray[np.bool_]
Block = NDArray[np.bool_] | NDArray[np.floating]

_BYTE_MAX = 255


def histogram(teacher_votes: Any) -> NDArray[np.int64]:
    """Counts the teachers that voted for each label: `[num_queries, num_labels]` of bits `[N, Q, L]`.

    Raises `InvalidValue` for what is not bool (a confidence is no vote yet), or not of rank 3, or empty.

    >>> histogram(np.array([[[True, False]], [[True, True]]])).tolist()
    [[2, 1]]
    """
    votes = require_teacher_votes("teacher_votes", teacher_votes)
    counts = np.zeros(votes.shape[1:], np.int64)
    # in bytes over at most 255 teachers at a time, which cannot overflow and moves an eighth of the memory of int64
    for first in range(0, len(votes), _BYTE_MAX):
        block = votes[first : first + _BYTE_MAX].view(np.uint8)
        counts += block.sum(axis=0, dtype=np.uint8)
    return counts


def require_teacher_votes(name: str, teacher_votes: Any) -> NDArray[np.bool_]:
    """Returns bool `[num_teachers, num_queries, num_labels]` with at least one entry, or raises `InvalidValue`."""
    votes = require_array(name, teacher_votes, kinds=None)
    require(votes.dtype == np.bool_, f"{name}.dtype", votes.dtype, "bool votes")
    rule = "[num_teachers, num_queries, num_labels]"
    require(votes.ndim == 3, f"{name}.shape", votes.shape, rule)
    require(votes.size > 0, f"{name}.shape", votes.shape, "at least one teacher, query and label")
    return votes


def bits_of(block: Block) -> Bits:
    """Returns the votes of a block: bits as they are, and of confidences those of at least a half."""
    return np.asarray(block if block.dtype == np.bool_ else block >= 0.5, dtype=np.bool_)


def limited(block: Block, max_votes: int) -> Bits:
    """Returns the votes `[c, Q, L]` of a block, of which each teacher keeps at most `max_votes` a query.

    A teacher keeps its most confident votes. Among equals, which all bits are, those that come first in the order of
    labels that begins with label q mod L in query q and goes round. So what a teacher keeps is a function of its own
    votes alone.
    """
    bits = bits_of(block)
    teacher, query = np.nonzero(np.count_nonzero(bits, axis=-1) > max_votes)  # R rows have too many
    if len(teacher) == 0:
        return bits
    num_labels = bits.shape[2]
    labels = (
        query[:, None] + np.arange(num_labels)
    ) % num_labels  # [R, L], in the order of the query
    confidences = np.where(bits, block, -1.0)[teacher, query]
    ranked = np.take_along_axis(confidences, labels, axis=1)
    most_confident = np.argsort(-ranked, axis=1, kind="stable")[:, :max_votes]
    kept_rows = np.zeros((len(teacher), num_labels), dtype=np.bool_)
    kept_labels = np.take_along_axis(labels, most_confident, axis=1)
    np.put_along_axis(kept_rows, kept_labels, True, axis=1)
    limited_bits = bits.copy()
    limited_bits[teacher, query] = kept_rows
    return limited_bits
