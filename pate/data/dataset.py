"""A data set: three splits of labeled records, the names of the labels, and the preprocessing of the inputs.

The method `load` of each reader returns a `Dataset`, with which a run begins.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from inspect import signature
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pate.accounting import PrivacyUnit
from pate.array_types import FloatArray, IntArray
from pate.data.array_digest import add_shape_and_entries
from pate.data.id_arrays import count_shared, distinct
from pate.data.preprocessing import Preprocessing
from pate.data.shared_records import SharedRecords
from pate.data.split import Split
from pate.progress import StageOpener, unwatched
from pate.validation import (
    InvalidValue,
    normalize_field,
    require,
    require_choice,
    require_entries,
    require_text,
)

Kind = Literal["features", "images"]
"""The kind of the inputs of a data set: rows of numbers, or pictures."""

ONE_GROUP = PrivacyUnit("one group of records, those with one number in group_ids")
"""The unit of privacy unless a reader names another.

It does not tell whether a group has several records, because that is the records' secret.
"""

TRAIN_ONLY_RULE = (
    "none here: only pate-train reads budgets of groups, and records with several owners"
)
"""The rule for `data.budget` and for several columns in `data.group`, where a command does not support them."""

# The number of axes of an array of inputs, by the kind of the inputs.
_RANK_OF_KIND: dict[Kind, int] = {"features": 2, "images": 4}


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class Dataset:
    """Three splits: a private pool for the teachers, a public pool for queries and student, a test set for the report.

    Formal guarantees; a violation is an `InvalidValue`:
        * No record and no group is in two splits. No split is empty or lists a record twice.
        * All splits have the same input shape, images in [0, 1], and one column for each name in `label_names`.

    The order of the public pool is part of the data set: its first `num_queries` records are the queries. So a reader
    shuffles the pool if its source is sorted. Features, scaling and vocabulary must not be fitted on private inputs or
    labels, because no epsilon would cover them.

    Attributes:
        name: the name of the data set in configs and reports.
        real: False for synthetic data, which every report says.
        kind: "features" (`[n, d]`) or "images" (`[n, channels, height, width]`, values in [0, 1]).
        label_names: one distinct name for each label.
        private: the records that only epsilon may leak about.
        public: the pool of public records. The private pipeline reads their labels only if `data.public_labels` says
            that they are public. Otherwise these labels only serve to judge a run. They show how often the released
            labels and the teachers are right, and models that the student is compared with learn from them.
        test: the records on which the report measures. Neither teachers nor the student learn from them.
        preprocessing: the public preprocessing of the inputs, for users of a published model; None where inputs come
            without one.
        public_ids: `[num_public]`, numbers or texts under which public records are published. If it is None, they are
            published under their positions in the pool, from 0 on. `record_ids` are not taken for this, because they
            may count private records of the same source.
        private_cells: a digest of the private records before any preprocessing. By this digest a ledger recognizes the
            same private records in several runs, and adds up what these runs spend. If it is None, the digest of
            `private` is used. No epsilon covers the digest.
        test_cells: a digest of the test records before any preprocessing. By this digest a ledger recognizes the same
            test records in several runs, and adds up what their released scores spend. If it is None, the labels of
            `test` are used. No epsilon covers the digest.
        public_labeled: whether some labels of the public pool are known; always False for a pool without any positive
            label. If it is False, nothing shows how often the released labels and the teachers are right. The student
            is measured on `test` all the same.
        notes: lines for the owner of the records on how they were read; not published.
        owners: the names of private records and of the people to whom they belong, as bytes. The key "id" has the set
            of names of records, and the key "group" that of names of people. A key is missing if the source has no such
            names. A ledger has an account for each set of private records. By these names it notices that two accounts
            have people or records in common. No epsilon covers the names.
        budgets: texts `[num_private]`, the budget class of each private record; public, and one class per group. None
            where all groups have one budget.
        shared: the rule that protects private records that have several owners each; None where each has at most one.
        group_unit: what a group of private records is, described by the columns that define it and never by the
            records; see `privacy_unit`.
    """

    name: str
    real: bool
    kind: Kind
    label_names: tuple[str, ...]
    private: Split
    public: Split
    test: Split
    preprocessing: Preprocessing | None = None
    public_ids: NDArray[Any] | None = None
    private_cells: str | None = None
    test_cells: str | None = None
    public_labeled: bool = True
    notes: tuple[str, ...] = ()
    owners: Mapping[str, Set[bytes]] = field(default_factory=dict)
    budgets: NDArray[np.str_] | None = None
    shared: SharedRecords | None = None
    group_unit: PrivacyUnit = ONE_GROUP

    def __post_init__(self) -> None:
        require_text("name", self.name)
        if not isinstance(self.real, bool):
            rule = "True, or False for synthetic data"
            raise InvalidValue("real", type(self.real).__name__, rule=rule)
        require_choice("kind", self.kind, tuple(_RANK_OF_KIND))
        self._require_label_names()
        for split_name, split in self._splits():
            self._require_split(split_name, split)
        if self.test.known is not None and not self.test.known.any():
            raise InvalidValue("test.known", 0, rule="at least one label that is known")
        # A public pool without any positive label cannot measure anything, so it counts as unlabeled.
        if not self.public.labels.any():
            normalize_field(self, "public_labeled", value=False)
        self._require_disjoint_splits()
        if self.budgets is not None:
            self._require_budgets(self.budgets)
        if self.public_ids is not None:
            self._require_public_ids(self.public_ids)

    @property
    def privacy_unit(self) -> PrivacyUnit:
        """The unit of privacy: the private records that a guarantee protects together.

        The description of the unit depends on no record.
        """
        unit = self.group_unit if self.shared is None else self.shared.unit
        return unit if self.budgets is None else unit.within_class

    @property
    def published_ids(self) -> NDArray[Any]:
        """The names under which public records are published, `[num_public]`; none depends on a private record."""
        return np.arange(len(self.public)) if self.public_ids is None else self.public_ids

    @property
    def num_labels(self) -> int:
        """The number of labels, L."""
        return len(self.label_names)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input: `(d,)`, or `(channels, height, width)` of an image."""
        return tuple(self.private.inputs.shape[1:])

    @property
    def weights(self) -> FloatArray | None:
        """The weight of each private record, `[num_private]`; None if every record has weight 1."""
        return None if self.shared is None else self.shared.weights

    def repeat_private(self, num_copies: IntArray) -> Dataset:
        """Returns the data set with copies of the private records, such that no two copies of a record share a group.

        The copies replace the records. The first copies of the records of a group form one new group, their second
        copies another, and so on. All copies have new ids. Budgets are dropped.

        Args:
            num_copies: the number of copies of each private record, int64 `[num_private]`.
        """
        # Each record or group gets a range of `max_copies` ids, above all present ids, so all ids are different.
        _, group_of_record = np.unique(self.private.group_ids, return_inverse=True)
        rows = np.repeat(np.arange(len(num_copies)), num_copies)
        first_copies = np.repeat(np.cumsum(num_copies) - num_copies, num_copies)
        copy_numbers = np.arange(len(rows)) - first_copies  # 0, 1, … for the copies of each record
        largest_ids = [
            int(max(split.record_ids.max(), split.group_ids.max())) for _, split in self._splits()
        ]
        first_id = 1 + max(largest_ids)
        max_copies = int(num_copies.max())
        private = replace(
            self.private.take(rows),
            record_ids=first_id + rows * max_copies + copy_numbers,
            group_ids=first_id + group_of_record[rows] * max_copies + copy_numbers,
        )
        return replace(self, private=private, budgets=None)

    def digest(self) -> str:
        """Returns the SHA-256 digest of the data set in hexadecimal. No epsilon covers the digest.

        The digest depends on the name, the names of the labels, the records of all splits in their order, which labels
        are known, the budgets and the weights.
        """
        hasher = hashlib.sha256(repr((self.name, self.label_names)).encode())
        for _, split in self._splits():
            for array in (split.inputs, split.labels, split.record_ids, split.group_ids):
                add_shape_and_entries(hasher, array=array)
            # A split whose labels are all known has one digest, whether `known` is all True or None.
            if split.known is not None and not split.known.all():
                hasher.update(b"known")
                add_shape_and_entries(hasher, array=split.known)
        if self.budgets is not None:
            hasher.update(repr(self.budgets.tolist()).encode())
        if self.weights is not None:
            add_shape_and_entries(hasher, array=self.weights)
        return hasher.hexdigest()

    def private_digest(self) -> str:
        """Returns the digest by which a ledger recognizes the same private records in several runs.

        The result is `private_cells` if the reader has set it, and `Split.digest` of the private records otherwise.
        """
        return self.private_cells or self.private.digest()

    def _splits(self) -> tuple[tuple[str, Split], ...]:
        """Returns pairs of a split's name and its records: private, public and test."""
        return ("private", self.private), ("public", self.public), ("test", self.test)

    def _require_label_names(self) -> None:
        """Raises `InvalidValue` unless `label_names` is a tuple of distinct names, at least one."""
        names = self.label_names
        has_names = isinstance(names, tuple) and len(names) > 0
        require(has_names, "label_names", type(names).__name__, "a tuple of names")
        for index, name in enumerate(names):
            require_text(f"label_names[{index}]", name)
        most_common_name, num_times = Counter(names).most_common(1)[0]
        if num_times > 1:
            times_in_words = "twice" if num_times == 2 else f"{num_times} times"
            raise InvalidValue(
                "label_names", f"{most_common_name}, {times_in_words}", rule="each name once"
            )

    def _require_split(self, split_name: str, split: Split) -> None:
        """Raises `InvalidValue` unless a split has records, each once, of the form that the data set states.

        Inputs must be of the kind that the field `kind` names, and have the shape of the private ones. There must be
        one label for each of `label_names`. Images must have values in [0, 1].
        """
        require(isinstance(split, Split), split_name, type(split).__name__, "a pate.data.Split")
        require(len(split) > 0, f"len({split_name})", len(split), "at least one record")
        rank = _RANK_OF_KIND[self.kind]
        input_rank = split.inputs.ndim
        if input_rank != rank:
            rule = f"{rank} for {self.kind}"
            raise InvalidValue(f"{split_name}.inputs.ndim", input_rank, rule=rule)
        shape = split.inputs.shape[1:]
        if shape != self.input_shape:
            rule = f"{self.input_shape} as in the private split"
            raise InvalidValue(f"{split_name}.inputs.shape[1:]", shape, rule=rule)
        num_labels = split.labels.shape[1]
        if num_labels != self.num_labels:
            rule = f"{self.num_labels} label names"
            raise InvalidValue(f"{split_name}.labels.shape[1]", num_labels, rule=rule)
        order = np.argsort(split.record_ids, kind="stable")
        repeated = np.flatnonzero(np.diff(split.record_ids[order]) == 0)
        if len(repeated) > 0:
            first, second = order[repeated[0] : repeated[0] + 2].tolist()
            rule = f"each record once, rows {first} and {second} are one"
            raise InvalidValue(f"{split_name}.record_ids", rule=rule)
        if self.kind == "images" and isinstance(split.inputs, np.ndarray):
            is_in_range = (split.inputs >= 0) & (split.inputs <= 1)
            require_entries(
                f"{split_name}.inputs", holds=is_in_range, rule="images with values in [0, 1]"
            )

    def _require_disjoint_splits(self) -> None:
        """Raises `InvalidValue` if two splits have the id of a record or of a group in common."""
        for id_kind in ("record", "group"):
            for (split_name, split), (other_name, other_split) in combinations(self._splits(), 2):
                _require_disjoint(
                    id_kind=id_kind,
                    ids=getattr(split, f"{id_kind}_ids"),
                    other_ids=getattr(other_split, f"{id_kind}_ids"),
                    split_names=f"{split_name} and {other_name}",
                )

    def _require_public_ids(self, public_ids: NDArray[Any]) -> None:
        """Raises `InvalidValue` unless `public_ids` are whole numbers or texts, one for each public record."""
        rule = "whole numbers or texts, one for each public record"
        require(public_ids.dtype.kind in "iuU", "public_ids", public_ids.dtype, rule)
        if public_ids.shape != (len(self.public),):
            rule = f"({len(self.public)},), one for each public record"
            raise InvalidValue("public_ids.shape", public_ids.shape, rule=rule)

    def _require_budgets(self, budgets: NDArray[np.str_]) -> None:
        """Raises `InvalidValue` unless budget classes are texts, one for each private record, equal within each group.

        Budgets are also refused if records have weights.
        """
        if self.weights is not None:
            rule = "one for all records, because these have several owners and different weights"
            raise InvalidValue("budgets", "several", rule=rule)
        if budgets.dtype.kind != "U" or budgets.shape != (len(self.private),):
            rule = "texts, one for each private record"
            raise InvalidValue(
                "budgets",
                f"{budgets.dtype} {budgets.shape}",
                rule=rule,
            )
        order = np.argsort(self.private.group_ids, kind="stable")
        group_ids = self.private.group_ids[order]
        ordered_classes = budgets[order]
        # Each record is compared with the record before it, in the order of the groups.
        is_same_group = group_ids[1:] == group_ids[:-1]
        is_other_class = ordered_classes[1:] != ordered_classes[:-1]
        num_mixed = len(distinct(group_ids[1:][is_same_group & is_other_class]))
        if num_mixed > 0:
            rule = f"one class in all records of a group, {num_mixed} groups have several"
            raise InvalidValue("data.budget", rule=rule)


