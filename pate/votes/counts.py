"""Counts of votes: the number of teachers that vote for each label of each query."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, IntArray
from pate.validation import InvalidValue, require, require_array

Block = BoolArray | NDArray[np.floating]

_BYTE_MAX = 255  # the largest number in a byte


def histogram(teacher_votes: Any) -> IntArray:
    """Returns the counts of votes, int64 `[num_queries, num_labels]`.

    Args:
        teacher_votes: bool `[num_teachers, num_queries, num_labels]`.

    Raises:
        InvalidValue: the votes are not bool (a confidence is not a vote), have another number of axes, or are empty.

    >>> histogram(np.array([[[True, False]], [[True, True]]])).tolist()
    [[2, 1]]
    """
    votes = require_teacher_votes("teacher_votes", teacher_votes)
    counts = np.zeros(votes.shape[1:], np.int64)
    # The votes of 255 teachers are added in bytes, which cannot overflow and moves an eighth of the memory of int64.
    for first_teacher in range(0, len(votes), _BYTE_MAX):
        byte_block = votes[first_teacher : first_teacher + _BYTE_MAX].view(np.uint8)
        counts += byte_block.sum(axis=0, dtype=np.uint8)
    return counts


def require_teacher_votes(name: str, teacher_votes: Any) -> BoolArray:
    """Returns votes as a bool array `[num_teachers, num_queries, num_labels]`, or raises `InvalidValue`.

    Args:
        name: the name of the argument in the message of an error.
        teacher_votes: the votes to check, with at least one entry.
    """
    votes = require_array(name, teacher_votes, dtype_kinds=None)
    require(votes.dtype == np.bool_, f"{name}.dtype", votes.dtype, "bool votes")
    if votes.ndim != 3:
        rule = "[num_teachers, num_queries, num_labels]"
        raise InvalidValue(f"{name}.shape", votes.shape, rule=rule)
    require(votes.size > 0, f"{name}.shape", votes.shape, "at least one teacher, query and label")
    return votes


def bits_of(vote_block: Block) -> BoolArray:
    """Returns the votes of a block as bits: True for each bit that is set, and for each confidence of at least 1/2."""
    return np.asarray(
        vote_block if vote_block.dtype == np.bool_ else vote_block >= 0.5, dtype=np.bool_
    )


def limit_votes(vote_block: Block, *, max_votes: int) -> BoolArray:
    """Returns a block of votes in which each teacher keeps at most `max_votes` labels of a query.

    A teacher keeps its most confident votes. Ties (as between bits) are broken by an order of the labels: in query q it
    starts with label q mod num_labels and wraps around. So the votes that a teacher keeps depend on its own votes
    alone.

    Args:
        vote_block: bits or confidences, `[num_teachers_in_block, num_queries, num_labels]`.
        max_votes: the largest number of votes of a teacher on a query.
    """
    bits = bits_of(vote_block)
    has_too_many = np.count_nonzero(bits, axis=-1) > max_votes
    teacher_of_pair, query_of_pair = np.nonzero(has_too_many)  # R pairs
    if len(teacher_of_pair) == 0:
        return bits
    num_labels = bits.shape[2]
    label_order_of_pair = (query_of_pair[:, None] + np.arange(num_labels)) % num_labels  # [R, L]
    confidences_of_pairs = np.where(bits, vote_block, -1.0)[teacher_of_pair, query_of_pair]
    ordered_confidences = np.take_along_axis(confidences_of_pairs, label_order_of_pair, axis=1)
    most_confident_positions = np.argsort(-ordered_confidences, axis=1, kind="stable")[
        :, :max_votes
    ]
    kept_labels_of_pair = np.take_along_axis(label_order_of_pair, most_confident_positions, axis=1)
    kept_bits_of_pair = np.zeros((len(teacher_of_pair), num_labels), dtype=np.bool_)
    np.put_along_axis(kept_bits_of_pair, kept_labels_of_pair, values=True, axis=1)
    limited_bits = bits.copy()
    limited_bits[teacher_of_pair, query_of_pair] = kept_bits_of_pair
    return limited_bits
