"""Inputs of a fit: private records and public samples, which stay DataFrames, and labels as bits `[n, L]`.

A `Task` says whether samples have several labels or one class.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from pate.accounting import Adjacency
from pate.aggregators import Aggregator, FixedTopK, GaussianVotes
from pate.data.table.people import person_name, smallest_of_group
from pate.data.table.source_file import MISSING_WORDS
from pate.data.table.spelling import canonical_word
from pate.models.sklearn import FittedLabels, seeded, stretched
from pate.validation import (
    InvalidValue,
    require,
    require_array,
    require_entries,
    require_probability,
)

Bits = NDArray[np.bool_]
Rows = NDArray[np.float32]

_GONE = ("NAType", "NaTType")  # pandas' types of what is not there
_GROUPED = "a group for each record, none missing"
_BOTH = "at least 2, of which one is public"
_SETS = (set, frozenset, list, tuple)


@dataclass(frozen=True, eq=False)
class Pools:
    """The private records and the public samples of a fit."""

    inputs: Rows  # float32 `[n, d]`, or rows of a sparse matrix, or a DataFrame, private
    targets: Bits  # bool `[n, L]`, private
    groups: NDArray[np.int64]  # int64 `[n]`: records of one group stay together
    queries: Rows  # float32 `[Q, d]`, or a DataFrame, public; `cut` leaves a sparse matrix as it is

    @classmethod
    def cut(
        cls, inputs: Rows, targets: Bits, groups: Any, public: Rows | None, fraction: float | None
    ) -> Pools:
        """Takes public samples as given, or the rows of the last groups where these are declared public.

        Groups are in the order of their first rows, and without groups each row is one. Which groups are public, and so
        how many rows are, depends on the number and order of groups alone: it stays the same if somebody private has
        fewer rows or more.
        """
        num_rows = inputs.shape[0]
        group_ids = np.arange(num_rows)  # without groups every record is one
        if groups is not None:
            group_names = require_array("groups", groups, kinds=None)
            rule = f"({num_rows},), one group for each record"
            require(group_names.shape == (num_rows,), "groups.shape", group_names.shape, rule)
            group_ids = _numbered_groups(group_names)
        rule = "public samples, or public_fraction, which declares the last groups of X public; not both"
        shown = None if public is None else "given"
        require((public is None) != (fraction is None), "X_public", shown, rule)
        if public is not None:
            return cls(inputs=inputs, targets=targets, groups=group_ids, queries=public)
        share = require_probability("public_fraction", cast(float, fraction))
        if groups is None:
            require(num_rows > 1, "n_samples", num_rows, _BOTH)
            first_public = num_rows - max(int(share * num_rows), 1)
            return cls(
                inputs=inputs[:first_public],
                targets=targets[:first_public],
                groups=group_ids[:first_public],
                queries=inputs[first_public:],
            )
        is_public = _rows_of_last_groups(group_ids, share)
        rows: Any = getattr(inputs, "iloc", inputs)
        private_rows = np.flatnonzero(~is_public)
        public_rows = np.flatnonzero(is_public)
        return cls(
            inputs=rows[private_rows],
            targets=targets[private_rows],
            groups=group_ids[private_rows],
            queries=rows[public_rows],
        )


def _numbered_groups(group_names: NDArray[Any]) -> NDArray[np.int64]:
    """Numbers groups `[n]` in their order; words that name one person are one group, in large or small letters.

    Raises where a group is missing, in any of the ways of numpy and pandas, or has a name of nothing visible.
    """
    missing = np.zeros(len(group_names), np.bool_)
    if group_names.dtype.kind == "O":
        missing = np.array(
            [
                name is None or type(name).__name__ in _GONE or name != name
                for name in group_names.tolist()
            ]
        )
        group_names = group_names.astype(np.str_)
    elif group_names.dtype.kind == "S":
        group_names = np.char.decode(group_names, "utf-8", "replace")
    elif group_names.dtype.kind in "fc":
        missing = np.isnan(group_names)
    elif group_names.dtype.kind in "mM":
        missing = np.isnat(group_names)
    if group_names.dtype.kind != "U":
        require_entries("groups", ~missing, _GROUPED)
        return _numbered(group_names)
    words, word_of_row = np.unique(group_names, return_inverse=True)
    spelled = np.array([canonical_word(word) for word in words.tolist()], np.str_)
    missing |= np.isin(spelled, MISSING_WORDS)[word_of_row]
    require_entries("groups", ~missing, _GROUPED)
    persons = np.array([person_name(word).casefold() for word in spelled.tolist()], np.str_)
    group_of_word = smallest_of_group(_numbered(persons), _numbered(spelled))
    return _numbered(group_of_word[word_of_row])


def _numbered(values: NDArray[Any]) -> NDArray[np.int64]:
    """Numbers values `[n]` 0, 1, ... in ascending order, equal ones alike."""
    _, numbers = np.unique(values, return_inverse=True)
    return numbers.astype(np.int64)


def _rows_of_last_groups(group_ids: NDArray[np.int64], share: float) -> Bits:
    """Marks the rows `[n]` of the last groups, a share of all groups, in the order of their first rows.

    Warns where some of these groups have no row in the last share of the rows: whoever counts rows takes them as
    private.
    """
    _, first_rows = np.unique(group_ids, return_index=True)  # they are 0, 1, ...
    num_groups = len(first_rows)
    require(num_groups > 1, "groups", num_groups, _BOTH)
    num_public = max(int(share * num_groups), 1)
    last_groups = np.argsort(first_rows)[-num_public:]
    is_public = np.isin(group_ids, last_groups)
    num_last_rows = max(int(share * len(group_ids)), 1)
    unexpected = np.setdiff1d(last_groups, group_ids[-num_last_rows:])
    if len(unexpected):
        line = f"public_fraction={share}: it counts groups, and {num_public} of {num_groups} groups are public"
        where = f"{len(unexpected)} of them have no row in the last {share:.0%} of the rows"
        warnings.warn(f"{line}; {where}", PublicGroups, stacklevel=5)
    return is_public


def require_readable(name: str, values: Any) -> None:
    """Raises where values cannot be read as numbers, before an error of theirs would quote a private entry."""
    rule = "an array without masked entries: .filled(…) says what they are"
    require(not np.ma.is_masked(values), name, type(values).__name__, rule)
    try:
        array = np.asarray(values) if hasattr(type(values), "requires_grad") else values
        if getattr(array, "dtype", None) is not None and array.dtype.kind in "OUS":
            np.asarray(array, dtype=np.float32)
    except RuntimeError as error:
        raise InvalidValue(
            name, type(values).__name__, rule=".detach().cpu().numpy() of a tensor"
        ) from error
    except ValueError:
        raise InvalidValue(name, rule="numbers") from None


def require_labels(y: Any) -> None:
    """Raises where a label is missing: None, NaN, NaT or pandas.NA, in a DataFrame, a Series, an array or a list."""
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
    """Says whether a value is None, NaN, NaT or pandas.NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    # pandas.NA is neither equal nor unequal; arrays are so entry by entry
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"


