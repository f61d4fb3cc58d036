"""The ensemble: which teacher gets which records, their training, and the teachers' votes on the queries."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from shutil import rmtree
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.aggregators.release import PublicNames
from pate.data import Dataset, Partition, Split
from pate.files.arrays import taken
from pate.files.disk import damaged, make_folder, read_text, write_text
from pate.models.teacher import isolated
from pate.run.progress import Monitor
from pate.run.randomness import Randomness
from pate.teachers import CheckpointStore, Engine, Shard, Teacher, TrainingJob, Voter, cast_votes
from pate.validation import InvalidValue, require
from pate.votes import VoteStore
from pate.votes.moment_votes import MOST_PUBLIC, MomentVotes, PoolAnswers, beyond_own
from pate.votes.public_pca import RIDGE_IN_ROUNDS, SHARE_IN_ROUNDS, PublicPCA, affordable_directions
from pate.votes.source import Array, Bits, VoteSource, mean_labels

Ask = Callable[[], PoolAnswers]
NUM_ASKED = 2048  # rows of the public pool that trained teachers are asked of in rounds
_MANIFEST = "the partition of this run's private records"
_DEAL_AGAIN = "remove it, and the same command deals the same partition again"


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Teachers of disjoint shards of the private records. No epsilon covers them: do not publish them."""

    teacher: Voter  # the recipe
    partition: Partition  # which teacher has which record
    dataset: Dataset  # the data
    num_queries: int  # the first ones of the public pool are asked
    # the teachers' seeds come from it, and its folder has checkpoints and votes
    randomness: Randomness
    engine: Engine  # how teachers are trained
    monitor: Monitor = field(default_factory=Monitor)  # told of training and voting
    # told of each teacher that was trained: its mean loss in each epoch, `[E]`
    on_losses: Callable[[NDArray[np.float64]], None] | None = None
    # `[num_private]`, public, in (0, 1]: what the teacher of each record, one for each group, counts; None for 1
    weights: Array | None = None

    @property
    def num_teachers(self) -> int:
        return self.partition.num_teachers

    @property
    def queries(self) -> Split:
        return self.dataset.public.take(slice(0, self.num_queries))

    @property
    def public_names(self) -> PublicNames:
        """What queries and labels are called where the release is published."""
        return PublicNames(self.dataset.published_ids[: self.num_queries], self.dataset.label_names)

    def votes(self) -> VoteSource:
        """What the teachers say; they are trained, if they have to be, once that is read."""
        if isinstance(self.teacher, Teacher):
            return TrainedVotes(self, self.teacher.for_data(self.dataset, self.num_queries))
        votes = self.teacher.votes_of(self.dataset, self.partition, self.num_queries)
        if self.weights is not None:
            votes.weights = np.zeros(self.num_teachers)
            votes.weights[self.partition.teacher_of] = self.weights
        return votes

    def moments(
        self,
        directions: PublicPCA,
        rows: NDArray[Any],
        records_per_teacher: float,
        ask: Ask | None = None,
    ) -> MomentVotes:
        """The votes in rounds along directions, by public rows; `ask` says what trained teachers say."""
        private = self.dataset.private
        parts = self.partition
        return MomentVotes(
            inputs=private.inputs,
            labels=private.labels,
            teacher_of=parts.teacher_of,
            directions=directions,
            public_inputs=rows,
            ask=ask,
            num_teachers=self.num_teachers,
            records_per_teacher=records_per_teacher,
        )

    def found(self) -> str:
        """Says what an earlier call has left of teachers that are trained; empty where that is nothing."""
        folder = self.randomness.folder
        total = self.num_teachers
        if not isinstance(self.teacher, Teacher):
            return ""
        if os.path.lexists(folder / "votes.npz"):
            return f"the votes of all {total} teachers are there"
        done = total - len(self._checkpoints().missing(total))
        return f"{done} of {total} teachers are there" if done else ""

    def _checkpoints(self) -> CheckpointStore:
        return CheckpointStore(self.randomness.folder / "teachers", records=self.partition.digest)

    def train(self, teacher: Teacher) -> CheckpointStore:
        """Trains the teachers that have no checkpoint yet."""
        total = self.num_teachers
        private = self.dataset.private
        folder = self.randomness.folder
        store = self._checkpoints()
        done = total - len(store.missing(total))
        if done == total:
            return store
        make_folder(store.folder, within=folder)

        def shard(teacher: int) -> Shard:
            rows = self.partition.indices(teacher)
            return Shard(taken(private.inputs, rows), private.labels[rows])

        def on_progress(index: int, losses: NDArray[Any]) -> None:
            nonlocal done
            done += 1
            if self.on_losses is not None:
                self.on_losses(by_epoch(losses, getattr(teacher, "epochs", 1)))
            advance(done)

        with self.monitor.stage("training teachers", total) as advance:
            advance(done)
            recipe = isolated(teacher, private.group_ids)
            seeds = self.randomness.seeds("teachers", total)
            self.engine.train(TrainingJob(recipe, shard, seeds, store, on_progress))
        return store


