"""One teacher after the other."""

from __future__ import annotations

from dataclasses import dataclass

from pate.teachers.engines.engine import Engine, train_here
from pate.teachers.engines.job import TrainingJob


@dataclass(frozen=True)
class SequentialEngine(Engine):
    """Trains teachers one at a time in this process: the least memory, and the reference for the others."""

    def train(self, job: TrainingJob) -> None:
        """See `Engine.train`; a chunk is one teacher."""
        train_here(job, chunk_size=1)
