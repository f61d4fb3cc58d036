"""The votes of teachers that were trained: one bit each on disk, confidences from the teachers themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from shutil import rmtree
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pate.teachers import Teacher, cast_votes
from pate.validation import require
from pate.votes import VoteStore
from pate.votes.source import Array, Bits, VoteSource, mean_labels

if TYPE_CHECKING:
    from pate.run.ensemble import Ensemble


class TrainedVotes(VoteSource):
    """See `VoteSource`. Teachers are trained and asked when their votes are first read; the bits are then kept.

    Args:
        ensemble: the teachers.
        teacher: their recipe.
    """

    def __init__(self, ensemble: Ensemble, teacher: Teacher) -> None:
        self.ensemble, self.teacher = ensemble, teacher
        self.num_teachers, self.num_queries = ensemble.num_teachers, ensemble.num_queries
        self.num_labels = ensemble.dataset.num_labels
        self.records_per_teacher = ensemble.num_groups / ensemble.num_teachers

    def prepare(self) -> None:
        """See `VoteSource.prepare`."""
        self._store()

    def bits(self) -> Iterator[Bits]:
        """See `VoteSource.bits`."""
        return self._store().blocks()

    def confidences(self) -> Iterator[NDArray[np.float32]]:
        """See `VoteSource.confidences`; float32."""
        store, folder = self.ensemble.train(self.teacher), self.ensemble.folder / "casting"
        scratch = folder if self.teacher.is_isolated else None  # others answer faster than a file is written
        asked = self.ensemble.queries.inputs
        with self.ensemble.monitor.stage("casting votes", self.num_teachers) as advance:
            for first, block in cast_votes(self.teacher, store, self.num_teachers, asked, scratch=scratch):
                yield block
                advance(first + len(block))
        rmtree(folder, ignore_errors=True)

    def label_shares(self) -> Array:
        """See `VoteSource.label_shares`."""
        partition = self.ensemble.partition
        return mean_labels(self.ensemble.dataset.private.labels, partition.teacher_of, self.num_teachers)

    def _store(self) -> VoteStore:
        """The votes as bits, cast first where they are missing."""
        path = self.ensemble.folder / "votes.npz"
        shape = {"num_queries": self.num_queries, "num_labels": self.num_labels}
        if os.path.lexists(path):
            found = VoteStore.open(path, num_teachers=self.num_teachers)
            for name, wanted in shape.items():
                there = getattr(found, name)
                require(there == wanted, name, there, f"{wanted} in {path}; remove it, and teachers are asked again")
            return found
        bits = (block >= 0.5 for block in self.confidences())
        return VoteStore.write(path, bits, num_teachers=self.num_teachers, **shape)
