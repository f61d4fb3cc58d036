"""A prior by a student: before each round of a release, a student predicts the labels of the next queries.

The aggregator `NotPriorTopK` counts a query as a hit if the votes differ from this prediction.
"""

from dataclasses import dataclass

import numpy as np

from pate.aggregators import TrainingSet
from pate.array_types import BoolArray, Float32Array
from pate.models.student import Learner


@dataclass(frozen=True, eq=False)
class StudentPrior:
    """A function that trains a student on all answers so far, and returns its predictions for the next queries.

    The predictions are computed from released labels and public samples, so they cost no privacy.

    Attributes:
        student: the recipe of the student.
        inputs: the inputs of all queries, float32; the first axis has one entry for each query.
        seed: the seed of the training.
        never_empty: whether every answer has a label. If the student predicts no label, its most probable label is
            taken.
    """

    student: Learner
    inputs: Float32Array
    seed: int
    never_empty: bool

    def __call__(self, labels: BoolArray, answered: BoolArray, num_queries: int) -> BoolArray:
        """Returns the predicted labels of the next queries, `[num_queries, num_labels]`.

        Before any query has been answered, no label is predicted.

        Args:
            labels: the released labels of all earlier queries, `[num_earlier, num_labels]`.
            answered: true for each earlier query that was answered, `[num_earlier]`.
            num_queries: the number of queries in the next round.
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
