"""Base classes of recipes for teachers: `Voter` for all that can vote, and `Teacher` for those that are trained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.array_types import Float32Array, IntArray
from pate.models.shards import Shard
from pate.votes.source import GroupVotes, TeacherVotesInRounds, VoteSource

if TYPE_CHECKING:
    from pate.data import Dataset, Partition

State = dict[str, NDArray[np.generic]]
"""A trained teacher, as named arrays; `loss_curve` float32 `[steps]` is always among them."""

PICKLE = "pickle"
"""The name of an array of bytes that is unpickled. A store reads it only if the store has signed it."""


class Voter:
    """A recipe for the votes of teachers, each of which knows only its own private records.

    A subclass is either a `Teacher`, which is trained and saved, or it computes the votes of its teachers in
    `votes_of`. An attribute outside its range raises `InvalidValue`.

    Attributes:
        gives: the type of the votes. It determines which aggregators can read the votes, whether they can be released
            in rounds, and whose data the price protects (`pate.run.compatibility`).
        is_trained: whether teachers learn from their records. Then the number of teachers must be set, and teachers
            with few records are weak.
    """

    gives: ClassVar[type[VoteSource]] = TeacherVotesInRounds
    is_trained: ClassVar[bool] = True

    @property
    def is_scale_sensitive(self) -> bool:
        """Whether the teachers become worse when the ranges of the features differ greatly, as linear teachers do."""
        return False

    def num_protected(self, num_teachers: int, num_groups: int) -> int:
        """Returns the number of units whose influence on a release is bounded.

        The units are the private groups if each of them has a vote (`GroupVotes`), and otherwise the teachers.
        """
        return num_groups if issubclass(self.gives, GroupVotes) else num_teachers

    def votes_of(self, dataset: Dataset, partition: Partition, num_queries: int) -> VoteSource:
        """Returns the votes on the first `num_queries` samples of the public pool, for teachers that are not trained.

        Args:
            dataset: the private records and the public pool.
            partition: the assignment of private records to teachers.
            num_queries: the number of queries.
        """
        raise NotImplementedError(
            f"{type(self).__name__}: expected a method votes_of, or a subclass of Teacher"
        )

    def check(self, input_shape: tuple[int, ...]) -> None:
        """Raises `InvalidValue` if inputs of this shape do not suit the teachers; called before anything is spent."""


class Teacher(Voter, ABC):
    """A recipe for trained teachers: public hyper-parameters, without learned state.

    Everything that a teacher learns from its own records, such as its threshold, is in its state. A teacher reads no
    record of another teacher, even if several teachers are fitted in one call.

    Formal guarantees:
        * State i depends on shard i and seed i. It depends on the other shards of the call only by floating-point
          rounding, as batched kernels choose the order of summation by the shape of the batch.
        * Equal calls on one processor with one thread give equal bytes. On a GPU, this holds if its convolutions sum in
          a fixed order.

    Attributes:
        stays_together: whether fitting teachers one by one takes far too long. Then they are fitted together, even if
            rounding could reveal the size of one shard in the state of another teacher (`isolate_shard_sizes`).
    """

    stays_together: ClassVar[bool] = False

    def for_data(self, dataset: Dataset, num_queries: int) -> Teacher:
        """Returns the recipe that is used for a data set: this one, unless a subclass overrides the method.

        It is called before a teacher is trained, and uses nothing private. A subclass overrides it if it needs more
        than the inputs, such as the columns of a table.
        """
        return self

    @property
    def is_isolated(self) -> bool:
        """Whether each teacher's state depends on its own shard alone, and not on the shards fitted in the same call.

        Engines then train teachers one by one.
        """
        return False

    @abstractmethod
    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Returns the states of teachers that are fitted to shards, one teacher for each shard.

        Args:
            shards: the records of each teacher. No record is in two shards, but copies of it may be, where persons have
                budgets of their own.
            seeds: the seed of each teacher, 0 <= seed < 2**32.

        Raises:
            InvalidValue: there is no shard, or the shapes of records differ, or the numbers of seeds and shards differ.
        """

    @abstractmethod
    def predict_many(self, states: Sequence[State], inputs: Float32Array) -> Float32Array:
        """Returns the confidences of teachers in the labels of inputs, in [0, 1].

        A teacher votes for a label if its confidence is at least 0.5; the teacher's own threshold has been mapped to
        0.5.

        Args:
            states: the states of the teachers.
            inputs: the inputs of the queries, float32, one entry for each query.

        Returns:
            The confidences, float32 `[num_states, num_queries, num_labels]`.
        """


@dataclass(frozen=True)
class IsolatedTeacher(Teacher):
    """A recipe that fits each teacher in a call of its own, so that other shards do not influence the teacher's state.

    If shards are fitted together, they are padded to the size of the largest shard, and numbers are added in an order
    that depends on this size. If a private group with many records replaces one with few, rounding could then change
    the states of other teachers, and sometimes their votes.

    Attributes:
        teacher: the recipe of each teacher.
    """

    teacher: Teacher

    @property
    def is_isolated(self) -> bool:
        """True, as each teacher is trained by itself."""
        return True

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits one teacher after another, each on its own shard and with its own seed."""
        states: list[State] = []
        for shard, seed in zip(shards, seeds, strict=True):
            states += self.teacher.fit_many(shards=[shard], seeds=[seed])
        return states

    def predict_many(self, states: Sequence[State], inputs: Float32Array) -> Float32Array:
        """Returns the confidences of several teachers together, which is safe as the shapes of queries are public."""
        return self.teacher.predict_many(states, inputs)


def isolate_shard_sizes(teacher: Teacher, group_ids: IntArray) -> Teacher:
    """Returns a recipe under which the private size of a shard does not influence other teachers, if that is feasible.

    The recipe itself is returned if each group has one record, so that the sizes of shards are public; if it trains
    teachers one by one already; or if its `stays_together` is true. Otherwise the size of a shard is private, as a
    group may have any number of records, and the result is an `IsolatedTeacher`.

    Args:
        teacher: the recipe.
        group_ids: the group of each private record, `[num_private]`.
    """
    lengths_are_public = len(np.unique(group_ids)) == len(group_ids)
    if lengths_are_public or teacher.is_isolated or teacher.stays_together:
        return teacher
    return IsolatedTeacher(teacher)
