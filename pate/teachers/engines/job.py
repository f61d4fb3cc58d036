"""What an engine is given: teachers to train, what each learns from, and where they go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pate.networks.device import device_memory, one_thread
from pate.teachers.checkpoint import CheckpointStore
from pate.teachers.teacher import Shard, State, Teacher
from pate.validation import require_count

OnProgress = Callable[[int, float], None]
"""Called in the caller's process with a teacher's index and its last loss, after its checkpoint is on the disk."""


@dataclass(frozen=True)
class Chunk:
    """Teachers that are trained side by side.

    Attributes:
        members: their indices.
        wanted: those of them that the store lacks.
    """

    members: range
    wanted: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ChunkTask:
    """All that it takes to train a chunk, in whatever process.

    Attributes:
        teacher: the recipe.
        chunk: the teachers.
        shards: the records of each member.
        seeds: one per member.
    """

    teacher: Teacher
    chunk: Chunk
    shards: Sequence[Shard]
    seeds: Sequence[int]

    def states(self) -> dict[int, State]:
        """Trains the members on one thread; returns those that are wanted, by their index."""
        with one_thread(), device_memory("a smaller engine.chunk_size or teacher.batch_size takes less"):
            states = self.teacher.fit_many(self.shards, self.seeds)
        return {index: states[index - self.chunk.members.start] for index in self.chunk.wanted}

    def save_states(self, store: CheckpointStore) -> dict[int, float]:
        """Trains the members and saves those that are wanted; returns their last losses by their index."""
        states = self.states()
        store.save_chunk(states)
        return {index: last_loss(state) for index, state in states.items()}


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """The teachers that a store is to hold in the end.

    Attributes:
        teacher: the recipe.
        shards: gives a teacher's records by its index; called for the teachers of one chunk at a time.
        seeds: one per teacher, 0 <= seed < 2**32.
        store: where checkpoints are and go.
        on_progress: called once per teacher that was missing.

    Raises:
        InvalidValue: no teacher.
    """

    teacher: Teacher
    shards: Callable[[int], Shard]
    seeds: Sequence[int]
    store: CheckpointStore
    on_progress: OnProgress | None = None

    def __post_init__(self) -> None:
        require_count("num_teachers", self.num_teachers)

    @property
    def num_teachers(self) -> int:
        """N."""
        return len(self.seeds)

    @property
    def missing(self) -> list[int]:
        """The teachers that the store lacks."""
        return self.store.missing(self.num_teachers)

    @property
    def summary(self) -> str:
        """What is safe, for the line that a run ends with."""
        saved = self.num_teachers - len(self.missing)
        return f"{saved} of {self.num_teachers} teachers are safe in {self.store.folder}"

    def chunks(self, size: int) -> list[Chunk]:
        """The chunks that lack a teacher; first finishes what a killed run began to save.

        Isolated teachers gain nothing from company: they are chunks of one, so that a kill costs no more than it must.
        """
        size, total = 1 if self.teacher.is_isolated else size, self.num_teachers
        self.store.recover()
        missing = set(self.missing)
        members = [range(first, min(first + size, total)) for first in range(0, total, size)]
        return [
            Chunk(each, tuple(sorted(missing.intersection(each)))) for each in members if missing.intersection(each)
        ]

    def task(self, chunk: Chunk) -> ChunkTask:
        """Reads the records of a chunk."""
        members = chunk.members
        shards, seeds = [self.shards(index) for index in members], [self.seeds[index] for index in members]
        return ChunkTask(self.teacher, chunk, shards, seeds)

    def report(self, losses: dict[int, float]) -> None:
        """Tells of teachers that are on the disk."""
        if self.on_progress is not None:
            for index, loss in losses.items():
                self.on_progress(index, loss)


def last_loss(state: State) -> float:
    """The loss at which a teacher's training ended."""
    return float(state["loss_curve"][-1])
