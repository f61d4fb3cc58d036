"""The ensembles of a comparison: each is trained once, whoever asks it and however often."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data import Dataset, Partition
from pate.files.atomic import write_text
from pate.run.randomness import Randomness
from pate.teachers import CheckpointStore, Engine, KernelTeacher, Shard, Teacher, cast_votes
from pate.teachers.isolated import isolated
from pate.validation import InvalidValue, require
from pate.votes import VoteStore


@dataclass(frozen=True)
class Ensemble:
    """Teachers trained on a partition of the private data, with their votes on the queries. No epsilon covers it.

    With the same seed it is that of `pate-train`.

    Attributes:
        folder: where partition, teachers and votes are.
        teacher: the recipe.
        num_teachers: T.
        seed: of the partition and of the training.
    """

    folder: Path
    teacher: Teacher | KernelTeacher
    num_teachers: int
    seed: int

    @property
    def is_trained(self) -> bool:
        """Kernel teachers are not: their votes are made where they are read."""
        return isinstance(self.teacher, Teacher)

    def check(self, dataset: Dataset) -> None:
        """Refuses more teachers than there are private groups."""
        groups = num_groups(dataset)
        rule = f"at most {groups}, the number of private groups"
        require(self.num_teachers <= groups, "teacher.num_teachers", self.num_teachers, rule)

    def prepare(
        self, dataset: Dataset, num_queries: int, engine: Engine, advance: Callable[[int], None] = lambda done: None
    ) -> None:
        """Trains what is missing and casts the votes, once; told how many teachers are done."""
        partition, teacher = self.partition(dataset), self.teacher
        if self._votes_path.exists() or not isinstance(teacher, Teacher):
            advance(self.num_teachers)
            return
        store, total = CheckpointStore(self.folder / "teachers"), self.num_teachers
        randomness = Randomness(self.folder, self.seed)
        private, done = dataset.private, total - len(store.missing(total))

        def part(teacher: int) -> Shard:
            rows = private.take(partition.indices(teacher))
            return Shard(rows.inputs, rows.labels)

        def on_progress(teacher: int, info: Mapping[str, Any]) -> None:
            nonlocal done
            done += 1
            advance(done)

        advance(done)
        recipe = isolated(teacher, private.group_ids)
        engine.train(recipe, part, total, randomness.seeds("teachers", total), store, on_progress)
        queries = dataset.public.inputs[:num_queries]
        shape = {"num_queries": num_queries, "num_labels": dataset.num_labels}
        bits = (block >= 0.5 for block in self.confidences(queries))
        VoteStore.write(self._votes_path, bits, num_teachers=total, **shape)

    def histogram(self) -> NDArray[np.int64]:
        """Counts of votes, `[Q, L]`.

        Raises:
            InvalidValue: there are none of these teachers.
        """
        return self._votes.histogram()

    def blocks(self) -> Iterator[NDArray[np.bool_]]:
        """Votes of the teachers, blocks `[c, Q, L]`.

        Raises:
            InvalidValue: there are none of these teachers.
        """
        return self._votes.blocks()

    @property
    def _votes(self) -> VoteStore:
        self._require_trained()
        return VoteStore.open(self._votes_path, num_teachers=self.num_teachers)

    def confidences(self, queries: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
        """What each teacher says of the queries, blocks `[c, Q, L]` in [0, 1]; the teachers are on disk."""
        store = CheckpointStore(self.folder / "teachers")
        for _, block in cast_votes(self._require_trained(), store, self.num_teachers, queries):
            yield block

    def _require_trained(self) -> Teacher:
        if not isinstance(self.teacher, Teacher):
            name = type(self.teacher).__name__
            raise InvalidValue(f"teacher={name}: expected teachers that are trained, for aggregators that count votes")
        return self.teacher

    def partition(self, dataset: Dataset) -> Partition:
        """Drawn once, kept as a manifest, and checked against the data every time."""
        path = self.folder / "partition.json"
        if not path.exists():
            rng = Randomness(self.folder, self.seed).generator("partition")
            drawn = Partition.draw(dataset.private.group_ids, self.num_teachers, rng)
            write_text(path, drawn.to_json(dataset.private))
        return Partition.from_json(path.read_text(), dataset.private)

    @property
    def _votes_path(self) -> Path:
        return self.folder / "votes.npz"


def num_groups(dataset: Dataset) -> int:
    """The units of privacy in the private split: as many teachers as there can be."""
    return len(np.unique(dataset.private.group_ids))
