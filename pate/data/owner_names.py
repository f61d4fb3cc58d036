"""The names of the people and records of a private split, by which a ledger recognizes them in other data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Any

from numpy.typing import NDArray

from pate.data.id_arrays import distinct

# The number of names that are Python objects at the same time.
_NAMES_AT_ONCE = 2**14


class OwnerNames(Set[bytes]):
    """A set of the names of owners or records as bytes, which are no Python objects until they are read.

    A million whole numbers take a tenth of the memory of a `frozenset` of names.

    Args:
        names: an array of distinct whole numbers or texts, of numpy or pyarrow. A number is named by its digits.
    """

    def __init__(self, names: Any) -> None:
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[bytes]:
        for first in range(0, len(self), _NAMES_AT_ONCE):
            for name in self._names[first : first + _NAMES_AT_ONCE].tolist():
                yield str(name).encode()

    def __contains__(self, name: object) -> bool:
        return any(name == other for other in self)

    @classmethod
    def _from_iterable(cls, owner_or_record_names: Iterable[Any]) -> frozenset[Any]:
        """Returns a frozenset of the names; the base class `Set` calls it for the results of `&`, `|` and `-`."""
        return frozenset(owner_or_record_names)


def owner_names(
    *, names_of_records: NDArray[Any] | None, names_of_owners: NDArray[Any] | None
) -> dict[str, OwnerNames]:
    """Returns the distinct names of records by the key "id", and those of their owners by "group".

    A key is left out if the source has no such names. The result is for `Dataset.owners`.

    Args:
        names_of_records: names of the private records, whole numbers or texts; None if the source has none.
        names_of_owners: names of the owners of the private records, such as persons; None if the source has none.
    """
    names_of_kind = {"id": names_of_records, "group": names_of_owners}
    return {
        kind: OwnerNames(distinct(names))
        for kind, names in names_of_kind.items()
        if names is not None
    }
