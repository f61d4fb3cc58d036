"""Long work in stages: how far a stage is, and monitors, which are told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

# told how many steps of a stage are done, in their order, and a few words about them
Advance = Callable[..., None]

_FIRST_MOMENT = 0.1  # seconds


@dataclass
class Stage:
    """A stage of long work, and how far it is."""

    name: str
    total: int | None  # steps; None where nobody knows
    started: float  # seconds, by whatever clock
    done: int = 0  # steps
    note: str = ""  # a few words about the last step
    found: int = 0  # steps that were done before the stage began

    def advance(self, done: int, note: str = "", *, now: float) -> None:
        """Notes how many steps are done; those of the first moment were done before, by a run that was stopped."""
        if now - self.started < _FIRST_MOMENT:
            self.found = done
        self.done = done
        self.note = note

    def seconds_left(self, now: float) -> float | None:
        """Returns how long the steps that are left take if they take as long as those before; None if unknown."""
        steps = self.done - self.found
        if self.total is None or steps <= 0:
            return None
        return (now - self.started) * max(self.total - self.done, 0) / steps

    def line(self, now: float) -> str:
        """Returns the stage in a line: its name, the steps done, the time that passed and that is about left.

        >>> stage = Stage("training teachers", 100, started=0.0)
        >>> stage.advance(25, now=90.0)
        >>> stage.line(90.0)
        'training teachers: 25 of 100, 1 min 30 s passed, about 4 min 30 s left'
        """
        parts = [f"{spelled_seconds(now - self.started)} passed"]
        if self.total is not None:
            parts.insert(0, f"{self.done} of {self.total}")
        elif self.done:
            parts.insert(0, f"step {self.done}")
        left = self.seconds_left(now)
        if left is not None:
            parts.append(f"about {spelled_seconds(left)} left")
        if self.note:
            parts.append(self.note)
        return f"{self.name}: {', '.join(parts)}"


def spelled_seconds(seconds: float) -> str:
    """Returns a duration in words.

    >>> spelled_seconds(9.7), spelled_seconds(600), spelled_seconds(3725)
    ('10 s', '10 min', '1 h 2 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    if minutes:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{rest} s"


class Monitor:
    """Is told the progress of long work; this one shows nothing."""

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Advance]:
        """Announces a stage of `total` steps; the callable tells how many are done."""
        yield lambda done, note="": None

    def say(self, line: str) -> None:
        """Passes on what the user should know, at once."""


StageOpener = Callable[[str, int], AbstractContextManager[Advance]]
"""A function that opens a stage by its name and number of steps, such as `Monitor.stage`; see `unwatched`."""


def unwatched(name: str, total: int) -> AbstractContextManager[Advance]:
    """Opens a stage that nobody watches."""
    return nullcontext(_ignore)


def _ignore(done: int, note: str = "") -> None:
    """Ignores the progress of a stage."""
