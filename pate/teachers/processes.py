"""Chunks of teachers spread over worker processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from joblib import cpu_count
from joblib.externals.loky import get_reusable_executor

from pate.teachers.checkpoint import CheckpointStore
from pate.teachers.engine import Engine, Info, OnProgress, train_chunk, unfinished_chunks
from pate.teachers.teacher import Part, Teacher
from pate.validation import require_count

_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}


@dataclass(frozen=True)
class ProcessesEngine(Engine):
    """Trains a chunk of teachers in each of several processes, one thread each.

    Each record is sent to one worker, through a pipe, never through a file; workers save their teachers
    themselves. A script needs no `if __name__ == "__main__"` guard.

    Attributes:
        num_workers: processes; None for as many as there are cores to this process.
        chunk_size: teachers in a batch; with that of `StackedEngine` the checkpoints are the same bytes.

    Raises:
        InvalidValue: an attribute below 1.
    """

    num_workers: int | None = None
    chunk_size: int = 16

    def __post_init__(self) -> None:
        require_count("chunk_size", self.chunk_size)
        if self.num_workers is not None:
            require_count("num_workers", self.num_workers)

    def train(
        self,
        teacher: Teacher,
        parts: Callable[[int], Part],
        num_teachers: int,
        seeds: Sequence[int],
        store: CheckpointStore,
        on_progress: OnProgress | None = None,
    ) -> None:
        """See `Engine.train`; progress is reported in the order in which chunks end."""
        chunks = unfinished_chunks(num_teachers, self.chunk_size, seeds, store)
        num_workers = min(self.num_workers or cpu_count(), max(len(chunks), 1))
        executor = get_reusable_executor(num_workers, env=_ONE_THREAD)
        running: set[Future[list[tuple[int, Info]]]] = set()
        try:
            for chunk, wanted in chunks:
                if len(running) > num_workers:  # one chunk waits, the others are in work
                    running = _collect(running, on_progress)
                chunk_parts, chunk_seeds = [parts(i) for i in chunk], [seeds[i] for i in chunk]
                arguments = (teacher, chunk_parts, chunk_seeds, chunk, wanted, store)
                running.add(executor.submit(train_chunk, *arguments))
            while running:
                running = _collect(running, on_progress)
        except BrokenProcessPool as error:
            saved = num_teachers - len(store.missing(num_teachers))
            raise RuntimeError(
                f"a worker process died (killed, or out of memory: try fewer than {num_workers} workers); "
                f"{saved} of {num_teachers} teachers are safe in {store.folder}, start again for the rest"
            ) from error
        finally:
            if running:  # it failed; idle workers, kept for a next call, end by themselves after ten seconds
                executor.shutdown(wait=True, kill_workers=True)


def _collect(
    running: set[Future[list[tuple[int, Info]]]], on_progress: OnProgress | None
) -> set[Future[list[tuple[int, Info]]]]:
    """Waits until a chunk ends, reports its teachers, returns the chunks that are left."""
    done, left = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        for index, info in future.result():
            if on_progress is not None:
                on_progress(index, info)
    return left
