"""Centered votes in a run: prevalence, votes summed, release; each on disk before the next, none of it drawn twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, Event, Ledger
from pate.aggregators import CenteredRelease, CenteredVotes
from pate.data import Partition, Split
from pate.files.atomic import write_arrays
from pate.student import LowRankStudent, StudentModel
from pate.teachers import KernelTeacher
from pate.validation import require
from pate.votes.public_pca import PublicPCA, affordable_directions

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CenteredStage:
    """What a run does between its partition and its student where votes are centered.

    Teachers that were trained give confidences; kernel teachers give votes in a span of the public pool, whose number
    of directions is `affordable_directions` unless they say otherwise.

    Attributes:
        aggregator: with its noise solved for.
        teacher: kernel teachers, or None.
        confidences: of the trained teachers, blocks `[c, Q, L]`; asked where there are no kernel teachers.
        private: the private split.
        public: the public split.
        num_queries: the first ones of the public split are asked.
        partition: of the private split.
        folder: the run's, the owner's alone.
        noise: gives the generator of the noise, when it is needed; its two children draw for the prevalence and for
            the votes.
        ledger: charged before each.
    """

    aggregator: CenteredVotes
    teacher: KernelTeacher | None
    confidences: Callable[[], Iterable[Any]]
    private: Split
    public: Split
    num_queries: int
    partition: Partition
    folder: Path
    noise: Callable[[], np.random.Generator]
    ledger: Ledger

    def __post_init__(self) -> None:
        require_replace_one(self.aggregator)

    def release(self) -> CenteredRelease:
        """Both charges, both draws, each once."""
        release = self._centered.aggregate_summary(
            self.summary, num_teachers=self.partition.num_teachers, rng=self._generators[1], ledger=self.ledger
        )
        num_queries, num_labels = self.summary.shape
        event = self.aggregator.event_for(
            num_queries=num_queries, num_labels=num_labels, num_teachers=self.partition.num_teachers
        )
        if not isinstance(release, CenteredRelease):
            raise TypeError("centered votes give a centered release")
        return replace(release, event=event)

    def noiseless(self) -> CenteredRelease:
        """What would be released without noise on the votes; no epsilon covers it."""
        return self._centered.noiseless(self.summary, num_teachers=self.partition.num_teachers)

    def fit(self, student: LowRankStudent, release: CenteredRelease) -> StudentModel:
        """The student that knows the noise."""
        if self._directions is not None:
            student = replace(student, num_directions=self._directions.projection.shape[1])
        return student.fit_scores(
            self._queries,
            release.scores - release.center,
            noise_std=release.noise_std,
            prevalence=release.center.mean(axis=0),
            public_inputs=np.asarray(self.public.inputs),
            in_span=self._directions is not None,
        )

    @cached_property
    def prevalence(self) -> Array | None:
        """Released, `[L]`; None where the center is public."""
        if self.aggregator.prevalence_share == 0:
            return None
        path = self.folder / "prevalence.npz"
        if not path.exists():
            released = self.aggregator.prevalence.release(
                _label_shares(self.private.labels, self.partition),
                num_teachers=self.partition.num_teachers,
                rng=self._generators[0],
                ledger=self.ledger,
                records_per_teacher=self._num_groups / self.partition.num_teachers,
            )
            write_arrays(path, prevalence=released)
        with np.load(path) as arrays:
            found: Array = arrays["prevalence"]
        return found

    @cached_property
    def summary(self) -> NDArray[np.int64]:
        """The sum of the clipped votes, `[Q, L]`: kept, since another order of floats would be another sum."""
        path = self.folder / "summary.npz"
        if not path.exists():
            votes = self.confidences() if self.teacher is None else self._kernel_votes(self.teacher)
            write_arrays(path, summary=self._centered.gather(votes, num_teachers=self.partition.num_teachers))
        with np.load(path) as arrays:
            found: NDArray[np.int64] = arrays["summary"]
        return found

    @cached_property
    def _generators(self) -> list[np.random.Generator]:
        return self.noise().spawn(2)

    @cached_property
    def _centered(self) -> CenteredVotes:
        span = None if self._directions is None else self._directions.span(self._queries)
        center = self.aggregator.center if self.prevalence is None else self.prevalence
        return self.aggregator.centered_at(center, span=span)

    @cached_property
    def _num_groups(self) -> int:
        """Public under replace-one, the only adjacency here: one group takes the place of another."""
        return len(np.unique(self.private.group_ids))

    @cached_property
    def _queries(self) -> NDArray[np.float32]:
        return np.asarray(self.public.inputs[: self.num_queries], dtype=np.float32)

    @cached_property
    def _directions(self) -> PublicPCA | None:
        if self.teacher is None:
            return None
        count = self.teacher.num_directions or affordable_directions(
            noise_multiplier=self.aggregator.votes_multiplier,
            num_teachers=self.partition.num_teachers,
            num_records=self._num_groups,
            num_labels=self.private.labels.shape[1],
        )
        return PublicPCA.of(np.asarray(self.public.inputs), min(count, self.num_queries))

    def _kernel_votes(self, teacher: KernelTeacher) -> Iterable[Any]:
        given = 0.5 if self.aggregator.center is None else self.aggregator.center
        center = np.asarray(given if self.prevalence is None else self.prevalence, dtype=np.float64)
        require(center.ndim < 2, "center.shape", center.shape, "one number a label for kernel teachers")
        directions = self._directions
        if directions is None:
            raise TypeError("kernel teachers vote in public directions")
        return teacher.votes(
            self.private.inputs,
            self.private.labels,
            self.partition.teacher_of,
            num_teachers=self.partition.num_teachers,
            directions=directions,
            queries=self._queries,
            prevalence=np.broadcast_to(center, self.private.labels.shape[1:]),
        )


def require_replace_one(aggregator: CenteredVotes) -> None:
    """Raises under add/remove, where the number of private groups, which a run goes by, would not be public."""
    rule = "replace_one for centered_votes in a run, which goes by the number of private groups"
    require(aggregator.adjacency is Adjacency.REPLACE_ONE, "adjacency", aggregator.adjacency, rule)


def write_centered(path: Path, release: CenteredRelease) -> None:
    """Everything that was released."""
    write_arrays(
        path,
        labels=release.labels,
        answered=release.answered,
        scores=release.scores,
        center=release.center,
        noise_std=np.array(release.noise_std),
    )


def read_centered(path: Path, aggregator: CenteredVotes, event: Event) -> CenteredRelease:
    """What `write_centered` wrote."""
    with np.load(path) as arrays:
        labels, answered, scores, center = (arrays[name] for name in ("labels", "answered", "scores", "center"))
        noise_std = float(arrays["noise_std"])
    return CenteredRelease(labels, answered, event, aggregator.adjacency, scores, noise_std, center)


def _label_shares(labels: NDArray[np.bool_], partition: Partition) -> Array:
    """Each teacher's share of records with each label, `[N, L]`."""
    shares = np.zeros((partition.num_teachers, labels.shape[1]))
    np.add.at(shares, partition.teacher_of, labels)
    return np.asarray(shares / partition.sizes()[:, None])
