"""The ensemble: which teacher gets which records, and the teachers' votes on the queries."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pate.aggregators.release import PublicNames
from pate.data import Dataset, Partition, Split
from pate.files.atomic import make_folder, write_text
from pate.files.reading import damaged, read_text
from pate.run.progress import Monitor, NullMonitor
from pate.run.randomness import Randomness
from pate.run.trained_votes import TrainedVotes
from pate.teachers import CheckpointStore, Engine, Shard, Teacher, TrainingJob, Voter
from pate.teachers.isolated import isolated
from pate.validation import InvalidValue, require
from pate.votes.source import VoteSource

_MANIFEST = "the partition of this run's private records"
_DEAL_AGAIN = "remove it, and the same command deals the same partition again"

OnLoss = Callable[[int, float], None]
"""Told each teacher that was trained, and its loss."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Ensemble:
    """Teachers of disjoint shards of the private records. No epsilon covers them: do not publish them.

    Attributes:
        teacher: the recipe.
        partition: which teacher has which record.
        dataset: the data.
        num_queries: the first ones of the public pool are asked.
        folder: where checkpoints and votes are.
        randomness: the teachers' seeds come from it.
        engine: how teachers are trained.
        monitor: told of training and voting.
        on_loss: told each teacher's loss.
    """

    teacher: Voter
    partition: Partition
    dataset: Dataset
    num_queries: int
    folder: Path
    randomness: Randomness
    engine: Engine
    monitor: Monitor = field(default_factory=NullMonitor)
    on_loss: OnLoss | None = None

    @property
    def num_teachers(self) -> int:
        """N."""
        return self.partition.num_teachers

    @cached_property
    def num_groups(self) -> int:
        """The units of privacy in the private split."""
        return self.dataset.private.num_groups

    @property
    def queries(self) -> Split:
        """The public samples that are asked."""
        return self.dataset.public.take(slice(0, self.num_queries))

    @property
    def public_names(self) -> PublicNames:
        """What queries and labels are called where the release is published."""
        return PublicNames(self.dataset.published_ids[: self.num_queries], self.dataset.label_names)

    def votes(self) -> VoteSource:
        """What the teachers say; they are trained, if they have to be, once that is read."""
        return self.teacher.votes_of(self)

    def trained_votes(self, teacher: Teacher) -> VoteSource:
        """The votes of teachers that are trained by a recipe; called by the recipe."""
        return TrainedVotes(self, teacher)

    def train(self, teacher: Teacher) -> CheckpointStore:
        """Trains the teachers that have no checkpoint yet."""
        total, private = self.num_teachers, self.dataset.private
        store = CheckpointStore(self.folder / "teachers", records=self.partition.digest)
        done = total - len(store.missing(total))
        if done == total:
            return store
        make_folder(store.folder, within=self.folder)

        def shard(teacher: int) -> Shard:
            rows = private.take(self.partition.indices(teacher))
            return Shard(rows.inputs, rows.labels)

        with self.monitor.stage("training teachers", total) as advance:
            advance(done)

            def on_progress(teacher: int, loss: float) -> None:
                nonlocal done
                done += 1
                if self.on_loss is not None:
                    self.on_loss(teacher, loss)
                advance(done)

            seeds = self.randomness.seeds("teachers", total)
            recipe = isolated(teacher, private.group_ids)
            self.engine.train(TrainingJob(recipe, shard, seeds, store, on_progress))
        return store


def deal(private: Split, num_teachers: int, randomness: Randomness) -> Partition:
    """The partition of the private records: kept as a manifest, checked against the data and dealt again every time.

    Raises:
        InvalidValue: fewer groups than teachers; a manifest that is damaged, another run's, or of another number of
            teachers.
    """
    path = randomness.folder / "partition.json"
    dealt = Partition.draw(private.group_ids, num_teachers, randomness.generator("partition"))
    if not os.path.lexists(path):
        write_text(path, dealt.to_json(private))
    text = read_text(path, rule=_MANIFEST, remedy=_DEAL_AGAIN)
    try:
        partition = Partition.from_json(text, private)
    except InvalidValue as error:
        raise damaged(path, _MANIFEST, str(error), _DEAL_AGAIN) from None
    found = partition.num_teachers
    require(found == num_teachers, "partition.num_teachers", found, f"{num_teachers}, as configured")
    if partition.digest != dealt.digest:
        raise damaged(path, _MANIFEST, "the training.secret there deals another", _DEAL_AGAIN)
    return partition
