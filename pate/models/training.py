"""The training of an ensemble: finding missing teachers, training them in workers, and writing their checkpoints.

Teachers are trained in chunks that depend on their index alone. An engine provides `Workers`, in which tasks
(`ChunkTask`) run: this process, several processes, or a cluster. `TrainingJob.run` sends chunks to the workers and
collects the trained teachers. This process alone writes checkpoints.
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

OnProgress = Callable[[int, NDArray[Any]], None]
"""A function that is called with a teacher's index and the losses of its steps, once its checkpoint is on the disk."""

# Trained teachers are saved when the file would have `FILE_BYTES`, or when the last save is `SAVE_SECONDS` ago and also
# the share `SAVE_SHARE` of the training so far. So the number of files grows as the logarithm of the length of the
# training, or as the bytes of the states.
FILE_BYTES = 64 * 2**20
SAVE_SECONDS = 1.0
SAVE_SHARE = 0.02


class WorkersLost(ChildProcessError, RuntimeError):
    """An error: workers cannot be reached, or more have died than the engine replaces. Saved teachers are not lost."""


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on the arrays in `shards`
class ChunkTask:
    """The task to train one chunk of teachers. It can be sent to another process, and is called there.

    Attributes:
        teacher: the recipe.
        teacher_indices: the indices of the chunk's teachers.
        shards: the records of each of these teachers, in their order.
        seeds: the seed of each of these teachers, in their order.
    """

    teacher: Teacher
    teacher_indices: range
    shards: Sequence[Shard]
    seeds: Sequence[int]

    def __call__(self) -> dict[int, State]:
        """Trains the teachers with one thread, and returns their states by the index of the teacher."""
        advice = "a smaller engine.chunk_size or teacher.batch_size takes less"
        with one_thread(), device_memory(advice=advice):
            states = self.teacher.fit_many(self.shards, seeds=self.seeds)
        return dict(zip(self.teacher_indices, states, strict=True))


class Workers(Protocol):
    """The protocol of a place in which tasks run.

    A handle, which `submit` returns, identifies a task that was sent there.

    Attributes:
        max_running: the largest number of tasks that are submitted and not gathered yet.
    """

    max_running: int

    def submit(self, task: ChunkTask) -> Any:
        """Starts a task, and returns its handle."""

    def gather(
        self, task_handles: list[Any], timeout: float
    ) -> tuple[Iterable[dict[int, State]], Iterable[Any]]:
        """Waits until a task has ended, but at most `timeout` seconds.

        Args:
            task_handles: the handles of all tasks that were not gathered before.
            timeout: the greatest time to wait, in seconds.

        Returns:
            The trained teachers of ended tasks, and the handles of all other tasks, some of which may have ended, too.
            Reading the teachers of a failed task raises its error, so failed tasks come last.
        """


class ThisProcess:
    """The calling process as the only worker: `submit` runs a task at once."""

    max_running = 1

    def submit(self, task: ChunkTask) -> dict[int, State]:
        """Runs a task; its trained teachers are its handle."""
        return task()

    def gather(
        self, task_handles: list[dict[int, State]], timeout: float
    ) -> tuple[Iterable[dict[int, State]], Iterable[Any]]:
        """Returns the teachers of all tasks; no task is unfinished."""
        return task_handles, ()


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on the arrays in `shards`
class TrainingJob:
    """The job to train all teachers of an ensemble that are missing in a store.

    Attributes:
        teacher: the recipe.
        shards: the records of each teacher by its index; they are read one chunk at a time.
        seeds: the seed of each teacher, 0 <= seed < 2**32.
        store: the store in which teachers are missing, and in which they are saved.
        on_progress: is called once for each teacher that was missing, with its index and the losses of its steps; None
            reports nothing.
    """

    teacher: Teacher
    shards: Shards
    seeds: Sequence[int]
    store: CheckpointStore
    on_progress: OnProgress | None = None

    def __post_init__(self) -> None:
        require_count("num_teachers", len(self.seeds))

    @property
    def summary(self) -> str:
        """A sentence that states how many teachers are in the store already."""
        num_teachers = len(self.seeds)
        num_saved = num_teachers - len(self.store.missing(num_teachers))
        return f"{num_saved} of {num_teachers} teachers are safe in {self.store.folder}"

    def chunks(self, chunk_size: int) -> list[range]:
        """Returns the chunks in which a teacher is missing, as ranges of the indices of teachers.

        Half-written files of a killed run are removed first.

        Chunk c has the teachers c * chunk_size, …, (c + 1) * chunk_size - 1. Isolated teachers are chunks of one.
        """
        teachers_per_chunk = 1 if self.teacher.is_isolated else chunk_size
        num_teachers = len(self.seeds)
        self.store.recover()
        incomplete_chunks = sorted(
            {
                teacher_index // teachers_per_chunk
                for teacher_index in self.store.missing(num_teachers)
            }
        )
        return [
            range(
                teachers_per_chunk * chunk_index,
                min(teachers_per_chunk * (chunk_index + 1), num_teachers),
            )
            for chunk_index in incomplete_chunks
        ]

    def run(self, chunks: Sequence[range], workers: Workers | None = None) -> None:
        """Trains chunks in workers; saves the teachers that were missing, and reports them to `on_progress`.

        Args:
            chunks: the chunks, as ranges of the indices of teachers.
            workers: the place in which tasks run; None for this process.
        """
        chunked_training = ChunkedTraining(
            job=self, workers=ThisProcess() if workers is None else workers
        )
        chunked_training.run(teacher_index_ranges=chunks)

    def task(self, teacher_indices: range) -> ChunkTask:
        """Returns the task that trains the teachers `teacher_indices`, with their private records."""
        shards = [self.shards[teacher_index] for teacher_index in teacher_indices]
        seeds = [self.seeds[teacher_index] for teacher_index in teacher_indices]
        return ChunkTask(
            teacher=self.teacher, teacher_indices=teacher_indices, shards=shards, seeds=seeds
        )


