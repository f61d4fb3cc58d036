"""The teachers of a fit: each is fitted, votes, and is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from pate.accounting import Ledger
from pate.aggregators import Aggregator, Release, counts_for
from pate.classifier.pools import Pools
from pate.classifier.tasks import Bits, Rows, Task
from pate.data.partition import Partition
from pate.run.randomness import Streams


def votes_of_teachers(
    task: Task, estimator: Any, pools: Pools, *, num_teachers: int, streams: Streams, num_jobs: int | None
) -> Iterator[Bits]:
    """The votes of one teacher after the other, `[Q, L]` each.

    Partition and seeds are those of a run with the same streams, so its votes are the same.
    """
    partition = Partition.draw(pools.groups, num_teachers, streams.generator("partition"))
    seeds = streams.seeds("teachers", num_teachers)
    rows = [partition.indices(teacher) for teacher in range(num_teachers)]
    vote: Iterator[Bits] = Parallel(n_jobs=num_jobs, return_as="generator")(
        delayed(_vote)(task, estimator, pools.inputs[part], pools.targets[part], seed, pools.queries)
        for part, seed in zip(rows, seeds, strict=True)
    )
    return vote


def release_votes(
    aggregator: Aggregator, votes: Iterator[Bits], *, num_teachers: int, streams: Streams, ledger: Ledger
) -> Release:
    """Hands votes to an aggregator in the form that it reads; it charges the ledger before it draws."""
    each = aggregator.reads == "teacher_votes"  # an array, since some read it twice
    given: Any = np.stack(list(votes)) if each else counts_for(aggregator, (bits[None] for bits in votes))
    return aggregator.aggregate(given, num_teachers=num_teachers, rng=streams.generator("noise"), ledger=ledger)


def _vote(task: Task, estimator: Any, inputs: Rows, targets: Bits, seed: int, queries: Rows) -> Bits:
    """On one thread, whose last bits do not depend on the machine's load."""
    with threadpool_limits(1):
        return task.fit(estimator, inputs, targets, seed=seed).bits(queries)