def require_dataset(loaded_object: Any, *, allow_budgets_and_weights: bool = False) -> Dataset:
    """Returns the result of a reader's `load` if it is a valid `Dataset`.

    Args:
        loaded_object: the object that a reader's `load` returned.
        allow_budgets_and_weights: true allows groups to have budgets of their own, and records to have weights.

    Raises:
        InvalidValue: the object is no `Dataset`, or has budgets or weights although they are not allowed.
    """
    if not isinstance(loaded_object, Dataset):
        raise InvalidValue("load()", type(loaded_object).__name__, rule="a pate.data.Dataset")
    if allow_budgets_and_weights:
        return loaded_object
    if loaded_object.budgets is not None:
        raise InvalidValue("data.budget", "several", rule=TRAIN_ONLY_RULE)
    shared = loaded_object.shared
    if shared is not None and shared.weights is not None:
        raise InvalidValue("data.group", list(shared.owner_kinds), rule=TRAIN_ONLY_RULE)
    return loaded_object


def load_dataset(reader: Any, open_stage: StageOpener = unwatched) -> Dataset:
    """Calls a reader's `load` and returns the data set.

    Args:
        reader: an object with a method `load()`. A reader that reports progress has `load(stage)`.
        open_stage: opens the stages in which the reader reports progress.

    Raises:
        InvalidValue: `load` returned no `Dataset`.
    """
    takes_stage = "stage" in signature(reader.load).parameters
    loaded_object = reader.load(open_stage) if takes_stage else reader.load()
    return require_dataset(loaded_object, allow_budgets_and_weights=True)


def _require_disjoint(
    id_kind: str, ids: IntArray, other_ids: IntArray, *, split_names: str
) -> None:
    """Raises `InvalidValue` if two splits have an id in common.

    Args:
        id_kind: "record" or "group": what the ids stand for.
        ids: the ids in the first split, int64 `[num_records]`.
        other_ids: the ids in the second split, int64 `[num_other_records]`.
        split_names: the names of both splits, for the message.
    """
    num_shared = count_shared(ids, other_ids)
    if num_shared > 0:
        rule = f"each {id_kind} in one split, found {num_shared} in {split_names}"
        raise InvalidValue(f"{id_kind}_ids", rule=rule)
