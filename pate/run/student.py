"""The student stage: a student learns from what was released, and from public samples that were not asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pate.aggregators import TrainingSet
from pate.data import Dataset
from pate.run.workplace import Workplace
from pate.student import Student, StudentModel
from pate.student.student import OnEpoch


@dataclass(frozen=True)
class Prediction:
    """What a model says of the test split: bits and probabilities, `[num_test, L]` each."""

    labels: NDArray[np.bool_]
    probabilities: NDArray[np.float32]

    @classmethod
    def of(cls, model: StudentModel, dataset: Dataset) -> Prediction:
        """What a student says."""
        return cls(model.predict(dataset.test.inputs), model.predict_proba(dataset.test.inputs))


def train_student(
    student: Student,
    training: TrainingSet,
    dataset: Dataset,
    *,
    num_queries: int,
    seed: int,
    on_epoch: OnEpoch | None = None,
) -> StudentModel:
    """Trains a student, the one way for all commands.

    Args:
        student: the recipe.
        training: what was released.
        dataset: whose public samples behind the queries are the student's pool.
        num_queries: how many public samples were asked, answered or refused.
        seed: of the training.
        on_epoch: told the losses after each epoch.
    """
    pool = dataset.public.take(slice(num_queries, None)).inputs
    return student.learn(training, pool=pool, seed=seed, on_epoch=on_epoch)


@dataclass(frozen=True)
class Students:
    """The students of one run: all trained alike, and watched while they learn.

    Attributes:
        student: the recipe.
        dataset: the data.
        num_queries: as in `train_student`.
        place: where the run works.
        curves: the values of each epoch, by the name of the student.
    """

    student: Student
    dataset: Dataset
    num_queries: int
    place: Workplace
    curves: dict[str, list[Mapping[str, float]]] = field(default_factory=dict)

    def train(self, name: str, training: TrainingSet) -> StudentModel:
        """Trains one under a name of report.json."""
        curve = self.curves[name] = []

        def on_epoch(epoch: int, values: dict[str, float]) -> None:
            curve.append(values)
            self.place.events.epoch(epoch, values, model=name)

        seed = self.place.randomness.seeds("student", 1)[0]
        with self.place.monitor.stage(f"training the {name.replace('_', ' ')}"):
            return train_student(
                self.student, training, self.dataset, num_queries=self.num_queries, seed=seed, on_epoch=on_epoch
            )
