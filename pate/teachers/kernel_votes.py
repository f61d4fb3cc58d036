"""The votes of kernel teachers: functions on the queries, in public directions, around a center."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue, require
from pate.votes.low_rank_votes import LowRankVotes
from pate.votes.moment_votes import MOST_PUBLIC, MomentVotes
from pate.votes.public_pca import SHARE_IN_ROUNDS, PublicPCA, affordable_directions
from pate.votes.source import Array, Bits, VoteSource, mean_labels

_BLOCK_ENTRIES = 2**22
_BLOCK_RECORDS = 4096
_SHARE_IN_ONE = 0.25  # of the labels' variance is noise, in one round


class KernelVotes(VoteSource):
    """See `VoteSource`. Nothing is trained: votes are made where they are read.

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
        """Raises `InvalidValue`: these teachers do not vote in bits."""
        raise InvalidValue(
            "teacher=KernelTeacher: expected teachers that are trained, such as linear, or aggregator=centered_votes"
        )

    def label_shares(self) -> Array:
        """See `VoteSource.label_shares`."""
        return mean_labels(self.labels, self.teacher_of, self.num_teachers)

    def span(self, *, noise_multiplier: float) -> Array:
        """See `VoteSource.span`."""
        directions = self._directions(noise_multiplier)
        found: Array = self.remembered(("span", noise_multiplier), lambda: directions.span(self.queries))
        return found

    def votes_around(self, center: Array, *, noise_multiplier: float) -> Iterable[Any]:
        """See `VoteSource.votes_around`."""
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
        """See `VoteSource.in_rounds`."""
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
