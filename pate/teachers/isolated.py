"""Teachers that are trained one by one, whatever company an engine offers them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from pate.teachers.teacher import Shard, State, Teacher
from pate.teachers.voter import Voter


@dataclass(frozen=True)
class IsolatedTeacher(Teacher):
    """Another recipe, each of its teachers fitted in a call of its own.

    Shards that are fitted side by side are padded to the longest, and the order in which a kernel adds up follows that
    length. One change can make a shard longer or shorter, such as when a large group takes the place of a small one.
    Rounding would then carry that change to other teachers, and now and then to their votes.

    Formal guarantee: state i has the same bytes whatever the other shards of the call are.

    Attributes:
        teacher: the recipe.
    """

    teacher: Teacher

    @property
    def is_isolated(self) -> bool:
        """Always true."""
        return True

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """One call of the recipe for each shard."""
        return [
            state for shard, seed in zip(shards, seeds, strict=True) for state in self.teacher.fit_many([shard], [seed])
        ]

    def predict_many(self, states: Sequence[State], inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """The recipe's: its shapes are public."""
        return self.teacher.predict_many(states, inputs)


@overload
def isolated(teacher: Teacher, group_ids: NDArray[np.int64]) -> Teacher: ...
@overload
def isolated(teacher: Voter, group_ids: NDArray[np.int64]) -> Voter: ...
def isolated(teacher: Voter, group_ids: NDArray[np.int64]) -> Voter:
    """The recipe for records of these groups: apart where groups have several records, and so shards any length.

    Convolutional teachers on a GPU stay side by side, as one by one they would take far too long. Teachers without
    states, such as kernel teachers, are apart as they are.
    """
    sizes_are_public = len(np.unique(group_ids)) == len(group_ids)
    if sizes_are_public or not isinstance(teacher, Teacher) or teacher.is_isolated or _is_convolutional(teacher):
        return teacher
    return IsolatedTeacher(teacher)


def _is_convolutional(teacher: Teacher) -> bool:
    from pate.teachers.cnn import CNNTeacher  # loads torch

    return isinstance(teacher, CNNTeacher)
