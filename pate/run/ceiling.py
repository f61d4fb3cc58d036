"""The ceiling of a student: the best model of all private records and their true labels.

The distance from the student to its ceiling is what privacy and PATE cost together. No epsilon covers the ceiling.
"""

import numpy as np

from pate.aggregators import TrainingSet
from pate.data import Dataset, Split
from pate.models import LogisticStudent, MLPStudent, Student, StudentModel
from pate.report.metrics import average_precisions

_NETWORK = MLPStudent(hidden=128, folds=2, epochs=80, learning_rate=0.02)
# The most numbers of all private inputs together for which the network is tried: it takes long on more.
_MAX_NUMBERS = 2**24
# The most records that the recipes are compared on.
_MAX_COMPARED = 12_000
# One of so many private groups is held out while the recipes are compared.
_HELD_OUT_EVERY = 5


def ceilings(student: Student) -> tuple[Student, ...]:
    """Returns the recipes of which the best is the ceiling; a network is tried beside a linear model."""
    recipe = student.ceiling
    return (recipe, _NETWORK) if isinstance(recipe, LogisticStudent) else (recipe,)


def train_on_all_records(student: Student, dataset: Dataset, *, seed: int) -> StudentModel:
    """Trains the ceiling: the best recipe of `ceilings`, on every private record and its true labels.

    The recipes are compared by mean average precision on a fifth of the private groups, among 12,000 records at most.
    No test label takes part. Inputs of over 16 million numbers are left to the first recipe.
    """
    recipes = ceilings(student)
    private = dataset.private
    inputs = np.asarray(private.inputs)
    recipe = recipes[0]
    if len(recipes) > 1 and inputs.size <= _MAX_NUMBERS:
        recipe = _best_recipe(recipes, private, seed=seed)
    return recipe.learn(TrainingSet(inputs, private.labels), pool=inputs[:0], seed=seed)


def _best_recipe(recipes: tuple[Student, ...], private: Split, *, seed: int) -> Student:
    """Returns the recipe with the greatest mean average precision on held-out private groups.

    The first recipe comes back where no held-out record has a label, as no precision is defined then.
    """
    num_compared = min(len(private), _MAX_COMPARED)
    rows = np.linspace(0, len(private) - 1, num_compared).astype(np.int64)
    sample = private.take(rows)
    is_held_out = np.isin(sample.group_ids, np.unique(sample.group_ids)[::_HELD_OUT_EVERY])
    true_labels = sample.labels[is_held_out]

    def precision(recipe: Student) -> float:
        """Returns the mean average precision of a recipe over the labels."""
        model = recipe.fit(sample.inputs[~is_held_out], sample.labels[~is_held_out], seed=seed)
        probabilities = model.predict_proba(sample.inputs[is_held_out])
        return float(np.nanmean(average_precisions(probabilities, true_labels)))

    if not true_labels.any():
        return recipes[0]
    return max(recipes, key=precision)
