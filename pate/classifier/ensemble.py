"""The teachers of a fit: each is fitted, votes, and is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from pate.classifier.frames import taken
from pate.classifier.pools import Pools
from pate.classifier.tasks import Bits, Rows, Task
from pate.data.partition import Partition
from pate.run.randomness import Streams
from pate.teachers.sklearn import of_a_part
from pate.votes.source import Array, VoteSource, mean_labels


class FittedVotes(VoteSource):
    """See `VoteSource`. Partition and seeds are those of a run with the same streams, so its votes are the same.

    Args:
        task: how an estimator is fitted to labels.
        estimator: cloned for every teacher.
        pools: private records and public samples.
        num_teachers: N.
        streams: for the partition and the teachers' seeds.
        num_jobs: processes, as in joblib.
        verbose: how much joblib says of them.
    """

    def __init__(
        self,
        task: Task,
        estimator: Any,
        pools: Pools,
        *,
        num_teachers: int,
        streams: Streams,
        num_jobs: int | None,
        verbose: int = 0,
    ) -> None:
        self.task, self.estimator, self.pools, self.num_jobs = task, estimator, pools, num_jobs
        self.verbose = verbose
        self.num_teachers, self.num_queries, self.num_labels = num_teachers, len(pools.queries), task.num_labels
        self.partition = Partition.draw(pools.groups, num_teachers, streams.generator("partition"))
        self.seeds = streams.seeds("teachers", num_teachers)
        self.records_per_teacher = len(np.unique(pools.groups)) / num_teachers

    def bits(self) -> Iterator[Bits]:
        """See `VoteSource.bits`; one teacher per block."""
        return (block >= 0.5 for block in self.confidences())

    def confidences(self) -> Iterator[NDArray[np.float32]]:
        """See `VoteSource.confidences`; fits all teachers every time that it is called."""
        inputs, targets, queries = self.pools.inputs, self.pools.targets, self.pools.queries
        rows = [self.partition.indices(teacher) for teacher in range(self.num_teachers)]
        said: Iterator[NDArray[np.float32]] = Parallel(
            n_jobs=self.num_jobs, return_as="generator", verbose=self.verbose
        )(
            delayed(_confidences)(self.task, self.estimator, taken(inputs, shard), targets[shard], seed, queries)
            for shard, seed in zip(rows, self.seeds, strict=True)
        )
        return said

    def label_shares(self) -> Array:
        """See `VoteSource.label_shares`."""
        return mean_labels(self.pools.targets, self.partition.teacher_of, self.num_teachers)


def _confidences(
    task: Task, estimator: Any, inputs: Rows, targets: Bits, seed: int, queries: Rows
) -> NDArray[np.float32]:
    """On one thread, whose last bits do not depend on the machine's load: `[1, Q, L]`."""
    with threadpool_limits(1), of_a_part(estimator):
        return task.fit(estimator, inputs, targets, seed=seed).confidences(queries)[None]
