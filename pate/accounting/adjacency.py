"""Which pairs of data sets the price protects: the adjacency, and what one change can do to votes."""

from __future__ import annotations

from enum import StrEnum

from pate.validation import require_choice


class Adjacency(StrEnum):
    """Which change of the private data the guarantee is about.

    Attributes:
        REPLACE_ONE: one private record changes. The partition is fixed and disjoint, so one teacher is
            trained anew and its whole vote vector may change arbitrarily: every count moves by -1, 0 or
            +1, in both directions at once. The number of teachers is public. This is record-level
            privacy, and the default everywhere.
        ADD_REMOVE: one teacher is added or removed, and its votes are absent from every sum: all counts
            move in one direction, each by 0 or 1. Absent is not zero: a vote of zero is minus the center
            to `CenteredVotes`, which would cost twice, and the empty set to `PowersetGNMax`, which would
            cost 6 times its delta (docs/proofs/adjacency.md). The papers' convention; not record-level
            privacy.
    """

    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"

    @classmethod
    def parse(cls, value: str) -> Adjacency:
        """The member of that name; raises `InvalidValue` with the nearest names."""
        return cls(require_choice("adjacency", str(value), tuple(cls)))

    @property
    def gap_sensitivity(self) -> int:
        """The most by which one gap between neighboring sorted counts moves: 2 or 1 votes."""
        return 2 if self is Adjacency.REPLACE_ONE else 1

    @property
    def gap_range(self) -> int:
        """The most by which the difference of two gaps moves, as they may move in opposite ways: 4 or 2."""
        return 2 * self.gap_sensitivity
