"""The kinds of labels that a fit accepts: several labels as 0 and 1, sets of words, or one class for each sample.

A task converts labels to bits `[num_samples, num_labels]` and back, and fits estimators. `LabelModel` and `ClassModel`
are the fitted estimators, of teachers and students alike.
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
from pate.array_types import BoolArray, Float32Array, FloatArray, IntArray
from pate.models.sklearn import FittedLabels, seeded, stretched
from pate.models.student_model import Predictor, class_probabilities, most_probable
from pate.validation import InvalidValue, require, require_entries

_SETS = (set, frozenset, list, tuple)


class LabelModel(FittedLabels):
    """A fitted teacher or student that predicts several labels.

    Its methods return arrays `[num_samples, num_labels]`.
    """

    predict_proba = FittedLabels.confidences

    def predict(self, inputs: Float32Array) -> BoolArray:
        """Returns True for each label whose probability is at least 0.5, bool `[num_samples, num_labels]`."""
        return np.asarray(self.predict_proba(inputs) >= 0.5)

    def confidences(self, inputs: Float32Array) -> NDArray[Any]:
        """Returns the confidences of a teacher, `[num_samples, num_labels]`; it votes for a label from 0.5 on."""
        return stretched(self.predict_proba(inputs))


@dataclass(frozen=True, eq=False)
class ClassModel:
    """A fitted teacher or student that predicts one class, with the methods of a `LabelModel`."""

    num_classes: int
    present: IntArray  # the classes that occurred in training, by their numbers
    model: Any  # the fitted estimator; None if fewer than two classes occurred

    def predict(self, inputs: Float32Array) -> BoolArray:
        """Returns the predicted class of each sample, bool `[num_samples, num_classes]`.

        If there was at most one class in training, no estimator was fitted. That class is predicted, or the first
        class.
        """
        if self.model is not None:
            codes = np.asarray(self.model.predict(inputs))
        else:
            codes = np.full(len(inputs), self.present[0] if len(self.present) else 0)
        rule = f"({len(inputs)},)"
        require(codes.shape == (len(inputs),), "predictions.shape", codes.shape, rule)
        return np.asarray(codes[:, None] == np.arange(self.num_classes))

    def predict_proba(self, inputs: Float32Array) -> FloatArray:
        """Returns the probability of each class, `[num_samples, num_classes]`; all equal if training had no class."""
        if not len(self.present):
            return np.full((len(inputs), self.num_classes), 1 / self.num_classes)
        probabilities = np.zeros((len(inputs), self.num_classes))
        certain = self.model is None
        probabilities[:, self.present] = 1.0 if certain else self.model.predict_proba(inputs)
        return probabilities

    def confidences(self, inputs: Float32Array) -> Float32Array:
        """Returns the votes of a teacher, `[num_samples, num_classes]`: 1 for the predicted class, otherwise 0."""
        return self.predict(inputs).astype(np.float32)


@dataclass(frozen=True, eq=False)
class OneClassModel:
    """A student of labels that predicts one class: the label of the greatest probability."""

    model: Predictor

    def predict(self, inputs: Float32Array) -> BoolArray:
        """Returns the predicted class of each sample, bool `[num_samples, num_classes]`."""
        return most_probable(self.predict_proba(inputs))

    def predict_proba(self, inputs: Float32Array) -> FloatArray:
        """Returns the probability of each class, `[num_samples, num_classes]`, with sum 1 for each sample."""
        return class_probabilities(self.model.predict_proba(inputs))


Model = Predictor
"""A fitted teacher or student: `LabelModel` and `ClassModel` of estimators, or a model that a run trains as well."""


class Task:
    """A task in which a sample has any number of labels, given as 0 and 1.

    Subclasses are tasks with labels of another form.
    """

    def __init__(self, count: int) -> None:
        self.classes: Any = [np.arange(2) for _ in range(count)]  # scikit-learn's `classes_`

    @property
    def num_labels(self) -> int:
        """The number of labels, or of classes."""
        return len(self.classes)

    @property
    def reads_classes(self) -> bool:
        """False: y has a column for each label, so no value of y decides which labels there are."""
        return False

    @property
    def names_reveal_labels(self) -> bool:
        """Whether the names of classes, if read from y, may reveal a private label; the names yes and no do not."""
        return self.reads_classes

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels, which are numbered."""
        return tuple(f"label_{number}" for number in range(self.num_labels))

    def default_aggregator(self, adjacency: Adjacency) -> Aggregator:
        """Returns the aggregator that is used if the user passes none; its noise is solved for later."""
        # every label's noisy majority also serves few teachers that disagree
        return GaussianVotes(noise_std=1.0, adjacency=adjacency)

    def usable(self, labels: BoolArray) -> BoolArray:
        """Returns True for each answer that a student can learn from, bool `[num_queries]`.

        Args:
            labels: the released labels, bool `[num_queries, num_labels]`.
        """
        return np.ones(len(labels), dtype=np.bool_)

    def fit(
        self, estimator: Any, inputs: Float32Array, bits: BoolArray, *, seed: int
    ) -> LabelModel | ClassModel:
        """Fits an estimator for each label, or a single estimator if it accepts several targets.

        Args:
            estimator: the unfitted estimator, which is cloned.
            inputs: the inputs, `[num_samples, num_features]`.
            bits: the labels, bool `[num_samples, num_labels]`.
            seed: the value of every `random_state`.
        """
        if not len(inputs):
            return LabelModel(np.zeros(self.num_labels), np.arange(0), [])
        return LabelModel.fit(estimator, inputs, bits, seed)

    def decode(self, bits: BoolArray) -> Any:
        """Returns predictions in the form of the labels that were passed to the fit."""
        return bits.astype(np.int64)


