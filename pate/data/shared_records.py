"""Private records that have several owners each, such as a patient and a doctor.

A release protects all records of each owner by one of two rules. `SharedRecords.from_owners` chooses the rule that
loses less information:

* Records that are linked by a chain of shared owners form one group, which is protected as a whole.
* Each record has a weight. The weights of one owner's records sum to at most 1.

Both rules depend on which records belong to which owner, and on no other cell. This relation is treated as public.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pate.accounting import PrivacyUnit
from pate.array_types import FloatArray, IntArray

# How often the weights are scaled: the first time they are lowered from 1, then raised. After a few times, the sum of
# all weights hardly changes.
_NUM_SCALINGS = 16
# The share by which weights are lowered, so that sums stay below 1. It is above the rounding error of a sum.
_ROUNDING_MARGIN = 2.0**-20


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class SharedRecords:
    """The rule that protects all records of each owner, for private records that have several owners each.

    By one rule, records that a chain of shared owners links form one group, which is protected as a whole, and each of
    its owners with it. By the other rule each record has a weight, and the weights of one owner's records sum to at
    most 1.

    Attributes:
        owner_kinds: the names of the kinds of owners, at least two.
        weights: the weight of each record, `[num_private]`, in (0, 1]. The weights of one owner's records sum to at
            most 1. None if linked records form groups instead.
        num_linked_groups: the number of groups of linked records.
        largest_linked_group: the number of records in the largest of these groups.
    """

    owner_kinds: tuple[str, ...]
    weights: FloatArray | None
    num_linked_groups: int
    largest_linked_group: int

    @classmethod
    def from_owners(
        cls, owner_kinds: tuple[str, ...], owner_numbers_of_kinds: Sequence[IntArray]
    ) -> Self:
        """Returns the rule that loses less information for records with the given owners: groups or weights.

        A group of n records counts as sqrt(n), and records with weights count as the sum of their weights.

        Args:
            owner_kinds: the kinds of owners, such as `("patient", "doctor")`.
            owner_numbers_of_kinds: for each kind, the number of each record's owner from 0, int64 `[num_private]`.
        """
        records_per_linked_group = np.bincount(linked_groups(owner_numbers_of_kinds))
        weights = _weights(owner_numbers_of_kinds)
        # A group of n records is worth about as much as the square root of n groups of one record each. Records with
        # weights are worth the sum of their weights.
        worth_of_groups = np.sqrt(records_per_linked_group).sum()
        worth_of_weights = weights.sum()
        return cls(
            owner_kinds=owner_kinds,
            weights=None if worth_of_groups >= worth_of_weights else weights,
            num_linked_groups=len(records_per_linked_group),
            largest_linked_group=int(records_per_linked_group.max()),
        )

    @property
    def unit(self) -> PrivacyUnit:
        """The unit of privacy: all records of one owner of any kind."""
        return PrivacyUnit.of_owners(columns=self.owner_kinds)

    def description(self) -> str:
        """Returns a sentence for the owner of the records: whom the release protects, and by which rule."""
        setting = f"data.group=[{','.join(self.owner_kinds)}]"
        either_name = " or ".join(f"one {name}" for name in self.owner_kinds)
        if self.weights is None:
            rule = (
                f"records linked by any of them are a group: {self.num_linked_groups:,} groups, "
                f"the largest of {self.largest_linked_group:,}"
            )
        else:
            rule = (
                f"no owner's records count more than once: {len(self.weights):,} count as "
                f"{self.weights.sum():,.0f}"
            )
        return f"{setting}: protects all records of {either_name}; {rule}; who belongs with whom is taken as public"


def _weights(owner_numbers_of_kinds: Sequence[IntArray]) -> FloatArray:
    """Returns weights `[num_private]` such that the weights of each owner's records sum to less than 1.

    A record's weight begins as 1 / m, where m is the largest number of records that one of its owners has. Further
    steps raise the weights, until for each record the weights of at least one of its owners sum to nearly 1.

    Args:
        owner_numbers_of_kinds: for each kind, the number of each record's owner from 0, int64 `[num_private]`.
    """
    weights = np.ones(len(owner_numbers_of_kinds[0]))
    for _ in range(_NUM_SCALINGS):
        # For each kind of owner, the sum of the weights of the records of each record's owner.
        weight_sums_of_kinds = [
            np.bincount(owner_of_record, weights=weights)[owner_of_record]
            for owner_of_record in owner_numbers_of_kinds
        ]
        weights /= np.max(weight_sums_of_kinds, axis=0)
    return weights * (1 - _ROUNDING_MARGIN)


def linked_groups(owner_numbers_of_kinds: Sequence[IntArray]) -> IntArray:
    """Returns the number of each record's group from 0, int64 `[num_records]`; records that share an owner have one.

    The groups are the connected components of the graph in which an edge joins two records of one owner.

    Args:
        owner_numbers_of_kinds: for each kind, the number of each record's owner from 0, int64 `[num_records]`.
    """
    num_records = len(owner_numbers_of_kinds[0])
    # The nodes of a graph are the records, then the owners of each kind; an edge leads from a record to its owner.
    nums_of_owners = [int(owner_of_record.max()) + 1 for owner_of_record in owner_numbers_of_kinds]
    num_records_and_owners = [num_records, *nums_of_owners]
    # Those of each kind of owners; the last is the number of nodes.
    first_nodes = np.cumsum(num_records_and_owners)
    record_nodes = np.tile(np.arange(num_records), len(owner_numbers_of_kinds))
    owner_nodes = np.concatenate(
        [
            first_node + owner_of_record
            for first_node, owner_of_record in zip(
                first_nodes[:-1], owner_numbers_of_kinds, strict=True
            )
        ]
    )
    num_nodes = int(first_nodes[-1])
    edges_to_owners = np.ones(len(record_nodes), np.int8)
    graph = coo_array((edges_to_owners, (record_nodes, owner_nodes)), shape=(num_nodes, num_nodes))
    _, component_of_node = connected_components(graph, directed=False)
    _, group_of_record = np.unique(component_of_node[:num_records], return_inverse=True)
    return np.asarray(group_of_record, dtype=np.int64)
