"""The data of a comparison where it is needed: read once in every process, never sent to another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pate.data import Dataset
from pate.validation import require

_READ: dict[str, Dataset] = {}
"""What this process has read, by digest."""


@dataclass(frozen=True)
class SharedData:
    """A data set that each process reads for itself.

    Attributes:
        load_dataset: reads it.
        digest: of what was read first; another process that reads something else stops.
    """

    load_dataset: Callable[[], Dataset]
    digest: str

    @classmethod
    def of(cls, load_dataset: Callable[[], Dataset], dataset: Dataset) -> SharedData:
        """That of a data set that this process has read."""
        digest = dataset.digest()
        _READ.clear()
        _READ[digest] = dataset
        return cls(load_dataset, digest)

    @property
    def dataset(self) -> Dataset:
        """All of it."""
        if self.digest not in _READ:
            read = self.load_dataset()
            found = read.digest()
            require(found == self.digest, "data", found[:12], "the data that this comparison began with")
            _READ[found] = read
        return _READ[self.digest]