class TrainedVotes(VoteSource):
    """Votes of trained teachers, which are trained and asked when these are first read; the bits are then kept."""

    def __init__(self, ensemble: Ensemble, teacher: Teacher) -> None:
        self.ensemble = ensemble
        self.teacher = teacher
        self.num_teachers = ensemble.num_teachers
        self.num_queries = ensemble.num_queries
        self.num_labels = ensemble.dataset.num_labels
        self.num_groups = ensemble.dataset.private.num_groups
        self.records_per_teacher = self.num_groups / ensemble.num_teachers

    def prepare(self) -> None:
        self._store()

    def bits(self) -> Iterator[Bits]:
        return self._store().blocks()

    def confidences(self) -> Iterator[NDArray[np.float32]]:
        store = self.ensemble.train(self.teacher)
        folder = self.ensemble.randomness.folder / "casting"
        # others answer faster than a file is written
        scratch = folder if self.teacher.is_isolated else None
        asked = self.ensemble.queries.inputs
        with self.ensemble.monitor.stage("casting votes", self.num_teachers) as advance:
            for first, block in cast_votes(
                self.teacher, store, self.num_teachers, asked, scratch=scratch
            ):
                yield block
                advance(first + len(block))
        rmtree(folder, ignore_errors=True)

    def in_rounds(self, *, noise_multiplier: float) -> MomentVotes | None:
        if not self.teacher.votes_in_rounds or len(self.ensemble.dataset.public.inputs.shape) != 2:
            return None  # a student of images is more than linear
        count = affordable_directions(
            noise_multiplier=noise_multiplier,
            noise_share=SHARE_IN_ROUNDS,
            num_teachers=self.num_teachers,
            num_records=self.num_groups,
            num_labels=self.num_labels,
        )

        def moments() -> MomentVotes:
            public = self.ensemble.dataset.public.inputs
            directions = PublicPCA.of(np.asarray(public), count, ridge=RIDGE_IN_ROUNDS)
            ask = partial(self.pool_answers, directions, public[:NUM_ASKED])
            rows = public[: max(MOST_PUBLIC, self.num_queries)]
            return self.ensemble.moments(directions, rows, self.records_per_teacher, ask)

        found: MomentVotes = self.remembered(("moments", count), moments)
        return found

    def pool_answers(self, directions: PublicPCA, rows: NDArray[np.float32]) -> PoolAnswers:
        """What every teacher says of these rows and of its own records; each is asked of its own by itself."""
        store = self.ensemble.train(self.teacher)
        private = self.ensemble.dataset.private
        asked = directions.with_constant(rows).astype(np.float32)
        beyond = np.empty((self.num_teachers, asked.shape[1], self.num_labels), dtype=np.float32)
        with self.ensemble.monitor.stage(
            "asking teachers of the pool", self.num_teachers
        ) as advance:
            states = store.states(self.num_teachers)
            for first, block in cast_votes(self.teacher, store, self.num_teachers, rows):
                for teacher, (of_pool, state) in enumerate(
                    zip(block, states, strict=False), start=first
                ):
                    own = private.take(self.ensemble.partition.indices(teacher))
                    said = self.teacher.predict_many([state], own.inputs)[0]
                    features = directions.with_constant(own.inputs).astype(np.float32)
                    beyond[teacher] = beyond_own(features, said, own.labels, asked, of_pool)
                advance(first + len(block))
        return PoolAnswers(beyond, asked)

    def label_shares(self) -> Array:
        labels = self.ensemble.dataset.private.labels
        teacher_of = self.ensemble.partition.teacher_of
        return mean_labels(labels, teacher_of, self.num_teachers)

    def _store(self) -> VoteStore:
        path = self.ensemble.randomness.folder / "votes.npz"
        shape = {"num_queries": self.num_queries, "num_labels": self.num_labels}
        if os.path.lexists(path):
            found = VoteStore.open(path, num_teachers=self.num_teachers)
            for name, wanted in shape.items():
                there = getattr(found, name)
                require(
                    there == wanted,
                    name,
                    there,
                    f"{wanted} in {path}; remove it, and teachers are asked again",
                )
            return found
        bits = (block >= 0.5 for block in self.confidences())
        return VoteStore.write(path, bits, num_teachers=self.num_teachers, **shape)


def by_epoch(losses: NDArray[Any], epochs: int) -> NDArray[np.float64]:
    """Averages the losses of a teacher's steps over each epoch; a teacher without steps enough has fewer."""
    parts = np.array_split(np.asarray(losses, dtype=np.float64), min(epochs, len(losses)))
    return np.array([part.mean() for part in parts])


def deal(private: Split, num_teachers: int, randomness: Randomness) -> Partition:
    """The partition of the private records: kept as a manifest, checked against the data and dealt again every time.

    A manifest that is damaged, another run's, or of another number of teachers is refused.
    """
    path = randomness.folder / "partition.json"
    dealt = Partition.draw(private.group_ids, num_teachers, randomness.generator("partition"))
    manifest = dealt.to_json(private)
    if not os.path.lexists(path):
        write_text(path, manifest)
    if (text := read_text(path, rule=_MANIFEST, remedy=_DEAL_AGAIN)) != manifest:
        try:
            same = Partition.from_json(text, private).digest == dealt.digest
        except InvalidValue as error:
            raise damaged(path, _MANIFEST, str(error), _DEAL_AGAIN) from None
        if not same:
            raise damaged(
                path, _MANIFEST, "training.secret and num_teachers deal another", _DEAL_AGAIN
            )
    return dealt
