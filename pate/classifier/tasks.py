"""Tasks: samples have several labels, words, or one class. A task encodes labels as bits `[n, L]`, and fits estimators.

`LabelModel` and `ClassModel` are the fitted estimators, of teachers and students alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from pate.accounting import Adjacency
from pate.aggregators import Aggregator, FixedTopK, GaussianVotes
from pate.models.sklearn import FittedLabels, seeded, stretched
from pate.validation import InvalidValue, require, require_entries

Bits = NDArray[np.bool_]
Rows = NDArray[np.float32]

_SETS = (set, frozenset, list, tuple)


class LabelModel(FittedLabels):
    """A teacher or student of labels, which returns bits, probabilities and confidences of each label, `[n, L]`."""

    predict_proba = FittedLabels.confidences

    def predict(self, inputs: Rows) -> Bits:
        """Returns the labels whose probability is at least a half."""
        return np.asarray(self.predict_proba(inputs) >= 0.5)

    def confidences(self, inputs: Rows) -> NDArray[Any]:
        """Returns a teacher's confidences; a confidence of at least a half is a vote for the label."""
        return stretched(self.predict_proba(inputs))


@dataclass(frozen=True, eq=False)
class ClassModel:
    """A teacher or student of classes, which one estimator predicts, with the methods of a `LabelModel`."""

    num_classes: int
    present: NDArray[np.int64]  # the classes that occurred in training, by their numbers
    model: Any  # the fitted estimator; None if fewer than two classes occurred

    def predict(self, inputs: Rows) -> Bits:
        """Predicts one class for each sample, bool `[n, C]`.

        Without a model the class is the only one that occurred in training, or the first one.
        """
        if self.model is not None:
            codes = np.asarray(self.model.predict(inputs))
        else:
            codes = np.full(len(inputs), self.present[0] if len(self.present) else 0)
        rule = f"({len(inputs)},)"
        require(codes.shape == (len(inputs),), "predictions.shape", codes.shape, rule)
        return np.asarray(codes[:, None] == np.arange(self.num_classes))

    def predict_proba(self, inputs: Rows) -> NDArray[np.float64]:
        """Predicts the probability of each class, `[n, C]`; equal for all if none occurred in training."""
        if not len(self.present):
            return np.full((len(inputs), self.num_classes), 1 / self.num_classes)
        probabilities = np.zeros((len(inputs), self.num_classes))
        certain = self.model is None
        probabilities[:, self.present] = 1.0 if certain else self.model.predict_proba(inputs)
        return probabilities

    def confidences(self, inputs: Rows) -> NDArray[np.float32]:
        """Returns a teacher's confidences, `[n, C]`: 1 for the class that it votes for, 0 for others."""
        return self.predict(inputs).astype(np.float32)


Model = LabelModel | ClassModel


class Task:
    """A task of any number of labels per sample: fits estimators to bits `[n, L]`, and decodes predictions."""

    def __init__(self, count: int) -> None:
        self.classes: Any = [np.arange(2) for _ in range(count)]  # scikit-learn's `classes_`

    @property
    def num_labels(self) -> int:
        """The number of labels, or of classes."""
        return len(self.classes)

    def default_aggregator(self, adjacency: Adjacency) -> Aggregator:
        """Returns the aggregator that is used if none is chosen; its noise is still to be solved for."""
        # every label's noisy majority also serves few teachers that disagree
        return GaussianVotes(noise_std=1.0, adjacency=adjacency)

    def usable(self, labels: Bits) -> Bits:
        """Marks the answers `[n, L]` that a student can learn from, `[n]`."""
        return np.ones(len(labels), dtype=np.bool_)

    def fit(self, estimator: Any, inputs: Rows, bits: Bits, *, seed: int) -> Model:
        """Fits one model for each label, or one for all if the estimator takes several targets."""
        if not len(inputs):
            return LabelModel(np.zeros(self.num_labels), np.arange(0), [])
        return LabelModel.fit(estimator, inputs, bits, seed)

    def decode(self, bits: Bits) -> Any:
        """Returns predictions in the form of the labels of the fit."""
        return bits.astype(np.int64)


