"""What every kind of teacher offers: fit many at once, predict with many at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pate.teachers.voter import Voter
from pate.validation import require, require_array, require_features
from pate.votes.source import VoteSource

if TYPE_CHECKING:
    from pate.run.ensemble import Ensemble

State = dict[str, NDArray[np.generic]]
"""All that a trained teacher is, as named arrays; `loss_curve` float32 `[steps]` is always among them."""

PICKLE = "pickle"
"""The name of an array that is unpickled, uint8: a store signs it, and reads none that its own key did not sign."""


@dataclass(frozen=True, eq=False)
class Shard:
    """The private records of one teacher.

    Attributes:
        inputs: float32 `[n, …]`.
        labels: bool `[n, num_labels]`.

    Raises:
        InvalidValue: no record, labels that are not bool `[n, num_labels]`, or inputs that are not finite.
    """

    inputs: NDArray[np.float32]
    labels: NDArray[np.bool_]

    def __post_init__(self) -> None:
        require_features("inputs", self.inputs)
        require_array("labels", self.labels, kinds=None)
        require(len(self) > 0, "len(inputs)", len(self), "at least one record per teacher")
        require(self.labels.dtype == np.bool_, "labels.dtype", self.labels.dtype, "bool")
        good = self.labels.ndim == 2 and len(self.labels) == len(self) and self.labels.shape[1] > 0
        require(good, "labels.shape", self.labels.shape, f"[{len(self)}, num_labels]")

    def __len__(self) -> int:
        return len(self.inputs)


class Teacher(Voter):
    """A recipe for teachers: public hyper-parameters, no learned state.

    What a teacher learns from its own records, thresholds included, stays in its state. It sees no record
    of another teacher, also where many are fitted in one call.

    Formal guarantees:
        * State i depends on shard i and seed i; on the other shards of the call only through floating-point
          rounding (batched kernels choose their summation order by the shape of the batch).
        * Equal calls on one processor with one thread give equal bytes; on a GPU where its convolutions add up in a
          fixed order.
    """

    def votes_of(self, ensemble: Ensemble) -> VoteSource:
        """See `Voter.votes_of`."""
        return ensemble.trained_votes(self)

    @property
    def is_isolated(self) -> bool:
        """Whether state i has the same bytes in whatever call: engines then train and save teachers one by one."""
        return False

    @abstractmethod
    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits one teacher for each shard.

        Args:
            shards: disjoint records; sizes may differ, shapes of a record may not.
            seeds: one for each shard, 0 <= seed < 2**32.

        Raises:
            InvalidValue: no shard, shards that differ in shape, or another number of seeds.
        """

    @abstractmethod
    def predict_many(self, states: Sequence[State], inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Confidences in [0, 1] of each teacher, float32 `[num_states, num_queries, num_labels]`.

        A vote is a confidence >= 0.5: a teacher's own threshold is already folded in.
        """


def require_shards(shards: Sequence[Shard], seeds: Sequence[int]) -> None:
    """Raises `InvalidValue` unless there are shards, alike in the shape of a record, and a seed for each."""
    require(len(shards) > 0, "len(shards)", len(shards), "at least one shard")
    require(len(seeds) == len(shards), "len(seeds)", len(seeds), f"{len(shards)}, one for each shard")
    shape, num_labels = shards[0].inputs.shape[1:], shards[0].labels.shape[1]
    for shard in shards:
        found = shard.inputs.shape[1:]
        require(found == shape, "inputs.shape[1:]", found, f"{shape} in every shard")
        labels = shard.labels.shape[1]
        require(labels == num_labels, "labels.shape[1]", labels, f"{num_labels} in every shard")


def as_rows(inputs: NDArray[np.float32]) -> NDArray[np.float32]:
    """Flattens each record, `[n, …]` to float32 `[n, d]`; n may be 0."""
    return np.asarray(inputs, np.float32).reshape(len(inputs), int(np.prod(inputs.shape[1:])))
