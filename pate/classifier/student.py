"""The student of a fit: an estimator that learns from what was released."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pate.aggregators import TrainingSet
from pate.classifier.tasks import FittedModel, Rows, Task
from pate.student.student import OnEpoch


@dataclass(frozen=True)
class EstimatorStudent:
    """A `pate.student.student.Learner`: a clone of an estimator, fitted to the answers that it can learn from.

    Attributes:
        task: how an estimator is fitted to labels.
        estimator: unfitted.
    """

    task: Task
    estimator: Any

    def learn(self, training: TrainingSet, *, pool: Rows, seed: int, on_epoch: OnEpoch | None = None) -> FittedModel:
        """See `pate.student.Student.learn`; estimators have no use for a pool, or for scores."""
        rows = self.task.usable(training.labels)
        return self.task.fit(self.estimator, training.inputs[rows], training.labels[rows], seed=seed)
