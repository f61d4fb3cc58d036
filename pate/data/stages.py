"""Data sets that take long to read say how far they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, runtime_checkable

from pate.data.dataset import Dataset

Stage = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Announces a stage by its name and number of steps; inside, the callable is told how many are done."""


@runtime_checkable
class LoadsInStages(Protocol):
    """A data set that can be watched while it is read: `load()` and this one return the same."""

    def load_in_stages(self, stage: Stage) -> Dataset:
        """Reads the data set and announces what takes long."""


@contextmanager
def unwatched(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """A stage that nobody watches."""
    yield lambda done: None
