"""Teachers for runs that are killed: one notes each training that came to its end, one keeps features on a disk."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pate.data import Dataset, Partition
from pate.files.array_rows import Spilled
from pate.models import CNNTeacher, KernelTeacher, Shard
from pate.models.kernel_votes import KernelVotes
from pate.models.teacher import State
from pate.votes.feature_rows import FeatureStorage
from pate.votes.moment_votes import MomentVotes


@dataclass(frozen=True)
class WitnessedTeacher(CNNTeacher):
    """A teacher trained as its parent is, which appends its seed and the time to a file in one write."""

    log: str = os.devnull  # the file

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """See `Teacher.fit_many`."""
        states = super().fit_many(shards, seeds)
        lines = "".join(f"{seed} {time.time():.3f}\n" for seed in seeds)
        with open(self.log, "ab", buffering=0) as log:
            log.write(lines.encode())
        return states


@dataclass(frozen=True)
class SpillingTeacher(KernelTeacher):
    """A kernel teacher whose features lie in scratch files, however few records there are."""

    def votes_of(self, dataset: Dataset, partition: Partition, num_queries: int) -> KernelVotes:
        """See `KernelTeacher.votes_of`."""
        return replace(
            super().votes_of(dataset, partition, num_queries), make_moment_votes=SpillingMoments
        )


class SpillingMoments(MomentVotes):
    """Votes in rounds whose features lie in scratch files."""

    def __post_init__(self) -> None:
        self.feature_storage = OnDisk(folder=self.feature_storage.folder)
        super().__post_init__()


class OnDisk(FeatureStorage):
    """A storage that keeps features in a scratch file from the first row on."""

    def empty_rows(self) -> Spilled:
        """Returns an empty place for features."""
        return Spilled(most_bytes=0, folder=self.folder)
