"""The ensemble of a run: teachers of disjoint private records, their training, and their votes on the queries.

Checkpoints and votes are kept in the run's folder, so a run that was killed trains no teacher twice.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from shutil import rmtree
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.aggregators.release import PublicNames
from pate.array_types import Float32Array, FloatArray, IntArray
from pate.data import Dataset, Partition, Split
from pate.files.paths import make_folder
from pate.models import CheckpointStore, Engine, Teacher, TrainingJob, Voter, cast_votes
from pate.models.shards import PartitionedRecords
from pate.models.teacher import isolate
from pate.progress import Advance, Monitor
from pate.run.folder import EnsembleFolder
from pate.run.trained_votes import TrainedVotes
from pate.validation import InvalidValue
from pate.votes import VoteStore
from pate.votes.feature_rows import FeatureStorage
from pate.votes.label_gaps import labels_with_gaps
from pate.votes.label_shares import shares_of_teachers
from pate.votes.moment_votes import MomentVotes
from pate.votes.pool_answers import PoolAnswers, pool_excess_of_teacher
from pate.votes.public_pca import PublicPCA
from pate.votes.source import VotesInRounds, VoteSource

OnLosses = Callable[[FloatArray], None]
"""A function that is called with the mean loss of a trained teacher in each of its epochs, `[num_epochs]`."""


@dataclass(frozen=True, eq=False, kw_only=True)  # == of arrays is an array
class Ensemble:
    """Teachers that learn from disjoint shards of the private records. No epsilon covers them: do not publish them.

    `Ensemble.train` returns an ensemble whose teachers are trained, and `vote` collects their votes. Only a teacher of
    the class `Teacher` is trained. Any other `Voter` computes its votes from the records each time they are read.

    Attributes:
        teacher: the recipe of the teachers.
        dataset: the private records that teachers learn from, and the public samples that they vote on.
        partition: the assignment of private records to teachers.
        num_queries: the number of queries: the teachers vote on this many public samples from the beginning of the
            pool.
        engine: trains the teachers, and sums the votes in rounds of teachers that need no training.
        folder: the folder in which checkpoints and votes are kept.
        monitor: receives the progress of training and voting.
        weights: the weight in (0, 1] of the teacher that each private record belongs to, `[num_private]`; the weights
            are public. With weights each teacher has one group. None gives every teacher weight 1.
        scratch: whether the features of private records are kept between rounds, in memory or a scratch file; false
            makes them anew in each round.
    """

    teacher: Voter
    dataset: Dataset
    partition: Partition
    num_queries: int
    engine: Engine
    folder: EnsembleFolder
    monitor: Monitor
    weights: FloatArray | None = None
    scratch: bool = True

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
        weights: FloatArray | None = None,
        scratch: bool = True,
    ) -> "Ensemble":
        """Trains the teachers whose checkpoints are missing in `folder`, and returns the ensemble.

        Nothing is trained if the folder has all votes, or if teachers of this kind need no training. After a kill, the
        same call continues the training and ends with the same teachers.

        Args:
            teacher: the recipe of the teachers.
            dataset: the private records that teachers learn from, and the public samples that they vote on.
            partition: the assignment of private records to teachers.
            num_queries: the number of public samples that teachers vote on.
            seeds: the seed of each teacher's training.
            engine: trains the teachers, and sums the votes in rounds of teachers that need no training.
            folder: the folder in which checkpoints and votes are kept.
            monitor: receives the progress of training and voting.
            on_losses: is called after the training of each teacher, with its mean loss in each epoch; None if nobody
                needs it.
            weights: the weight of the teacher that each private record belongs to, `[num_private]`; None for weight 1.
            scratch: whether the features of private records are kept between rounds.
        """
        if isinstance(teacher, Teacher):
            teacher = teacher.for_data(dataset, num_queries)
        ensemble = cls(
            teacher=teacher,
            dataset=dataset,
            partition=partition,
            num_queries=num_queries,
            engine=engine,
            folder=folder,
            monitor=monitor,
            weights=weights,
            scratch=scratch,
        )
        if isinstance(teacher, Teacher) and not os.path.lexists(folder.votes):
            ensemble._train(teacher, seeds=seeds, on_losses=on_losses)
        return ensemble

    def _train(self, teacher: Teacher, *, seeds: list[int], on_losses: OnLosses | None) -> None:
        """Trains the teachers whose checkpoints are missing in the ensemble's folder.

        Args:
            teacher: the recipe of the teachers.
            seeds: the seed of each teacher's training.
            on_losses: is called after the training of each teacher, with its mean loss in each epoch; None calls
                nothing.
        """
        private = self.dataset.private
        store = self._checkpoints
        num_missing = len(store.missing(self.num_teachers))
        if num_missing == 0:
            return
        make_folder(self.folder.teachers, existing_parent=self.folder.path)
        with self.monitor.stage("training teachers", self.num_teachers) as advance:
            progress = _Progress(
                advance=advance,
                num_done=self.num_teachers - num_missing,
                num_epochs=getattr(teacher, "epochs", 1),
                on_losses=on_losses,
            )
            advance(progress.num_done)
            job = TrainingJob(
                teacher=isolate(teacher, group_ids=private.group_ids),
                shards=PartitionedRecords(
                    private.inputs,
                    labels=private.labels,
                    partition=self.partition,
                    known=private.known,
                ),
                seeds=seeds,
                store=store,
                on_progress=progress,
            )
            self.engine.train(job)

    @property
    def num_teachers(self) -> int:
        """The number of teachers, trained or not."""
        return self.partition.num_teachers

    @property
    def storage(self) -> FeatureStorage:
        """The storage of the features of private records between rounds: memory, or a file in the ensemble's folder.

        If `scratch` is false, nothing is kept, and each round makes the features anew.
        """
        return FeatureStorage(keeps_features=self.scratch, folder=self.folder.path)

    @property
    def queries(self) -> Split:
        """The public samples that the teachers vote on."""
        return self.dataset.public.take(slice(0, self.num_queries))

    @property
    def public_names(self) -> PublicNames:
        """The names of queries and labels that are published with the release."""
        return PublicNames(
            record_ids=self.dataset.published_ids[: self.num_queries],
            label_names=self.dataset.label_names,
        )

    def vote(self) -> VoteSource:
        """Returns the votes of all teachers on the queries, and keeps them in the folder; votes kept before are read.

        Teachers that need no training compute their votes from the data each time (`Voter.votes_of`).

        Raises:
            InvalidValue: the votes in the folder are for another number of queries or labels, or are damaged; or the
                checkpoint of a teacher is missing.
        """
        if not isinstance(self.teacher, Teacher):
            votes = self.teacher.votes_of(
                self.dataset, partition=self.partition, num_queries=self.num_queries
            )
            if self.weights is not None:
                votes.weights = np.zeros(self.num_teachers)
                votes.weights[self.partition.teacher_of] = self.weights
            if isinstance(votes, VotesInRounds):
                votes.make_round_sums = self.engine.round_sums
                votes.storage = self.storage
            return votes
        path = self.folder.votes
        num_labels = self.dataset.num_labels
        if os.path.lexists(path):
            store = VoteStore.open(path, num_teachers=self.num_teachers)
            remedy = f"in {path}; remove it, and teachers are asked again"
            if store.num_queries != self.num_queries:
                rule = f"{self.num_queries} {remedy}"
                raise InvalidValue("num_queries", store.num_queries, rule=rule)
            if store.num_labels != num_labels:
                raise InvalidValue("num_labels", store.num_labels, rule=f"{num_labels} {remedy}")
        else:
            bits = (block >= 0.5 for block in self.confidences())
            store = VoteStore.write(
                path,
                bits,
                num_teachers=self.num_teachers,
                num_queries=self.num_queries,
                num_labels=num_labels,
            )
        return TrainedVotes(self, store=store)

    @property
    def reads_records_to_vote(self) -> bool:
        """Whether votes are computed from the private records each time they are read.

        It is True for every `Voter` that is no `Teacher`.
        """
        return not isinstance(self.teacher, Teacher)

    def of_rows(self, rows: IntArray) -> "Ensemble":
        """Returns the ensemble with some of the private records alone; teachers that have none of them are left out.

        Args:
            rows: the row numbers of the records, of whole groups.
        """
        remaining, teacher_of = np.unique(self.partition.teacher_of[rows], return_inverse=True)
        budgets = self.dataset.budgets
        dataset = replace(
            self.dataset,
            private=self.dataset.private.take(rows),
            budgets=None if budgets is None else budgets[rows],
            shared=None,
        )
        return replace(
            self,
            dataset=dataset,
            partition=Partition(teacher_of.astype(np.int64), num_teachers=len(remaining)),
            weights=None if self.weights is None else self.weights[rows],
        )

    def confidences(self) -> Iterator[Float32Array]:
        """Yields the confidences of trained teachers in each label of each query, a block of teachers at a time.

        A block is an array `[num_block_teachers, Q, L]`. Teachers come in the order of their numbers. A teacher's
        confidence in a label that is known for none of its records is 0: it does not vote on the label.
        """
        teacher = self._trained_teacher()
        known_shares = self.known_shares()
        # Stacked teachers answer in less time than a scratch file takes.
        scratch = self.folder.confidences if teacher.is_isolated else None
        with self.monitor.stage("casting votes", self.num_teachers) as advance:
            for first, block in cast_votes(
                teacher,
                self._checkpoints,
                num_teachers=self.num_teachers,
                inputs=self.queries.inputs,
                scratch=scratch,
            ):
                if known_shares is not None:
                    block = block * (known_shares[first : first + len(block), None] > 0)
                yield block
                advance(first + len(block))
        rmtree(self.folder.confidences, ignore_errors=True)

    def pool_answers(self, public_pca: PublicPCA, public_inputs: Float32Array) -> PoolAnswers:
        """Returns the answers of trained teachers to public samples, compared with what their own records tell.

        `PoolAnswers` describes the comparison. The answers are private, and only their sums with noise are published.
        Students learn from these sums how teachers answer on the public pool.

        Args:
            public_pca: the principal directions of the public inputs, along which the answers are summed.
            public_inputs: the inputs of the public samples that are asked about, `[num_rows, num_features]`.
        """
        teacher = self._trained_teacher()
        store = self._checkpoints
        private = self.dataset.private
        public_features = public_pca.with_constant(public_inputs).astype(np.float32)
        shape = (self.num_teachers, public_features.shape[1], self.dataset.num_labels)
        pool_excess = np.empty(shape, dtype=np.float32)
        known_shares = self.known_shares()
        with self.monitor.stage("asking teachers of the pool", self.num_teachers) as advance:
            states = store.states(self.num_teachers)
            for first, block in cast_votes(
                teacher, store, num_teachers=self.num_teachers, inputs=public_inputs
            ):
                # One iterator of states serves all blocks. `zip` stops at the end of a block before it takes the next
                # state, because `block` is its first argument.
                for teacher_index, (pool_confidences, state) in enumerate(
                    zip(block, states, strict=False), start=first
                ):
                    shard = private.take(self.partition.indices(teacher_index))
                    shard_answers = teacher.predict_many([state], shard.inputs)[0]
                    shard_features = public_pca.with_constant(shard.inputs).astype(np.float32)
                    pool_excess[teacher_index] = pool_excess_of_teacher(
                        own_features=shard_features,
                        own_confidences=shard_answers,
                        own_labels=shard.labels,
                        own_is_known=shard.known,
                        pool_features=public_features,
                        pool_confidences=pool_confidences,
                    )
                advance(first + len(block))
        return PoolAnswers(
            pool_excess=pool_excess, asked_features=public_features, known_shares=known_shares
        )

    def moment_votes(
        self,
        directions: PublicPCA,
        public_inputs: Float32Array,
        records_per_teacher: float,
        ask_teachers: Callable[[], PoolAnswers] | None = None,
    ) -> MomentVotes:
        """Returns the votes of the teachers as moments, which an aggregator can release in rounds.

        A moment is a mean over a teacher's records: the error of a student in a label, times a feature. A feature is
        the record's coordinate along a direction of the input space.

        Args:
            directions: the principal directions of the public inputs, whose coordinates are the features.
            public_inputs: the inputs of the public samples that students learn from, `[num_rows, num_features]`.
            records_per_teacher: the mean number of private groups of a teacher. It is public, and takes the place of
                the mean number of records, which is private.
            ask_teachers: computes the answers of trained teachers to the public samples (`pool_answers`); None for
                teachers that are not trained.
        """
        private = self.dataset.private
        return MomentVotes(
            inputs=private.inputs,
            labels=labels_with_gaps(private.labels, known=private.known),
            teacher_of=self.partition.teacher_of,
            directions=directions,
            public_inputs=public_inputs,
            ask=ask_teachers,
            num_teachers=self.num_teachers,
            records_per_teacher=records_per_teacher,
            storage=self.storage,
        )

    def label_shares(self) -> FloatArray:
        """Returns, for each teacher and label, the share of the teacher's own records that have the label, `[N, L]`."""
        labels = self.dataset.private.labels
        return shares_of_teachers(
            bits=labels, teacher_of=self.partition.teacher_of, num_teachers=self.num_teachers
        )

    def known_shares(self) -> FloatArray | None:
        """Returns, for each teacher and label, the share of the teacher's records whose label is known, `[N, L]`.

        The result is None if all labels of all private records are known.
        """
        known = self.dataset.private.known
        if known is None:
            return None
        return shares_of_teachers(
            bits=known, teacher_of=self.partition.teacher_of, num_teachers=self.num_teachers
        )

    @property
    def _checkpoints(self) -> CheckpointStore:
        """The store of the files of trained teachers; it reads only files of teachers of this partition."""
        return CheckpointStore(self.folder.teachers, records_digest=self.partition.digest)

    def _trained_teacher(self) -> Teacher:
        """Returns the recipe of the teachers, as that of teachers which are trained and can be asked again.

        Raises:
            InvalidValue: the teachers are of a kind that is not trained; or the folder has votes, but the checkpoint of
                a teacher is gone.
        """
        teacher = self.teacher
        if not isinstance(teacher, Teacher):
            rule = "one that is trained, and asked about samples"
            raise InvalidValue("teacher", type(teacher).__name__, rule=rule)
        has_votes = os.path.lexists(self.folder.votes)
        if has_votes and self._checkpoints.missing(self.num_teachers):
            rule = f"the teachers that voted; remove {self.folder.votes}, and the same command trains them again"
            raise InvalidValue("teachers", self.folder.teachers, rule=rule)
        return teacher


