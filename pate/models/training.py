"""The training of an ensemble: which teachers are missing, who trains them, and when they reach the disk.

Teachers are trained in chunks fixed by their index. An engine gives `Workers`: a place where `ChunkTask`s run, this
process, several of them, or a cluster. `TrainingJob.run` sends chunks to the workers, gathers trained teachers, and
alone writes the checkpoints.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pate.device import device_memory
from pate.models.checkpoint import CheckpointStore
from pate.models.shards import Shard, Shards
from pate.models.teacher import State, Teacher
from pate.threads import one_thread
from pate.validation import require, require_count

# Called in the caller's process with a teacher's index and the losses of its steps, after its checkpoint is on the
# disk.
OnProgress = Callable[[int, NDArray[Any]], None]

# Trained teachers wait for a file until it would have so many bytes, or until a kill would cost more than so many
# seconds and such a share of the training. The number of files grows as the logarithm of the training's length, or as
# the bytes of the states.
FILE_BYTES = 64 * 2**20
SAVE_SECONDS = 1.0
SAVE_SHARE = 0.02


class WorkersLost(ChildProcessError, RuntimeError):
    """An error: workers died more often than the engine replaces them. Teachers that were saved are safe."""


@dataclass(frozen=True, eq=False)
class ChunkTask:
    """The training of one chunk of teachers; a call trains them, in whatever process."""

    teacher: Teacher
    members: range  # the indices of the chunk's teachers
    shards: Sequence[Shard]  # the records of each member
    seeds: Sequence[int]  # the seed of each member

    def __call__(self) -> dict[int, State]:
        """Returns the trained teachers by their index, computed on one thread."""
        advice = "a smaller engine.chunk_size or teacher.batch_size takes less"
        with one_thread(), device_memory(advice):
            states = self.teacher.fit_many(self.shards, self.seeds)
        return dict(zip(self.members, states, strict=True))


class Workers(Protocol):
    """A place where tasks run. A handle, as `submit` returns it, stands for a task that runs there."""

    max_running: int  # tasks that are submitted and not gathered yet

    def submit(self, task: ChunkTask) -> Any:
        """Starts a task; returns its handle."""

    def gather(
        self, handles: list[Any], timeout: float
    ) -> tuple[Iterable[dict[int, State]], Iterable[Any]]:
        """Waits until a task ends, `timeout` seconds at most.

        Returns the teachers of the tasks that ended, and the handles of the others. Reading the teachers of a task that
        failed raises its error; tasks that succeeded come before.
        """


class ThisProcess:
    """The calling process as the only worker: a task is done when it is submitted."""

    max_running = 1

    def submit(self, task: ChunkTask) -> dict[int, State]:
        """Runs the task; its handle is what it returns."""
        return task()

    def gather(
        self, handles: list[dict[int, State]], timeout: float
    ) -> tuple[Iterable[dict[int, State]], Iterable[Any]]:
        """Returns the teachers of all tasks at once."""
        return handles, ()


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """The teachers that a store is to hold in the end."""

    teacher: Teacher  # the recipe
    shards: Shards  # a teacher's records by its index; read one chunk at a time
    seeds: Sequence[int]  # one per teacher, 0 <= seed < 2**32
    store: CheckpointStore  # where checkpoints are and go
    on_progress: OnProgress | None = None  # called once per teacher that was missing

    def __post_init__(self) -> None:
        require_count("num_teachers", len(self.seeds))

    @property
    def summary(self) -> str:
        """The line that says how many teachers are in the store already."""
        total = len(self.seeds)
        num_saved = total - len(self.store.missing(total))
        return f"{num_saved} of {total} teachers are safe in {self.store.folder}"

    def chunks(self, chunk_size: int) -> list[range]:
        """Returns the chunks in which a teacher is missing, after clearing what a killed run left half written.

        Chunk c has teachers c * chunk_size, …, (c + 1) * chunk_size - 1. Isolated teachers are chunks of one.
        """
        size = 1 if self.teacher.is_isolated else chunk_size
        total = len(self.seeds)
        self.store.recover()
        incomplete = sorted({index // size for index in self.store.missing(total)})
        return [range(size * chunk, min(size * (chunk + 1), total)) for chunk in incomplete]

    def run(self, chunks: Sequence[range], workers: Workers | None = None) -> None:
        """Trains chunks on workers, by default in this process; saves and reports the teachers that were missing."""
        ChunkedTraining(self, ThisProcess() if workers is None else workers).run(chunks)

    def task(self, members: range) -> ChunkTask:
        """Returns the task that trains a chunk; reads the records of its teachers."""
        shards = [self.shards[index] for index in members]
        seeds = [self.seeds[index] for index in members]
        return ChunkTask(self.teacher, members, shards, seeds)


class ChunkedTraining:
    """One pass over the chunks of a job: tasks go out to workers, trained teachers wait, and files are written."""

    def __init__(self, job: TrainingJob, workers: Workers) -> None:
        self._job = job
        self._workers = workers
        self._missing = set(job.store.missing(len(job.seeds)))
        self._handles: list[Any] = []  # of tasks that run
        self._unsaved: dict[int, State] = {}
        self._unsaved_bytes = 0
        self._started = time.monotonic()
        self._last_save = self._started

    def run(self, chunks: Sequence[range]) -> None:
        """Trains all chunks. However it ends, the teachers that were gathered are written."""
        try:
            for members in chunks:
                self._make_room()
                self._handles.append(self._workers.submit(self._job.task(members)))
            while self._handles:
                self._gather(SAVE_SECONDS)
        finally:
            self._save()

    def _make_room(self) -> None:
        """Gathers finished tasks, and waits until another one may run."""
        if self._handles:  # trained teachers come back while other chunks are still sent out
            self._gather(timeout=0)
        while len(self._handles) >= self._workers.max_running:
            self._gather(SAVE_SECONDS)

    def _gather(self, timeout: float) -> None:
        """Takes the teachers of finished tasks, and saves the waiting ones if it is time."""
        finished, unfinished = self._workers.gather(self._handles, timeout)
        for states in finished:
            for index, state in states.items():
                if index in self._missing:  # others of the chunk are on the disk and stay untouched
                    self._unsaved[index] = state
                    self._unsaved_bytes += sum(array.nbytes for array in state.values())
        self._handles = list(unfinished)
        if self._unsaved and self._is_time_to_save():
            self._save()

    def _is_time_to_save(self) -> bool:
        """Returns whether unsaved teachers fill a file, or have waited long, however long the next ones take."""
        now = time.monotonic()
        patience = max(SAVE_SECONDS, SAVE_SHARE * (now - self._started))
        return self._unsaved_bytes >= FILE_BYTES or now - self._last_save >= patience

    def _save(self) -> None:
        """Writes the unsaved teachers, and then reports them."""
        curves = {index: _loss_curve(state) for index, state in self._unsaved.items()}
        self._job.store.save(self._unsaved)
        self._unsaved.clear()
        self._unsaved_bytes = 0
        self._last_save = time.monotonic()
        if self._job.on_progress is not None:
            for index, losses in curves.items():
                self._job.on_progress(index, losses)


def _loss_curve(state: State) -> NDArray[Any]:
    """Returns the losses of a teacher's steps; raises `InvalidValue` if its state has none."""
    rule = "a state with the array loss_curve, the losses of its steps"
    require(np.size(state.get("loss_curve", ())) > 0, "state", ", ".join(state), rule)
    return state["loss_curve"]
