"""The student whose predictions are the next round's prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.aggregators import TrainingSet
from pate.student.student import Learner

Bits = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class StudentPrior:
    """The labels that a student expects, trained on what was released before: public inputs and released labels.

    Attributes:
        student: the recipe.
        inputs: float32 `[Q, …]`, the public samples asked about.
        seed: of the student's training.
        never_empty: whether every answer has a label; a student that predicts none then names its likeliest.
    """

    student: Learner
    inputs: NDArray[np.float32]
    seed: int
    never_empty: bool

    def __call__(self, labels: Bits, answered: Bits, num_queries: int) -> Bits:
        """Expects nothing before anything was answered."""
        start = len(labels)
        expected = np.zeros((num_queries, labels.shape[1]), dtype=np.bool_)
        if not answered.any():
            return expected
        released = TrainingSet(self.inputs[:start][answered], labels[answered])
        model = self.student.learn(released, pool=self.inputs[:0], seed=self.seed)
        following = self.inputs[start : start + num_queries]
        expected |= model.predict(following)
        if self.never_empty:
            likeliest = model.predict_proba(following).argmax(axis=1)
            expected[np.flatnonzero(~expected.any(axis=1)), likeliest[~expected.any(axis=1)]] = True
        return expected
