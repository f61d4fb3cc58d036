"""One release and the student that learns from it, scored; each on disk as soon as it is done."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.aggregators import Aggregator, ChargedAggregator, NotPriorTopK, Release, TeacherVotesAggregator
from pate.comparison.ensemble import Ensemble
from pate.comparison.entrant import Entrant
from pate.comparison.run import Run
from pate.comparison.tuning import Target, Tuning, tuned
from pate.data import Split
from pate.durable import write_text
from pate.randomness import Randomness
from pate.report import multilabel_metrics
from pate.rounds import StudentPrior
from pate.student import Student

Bits = NDArray[np.bool_]


@dataclass(frozen=True)
class Field:
    """What all entrants share.

    Attributes:
        queries: the public samples that are asked.
        test: what students are scored on.
    """

    queries: Split
    test: Split


@dataclass(frozen=True)
class Cell:
    """A seed, and the file with its result.

    Attributes:
        seed: of the noise and of the student.
        path: of the file.
    """

    seed: int
    path: Path

    def read(self) -> Run | None:
        """The result, or None."""
        return Run(**json.loads(self.path.read_text())) if self.path.exists() else None

    def write(self, run: Run) -> Run:
        """Puts a result on disk and returns it."""
        write_text(self.path, json.dumps(asdict(run)) + "\n")
        return run


@dataclass(frozen=True)
class Trial:
    """An entrant at an epsilon, for several seeds.

    Attributes:
        entrant: who.
        target: what the release may cost.
        ensemble: whom it asks; its votes are on disk.
        tuning_path: where its parameters are kept.
        cells: one a seed.
        blank: a run with what is known before.
    """

    entrant: Entrant
    target: Target
    ensemble: Ensemble
    tuning_path: Path
    cells: tuple[Cell, ...]
    blank: Run

    @property
    def num_steps(self) -> int:
        """How many results it gives, if it gives any."""
        return len(self.cells)

    def done(self) -> list[Run] | None:
        """The results, if all of them are on disk."""
        runs = [run for run in (cell.read() for cell in self.cells) if run is not None]
        return runs if len(runs) == len(self.cells) else None

    def tuning(self) -> Tuning:
        """The parameters for the epsilon."""
        return tuned(self.entrant.aggregator, self.target, self.tuning_path)

    def runs(self, field: Field) -> list[Run]:
        """The results; where no noise reaches the epsilon, one that says so."""
        if (done := self.done()) is not None:
            return done
        tuning = self.tuning()
        if tuning.aggregator is None:
            return [replace(self.blank, note=tuning.reason)]
        asked = _Votes(tuning.aggregator, self.ensemble, field.queries.inputs)
        blank = replace(self.blank, priced_epsilon=tuning.epsilon)
        return [cell.read() or cell.write(self._run(asked, field, cell.seed, blank)) for cell in self.cells]

    def _run(self, asked: _Votes, field: Field, seed: int, blank: Run) -> Run:
        """With the noise and the student of `pate-train seed=…`."""
        randomness = Randomness(self.ensemble.folder, seed)
        student_seed = randomness.seeds("student", 1)[0]
        release = asked.release(randomness.generator("noise"), self.entrant.student, student_seed)
        answered = release.answered
        inputs, labels = field.queries.inputs[answered], release.labels[answered]
        scored = scores(self.entrant.student, inputs, labels, field.test, student_seed)
        correct = float((labels == field.queries.labels[answered]).mean()) if answered.any() else None
        counted: dict[str, Any] = {"num_answered": release.num_answered, "label_accuracy": correct}
        return replace(blank, seed=seed, **counted, **scored)


class _Votes:
    """The votes as an aggregator reads them, gathered once for all seeds."""

    def __init__(self, aggregator: Aggregator, ensemble: Ensemble, inputs: NDArray[np.float32]) -> None:
        self.aggregator, self.num_teachers, self.inputs = aggregator, ensemble.num_teachers, inputs
        self.gathered: NDArray[Any]
        if isinstance(aggregator, TeacherVotesAggregator):
            self.gathered = aggregator.gather(ensemble.confidences(inputs), num_teachers=ensemble.num_teachers)
        else:
            self.gathered = ensemble.histogram()

    def release(self, rng: np.random.Generator, student: Student, student_seed: int) -> Release:
        how: dict[str, Any] = {"num_teachers": self.num_teachers, "rng": rng}
        if isinstance(self.aggregator, TeacherVotesAggregator):
            return self.aggregator.aggregate_summary(self.gathered, **how)
        if isinstance(self.aggregator, ChargedAggregator):
            never_empty = isinstance(self.aggregator, NotPriorTopK) and not self.aggregator.padded
            prior = StudentPrior(student, self.inputs, student_seed, never_empty=never_empty)
            return self.aggregator.aggregate(self.gathered, prior=prior, **how)
        return self.aggregator.aggregate(self.gathered, **how)


@dataclass(frozen=True)
class Baseline:
    """A student that no epsilon covers.

    Attributes:
        student: the recipe.
        labels: what it learns of the queries: bool `[Q, L]`, or the ensemble whose majority says so.
        cell: where its result is kept.
        blank: a run with what is known before.
    """

    student: Student
    labels: Bits | Ensemble
    cell: Cell
    blank: Run
    num_steps: int = 1

    def done(self) -> list[Run] | None:
        """The result, if it is on disk."""
        found = self.cell.read()
        return None if found is None else [found]

    def runs(self, field: Field) -> list[Run]:
        """Its result."""
        if (done := self.done()) is not None:
            return done
        labels, true = self.labels, field.queries.labels
        if isinstance(labels, Ensemble):
            labels = 2 * labels.histogram() > labels.num_teachers
        seed = Randomness(self.cell.path.parent, self.cell.seed).seeds("student", 1)[0]
        scored = scores(self.student, field.queries.inputs, labels, field.test, seed)
        correct = float((labels == true).mean())
        return [self.cell.write(replace(self.blank, num_answered=len(true), label_accuracy=correct, **scored))]


def scores(student: Student, inputs: NDArray[np.float32], labels: Bits, test: Split, seed: int) -> dict[str, Any]:
    """The five metrics of a student on the test split."""
    model = student.fit(inputs, labels, seed=seed)
    return dict(multilabel_metrics(model.predict(test.inputs), model.predict_proba(test.inputs), test.labels))
