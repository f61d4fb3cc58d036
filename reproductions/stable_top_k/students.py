"""Students of one vote file: the votes, a release of them at some noise, and how accurate its students are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pate.aggregators import Aggregator, ReleaseContext
from pate.data import Split
from pate.student import Student
from pate.votes import StoredVotes, VoteStore


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
        return tuple(self._accuracy(aggregator, seed) for seed in self.seeds)

    def prior_accuracy(self) -> float:
        """That of each label's majority."""
        share = self.test.labels.mean(axis=0)
        return float(np.maximum(share, 1 - share).mean())

    def _accuracy(self, aggregator: Aggregator, seed: int) -> float:
        """Students see no public sample beside the queries."""
        release = aggregator.release_from(self._source, ReleaseContext(np.random.default_rng(seed)))
        model = self.student.learn(release.training_set(self.queries), pool=self.queries[:0], seed=seed)
        return float((model.predict(self.test.inputs) == self.test.labels).mean())

    @cached_property
    def _source(self) -> StoredVotes:
        return StoredVotes(self.votes)