class PublicGroups(UserWarning):
    """Warning: `public_fraction` declares groups public that have no row in that share of the rows."""


class SharedRows(UserWarning):
    """Warning: public samples are among the private records."""


def warn_of_shared_rows(private: NDArray[np.float32], public: NDArray[np.float32]) -> None:
    """Warns where most public inputs `[Q, d]` are among those `[n, d]` that are to be protected: X given twice, say."""
    if sparse.issparse(private) != sparse.issparse(public):
        private = sparse.csr_array(private)
        public = sparse.csr_array(public)
    private_rows = {row.tobytes() for row in rows_as_bytes(private)}
    num_shared = sum(row.tobytes() in private_rows for row in rows_as_bytes(public))
    num_public = public.shape[0]
    if 2 * num_shared > num_public:
        line = f"{num_shared} of {num_public} rows of X_public are rows of X: inputs that are public are not protected"
        warnings.warn(line, SharedRows, stacklevel=4)


def is_frame(inputs: Any) -> bool:
    """Says whether inputs are a DataFrame, without loading pandas."""
    return all(hasattr(inputs, name) for name in ("columns", "iloc", "dtypes", "select_dtypes"))


def taken(inputs: Any, rows: Any) -> Any:
    """Returns some rows, by their places, a slice or a mask; those of a sparse matrix with their zeros."""
    return inputs.iloc[rows] if is_frame(inputs) else dense(inputs[rows])


def dense(inputs: Any) -> Any:
    """Returns a sparse matrix with its zeros, and anything else as it is."""
    return inputs.toarray() if sparse.issparse(inputs) else inputs


