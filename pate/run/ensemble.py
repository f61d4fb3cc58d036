"""The ensemble of a run: teachers of disjoint private records, their training, and their votes on the queries.

Checkpoints and votes are kept in the run's folder, so a run that was killed trains no teacher twice.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from shutil import rmtree
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.aggregators.release import PublicNames
from pate.data import Dataset, Partition, Split
from pate.files.disk import make_folder
from pate.models import CheckpointStore, Engine, Teacher, TrainingJob, Voter, cast_votes
from pate.models.shards import PartitionedRecords
from pate.models.teacher import isolated
from pate.progress import Advance, Monitor
from pate.run.folder import EnsembleFolder
from pate.run.trained_votes import TrainedVotes
from pate.validation import InvalidValue, require
from pate.votes import VoteStore
from pate.votes.label_shares import mean_labels
from pate.votes.moment_votes import MomentVotes, PoolAnswers, beyond_own
from pate.votes.public_pca import PublicPCA
from pate.votes.source import VoteSource
from pate.votes.weighted import Array

OnLosses = Callable[[NDArray[np.float64]], None]
"""A function that is called with the mean loss of a trained teacher in each of its epochs, `[num_epochs]`."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Ensemble:
    """Teachers of disjoint shards of the private records. No epsilon covers them: do not publish them.

    `Ensemble.train` returns an ensemble whose teachers are trained, and `vote` collects their votes.

    Attributes:
        teacher: the recipe of the teachers.
        dataset: the private records that teachers learn from, and the public samples that they vote on.
        partition: which teacher has which record.
        num_queries: the number of public samples that are voted on, the first ones.
        folder: where checkpoints and votes are kept.
        monitor: is told of training and voting.
        weights: the weight of the teacher of each record, `[num_private]`, public, in (0, 1]; None where every teacher
            counts once. With weights each teacher has one group.
    """

    teacher: Voter
    dataset: Dataset
    partition: Partition
    num_queries: int
    folder: EnsembleFolder
    monitor: Monitor
    weights: Array | None = None

    @classmethod
    def train(
        cls,
        teacher: Voter,
        dataset: Dataset,
        partition: Partition,
        *,
        num_queries: int,
        seeds: list[int],
        engine: Engine,
        folder: EnsembleFolder,
        monitor: Monitor,
        on_losses: OnLosses | None = None,
        weights: Array | None = None,
    ) -> "Ensemble":
        """Trains the teachers that the folder lacks, each with its own seed and on its own records.

        Nothing is trained where the folder has all votes, or where the teachers are of a kind that is not trained. The
        same call continues a call that was killed, and ends with the same teachers.
        """
        if isinstance(teacher, Teacher):
            teacher = teacher.for_data(dataset, num_queries)
        ensemble = cls(
            teacher=teacher,
            dataset=dataset,
            partition=partition,
            num_queries=num_queries,
            folder=folder,
            monitor=monitor,
            weights=weights,
        )
        if isinstance(teacher, Teacher) and not os.path.lexists(folder.votes):
            ensemble._train(teacher, seeds, engine, on_losses)
        return ensemble

    def _train(
        self, teacher: Teacher, seeds: list[int], engine: Engine, on_losses: OnLosses | None
    ) -> None:
        """Trains the teachers whose checkpoints the folder lacks."""
        private = self.dataset.private
        store = self._checkpoints
        num_missing = len(store.missing(self.num_teachers))
        if num_missing == 0:
            return
        make_folder(self.folder.teachers, within=self.folder.path)
        with self.monitor.stage("training teachers", self.num_teachers) as advance:
            progress = _Progress(
                advance=advance,
                done=self.num_teachers - num_missing,
                num_epochs=getattr(teacher, "epochs", 1),
                on_losses=on_losses,
            )
            advance(progress.done)
            job = TrainingJob(
                teacher=isolated(teacher, private.group_ids),
                shards=PartitionedRecords(private.inputs, private.labels, self.partition),
                seeds=seeds,
                store=store,
                on_progress=progress,
            )
            engine.train(job)

    @property
    def num_teachers(self) -> int:
        """The number of teachers, trained or not."""
        return self.partition.num_teachers

    @property
    def queries(self) -> Split:
        """The public samples that the teachers vote on."""
        return self.dataset.public.take(slice(0, self.num_queries))

    @property
    def public_names(self) -> PublicNames:
        """The names of queries and labels where the release is published."""
        return PublicNames(self.dataset.published_ids[: self.num_queries], self.dataset.label_names)

    def vote(self) -> VoteSource:
        """Collects the votes of every teacher on the queries, and keeps them in the folder; kept votes are read back.

        Teachers that are not trained have votes of their own kind (`Voter.votes_of`), computed whenever they are read.
        """
        if not isinstance(self.teacher, Teacher):
            votes = self.teacher.votes_of(self.dataset, self.partition, self.num_queries)
            if self.weights is not None:
                votes.weights = np.zeros(self.num_teachers)
                votes.weights[self.partition.teacher_of] = self.weights
            return votes
        path = self.folder.votes
        num_labels = self.dataset.num_labels
        if os.path.lexists(path):
            store = VoteStore.open(path, num_teachers=self.num_teachers)
            again = f"in {path}; remove it, and teachers are asked again"
            num_queries = self.num_queries
            require(
                store.num_queries == num_queries,
                "num_queries",
                store.num_queries,
                f"{num_queries} {again}",
            )
            require(
                store.num_labels == num_labels,
                "num_labels",
                store.num_labels,
                f"{num_labels} {again}",
            )
        else:
            bits = (block >= 0.5 for block in self.confidences())
            store = VoteStore.write(
                path,
                bits,
                num_teachers=self.num_teachers,
                num_queries=self.num_queries,
                num_labels=num_labels,
            )
        return TrainedVotes(self, store)

    def confidences(self) -> Iterator[NDArray[np.float32]]:
        """Yields the confidences of trained teachers 0, 1, … in the queries, blocks of `[num_block_teachers, Q, L]`."""
        teacher = self._trained_teacher()
        # Teachers that are stacked answer faster than a scratch file is written.
        scratch = self.folder.confidences if teacher.is_isolated else None
        with self.monitor.stage("casting votes", self.num_teachers) as advance:
            for first, block in cast_votes(
                teacher, self._checkpoints, self.num_teachers, self.queries.inputs, scratch=scratch
            ):
                yield block
                advance(first + len(block))
        rmtree(self.folder.confidences, ignore_errors=True)

    def pool_answers(self, directions: PublicPCA, rows: NDArray[np.float32]) -> PoolAnswers:
        """Returns the answers of trained teachers to public rows, beyond what their own records account for.

        Each teacher also answers its own records. `directions` are those along which the votes are released.
        """
        teacher = self._trained_teacher()
        store = self._checkpoints
        private = self.dataset.private
        public_features = directions.with_constant(rows).astype(np.float32)
        shape = (self.num_teachers, public_features.shape[1], self.dataset.num_labels)
        beyond = np.empty(shape, dtype=np.float32)
        with self.monitor.stage("asking teachers of the pool", self.num_teachers) as advance:
            states = store.states(self.num_teachers)
            for first, block in cast_votes(teacher, store, self.num_teachers, rows):
                # The block is as long as it is, and the states go on behind it.
                for index, (pool_answers, state) in enumerate(
                    zip(block, states, strict=False), start=first
                ):
                    shard = private.take(self.partition.indices(index))
                    shard_answers = teacher.predict_many([state], shard.inputs)[0]
                    shard_features = directions.with_constant(shard.inputs).astype(np.float32)
                    beyond[index] = beyond_own(
                        shard_features, shard_answers, shard.labels, public_features, pool_answers
                    )
                advance(first + len(block))
        return PoolAnswers(beyond, public_features)

    def moment_votes(
        self,
        directions: PublicPCA,
        rows: NDArray[Any],
        records_per_teacher: float,
        ask: Callable[[], PoolAnswers] | None = None,
    ) -> MomentVotes:
        """Returns the votes of the teachers in rounds, along directions of the inputs.

        Args:
            directions: the directions that votes are released along.
            rows: the public inputs, of which students learn.
            records_per_teacher: how many private groups a teacher has on average.
            ask: returns the answers of trained teachers to the pool; None where teachers are not trained.
        """
        private = self.dataset.private
        return MomentVotes(
            inputs=private.inputs,
            labels=private.labels,
            teacher_of=self.partition.teacher_of,
            directions=directions,
            public_inputs=rows,
            ask=ask,
            num_teachers=self.num_teachers,
            records_per_teacher=records_per_teacher,
        )

    def label_shares(self) -> Array:
        """Returns each teacher's share of its own records with each label, `[num_teachers, L]`."""
        labels = self.dataset.private.labels
        return mean_labels(labels, self.partition.teacher_of, self.num_teachers)

    @property
    def _checkpoints(self) -> CheckpointStore:
        """Returns the checkpoints of teachers of this very partition."""
        return CheckpointStore(self.folder.teachers, records=self.partition.digest)

    def _trained_teacher(self) -> Teacher:
        """Returns the recipe of trained teachers; raises where votes are there and the checkpoints are gone."""
        teacher = self.teacher
        if not isinstance(teacher, Teacher):
            rule = "one that is trained, and asked about samples"
            raise InvalidValue("teacher", type(teacher).__name__, rule=rule)
        if os.path.lexists(self.folder.votes):
            rule = f"the teachers that voted; remove {self.folder.votes}, and the same command trains them again"
            is_whole = not self._checkpoints.missing(self.num_teachers)
            require(is_whole, "teachers", self.folder.teachers, rule)
        return teacher


