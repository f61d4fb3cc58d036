"""Teachers that vote along directions of the input space, such as the principal components of the public inputs.

A `KernelTeacher` votes without training. A `ConvexTeacher` is trained in every round of a release.
"""

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

# With a smaller penalty training may take long; with a larger one nothing is learned.
_SMALLEST_PENALTY = 1e-3
_LARGEST_PENALTY = 1e6


@dataclass(frozen=True)
class KernelTeacher(Voter):
    """A recipe for any number of teachers that vote along directions of the public pool, without training.

    Rule: the votes of teacher t on the Q queries, minus the prevalence p of each label, are

        sqrt(Q / n_t)  span @ sum over its n_t records of  features(x) (y - p)^T.

    Here x is the input and y the label bits of a record. `features` have length 1, and `span` has orthonormal columns
    (`PublicPCA`). So for a teacher with one record, the root mean square over the queries of the length of its votes is
    the distance of the record's labels from p. If all n_t are equal, the sum over teachers is, up to a factor, the sum
    over all records. With one record per teacher, the unit of privacy is the record and the teacher alike.

    If votes are released in rounds, p is the prediction for each record by the student of the round before. The vote of
    teacher t is then

        sqrt(n_t / m)  mean over its n_t records of  features(x) (y - p)^T,

    where the features have a constant as well (`PublicPCA.with_constant`). m is an estimate of the mean number of
    records of a teacher. It is public: the number of private groups per teacher, times the mean size of a group of the
    public pool.

    Formal guarantee: the votes of a teacher are a function of its own records, the public pool, the queries and p.
    Source: docs/proofs/centered_votes.md, and for rounds docs/proofs/vote_rounds.md.

    Attributes:
        num_directions: the number of directions of the public pool, >= 1. None uses `affordable_directions`, a function
            of the noise multiplier and of the numbers of teachers, private groups and labels.
        nonlinear: whether votes in rounds also lie along components of a kernel (`PublicKernel`). True adds as many as
            the noise and the recipe permit; false adds none. None adds them only if the noise permits more than eight
            times as many features as there are linear ones. The linear features are the directions of the pool and the
            height (`PublicPCA`).
    """

    gives: ClassVar[type[VoteSource]] = FunctionVotes
    is_trained: ClassVar[bool] = False

    num_directions: int | None = None
    nonlinear: bool | None = None

    def __post_init__(self) -> None:
        require_settings(self)
        has_meaning = self.nonlinear in (None, True, False)
        require(has_meaning, "nonlinear", self.nonlinear, "true, false or null")

    def votes_of(self, dataset: Dataset, partition: Partition, num_queries: int) -> KernelVotes:
        """Returns the votes of the teachers of a partition on the first `num_queries` public samples.

        The votes are computed when they are read.

        Args:
            dataset: the private records and the public pool.
            partition: the assignment of private records to teachers.
            num_queries: the number of queries.
        """
        return KernelVotes(
            private_split=dataset.private,
            public_split=dataset.public,
            num_queries=num_queries,
            teacher_of=partition.teacher_of,
            num_teachers=partition.num_teachers,
            num_public_directions=self.num_directions,
            nonlinear=self.nonlinear,
        )


@dataclass(frozen=True)
class ConvexTeacher(Voter):
    """A recipe for linear teachers that are trained in every round; the price is for one private group.

    Rule: in each round, a teacher fits a linear model to the residuals of its own records, that is, to their labels
    minus the predictions of the public student. The model uses directions of the public pool. The loss is strongly
    convex, and the gradient of a private group is clipped to a greatest length, the clip. The release is the sum over
    teachers of the model's weights times the penalty (`ConvexVotes`). Of each group only the first records are used, at
    most 16 times as many as a group is expected to have.

    Formal guarantee: if one private group is replaced, the sum changes by at most two clips, for any number of groups
    and teachers. If all records of a teacher are replaced, the sum may change more.
    Source: docs/proofs/vote_rounds.md#convex-teachers.

    Attributes:
        penalty: the penalty of the squared weights, from 0.001 to 1e6, relative to the mean variance of a direction. A
            larger penalty gives votes with less noise; a smaller penalty lets each teacher learn more.
        num_directions: the number of directions of the public pool, >= 1. None uses as many as the noise makes
            worthwhile (`KernelTeacher`).
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
        """Returns the votes of private groups on the first `num_queries` public samples.

        The vote of a group is its share of what its teacher learns. Groups take the place of teachers in the result, as
        the price is for one group.
        """
        # All records of a group are at one teacher, so the first one tells which.
        _, first_rows, group_of_record = np.unique(
            dataset.private.group_ids, return_index=True, return_inverse=True
        )
        make_moment_votes = partial(
            ConvexVotes,
            learner_of_group=partition.teacher_of[first_rows],
            num_learners=partition.num_teachers,
            penalty=self.penalty,
        )
        return GroupKernelVotes(
            private_split=dataset.private,
            public_split=dataset.public,
            teacher_of=group_of_record.astype(np.int64),
            num_teachers=len(first_rows),
            num_queries=num_queries,
            num_public_directions=self.num_directions,
            make_moment_votes=make_moment_votes,
        )
