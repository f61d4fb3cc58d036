"""The kinds of labels that a fit accepts: several labels as 0 and 1, sets of words, or one class for each sample.

A task converts labels to bits `[num_samples, num_labels]` and back, and fits estimators to bits.
"""

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
from pate.array_types import BoolArray, Float32Array, IntArray
from pate.classifier.label_models import ClassModel, LabelModel
from pate.models.sklearn import clone_with_seed
from pate.validation import InvalidValue, require, require_entries

# The types of a record's words.
_SET_TYPES = (set, frozenset, list, tuple)
_WORD_SET_RULE = "a set of words, as other records have"


class Task:
    """A task in which a sample has any number of labels, given as 0 and 1.

    Subclasses are tasks with labels of another form.
    """

    def __init__(self, num_labels: int) -> None:
        # The value of scikit-learn's attribute `classes_`, which is 0 and 1 for each label.
        self.classes: Any = [np.arange(2) for _ in range(num_labels)]

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
        """Whether the names of classes, if read from y, may reveal a private label: true if `reads_classes` is."""
        return self.reads_classes

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels: label_0, label_1, …."""
        return tuple(f"label_{number}" for number in range(self.num_labels))

    def default_aggregator(self, adjacency: Adjacency) -> Aggregator:
        """Returns the aggregator for users who pass none, `GaussianVotes`; its noise is solved for later."""
        # A noisy majority for each label can be used even if there are few teachers and they disagree.
        return GaussianVotes(noise_std=1.0, adjacency=adjacency)

    def is_usable(self, labels: BoolArray) -> BoolArray:
        """Returns True for each query from whose released labels a student can learn, bool `[num_queries]`; here all.

        Args:
            labels: the released labels, bool `[num_queries, num_labels]`.
        """
        return np.ones(len(labels), dtype=np.bool_)

    def fit(
        self, estimator: Any, inputs: Float32Array, bits: BoolArray, *, seed: int
    ) -> LabelModel | ClassModel:
        """Fits an estimator for each label, or a single estimator if it accepts several targets.

        A label that all samples have, or none has, gets no estimator and is predicted as it is. Without samples, 0 is
        predicted for every label.

        Args:
            estimator: the unfitted estimator, which is cloned.
            inputs: the inputs, `[num_samples, num_features]`.
            bits: the labels, bool `[num_samples, num_labels]`.
            seed: the value of every `random_state`.
        """
        if not len(inputs):
            return LabelModel(
                first_labels=np.zeros(self.num_labels), varying=np.arange(0), models=[]
            )
        return LabelModel.fit(estimator, inputs=inputs, labels=bits, seed=seed)

    def decode(self, bits: BoolArray) -> Any:
        """Returns predictions in the form of the labels that were passed to the fit: here, 0 and 1 for each label.

        Args:
            bits: the predicted labels, bool `[num_samples, num_labels]`.
        """
        return bits.astype(np.int64)


class LabelSets(Task):
    """A task in which each sample has a set of words; `classes` are all words, in ascending order."""

    def __init__(self, words: Iterable[str]) -> None:
        self.classes = np.array(sorted(set(words)))
        self._binarizer = MultiLabelBinarizer(classes=self.classes.tolist()).fit([])

    @classmethod
    def from_labels(cls, y: Any, classes: Any) -> LabelSets | None:
        """Returns the task for `y`; None unless its entries are sets, lists or tuples of words, not all empty.

        Args:
            y: the labels as the user passes them.
            classes: all words; None takes those that occur in `y`.

        Raises:
            InvalidValue: a set holds other values than words, or only some entries of `y` are sets of words; or
                `classes` is a text.
        """
        if isinstance(y, str) or not hasattr(y, "__len__") or getattr(y, "ndim", 1) != 1:
            return None
        for label_set in y:
            if isinstance(label_set, (set, frozenset)) and not _holds_words(label_set):
                rule = "sets of words, one word a label, or an array [n, num_labels] of 0 and 1"
                raise InvalidValue("y", "sets of other values", rule=rule)
        is_set = [_is_word_set(label_set) for label_set in y]
        num_words = sum(
            len(label_set) for label_set, row_is_set in zip(y, is_set, strict=True) if row_is_set
        )
        if num_words == 0:
            return None
        require_entries("y", np.array(is_set), rule=_WORD_SET_RULE)
        require(not isinstance(classes, str), "classes", classes, "a list of all words")
        return cls(chain.from_iterable(y) if classes is None else map(str, classes))

    @property
    def reads_classes(self) -> bool:
        """True: if the user passes no classes, they are the words that occur in y."""
        return True

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels: the words that the label sets consist of."""
        return tuple(self.classes.tolist())

    def encode(self, word_sets: Any) -> IntArray:
        """Returns sets of words as 0 and 1, `[num_samples, num_labels]`.

        Raises:
            InvalidValue: an entry is no set of words, or a word is unknown.
        """
        are_word_sets = np.array([_is_word_set(label_set) for label_set in word_sets], np.bool_)
        require_entries("y", are_word_sets, rule=_WORD_SET_RULE)
        words = set(self.classes.tolist())
        has_known_words = np.array([words.issuperset(label_set) for label_set in word_sets])
        require_entries("y", has_known_words, rule="words among the classes that were given")
        return np.asarray(self._binarizer.transform(word_sets), np.int64)

    def decode(self, bits: BoolArray) -> Any:
        """Returns the predictions as a tuple of words for each sample, from bits `[num_samples, num_labels]`."""
        return self._binarizer.inverse_transform(bits.astype(np.int64))


