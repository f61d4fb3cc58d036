"""Students of one vote file: the votes, a release of them at some noise, and how accurate its students are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from pate.aggregators import Aggregator, CenteredVotes, Release, TeacherVotesAggregator, counts_for
from pate.data import Split
from pate.student import Student
from pate.votes import VoteStore


@dataclass(frozen=True, eq=False)
class StudentExperiment:
    """One vote file and the students that learn from releases of it.

    Attributes:
        votes: of all teachers, on disk.
        queries: float32 `[Q, d]`.
        test: inputs and labels that students are scored on; no epsilon covers the scores.
        student: the recipe.
        seeds: of noise and students.
        target_delta: in (0, 1).
    """

    votes: VoteStore
    queries: NDArray[np.float32]
    test: Split
    student: Student
    seeds: Sequence[int]
    target_delta: float

    def accuracies(self, aggregator: Aggregator) -> tuple[float, ...]:
        """The accuracy of a student of one release for each seed."""
        draw = self._draw_of(aggregator)
        releases = ((seed, draw(rng=np.random.default_rng(seed))) for seed in self.seeds)
        return tuple(self._accuracy(release, seed) for seed, release in releases)

    def prior_accuracy(self) -> float:
        """That of each label's majority."""
        share = self.test.labels.mean(axis=0)
        return float(np.maximum(share, 1 - share).mean())

    def _accuracy(self, release: Release, seed: int) -> float:
        answered = release.answered
        model = self.student.fit(self.queries[answered], release.labels[answered], seed=seed)
        return float((model.predict(self.test.inputs) == self.test.labels).mean())

    def _draw_of(self, aggregator: Aggregator) -> Callable[..., Release]:
        """A release for each generator; the votes are read once."""
        total = self.votes.num_teachers
        if isinstance(aggregator, CenteredVotes):  # every release has a center of its own
            return partial(aggregator.aggregate, self._teacher_votes, num_teachers=total)
        if isinstance(aggregator, TeacherVotesAggregator):
            summary = aggregator.gather(self.votes.blocks(), num_teachers=total)
            return partial(aggregator.aggregate_summary, summary, num_teachers=total)
        return partial(aggregator.aggregate, counts_for(aggregator, self.votes.blocks()), num_teachers=total)

    @cached_property
    def _teacher_votes(self) -> NDArray[np.bool_]:
        return self.votes.teacher_votes()
