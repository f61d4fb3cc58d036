"""The engine that trains teachers in several processes of this machine, and how its workers end.

A worker must not outlive its run, or the next run would train the same teachers beside it. It must not answer Ctrl-C
either: the run stops its workers in order.
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

# the environment of a worker: one thread for each library that counts threads of its own
WORKER_ENVIRONMENT = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
_WATCH_SECONDS = 0.1


@dataclass(frozen=True)
class ProcessesEngine(Engine):
    """Trains a chunk of teachers in each of several processes, one thread each.

    Each record is sent to one worker, and each teacher back, through a pipe, never through a file. A script needs no
    `if __name__ == "__main__"` guard. A worker that dies costs the teachers in work at that moment, and the run goes on
    with new workers; workers of a run that was killed end themselves.

    Attributes:
        num_workers: processes; None for as many as there are cores to this process.
        chunk_size: teachers in a batch; with that of `StackedEngine` the checkpoints are the same bytes.
        max_deaths: how many times workers may die before the run gives up.
    """

    num_workers: int | None = None
    chunk_size: int = 16
    max_deaths: int = 2

    def __post_init__(self) -> None:
        require_settings(self)

    def train(self, job: TrainingJob) -> None:
        """Trains the missing teachers, with new workers where some died; raises `WorkersLost` after too many deaths."""
        for deaths in range(self.max_deaths + 1):
            try:
                self._train_once(job)
                return
            except BrokenProcessPool as error:
                if deaths == self.max_deaths:
                    cause = "killed, or out of memory: a smaller engine.num_workers or engine.chunk_size takes less"
                    raise WorkersLost(
                        f"worker processes died {deaths + 1} times ({cause}); {job.summary}"
                    ) from error

    def _train_once(self, job: TrainingJob) -> None:
        from joblib import cpu_count  # loads slowly

        chunks = job.chunks(self.chunk_size)
        with _worker_pool(min(self.num_workers or cpu_count(), max(len(chunks), 1))) as workers:
            job.run(chunks, workers)


class _WorkerProcesses:
    """The processes of a pool as `Workers`."""

    def __init__(self, executor: Any, num_workers: int) -> None:
        self._executor = executor
        self.max_running = num_workers + 1  # one chunk waits, so that no worker does

    def submit(self, task: ChunkTask) -> Future[dict[int, State]]:
        """Sends a task to the pool."""
        with _interrupts_held():  # a worker may start meanwhile
            future: Future[dict[int, State]] = self._executor.submit(task)
        return future

    def gather(
        self, handles: list[Future[dict[int, State]]], timeout: float
    ) -> tuple[Iterable[dict[int, State]], Iterable[Any]]:
        """Returns the teachers of finished tasks, those of failed ones last, and the unfinished."""
        finished, unfinished = wait(handles, timeout, FIRST_COMPLETED)
        failed_last = sorted(finished, key=lambda future: future.exception() is not None)
        return (future.result() for future in failed_last), unfinished


@contextmanager
def _worker_pool(num_workers: int) -> Iterator[_WorkerProcesses]:
    """Starts workers for its body, and ends them afterwards: at once if the body failed."""
    # a pool of its own: the one that joblib shares is of another kind
    from joblib.externals.loky import ProcessPoolExecutor

    with _interrupts_held():
        executor = ProcessPoolExecutor(
            num_workers, env=WORKER_ENVIRONMENT, initializer=end_with, initargs=(os.getpid(),)
        )
    succeeded = False
    try:
        yield _WorkerProcesses(executor, num_workers)
        succeeded = True
    finally:
        # the executor's thread may look for a task that was just dropped, and would print a traceback
        hook_before = threading.excepthook
        threading.excepthook = _ignore_thread_error
        try:
            executor.shutdown(wait=True, kill_workers=not succeeded)
        finally:
            threading.excepthook = hook_before


def _ignore_thread_error(error: threading.ExceptHookArgs) -> None:
    """Stands in for `threading.excepthook`, and prints nothing."""


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Runs its body with signals blocked: workers that start meanwhile inherit that, and leave signals to this process.

    This process answers a signal that came meanwhile a moment later, and stops the workers itself.
    """
    ensure_running()  # a tracker that starts with the first worker would let Ctrl-C through again
    signals = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask_before)


@cache  # one watching thread for each worker
def end_with(parent: int, node: int | None = None) -> None:
    """Makes this process end soon after its parent, or after the process `node`, by their ids.

    A worker that outlived its run would train teachers that the next run trains too.
    """

    def watch() -> None:
        while os.getppid() == parent and _is_running(node or parent):
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    # `threading.Thread.start` would wait forever for a thread that finds no memory to begin with
    _thread.start_new_thread(watch, ())


def _is_running(process: int) -> bool:
    with suppress(PermissionError):  # another user's process is running
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
    return True
