"""A prior by a student: before each round of a release, a student predicts the labels of the next queries.

The aggregator `NotPriorTopK` counts a query as a hit unless a noisy check of the votes confirms this prediction.
"""

from dataclasses import dataclass

import numpy as np

from pate.aggregators import TrainingSet
from pate.array_types import BoolArray, Float32Array
from pate.models.student import Learner


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class StudentPrior:
    """A function that trains a student on all answers so far, and returns its predictions for the next queries.

    The predictions are computed from released labels and public samples, so they cost no privacy.

    Attributes:
        student_recipe: the untrained student, which is trained anew for each round.
        inputs: the inputs of all queries, float32; the first axis has one entry for each query.
        seed: the seed of the training.
        never_empty: whether every answer has a label. If the student predicts no label, its most probable label is
            taken.
    """

    student_recipe: Learner
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
        num_earlier = len(labels)
        if not answered.any():
            return np.zeros((num_queries, labels.shape[1]), dtype=np.bool_)
        earlier_inputs = self.inputs[:num_earlier]
        training_set = TrainingSet(inputs=earlier_inputs[answered], labels=labels[answered])
        model = self.student_recipe.learn(training_set, pool=self.inputs[:0], seed=self.seed)
        next_inputs = self.inputs[num_earlier : num_earlier + num_queries]
        predicted_labels = np.array(model.predict(next_inputs), dtype=np.bool_)
        if self.never_empty:
            empty_queries = np.flatnonzero(~predicted_labels.any(axis=1))
            most_probable_labels = model.predict_proba(next_inputs).argmax(axis=1)
            predicted_labels[empty_queries, most_probable_labels[empty_queries]] = True
        return predicted_labels
