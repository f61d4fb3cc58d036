"""The records of one split: the private pool, the public pool or the test set."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, Float32Array, FloatArray, IntArray
from pate.data.array_digest import add_entries, add_shape_and_entries
from pate.data.id_arrays import distinct
from pate.data.pixels import Pixels
from pate.files.array_rows import FileRows, row_blocks, take_rows
from pate.validation import InvalidValue, require, require_moderate

SPLITS = ("private", "public", "test")
"""The names of the splits, in the order in which readers read them."""

# The number of rows that are copied at once where a digest needs the rows in another order.
_COPIED_ROWS = 512


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class Split:
    """Labeled records of one of the three roles: the private pool, the public pool or the test set.

    A label of a record may be unknown: the field `known` says which ones are known. Which labels of a private record
    are known is as private as the labels. That there are gaps at all, so whether `known` is None, is public, as the
    names of the labels are.

    Attributes:
        inputs: float32 features `[n, d]`, or images `[n, channels, height, width]` in [0, 1]. Images may be `Pixels`,
            features of a large table `FileRows`; both are read like an array.
        labels: bool `[n, num_labels]`; any number of labels may hold for a record. Unknown labels are False.
        record_ids: int64 `[n]`, the id of each record in its source.
        group_ids: int64 `[n]`, the group of each record. A group is never divided: it holds the records of one person,
            one text or one image, for example.
        known: bool `[n, num_labels]`, whether each label is known; None if all are.

    Raises:
        InvalidValue: an array has the wrong dtype, rank or length, is masked, or has no features or labels; or a label
            that is not known is True. Also if an input is not finite or beyond 1e12, so that sums of squares of inputs
            fit into float32.
    """

    inputs: Float32Array
    labels: BoolArray
    record_ids: IntArray
    group_ids: IntArray
    known: BoolArray | None = None

    def __post_init__(self) -> None:
        self._require_form(field_name="inputs", dtype="float32", ranks=(2, 3, 4))
        self._require_form(field_name="labels", dtype="bool", ranks=(2,))
        self._require_form(field_name="record_ids", dtype="int64", ranks=(1,))
        self._require_form(field_name="group_ids", dtype="int64", ranks=(1,))
        if self.known is not None:
            self._require_known_mask(self.known)
        if not isinstance(self.inputs, Pixels):
            try:
                for block in row_blocks(self.inputs):
                    require_moderate("inputs", block)
            except InvalidValue:
                # The error names a position in its block. This call raises one that names the position in all inputs.
                require_moderate("inputs", np.asarray(self.inputs))
                raise

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
        # `Pixels` are read like an array of float32.
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
        """The share of records with each label, `[num_labels]`, among the records for which the label is known.

        The share is 0 for a label that is known for no record. No epsilon covers the shares of a private split.
        """
        if self.known is None:
            return np.asarray(self.labels.mean(axis=0))
        num_known = np.count_nonzero(self.known, axis=0)
        return np.asarray(np.count_nonzero(self.labels, axis=0) / np.maximum(num_known, 1))

    @property
    def labels_per_record(self) -> float:
        """The mean number of labels that hold for a record, if each holds as often where it is unknown as elsewhere."""
        if self.known is None:
            return float(self.labels.sum(axis=1).mean())
        return float(self.label_shares.sum())

    def take(self, row_numbers: IntArray | slice) -> Split:
        """Returns a split that consists of the given rows, in the given order. `FileRows` are not read completely."""
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
        hasher = hashlib.sha256(b"records")
        row_order = np.argsort(self.record_ids, kind="stable")
        for array in (
            self.record_ids[row_order],
            self.group_ids[row_order],
            self.labels[row_order],
        ):
            add_shape_and_entries(hasher, array=array)
        self._add_inputs(hasher, row_order)
        if self.known is not None and not self.known.all():
            add_shape_and_entries(hasher, array=self.known[row_order])
        return hasher.hexdigest()

    def _add_inputs(self, hasher: Any, row_order: IntArray) -> None:
        """Adds the inputs in the order `row_order` to a digest of `hashlib`, without a copy of all of them."""
        inputs = self.inputs
        if isinstance(inputs, Pixels):
            add_shape_and_entries(
                hasher, array=Pixels(levels=inputs.levels, rows=inputs.rows[row_order])
            )
        elif np.array_equal(row_order, np.arange(len(row_order))):
            add_shape_and_entries(hasher, array=inputs)
        else:
            hasher.update(repr(inputs.shape).encode())
            for first in range(0, len(row_order), _COPIED_ROWS):
                rows = row_order[first : first + _COPIED_ROWS]
                add_entries(hasher, array=inputs[rows])

    def _require_form(self, field_name: str, dtype: str, *, ranks: tuple[int, ...]) -> None:
        """Raises `InvalidValue` unless a field is an array, not masked, with one row for each input and no empty row.

        Args:
            field_name: the name of the field.
            dtype: the dtype that the array must have.
            ranks: the allowed numbers of axes.
        """
        array = getattr(self, field_name)
        is_array = isinstance(array, (np.ndarray, Pixels, FileRows))
        if not is_array or isinstance(array, np.ma.MaskedArray):
            rule = "a numpy array; .filled(…) says what masked entries are"
            raise InvalidValue(field_name, type(array).__name__, rule=rule)
        require(array.dtype == dtype, f"{field_name}.dtype", array.dtype, dtype)
        require(array.ndim in ranks, f"{field_name}.ndim", array.ndim, " or ".join(map(str, ranks)))
        if len(array) != len(self):
            rule = f"{len(self)}, one row for each input"
            raise InvalidValue(f"len({field_name})", len(array), rule=rule)
        has_values = 0 not in array.shape[1:]
        require(has_values, f"{field_name}.shape", array.shape, "at least one value per record")

    def _require_known_mask(self, known_mask: BoolArray) -> None:
        """Raises `InvalidValue` unless `known_mask` has the labels' shape, and every unknown label is False."""
        self._require_form(field_name="known", dtype="bool", ranks=(2,))
        if known_mask.shape != self.labels.shape:
            rule = f"{self.labels.shape}, one for each label of each record"
            raise InvalidValue("known.shape", known_mask.shape, rule=rule)
        num_true_but_unknown = np.count_nonzero(self.labels & ~known_mask)
        rule = "False where a label is not known"
        require(num_true_but_unknown == 0, "labels", f"{num_true_but_unknown} True", rule)
