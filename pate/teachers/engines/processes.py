"""Chunks of teachers spread over worker processes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.resource_tracker import ensure_running

from pate.teachers.engines.engine import Engine, WorkersLost
from pate.teachers.engines.job import Chunk, TrainingJob, last_loss
from pate.teachers.engines.worker import ONE_THREAD, end_unless
from pate.validation import require_count


@dataclass(frozen=True)
class ProcessesEngine(Engine):
    """Trains a chunk of teachers in each of several processes, one thread each.

    Each record is sent to one worker, through a pipe, never through a file; workers save their teachers
    themselves. A script needs no `if __name__ == "__main__"` guard. A worker that dies costs the teachers in
    work at that moment, and the run goes on with new workers; workers of a run that was killed end themselves.

    Attributes:
        num_workers: processes; None for as many as there are cores to this process.
        chunk_size: teachers in a batch; with that of `StackedEngine` the checkpoints are the same bytes.
        max_deaths: how many times workers may die before the run gives up.

    Raises:
        InvalidValue: an attribute outside its range.
    """

    num_workers: int | None = None
    chunk_size: int = 16
    max_deaths: int = 2

    def __post_init__(self) -> None:
        require_count("chunk_size", self.chunk_size)
        require_count("max_deaths", self.max_deaths, minimum=0)
        if self.num_workers is not None:
            require_count("num_workers", self.num_workers)

    def train(self, job: TrainingJob) -> None:
        """See `Engine.train`; progress is reported in the order in which chunks end."""
        waiting = job.chunks(self.chunk_size)
        for deaths in range(self.max_deaths + 1):
            try:
                self._train(job, waiting)
                return
            except BrokenProcessPool as error:
                left = job.chunks(self.chunk_size)
                if deaths == self.max_deaths:
                    cause = "killed, or out of memory: a smaller engine.num_workers or engine.chunk_size takes less"
                    raise WorkersLost(f"worker processes died {deaths + 1} times ({cause}); {job.summary}") from error
                saved = [index for chunk in waiting for index in chunk.wanted if job.store.has(index)]
                job.report({index: last_loss(job.store.load(index)) for index in saved})  # their answers were lost
                waiting = left

    def _train(self, job: TrainingJob, waiting: list[Chunk]) -> None:
        """Trains the chunks, removing each from the list once its teachers are reported."""
        from joblib import cpu_count  # loads slowly
        from joblib.externals.loky import ProcessPoolExecutor  # its own: the shared one is of another kind in joblib

        num_workers = min(self.num_workers or cpu_count(), max(len(waiting), 1))
        with _interrupts_held():
            executor = ProcessPoolExecutor(
                num_workers, env=ONE_THREAD, initializer=_end_with_parent, initargs=(os.getpid(),)
            )
        running: dict[Future[dict[int, float]], Chunk] = {}

        def collect() -> None:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                losses = future.result()
                waiting.remove(running.pop(future))
                job.report(losses)

        try:
            for chunk in list(waiting):
                if len(running) > num_workers:  # one chunk waits, the others are in work
                    collect()
                task = job.task(chunk)
                with _interrupts_held():
                    running[executor.submit(task.save_states, job.store)] = chunk
            while running:
                collect()
        finally:
            with _quiet_threads():
                executor.shutdown(wait=True, kill_workers=bool(running))  # where some are left, it failed


@contextmanager
def _quiet_threads() -> Iterator[None]:
    """The executor's thread may look for a task that was just dropped with the others, and would print a traceback."""
    before, threading.excepthook = threading.excepthook, lambda _: None
    try:
        yield
    finally:
        threading.excepthook = before


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Workers that start meanwhile leave signals to this process, which answers them a moment later and stops them."""
    ensure_running()  # a tracker that starts with the first worker would let Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent(parent: int) -> None:
    end_unless(lambda: os.getppid() == parent)
