"""The features of private records in rounds, and where they lie: in memory, in a scratch file, or nowhere.

Features are whole numbers of steps of 2**-14 and at most 2**14, so they are stored as int16. They are private. A
scratch file has no name in any folder: nobody else can open it, and the operating system removes it when the process
ends, also when the process is killed. It is read by blocks and never mapped into memory, because pages of mapped files
count as memory of the process. Features that lie nowhere are made from the inputs anew in each round.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pate.array_types import Float32Array
from pate.errors import InvalidValue
from pate.files import array_rows
from pate.pool import in_order
from pate.votes.clipped_moments import FEATURE_STEPS
from pate.votes.public_pca import PublicPCA

Features = NDArray[np.int16]

_BLOCK_ROWS = 512  # rows whose features a thread computes at a time
_VECTOR_ROWS = 64  # a multiple of the numbers that a processor computes at once
_GIB = 2.0**30


@dataclass(frozen=True)
class FeatureSize:
    """The space that features take between rounds.

    Attributes:
        memory_bytes: bytes of memory.
        disk_bytes: bytes of a scratch file.
    """

    memory_bytes: int
    disk_bytes: int


@dataclass(frozen=True)
class FeatureStorage:
    """The choice of where the features of records lie between rounds.

    Attributes:
        keeps_features: whether features are made once and kept, in memory or, if they exceed 64 MiB, in a scratch
            file. False makes them anew in each round.
        folder: a folder of the disk on which the scratch file lies; None for the folder of large temporary files.
    """

    keeps_features: bool = True
    folder: Path | None = None

    def size_of(self, num_rows: int, num_features: int) -> FeatureSize:
        """Returns the space that the features of records take between rounds, which is 0 if features are not kept.

        Args:
            num_rows: the number of records.
            num_features: the number of features of a record.
        """
        num_bytes = (
            num_rows * num_features * np.dtype(np.int16).itemsize if self.keeps_features else 0
        )
        if num_bytes <= array_rows.MAX_BYTES_IN_MEMORY:
            return FeatureSize(memory_bytes=num_bytes, disk_bytes=0)
        return FeatureSize(memory_bytes=0, disk_bytes=num_bytes)

    def require_room(self, num_rows: int, num_features: int) -> None:
        """Raises `InvalidValue`, naming the setting `scratch`, if the disk has too little space for the features.

        Args:
            num_rows: the number of records.
            num_features: the number of features of a record.
        """
        num_bytes = self.size_of(num_rows=num_rows, num_features=num_features).disk_bytes
        if num_bytes == 0:
            return
        free_bytes = shutil.disk_usage(self.folder or array_rows.scratch_folder()).free
        if num_bytes >= free_bytes:
            rule = f"false, or {num_bytes / _GIB:.1f} GiB free on the disk; there are {free_bytes / _GIB:.1f}"
            raise InvalidValue(name="scratch", value=self.keeps_features, rule=rule)

    def empty_rows(self) -> array_rows.Spilled:
        """Returns an empty place for the features of records; for their inputs, in memory, if features are not kept."""
        if self.keeps_features:
            return array_rows.Spilled(array_rows.MAX_BYTES_IN_MEMORY, folder=self.folder)
        return array_rows.Spilled(most_bytes=math.inf)


DEFAULT_STORAGE = FeatureStorage()
"""Features are kept; a scratch file lies in the folder of large temporary files."""


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class FeaturesMadeAnew:
    """The features of records, computed from the inputs at each reading, and not kept in memory.

    Attributes:
        public_pca: the principal directions of the public inputs, along which features are computed.
        read_inputs: returns the inputs of the rows of a slice, float32 `[n, ...]`; threads call it at the same time.
    """

    public_pca: PublicPCA
    read_inputs: Callable[[slice], Float32Array]

    def __getitem__(self, row_range: slice) -> Features:
        """Returns the features of a range of rows, int16 `[n, num_features]`."""
        feature_arrays = feature_blocks(self.public_pca, record_inputs=self.read_inputs(row_range))
        return np.concatenate(list(feature_arrays))


def feature_blocks(public_pca: PublicPCA, *, record_inputs: Float32Array) -> Iterator[Features]:
    """Yields the features of inputs in order, in blocks of at most 512 rows; threads compute several blocks at a time.

    Args:
        public_pca: the directions of the public pool, along which features are computed.
        record_inputs: float32 `[num_rows, ...]`.
    """
    starts = range(0, len(record_inputs), _BLOCK_ROWS)
    blocks_of_record_inputs = (record_inputs[start : start + _BLOCK_ROWS] for start in starts)
    return in_order(partial(whole_features, public_pca), items=blocks_of_record_inputs)


def whole_features(public_pca: PublicPCA, record_inputs: Float32Array) -> Features:
    """Returns the features of inputs in steps of 2**-14, int16 `[num_rows, num_features]`.

    Entries are rounded towards 0, so that no row becomes longer than 1. While features are computed, rows of zeros are
    appended up to a multiple of 64 rows. So no record is among the numbers that are left over at the end of an array,
    which some processors compute in another way.

    Args:
        public_pca: the directions of the public pool, along which features are computed.
        record_inputs: float32 `[num_rows, ...]`.
    """
    num_missing_rows = -len(record_inputs) % _VECTOR_ROWS
    padding = np.zeros((num_missing_rows, *record_inputs.shape[1:]), dtype=record_inputs.dtype)
    features = public_pca.with_constant(np.concatenate([record_inputs, padding]))[
        : len(record_inputs)
    ]
    features *= FEATURE_STEPS
    return features.astype(np.int16)  # rounds towards 0
