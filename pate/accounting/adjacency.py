"""Adjacency: which change of the private data a price is about."""

from __future__ import annotations

from enum import StrEnum

from pate import validation


class Adjacency(StrEnum):
    """The change of the private data that a guarantee is about.

    REPLACE_ONE: one private record changes. The partition is fixed and disjoint, so one teacher is trained anew and its
    whole vote vector may change: every count moves by -1, 0 or +1. The number of teachers is public. This adjacency is
    record-level privacy, and the default.

    ADD_REMOVE: one teacher is added or removed, and its votes are absent from every sum: all counts move in one
    direction, each by 0 or 1. An absent vote differs from a zero, because a zero is a vote to `CenteredVotes` and
    `PowersetGNMax` (docs/proofs/adjacency.md). This adjacency is the papers' convention, and no record-level privacy.
    """

    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"

    @classmethod
    def parse(cls, value: str) -> Adjacency:
        """Returns the member of that name; raises `InvalidValue` with the nearest names."""
        return cls(validation.require_choice("adjacency", str(value), tuple(cls)))

    @property
    def num_moved(self) -> int:
        """The number of teachers' contributions that one change moves: 2 or 1."""
        return 2 if self is Adjacency.REPLACE_ONE else 1

    @property
    def gap_sensitivity(self) -> int:
        """The largest move of one gap between neighboring sorted counts: 2 or 1 votes."""
        return self.num_moved

    @property
    def gap_range(self) -> int:
        """The largest move of the difference of two gaps, which may move in opposite ways: 4 or 2 votes."""
        return 2 * self.gap_sensitivity
