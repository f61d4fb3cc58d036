"""Monitors, which are told each stage of long work and its progress."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[..., None]  # told how many steps of a stage are done, in their order, and a few words about them


class Monitor:
    """Is told the progress of long work; this one shows nothing."""

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Advance]:
        """Announces a stage of `total` steps; the callable tells how many are done."""
        yield lambda done, note="": None

    def say(self, line: str) -> None:
        """Passes on what the user should know, at once."""