def _is_word_set(label_set: Any) -> bool:
    """Returns True for a set, list or tuple of words."""
    return isinstance(label_set, _SET_TYPES) and _holds_words(label_set)


def _holds_words(label_set: Any) -> bool:
    """Returns True if all entries of a set or list are words, that is, of the type `str`."""
    return all(isinstance(word, str) for word in label_set)


class OneClass(Task):
    """A task in which each sample has one class; an estimator votes for one. `classes` are ascending."""

    def __init__(self, class_names: NDArray[Any]) -> None:
        self.classes = class_names

    @property
    def reads_classes(self) -> bool:
        """Whether values of y decide which classes there are, if the user passes none.

        False if the classes are False and True, as truth values have no others.
        """
        return bool(self.classes.dtype.kind != "b")

    @property
    def names_reveal_labels(self) -> bool:
        """Whether the names of classes, if read from y, may reveal a private label.

        The classes 0 and 1, or False and True, reveal none.
        """
        return self.reads_classes and self.classes.tolist() != [0, 1]

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the classes as text."""
        return tuple(map(str, self.classes.tolist()))

    def default_aggregator(self, adjacency: Adjacency) -> FixedTopK:
        """Returns the default aggregator: `FixedTopK` with k = 1, whose noise is solved for later."""
        # At one price the exponential mechanism is more often right than GNMax for a few queries, and less often for
        # hundreds. With 600 queries, 10 classes and 100 teachers at epsilon 8, a class with 55 votes beside nine with 5
        # each is named in 72% of the queries, and by GNMax in 86%.
        return FixedTopK(k=1, epsilon=1.0, adjacency=adjacency)

    def is_usable(self, labels: BoolArray) -> BoolArray:
        """Returns True for each query whose released labels are exactly one class, bool `[num_queries]`."""
        # An aggregator for many labels may release no class or several classes for a query.
        return np.asarray(labels.sum(axis=1) == 1)

    def fit(
        self, estimator: Any, inputs: Float32Array, bits: BoolArray, *, seed: int
    ) -> ClassModel:
        """Fits a clone of an estimator to the classes that occur; if only one occurs, it is always predicted.

        Args:
            estimator: the unfitted estimator, which is cloned.
            inputs: the inputs, `[num_samples, num_features]`.
            bits: the class of each sample, bool `[num_samples, num_classes]`, true once in each row.
            seed: the value of every `random_state`.
        """
        indices_among_all_classes = bits.argmax(axis=1)
        present_classes = np.unique(indices_among_all_classes)
        model = (
            clone_with_seed(estimator, seed=seed).fit(inputs, indices_among_all_classes)
            if len(present_classes) > 1
            else None
        )
        return ClassModel(num_classes=self.num_labels, present_classes=present_classes, model=model)

    def decode(self, bits: BoolArray) -> NDArray[Any]:
        """Returns the predictions as classes, `[num_samples]`, from bits `[num_samples, num_classes]`."""
        return np.asarray(self.classes[bits.argmax(axis=1)])


def task_of(y: NDArray[Any], classes: Any) -> tuple[Task, BoolArray]:
    """Returns the task for labels `y`, and `y` as bits `[num_samples, num_labels]`.

    Args:
        y: the labels: classes `[num_samples]`, or 0 and 1 `[num_samples, num_labels]`.
        classes: all classes; None takes those that occur in `y`.

    Raises:
        InvalidValue: the labels are numbers beside words, have another form, or are not among the classes; or there are
            fewer than two classes; or `classes` are passed for labels with columns.
        ValueError: scikit-learn finds that `y` has NaN, or fractions as in regression.
    """
    if y.dtype.kind == "O":
        y = _typed(y)
        try:
            np.unique(y.ravel())  # sorts labels; numbers and words have no common order
        except TypeError as error:
            rule = "labels of one kind, numbers or words, none missing"
            raise InvalidValue("y.dtype", "object", rule=rule) from error
    check_classification_targets(y)
    target_type = type_of_target(y, input_name="y")
    if target_type == "multilabel-indicator":
        require(classes is None, "classes", classes, "None where y has a column for each label")
        require_entries("y", np.isin(y, (0, 1)), rule="0 and 1 where y has a column for each label")
        return Task(num_labels=y.shape[1]), y.astype(np.bool_)
    if target_type not in ("binary", "multiclass"):
        rule = "classes [n], or 0 and 1 [n, num_labels]"
        if y.dtype.kind in "OUST":
            rule += "; (y == 'yes').astype(int) makes them of words"
        raise InvalidValue("y", target_type, rule=rule)
    class_of_sample = column_or_1d(y, warn=True)
    class_names = (
        _class_names(class_of_sample) if classes is None else np.unique(np.asarray(classes))
    )
    require(
        len(class_names) > 1,
        "len(classes)",
        len(class_names),
        f"at least two, found {len(class_names)} class",
    )
    require_entries(
        "y", np.isin(class_of_sample, class_names), rule="one of the classes that were given"
    )
    return OneClass(class_names), class_of_sample[:, None] == class_names


def _class_names(y: NDArray[Any]) -> NDArray[Any]:
    """Returns the classes that occur in `y`, ascending; for truth values always False and True."""
    if y.dtype.kind == "b":
        return np.array([False, True])
    return _whole_numbers_as_integers(np.unique(y))


def _whole_numbers_as_integers(class_names: NDArray[Any]) -> NDArray[Any]:
    """Returns classes that are floats as integers if all are whole and below 2**53 in size; otherwise unchanged.

    So the name of a class is 1 whether y has 1 or 1.0, and the type of one private label changes no name.
    """
    if class_names.dtype.kind != "f":
        return class_names
    is_exact = bool(((class_names == np.round(class_names)) & (np.abs(class_names) < 2**53)).all())
    return class_names.astype(np.int64) if is_exact else class_names


def _typed(labels: NDArray[Any]) -> NDArray[Any]:
    """Returns an array of objects as one of bool, if all entries are truth values, or of numbers, if all are numbers.

    A mixture of truth values and numbers, and an array with other entries, is returned unchanged.
    """
    is_truth_value = {isinstance(label, (bool, np.bool_)) for label in labels.flat}
    are_numbers = all(isinstance(label, (int, float, np.number, np.bool_)) for label in labels.flat)
    is_one_kind = are_numbers and len(is_truth_value) == 1
    return np.array(labels.tolist()) if is_one_kind else labels
