"""Adjacency: the definition of neighboring data sets for which a price holds."""

from __future__ import annotations

from enum import StrEnum

from pate.validation import require_choice


class Adjacency(StrEnum):
    """The definition of neighboring data sets: the difference between two data sets that a guarantee hides.

    REPLACE_ONE: one private record is replaced. The partition of records among teachers is fixed and disjoint, so one
    teacher is trained on other data and its whole vote vector may differ. Every vote count differs by -1, 0 or +1. The
    number of teachers is public. This adjacency gives record-level privacy, and is the default.

    ADD_REMOVE: one teacher is added or removed. A removed teacher contributes to no sum, so all counts move in one
    direction, each by 0 or 1. An absent vote differs from a zero, because a zero is a vote to `CenteredVotes` and
    `PowersetGNMax` (docs/proofs/adjacency.md). This adjacency is the papers' convention. It does not give record-level
    privacy.
    """

    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"

    @classmethod
    def parse(cls, value: str) -> Adjacency:
        """Returns the adjacency with this name, such as `replace_one`; raises `InvalidValue` for an unknown name."""
        return cls(require_choice("adjacency", str(value), choices=tuple(cls)))

    @property
    def num_moved(self) -> int:
        """The number of vote vectors by which neighbors differ.

        It is 2 under `REPLACE_ONE` (one vector leaves, another one comes), and 1 under `ADD_REMOVE`.
        """
        return 2 if self is Adjacency.REPLACE_ONE else 1

    @property
    def gap_sensitivity(self) -> int:
        """The largest difference, between neighbors, of one gap of the sorted counts, in votes.

        It is 2 under `REPLACE_ONE`, and 1 under `ADD_REMOVE`.
        """
        return self.num_moved

    @property
    def gap_range(self) -> int:
        """The largest change of "gap i minus gap j" from one neighbor to the other, over all gaps i and j, in votes.

        A gap is the difference of two successive sorted counts. The result is 4 under `REPLACE_ONE`, and 2 under
        `ADD_REMOVE`. One gap may grow while the other shrinks, so the result is twice the sensitivity of one gap.
        """
        return 2 * self.gap_sensitivity
