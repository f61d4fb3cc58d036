"""The unit of privacy: which private records one change replaces together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from pate.accounting.adjacency import Adjacency
from pate.validation import printable

__all__ = ["PrivacyUnit"]


@dataclass(frozen=True)
class PrivacyUnit:
    """A unit of privacy: the private records that a guarantee protects together.

    A price is for one unit. Prices of different units have no sum: epsilon 3 for one visit and epsilon 3 for one
    patient bound nothing for a patient with several visits. So a ledger adds up equal units alone.

    Attributes:
        words: the unit as a noun, such as `one row`.
        columns: the columns whose values make a unit; empty where no column does.

    >>> PrivacyUnit.of_column("mrn").words
    'one value of the column mrn, with all its rows'
    """

    words: str
    columns: tuple[str, ...] = ()

    @classmethod
    def of_column(cls, column: str, *, records: str = "rows") -> Self:
        """Returns the unit of records that have one value in a column, such as all rows of one person."""
        return cls(
            f"one value of the column {printable(column)}, with all its {records}", (column,)
        )

    @classmethod
    def of_owners(cls, columns: tuple[str, ...]) -> Self:
        """Returns the unit of rows that have several owners each, such as a patient and a doctor."""
        owners = ", or one of the column ".join(map(printable, columns))
        words = (
            f"one value of the column {owners}, with all its rows (who belongs with whom is public)"
        )
        return cls(words, columns)

    @classmethod
    def of_teacher(cls) -> Self:
        """Returns the unit of votes about whose records nothing is known."""
        return cls("one teacher, with all its records")

    @property
    def within_class(self) -> Self:
        """The unit where a neighbor may replace it only by another unit that agreed to the same budget."""
        return replace(self, words=f"{self.words}, within its budget class")

    @property
    def at_one_holder(self) -> Self:
        """The unit within one holder's records, where holders cannot know of each other's records."""
        return replace(self, words=f"{self.words}, at one holder")

    def protected_under(self, adjacency: Adjacency, *, num_releases: int = 1) -> str:
        """Returns in words the unit that the price of a release protects, or the total of several releases.

        To add or remove a teacher is no change of one record, because the teacher of a removed record stays. To replace
        a record is to remove a teacher and to add another (docs/proofs/many_places.md). Another release deals records
        to other teachers, so a total of several releases is for one teacher of each release.
        """
        teacher = self.of_teacher()
        if adjacency is Adjacency.REPLACE_ONE and self != teacher:
            return self.words
        words = teacher.words
        each_time = ""
        if num_releases > 1:
            words = "one teacher of each release, with all its records"
            each_time = " in each"
        if self == teacher:
            return words
        return f"{words}; to replace {self.words}, counts as two such changes{each_time}"

    def to_json(self) -> dict[str, Any]:
        """Returns plain values, which `from_json` reads."""
        return {"words": self.words, "columns": list(self.columns)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads what `to_json` wrote; raises `KeyError`, `TypeError` or `ValueError` for anything else."""
        return cls(str(values["words"]), tuple(map(str, values["columns"])))
