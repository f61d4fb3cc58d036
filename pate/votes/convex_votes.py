"""The votes of convex teachers: weights fitted with a strongly convex loss, which one group of records moves little.

A *group* is the records of one person or other unit that the price protects; a convex teacher learns from many groups.
A release usually pays for a whole teacher, since a change of its records may change its vote in any way. The vote of a
convex teacher is the minimum over W of

    sum over its groups of h(|residuals - features W|) + ridge |W|^2 / 2,

where h is Huber's function: half the square up to a limit, and linear beyond. So the gradient of one group is never
longer than its limit. At the minimum, ridge W equals the sum of the negative gradients of all groups. Replacing one
group moves ridge W by at most two limits, for any number of groups of the teacher. So the release pays for one group.

The proof needs the exact minimum, and a computer only comes near. So training takes a number of steps that is computed
from public numbers. Its distance from the minimum is covered by a margin in the clip.

Source: docs/proofs/vote_rounds.md#convex-teachers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from pate.array_types import IntArray
from pate.errors import InvalidValue
from pate.pool import in_order
from pate.votes.clipped_moments import FEATURE_STEPS
from pate.votes.convex_fit import convex_fit, steps_to_minimum
from pate.votes.moment_votes import MomentVotes
from pate.votes.round_records import ShardRecords
from pate.votes.round_shard import PublicStudent
from pate.votes.round_votes import RoundQuestion

# The tolerance of a teacher's training, in clips. The clip is smaller by four times as much.
_TOLERANCE = 2.0**-12
# The largest numbers for which doubles have enough digits (docs/proofs/vote_rounds.md): records of a teacher, weights
# of the student, the product of the weights of a teacher's records, groups and features, and that of groups and labels.
_MAX_RECORDS = 2**18
_MAX_WEIGHTS = 2**24
_MAX_PULL = 2.0**37
_MAX_LENGTHS = 2.0**38
# The largest number of steps of a teacher's training, so that a round ends in a reasonable time.
_MAX_STEPS = 2**20


@dataclass(eq=False, repr=False, kw_only=True)  # a generated __eq__ fails on arrays
class ConvexVotes(MomentVotes):
    """The votes in rounds of teachers that each fit a convex model to the student's errors on their records.

    In every round a teacher fits weights W to the residuals y - p(x) by `convex_fit`, with the penalty Λ |W|^2 / 2.
    Before that, each label's residuals are multiplied by `label_scale`. Its vote is Λ W, multiplied by a factor that
    undoes the shrinkage by the penalty along an average direction. At the minimum Λ W is the sum of the negative
    gradients of its groups, each of limited length. Replacing one group moves the vote by at most two clips, for any
    number of groups of the teacher.

    The price covers a group, so in `RoundVotes` each group counts as a teacher: `num_teachers` is the number of groups.
    Only the first `most_records_of_group` records of a group are read, a number that does not depend on records.
    Training takes a publicly bounded number of steps for any records. So no vote can fail after the release has been
    charged.

    Raises `InvalidValue` if groups have weights (`weights`), as all of them count alike here. Raises it also if a
    teacher has too many groups, the student has too many weights, or the penalty is too small. Rounding could then move
    a vote by more than the margin in the clip, or training could take too long. The checks read public numbers alone.

    Attributes:
        learner_of_group: `[num_groups]`, the index of the teacher of each group.
        num_learners: the number of teachers.
        penalty: Λ, divided by the mean number of groups of a teacher and by the mean variance of a direction, > 0.
        most_records_of_group: the largest number of records of a group that are read.
    """

    learner_of_group: IntArray
    num_learners: int
    penalty: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is not None:
            rule = "None, as convex teachers give every private group the weight 1"
            raise InvalidValue("weights", rule=rule)
        penalty = self.penalty
        num_learners = self.num_learners
        self._ridge = penalty / self.num_features * self.num_teachers / num_learners
        num_weights = self.num_features * self.num_labels
        if num_weights > _MAX_WEIGHTS:
            rule = "fewer directions of the public pool or fewer labels"
            raise InvalidValue("weights", num_weights, rule=rule)
        most_groups_of_learner = int(
            np.bincount(self.learner_of_group, minlength=num_learners).max()
        )
        self._require_digits(is_precise=most_groups_of_learner <= _MAX_RECORDS)
        self._require_digits(
            is_precise=(self.num_labels + 4) * most_groups_of_learner <= _MAX_LENGTHS
        )
        # The weight of a group is the root of its number of records over the expected number. The limit on the records
        # of a group bounds this weight, and with it the time of a training and the numbers that are multiplied.
        group_records_limit = self.public_pca.recipe.most_group_records * self.records_per_teacher
        self.most_records_of_group = min(
            math.ceil(group_records_limit), _MAX_RECORDS // most_groups_of_learner
        )
        largest_weight = math.sqrt(self.most_records_of_group / self.records_per_teacher)
        max_total_weight = most_groups_of_learner * largest_weight
        largest_pull = max_total_weight * most_groups_of_learner * (self.num_features + 2)
        self._require_digits(is_precise=largest_pull <= _MAX_PULL * self._ridge)
        num_training_steps = steps_to_minimum(
            max_gradient_length=most_groups_of_learner,
            max_curvature=max_total_weight,
            ridge=self._ridge,
            tolerance=_TOLERANCE,
        )
        if num_training_steps > _MAX_STEPS:
            rule = "a larger one, or fewer directions of the public pool"
            raise InvalidValue("penalty", penalty, rule=rule)
        self._max_steps = num_training_steps

    def _require_digits(self, is_precise: bool) -> None:
        """Raises `InvalidValue` for `num_teachers` if a teacher has too many private groups for exact sums.

        Args:
            is_precise: whether double precision is enough for the teacher with the most groups.
        """
        if not is_precise:
            rule = "more teachers, or a larger penalty: these have too many groups"
            raise InvalidValue("num_teachers", self.num_learners, rule=rule)

    def open(self) -> None:
        """Does nothing, as these teachers are trained in this process."""

    def total(self, question: RoundQuestion) -> IntArray:
        """Returns the sum of the votes of a round, `[num_features, num_labels]`, as `RoundVotes.total` describes it."""
        student = PublicStudent.from_weights(question.student_weights)
        moment_clipping = question.moment_clipping
        gain = 1 + 1 / self.penalty
        clip = moment_clipping.clip / gain * (1 - 4 * _TOLERANCE)
        shard = self._shard
        group_size_of_row = self._group_size_of_row
        # The weight of each record's group.
        group_weight_of_row = np.sqrt(group_size_of_row / self.records_per_teacher)

        def teacher_vote_of(row_range: slice) -> IntArray:
            """Returns the vote of a teacher with these rows of records, `[num_features, num_labels]`, in grid steps."""
            features = shard.features(row_range)
            fitted_weights = convex_fit(
                features=features / FEATURE_STEPS,
                targets=shard.residuals(student, features=features, row_range=row_range)
                * question.label_scale,
                record_weights=group_weight_of_row[row_range] / group_size_of_row[row_range],
                residual_limits=clip / group_weight_of_row[row_range],
                ridge=self._ridge,
                tolerance=_TOLERANCE * clip,
                max_steps=self._max_steps,
            )
            teacher_vote = fitted_weights * (gain * self._ridge / moment_clipping.step)
            return np.asarray(np.trunc(teacher_vote).astype(np.int64))

        first_rows = np.append(0, np.cumsum(self._shard_records.teacher_sizes))
        row_ranges_of_learners = (
            slice(first, last) for first, last in pairwise(first_rows.tolist())
        )
        total = np.zeros(question.student_weights.shape, dtype=np.int64)
        for teacher_vote in in_order(teacher_vote_of, items=row_ranges_of_learners):
            total += teacher_vote
        return total

    @cached_property
    def _shard_records(self) -> ShardRecords:
        """The records of all teachers that have any, sorted by teacher; at most `most_records_of_group` of each group.

        The sizes are records of a teacher, not of a group, in the order of the teachers. The records of a group stand
        side by side.
        """
        group_of_record = self.teacher_of
        learner_of_record = self.learner_of_group[group_of_record]
        order = np.lexsort(
            (group_of_record, self._record_count_of_group[group_of_record], learner_of_record)
        )
        group_of_row = group_of_record[order]  # the records of a group stand side by side
        first_row_of_group = np.flatnonzero(np.diff(group_of_row, prepend=-1))
        group_start_of_row = np.repeat(
            first_row_of_group, np.diff(first_row_of_group, append=len(group_of_row))
        )
        position_in_group = np.arange(len(group_of_row)) - group_start_of_row
        dataset_rows = order[position_in_group < self.most_records_of_group]
        learner_indices, teacher_sizes = np.unique(
            learner_of_record[dataset_rows], return_counts=True
        )
        return ShardRecords(
            records=self._records,
            teacher_indices=learner_indices,
            teacher_sizes=teacher_sizes,
            dataset_rows=dataset_rows,
        )

    @cached_property
    def _group_size_of_row(self) -> IntArray:
        """The number of records that are read of each row's group, `[num_rows]`, for the rows of `_shard_records`."""
        group_sizes = np.minimum(self._record_count_of_group, self.most_records_of_group)
        # In `RoundVotes` each group counts as a teacher.
        group_of_record = self.teacher_of
        group_of_row = group_of_record[self._shard_records.dataset_rows]
        return np.asarray(group_sizes[group_of_row])

    @cached_property
    def _record_count_of_group(self) -> IntArray:
        """The number of records of each group, `[num_groups]`, those that are not read included."""
        return np.bincount(self.teacher_of, minlength=self.num_teachers)
