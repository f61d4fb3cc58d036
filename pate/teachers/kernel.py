"""Teachers of one record, or a few: what each says is its labels times its likeness to the queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pate.teachers.kernel_votes import KernelVotes
from pate.teachers.voter import Voter
from pate.validation import require_count
from pate.votes.source import VoteSource

if TYPE_CHECKING:
    from pate.data import Split
    from pate.run.ensemble import Ensemble

_FEWEST_GROUPS = 30


@dataclass(frozen=True)
class KernelTeacher(Voter):
    """Votes in the directions of the public pool, without training, for any number of teachers.

    Rule: teacher t's votes on the queries, minus the prevalence p, are

        sqrt(Q / n_t)  span @ sum over its n_t records of  features(x) (y - p)^T,

    where `features` have length 1 and `span` is orthonormal (`PublicPCA`). A record's votes are then as long as
    its labels' distance from the prevalence, and the sum over teachers, projected on the span, is what a release of the
    sum over records would be. With one record per teacher, the record and the teacher are the same unit.

    In rounds (`VoteRounds`) p is what a student released before says of each record. A teacher's vote is the mean over
    its n_t records of `PublicPCA.with_constant` times (y - p). It counts sqrt(n_t / m) times, m being the records that
    a teacher would have with groups as large as those of the public pool.

    Formal guarantee: a teacher's votes are a function of its own records, the public pool, the queries and p.

    Attributes:
        num_directions: of the public pool, >= 1, or None for `affordable_directions`: a function of the price, the
            numbers of teachers, records and labels.
    """

    is_trained: ClassVar[bool] = False
    votes_in_bits: ClassVar[bool] = False

    num_directions: int | None = None

    def __post_init__(self) -> None:
        if self.num_directions is not None:
            require_count("num_directions", self.num_directions)

    def votes_of(self, ensemble: Ensemble) -> VoteSource:
        """See `Voter.votes_of`."""
        private = ensemble.dataset.private
        return KernelVotes(
            inputs=private.inputs,
            labels=private.labels,
            teacher_of=ensemble.partition.teacher_of,
            num_teachers=ensemble.num_teachers,
            num_groups=ensemble.num_groups,
            records_per_group=self.records_per_group(ensemble.dataset.public),
            public_inputs=ensemble.dataset.public.inputs,
            num_queries=ensemble.num_queries,
            num_directions=self.num_directions,
        )

    @staticmethod
    def records_per_group(public: Split) -> float:
        """The pool's mean; 1 where it has too few groups to tell."""
        found = public.num_groups
        return len(public) / found if found >= _FEWEST_GROUPS else 1.0
