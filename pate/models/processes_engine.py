"""The engine that works in several processes of this machine, and the way in which its workers end.

A worker must end when its run ends. Otherwise the next run would train the same teachers again. A worker must
also ignore Ctrl-C, as the run itself ends its workers.
"""

import _thread
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing.resource_tracker import ensure_running
from typing import Any

from pate.models.engines import Engine
from pate.models.hyperparameters import require_settings
from pate.models.teacher import State
from pate.models.training import ChunkTask, TrainingJob, WorkersLost
from pate.votes.round_records import RoundRecords
from pate.votes.round_sums import RoundSums

WORKER_ENVIRONMENT = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
"""The environment of a worker: one thread for each library that has threads of its own."""

_WATCH_SECONDS = 0.1  # the time between two checks of whether the parent runs


@dataclass(frozen=True)
class ProcessesEngine(Engine):
    """An engine that trains chunks of teachers, and sums votes in rounds, in several processes with one thread each.

    Records and trained teachers travel between processes through pipes, never through files. A script that uses this
    engine needs no `if __name__ == "__main__"` guard. If a worker dies, the teachers that are being trained at that
    moment are trained again by new workers. The workers of a killed run end by themselves.

    Attributes:
        num_workers: the number of processes; None starts one for each core that this process may use.
        chunk_size: the number of teachers in a chunk. With the chunk size of `ThreadsEngine`, teachers have the same
            bytes.
        max_deaths: the number of times that workers may die; the run gives up when they die once more.
    """

    num_workers: int | None = None
    chunk_size: int = 16
    max_deaths: int = 2

    def __post_init__(self) -> None:
        require_settings(self)

    def round_sums(self, records: RoundRecords) -> RoundSums:
        """Returns an object that sums the votes of each round in worker processes with one thread each.

        If a worker dies, another takes its place, with the same records, up to `max_deaths` times in all rounds.
        """
        from joblib import cpu_count  # loads slowly

        from pate.models.process_sums import ProcessSums

        num_workers = self.num_workers or cpu_count()
        return ProcessSums(
            private_records=records, num_workers=num_workers, max_deaths=self.max_deaths
        )

    def train(self, job: TrainingJob) -> None:
        """Trains the missing teachers of a job; starts new workers if some have died.

        Raises:
            WorkersLost: workers have died more than `max_deaths` times.
        """
        for num_deaths in range(self.max_deaths + 1):
            try:
                self._train_once(job)
                return
            except BrokenProcessPool as error:
                if num_deaths == self.max_deaths:
                    cause = "killed, or out of memory: a smaller engine.num_workers or engine.chunk_size takes less"
                    raise WorkersLost(
                        f"worker processes died {num_deaths + 1} times ({cause}); {job.summary}"
                    ) from error

    def _train_once(self, job: TrainingJob) -> None:
        """Trains the missing teachers in a new pool of processes; raises `BrokenProcessPool` if a process dies."""
        from joblib import cpu_count  # loads slowly

        teacher_index_ranges = job.chunks(self.chunk_size)
        num_workers = min(self.num_workers or cpu_count(), max(len(teacher_index_ranges), 1))
        with _worker_pool(num_workers) as worker_pool:
            job.run(teacher_index_ranges, workers=worker_pool)


class _WorkerProcesses:
    """A pool of worker processes that implements the protocol `Workers`."""

    def __init__(self, executor: Any, *, num_workers: int) -> None:
        self._executor = executor
        self.max_running = num_workers + 1  # one chunk waits, so that no worker has to

    def submit(self, task: ChunkTask) -> Future[dict[int, State]]:
        """Sends a task to the pool."""
        with _blocked_signals():  # a worker may start in the block
            future: Future[dict[int, State]] = self._executor.submit(task)
        return future

    def gather(
        self, task_handles: list[Future[dict[int, State]]], timeout: float
    ) -> tuple[Iterable[dict[int, State]], Iterable[Any]]:
        """Waits until a task has ended, at most `timeout` seconds.

        Returns the teachers of the ended tasks, which are read lazily, and the handles of the other tasks.

        Failed tasks come last, since reading their teachers raises the error.
        """
        finished_futures, unfinished_futures = wait(
            task_handles, timeout=timeout, return_when=FIRST_COMPLETED
        )
        failed_last = sorted(finished_futures, key=lambda future: future.exception() is not None)
        return (future.result() for future in failed_last), unfinished_futures


@contextmanager
def _worker_pool(num_workers: int) -> Iterator[_WorkerProcesses]:
    """Starts worker processes for a `with` block, and ends them after the block.

    If the block raises an error, the workers are ended at once.
    """
    # The pool that joblib shares is of another kind, so workers get a pool of their own.
    from joblib.externals.loky import ProcessPoolExecutor

    with _blocked_signals():
        executor = ProcessPoolExecutor(
            num_workers, env=WORKER_ENVIRONMENT, initializer=end_with, initargs=(os.getpid(),)
        )
    succeeded = False
    try:
        yield _WorkerProcesses(executor, num_workers=num_workers)
        succeeded = True
    finally:
        # The executor's thread may look for a task that was just dropped, and would print a traceback.
        hook_before = threading.excepthook
        threading.excepthook = _ignore_thread_error
        try:
            executor.shutdown(wait=True, kill_workers=not succeeded)
        finally:
            threading.excepthook = hook_before


def _ignore_thread_error(error: threading.ExceptHookArgs) -> None:
    """Prints nothing; it takes the place of `threading.excepthook` while the workers are ended."""


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """Blocks SIGINT, SIGTERM and SIGHUP in this thread during a `with` block.

    Processes that are started in the block inherit the blocked signals, so Ctrl-C does not end them. If a signal
    arrives during the block, this process handles it once the block has ended, and ends the workers itself.
    """
    ensure_running()  # a tracker that starts with the first worker would let Ctrl-C through again
    signals = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask_before)


@cache  # one watching thread for each worker
def end_with(parent_process_id: int, node_process_id: int | None = None) -> None:
    """Makes this process end soon after its parent, or the process `node_process_id`, has ended.

    A worker that lives longer than its run would train teachers that the next run trains, too.

    Args:
        parent_process_id: the id of the parent process.
        node_process_id: the id of a second process, such as Ray's on this machine, whose end also ends this process;
            None if there is none.
    """

    def watch() -> None:
        while os.getppid() == parent_process_id and _is_running(
            node_process_id or parent_process_id
        ):
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    # `threading.Thread.start` would wait forever for a thread that cannot start for lack of memory.
    _thread.start_new_thread(watch, ())


def _is_running(process_id: int) -> bool:
    """Returns True if a process with this id runs, of any user."""
    with suppress(PermissionError):  # another user's process is running
        try:
            os.kill(process_id, 0)
        except ProcessLookupError:
            return False
    return True
