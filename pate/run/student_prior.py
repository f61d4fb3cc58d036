"""Prior of a release that goes by what a student expects (`NotPriorTopK`)."""

from dataclasses import dataclass

import numpy as np

from pate.aggregators import TrainingSet
from pate.models.student import Learner
from pate.models.student_model import Rows
from pate.votes.counts import Bits


@dataclass(frozen=True, eq=False)
class StudentPrior:
    """Labels that a student expects of the next queries; it learns anew from all that was released before them.

    So the prior is computed from the release and public samples alone.

    Attributes:
        student: the recipe.
        inputs: float32 `[Q, …]`, of all queries.
        seed: of the training.
        never_empty: whether every answer has a label; a student that predicts none then names its likeliest.
    """

    student: Learner
    inputs: Rows
    seed: int
    never_empty: bool

    def __call__(self, labels: Bits, answered: Bits, num_queries: int) -> Bits:
        """Returns the expected labels of the next round, `[num_queries, L]`; none before anything was answered.

        `labels` `[start, L]` and `answered` `[start]` are those of all queries before it.
        """
        start = len(labels)
        expected = np.zeros((num_queries, labels.shape[1]), dtype=np.bool_)
        if not answered.any():
            return expected
        training_set = TrainingSet(self.inputs[:start][answered], labels[answered])
        model = self.student.learn(training_set, pool=self.inputs[:0], seed=self.seed)
        next_inputs = self.inputs[start : start + num_queries]
        expected |= model.predict(next_inputs)
        if self.never_empty:
            empty = np.flatnonzero(~expected.any(axis=1))
            likeliest = model.predict_proba(next_inputs).argmax(axis=1)
            expected[empty, likeliest[empty]] = True
        return expected