@dataclass(eq=False)  # a counter, compared by identity
class _Progress:
    """A callback that counts trained teachers: the engine calls it once the checkpoint of a teacher is written.

    The call has the index of the teacher and its loss in each training step.

    Attributes:
        advance: shows the number of trained teachers.
        num_done: the number of trained teachers so far.
        num_epochs: the number of epochs of a teacher.
        on_losses: receives the mean loss of each epoch; None calls nothing.
    """

    advance: Advance
    num_done: int
    num_epochs: int
    on_losses: OnLosses | None

    def __call__(self, index: int, losses: NDArray[Any]) -> None:
        self.num_done += 1
        if self.on_losses is not None:
            self.on_losses(mean_by_epoch(losses, num_epochs=self.num_epochs))
        self.advance(self.num_done)


def training_progress(teacher: Voter, *, partition: Partition, folder: EnsembleFolder) -> str:
    """Returns a phrase on what an earlier call has left in `folder`: the votes, or the number of trained teachers.

    The phrase is empty if there is nothing, or if the teachers are of a kind that is not trained.
    """
    num_teachers = partition.num_teachers
    if not isinstance(teacher, Teacher):
        return ""
    if os.path.lexists(folder.votes):
        return f"the votes of all {num_teachers} teachers are there"
    store = CheckpointStore(folder.teachers, records_digest=partition.digest)
    done = num_teachers - len(store.missing(num_teachers))
    return f"{done} of {num_teachers} teachers are there" if done else ""


def mean_by_epoch(losses: NDArray[Any], num_epochs: int) -> FloatArray:
    """Returns the mean loss of each epoch of a teacher's training, `[num_epochs]`.

    The array is shorter if the training had fewer steps than epochs.

    Args:
        losses: the loss of each training step, `[num_steps]`.
        num_epochs: the number of epochs that the steps are divided into.
    """
    parts = np.array_split(np.asarray(losses, dtype=np.float64), min(num_epochs, len(losses)))
    return np.array([part.mean() for part in parts])
