"""The ensemble: training all teachers on their parts, and asking all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pate.files.atomic import write_arrays, write_text
from pate.files.fingerprint import full_text
from pate.networks.device import device_memory, one_thread
from pate.teachers.checkpoint import CheckpointStore
from pate.teachers.engine import Engine, OnProgress
from pate.teachers.teacher import Shard, Teacher
from pate.validation import require, require_count


def train_ensemble(
    teacher: Teacher,
    engine: Engine,
    inputs: NDArray[np.float32],
    labels: NDArray[np.bool_],
    indices: Callable[[int], NDArray[np.int64]],
    *,
    num_teachers: int,
    seed: int,
    store: CheckpointStore,
    on_progress: OnProgress | None = None,
) -> None:
    """Trains the teachers that the store lacks, each on its own records.

    Args:
        teacher: the recipe.
        engine: how they are trained.
        inputs: float32 `[num_private, …]`.
        labels: bool `[num_private, num_labels]`.
        indices: the rows of a teacher, disjoint from any other's (`Partition.indices`).
        num_teachers: N.
        seed: from which every teacher's own seed is derived, >= 0.
        store: where checkpoints are and go: a new folder, or that of an earlier call with the same arguments.
        on_progress: called once for each teacher that was missing.

    Raises:
        InvalidValue: fewer than one teacher, a negative seed, a teacher without records; a store with teachers of
            another partition, recipe or seed, which would share records with these.
        WorkersLost: worker processes died.
    """
    require_count("num_teachers", num_teachers)
    require_count("seed", seed, minimum=0)
    _claim(store, full_text(teacher), seed, [indices(index) for index in range(num_teachers)])
    seeds = [int(word) for word in np.random.SeedSequence(seed).generate_state(num_teachers)]

    def part(index: int) -> Shard:
        rows = indices(index)
        return Shard(inputs[rows], labels[rows])

    engine.train(teacher, part, num_teachers, seeds, store, on_progress)


def _claim(store: CheckpointStore, recipe: str, seed: int, rows: Sequence[NDArray[np.int64]]) -> None:
    """Marks a new store as that of these teachers; refuses one of others."""
    name = hashlib.sha256(f"{recipe} {seed} {len(rows)}".encode())
    for part in rows:
        name.update(f"{len(part)} ".encode() + np.ascontiguousarray(part, dtype=np.int64).tobytes())
    mark = Path(store.folder) / "ensemble.txt"
    if mark.exists() or any(Path(store.folder).glob("*.safetensors")):
        same = mark.exists() and mark.read_text() == name.hexdigest()
        require(same, "store", store.folder, "a new folder, this one has teachers of another partition, recipe or seed")
        return
    mark.parent.mkdir(parents=True, exist_ok=True)
    write_text(mark, name.hexdigest())


def cast_votes(
    teacher: Teacher,
    store: CheckpointStore,
    num_teachers: int,
    inputs: NDArray[np.float32],
    chunk_size: int = 16,
    scratch: Path | None = None,
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Asks the teachers, a chunk at a time: no more than `chunk_size` teachers are in memory.

    Args:
        teacher: the recipe they were trained by.
        store: holds all of them.
        num_teachers: N.
        inputs: the queries, float32 `[num_queries, …]`.
        chunk_size: teachers asked at once.
        scratch: a folder for what they said, whence a killed run takes it up; the caller removes it at the end.

    Yields:
        The index of a chunk's first teacher, and confidences float32 `[c, num_queries, num_labels]`; a vote
        is a confidence >= 0.5.

    Raises:
        InvalidValue: a teacher is missing in the store.
    """
    require_count("num_teachers", num_teachers)
    require_count("chunk_size", chunk_size)
    for first in range(0, num_teachers, chunk_size):
        last = min(first + chunk_size, num_teachers)
        path = None if scratch is None else scratch / f"confidences-{first:06d}-{last:06d}.npz"
        if path is not None and path.exists():
            with np.load(path) as kept:
                yield first, kept["confidences"]
            continue
        states = [store.load(index) for index in range(first, last)]
        with one_thread(), device_memory("CUDA_VISIBLE_DEVICES= before the command asks them on the processor"):
            confidences = teacher.predict_many(states, inputs)
        if path is not None:
            write_arrays(path, confidences=confidences)
        yield first, confidences