class ChunkedTraining:
    """The training of all chunks of a job: it sends tasks to workers, collects trained teachers, and writes files."""

    def __init__(self, job: TrainingJob, workers: Workers) -> None:
        self._job = job
        self._workers = workers
        self._missing_indices = set(job.store.missing(len(job.seeds)))
        self._task_handles: list[Any] = []  # the handles of tasks that run
        self._unsaved_states: dict[int, State] = {}
        self._unsaved_bytes = 0
        self._start_time = time.monotonic()
        self._last_save = self._start_time

    def run(self, teacher_index_ranges: Sequence[range]) -> None:
        """Trains all chunks. Teachers that were collected are written to files however the method ends."""
        try:
            for teacher_indices in teacher_index_ranges:
                self._make_room()
                self._task_handles.append(self._workers.submit(self._job.task(teacher_indices)))
            while self._task_handles:
                self._gather(timeout=SAVE_SECONDS)
        finally:
            self._save()

    def _make_room(self) -> None:
        """Waits until the workers can take another task, and collects the teachers of ended tasks."""
        if self._task_handles:  # Trained teachers come back while other chunks are still sent out.
            self._gather(timeout=0)
        while len(self._task_handles) >= self._workers.max_running:
            self._gather(timeout=SAVE_SECONDS)

    def _gather(self, timeout: float) -> None:
        """Collects the teachers of ended tasks, and saves the unsaved teachers if `_is_time_to_save` says so.

        `timeout` is the greatest time to wait for a task to end, in seconds.
        """
        finished_states, unfinished_handles = self._workers.gather(
            self._task_handles, timeout=timeout
        )
        for states in finished_states:
            for teacher_index, state in states.items():
                # Other teachers of the chunk are on the disk and stay unchanged.
                if teacher_index in self._missing_indices:
                    self._unsaved_states[teacher_index] = state
                    self._unsaved_bytes += sum(array.nbytes for array in state.values())
        self._task_handles = list(unfinished_handles)
        if self._unsaved_states and self._is_time_to_save():
            self._save()

    def _is_time_to_save(self) -> bool:
        """Returns True if the unsaved teachers fill a file, or if the last save is long ago.

        Long is a second or, if that is longer, a fiftieth of the time since the training began.
        """
        now = time.monotonic()
        patience = max(SAVE_SECONDS, SAVE_SHARE * (now - self._start_time))
        return self._unsaved_bytes >= FILE_BYTES or now - self._last_save >= patience

    def _save(self) -> None:
        """Writes the unsaved teachers to files, and then reports them to the job's `on_progress`."""
        losses_by_step_of_teachers = {
            teacher_index: _losses_by_step(state)
            for teacher_index, state in self._unsaved_states.items()
        }
        self._job.store.save(self._unsaved_states)
        self._unsaved_states.clear()
        self._unsaved_bytes = 0
        self._last_save = time.monotonic()
        if self._job.on_progress is not None:
            for teacher_index, losses_by_step in losses_by_step_of_teachers.items():
                self._job.on_progress(teacher_index, losses_by_step)


def _losses_by_step(teacher_state: State) -> NDArray[Any]:
    """Returns the loss of each training step of a teacher; raises `InvalidValue` if its state lacks losses."""
    has_losses_of_steps = np.size(teacher_state.get("loss_curve", ())) > 0
    rule = "a state with the array loss_curve, the losses of its steps"
    require(has_losses_of_steps, "state", ", ".join(teacher_state), rule)
    return teacher_state["loss_curve"]
