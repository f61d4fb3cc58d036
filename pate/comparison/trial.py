"""Releases and the students that learn from them, scored; each on disk as soon as it is done."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pate.comparison.answers import Answers, answers
from pate.comparison.ensemble import Ensemble
from pate.comparison.entrant import Entrant
from pate.comparison.run import Run
from pate.comparison.source import Source
from pate.comparison.tuning import Target, read_tuning, tuned
from pate.data import Split
from pate.files.atomic import write_text
from pate.report import multilabel_metrics
from pate.run.randomness import Randomness
from pate.student import Student, StudentModel
from pate.validation import InvalidValue

SCRATCH = "scratch"
"""The folder for what is there only while a release is made."""


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
        if (kept := read_tuning(self.tuning_path)) is not None and kept.reason:
            return [replace(self.blank, note=kept.reason)]
        runs = [run for run in map(self._kept, self.cells) if run is not None]
        return runs if len(runs) == len(self.cells) else None

    def runs(self, source: Source) -> list[Run]:
        """The results; where no noise reaches the epsilon, one that says so."""
        if (done := self.done()) is not None:
            return done
        tuning = tuned(self.entrant.aggregator, self.target, self.tuning_path)
        if tuning.aggregator is None:
            return [replace(self.blank, note=tuning.reason)]
        blank = replace(self.blank, priced_epsilon=tuning.epsilon)
        try:
            way = answers(
                tuning.aggregator,
                self.entrant.student,
                self.ensemble,
                source,
                scratch=self.tuning_path.parents[1] / SCRATCH / self.tuning_path.stem,
                target_delta=self.target.delta,
                accountant=self.target.accountant,
            )
            return [self._kept(cell) or cell.write(_run(way, cell.seed, blank)) for cell in self.cells]
        except InvalidValue as error:  # votes that it is not made for
            return [cell.write(replace(blank, seed=cell.seed, note=str(error))) for cell in self.cells]

    def _kept(self, cell: Cell) -> Run | None:
        """A result on disk, under the name that the entrant has among those of this call."""
        run = cell.read()
        return None if run is None else replace(run, aggregator=self.blank.aggregator)


@dataclass(frozen=True)
class Baseline:
    """A student that no epsilon covers.

    Attributes:
        student: the recipe.
        ensemble: whose majority it learns; None for the true labels.
        cell: where its result is kept.
        blank: a run with what is known before.
    """

    student: Student
    ensemble: Ensemble | None
    cell: Cell
    blank: Run
    num_steps: int = 1

    def done(self) -> list[Run] | None:
        """The result, if it is on disk."""
        found = self.cell.read()
        return None if found is None else [found]

    def runs(self, source: Source) -> list[Run]:
        """Its result."""
        if (done := self.done()) is not None:
            return done
        queries, ensemble = source.queries, self.ensemble
        labels = queries.labels if ensemble is None else 2 * ensemble.histogram() > ensemble.num_teachers
        seed = Randomness(self.cell.path.parent, self.cell.seed).seeds("student", 1)[0]
        model = self.student.fit(queries.inputs, labels, seed=seed)
        correct = float((labels == queries.labels).mean())
        known: dict[str, Any] = {"num_answered": len(labels), "label_accuracy": correct}
        return [self.cell.write(replace(self.blank, **known, **_scores(model, source.test)))]


def _run(way: Answers, seed: int, blank: Run) -> Run:
    """One release and its student."""
    release, model = way.learned(seed)
    correct = release.labels == way.source.queries.labels
    accuracy = float(correct[release.answered].mean()) if release.num_answered else None
    known: dict[str, Any] = {"num_answered": release.num_answered, "label_accuracy": accuracy}
    return replace(blank, seed=seed, **known, **_scores(model, way.source.test))


def _scores(model: StudentModel, test: Split) -> dict[str, Any]:
    """The five metrics of a student on the test split."""
    bits, probabilities = model.predict(test.inputs), model.predict_proba(test.inputs)
    return dict(multilabel_metrics(bits, probabilities.astype(np.float64), test.labels))