class LabelSets(Task):
    """A task of a set of words for each sample; `classes` are all words, in ascending order."""

    def __init__(self, words: Iterable[str]) -> None:
        self.classes = np.array(sorted(set(words)))
        self._binarizer = MultiLabelBinarizer(classes=self.classes.tolist()).fit([])

    @classmethod
    def from_labels(cls, y: Any, classes: Any) -> LabelSets | None:
        """Returns the task for y; None unless y is a list of sets, lists or tuples of words."""
        if isinstance(y, str) or not hasattr(y, "__len__") or getattr(y, "ndim", 1) != 1:
            return None
        rule = "sets of words, one word a label, or an array [n, num_labels] of 0 and 1"
        strange = [
            isinstance(row, (set, frozenset)) and not all(isinstance(word, str) for word in row)
            for row in y
        ]
        require(not any(strange), "y", "sets of other values", rule)
        are_sets = [
            isinstance(row, _SETS) and all(isinstance(word, str) for word in row) for row in y
        ]
        if not any(is_set and row for is_set, row in zip(are_sets, y, strict=True)):
            return None  # no set, or none with a word in it
        require_entries("y", np.array(are_sets), "a set of words, as other records have")
        require(not isinstance(classes, str), "classes", classes, "a list of all words")
        return cls(chain.from_iterable(y) if classes is None else map(str, classes))

    def encode(self, y: Any) -> NDArray[np.int64]:
        """Returns sets as 0 and 1 `[n, L]`; raises `InvalidValue` for a word that is not among the classes."""
        words = set(self.classes.tolist())
        are_classes = np.array([words.issuperset(row) for row in y])
        require_entries("y", are_classes, "words among the classes that were given")
        return np.asarray(self._binarizer.transform(y), np.int64)

    def decode(self, bits: Bits) -> Any:
        """Returns predictions as tuples of words."""
        return self._binarizer.inverse_transform(bits.astype(np.int64))


class OneClass(Task):
    """A task of one class for each sample, with names in ascending order; a teacher votes for one class."""

    def __init__(self, names: NDArray[Any]) -> None:
        self.classes = names

    def default_aggregator(self, adjacency: Adjacency) -> FixedTopK:
        """Returns the aggregator that is used if none is chosen, a top-1; its noise is still to be solved for."""
        # the exponential mechanism: surer than GNMax if votes are close, and it needs no promise about teachers
        return FixedTopK(k=1, epsilon=1.0, adjacency=adjacency)

    def usable(self, labels: Bits) -> Bits:
        """Marks the answers `[n, C]` that name one class."""
        # an aggregator for many labels may name none or several
        return np.asarray(labels.sum(axis=1) == 1)

    def fit(self, estimator: Any, inputs: Rows, bits: Bits, *, seed: int) -> ClassModel:
        """Fits the estimator to the classes that occur; a single one is repeated."""
        codes = bits.argmax(axis=1)
        present = np.unique(codes)
        model = seeded(estimator, seed).fit(inputs, codes) if len(present) > 1 else None
        return ClassModel(num_classes=self.num_labels, present=present, model=model)

    def decode(self, bits: Bits) -> NDArray[Any]:
        """Returns predictions as names of classes."""
        return np.asarray(self.classes[bits.argmax(axis=1)])


def task_of(y: NDArray[Any], classes: Any) -> tuple[Task, Bits]:
    """Returns the task of labels, and the labels as bits `[n, L]`.

    Args:
        y: classes `[n]`, or 0 and 1 `[n, L]`.
        classes: all classes; None if those that occur in y are all.

    Raises:
        InvalidValue: labels of several kinds, of another form, or not among the classes.
    """
    if y.dtype.kind == "O":
        try:
            np.unique(y.ravel())  # sorts labels; numbers and words have no common order
        except TypeError as error:
            rule = "labels of one kind, numbers or words, none missing"
            raise InvalidValue("y.dtype", "object", rule=rule) from error
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y")
    if kind == "multilabel-indicator":
        require(classes is None, "classes", classes, "None where y has a column for each label")
        require_entries("y", np.isin(y, (0, 1)), "0 and 1 where y has a column for each label")
        return Task(y.shape[1]), y.astype(np.bool_)
    if kind not in ("binary", "multiclass"):
        words = "; (y == 'yes').astype(int) makes them of words" if y.dtype.kind in "OUST" else ""
        raise InvalidValue("y", kind, rule=f"classes [n], or 0 and 1 [n, num_labels]{words}")
    vector = column_or_1d(y, warn=True)
    names = np.unique(vector if classes is None else np.asarray(classes))
    require(len(names) > 1, "len(classes)", len(names), f"at least two, found {len(names)} class")
    require_entries("y", np.isin(vector, names), "one of the classes that were given")
    return OneClass(names), vector[:, None] == names


def require_labels(y: Any) -> None:
    """Raises `InvalidValue` if a label of a DataFrame, a Series, an array or a list is None, NaN, NaT or pandas.NA."""
    if hasattr(y, "isna"):
        missing = np.asarray(y.isna(), np.bool_)
    elif isinstance(y, np.ndarray) and y.dtype.kind == "O":
        missing = np.array([is_missing(label) for label in y.flat], np.bool_).reshape(y.shape)
    elif isinstance(y, list):
        missing = np.array([is_missing(label) for label in y], np.bool_)
    else:
        return
    require_entries("y", ~missing, "a label for each record, none missing")


def is_missing(value: Any) -> bool:
    """Returns whether a value is None, NaN, NaT or pandas.NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    # pandas.NA is neither equal nor unequal; arrays are compared entry by entry
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"
