"""What every kind of teacher is: to a run a voter, to an engine a recipe that fits many at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from pate.device import torch
from pate.files.arrays import taken
from pate.validation import require, require_array, require_features
from pate.votes.source import GroupVotes, TeacherVotesInRounds, VoteSource

if TYPE_CHECKING:
    from pate.data import Dataset, Partition


class Voter:
    """A recipe for the votes of teachers, each of which knows only its own private records.

    A subclass is either a `Teacher`, which is trained, saved and asked, or says itself how its teachers vote
    (`votes_of`). An attribute outside its range raises `InvalidValue`.

    Attributes:
        gives: the type of their votes, of the class: it decides which aggregators can read them, whether they can be
            asked in rounds, and whom the price covers (`pate.run.compatibility`).
        is_trained: whether teachers learn from their records, of the class: their number then has to be given, and
            few records teach them little.
    """

    gives: ClassVar[type[VoteSource]] = TeacherVotesInRounds
    is_trained: ClassVar[bool] = True

    @property
    def minds_scale(self) -> bool:
        """Whether its teachers suffer from inputs of very different widths, as linear ones do."""
        return False

    def num_protected(self, num_teachers: int, num_groups: int) -> int:
        """How many parts of the private records are each bounded in what they change: teachers, or groups."""
        return num_groups if issubclass(self.gives, GroupVotes) else num_teachers

    def votes_of(self, dataset: Dataset, partition: Partition, num_queries: int) -> VoteSource:
        """The votes of teachers without saved states, on the first samples of the public pool."""
        raise NotImplementedError(
            f"{type(self).__name__}: expected a method votes_of, or a subclass of Teacher"
        )

    def check(self, input_shape: tuple[int, ...]) -> None:
        """Raises `InvalidValue` where such inputs are not for these teachers: asked before anything is spent."""


State = dict[str, NDArray[np.generic]]
"""All that a trained teacher is, as named arrays; `loss_curve` float32 `[steps]` is always among them."""
# The name of an array that is unpickled, uint8: a store signs it, and reads none that its own key did not sign.
PICKLE = "pickle"


@dataclass(frozen=True, eq=False)
class Shard:
    """The private records of one teacher; raises `InvalidValue` for none, for other labels, for inputs not finite."""

    inputs: NDArray[np.float32]  # [n, …]
    labels: NDArray[np.bool_]  # [n, num_labels]

    def __post_init__(self) -> None:
        require_features("inputs", self.inputs)
        require_array("labels", self.labels, kinds=None)
        require(len(self) > 0, "len(inputs)", len(self), "at least one record per teacher")
        require(self.labels.dtype == np.bool_, "labels.dtype", self.labels.dtype, "bool")
        good = self.labels.ndim == 2 and len(self.labels) == len(self) and self.labels.shape[1] > 0
        require(good, "labels.shape", self.labels.shape, f"[{len(self)}, num_labels]")

    def __len__(self) -> int:
        return len(self.inputs)


class Shards(Protocol):
    """The private records of each teacher, by its index; an engine takes those of a few teachers at a time."""

    def __getitem__(self, index: int, /) -> Shard:
        """Returns the records of a teacher."""


@dataclass(frozen=True, eq=False)
class PartitionedRecords:
    """Records of a partition: those of a teacher are read and copied when they are taken, and not before."""

    inputs: NDArray[np.float32]  # [n, …], which may be on disk
    labels: NDArray[np.bool_]  # [n, num_labels]
    partition: Partition

    def __getitem__(self, index: int) -> Shard:
        rows = self.partition.indices(index)
        return Shard(taken(self.inputs, rows), self.labels[rows])


class Teacher(Voter, ABC):
    """A recipe for teachers: public hyper-parameters, no learned state.

    What a teacher learns from its own records, thresholds included, stays in its state. It sees no record
    of another teacher, also where many are fitted in one call.

    Formal guarantees:
        * State i depends on shard i and seed i; on the other shards of the call only through floating-point
          rounding (batched kernels choose their summation order by the shape of the batch).
        * Equal calls on one processor with one thread give equal bytes; on a GPU where its convolutions add up in a
          fixed order.

    Attributes:
        stays_together: whether teachers take far too long one by one, of the class: they are fitted side by side even
            where rounding could carry the size of one shard to another (`isolated`).
    """

    stays_together: ClassVar[bool] = False

    def for_data(self, dataset: Dataset, num_queries: int) -> Teacher:
        """The recipe for a data set, which may need more than inputs; asked before a private record is read."""
        return self

    @property
    def is_isolated(self) -> bool:
        """Whether state i has the same bytes in whatever call: engines then train and save teachers one by one."""
        return False

    @abstractmethod
    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits one teacher for each shard of disjoint records, by its seed, 0 <= seed < 2**32.

        Raises `InvalidValue` for no shard, shards that differ in the shape of a record, or another number of seeds.
        """

    @abstractmethod
    def predict_many(
        self, states: Sequence[State], inputs: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Confidences in [0, 1] of each teacher, float32 `[num_states, num_queries, num_labels]`.

        A vote is a confidence >= 0.5: a teacher's own threshold is already folded in.
        """


def require_shards(shards: Sequence[Shard], seeds: Sequence[int]) -> None:
    """Raises `InvalidValue` unless there are shards, alike in the shape of a record, and a seed for each."""
    require(len(shards) > 0, "len(shards)", len(shards), "at least one shard")
    require(
        len(seeds) == len(shards), "len(seeds)", len(seeds), f"{len(shards)}, one for each shard"
    )
    shape = shards[0].inputs.shape[1:]
    num_labels = shards[0].labels.shape[1]
    for shard in shards:
        found = shard.inputs.shape[1:]
        labels = shard.labels.shape[1]
        require(found == shape, "inputs.shape[1:]", found, f"{shape} in every shard")
        require(labels == num_labels, "labels.shape[1]", labels, f"{num_labels} in every shard")


def as_rows(inputs: NDArray[np.float32]) -> NDArray[np.float32]:
    """Flattens each record, `[n, …]` to float32 `[n, d]`; n may be 0."""
    return np.asarray(inputs, np.float32).reshape(len(inputs), int(np.prod(inputs.shape[1:])))


class PaddedBatch:
    """Several shards side by side on a device, padded with zeros to the longest."""

    def __init__(self, shards: Sequence[Shard], device: torch.device, dtype: torch.dtype) -> None:
        shape = (len(shards), max(map(len, shards)))
        inputs = np.zeros((*shape, int(np.prod(shards[0].inputs.shape[1:]))), np.float32)
        labels = np.zeros((*shape, shards[0].labels.shape[1]), np.bool_)
        for row, shard in enumerate(shards):
            inputs[row, : len(shard)] = as_rows(shard.inputs)
            labels[row, : len(shard)] = shard.labels
        sizes = torch.tensor([len(shard) for shard in shards], device=device)
        # [num_shards, n, d], records flattened
        self.inputs = torch.from_numpy(inputs).to(device, dtype)
        # [num_shards, n, num_labels], 0 or 1
        self.labels = torch.from_numpy(labels).to(device, dtype)
        # [num_shards, n, 1], 1 for a record and 0 for padding
        self.mask = (torch.arange(shape[1], device=device) < sizes[:, None]).to(dtype)[..., None]
        self.sizes = sizes.to(dtype)[:, None, None]  # records of each shard, [num_shards, 1, 1]

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """Over each shard's records of `[num_shards, n, k]`, `[num_shards, 1, k]`; padding must be 0."""
        return values.sum(dim=1, keepdim=True) / self.sizes


@dataclass(frozen=True)
class IsolatedTeacher(Teacher):
    """Another recipe, each teacher fitted in a call of its own: its state has the same bytes whatever other shards are.

    Shards that are fitted side by side are padded to the longest, and the order in which a kernel adds up follows that
    length. Where a large group takes the place of a small one, rounding would carry that to other teachers, and now and
    then to their votes.
    """

    teacher: Teacher

    @property
    def is_isolated(self) -> bool:
        """True: each teacher is trained by itself."""
        return True

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits one teacher after another, each on its own shard and with its own seed."""
        pairs = zip(shards, seeds, strict=True)
        return [state for shard, seed in pairs for state in self.teacher.fit_many([shard], [seed])]

    def predict_many(
        self, states: Sequence[State], inputs: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Returns the confidences of teachers, float32 `[c, Q, L]`, one teacher after another."""
        return self.teacher.predict_many(states, inputs)  # side by side: its shapes are public


def isolated(teacher: Teacher, group_ids: NDArray[np.int64]) -> Teacher:
    """The recipe for records of these groups: apart where groups have several records, and so shards any length."""
    sizes_are_public = len(np.unique(group_ids)) == len(group_ids)
    return (
        teacher
        if sizes_are_public or teacher.is_isolated or teacher.stays_together
        else IsolatedTeacher(teacher)
    )
