"""Private records that have several owners each, such as a patient and a doctor.

A release protects all records of each owner by one of two rules. `SharedRecords.from_owners` chooses the rule that
loses less information:

* Records that are linked by a chain of shared owners form one group. A group is the unit of privacy.
* Each record has a weight. The weights of one owner's records sum to at most 1.

Both rules depend on which records belong to which owner, and on no other cell. This relation is treated as public.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pate.accounting import PrivacyUnit
from pate.array_types import FloatArray, IntArray
from pate.data.split import distinct

_NUM_STEPS = 16  # raises of the weights; the weights of most data no longer change after a few
_NAMES_AT_ONCE = 2**14  # names that are Python objects at the same time
_MARGIN = 2.0**-20  # above the rounding error of a sum of weights


@dataclass(frozen=True, eq=False)
class SharedRecords:
    """The rule that protects all records of each owner, for private records that have several owners each.

    Linked records form one group, or each record has a weight; see the module.
    """

    names: tuple[str, ...]  # of the kinds of owners, at least two
    # `[num_private]`, in (0, 1]; the weights of one owner's records sum to at most 1. None where linked records are
    # one group, in which each counts like a record of a single owner.
    weights: FloatArray | None
    num_groups: int  # of linked records
    largest: int  # the number of records in the largest of these groups

    @classmethod
    def from_owners(cls, owner_kinds: tuple[str, ...], owner_numbers: Sequence[IntArray]) -> Self:
        """Chooses between groups and weights for records with the given owners.

        Args:
            owner_kinds: the kinds of owners, such as `("patient", "doctor")`.
            owner_numbers: for each kind, the number of each record's owner from 0, int64 `[num_private]`.
        """
        sizes = np.bincount(linked_groups(owner_numbers))
        weights = _weights(owner_numbers)
        # n unrelated records of one group say as much as the square root of n groups of one record; records with
        # weights say as much as the sum of their weights.
        takes_groups = np.sqrt(sizes).sum() >= weights.sum()
        return cls(
            names=owner_kinds,
            weights=None if takes_groups else weights,
            num_groups=len(sizes),
            largest=int(sizes.max()),
        )

    @property
    def unit(self) -> PrivacyUnit:
        """Returns the unit of privacy, which is all records of one owner of any kind."""
        return PrivacyUnit.of_owners(self.names)

    def description(self) -> str:
        """Returns a sentence for the owner of the records: whom the release protects, and by which rule."""
        setting = f"data.group=[{','.join(self.names)}]"
        either_name = " or ".join(f"one {name}" for name in self.names)
        rule = f"records linked by any of them are a group: {self.num_groups:,} groups, the largest of {self.largest:,}"
        if self.weights is not None:
            rule = f"no owner's records count more than once: {len(self.weights):,} count as {self.weights.sum():,.0f}"
        return f"{setting}: protects all records of {either_name}; {rule}; who belongs with whom is taken as public"


def _weights(owners: Sequence[IntArray]) -> FloatArray:
    """Returns weights `[num_private]` such that the weights of each owner's records sum to less than 1.

    A record's weight begins as 1 / m, where m is the largest number of records that one of its owners has. The steps
    raise the weight until the records of one of its owners sum to 1.

    Args:
        owners: for each kind, the number of each record's owner from 0, int64 `[num_private]`.
    """
    weights = np.ones(len(owners[0]))
    for _ in range(_NUM_STEPS):
        sums = [np.bincount(owner, weights)[owner] for owner in owners]  # of each record's owners
        weights /= np.max(sums, axis=0)
    return weights * (1 - _MARGIN)


def linked_groups(owners: Sequence[IntArray]) -> IntArray:
    """Returns the group of each record, int64 `[num_records]`, where records that share an owner have one group.

    The groups are the connected components of the graph in which an edge joins two records of one owner.

    Args:
        owners: for each kind, the number of each record's owner from 0, int64 `[num_records]`.
    """
    num_records = len(owners[0])
    # The nodes of a graph are the records, then the owners of each kind; an edge leads from a record to its owner.
    sizes = [num_records, *(int(owner.max()) + 1 for owner in owners)]
    first_nodes = np.cumsum(sizes)  # of each kind of owners; the last is the number of nodes
    record_nodes = np.tile(np.arange(num_records), len(owners))
    owner_nodes = np.concatenate(
        [first + owner for first, owner in zip(first_nodes[:-1], owners, strict=True)]
    )
    num_nodes = int(first_nodes[-1])
    edges = np.ones(len(record_nodes), np.int8)
    graph = coo_array((edges, (record_nodes, owner_nodes)), shape=(num_nodes, num_nodes))
    _, component_of_node = connected_components(graph, directed=False)
    _, group_of_record = np.unique(component_of_node[:num_records], return_inverse=True)
    return np.asarray(group_of_record, dtype=np.int64)


class OwnerNames(Set[bytes]):
    """A set of the names of owners as bytes, which are no Python objects until they are read.

    A million names take a tenth of the memory of a `frozenset`.

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
    def _from_iterable(cls, names: Iterable[Any]) -> frozenset[Any]:
        """Returns the result of `&`, `|` and `-`, which `Set` defines."""
        return frozenset(names)


def owner_names(**columns: NDArray[Any] | None) -> dict[str, OwnerNames]:
    """Returns the distinct names of the owners of each kind as bytes, for `Dataset.owners`.

    Args:
        columns: the name of each private record's owner, `[num_private]`, by kind. The kinds are `id` and `group`, as
            in tables. A name is a whole number or a text. None for a kind that the source does not have.
    """
    return {
        kind: OwnerNames(distinct(names)) for kind, names in columns.items() if names is not None
    }
