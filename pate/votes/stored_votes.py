"""A file of votes as a source: nothing but the votes is known of its teachers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pate.votes.source import Array, Bits, VoteSource
from pate.votes.store import VoteStore


class StoredVotes(VoteSource):
    """See `VoteSource`. A teacher's votes stand for its records: its label shares are the means over the queries.

    Args:
        store: the file.
    """

    def __init__(self, store: VoteStore) -> None:
        self.store, self.records_per_teacher = store, 1.0
        self.num_teachers, self.num_queries, self.num_labels = store.num_teachers, store.num_queries, store.num_labels

    def bits(self) -> Iterator[Bits]:
        """See `VoteSource.bits`."""
        return self.store.blocks()

    def label_shares(self) -> Array:
        """See `VoteSource.label_shares`."""
        return np.concatenate([block.mean(axis=1) for block in self.bits()])
