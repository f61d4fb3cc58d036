"""Chunks of teachers spread over worker processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.resource_tracker import ensure_running

from joblib import cpu_count
from joblib.externals.loky import get_reusable_executor

from pate.teachers.checkpoint import CheckpointStore
from pate.teachers.engine import (
    Engine,
    Info,
    OnProgress,
    WorkersLost,
    chunk_size_for,
    info_of,
    saved_of,
    train_chunk,
    unfinished_chunks,
)
from pate.teachers.teacher import Shard, Teacher
from pate.validation import require_count

_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
_WATCH_S = 0.1

_Chunk = tuple[range, list[int]]
_Running = dict["Future[list[tuple[int, Info]]]", _Chunk]


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

    def train(
        self,
        teacher: Teacher,
        parts: Callable[[int], Shard],
        num_teachers: int,
        seeds: Sequence[int],
        store: CheckpointStore,
        on_progress: OnProgress | None = None,
    ) -> None:
        """See `Engine.train`; progress is reported in the order in which chunks end."""
        size = chunk_size_for(teacher, self.chunk_size)
        chunks = unfinished_chunks(num_teachers, size, seeds, store)
        for deaths in range(self.max_deaths + 1):
            try:
                self._train(teacher, parts, seeds, store, chunks, on_progress)
                return
            except BrokenProcessPool as error:
                left = unfinished_chunks(num_teachers, size, seeds, store)
                if deaths == self.max_deaths:
                    cause = "killed, or out of memory: a smaller engine.num_workers or engine.chunk_size takes less"
                    safe = saved_of(num_teachers, store)
                    raise WorkersLost(f"worker processes died {deaths + 1} times ({cause}); {safe}") from error
                _report_saved(chunks, parts, store, on_progress)
                chunks = left

    def _workers(self, chunks: Sequence[_Chunk]) -> int:
        return min(self.num_workers or cpu_count(), max(len(chunks), 1))

    def _train(
        self,
        teacher: Teacher,
        parts: Callable[[int], Shard],
        seeds: Sequence[int],
        store: CheckpointStore,
        chunks: list[_Chunk],
        on_progress: OnProgress | None,
    ) -> None:
        """Trains the chunks, removing each from the list once its teachers are reported."""
        num_workers = self._workers(chunks)
        with _interrupts_held():
            executor = get_reusable_executor(
                num_workers, env=_ONE_THREAD, initializer=_end_with_parent, initargs=(os.getpid(),)
            )
        running: _Running = {}

        def collect() -> None:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                result = future.result()
                chunks.remove(running.pop(future))
                for index, info in result:
                    if on_progress is not None:
                        on_progress(index, info)

        try:
            for chunk, wanted in list(chunks):
                if len(running) > num_workers:  # one chunk waits, the others are in work
                    collect()
                chunk_parts, chunk_seeds = [parts(i) for i in chunk], [seeds[i] for i in chunk]
                arguments = (teacher, chunk_parts, chunk_seeds, chunk, wanted, store)
                with _interrupts_held():
                    running[executor.submit(train_chunk, *arguments)] = (chunk, wanted)
            while running:
                collect()
        finally:
            if running:  # it failed; idle workers, kept for a next call, end by themselves after ten seconds
                executor.shutdown(wait=True, kill_workers=True)


def _report_saved(
    chunks: Sequence[_Chunk], parts: Callable[[int], Shard], store: CheckpointStore, on_progress: OnProgress | None
) -> None:
    """Reports teachers that were saved by workers whose answers were lost."""
    for _, wanted in chunks:
        for index in wanted:
            if on_progress is not None and store.has(index):
                on_progress(index, info_of(store.load(index), len(parts(index))))


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Workers that start meanwhile leave Ctrl-C to this process, which answers it a moment later and stops them."""
    ensure_running()  # a tracker that starts with the first worker would let Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent(parent: int) -> None:
    """Ends this worker soon after the run that it works for, so that it never trains what the next run trains too."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_S)
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
