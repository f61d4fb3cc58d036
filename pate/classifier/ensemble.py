"""The teachers and the student of a classifier: scikit-learn estimators, fitted and asked."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from pate.aggregators import TrainingSet
from pate.classifier.pools import Pools, taken
from pate.classifier.tasks import Bits, FittedModel, Rows, Task
from pate.data.partition import Partition
from pate.models.sklearn import of_a_part
from pate.models.student import OnEpoch
from pate.run.randomness import Streams
from pate.validation import InvalidValue
from pate.votes.source import Array, VoteSource, mean_labels


@contextmanager
def stage(name: str, verbose: int) -> Iterator[None]:
    """Says on standard output, as scikit-learn does, what was done and how long it took."""
    started = time.monotonic()
    yield
    if verbose:
        sys.stdout.write(f"[PATEClassifier] {name}: {time.monotonic() - started:.1f} s\n")


class FittedVotes(VoteSource):
    """Votes of clones of an estimator, one teacher per block; all are fitted every time that they are asked.

    Partition and seeds are those of a run with the same streams, so its votes are the same. `num_jobs` and `verbose`
    are joblib's.
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
        return (block >= 0.5 for block in self.confidences())

    def confidences(self) -> Iterator[NDArray[np.float32]]:
        inputs, targets, queries = self.pools.inputs, self.pools.targets, self.pools.queries
        rows = [self.partition.indices(teacher) for teacher in range(self.num_teachers)]
        pool = Parallel(n_jobs=self.num_jobs, return_as="generator", verbose=self.verbose)
        said: Iterator[NDArray[np.float32]] = pool(
            delayed(_confidences)(self.task, self.estimator, taken(inputs, shard), targets[shard], seed, queries)
            for shard, seed in zip(rows, self.seeds, strict=True)
        )
        return said

    def label_shares(self) -> Array:
        return mean_labels(self.pools.targets, self.partition.teacher_of, self.num_teachers)


def _confidences(
    task: Task, estimator: Any, inputs: Rows, targets: Bits, seed: int, queries: Rows
) -> NDArray[np.float32]:
    """On one thread, whose last bits do not depend on the machine's load: `[1, Q, L]`."""
    with threadpool_limits(1), of_a_part(estimator):
        return task.fit(estimator, inputs, targets, seed=seed).confidences(queries)[None]


_REHEARSED, _FEWEST = 200, 20
_SHOWN = 120


@dataclass(frozen=True)
class EstimatorStudent:
    """A `Learner`: a clone of an estimator, fitted to the answers that it can learn from."""

    task: Task  # how an estimator is fitted to labels
    estimator: Any  # unfitted

    def learn(self, training: TrainingSet, *, pool: Rows, seed: int, on_epoch: OnEpoch | None = None) -> FittedModel:
        """Without the pool and the scores, for which estimators have no use."""
        rows = self.task.usable(training.labels)
        return self.task.fit(self.estimator, taken(training.inputs, rows), training.labels[rows], seed=seed)

    def rehearse(self, name: str, queries: Any) -> None:
        """Fits the estimator to public samples and labels that say nothing, before anything is charged.

        Raises:
            InvalidValue: it cannot take such inputs.
        """
        some = queries[:_REHEARSED]
        if len(some) < _FEWEST:
            return
        bits = np.zeros((len(some), self.task.num_labels), np.bool_)
        bits[np.arange(len(some)), np.arange(len(some)) % min(2, self.task.num_labels)] = True
        try:
            self.task.fit(self.estimator, some, bits, seed=0).predict(some)
        except (ValueError, TypeError) as error:
            said = " ".join(str(error).split())[:_SHOWN]
            rule = f"one that takes the columns of X, such as a pipeline with a ColumnTransformer ({said})"
            raise InvalidValue(f"{name}={type(self.estimator).__name__}: expected {rule}") from error