@dataclass(eq=False)
class _Progress:
    """The progress of training: the engine calls it for each teacher once its checkpoint is on the disk."""

    advance: Advance
    done: int
    num_epochs: int
    on_losses: OnLosses | None

    def __call__(self, index: int, losses: NDArray[Any]) -> None:
        self.done += 1
        if self.on_losses is not None:
            self.on_losses(mean_by_epoch(losses, self.num_epochs))
        self.advance(self.done)


def training_progress(teacher: Voter, partition: Partition, folder: EnsembleFolder) -> str:
    """Returns in words which trained teachers or votes an earlier call left in a folder; empty where there are none."""
    num_teachers = partition.num_teachers
    if not isinstance(teacher, Teacher):
        return ""
    if os.path.lexists(folder.votes):
        return f"the votes of all {num_teachers} teachers are there"
    store = CheckpointStore(folder.teachers, records=partition.digest)
    done = num_teachers - len(store.missing(num_teachers))
    return f"{done} of {num_teachers} teachers are there" if done else ""


def mean_by_epoch(losses: NDArray[Any], num_epochs: int) -> NDArray[np.float64]:
    """Averages the losses of a teacher's steps over each epoch; fewer steps than epochs give fewer averages."""
    parts = np.array_split(np.asarray(losses, dtype=np.float64), min(num_epochs, len(losses)))
    return np.array([part.mean() for part in parts])
