"""Many teachers side by side in one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pate.teachers.checkpoint import CheckpointStore
from pate.teachers.engine import Engine, OnProgress, train_here
from pate.teachers.teacher import Shard, Teacher
from pate.validation import require_count


@dataclass(frozen=True)
class StackedEngine(Engine):
    """Trains a chunk of teachers at a time in this process, by batched matrix products: the way for a GPU.

    Attributes:
        chunk_size: teachers in a batch. On a CPU more than fit its cache are slower; a GPU likes hundreds.

    Raises:
        InvalidValue: a chunk size below 1.
    """

    chunk_size: int = 16

    def __post_init__(self) -> None:
        require_count("chunk_size", self.chunk_size)

    def train(
        self,
        teacher: Teacher,
        parts: Callable[[int], Shard],
        num_teachers: int,
        seeds: Sequence[int],
        store: CheckpointStore,
        on_progress: OnProgress | None = None,
    ) -> None:
        """See `Engine.train`."""
        train_here(self.chunk_size, teacher, parts, num_teachers, seeds, store, on_progress)
