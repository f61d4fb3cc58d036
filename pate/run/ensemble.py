"""The ensemble of a run: teachers of disjoint private records, their training, and their votes on the queries.

Checkpoints and votes are kept in the run's folder, so a run that was killed trains no finished teacher again.
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
from pate.models.teacher import isolate_shard_sizes
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

    `Ensemble.train` trains missing teachers, unless all votes are kept already, and `vote` collects the votes. Only a
    teacher of the class `Teacher` is trained. Any other `Voter` computes its votes from the records each time they are
    read.

    Attributes:
        teacher_recipe: the recipe of the teachers.
        dataset: the private records that teachers learn from, and the public samples that they vote on.
        partition: the assignment of private records to teachers.
        num_queries: the number of queries, which are the first public samples of the pool.
        engine: trains the teachers, and sums the votes in rounds of teachers that need no training.
        ensemble_folder: the folder in which checkpoints and votes are kept.
        monitor: receives the progress of training and voting.
        weight_of_record: the weight in (0, 1] of the teacher that each private record belongs to, `[num_private]`; the
            weights are public. With weights each teacher has one group. None gives every teacher weight 1.
        keeps_features: whether the features of private records are kept between rounds, in memory or a scratch file;
            false makes them anew in each round.
    """

    teacher_recipe: Voter
    dataset: Dataset
    partition: Partition
    num_queries: int
    engine: Engine
    ensemble_folder: EnsembleFolder
    monitor: Monitor
    weight_of_record: FloatArray | None = None
    keeps_features: bool = True

    @classmethod
    def train(
        cls,
        teacher_recipe: Voter,
        dataset: Dataset,
        partition: Partition,
        *,
        num_queries: int,
        seeds: list[int],
        engine: Engine,
        ensemble_folder: EnsembleFolder,
        monitor: Monitor,
        on_losses_of_teacher: OnLosses | None = None,
        weight_of_record: FloatArray | None = None,
        keeps_features: bool = True,
    ) -> "Ensemble":
        """Trains the teachers whose checkpoints are missing in `ensemble_folder`, and returns the ensemble.

        Nothing is trained if the folder has all votes, or if teachers of this kind need no training. After a kill, the
        same call continues the training and ends with the same teachers.

        Two arguments are not fields of the class. The seed of each teacher's training is in `seeds`. After the training
        of a teacher, `on_losses_of_teacher` is called with its mean loss in each epoch; None if nobody needs them.
        """
        if isinstance(teacher_recipe, Teacher):
            teacher_recipe = teacher_recipe.for_data(dataset, num_queries)
        ensemble = cls(
            teacher_recipe=teacher_recipe,
            dataset=dataset,
            partition=partition,
            num_queries=num_queries,
            engine=engine,
            ensemble_folder=ensemble_folder,
            monitor=monitor,
            weight_of_record=weight_of_record,
            keeps_features=keeps_features,
        )
        if isinstance(teacher_recipe, Teacher) and not os.path.lexists(ensemble_folder.votes):
            ensemble._train(teacher_recipe, seeds=seeds, on_losses_of_teacher=on_losses_of_teacher)
        return ensemble

    def _train(
        self, teacher_recipe: Teacher, *, seeds: list[int], on_losses_of_teacher: OnLosses | None
    ) -> None:
        """Trains the teachers whose checkpoints are missing in the ensemble's folder.

        Args:
            teacher_recipe: the recipe of the teachers.
            seeds: the seed of each teacher's training.
            on_losses_of_teacher: is called after the training of each teacher, with its mean loss in each epoch; None
                calls nothing.
        """
        private_records = self.dataset.private
        checkpoint_store = self._checkpoint_store
        num_missing = len(checkpoint_store.missing(self.num_teachers))
        if num_missing == 0:
            return
        make_folder(self.ensemble_folder.teachers, existing_parent=self.ensemble_folder.path)
        with self.monitor.stage("training teachers", self.num_teachers) as advance:
            progress = _Progress(
                advance=advance,
                num_done=self.num_teachers - num_missing,
                num_epochs=getattr(teacher_recipe, "epochs", 1),  # teachers without epochs have one
                on_losses_of_teacher=on_losses_of_teacher,
            )
            advance(progress.num_done)
            training_job = TrainingJob(
                teacher=isolate_shard_sizes(teacher_recipe, group_ids=private_records.group_ids),
                shards=PartitionedRecords(
                    private_records.inputs,
                    labels=private_records.labels,
                    partition=self.partition,
                    known=private_records.known,
                ),
                seeds=seeds,
                store=checkpoint_store,
                on_progress=progress,
            )
            self.engine.train(training_job)

    @property
    def num_teachers(self) -> int:
        """The number of teachers, trained or not."""
        return self.partition.num_teachers

    @property
    def feature_storage(self) -> FeatureStorage:
        """The storage of the features of private records between rounds: memory, or a file in the ensemble's folder.

        If `keeps_features` is false, nothing is kept, and each round makes the features anew.
        """
        return FeatureStorage(keeps_features=self.keeps_features, folder=self.ensemble_folder.path)

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
        if not isinstance(self.teacher_recipe, Teacher):
            vote_source = self.teacher_recipe.votes_of(
                self.dataset, partition=self.partition, num_queries=self.num_queries
            )
            if self.weight_of_record is not None:
                vote_source.weights = np.zeros(self.num_teachers)
                vote_source.weights[self.partition.teacher_of] = self.weight_of_record
            if isinstance(vote_source, VotesInRounds):
                vote_source.make_round_sums = self.engine.round_sums
                vote_source.feature_storage = self.feature_storage
            return vote_source
        votes_file = self.ensemble_folder.votes
        num_labels = self.dataset.num_labels
        if os.path.lexists(votes_file):
            vote_store = VoteStore.open(votes_file, num_teachers=self.num_teachers)
            remedy = f"in {votes_file}; remove it, and teachers are asked again"
            if vote_store.num_queries != self.num_queries:
                rule = f"{self.num_queries} {remedy}"
                raise InvalidValue("num_queries", vote_store.num_queries, rule=rule)
            if vote_store.num_labels != num_labels:
                raise InvalidValue(
                    "num_labels", vote_store.num_labels, rule=f"{num_labels} {remedy}"
                )
        else:
            vote_bit_blocks = (block >= 0.5 for block in self.confidences())
            vote_store = VoteStore.write(
                votes_file,
                vote_bit_blocks,
                num_teachers=self.num_teachers,
                num_queries=self.num_queries,
                num_labels=num_labels,
            )
        return TrainedVotes(self, vote_store=vote_store)

    @property
    def reads_records_to_vote(self) -> bool:
        """Whether votes are computed from the private records each time they are read.

        It is True for every `Voter` that is no `Teacher`.
        """
        return not isinstance(self.teacher_recipe, Teacher)

    def of_private_rows(self, row_indices: IntArray) -> "Ensemble":
        """Returns the ensemble with some of the private records alone; teachers that have none of them are left out.

        Nothing is trained: the method is for teachers that compute their votes from the records.

        Args:
            row_indices: the row numbers of the records, of whole groups.
        """
        remaining_teachers, teacher_of = np.unique(
            self.partition.teacher_of[row_indices], return_inverse=True
        )
        budgets = self.dataset.budgets
        dataset = replace(
            self.dataset,
            private=self.dataset.private.take(row_indices),
            budgets=None if budgets is None else budgets[row_indices],
            shared=None,  # the rule for several owners is one for all records
        )
        return replace(
            self,
            dataset=dataset,
            partition=Partition(teacher_of.astype(np.int64), num_teachers=len(remaining_teachers)),
            weight_of_record=None
            if self.weight_of_record is None
            else self.weight_of_record[row_indices],
        )

    def confidences(self) -> Iterator[Float32Array]:
        """Yields the confidences of trained teachers in each label of each query, a block of teachers at a time.

        A block is an array `[num_block_teachers, num_queries, num_labels]`. Teachers come in the order of numbers. A
        teacher's confidence in a label that is known for none of its records is 0: it does not vote on the label.
        """
        teacher_recipe = self._trained_teacher()
        known_shares = self.known_shares()
        # Stacked teachers answer in less time than a scratch file takes.
        scratch_folder = self.ensemble_folder.confidences if teacher_recipe.is_isolated else None
        with self.monitor.stage("casting votes", self.num_teachers) as advance:
            for first_teacher, confidence_block in cast_votes(
                teacher_recipe,
                self._checkpoint_store,
                num_teachers=self.num_teachers,
                inputs=self.queries.inputs,
                scratch=scratch_folder,
            ):
                if known_shares is not None:
                    confidence_block = confidence_block * (
                        known_shares[first_teacher : first_teacher + len(confidence_block), None]
                        > 0
                    )
                yield confidence_block
                advance(first_teacher + len(confidence_block))
        rmtree(self.ensemble_folder.confidences, ignore_errors=True)

    def pool_answers(self, public_pca: PublicPCA, public_inputs: Float32Array) -> PoolAnswers:
        """Returns the answers of trained teachers to public samples, compared with those to the teachers' own records.

        `PoolAnswers` describes the comparison, a difference of two means for each teacher. The answers are private, and
        only their sums with noise are published. Students learn from these sums how teachers answer on the public pool.

        Args:
            public_pca: the principal directions of the public inputs, along which the answers are summed.
            public_inputs: the inputs of the public samples that are asked about, `[num_rows, num_features]`.
        """
        teacher_recipe = self._trained_teacher()
        checkpoint_store = self._checkpoint_store
        private_records = self.dataset.private
        public_features = public_pca.with_constant(public_inputs).astype(np.float32)
        pool_excess_shape = (self.num_teachers, public_features.shape[1], self.dataset.num_labels)
        pool_excess = np.empty(pool_excess_shape, dtype=np.float32)
        with self.monitor.stage("asking teachers of the pool", self.num_teachers) as advance:
            teacher_states = checkpoint_store.states(self.num_teachers)
            for first_teacher, confidence_block in cast_votes(
                teacher_recipe,
                checkpoint_store,
                num_teachers=self.num_teachers,
                inputs=public_inputs,
            ):
                # One iterator of states serves all blocks. `zip` stops at the end of a block before it takes the next
                # state, because `confidence_block` is its first argument.
                for teacher_index, (pool_confidences, teacher_state) in enumerate(
                    zip(confidence_block, teacher_states, strict=False), start=first_teacher
                ):
                    own_records = private_records.take(self.partition.indices(teacher_index))
                    own_confidences = teacher_recipe.predict_many(
                        [teacher_state], own_records.inputs
                    )[0]
                    own_features = public_pca.with_constant(own_records.inputs).astype(np.float32)
                    pool_excess[teacher_index] = pool_excess_of_teacher(
                        own_features=own_features,
                        own_confidences=own_confidences,
                        own_labels=own_records.labels,
                        own_known_label_mask=own_records.known,
                        pool_features=public_features,
                        pool_confidences=pool_confidences,
                    )
                advance(first_teacher + len(confidence_block))
        return PoolAnswers(
            pool_excess=pool_excess,
            asked_features=public_features,
            known_shares=self.known_shares(),
        )

    def moment_votes(
        self,
        public_pca: PublicPCA,
        public_inputs: Float32Array,
        records_per_teacher: float,
        ask_teachers: Callable[[], PoolAnswers] | None = None,
    ) -> MomentVotes:
        """Returns the votes of the teachers as moments, which an aggregator can release in rounds.

        A moment is a mean over a teacher's records: the error of a student in a label, times a feature. A feature is
        the record's coordinate along a direction of the input space.

        Args:
            public_pca: the principal directions of the public inputs, whose coordinates are the features.
            public_inputs: the inputs of the public samples that students learn from, `[num_rows, num_features]`.
            records_per_teacher: the mean number of private groups of a teacher. It is public, and takes the place of
                the mean number of records, which is private.
            ask_teachers: computes the answers of trained teachers to the public samples (`pool_answers`); None for
                teachers that are not trained.
        """
        private = self.dataset.private
        return MomentVotes(
            inputs=private.inputs,
            labels=labels_with_gaps(private.labels, known_label_mask=private.known),
            teacher_of=self.partition.teacher_of,
            public_pca=public_pca,
            public_inputs=public_inputs,
            ask_teachers=ask_teachers,
            num_teachers=self.num_teachers,
            records_per_teacher=records_per_teacher,
            feature_storage=self.feature_storage,
        )

    def label_shares(self) -> FloatArray:
        """Returns the share of each teacher's own records that have each label, `[num_teachers, num_labels]`."""
        labels = self.dataset.private.labels
        return shares_of_teachers(
            bits=labels, teacher_of=self.partition.teacher_of, num_teachers=self.num_teachers
        )

    def known_shares(self) -> FloatArray | None:
        """Returns the share of each teacher's records for which each label is known, `[num_teachers, num_labels]`.

        The result is None if all labels of all private records are known.
        """
        known = self.dataset.private.known
        if known is None:
            return None
        return shares_of_teachers(
            bits=known, teacher_of=self.partition.teacher_of, num_teachers=self.num_teachers
        )

    @property
    def _checkpoint_store(self) -> CheckpointStore:
        """The store of the files of trained teachers; it reads only files of teachers of this partition."""
        return CheckpointStore(self.ensemble_folder.teachers, records_digest=self.partition.digest)

    def _trained_teacher(self) -> Teacher:
        """Returns the recipe of the teachers, as that of teachers which are trained and can be asked again.

        Raises:
            InvalidValue: the teachers are of a kind that is not trained; or the folder has votes, but the checkpoint of
                a teacher is gone.
        """
        teacher = self.teacher_recipe
        if not isinstance(teacher, Teacher):
            rule = "one that is trained, and asked about samples"
            raise InvalidValue("teacher", type(teacher).__name__, rule=rule)
        votes_file = self.ensemble_folder.votes
        has_votes = os.path.lexists(votes_file)
        if has_votes and self._checkpoint_store.missing(self.num_teachers):
            rule = f"the teachers that voted; remove {votes_file}, and the same command trains them again"
            raise InvalidValue("teachers", self.ensemble_folder.teachers, rule=rule)
        return teacher


