"""What is predicted: several labels per sample, or one class; both as bits `[n, L]`."""

from __future__ import annotations

from collections.abc import Iterable
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


class LabelModel:
    """A teacher or a student of labels: bits, probabilities and confidences of each, `[n, L]`."""

    def __init__(self, fitted: FittedLabels) -> None:
        self.fitted = fitted

    def predict(self, inputs: Rows) -> Bits:
        return np.asarray(self.fitted.confidences(inputs) >= 0.5)

    def predict_proba(self, inputs: Rows) -> NDArray[np.float64]:
        return self.fitted.confidences(inputs)

    def confidences(self, inputs: Rows) -> NDArray[np.float32]:
        """As a teacher's: a vote is a confidence of at least a half."""
        return stretched(self.fitted.confidences(inputs))


class ClassModel:
    """The same of classes, by one model for all; none where fewer than two occurred, which are `present`."""

    def __init__(self, num_classes: int, present: NDArray[np.int64], model: Any) -> None:
        self.num_classes, self.present, self.model = num_classes, present, model

    def predict(self, inputs: Rows) -> Bits:
        first = self.present[0] if len(self.present) else 0
        codes = np.full(len(inputs), first) if self.model is None else np.asarray(self.model.predict(inputs))
        require(codes.shape == (len(inputs),), "predictions.shape", codes.shape, f"({len(inputs)},)")
        return np.asarray(codes[:, None] == np.arange(self.num_classes))

    def predict_proba(self, inputs: Rows) -> NDArray[np.float64]:
        if not len(self.present):
            return np.full((len(inputs), self.num_classes), 1 / self.num_classes)
        probabilities = np.zeros((len(inputs), self.num_classes))
        probabilities[:, self.present] = 1.0 if self.model is None else self.model.predict_proba(inputs)
        return probabilities

    def confidences(self, inputs: Rows) -> NDArray[np.float32]:
        return self.predict(inputs).astype(np.float32)


class Task:
    """Any number of labels per sample, 0 and 1 for each: as bits and back, and how an estimator is fitted to them.

    `classes` are scikit-learn's `classes_`.
    """

    def __init__(self, count: int) -> None:
        self.classes: Any = [np.arange(2) for _ in range(count)]

    @property
    def num_labels(self) -> int:
        """L: labels, or classes."""
        return len(self.classes)

    def default_aggregator(self, adjacency: Adjacency) -> Aggregator:
        """What is used where nothing is chosen; its noise is still to be solved for."""
        # every label's noisy majority also serves where teachers are few and disagree
        return GaussianVotes(noise_std=1.0, adjacency=adjacency)

    def usable(self, labels: Bits) -> Bits:
        """The answers `[n, L]` that a student can learn from, `[n]`."""
        return np.ones(len(labels), dtype=np.bool_)

    def fit(self, estimator: Any, inputs: Rows, bits: Bits, *, seed: int) -> LabelModel | ClassModel:
        """One model for each label, or one for all where the estimator takes several targets."""
        if not len(inputs):
            return LabelModel(FittedLabels(np.zeros(self.num_labels), np.arange(0), []))
        return LabelModel(FittedLabels.fit(estimator, inputs, bits, seed))

    def decode(self, bits: Bits) -> Any:
        """Predictions in the form of the labels that were given."""
        return bits.astype(np.int64)


class LabelSets(Task):
    """A set of words for each sample; `classes` are all words, in ascending order."""

    def __init__(self, words: Iterable[str]) -> None:
        self.classes = np.array(sorted(set(words)))
        self._binarizer = MultiLabelBinarizer(classes=self.classes.tolist()).fit([])

    @classmethod
    def of(cls, y: Any, classes: Any) -> LabelSets | None:
        """The task for y; None where it is no list of sets, lists or tuples of words."""
        if isinstance(y, str) or not hasattr(y, "__len__") or getattr(y, "ndim", 1) != 1 or not len(y):
            return None
        rows = list(y)
        are_sets = [isinstance(row, _SETS) and all(isinstance(word, str) for word in row) for row in rows]
        if not any(are_sets) or not any(rows[place] for place, each in enumerate(are_sets) if each):
            return None
        require_entries("y", np.array(are_sets), "a set of words, as other records have")
        require(not isinstance(classes, str), "classes", classes, "a list of all words")
        return cls(chain.from_iterable(rows) if classes is None else map(str, classes))

    def encode(self, y: Any) -> NDArray[np.int64]:
        """Sets as 0 and 1 `[n, L]`; raises for a word that is not among the classes."""
        known = set(self.classes.tolist())
        require_entries("y", np.array([known.issuperset(row) for row in y]), "words among the classes that were given")
        return np.asarray(self._binarizer.transform(y), np.int64)

    def decode(self, bits: Bits) -> Any:
        return self._binarizer.inverse_transform(bits.astype(np.int64))


class OneClass(Task):
    """One class a sample, of names in ascending order; a teacher votes for one."""

    def __init__(self, names: NDArray[Any]) -> None:
        self.classes = names

    def default_aggregator(self, adjacency: Adjacency) -> FixedTopK:
        # the exponential mechanism: surer than GNMax where votes are close, and it needs no promise about teachers
        return FixedTopK(k=1, epsilon=1.0, adjacency=adjacency)

    def usable(self, labels: Bits) -> Bits:
        # an aggregator for many labels may name none or several
        return np.asarray(labels.sum(axis=1) == 1)

    def fit(self, estimator: Any, inputs: Rows, bits: Bits, *, seed: int) -> ClassModel:
        """The estimator on the classes that occur; where one occurs, it is repeated."""
        codes = bits.argmax(axis=1)
        present = np.unique(codes)
        model = seeded(estimator, seed).fit(inputs, codes) if len(present) > 1 else None
        return ClassModel(self.num_labels, present, model)

    def decode(self, bits: Bits) -> NDArray[Any]:
        return np.asarray(self.classes[bits.argmax(axis=1)])


def task_of(y: NDArray[Any], classes: Any) -> tuple[Task, Bits]:
    """The task that labels are for, and the labels as bits `[n, L]`; without `classes` those that occur are all."""
    if y.dtype.kind == "O":
        try:
            np.unique(y.ravel())  # puts labels in order, which numbers among words have none of
        except TypeError as error:
            raise InvalidValue("y.dtype=object: expected labels of one kind, numbers or words, none missing") from error
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y")
    if kind == "multilabel-indicator":
        require(classes is None, "classes", classes, "None where y has a column for each label")
        require_entries("y", np.isin(y, (0, 1)), "0 and 1 where y has a column for each label")
        return Task(y.shape[1]), y.astype(np.bool_)
    if kind not in ("binary", "multiclass"):
        words = "; (y == 'yes').astype(int) makes them of words" if y.dtype.kind in "OUST" else ""
        raise InvalidValue(f"y={kind}: expected classes [n], or 0 and 1 [n, num_labels]{words}")
    vector = column_or_1d(y, warn=True)
    known = np.unique(vector if classes is None else np.asarray(classes))
    require(len(known) > 1, "len(classes)", len(known), f"at least two, found {len(known)} class")
    require_entries("y", np.isin(vector, known), "one of the classes that were given")
    return OneClass(known), vector[:, None] == known
