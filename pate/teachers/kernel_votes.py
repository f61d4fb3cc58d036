"""The votes of kernel teachers: functions on the queries, in public directions, around a center."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.teachers.kernel import KernelTeacher
from pate.validation import InvalidValue, require
from pate.votes.public_pca import PublicPCA, affordable_directions
from pate.votes.source import Array, Bits, VoteSource, mean_labels


class KernelVotes(VoteSource):
    """See `VoteSource`. Nothing is trained: votes are made where they are read.

    Args:
        teacher: the recipe.
        inputs: float32 `[n, …]`, private.
        labels: bool `[n, L]`, private.
        teacher_of: int64 `[n]`, the teacher of each record.
        num_teachers: N.
        num_groups: private groups, public.
        public_inputs: float32 `[m, …]`, the whole public pool.
        num_queries: the first ones of the pool are asked.
    """

    gives_bits = False

    def __init__(
        self,
        teacher: KernelTeacher,
        *,
        inputs: NDArray[np.float32],
        labels: Bits,
        teacher_of: NDArray[np.int64],
        num_teachers: int,
        num_groups: int,
        public_inputs: NDArray[np.float32],
        num_queries: int,
    ) -> None:
        self.teacher, self.inputs, self.labels, self.teacher_of = teacher, inputs, labels, teacher_of
        self.num_teachers, self.num_groups = num_teachers, num_groups
        self.public_inputs, self.num_queries = public_inputs, num_queries
        self.num_labels, self.records_per_teacher = labels.shape[1], num_groups / num_teachers
        self.queries = np.asarray(public_inputs[:num_queries], dtype=np.float32)

    def bits(self) -> Iterator[Bits]:
        """Raises `InvalidValue`: these teachers do not vote in bits."""
        name = type(self.teacher).__name__
        raise InvalidValue(f"teacher={name}: expected teachers that are trained, for aggregators that count votes")

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
        return self.teacher.votes(
            self.inputs,
            self.labels,
            self.teacher_of,
            num_teachers=self.num_teachers,
            directions=self._directions(noise_multiplier),
            queries=self.queries,
            prevalence=np.broadcast_to(center, self.labels.shape[1:]),
        )

    def _directions(self, noise_multiplier: float) -> PublicPCA:
        """As many directions of the pool as the noise makes worthwhile: a function of public numbers."""
        count = self.teacher.num_directions or affordable_directions(
            noise_multiplier=noise_multiplier,
            num_teachers=self.num_teachers,
            num_records=self.num_groups,
            num_labels=self.num_labels,
        )
        count = min(count, self.num_queries)
        found: PublicPCA = self.remembered(
            ("directions", count), lambda: PublicPCA.of(np.asarray(self.public_inputs), count)
        )
        return found
