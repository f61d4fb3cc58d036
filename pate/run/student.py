"""What a student is compared with: a model of all private records, and models that anybody could train."""

import numpy as np

from pate.aggregators import TrainingSet
from pate.data import Dataset
from pate.report.metrics import Membership, average_precisions, label_losses, log_odds, unusual
from pate.student import LogisticStudent, MLPStudent, Student, StudentModel

_MOST_TRIED = 10_000
_NETWORK = MLPStudent(hidden=128, folds=2, epochs=80, learning_rate=0.02)
_MOST_NUMBERS = 2**24  # of private inputs
_MOST_CHOOSING = 12_000  # records
_EVERY = 5  # groups, one is held out
_REFERENCE = LogisticStudent(penalties=(1e-3,))
_REFERENCES = 8
_FEWEST_REFERRED = 100
_MOST_REFERRED = 2000
_MOST_WEIGHTS = 2**15


def ceilings(student: Student) -> tuple[Student, ...]:
    """The recipes of which the best is the ceiling: a network stands beside a linear model, which may not be it."""
    recipe = student.ceiling
    return (recipe, _NETWORK) if isinstance(recipe, LogisticStudent) else (recipe,)


def train_on_all_records(student: Student, dataset: Dataset, *, seed: int) -> StudentModel:
    """Trains the ceiling: the best recipe on every private record and its true labels.

    The best is that with the greatest mean average precision on a fifth of the private groups, of 12,000 records at
    most; no test label has a part in it. Inputs of over 16 million numbers are for the first recipe, as networks take
    long. No epsilon covers any of it. What privacy and PATE cost together is its distance to the student.
    """
    recipes = ceilings(student)
    private = dataset.private
    inputs = np.asarray(private.inputs)
    if len(recipes) > 1 and inputs.size <= _MOST_NUMBERS:
        some = private.take(
            np.linspace(0, len(private) - 1, min(len(private), _MOST_CHOOSING)).astype(np.int64)
        )
        held = np.isin(some.group_ids, np.unique(some.group_ids)[::_EVERY])
        true = some.labels[held]

        def precision(recipe: Student) -> float:
            model = recipe.fit(some.inputs[~held], some.labels[~held], seed=seed)
            return float(
                np.nanmean(average_precisions(model.predict_proba(some.inputs[held]), true))
            )

        if true.any():
            recipes = (max(recipes, key=precision),)
    return recipes[0].learn(TrainingSet(inputs, private.labels), pool=inputs[:0], seed=seed)


def membership(
    model: StudentModel, training: TrainingSet, dataset: Dataset, *, seed: int
) -> Membership | None:
    """What a student tells of who is private: at most 10,000 records of each split, one of each group."""
    splits = []
    for split in (dataset.private, dataset.test):  # in order, evenly: records of one group depend
        firsts = np.sort(np.unique(split.group_ids, return_index=True)[1])
        number = min(len(firsts), _MOST_TRIED)
        splits.append(split.take(firsts[np.arange(number) * len(firsts) // max(number, 1)]))
    said = [model.predict_proba(split.inputs) for split in splits]
    losses = [label_losses(each, split.labels) for each, split in zip(said, splits, strict=True)]
    # Models that anybody could train, each on half of some public records, where that is cheap: by the labels of the
    # public records, or those that were released where the pool has none.
    rows = training.inputs
    bits = training.labels
    if dataset.public_labeled:
        rows = dataset.public.inputs
        bits = dataset.public.labels
    few = len(rows) < _FEWEST_REFERRED or not all(map(len, splits))
    if few or dataset.kind != "features" or rows.shape[1] * bits.shape[1] > _MOST_WEIGHTS:
        return Membership.of(losses[0], losses[1])
    count = min(len(rows), _MOST_REFERRED)
    rng = np.random.default_rng(seed)
    halves = [rng.permutation(count)[: count // 2] for _ in range(_REFERENCES)]
    models = [_REFERENCE.fit(np.asarray(rows[half]), bits[half], seed=seed) for half in halves]
    labels = np.concatenate([split.labels for split in splits])
    usual = [
        np.concatenate([each.predict_proba(split.inputs) for split in splits]) for each in models
    ]
    odds = unusual(
        log_odds(np.concatenate(said), labels), np.stack([log_odds(each, labels) for each in usual])
    )
    private, test = np.split(odds, [len(splits[0])])
    return Membership.of(losses[0], losses[1], by_reference=(private, test))
