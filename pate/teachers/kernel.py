"""Teachers of one record, or a few: what each says is its labels times its likeness to the queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.teachers.voter import Voter
from pate.validation import InvalidValue, require, require_count
from pate.votes.low_rank_votes import LowRankVotes
from pate.votes.public_pca import PublicPCA
from pate.votes.source import VoteSource

if TYPE_CHECKING:
    from pate.run.ensemble import Ensemble

Array = NDArray[np.float64]

_BLOCK_ENTRIES = 2**22
_BLOCK_RECORDS = 4096


@dataclass(frozen=True)
class KernelTeacher(Voter):
    """Votes in the directions of the public pool, without any training; any number of teachers, streamed.

    Rule: teacher t's votes on the queries, minus the prevalence p, are

        sqrt(Q / n_t)  span @ sum over its n_t records of  features(x) (y - p)^T,

    where `features` have length 1 and `span` is orthonormal (`PublicPCA`). A record's votes are then as long as
    its labels' distance from the prevalence, and the sum over teachers, projected on the span, is what a release of the
    sum over records would be. With one record a teacher, the record and the teacher are the same unit.

    Formal guarantee: a teacher's votes are a function of its own records, the public pool, the queries and p.

    Attributes:
        num_directions: of the public pool, >= 1, or None for `affordable_directions`: a function of the price, the
            numbers of teachers, records and labels.
    """

    is_trained: ClassVar[bool] = False

    num_directions: int | None = None

    def __post_init__(self) -> None:
        if self.num_directions is not None:
            require_count("num_directions", self.num_directions)

    def votes_of(self, ensemble: Ensemble) -> VoteSource:
        """See `Voter.votes_of`."""
        from pate.teachers.kernel_votes import KernelVotes  # which knows this class

        private = ensemble.dataset.private
        return KernelVotes(
            self,
            inputs=private.inputs,
            labels=private.labels,
            teacher_of=ensemble.partition.teacher_of,
            num_teachers=ensemble.num_teachers,
            num_groups=ensemble.num_groups,
            public_inputs=ensemble.dataset.public.inputs,
            num_queries=ensemble.num_queries,
        )

    def require_reader(self, aggregator: str, input_form: str) -> None:
        """See `Voter.require_reader`."""
        if input_form != "centered":
            raise InvalidValue(f"aggregator={aggregator}: expected centered_votes: kernel teachers say more than bits")

    def votes(
        self,
        inputs: NDArray[np.float32],
        labels: NDArray[np.bool_],
        teacher_of: NDArray[np.int64],
        *,
        num_teachers: int,
        directions: PublicPCA,
        queries: NDArray[np.float32],
        prevalence: Array,
    ) -> Iterator[LowRankVotes]:
        """Yields the votes of teachers 0, 1, …, a block at a time.

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
