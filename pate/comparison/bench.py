"""What all methods of a comparison share: data, queries, engine, folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pate.comparison.shared_data import SharedData
from pate.data import Dataset, Split
from pate.student import Student
from pate.teachers import Engine


@dataclass(frozen=True)
class Bench:
    """What all methods of a comparison share: data, queries, engine. Cheap to send to another process.

    Attributes:
        data: read once in every process.
        num_queries: the first ones of the public pool are asked.
        engine: how teachers are trained.
        student: the recipe for students that no epsilon covers.
        ensemble_seed: of partitions and teachers.
        folder: of the comparison.
    """

    data: SharedData
    num_queries: int
    engine: Engine
    student: Student
    ensemble_seed: int
    folder: Path

    @property
    def dataset(self) -> Dataset:
        """All of it."""
        return self.data.dataset

    @property
    def queries(self) -> Split:
        """The public samples that are asked."""
        return self.dataset.public.take(slice(0, self.num_queries))