def numbers_of(inputs: Any) -> NDArray[Any]:
    """Returns the columns of numbers `[n, k]`, or the numbers that a sparse matrix stores."""
    if sparse.issparse(inputs):
        return np.asarray(inputs.data)
    if not is_frame(inputs):
        return np.asarray(inputs)
    # pandas.NA of nullable columns, such as Int64, is a missing number as NaN is
    return np.asarray(inputs.select_dtypes("number").to_numpy(np.float64, na_value=np.nan))


def rows_as_bytes(inputs: Any) -> NDArray[Any]:
    """Returns a row of bytes or numbers for each record, equal for equal records."""
    if sparse.issparse(inputs):
        inputs = sparse.csr_array(inputs)
        inputs.sum_duplicates()
        inputs.eliminate_zeros()
        ends = inputs.indptr.tolist()
        columns = inputs.indices.astype(np.int64)
        values = inputs.data
        rows = [
            hashlib.sha256(columns[start:end].tobytes() + values[start:end].tobytes()).digest()
            for start, end in pairwise(ends)
        ]
        return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)
    if not is_frame(inputs):
        return np.ascontiguousarray(inputs)
    from pandas.util import hash_pandas_object

    return np.ascontiguousarray(hash_pandas_object(inputs, index=False).to_numpy()[:, None])


def require_frames(private: Any, public: Any) -> bool:
    """Says whether inputs are DataFrames; raises unless both have the same columns in the same order."""
    framed = is_frame(private)
    if framed and len(private.columns) != len(set(private.columns)):
        raise InvalidValue("X.columns", rule="each name once")
    if public is not None:
        rule = "a DataFrame with the columns of X" if framed else "an array, as X is one"
        require(is_frame(public) == framed, "X_public", type(public).__name__, rule)
    if not framed or public is None:
        return framed
    private_columns = list(private.columns)
    public_columns = list(public.columns)
    lacking = [name for name in private_columns if name not in public_columns]
    if lacking:
        raise InvalidValue("X_public", rule=f"also the column {lacking[0]}, as X has it")
    if public_columns != private_columns:
        surplus = [name for name in public_columns if name not in private_columns]
        reason = f"it has also {surplus[0]}" if surplus else "they stand in another order"
        raise InvalidValue(
            "X_public.columns", rule=f"those of X, {reason}; X_public[X.columns] takes them"
        )
    if not len(public):
        raise InvalidValue("X_public", rule="at least one sample, it has no row")
    return True


class LabelModel(FittedLabels):
    """Teacher or student of labels: it gives bits, probabilities and confidences of each label, `[n, L]`."""

    predict_proba = FittedLabels.confidences

    def predict(self, inputs: Rows) -> Bits:
        """Returns the labels whose probability is at least a half."""
        return np.asarray(self.predict_proba(inputs) >= 0.5)

    def confidences(self, inputs: Rows) -> NDArray[Any]:
        """Returns a teacher's confidences: it votes for a label where its confidence is at least a half."""
        return stretched(self.predict_proba(inputs))


@dataclass(frozen=True, eq=False)
class ClassModel:
    """Teacher or student of classes, which one estimator predicts: it gives the same as a `LabelModel`."""

    num_classes: int
    present: NDArray[np.int64]  # the classes that occurred in training, by their numbers
    model: Any  # None where fewer than two classes occurred

    def predict(self, inputs: Rows) -> Bits:
        """Returns one class for each sample: the only one that occurred, or the first, where there is no model."""
        if self.model is not None:
            codes = np.asarray(self.model.predict(inputs))
        else:
            codes = np.full(len(inputs), self.present[0] if len(self.present) else 0)
        rule = f"({len(inputs)},)"
        require(codes.shape == (len(inputs),), "predictions.shape", codes.shape, rule)
        return np.asarray(codes[:, None] == np.arange(self.num_classes))

    def predict_proba(self, inputs: Rows) -> NDArray[np.float64]:
        """Returns the probability of each class, equal for all where none occurred in training."""
        if not len(self.present):
            return np.full((len(inputs), self.num_classes), 1 / self.num_classes)
        probabilities = np.zeros((len(inputs), self.num_classes))
        certain = self.model is None
        probabilities[:, self.present] = 1.0 if certain else self.model.predict_proba(inputs)
        return probabilities

    def confidences(self, inputs: Rows) -> NDArray[np.float32]:
        """Returns a teacher's confidences: 1 for the class that it votes for."""
        return self.predict(inputs).astype(np.float32)


