"""The only pictures that features are ever fitted on: those of a public pool."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import Dataset, Pixels
from pate.validation import require, require_count, require_kind

_BLOCK = 256


class PublicPictures:
    """The first pictures of a data set's public pool.

    Formal guarantee: whoever holds one can reach no private or test record through it. It is made of a whole data set
    and keeps `Dataset.public.inputs` alone, so that no caller chooses which split a fit is shown.

    Args:
        dataset: of pictures.
        most: at most that many, the first ones.

    Attributes:
        inputs: `[n, channels, height, width]`, float32 as they are indexed.

    Raises:
        InvalidValue: a data set without pictures.
    """

    def __init__(self, dataset: Dataset, most: int = 10_000) -> None:
        require_kind("dataset", dataset, Dataset, "a pate.data.Dataset")
        require(dataset.kind == "images", "dataset.kind", dataset.kind, "a data set of pictures")
        self.inputs: Any = dataset.public.take(slice(0, require_count("most", most))).inputs

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        channels, height, width = self.inputs.shape[1:]
        return channels, height, width

    def blocks(self) -> Iterator[NDArray[np.float32]]:
        """All pictures in order, a few hundred at a time."""
        for first in range(0, len(self), _BLOCK):
            yield np.asarray(self.inputs[first : first + _BLOCK])

    def batches(self, size: int, advance: Callable[[int], None]) -> Iterator[NDArray[np.float32]]:
        """All pictures in order, `size` at a time; `advance` is told how many are done."""
        for first in range(0, len(self), size):
            rows = np.asarray(self.inputs[first : first + size], np.float32)
            yield rows
            advance(first + len(rows))

    def digest(self) -> str:
        """SHA-256 of the pictures in their order, in hexadecimal."""
        digest = hashlib.sha256(repr((len(self), self.shape)).encode())
        for first in range(0, len(self), _BLOCK):
            digest.update(block_bytes(self.inputs, first, first + _BLOCK))
        return digest.hexdigest()


def block_bytes(inputs: Any, first: int, last: int) -> memoryview:
    """Some pictures as they are kept: bytes where they are `Pixels`, else floats."""
    if isinstance(inputs, Pixels):
        return np.ascontiguousarray(inputs.levels[inputs.rows[first:last]]).data
    return np.ascontiguousarray(inputs[first:last]).data
