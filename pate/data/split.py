"""The records of one split: the private pool, the public pool or the test set."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pate.data.pixels import Pixels
from pate.files.arrays import row_blocks, take_rows
from pate.files.disk import file_identity
from pate.validation import InvalidValue, require, require_moderate

SPLITS = ("private", "public", "test")
"""The names of the splits, in the order in which readers read them."""


@dataclass(frozen=True, eq=False)
class Split:
    """Labeled records that play one role: the private pool, the public pool or the test set.

    Raises:
        InvalidValue: an array of another dtype, rank or length, masked, or without features or labels; inputs that are
            not finite, or beyond 1e12, whose squares have no sum in float32.
    """

    # float32 `[n, d]` features, or `[n, channels, height, width]` images in [0, 1], in whose place `Pixels` may stand.
    # Those of a large table are a read-only `np.memmap`, of which `take` reads some thousand rows at a time.
    inputs: NDArray[np.float32]
    labels: NDArray[np.bool_]  # bool `[n, num_labels]`; any number of labels may hold for a record
    record_ids: NDArray[np.int64]  # int64 `[n]`, the name of each record in its source
    # int64 `[n]`, what must stay together: records of one person, one text, one image
    group_ids: NDArray[np.int64]

    def __post_init__(self) -> None:
        self._require_form("inputs", "float32", ranks=(2, 3, 4))
        self._require_form("labels", "bool", ranks=(2,))
        self._require_form("record_ids", "int64", ranks=(1,))
        self._require_form("group_ids", "int64", ranks=(1,))
        if isinstance(self.inputs, np.ndarray):
            try:
                for block in row_blocks(self.inputs):
                    require_moderate("inputs", block)
            except InvalidValue:
                require_moderate("inputs", self.inputs)  # which names the place among all inputs
                raise

    def _require_form(self, name: str, dtype: str, *, ranks: tuple[int, ...]) -> None:
        array = getattr(self, name)
        is_array = isinstance(array, (np.ndarray, Pixels))
        is_plain = is_array and not isinstance(array, np.ma.MaskedArray)
        rule = "a numpy array; .filled(…) says what masked entries are"
        require(is_plain, name, type(array).__name__, rule)
        require(array.dtype == dtype, f"{name}.dtype", array.dtype, dtype)
        require(array.ndim in ranks, f"{name}.ndim", array.ndim, " or ".join(map(str, ranks)))
        rule = f"{len(self)}, one row for each input"
        require(len(array) == len(self), f"len({name})", len(array), rule)
        has_values = 0 not in array.shape[1:]
        require(has_values, f"{name}.shape", array.shape, "at least one value per record")

    @classmethod
    def from_pictures(
        cls,
        levels: NDArray[np.uint8],
        rows: NDArray[np.int64],
        *,
        labels: NDArray[np.bool_],
        record_ids: NDArray[np.int64],
        group_ids: NDArray[np.int64],
    ) -> Split:
        """Returns some of m pictures, which stay where they are as bytes, as a split.

        Args:
            levels: all pictures, uint8 `[m, channels, height, width]`.
            rows: which of the m pictures are in the split, int64 `[n]`, in this order.
            labels: of all pictures, bool `[m, num_labels]`.
            record_ids: of all pictures, int64 `[m]`.
            group_ids: of all pictures, int64 `[m]`.
        """
        # which reads like an array
        pixels = cast("NDArray[np.float32]", Pixels(levels, rows))
        return cls(pixels, labels[rows], record_ids[rows], group_ids[rows])

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def num_groups(self) -> int:
        """The number of groups. In a private split these are the units of privacy: there can be as many teachers."""
        return len(np.unique(self.group_ids))

    def take(self, rows: NDArray[np.int64] | slice) -> Split:
        """Returns the given rows, in the given order, as a split of their own."""
        return Split(
            take_rows(self.inputs, rows),
            self.labels[rows],
            self.record_ids[rows],
            self.group_ids[rows],
        )

    def digest(self) -> str:
        """Returns the SHA-256 digest of the records in the order of their ids, in hexadecimal. No epsilon covers it."""
        digest = hashlib.sha256(b"records")
        order = np.argsort(self.record_ids, kind="stable")
        inputs = self.inputs
        if isinstance(inputs, Pixels):
            inputs = Pixels(inputs.levels, inputs.rows[order])
        elif not np.array_equal(order, np.arange(len(order))):  # else without a copy
            inputs = inputs[order]
        for array in (self.record_ids[order], self.group_ids[order], self.labels[order], inputs):
            enter_array(digest, array)
        return digest.hexdigest()


def enter_array(digest: Any, array: Any) -> None:
    """Adds the shape and the bytes of an array to a digest."""
    digest.update(repr(array.shape).encode())
    enter_bytes(digest, array)


def enter_bytes(digest: Any, array: Any) -> None:
    """Adds the bytes of an array to a digest; of `Pixels` those of the levels."""
    for block in array.blocks() if isinstance(array, Pixels) else row_blocks(array):
        digest.update(np.ascontiguousarray(block).data)


def require_files_apart(paths: Mapping[str, Path | str]) -> None:
    """Raises `InvalidValue` where the files of two splits are one file, under whatever name or link.

    Args:
        paths: the file of each split, by the split's name.
    """
    split_of_file: dict[tuple[int, int] | str, str] = {}
    for split, path in paths.items():
        first_split = split_of_file.setdefault(file_identity(path), split)
        rule = f"another file than data.{first_split}: no record may be in two splits"
        require(first_split == split, f"data.{split}", path, rule)
