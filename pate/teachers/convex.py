"""Linear teachers that are stable: one private group moves what a teacher says by a known length."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pate.teachers.kernel import KernelTeacher
from pate.teachers.kernel_votes import KernelVotes
from pate.teachers.voter import Voter
from pate.validation import InvalidValue, require, require_count, require_positive
from pate.votes.convex.convex_votes import ConvexVotes
from pate.votes.source import Array, VoteSource

if TYPE_CHECKING:
    from pate.run.ensemble import Ensemble

_LEAST, _MOST = 1e-3, 1e6  # of penalties: with less, training may take long; with more, nothing is learned


@dataclass(frozen=True)
class ConvexTeacher(Voter):
    """Trains linear teachers in every round, and pays for one private group where others pay for a whole teacher.

    Rule: in each round a teacher fits its own records' residuals against the public student, in directions of the
    public pool. The loss is strongly convex, and no group pulls on it harder than the clip. What is summed are weights
    times the penalty (`ConvexVotes`). The first records of a group count, up to 16 times as many as are expected.

    Formal guarantee: where one private group is replaced, the sum moves by at most two clips, however many groups and
    teachers there are. Where all records of one teacher are replaced, it may move further.

    Attributes:
        penalty: of the squared weights, in units of an average direction's variance, 0.001 to 1e6. A larger one gives
            votes with less noise; a smaller one leaves more to each teacher.
        num_directions: of the public pool, >= 1, or None for as many as the noise makes worthwhile (`KernelTeacher`).

    Raises:
        InvalidValue: an attribute outside these ranges.
    """

    covers_teachers: ClassVar[bool] = False
    votes_in_bits: ClassVar[bool] = False

    penalty: float = 10.0
    num_directions: int | None = None

    def __post_init__(self) -> None:
        penalty = require_positive("penalty", self.penalty)
        require(_LEAST <= penalty <= _MOST, "penalty", penalty, f"a number from {_LEAST:g} to {_MOST:g}")
        if self.num_directions is not None:
            require_count("num_directions", self.num_directions)

    def votes_of(self, ensemble: Ensemble) -> VoteSource:
        """See `Voter.votes_of`."""
        private, partition = ensemble.dataset.private, ensemble.partition
        _, first, group_of = np.unique(private.group_ids, return_index=True, return_inverse=True)
        return _ConvexSource(
            inputs=private.inputs,
            labels=private.labels,
            teacher_of=group_of.astype(np.int64),
            num_teachers=len(first),
            num_groups=len(first),
            records_per_group=KernelTeacher.records_per_group(ensemble.dataset.public),
            public_inputs=ensemble.dataset.public.inputs,
            num_queries=ensemble.num_queries,
            num_directions=self.num_directions,
            moments=partial(
                ConvexVotes,
                learner_of=partition.teacher_of[first],
                num_learners=partition.num_teachers,
                penalty=self.penalty,
            ),
        )


class _ConvexSource(KernelVotes):
    """Of groups as teachers: what one says is what the teacher that has it learns of it."""

    only_in_rounds = True

    def votes_around(self, center: Array, *, noise_multiplier: float) -> Iterable[Any]:
        """Raises `InvalidValue`."""
        raise InvalidValue("teacher=ConvexTeacher: expected centered_votes, which asks in rounds")
