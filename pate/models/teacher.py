"""A recipe for teachers: to a run a voter, to an engine a recipe that fits many at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.models.shards import Shard
from pate.votes.source import GroupVotes, TeacherVotesInRounds, VoteSource

if TYPE_CHECKING:
    from pate.data import Dataset, Partition

State = dict[str, NDArray[np.generic]]
"""A trained teacher, as named arrays; `loss_curve` float32 `[steps]` is always among them."""
# The name of an array that is unpickled, uint8: a store signs it, and reads none that its own key did not sign.
PICKLE = "pickle"


class Voter:
    """A recipe for the votes of teachers, each of which knows only its own private records.

    A subclass is either a `Teacher`, which is trained, saved and asked, or defines how its teachers vote
    (`votes_of`). An attribute outside its range raises `InvalidValue`.

    Attributes:
        gives: a property of the class: the type of the votes. It decides which aggregators can read them, whether
            teachers can be asked in rounds, and whom the price covers (`pate.run.compatibility`).
        is_trained: a property of the class: whether teachers learn from their records. If so, their number has to be
            set, and few records teach them little.
    """

    gives: ClassVar[type[VoteSource]] = TeacherVotesInRounds
    is_trained: ClassVar[bool] = True

    @property
    def is_scale_sensitive(self) -> bool:
        """True if features of very different widths make the teachers worse, as they do linear ones."""
        return False

    def num_protected(self, num_teachers: int, num_groups: int) -> int:
        """Returns how many parts of the private records are each bounded in what they change: teachers, or groups."""
        return num_groups if issubclass(self.gives, GroupVotes) else num_teachers

    def votes_of(self, dataset: Dataset, partition: Partition, num_queries: int) -> VoteSource:
        """Returns the votes of teachers without saved states on the first `num_queries` samples of the public pool."""
        raise NotImplementedError(
            f"{type(self).__name__}: expected a method votes_of, or a subclass of Teacher"
        )

    def check(self, input_shape: tuple[int, ...]) -> None:
        """Raises `InvalidValue` if such inputs are not for these teachers; called before anything is spent."""


class Teacher(Voter, ABC):
    """A recipe for teachers: public hyper-parameters, no learned state.

    What a teacher learns from its own records, thresholds included, stays in its state. It sees no record
    of another teacher, also where many are fitted in one call.

    Formal guarantees:
        * State i depends on shard i and seed i; on the other shards of the call only through floating-point
          rounding (batched kernels choose their summation order by the shape of the batch).
        * Equal calls on one processor with one thread give equal bytes; on a GPU if its convolutions add up in a
          fixed order.

    Attributes:
        stays_together: a property of the class: whether teachers take far too long one by one. They are then fitted
            side by side even where rounding could carry the size of one shard to another (`isolated`).
    """

    stays_together: ClassVar[bool] = False

    def for_data(self, dataset: Dataset, num_queries: int) -> Teacher:
        """Returns the recipe for a data set, which may need more than its inputs.

        Called before private records are read.
        """
        return self

    @property
    def is_isolated(self) -> bool:
        """True if state i has the same bytes in whatever call: engines then train and save teachers one by one."""
        return False

    @abstractmethod
    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits one teacher for each shard of disjoint records, by its seed, 0 <= seed < 2**32.

        Raises:
            InvalidValue: no shard, shards that differ in the shape of a record, or another number of seeds.
        """

    @abstractmethod
    def predict_many(
        self, states: Sequence[State], inputs: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Returns confidences in [0, 1] of each teacher, float32 `[num_states, num_queries, num_labels]`.

        A vote is a confidence >= 0.5: a teacher's own threshold is already folded in.
        """


@dataclass(frozen=True)
class IsolatedTeacher(Teacher):
    """A teacher whose state has the same bytes whatever the other shards are: each is fitted in a call of its own.

    Shards that are fitted side by side are padded to the longest, and the order in which a kernel adds up follows that
    length. If a large group takes the place of a small one, rounding would carry that to other teachers, and now and
    then to their votes.
    """

    teacher: Teacher  # the recipe for each

    @property
    def is_isolated(self) -> bool:
        """True: each teacher is trained by itself."""
        return True

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits one teacher after another, each on its own shard and with its own seed."""
        states: list[State] = []
        for shard, seed in zip(shards, seeds, strict=True):
            states += self.teacher.fit_many([shard], [seed])
        return states

    def predict_many(
        self, states: Sequence[State], inputs: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Returns the confidences of teachers, asked side by side: the shapes of queries are public."""
        return self.teacher.predict_many(states, inputs)


def isolated(teacher: Teacher, group_ids: NDArray[np.int64]) -> Teacher:
    """Returns the recipe for records of these groups: an isolated one if groups have several records.

    The lengths of shards are then private, since a group may have any number of records.
    """
    lengths_are_public = len(np.unique(group_ids)) == len(group_ids)
    if lengths_are_public or teacher.is_isolated or teacher.stays_together:
        return teacher
    return IsolatedTeacher(teacher)
