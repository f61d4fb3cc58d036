"""Teachers that vote in directions of the public pool: by the likeness of records, or linear ones that are stable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.teachers.teacher import Voter
from pate.validation import InvalidValue, require, require_count, require_positive
from pate.votes.clipping import LowRankVotes
from pate.votes.convex import ConvexVotes
from pate.votes.moment_votes import MOST_PUBLIC, MomentVotes
from pate.votes.public_pca import SHARE_IN_ROUNDS, PublicPCA, affordable_directions
from pate.votes.source import Array, Bits, VoteSource, mean_labels

if TYPE_CHECKING:
    from pate.data import Dataset, Partition, Split

_FEWEST_GROUPS = 30  # of a pool that tells how many records a group has
_LEAST, _MOST = 1e-3, 1e6  # of penalties: with less, training may take long; with more, nothing is learned
_SHARE_IN_ONE = 0.25  # of the labels' variance is noise, in one round
_BLOCK_ENTRIES = 2**22
_BLOCK_RECORDS = 4096


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

    def votes_of(self, dataset: Dataset, partition: Partition, num_queries: int) -> KernelVotes:
        """Of the records of each teacher."""
        return KernelVotes(
            inputs=dataset.private.inputs,
            labels=dataset.private.labels,
            teacher_of=partition.teacher_of,
            num_teachers=partition.num_teachers,
            num_groups=dataset.private.num_groups,
            records_per_group=self.records_per_group(dataset.public),
            public_inputs=dataset.public.inputs,
            num_queries=num_queries,
            num_directions=self.num_directions,
        )

    @staticmethod
    def records_per_group(public: Split) -> float:
        """The pool's mean; 1 where it has too few groups to tell."""
        found = public.num_groups
        return len(public) / found if found >= _FEWEST_GROUPS else 1.0


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

    def votes_of(self, dataset: Dataset, partition: Partition, num_queries: int) -> KernelVotes:
        """Of groups as if they were teachers: what one says is what the teacher that has it learns of it."""
        private = dataset.private
        _, first, group_of = np.unique(private.group_ids, return_index=True, return_inverse=True)
        return _ConvexSource(
            inputs=private.inputs,
            labels=private.labels,
            teacher_of=group_of.astype(np.int64),
            num_teachers=len(first),
            num_groups=len(first),
            records_per_group=KernelTeacher.records_per_group(dataset.public),
            public_inputs=dataset.public.inputs,
            num_queries=num_queries,
            num_directions=self.num_directions,
            moments=partial(
                ConvexVotes,
                learner_of=partition.teacher_of[first],
                num_learners=partition.num_teachers,
                penalty=self.penalty,
            ),
        )


class KernelVotes(VoteSource):
    """Functions on the queries, in public directions, around a center: made where they are read.

    Args:
        inputs: float32 `[n, …]`, private.
        labels: bool `[n, L]`, private.
        teacher_of: int64 `[n]`, the teacher of each record.
        num_teachers: N.
        num_groups: private groups, public.
        records_per_group: about, public.
        public_inputs: float32 `[m, …]`, the whole public pool.
        num_queries: the first ones of the pool are asked.
        num_directions: of the pool; None for `affordable_directions`.
        moments: makes the votes in rounds.
    """

    gives_bits = False

    def __init__(
        self,
        *,
        inputs: NDArray[np.float32],
        labels: Bits,
        teacher_of: NDArray[np.int64],
        num_teachers: int,
        num_groups: int,
        public_inputs: NDArray[np.float32],
        num_queries: int,
        records_per_group: float = 1.0,
        num_directions: int | None = None,
        moments: Callable[..., MomentVotes] = MomentVotes,
    ) -> None:
        self._moments = moments
        self.inputs, self.labels, self.teacher_of, self.num_directions = inputs, labels, teacher_of, num_directions
        self.num_teachers, self.num_groups, self.records_per_group = num_teachers, num_groups, records_per_group
        self.public_inputs, self.num_queries = public_inputs, num_queries
        self.num_labels, self.records_per_teacher = labels.shape[1], num_groups / num_teachers
        self.queries = np.asarray(public_inputs[:num_queries], dtype=np.float32)

    def bits(self) -> Iterator[Bits]:
        raise InvalidValue(
            "teacher=KernelTeacher: expected teachers that are trained, such as linear, or aggregator=centered_votes"
        )

    def label_shares(self) -> Array:
        return mean_labels(self.labels, self.teacher_of, self.num_teachers)

    def span(self, *, noise_multiplier: float) -> Array:
        directions = self._directions(noise_multiplier)
        found: Array = self.remembered(("span", noise_multiplier), lambda: directions.span(self.queries))
        return found

    def votes_around(self, center: Array, *, noise_multiplier: float) -> Iterable[Any]:
        require(center.ndim < 2, "center.shape", center.shape, "one number per label for kernel teachers")
        return kernel_votes(
            self.inputs,
            self.labels,
            self.teacher_of,
            num_teachers=self.num_teachers,
            directions=self._directions(noise_multiplier),
            queries=self.queries,
            prevalence=np.broadcast_to(center, self.labels.shape[1:]),
        )

    def in_rounds(self, *, noise_multiplier: float) -> MomentVotes:
        directions = self._directions(noise_multiplier, SHARE_IN_ROUNDS)
        found: MomentVotes = self.remembered(
            ("moments", directions.projection.shape[1]),
            lambda: self._moments(
                inputs=self.inputs,
                labels=self.labels,
                teacher_of=self.teacher_of,
                num_teachers=self.num_teachers,
                directions=directions,
                public_inputs=self.public_inputs[: max(MOST_PUBLIC, self.num_queries)],
                records_per_teacher=self.records_per_teacher * self.records_per_group,
            ),
        )
        return found

    def _directions(self, noise_multiplier: float, noise_share: float = _SHARE_IN_ONE) -> PublicPCA:
        """As many directions of the pool as the noise makes worthwhile: a function of public numbers."""
        count = self.num_directions or affordable_directions(
            noise_multiplier=noise_multiplier,
            num_teachers=self.num_teachers,
            num_records=self.num_groups,
            num_labels=self.num_labels,
            noise_share=noise_share,
        )
        count = min(count, self.num_queries)
        found: PublicPCA = self.remembered(
            ("directions", count), lambda: PublicPCA.of(np.asarray(self.public_inputs), count)
        )
        return found


