"""The records of one split: the private pool, the public pool or the test set."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, Float32Array, FloatArray, IntArray
from pate.data.pixels import Pixels
from pate.files.array_rows import FileRows, row_blocks, take_rows
from pate.files.paths import file_identity
from pate.validation import InvalidValue, require, require_moderate

SPLITS = ("private", "public", "test")
"""The names of the splits, in the order in which readers read them."""

_SORTED_ROWS = 512  # that are copied at once where a digest needs another order


@dataclass(frozen=True, eq=False)
class Split:
    """Labeled records of one of the three roles: the private pool, the public pool or the test set.

    A label of a record may be unknown: the field `known` says which ones are known. Which labels of a private record
    are known is as private as the labels. That there are gaps at all, so whether `known` is None, is public, as the
    names of the labels are.

    Raises:
        InvalidValue: an array has the wrong dtype, rank or length, is masked, or has no features or labels; or a label
            that is not known is True. Also if an input is not finite or beyond 1e12 (the sum of such squares overflows
            float32).
    """

    # float32 `[n, d]` features, or `[n, channels, height, width]` images in [0, 1], in whose place `Pixels` may stand.
    # Those of a large table are `FileRows`, which read like an array; `take` reads only the rows that it returns.
    inputs: Float32Array
    labels: BoolArray  # bool `[n, num_labels]`; any number of labels may hold for a record
    record_ids: IntArray  # int64 `[n]`, the name of each record in its source
    # int64 `[n]`, what must stay together: records of one person, one text, one image
    group_ids: IntArray
    # bool `[n, num_labels]`, which labels of each record are known; None where all are. Unknown labels are False.
    known: BoolArray | None = None

    def __post_init__(self) -> None:
        self._require_form(name="inputs", dtype="float32", ranks=(2, 3, 4))
        self._require_form(name="labels", dtype="bool", ranks=(2,))
        self._require_form(name="record_ids", dtype="int64", ranks=(1,))
        self._require_form(name="group_ids", dtype="int64", ranks=(1,))
        if self.known is not None:
            self._require_known(self.known)
        if not isinstance(self.inputs, Pixels):
            try:
                for block in row_blocks(self.inputs):
                    require_moderate("inputs", block)
            except InvalidValue:
                # which names the place among all inputs
                require_moderate("inputs", np.asarray(self.inputs))
                raise

    def _require_form(self, name: str, dtype: str, *, ranks: tuple[int, ...]) -> None:
        array = getattr(self, name)
        is_array = isinstance(array, (np.ndarray, Pixels, FileRows))
        is_plain = is_array and not isinstance(array, np.ma.MaskedArray)
        rule = "a numpy array; .filled(…) says what masked entries are"
        require(is_plain, name, type(array).__name__, rule)
        require(array.dtype == dtype, f"{name}.dtype", array.dtype, dtype)
        require(array.ndim in ranks, f"{name}.ndim", array.ndim, " or ".join(map(str, ranks)))
        rule = f"{len(self)}, one row for each input"
        require(len(array) == len(self), f"len({name})", len(array), rule)
        has_values = 0 not in array.shape[1:]
        require(has_values, f"{name}.shape", array.shape, "at least one value per record")

    def _require_known(self, known: BoolArray) -> None:
        self._require_form(name="known", dtype="bool", ranks=(2,))
        rule = f"{self.labels.shape}, one for each label of each record"
        require(known.shape == self.labels.shape, "known.shape", known.shape, rule)
        num_wrong = np.count_nonzero(self.labels & ~known)
        require(num_wrong == 0, "labels", f"{num_wrong} True", "False where a label is not known")

    @classmethod
    def from_pictures(
        cls,
        all_pictures: NDArray[np.uint8],
        row_numbers: IntArray,
        *,
        labels: BoolArray,
        record_ids: IntArray,
        group_ids: IntArray,
        known: BoolArray | None = None,
    ) -> Split:
        """Returns a split of some of m pictures. The pictures are not copied, and stay bytes.

        Args:
            all_pictures: all m pictures, uint8 `[m, channels, height, width]`.
            row_numbers: the row numbers of the pictures that the split consists of, in order, int64 `[n]`.
            labels: the labels of all m pictures, bool `[m, num_labels]`.
            record_ids: the ids of all m pictures, int64 `[m]`.
            group_ids: the groups of all m pictures, int64 `[m]`.
            known: which labels of all m pictures are known, bool `[m, num_labels]`; None where all are.
        """
        # which reads like an array
        pixels = cast("NDArray[np.float32]", Pixels(levels=all_pictures, rows=row_numbers))
        return cls(
            inputs=pixels,
            labels=labels[row_numbers],
            record_ids=record_ids[row_numbers],
            group_ids=group_ids[row_numbers],
            known=None if known is None else known[row_numbers],
        )

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def num_groups(self) -> int:
        """The number of groups.

        In a private split a group is the unit of privacy, and each teacher needs at least one.
        """
        return len(distinct(self.group_ids))

    @property
    def label_shares(self) -> FloatArray:
        """The share of records with each label among those for which it is known, `[num_labels]`; 0 if there are none.

        No epsilon covers the shares of a private split.
        """
        if self.known is None:
            return np.asarray(self.labels.mean(axis=0))
        num_known = np.count_nonzero(self.known, axis=0)
        return np.asarray(np.count_nonzero(self.labels, axis=0) / np.maximum(num_known, 1))

    @property
    def labels_per_record(self) -> float:
        """The mean number of labels of a record, if unknown labels are as frequent as known ones."""
        if self.known is None:
            return float(self.labels.sum(axis=1).mean())
        return float(self.label_shares.sum())

    def take(self, row_numbers: IntArray | slice) -> Split:
        """Returns a split that consists of the given rows, in the given order."""
        return Split(
            inputs=take_rows(array=self.inputs, rows=row_numbers),
            labels=self.labels[row_numbers],
            record_ids=self.record_ids[row_numbers],
            group_ids=self.group_ids[row_numbers],
            known=None if self.known is None else self.known[row_numbers],
        )

    def digest(self) -> str:
        """Returns the SHA-256 digest of the records, ordered by id, in hexadecimal. No epsilon covers the digest.

        A mask that says that all labels are known changes no digest.
        """
        digest = hashlib.sha256(b"records")
        order = np.argsort(self.record_ids, kind="stable")
        for array in (self.record_ids[order], self.group_ids[order], self.labels[order]):
            enter_array(digest, array)
        self._enter_inputs(digest, order)
        if self.known is not None and not self.known.all():
            enter_array(digest, array=self.known[order])
        return digest.hexdigest()

    def _enter_inputs(self, digest: Any, order: IntArray) -> None:
        """Adds the inputs in another order to a digest, without a copy of all of them."""
        inputs = self.inputs
        if isinstance(inputs, Pixels):
            enter_array(digest, Pixels(inputs.levels, inputs.rows[order]))
        elif np.array_equal(order, np.arange(len(order))):
            enter_array(digest, inputs)
        else:
            digest.update(repr(inputs.shape).encode())
            for first in range(0, len(order), _SORTED_ROWS):
                enter_bytes(digest, inputs[order[first : first + _SORTED_ROWS]])


def distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    """Returns the different numbers of an array in ascending order.

    `np.unique` of numpy 2.3 and later puts them into a hash table first, which takes ten times as long for a million
    ids.
    """
    ascending = np.sort(numbers)
    is_new = np.ones(len(ascending), np.bool_)
    is_new[1:] = ascending[1:] != ascending[:-1]
    return np.asarray(ascending[is_new])


def count_shared(ids: IntArray, other_ids: IntArray) -> int:
    """Returns the number of distinct ids that occur in both arrays.

    Sets of numpy take ten times as long for a million integers.
    """
    shorter, longer = sorted((ids, other_ids), key=len)
    if len(shorter) == 0 or shorter.max() < longer.min() or longer.max() < shorter.min():
        return 0
    return len(distinct(shorter[are_among(shorter, longer)]))


def are_among(numbers: NDArray[Any], other_numbers: NDArray[Any]) -> BoolArray:
    """Returns True for each number that is one of the others, bool `[num_numbers]`; there is at least one other."""
    others = np.sort(other_numbers)
    places = np.minimum(np.searchsorted(others, numbers), len(others) - 1)
    return np.asarray(others[places] == numbers)


def enter_array(digest: Any, array: Any) -> None:
    """Adds the shape and the bytes of an array or of `Pixels` to a hashlib digest."""
    digest.update(repr(array.shape).encode())
    enter_bytes(digest, array)


def enter_bytes(digest: Any, array: Any) -> None:
    """Adds the bytes of an array, or the bytes of the pictures in `Pixels`, to a hashlib digest."""
    for block in array.blocks() if isinstance(array, Pixels) else row_blocks(array):
        digest.update(np.ascontiguousarray(block).data)


def require_files_apart(paths: Mapping[str, Sequence[Path]]) -> None:
    """Raises `InvalidValue` if a file is read twice, by two splits or by one, even under different names or links.

    Args:
        paths: the paths of each split's files, by the split's name.
    """
    split_of_file: dict[tuple[int, int] | str, str] = {}
    for split, split_paths in paths.items():
        for path in split_paths:
            identity = file_identity(path)
            rule = "each file once, and this one has two names"
            if split_of_file.get(identity, split) != split:
                rule = f"another file than data.{split_of_file[identity]}: no record may be in two splits"
            require(identity not in split_of_file, f"data.{split}", path, rule)
            split_of_file[identity] = split
