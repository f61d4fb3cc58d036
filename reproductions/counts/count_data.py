"""Counts of people by item, with what has to be said about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.validation import require, require_count, require_histogram


@dataclass(frozen=True)
class CountData:
    """One histogram, or one for each of several days; no count moves by more than 1 with one person.

    Attributes:
        name: for tables.
        real: False for what a generator made.
        items: the d names, such as places.
        counts: int64 `[d]` or `[days, d]`, each in 0..`most`.
        most: a public bound on every count, such as the number of people.
        notes: what was dropped or changed on the way, one sentence each.

    >>> CountData("toy", False, ("a", "b"), np.array([3, 1]), most=4).counts
    array([3, 1])
    """

    name: str
    real: bool
    items: tuple[str, ...]
    counts: NDArray[np.int64]
    most: int
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_count("most", self.most)
        checked = require_histogram("counts", self.counts, num_teachers=self.most)
        require(checked.shape[-1] == len(self.items), "counts.shape", checked.shape, f"{len(self.items)} items")

    @property
    def kind(self) -> str:
        """Whether the counts are real, in a word."""
        return "real" if self.real else "synthetic"


def count_visitors(
    name: str, users: Sequence[int], places: Sequence[int], items: tuple[str, ...], *, notes: tuple[str, ...] = ()
) -> CountData:
    """How many users visited each place; a user counts once at a place however often they came.

    Args:
        name: of the data.
        users: `[n]` a number for each visit's user, from 0 without holes.
        places: `[n]` the index of each visit's place in `items`.
        items: names of the places.
        notes: what the reader has to say.
    """
    require(len(users) > 0, "visits", 0, "at least one")
    pairs = np.unique(np.asarray(users, dtype=np.int64) * len(items) + np.asarray(places, dtype=np.int64))
    counts = np.bincount(pairs % len(items), minlength=len(items)).astype(np.int64)
    num_users = int(max(users)) + 1
    said = (f"{num_users:,} users, {len(users):,} visits of {len(pairs):,} pairs of user and place", *notes)
    return CountData(name, True, items, counts, most=num_users, notes=said)