@dataclass(eq=False)  # a counter, compared by identity
class _Progress:
    """A callback that counts trained teachers: the engine calls it once the checkpoint of a teacher is written.

    The call has the index of the teacher and its loss in each training step.

    Attributes:
        advance: shows the number of trained teachers.
        num_done: the number of trained teachers so far.
        num_epochs: the number of epochs of a teacher.
        on_losses_of_teacher: receives the mean loss of each epoch; None calls nothing.
    """

    advance: Advance
    num_done: int
    num_epochs: int
    on_losses_of_teacher: OnLosses | None

    def __call__(self, index: int, losses_of_steps: NDArray[Any]) -> None:
        self.num_done += 1
        if self.on_losses_of_teacher is not None:
            self.on_losses_of_teacher(mean_by_epoch(losses_of_steps, num_epochs=self.num_epochs))
        self.advance(self.num_done)


def training_progress(
    teacher_recipe: Voter, *, partition: Partition, ensemble_folder: EnsembleFolder
) -> str:
    """Returns a phrase on what an earlier call has left in the folder: the votes, or the number of trained teachers.

    The phrase is empty if there is nothing, or if the teachers are of a kind that is not trained.
    """
    num_teachers = partition.num_teachers
    if not isinstance(teacher_recipe, Teacher):
        return ""
    if os.path.lexists(ensemble_folder.votes):
        return f"the votes of all {num_teachers} teachers are there"
    checkpoint_store = CheckpointStore(ensemble_folder.teachers, records_digest=partition.digest)
    num_trained = num_teachers - len(checkpoint_store.missing(num_teachers))
    return f"{num_trained} of {num_teachers} teachers are there" if num_trained else ""


def mean_by_epoch(losses_of_steps: NDArray[Any], num_epochs: int) -> FloatArray:
    """Returns the mean loss of each epoch of a teacher's training, `[num_epochs]`.

    The array is shorter if the training had fewer steps than epochs.

    Args:
        losses_of_steps: the loss of each training step, `[num_steps]`.
        num_epochs: the number of epochs that the steps are divided into.
    """
    losses_by_epoch = np.array_split(
        np.asarray(losses_of_steps, dtype=np.float64), min(num_epochs, len(losses_of_steps))
    )
    return np.array([part.mean() for part in losses_by_epoch])