Model = LabelModel | ClassModel


class Task:
    """Task of any number of labels per sample: it fits estimators to bits `[n, L]`, and decodes predictions."""

    def __init__(self, count: int) -> None:
        self.classes: Any = [np.arange(2) for _ in range(count)]  # scikit-learn's `classes_`

    @property
    def num_labels(self) -> int:
        """The number of labels, or of classes."""
        return len(self.classes)

    def default_aggregator(self, adjacency: Adjacency) -> Aggregator:
        """Returns the aggregator that is used where none is chosen; its noise is still to be solved for."""
        # every label's noisy majority also serves where teachers are few and disagree
        return GaussianVotes(noise_std=1.0, adjacency=adjacency)

    def usable(self, labels: Bits) -> Bits:
        """Marks the answers `[n, L]` that a student can learn from, `[n]`."""
        return np.ones(len(labels), dtype=np.bool_)

    def fit(self, estimator: Any, inputs: Rows, bits: Bits, *, seed: int) -> Model:
        """Fits one model for each label, or one for all where the estimator takes several targets."""
        if not len(inputs):
            return LabelModel(np.zeros(self.num_labels), np.arange(0), [])
        return LabelModel.fit(estimator, inputs, bits, seed)

    def decode(self, bits: Bits) -> Any:
        """Returns predictions in the form of the labels of the fit."""
        return bits.astype(np.int64)


class LabelSets(Task):
    """Task of a set of words for each sample; `classes` are all words, in ascending order."""

    def __init__(self, words: Iterable[str]) -> None:
        self.classes = np.array(sorted(set(words)))
        self._binarizer = MultiLabelBinarizer(classes=self.classes.tolist()).fit([])

    @classmethod
    def of(cls, y: Any, classes: Any) -> LabelSets | None:
        """Returns the task for y; None where y is no list of sets, lists or tuples of words."""
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
        """Returns sets as 0 and 1 `[n, L]`; raises for a word that is not among the classes."""
        words = set(self.classes.tolist())
        are_classes = np.array([words.issuperset(row) for row in y])
        require_entries("y", are_classes, "words among the classes that were given")
        return np.asarray(self._binarizer.transform(y), np.int64)

    def decode(self, bits: Bits) -> Any:
        """Returns predictions as tuples of words."""
        return self._binarizer.inverse_transform(bits.astype(np.int64))


class OneClass(Task):
    """Task of one class a sample, of names in ascending order; a teacher votes for one."""

    def __init__(self, names: NDArray[Any]) -> None:
        self.classes = names

    def default_aggregator(self, adjacency: Adjacency) -> FixedTopK:
        """Returns a top-1; its noise is still to be solved for."""
        # the exponential mechanism: surer than GNMax where votes are close, and it needs no promise about teachers
        return FixedTopK(k=1, epsilon=1.0, adjacency=adjacency)

    def usable(self, labels: Bits) -> Bits:
        """Marks the answers `[n, C]` that name one class."""
        # an aggregator for many labels may name none or several
        return np.asarray(labels.sum(axis=1) == 1)

    def fit(self, estimator: Any, inputs: Rows, bits: Bits, *, seed: int) -> ClassModel:
        """Fits the estimator to the classes that occur; where one occurs, it is repeated."""
        codes = bits.argmax(axis=1)
        present = np.unique(codes)
        model = seeded(estimator, seed).fit(inputs, codes) if len(present) > 1 else None
        return ClassModel(num_classes=self.num_labels, present=present, model=model)

    def decode(self, bits: Bits) -> NDArray[Any]:
        """Returns predictions as names of classes."""
        return np.asarray(self.classes[bits.argmax(axis=1)])


def task_of(y: NDArray[Any], classes: Any) -> tuple[Task, Bits]:
    """Returns the task of labels, and the labels as bits `[n, L]`; without `classes` those that occur are all."""
    if y.dtype.kind == "O":
        try:
            np.unique(y.ravel())  # puts labels in order, which numbers among words have none of
        except TypeError as error:
            raise InvalidValue(
                "y.dtype", "object", rule="labels of one kind, numbers or words, none missing"
            ) from error
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
