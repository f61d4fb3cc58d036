"""How an entrant comes from votes to a student: what it reads, what it releases, what its student learns from."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Accountant, Ledger
from pate.aggregators import (
    Aggregator,
    CenteredRelease,
    CenteredVotes,
    NotPriorTopK,
    Release,
    TargetChargedAggregator,
    TeacherVotesAggregator,
    counts_for,
)
from pate.comparison.ensemble import Ensemble
from pate.comparison.source import Source
from pate.run.centering import CenteredStage
from pate.run.randomness import Randomness
from pate.run.rounds import StudentPrior
from pate.student import LowRankStudent, Student, StudentModel
from pate.teachers import KernelTeacher


@dataclass(frozen=True, eq=False)
class Answers(ABC):
    """The way from the votes of an ensemble to a student, for any seed.

    Attributes:
        aggregator: with its noise solved for.
        student: the recipe.
        ensemble: whom it asks.
        source: the data.
    """

    aggregator: Any
    student: Student
    ensemble: Ensemble
    source: Source

    @abstractmethod
    def learned(self, seed: int) -> tuple[Release, StudentModel]:
        """The release and the student of `pate-train seed=…`."""

    def _fit(self, release: Release, seed: int) -> StudentModel:
        answered = release.answered
        return self.student.fit(self.source.queries.inputs[answered], release.labels[answered], seed=seed)

    def _randomness(self, seed: int) -> tuple[np.random.Generator, int]:
        """The noise, and the seed of the student."""
        randomness = Randomness(self.ensemble.folder, seed)
        return randomness.generator("noise"), randomness.seeds("student", 1)[0]


@dataclass(frozen=True, eq=False)
class CountedAnswers(Answers):
    """From counts `[Q, L]`, or from what an aggregator gathered of every teacher's votes, read once for all seeds."""

    gathered: NDArray[Any]

    def learned(self, seed: int) -> tuple[Release, StudentModel]:
        """See `Answers.learned`."""
        rng, student_seed = self._randomness(seed)
        how: dict[str, Any] = {"num_teachers": self.ensemble.num_teachers, "rng": rng}
        if isinstance(self.aggregator, TeacherVotesAggregator):
            release = self.aggregator.aggregate_summary(self.gathered, **how)
        else:
            if isinstance(self.aggregator, TargetChargedAggregator):
                how["prior"] = self._prior(student_seed)
            release = self.aggregator.aggregate(self.gathered, **how)
        return release, self._fit(release, student_seed)

    def _prior(self, student_seed: int) -> StudentPrior | None:
        if not isinstance(self.aggregator, NotPriorTopK):
            return None
        never_empty = not self.aggregator.padded
        return StudentPrior(self.student, self.source.queries.inputs, student_seed, never_empty=never_empty)


@dataclass(frozen=True, eq=False)
class CenteredAnswers(Answers):
    """Around a center that is released first, so that the votes are read anew for every seed.

    Attributes:
        scratch: a folder that is there only while it works.
        terms: makes the ledger of one release, given its file.
    """

    scratch: Path
    terms: Callable[[Path], Ledger]

    def learned(self, seed: int) -> tuple[Release, StudentModel]:
        """See `Answers.learned`."""
        rng, student_seed = self._randomness(seed)
        folder = self.scratch / f"seed-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            stage = self._stage(folder, rng)
            release = stage.release()
            return release, self._student(stage, release, student_seed)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _stage(self, folder: Path, rng: np.random.Generator) -> CenteredStage:
        dataset, teacher = self.source.dataset, self.ensemble.teacher
        return CenteredStage(
            aggregator=self.aggregator,
            teacher=teacher if isinstance(teacher, KernelTeacher) else None,
            confidences=lambda: self.ensemble.confidences(self.source.queries.inputs),
            private=dataset.private,
            public=dataset.public,
            num_queries=self.source.num_queries,
            partition=self.ensemble.partition(dataset),
            folder=folder,
            noise=lambda: rng,
            ledger=self.terms(folder / "ledger.jsonl"),
        )

    def _student(self, stage: CenteredStage, release: CenteredRelease, seed: int) -> StudentModel:
        if isinstance(self.student, LowRankStudent):
            return stage.fit(self.student, release)
        return self._fit(release, seed)


def answers(
    aggregator: Aggregator,
    student: Student,
    ensemble: Ensemble,
    source: Source,
    *,
    scratch: Path,
    target_delta: float,
    accountant: Callable[[], Accountant],
) -> Answers:
    """The way of an aggregator, by what it reads."""
    shared = (aggregator, student, ensemble, source)
    if isinstance(aggregator, CenteredVotes):

        def terms(path: Path) -> Ledger:
            return Ledger(path, adjacency=aggregator.adjacency, target_delta=target_delta, accountant=accountant)

        return CenteredAnswers(*shared, scratch, terms)
    if isinstance(aggregator, TeacherVotesAggregator):
        votes = ensemble.confidences(source.queries.inputs)
        return CountedAnswers(*shared, aggregator.gather(votes, num_teachers=ensemble.num_teachers))
    return CountedAnswers(*shared, counts_for(aggregator, ensemble.blocks()))
