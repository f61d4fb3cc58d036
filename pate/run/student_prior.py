"""The prior of a release that hits where the votes differ from a student's expectation (`NotPriorTopK`)."""

from dataclasses import dataclass

import numpy as np

from pate.aggregators import TrainingSet
from pate.models.student import Learner
from pate.models.student_model import Rows
from pate.votes.counts import Bits


@dataclass(frozen=True, eq=False)
class StudentPrior:
    """A prior that trains a student on all answers so far, and takes its predictions for the next queries.

    The prior is computed from the release and public samples alone.

    Attributes:
        student: the recipe of the student.
        inputs: float32 `[num_queries, …]`, the inputs of all queries.
        seed: of the training.
        never_empty: whether every answer has a label; a student that predicts no label then names its likeliest.
    """

    student: Learner
    inputs: Rows
    seed: int
    never_empty: bool

    def __call__(self, labels: Bits, answered: Bits, num_queries: int) -> Bits:
        """Returns the expected labels of the next round, all of them absent while no query has been answered.

        Args:
            labels: the released labels of all earlier queries, `[num_earlier, num_labels]`.
            answered: which of the earlier queries were answered, `[num_earlier]`.
            num_queries: the number of queries in the next round.

        Returns:
            The expected labels, `[num_queries, num_labels]`.
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
