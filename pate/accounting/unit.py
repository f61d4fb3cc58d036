"""The unit of privacy: the private records that are replaced together between two neighboring data sets."""

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

    A price holds for one unit. Prices of different units have no sum: epsilon 3 for one visit and epsilon 3 for one
    patient bound nothing for a patient with several visits. So a ledger refuses to add a price of another unit.

    Attributes:
        words: the unit as a noun phrase in English, such as `one row`.
        columns: the names of the columns that define the unit, where rows with equal values belong together; empty
            where no column defines the unit.

    >>> PrivacyUnit.of_column("mrn").words
    'one value of the column mrn, with all its rows'
    """

    words: str
    columns: tuple[str, ...] = ()

    @classmethod
    def of_column(cls, column: str, *, records: str = "rows") -> Self:
        """Returns the unit of all records with the same value in one column, such as all rows of one person.

        Args:
            column: the name of the column.
            records: the plural noun for records in the unit's words.
        """
        unit_in_words = f"one value of the column {printable(column)}, with all its {records}"
        return cls(words=unit_in_words, columns=(column,))

    @classmethod
    def of_owners(cls, columns: tuple[str, ...]) -> Self:
        """Returns the unit of all rows of one owner, where a row has several owners, such as a patient and a doctor.

        Args:
            columns: the names of the columns with the owners, one column for each kind of owner.
        """
        owners = ", or one of the column ".join(map(printable, columns))
        unit_in_words = (
            f"one value of the column {owners}, with all its rows (who belongs with whom is public)"
        )
        return cls(words=unit_in_words, columns=columns)

    @classmethod
    def of_teacher(cls) -> Self:
        """Returns the unit of one teacher with all its records, for votes whose private records are unknown."""
        unit_in_words = "one teacher, with all its records"
        return cls(words=unit_in_words)

    @property
    def within_class(self) -> Self:
        """This unit, where a neighbor may replace a unit only by another unit of the same budget class.

        A budget class holds the units that have the same privacy budget.
        """
        return replace(self, words=f"{self.words}, within its budget class")

    @property
    def at_one_holder(self) -> Self:
        """This unit, restricted to the records of one data holder; holders do not see each other's records."""
        return replace(self, words=f"{self.words}, at one holder")

    def protected_under(self, adjacency: Adjacency, *, num_releases: int = 1) -> str:
        """Returns a noun phrase for the unit that a price under this adjacency protects.

        Under `REPLACE_ONE` that is this unit. Under `ADD_REMOVE` it is one teacher, because removing a record does not
        remove a teacher. Replacing a record is the removal of one teacher and the addition of another
        (docs/proofs/many_places.md).

        Args:
            adjacency: the adjacency of the price.
            num_releases: the number of releases whose total the price is, >= 1. Each release divides the records anew
                among its teachers. So where one teacher is protected, the total protects one teacher of each release.
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
        """Returns the unit as a dictionary for JSON, which `from_json` reads."""
        return {"words": self.words, "columns": list(self.columns)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Returns the unit that `to_json` wrote.

        Other values are hardly checked: `words` and each entry of `columns` are turned into text, whatever they are.
        If one of the two is missing, `KeyError` is raised. If `values` is no mapping, or `columns` cannot be iterated,
        `TypeError` is raised.
        """
        return cls(words=str(values["words"]), columns=tuple(map(str, values["columns"])))
