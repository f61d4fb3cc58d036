"""The student of a fit: an estimator that learns from what was released."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pate.aggregators import TrainingSet
from pate.classifier.frames import taken
from pate.classifier.tasks import FittedModel, Rows, Task
from pate.student.student import OnEpoch
from pate.validation import InvalidValue

_REHEARSED, _FEWEST = 200, 20
_SHOWN = 120


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
        return self.task.fit(self.estimator, taken(training.inputs, rows), training.labels[rows], seed=seed)

    def rehearse(self, name: str, queries: Any) -> None:
        """Fits the estimator to public samples and labels that say nothing, before anything is charged.

        Raises:
            InvalidValue: it cannot take such inputs.
        """
        some = queries[:_REHEARSED]
        if len(some) < _FEWEST:
            return
        bits = np.zeros((len(some), self.task.num_labels), np.bool_)
        bits[np.arange(len(some)), np.arange(len(some)) % min(2, self.task.num_labels)] = True
        try:
            self.task.fit(self.estimator, some, bits, seed=0).predict(some)
        except (ValueError, TypeError) as error:
            said = " ".join(str(error).split())[:_SHOWN]
            rule = f"one that takes the columns of X, such as a pipeline with a ColumnTransformer ({said})"
            raise InvalidValue(f"{name}={type(self.estimator).__name__}: expected {rule}") from error
