"""The features of private records in rounds, and where they lie: in memory, in a scratch file, or nowhere.

Features are whole numbers of steps of 2**-14 and at most 2**14, so they are stored as int16. They are private. A
scratch file has no name in any folder: nobody else can open it, and the operating system removes it when the process
ends, also when the process is killed. It is read by blocks and never mapped into memory, because pages of mapped files
count as memory of the process. Features that lie nowhere are made from the inputs anew in each round.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pate.pool import in_order
from pate.validation import require
from pate.votes.clipped_moments import FEATURE_STEPS
from pate.votes.public_pca import PublicPCA

Features = NDArray[np.int16]
Floats = NDArray[np.float32]

_LARGEST_IN_MEMORY = 2**26  # bytes of features; more lie in a scratch file
_MADE_AT_ONCE = 2048  # rows
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
        is_kept: whether features are made once and stored. False makes them anew in each round.
        folder: a folder of the disk on which the scratch file lies; None for the disk of temporary files.
    """

    is_kept: bool = True
    folder: Path | None = None

    def size_of(self, num_rows: int, width: int) -> FeatureSize:
        """Returns the space that the features of records take between rounds.

        Args:
            num_rows: the number of records.
            width: the number of features of a record.
        """
        num_bytes = _num_bytes(num_rows, width) if self.is_kept else 0
        if num_bytes <= _LARGEST_IN_MEMORY:
            return FeatureSize(memory_bytes=num_bytes, disk_bytes=0)
        return FeatureSize(memory_bytes=0, disk_bytes=num_bytes)

    def require_room(self, num_rows: int, width: int) -> None:
        """Raises `InvalidValue` for the argument `scratch` if the disk has too little space for the features.

        Args:
            num_rows: the number of records.
            width: the number of features of a record.
        """
        num_bytes = self.size_of(num_rows, width).disk_bytes
        if num_bytes == 0:
            return
        free = shutil.disk_usage(self.folder or tempfile.gettempdir()).free
        rule = f"false, or {num_bytes / _GIB:.1f} GiB free on the disk; there are {free / _GIB:.1f}"
        require(num_bytes < free, "scratch", True, rule)

    def empty_rows(self, num_rows: int, directions: PublicPCA) -> FeatureRows:
        """Returns an empty place for the features of `num_rows` records along public directions."""
        if not self.is_kept:
            return _InputsInMemory(num_rows, directions)
        if self.size_of(num_rows, directions.width + 1).disk_bytes == 0:
            return _FeaturesInMemory(num_rows, directions)
        return _FeaturesInFile(directions, folder=self.folder)


DEFAULT_STORAGE = FeatureStorage()
"""Features are kept; a scratch file lies on the disk of temporary files."""


class FeatureRows(ABC):
    """The features of records in steps of 2**-14, int16 `[num_rows, num_features]`, read by ranges of rows."""

    @abstractmethod
    def append(self, inputs: Floats) -> None:
        """Adds the features of the next rows.

        Args:
            inputs: float32 `[n, ...]`, the inputs of these rows.
        """

    @abstractmethod
    def read(self, rows: slice) -> Features:
        """Returns the features of a range of rows, which the caller does not change; threads may read at a time."""

    @abstractmethod
    def close(self) -> None:
        """Releases memory and files; nothing can be read afterwards."""


class _FeaturesInMemory(FeatureRows):
    """Features in an array."""

    def __init__(self, num_rows: int, directions: PublicPCA) -> None:
        self._directions = directions
        self._array = np.empty((num_rows, directions.width + 1), dtype=np.int16)
        self._num_stored = 0

    def append(self, inputs: Floats) -> None:
        for features in _blocks_of_features(self._directions, inputs):
            end = self._num_stored + len(features)
            self._array[self._num_stored : end] = features
            self._num_stored = end

    def read(self, rows: slice) -> Features:
        return self._array[rows]

    def close(self) -> None:
        del self._array


class _FeaturesInFile(FeatureRows):
    """Features in a scratch file without a name."""

    def __init__(self, directions: PublicPCA, folder: Path | None) -> None:
        self._directions = directions
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - `close` closes it

    def append(self, inputs: Floats) -> None:
        for features in _blocks_of_features(self._directions, inputs):
            remaining = features.reshape(-1).view(np.uint8).data
            while remaining:
                remaining = remaining[self._file.write(remaining) :]

    def read(self, rows: slice) -> Features:
        width = self._directions.width + 1
        features = np.empty((rows.stop - rows.start, width), dtype=np.int16)
        remaining = features.reshape(-1).view(np.uint8).data
        offset = _num_bytes(rows.start, width)
        while remaining:
            num_read = os.preadv(self._file.fileno(), [remaining], offset)
            if num_read == 0:
                raise EOFError("the scratch file of features ends before its last row")
            remaining = remaining[num_read:]
            offset += num_read
        return features

    def close(self) -> None:
        self._file.close()


class FeaturesMadeAnew(FeatureRows):
    """Features that are made from inputs whenever they are read."""

    def __init__(self, directions: PublicPCA, read_inputs: Callable[[slice], Floats]) -> None:
        """Keeps the directions and the function.

        Args:
            directions: the public directions.
            read_inputs: returns the inputs of a range of rows, float32 `[n, ...]`; threads call it at the same time.
        """
        self._directions = directions
        self._read_inputs = read_inputs

    def append(self, inputs: Floats) -> None:
        """Does nothing, as the inputs of all rows can be read."""

    def read(self, rows: slice) -> Features:
        """Returns the features of a range of rows, which are made now."""
        return np.concatenate(list(_blocks_of_features(self._directions, self._read_inputs(rows))))

    def close(self) -> None:
        """Does nothing, as nothing is stored."""


class _InputsInMemory(FeaturesMadeAnew):
    """Features that are made from inputs in memory whenever they are read."""

    def __init__(self, num_rows: int, directions: PublicPCA) -> None:
        super().__init__(directions, self._inputs_of)
        self._num_rows = num_rows
        self._num_stored = 0

    def append(self, inputs: Floats) -> None:
        if self._num_stored == 0:
            shape = (self._num_rows, *inputs.shape[1:])
            self._inputs: Floats = np.empty(shape, dtype=np.float32)
        end = self._num_stored + len(inputs)
        self._inputs[self._num_stored : end] = inputs
        self._num_stored = end

    def _inputs_of(self, rows: slice) -> Floats:
        return self._inputs[rows]


def whole_features(directions: PublicPCA, inputs: Floats) -> Features:
    """Returns the features of inputs in steps of 2**-14, int16 `[num_rows, num_features]`.

    Entries are rounded towards 0, so that no row becomes longer than 1. Rows of zeros are appended while features are
    computed. So a record is never among the last numbers of an array, which some processors compute in another way.

    Args:
        directions: the public directions.
        inputs: float32 `[num_rows, ...]`.
    """
    missing = -len(inputs) % _VECTOR_ROWS
    padding = np.zeros((missing, *inputs.shape[1:]), dtype=inputs.dtype)
    features = directions.with_constant(np.concatenate([inputs, padding]))[: len(inputs)]
    features *= FEATURE_STEPS
    return features.astype(np.int16)  # rounds towards 0


def _blocks_of_features(directions: PublicPCA, inputs: Floats) -> Iterator[Features]:
    starts = range(0, len(inputs), _MADE_AT_ONCE)
    blocks = (inputs[start : start + _MADE_AT_ONCE] for start in starts)
    return in_order(partial(whole_features, directions), items=blocks)


def _num_bytes(num_rows: int, width: int) -> int:
    return num_rows * width * np.dtype(np.int16).itemsize
