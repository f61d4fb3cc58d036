"""The student stage: a student learns from what was released, and from public samples that were not asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pate.aggregators import TrainingSet
from pate.data import Dataset, Split
from pate.models.student import OnEpoch
from pate.report.metrics import Membership, average_precisions, label_losses, log_odds, unusual
from pate.run.folder import Workplace
from pate.student import LogisticStudent, MLPStudent, Student, StudentModel

_MOST_TRIED = 10_000
_NETWORK = MLPStudent(hidden=128, folds=2, epochs=80, learning_rate=0.02)
_MOST_NUMBERS = 2**24  # of private inputs
_MOST_CHOOSING = 12_000  # records
_EVERY = 5  # groups, one is held out
_REFERENCE, _REFERENCES = LogisticStudent(penalties=(1e-3,)), 8
_FEWEST_REFERRED, _MOST_REFERRED, _MOST_WEIGHTS = 100, 2000, 2**15


@dataclass(frozen=True)
class Prediction:
    """What a model says of the test split: bits and probabilities, `[num_test, L]` each, and its threshold, if any."""

    labels: NDArray[np.bool_]
    probabilities: NDArray[np.floating]
    threshold: float | tuple[float, ...] | None = None

    @classmethod
    def of(cls, model: StudentModel, dataset: Dataset) -> Prediction:
        """What a student says."""
        inputs = dataset.test.inputs
        return cls(model.predict(inputs), model.predict_proba(inputs), model.threshold)


def _references(training: TrainingSet, dataset: Dataset, seed: int) -> list[StudentModel]:
    """Models that anybody could train, each on half of some public records; none where that is not cheap.

    By the labels of the public records, or those that were released where the pool has none.
    """
    rows, labels = training.inputs, training.labels
    if dataset.public_labeled:
        rows, labels = dataset.public.inputs, dataset.public.labels
    if dataset.kind != "features" or len(rows) < _FEWEST_REFERRED or rows.shape[1] * labels.shape[1] > _MOST_WEIGHTS:
        return []
    count, rng = min(len(rows), _MOST_REFERRED), np.random.default_rng(seed)
    halves = [rng.permutation(count)[: count // 2] for _ in range(_REFERENCES)]
    return [_REFERENCE.fit(np.asarray(rows[half]), labels[half], seed=seed) for half in halves]


def _tried(split: Split) -> NDArray[np.int64]:
    """Rows in order, evenly: groups are independent, records of one need not be."""
    firsts = np.sort(np.unique(split.group_ids, return_index=True)[1])
    number = min(len(firsts), _MOST_TRIED)
    return firsts[np.arange(number) * len(firsts) // max(number, 1)]


def train_student(
    student: Student,
    training: TrainingSet,
    dataset: Dataset,
    *,
    num_queries: int,
    seed: int,
    on_epoch: OnEpoch | None = None,
) -> StudentModel:
    """Trains a student, the one way for all commands.

    Args:
        student: the recipe.
        training: what was released.
        dataset: whose public samples behind the queries are the student's pool.
        num_queries: how many public samples were asked, answered or refused.
        seed: of the training.
        on_epoch: told the losses after each epoch.
    """
    pool = dataset.public.take(slice(num_queries, None)).inputs
    return student.learn(training, pool=pool, seed=seed, on_epoch=on_epoch)


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
    recipes, private = ceilings(student), dataset.private
    inputs = np.asarray(private.inputs)
    if len(recipes) > 1 and inputs.size <= _MOST_NUMBERS:
        recipes = (max(recipes, key=lambda recipe: _on_held_out(recipe, private, seed)),)
    return recipes[0].learn(TrainingSet(inputs, private.labels), pool=inputs[:0], seed=seed)


def _on_held_out(recipe: Student, private: Split, seed: int) -> float:
    """The mean average precision on a fifth of the groups, trained on others; 0 where no label is there."""
    rows = np.linspace(0, len(private) - 1, min(len(private), _MOST_CHOOSING)).astype(np.int64)
    some = private.take(rows)
    held = np.isin(some.group_ids, np.unique(some.group_ids)[::_EVERY])
    true = some.labels[held]
    if not true.any():
        return 0.0
    model = recipe.fit(some.inputs[~held], some.labels[~held], seed=seed)
    return float(np.nanmean(average_precisions(model.predict_proba(some.inputs[held]), true)))


@dataclass(frozen=True)
class Students:
    """The students of one run: all trained alike, and watched while they learn."""

    student: Student  # the recipe
    dataset: Dataset
    num_queries: int  # as in `train_student`
    place: Workplace  # where the run works
    curves: dict[str, list[Mapping[str, float]]] = field(default_factory=dict)  # of each epoch, by the student's name

    def train(self, name: str, training: TrainingSet) -> StudentModel:
        """Trains one under a name of report.json."""
        curve = self.curves[name] = []

        def on_epoch(epoch: int, values: dict[str, float]) -> None:
            curve.append(values)
            self.place.events.epoch(epoch, values, model=name)

        asked, seed = self.num_queries, self.place.randomness.seeds("student", 1)[0]
        with self.place.monitor.stage(f"training the {name.replace('_', ' ')}"):
            return train_student(self.student, training, self.dataset, num_queries=asked, seed=seed, on_epoch=on_epoch)

    def train_ceiling(self) -> StudentModel:
        """Trains the model of all private records, or reads it back."""
        folder, seed = self.place.folder.path / "all_records_model", self.place.randomness.seeds("student", 1)[0]
        if (folder / "student.json").exists():
            return StudentModel.load(folder)
        with self.place.monitor.stage("training the all-records model"):
            model = train_on_all_records(self.student, self.dataset, seed=seed)
        model.save(folder)
        return model

    def membership(self, model: StudentModel, training: TrainingSet) -> Membership | None:
        """What a student tells of who is private: at most 10,000 records of each split, one of each group."""
        splits = [split.take(_tried(split)) for split in (self.dataset.private, self.dataset.test)]
        said = [model.predict_proba(split.inputs) for split in splits]
        losses = [label_losses(each, split.labels) for each, split in zip(said, splits, strict=True)]
        models = _references(training, self.dataset, self.place.randomness.seeds("student", 1)[0])
        if not models or not all(map(len, splits)):
            return Membership.of(losses[0], losses[1])
        odds = np.concatenate([_odds(each, split) for each, split in zip(said, splits, strict=True)])
        usual = [
            np.concatenate([_odds(each.predict_proba(split.inputs), split) for split in splits]) for each in models
        ]
        private, test = np.split(unusual(odds, np.stack(usual)), [len(splits[0])])
        return Membership.of(losses[0], losses[1], by_reference=(private, test))


def _odds(said: NDArray[np.floating], split: Split) -> NDArray[np.float64]:
    return log_odds(said, split.labels)
