"""Sums of votes in rounds over shards in workers, which are processes of this machine or actors of a cluster.

A worker holds the records of some whole teachers. In a round it gets the public question, which has the student's
weights and the clip, and returns the sum of its teachers' clipped votes. Only whole numbers are added, so the total is
the same for any number of workers.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np

from pate.array_types import IntArray
from pate.models.training import WorkersLost
from pate.threads import one_blas_thread
from pate.votes.round_records import RecordBlock, RoundRecords, ShardRecords
from pate.votes.round_shard import RoundShard
from pate.votes.round_sums import RoundSums
from pate.votes.round_votes import RoundQuestion

SAVED_ROUNDS = "rounds that were drawn are in the ledger, and are not drawn again"
"""What is saved of a release when workers are lost, for an error."""


class WorkerDied(Exception):
    """An error: a worker has ended, or cannot be reached any more. Its message has the reason, if it is known."""


class Worker(Protocol):
    """The protocol of a worker that holds a shard, the records of some whole teachers.

    All methods but `end` raise `WorkerDied` if the worker is gone.
    """

    def append(self, record_block: RecordBlock) -> None:
        """Adds the next records of the shard's teachers, in the order of the shard."""

    def total(self, question: RoundQuestion) -> IntArray:
        """Returns the sum of the clipped votes of the shard's teachers, `[num_features, num_labels]`, in grid steps.

        A step is the unit of `ClippedMoments`.
        """

    def end(self) -> None:
        """Ends the worker at once, also while another thread waits for it."""


class HeldShard:
    """A shard, the records of some whole teachers, in the process of a worker. It computes with one thread.

    Args:
        empty_shard: the shard without records, which `append` adds.
    """

    def __init__(self, empty_shard: RoundShard) -> None:
        self._shard = empty_shard

    def append(self, record_block: RecordBlock) -> None:
        """Adds the next records, in the order of the shard, and computes their features if the storage keeps them."""
        with one_blas_thread():
            self._shard.append(record_inputs=record_block.inputs, record_labels=record_block.labels)

    def total(self, round_question: RoundQuestion) -> IntArray:
        """Returns the sum of the clipped votes of the shard's teachers, `[num_features, num_labels]`, in grid steps."""
        with one_blas_thread():
            return self._shard.total(round_question)


class WorkerSums(RoundSums):
    """Sums of clipped votes in workers, each of which holds a shard, the records of some whole teachers.

    Workers are started in the first round. If a worker dies, another takes its place: the records of its shard are sent
    again, and its part of the round is computed again. Noise is drawn by the caller once the sum of a round is
    complete, so no round is drawn twice.

    Args:
        private_records: the private records of all teachers.
        num_workers: the largest number of workers.
        max_deaths: the number of times that workers may die; the next death raises `WorkersLost`.
    """

    def __init__(self, private_records: RoundRecords, *, num_workers: int, max_deaths: int) -> None:
        shards_of_workers = private_records.shards(num_shards=num_workers)
        self._worker_slots = [
            _WorkerSlot(shard_records)
            for shard_records in shards_of_workers
            if len(shard_records.dataset_rows) > 0
        ]
        self._max_deaths = max_deaths
        self._num_deaths = 0
        self._is_closed = False
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(len(self._worker_slots), thread_name_prefix="shards")

    def total(self, question: RoundQuestion) -> IntArray:
        """Returns the sum of the clipped votes of all teachers, `[num_features, num_labels]`, in grid steps.

        Raises:
            WorkersLost: workers have died more than `max_deaths` times, or `close` was called during the round.
        """
        answers = [
            self._threads.submit(self._sum_of_shard, worker_slot, round_question=question)
            for worker_slot in self._worker_slots
        ]
        total = np.zeros(question.student_weights.shape, dtype=np.int64)
        for answer in answers:
            total += answer.result()
        return total

    def close(self) -> None:
        """Ends all workers, also in the middle of a round."""
        with self._lock:
            self._is_closed = True
            workers = [
                worker_slot.worker
                for worker_slot in self._worker_slots
                if worker_slot.worker is not None
            ]
        for worker in workers:
            worker.end()
        self._threads.shutdown(wait=True, cancel_futures=True)

    @abstractmethod
    def _start(self, empty_shard: RoundShard, *, is_replacement: bool) -> Worker:
        """Returns a new worker, which holds a shard without records.

        Args:
            empty_shard: the shard, whose records the caller adds.
            is_replacement: whether the worker takes the place of a worker that died.
        """

    @abstractmethod
    def _reason(self, death: WorkerDied, *, num_deaths: int) -> str:
        """Returns the beginning of the message of `WorkersLost`, which names the kind of worker and the cause."""

    def _sum_of_shard(self, worker_slot: _WorkerSlot, *, round_question: RoundQuestion) -> IntArray:
        """Returns the sum of the clipped votes of one shard's teachers, `[num_features, num_labels]`, in grid steps.

        If no worker holds the shard's records, one is started and filled. If it dies, another takes its place.
        """
        # If a round was interrupted, its question is answered before the next one is sent.
        with worker_slot.asking:
            while True:
                try:
                    return self._filled_worker(worker_slot).total(round_question)
                except WorkerDied as death:
                    self._remove_worker(worker_slot, death=death)

    def _filled_worker(self, worker_slot: _WorkerSlot) -> Worker:
        """Returns the worker that holds all records of a shard; starts and fills one if there is none."""
        if worker_slot.worker is not None and worker_slot.is_filled:
            return worker_slot.worker
        if worker_slot.worker is not None:
            worker_slot.worker.end()  # An error interrupted the sending of its records.
        worker = self._start(
            worker_slot.shard_records.empty_shard(), is_replacement=worker_slot.has_died
        )
        with self._lock:
            worker_slot.worker = worker
            is_closed = self._is_closed
        if is_closed:
            worker.end()
        for record_block in worker_slot.shard_records.blocks():
            worker.append(record_block)
        worker_slot.is_filled = True
        return worker

    def _remove_worker(self, worker_slot: _WorkerSlot, *, death: WorkerDied) -> None:
        """Ends a worker that died, which may still hold memory.

        Raises `WorkersLost` if more than `max_deaths` workers have died, or if `close` was called.
        """
        with self._lock:
            worker = worker_slot.worker
            worker_slot.worker = None
            worker_slot.is_filled = False
            worker_slot.has_died = True
            self._num_deaths += 1
            num_deaths = self._num_deaths
            is_closed = self._is_closed
        if worker is not None:
            worker.end()
        if is_closed or num_deaths > self._max_deaths:
            raise WorkersLost(
                f"{self._reason(death, num_deaths=num_deaths)}; {SAVED_ROUNDS}"
            ) from death


class _WorkerSlot:
    """The place of a worker: the records of a shard, and the worker that holds them now.

    Args:
        shard_records: the records of some whole teachers.
    """

    def __init__(self, shard_records: ShardRecords) -> None:
        self.shard_records = shard_records
        self.worker: Worker | None = None  # None before the first round, and after a death
        self.is_filled = False  # whether the worker has all records
        self.has_died = False  # whether a worker of this shard has died
        self.asking = threading.Lock()  # the lock that is held while the worker is filled or asked