class _ConvexSource(KernelVotes):
    only_in_rounds = True

    def votes_around(self, center: Array, *, noise_multiplier: float) -> Iterable[Any]:
        raise InvalidValue("teacher=ConvexTeacher: expected centered_votes, which asks in rounds")


def kernel_votes(
    inputs: NDArray[np.float32],
    labels: NDArray[np.bool_],
    teacher_of: NDArray[np.int64],
    *,
    num_teachers: int,
    directions: PublicPCA,
    queries: NDArray[np.float32],
    prevalence: Array,
) -> Iterator[LowRankVotes]:
    """Yields the votes of teachers 0, 1, …, a block at a time, by the rule of `KernelTeacher`.

    Args:
        inputs: float32 `[n, …]`, private; read a few thousand rows at a time, so images may stay on disk.
        labels: bool `[n, L]`, private.
        teacher_of: int64 `[n]`, the teacher of each record; every teacher has one.
        num_teachers: N.
        directions: of the public pool.
        queries: float32 `[Q, …]`.
        prevalence: `[L]`, released.
    """
    span = directions.span(queries)
    order = np.argsort(teacher_of, kind="stable")
    ends = np.cumsum(np.bincount(teacher_of, minlength=num_teachers))
    require(len(ends) == num_teachers, "num_teachers", num_teachers, f"{len(ends)}, the teachers of the partition")
    starts = np.concatenate([[0], ends[:-1]])
    empty = np.flatnonzero(starts == ends)
    require(len(empty) == 0, "teacher", empty[:1], "at least one record")
    width, num_labels = span.shape[1], labels.shape[1]
    size = max(1, _BLOCK_ENTRIES // (width * num_labels))
    for first in range(0, num_teachers, size):
        last = min(first + size, num_teachers)
        rows = order[starts[first] : ends[last - 1]]
        features, residuals = _features(directions, inputs, rows), labels[rows] - prevalence
        bounds = np.append(starts[first:last], ends[last - 1]) - starts[first]
        weights = _sums(features, residuals, bounds)
        weights *= np.sqrt(len(queries) / np.diff(bounds))[:, None, None]
        yield LowRankVotes(span, weights)


def _features(directions: PublicPCA, inputs: NDArray[np.float32], rows: NDArray[np.int64]) -> Array:
    """Of the given rows, `[len(rows), k]`."""
    blocks = np.split(rows, range(_BLOCK_RECORDS, len(rows), _BLOCK_RECORDS))
    return np.concatenate([directions.features(inputs[block]) for block in blocks])


def _sums(features: Array, residuals: Array, bounds: NDArray[np.int64]) -> Array:
    """The sum of features times residuals over each teacher's rows, `[c, k, L]`."""
    if len(bounds) == len(features) + 1:
        return np.asarray(features[:, :, None] * residuals[:, None, :])
    pairs = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    return np.stack([features[start:end].T @ residuals[start:end] for start, end in pairs])