class LabelSets(Task):
    """A task in which each sample has a set of words; `classes` are all words, in ascending order."""

    def __init__(self, words: Iterable[str]) -> None:
        self.classes = np.array(sorted(set(words)))
        self._binarizer = MultiLabelBinarizer(classes=self.classes.tolist()).fit([])

    @classmethod
    def from_labels(cls, y: Any, classes: Any) -> LabelSets | None:
        """Returns the task for `y`; None unless `y` is a list of sets, lists or tuples of words, not all empty."""
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

    @property
    def reads_classes(self) -> bool:
        """True: if the user passes no classes, they are the words that occur in y."""
        return True

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels, which are the words."""
        return tuple(self.classes.tolist())

    def encode(self, y: Any) -> IntArray:
        """Returns sets of words as 0 and 1, `[num_samples, num_labels]`; raises `InvalidValue` for an unknown word."""
        words = set(self.classes.tolist())
        are_classes = np.array([words.issuperset(row) for row in y])
        require_entries("y", are_classes, "words among the classes that were given")
        return np.asarray(self._binarizer.transform(y), np.int64)

    def decode(self, bits: BoolArray) -> Any:
        """Returns the predictions as a tuple of words for each sample."""
        return self._binarizer.inverse_transform(bits.astype(np.int64))


class OneClass(Task):
    """A task in which each sample has one class, and each teacher votes for one; class names are ascending."""

    def __init__(self, names: NDArray[Any]) -> None:
        self.classes = names

    @property
    def reads_classes(self) -> bool:
        """Whether values of y decide which classes there are, if the user passes none; bits are false or true."""
        return bool(self.classes.dtype.kind != "b")

    @property
    def names_reveal_labels(self) -> bool:
        """Whether the names of classes, if read from y, may reveal a private label; 0 and 1 do not."""
        return self.reads_classes and self.classes.tolist() != [0, 1]

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the classes as text."""
        return tuple(map(str, self.classes.tolist()))

    def default_aggregator(self, adjacency: Adjacency) -> FixedTopK:
        """Returns the default aggregator: `FixedTopK` with k = 1, whose noise is solved for later."""
        # the exponential mechanism: surer than GNMax if votes are close, and it needs no promise about teachers
        return FixedTopK(k=1, epsilon=1.0, adjacency=adjacency)

    def usable(self, labels: BoolArray) -> BoolArray:
        """Returns True for each answer that has exactly one class, bool `[num_queries]`."""
        # an aggregator for many labels may name none or several
        return np.asarray(labels.sum(axis=1) == 1)

    def fit(
        self, estimator: Any, inputs: Float32Array, bits: BoolArray, *, seed: int
    ) -> ClassModel:
        """Fits the estimator to the classes that occur; if only one class occurs, that class is always predicted."""
        codes = bits.argmax(axis=1)
        present = np.unique(codes)
        model = seeded(estimator, seed).fit(inputs, codes) if len(present) > 1 else None
        return ClassModel(num_classes=self.num_labels, present=present, model=model)

    def decode(self, bits: BoolArray) -> NDArray[Any]:
        """Returns the predictions as names of classes, `[num_samples]`."""
        return np.asarray(self.classes[bits.argmax(axis=1)])


