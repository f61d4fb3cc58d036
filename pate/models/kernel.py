"""Teachers that vote in directions of the public pool, alone or trained in every round."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pate.models.hyperparameters import require_settings
from pate.models.kernel_votes import GroupKernelVotes, KernelVotes
from pate.models.teacher import Voter
from pate.validation import require
from pate.votes.convex_votes import ConvexVotes
from pate.votes.source import FunctionVotes, GroupVotes, VoteSource

if TYPE_CHECKING:
    from pate.data import Dataset, Partition

# with a smaller penalty training may take long; with a larger one nothing is learned
_SMALLEST_PENALTY = 1e-3
_LARGEST_PENALTY = 1e6


@dataclass(frozen=True)
class KernelTeacher(Voter):
    """Teachers that vote in directions of the public pool, without training; any number of them.

    Rule: teacher t's votes on the queries, minus the prevalence p, are

        sqrt(Q / n_t)  span @ sum over its n_t records of  features(x) (y - p)^T,

    where `features` have length 1 and `span` is orthonormal (`PublicPCA`). A record's votes are then as long as
    its labels' distance from the prevalence, and the sum over teachers, projected on the span, is what a release of the
    sum over records would be. With one record per teacher, the record and the teacher are the same unit.

    In rounds p is the prediction, for each record, of the student released before. A teacher's vote is the mean over
    its n_t records of `PublicPCA.with_constant` times (y - p). It counts sqrt(n_t / m) times, where m is the number of
    records that a teacher would have with groups as large as those of the public pool.

    Formal guarantee: a teacher's votes are a function of its own records, the public pool, the queries and p.

    Attributes:
        num_directions: number of directions of the public pool, >= 1, or None for `affordable_directions`: a function
            of the price, and of the numbers of teachers, records and labels.
        nonlinear: whether a kernel's components are added to the pool's directions in rounds (`PublicKernel`), as many
            as can be afforded. None adds them if eight times the pool's directions can be afforded.
    """

    gives: ClassVar[type[VoteSource]] = FunctionVotes
    is_trained: ClassVar[bool] = False

    num_directions: int | None = None
    nonlinear: bool | None = None

    def __post_init__(self) -> None:
        require_settings(self)
        is_known = self.nonlinear in (None, True, False)
        require(is_known, "nonlinear", self.nonlinear, "true, false or null")

    def votes_of(self, dataset: Dataset, partition: Partition, num_queries: int) -> KernelVotes:
        """Returns the votes of the teachers of a partition, made when they are read."""
        return KernelVotes(
            private=dataset.private,
            public=dataset.public,
            num_queries=num_queries,
            teacher_of=partition.teacher_of,
            num_teachers=partition.num_teachers,
            num_directions=self.num_directions,
            nonlinear=self.nonlinear,
        )


@dataclass(frozen=True)
class ConvexTeacher(Voter):
    """Linear teachers that are trained in every round; the price is for one private group, not for a whole teacher.

    Rule: in each round a teacher fits its own records' residuals against the public student, in directions of the
    public pool. The loss is strongly convex, and the gradient of a group is no longer than the clip. The release sums
    weights times the penalty (`ConvexVotes`). The first records of a group count, up to 16 times as many as expected.

    Formal guarantee: if one private group is replaced, the sum moves by at most two clips, however many groups and
    teachers there are. If all records of one teacher are replaced, the sum may move further.

    Attributes:
        penalty: of the squared weights, in units of an average direction's variance, 0.001 to 1e6. A larger one gives
            votes with less noise; a smaller one leaves more to each teacher.
        num_directions: number of directions of the public pool, >= 1, or None for as many as the noise makes worthwhile
            (`KernelTeacher`).
    """

    gives: ClassVar[type[VoteSource]] = GroupVotes

    penalty: float = 10.0
    num_directions: int | None = None

    def __post_init__(self) -> None:
        require_settings(self)
        in_range = _SMALLEST_PENALTY <= self.penalty <= _LARGEST_PENALTY
        rule = f"a number from {_SMALLEST_PENALTY:g} to {_LARGEST_PENALTY:g}"
        require(in_range, "penalty", self.penalty, rule)

    def votes_of(
        self, dataset: Dataset, partition: Partition, num_queries: int
    ) -> GroupKernelVotes:
        """Returns the votes of private groups: a group's vote is its part in what its teacher learns.

        Groups stand in for teachers, since the price is for one group.
        """
        _, first_rows, group_of = np.unique(
            dataset.private.group_ids, return_index=True, return_inverse=True
        )
        moments = partial(
            ConvexVotes,
            learner_of=partition.teacher_of[first_rows],
            num_learners=partition.num_teachers,
            penalty=self.penalty,
        )
        return GroupKernelVotes(
            private=dataset.private,
            public=dataset.public,
            teacher_of=group_of.astype(np.int64),
            num_teachers=len(first_rows),
            num_queries=num_queries,
            num_directions=self.num_directions,
            moments=moments,
        )
