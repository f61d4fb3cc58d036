"""Records of several owners each, such as a patient and a doctor: how every owner is protected by one price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

_STEPS = 16
_MARGIN = 2.0**-20  # above the rounding error of a sum of weights

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SharedRecords:
    """What private records count that have several owners, by who belongs with whom alone, which is taken as public."""

    names: tuple[str, ...]  # of the kinds of owners, at least two
    # `[num_private]`, in (0, 1]: what each record counts, so that those of one owner count 1 at most together; None
    # where records that are linked through any owners are one group.
    weights: NDArray[np.float64] | None
    num_groups: int  # of linked records
    largest: int  # how many records the largest of these has

    @classmethod
    def of(cls, names: tuple[str, ...], owners: Sequence[Numbers]) -> Self:
        """By the rule that leaves more of what records say, from the owner of each record `[n]`, >= 0, of each kind."""
        # n records of one group, which have nothing to do with each other, say as much as the root of n. Records that
        # count w of one each say as much as the sum of their w.
        sizes, weights = np.bincount(linked(owners)), np.ones(len(owners[0]))
        # Each begins with 1 over the number of records of its owner who has most. Where all its owners then have room,
        # it is raised until one of them has none.
        for _ in range(_STEPS):
            weights /= np.max([np.bincount(each, weights)[each] for each in owners], axis=0)
        weights *= 1 - _MARGIN
        keeps = np.sqrt(sizes).sum() >= weights.sum()
        return cls(names, None if keeps else weights, len(sizes), int(sizes.max()))

    @property
    def unit(self) -> str:
        """What is protected, in words."""
        one = " or ".join(f"one {name}" for name in self.names)
        return f"all records of {one} replaced by others that belong to the same: who belongs with whom is public"

    def said(self) -> str:
        """What whoever runs it should know, in a line."""
        setting, one = f"data.group=[{','.join(self.names)}]", " or ".join(f"one {name}" for name in self.names)
        told = f"records linked by any of them are a group: {self.num_groups:,} groups, the largest of {self.largest:,}"
        if self.weights is not None:
            told = f"no owner's records count more than once: {len(self.weights):,} count as {self.weights.sum():,.0f}"
        return f"{setting}: protects all records of {one}; {told}; who belongs with whom is taken as public"


def linked(owners: Sequence[Numbers]) -> Numbers:
    """The group of each record, `[n]`: records are in one group if a chain of shared owners leads between them."""
    count, first = len(owners[0]), len(owners[0])
    ends = []
    for each in owners:
        ends.append(each + first)
        first += int(each.max()) + 1
    pairs = np.tile(np.arange(count), len(owners)), np.concatenate(ends)
    graph = coo_array((np.ones(len(pairs[0]), np.int8), pairs), shape=(first, first))
    return np.unique(connected_components(graph, directed=False)[1][:count], return_inverse=True)[1].astype(np.int64)