def task_of(y: NDArray[Any], classes: Any) -> tuple[Task, BoolArray]:
    """Returns the task for labels `y`, and `y` as bits `[num_samples, num_labels]`.

    Args:
        y: the labels: classes `[num_samples]`, or 0 and 1 `[num_samples, num_labels]`.
        classes: all classes; None if all classes occur in `y`.

    Raises:
        InvalidValue: the labels are of several kinds, have another form, or are not among the classes.
    """
    if y.dtype.kind == "O":
        y = _typed(y)
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
        return Task(count=y.shape[1]), y.astype(np.bool_)
    if kind not in ("binary", "multiclass"):
        words = "; (y == 'yes').astype(int) makes them of words" if y.dtype.kind in "OUST" else ""
        raise InvalidValue("y", kind, rule=f"classes [n], or 0 and 1 [n, num_labels]{words}")
    vector = column_or_1d(y, warn=True)
    names = np.unique(vector if classes is None else np.asarray(classes))
    if classes is None and vector.dtype.kind == "b":
        names = np.array([False, True])
    if classes is None:
        names = _whole_numbers_as_integers(names)
    require(len(names) > 1, "len(classes)", len(names), f"at least two, found {len(names)} class")
    require_entries("y", np.isin(vector, names), "one of the classes that were given")
    return OneClass(names), vector[:, None] == names


def _whole_numbers_as_integers(names: NDArray[Any]) -> NDArray[Any]:
    """Returns classes that are whole numbers as integers, whether y has them as 1 or as 1.0; other classes unchanged.

    So one private label of another type changes no name of a class.
    """
    if names.dtype.kind != "f":
        return names
    is_exact = bool(((names == np.round(names)) & (np.abs(names) < 2**53)).all())
    return names.astype(np.int64) if is_exact else names


def _typed(labels: NDArray[Any]) -> NDArray[Any]:
    """Returns an array of objects as an array of bool or of numbers, if all entries are; otherwise unchanged."""
    kinds = {isinstance(label, (bool, np.bool_)) for label in labels.flat}
    are_numbers = all(isinstance(label, (int, float, np.number, np.bool_)) for label in labels.flat)
    is_one_kind = are_numbers and len(kinds) == 1
    return np.array(labels.tolist()) if is_one_kind else labels


def without_gaps(y: Any) -> tuple[Any, BoolArray | None]:
    """Returns labels `[n, num_labels]` with 0 where they are missing, and which ones are known, bool `[n, num_labels]`.

    Missing are NaN, None and pandas.NA in arrays, DataFrames and lists of rows, and masked entries of a masked array.
    Labels without gaps that are no masked array, anything but two or more columns, and entries that are no numbers are
    returned unchanged, with None. It is public that labels have gaps, but not which ones.

    Args:
        y: the labels as the user passes them.
    """
    is_masked = isinstance(y, np.ma.MaskedArray)
    rows = y.to_numpy(object) if hasattr(y, "isna") and hasattr(y, "columns") else y
    if isinstance(y, list) and y and isinstance(y[0], (list, tuple, np.ndarray)):
        try:
            rows = np.array(y)
        except ValueError:  # rows of several lengths
            return y, None
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.shape[1] < 2:
        return y, None
    may_hold_nan = rows.dtype.kind in ("f", "O")
    if not (may_hold_nan or is_masked):
        return y, None
    cells = np.ma.getdata(rows)
    is_missing = np.ma.getmaskarray(rows).copy()
    if cells.dtype.kind == "f":
        is_missing |= np.isnan(cells)
    elif cells.dtype.kind == "O":
        missing_cells = [is_missing_label(cell) for cell in cells.flat]
        is_missing |= np.array(missing_cells, np.bool_).reshape(cells.shape)
    if not is_missing.any() and not is_masked:
        return y, None
    filled = cells.copy()
    filled[is_missing] = 0
    try:
        numbers = filled.astype(np.float64)
    except (TypeError, ValueError):  # words, which are refused later
        return y, None
    return numbers, ~is_missing


def require_labels(y: Any) -> None:
    """Raises `InvalidValue` if a label is missing: None, NaN, NaT or pandas.NA.

    `y` may be a DataFrame, a Series, an array or a list.
    """
    if hasattr(y, "isna"):
        missing = np.asarray(y.isna(), np.bool_)
    elif isinstance(y, np.ndarray) and y.dtype.kind == "O":
        missing = np.array([is_missing_label(label) for label in y.flat], np.bool_).reshape(y.shape)
    elif isinstance(y, list):
        missing = np.array([is_missing_label(label) for label in y], np.bool_)
    else:
        return
    require_entries("y", ~missing, "a label for each record, none missing")


def is_missing_label(value: Any) -> bool:
    """Returns True if a value is None, NaN, NaT or pandas.NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    # pandas.NA is neither equal nor unequal; arrays are compared entry by entry
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"
