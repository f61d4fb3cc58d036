"""How a whole ensemble is trained: what every engine promises, and the chunks they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pate.networks.device import device_memory, one_thread
from pate.teachers.checkpoint import CheckpointStore
from pate.teachers.teacher import Shard, State, Teacher
from pate.validation import require, require_count

Info = Mapping[str, Any]
"""About one trained teacher: `records` int, `loss` float (its last), `loss_curve` float32 `[steps]`."""

OnProgress = Callable[[int, Info], None]
"""Called in the caller's process with a teacher's index after its checkpoint is on the disk."""


class WorkersLost(ChildProcessError, RuntimeError):
    """Processes that trained teachers died, more often than the engine replaces them; what was saved is safe."""


class Engine(ABC):
    """A way to train the teachers that a store lacks.

    Formal guarantees:
        * Teachers are trained in chunks fixed by their index: chunk c holds teachers c*C … (c+1)*C-1. A
          chunk with a missing member is trained again as a whole, so a killed run, started again, ends with
          the same bytes as one that was not. Files already there are not touched. Teachers that are trained
          `alone` are chunks of one.
        * A chunk's teachers reach the disk in one step: nothing that was trained to its end is trained again.
        * Engines with equal chunk size give equal bytes on one kind of machine: each chunk is computed on
          one thread, in whatever process. With another chunk size teachers agree up to rounding.
        * Whatever ends a run (a signal, a dead worker, an error in one teacher), the teachers reported
          before are in the store.
    """

    @abstractmethod
    def train(
        self,
        teacher: Teacher,
        parts: Callable[[int], Shard],
        num_teachers: int,
        seeds: Sequence[int],
        store: CheckpointStore,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Trains the teachers that the store lacks and saves them there.

        Args:
            teacher: the recipe.
            parts: gives a teacher's records; called for the teachers of one chunk at a time.
            num_teachers: N.
            seeds: one for each teacher.
            store: where checkpoints are and go.
            on_progress: called once for each teacher that was missing.

        Raises:
            InvalidValue: no teacher, or another number of seeds.
            WorkersLost: worker processes died.
            DeviceFull: a chunk takes more than the GPU's memory.
        """


def unfinished_chunks(
    num_teachers: int, chunk_size: int, seeds: Sequence[int], store: CheckpointStore
) -> list[tuple[range, list[int]]]:
    """The chunks that lack a teacher, and which of their members that are."""
    require_count("num_teachers", num_teachers)
    store.recover()
    require(len(seeds) == num_teachers, "len(seeds)", len(seeds), f"{num_teachers}, one for each teacher")
    missing = set(store.missing(num_teachers))
    chunks = [range(first, min(first + chunk_size, num_teachers)) for first in range(0, num_teachers, chunk_size)]
    return [(chunk, sorted(missing.intersection(chunk))) for chunk in chunks if missing.intersection(chunk)]


def saved_of(num_teachers: int, store: CheckpointStore) -> str:
    """What is safe, for the line that a run ends with."""
    saved = num_teachers - len(store.missing(num_teachers))
    return f"{saved} of {num_teachers} teachers are safe in {store.folder}"


def chunk_size_for(teacher: Teacher, chunk_size: int) -> int:
    """1 for teachers that gain nothing from company, so that a kill costs no more than it must."""
    return 1 if teacher.is_isolated else chunk_size


def train_chunk(
    teacher: Teacher,
    parts: Sequence[Shard],
    seeds: Sequence[int],
    chunk: range,
    wanted: Sequence[int],
    store: CheckpointStore,
) -> list[tuple[int, Info]]:
    """Trains one chunk on one thread and saves those of its members that are wanted."""
    states = train_states(teacher, parts, seeds, chunk, wanted)
    store.save_chunk(states)
    return [(index, info_of(state, len(parts[index - chunk.start]))) for index, state in states.items()]


def train_states(
    teacher: Teacher, parts: Sequence[Shard], seeds: Sequence[int], chunk: range, wanted: Sequence[int]
) -> dict[int, State]:
    """Trains one chunk on one thread; returns those of its members that are wanted, by their index."""
    with one_thread(), device_memory("a smaller engine.chunk_size or teacher.batch_size takes less"):
        states = teacher.fit_many(parts, seeds)
    return {index: states[index - chunk.start] for index in wanted}


def info_of(state: State, records: int) -> Info:
    """What is told of a trained teacher."""
    curve = state["loss_curve"]
    return {"records": records, "loss": float(curve[-1]), "loss_curve": curve}


def train_here(
    chunk_size: int,
    teacher: Teacher,
    parts: Callable[[int], Shard],
    num_teachers: int,
    seeds: Sequence[int],
    store: CheckpointStore,
    on_progress: OnProgress | None,
) -> None:
    """Trains chunk after chunk in this process."""
    size = chunk_size_for(teacher, chunk_size)
    for chunk, wanted in unfinished_chunks(num_teachers, size, seeds, store):
        chunk_parts, chunk_seeds = [parts(index) for index in chunk], [seeds[index] for index in chunk]
        for index, info in train_chunk(teacher, chunk_parts, chunk_seeds, chunk, wanted, store):
            if on_progress is not None:
                on_progress(index, info)
