"""The ceiling: the best model that learns from all private records and their true labels, without privacy.

The difference between the student's score and the ceiling's score is the total loss that privacy and PATE cause. No
epsilon covers the ceiling.
"""

import numpy as np

from pate.aggregators import TrainingSet
from pate.data import Split
from pate.models import LogisticStudent, MLPStudent, Student, StudentModel
from pate.models.student import OnEpoch
from pate.report.metrics import average_precisions

# The network that competes with a `LogisticStudent`.
_NETWORK_FOR_ALL_RECORDS = MLPStudent(hidden=128, folds=2, epochs=80, learning_rate=0.02)
# The network is tried if the private inputs hold at most this many numbers. On more numbers it takes long.
_MAX_INPUT_SIZE = 2**24
# The recipes are compared on at most this many records.
_MAX_COMPARED = 12_000
# Every fifth private group is held out while the recipes are compared.
_HELD_OUT_STEP = 5


def ceiling_recipes(student_recipe: Student) -> tuple[Student, ...]:
    """Returns the recipes of the models that compete to be the ceiling, the model of all private records.

    They are the recipe `student.ceiling` and, if this is a `LogisticStudent`, a network with one hidden layer. Any
    other recipe has no competitor.
    """
    recipe = student_recipe.ceiling
    return (recipe, _NETWORK_FOR_ALL_RECORDS) if isinstance(recipe, LogisticStudent) else (recipe,)


def train_on_all_records(
    student_recipe: Student, records: Split, *, seed: int, on_epoch: OnEpoch | None = None
) -> StudentModel:
    """Trains the best of the recipes that `ceiling_recipes` returns on private records and their true labels.

    The best recipe has the greatest mean average precision on a fifth of the private groups, which the recipes do not
    learn from. At most 12,000 records take part in this comparison, and no test record does. If the inputs hold more
    than 2**24 numbers, the first recipe is taken without a comparison. The model then learns from all of `records`,
    those of the comparison included, without privacy.

    Args:
        student_recipe: the recipe of the run's student, from which the competing recipes derive.
        records: the private records, or a sample of them where they are many.
        seed: the seed of the training and of the choice of records.
        on_epoch: is called with the losses of each epoch of the training; None reports nothing.
    """
    competing_recipes = ceiling_recipes(student_recipe)
    inputs = np.asarray(records.inputs)
    best_recipe = competing_recipes[0]
    if len(competing_recipes) > 1 and inputs.size <= _MAX_INPUT_SIZE:
        best_recipe = _best_recipe(competing_recipes, records=records, seed=seed)
    labeled_private_records = TrainingSet(inputs, labels=records.labels, known=records.known)
    return best_recipe.learn(labeled_private_records, pool=inputs[:0], seed=seed, on_epoch=on_epoch)


def _best_recipe(competing_recipes: tuple[Student, ...], *, records: Split, seed: int) -> Student:
    """Returns the recipe with the greatest mean average precision on private groups that it did not learn from.

    At most 12,000 records take part, and every fifth of their groups is held out. If no held-out record has a positive
    label, average precision is undefined and the first recipe is returned.
    """
    num_compared = min(len(records), _MAX_COMPARED)
    row_indices = np.linspace(0, len(records) - 1, num_compared).astype(np.int64)
    sampled_records = records.take(row_indices)
    is_held_out = np.isin(
        sampled_records.group_ids, np.unique(sampled_records.group_ids)[::_HELD_OUT_STEP]
    )
    held_out_records = sampled_records.take(np.flatnonzero(is_held_out))
    records_not_held_out = sampled_records.take(np.flatnonzero(~is_held_out))
    labeled_records_not_held_out = TrainingSet(
        np.asarray(records_not_held_out.inputs),
        labels=records_not_held_out.labels,
        known=records_not_held_out.known,
    )

    def private_held_out_precision(student_recipe: Student) -> float:
        """Trains a recipe on the groups not held out, and returns its mean average precision on those held out."""
        model = student_recipe.learn(
            labeled_records_not_held_out, pool=records_not_held_out.inputs[:0], seed=seed
        )
        probabilities = model.predict_proba(held_out_records.inputs)
        label_precisions = average_precisions(
            probabilities, true_labels=held_out_records.labels, known=held_out_records.known
        )
        return float(np.nanmean(label_precisions))

    if not held_out_records.labels.any():
        return competing_recipes[0]
    return max(competing_recipes, key=private_held_out_precision)
