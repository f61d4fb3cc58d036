"""Monitors, which are told each stage of long work and its progress."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Advance(Protocol):
    """Reports the number of finished steps of a stage, in their order, and a few words about them."""

    def __call__(self, done: int, note: str = "") -> None: ...


class Monitor(Protocol):
    """Is told the progress of long work."""

    def stage(self, name: str, total: int | None = None) -> AbstractContextManager[Advance]:
        """Announces a stage of `total` steps; the callable tells how many are done."""

    def say(self, line: str) -> None:
        """Passes on what the user should know, at once."""


class NullMonitor:
    """A monitor that shows nothing."""

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Advance]:
        yield lambda done, note="": None

    def say(self, line: str) -> None:
        pass
