"""One teacher after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pate.teachers.checkpoint import CheckpointStore
from pate.teachers.engine import Engine, OnProgress, train_here
from pate.teachers.teacher import Shard, Teacher


@dataclass(frozen=True)
class SequentialEngine(Engine):
    """Trains teachers one at a time in this process: the least memory, and the reference for the others."""

    def train(
        self,
        teacher: Teacher,
        parts: Callable[[int], Shard],
        num_teachers: int,
        seeds: Sequence[int],
        store: CheckpointStore,
        on_progress: OnProgress | None = None,
    ) -> None:
        """See `Engine.train`; a chunk is one teacher."""
        train_here(1, teacher, parts, num_teachers, seeds, store, on_progress)
