"""The progress of long computations: stages with steps, and monitors that show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

Advance = Callable[..., None]
"""A function that is called with the number of steps that are done, and optionally a note of a few words."""

# Steps that are reported within so many seconds of a stage's beginning count as steps of an earlier run.
_FIRST_MOMENT = 0.1


@dataclass
class Stage:
    """A stage of a long computation, with the number of its steps that are done.

    Attributes:
        name: the name of the stage.
        num_steps: the number of all steps; None if it is not known.
        start_time: the time when the stage began, in seconds of the caller's clock.
        num_done: the number of steps that are done.
        note: a few words about the last step; "" for none.
        num_done_before: the number of steps that count as done by an earlier run, which this run continues.
        first_step_time: the time of the last report without a step of this run, or else of the stage's beginning; the
            estimate of the time left counts from it.
    """

    name: str
    num_steps: int | None
    start_time: float
    num_done: int = 0
    note: str = ""
    num_done_before: int = 0
    first_step_time: float = field(init=False)

    def __post_init__(self) -> None:
        self.first_step_time = self.start_time

    def advance(self, num_done: int, note: str = "", *, current_time: float) -> None:
        """Records the number of steps that are done.

        Steps that are reported within 0.1 s of the beginning of the stage count as steps of an earlier run. The time up
        to the last report without a step of this run counts as preparation, and not for the estimate of what is left.

        Args:
            num_done: the number of steps that are done, with those of an earlier run.
            note: a few words about the last step.
            current_time: the time now, in seconds of the caller's clock.
        """
        if current_time - self.start_time < _FIRST_MOMENT:
            self.num_done_before = num_done
        if num_done == self.num_done_before:
            self.first_step_time = current_time
        self.num_done = num_done
        self.note = note

    def seconds_left(self, current_time: float) -> float | None:
        """Returns the estimated time of the remaining steps, in seconds.

        None is returned if the number of all steps is not known, or if this run has not done a step yet.
        """
        steps = self.num_done - self.num_done_before
        if self.num_steps is None or steps <= 0:
            return None
        seconds = current_time - self.first_step_time
        return seconds * max(self.num_steps - self.num_done, 0) / steps

    def line(self, current_time: float) -> str:
        """Returns a stage that has not ended as one line: its name, steps, time passed, estimate of the rest and note.

        What is not known is left out. Commas alone separate these parts. Only a stage that has ended has a colon behind
        its name, as in `NAME: 9.3 s`. So the name and the note should have no colon; this is not checked.

        >>> stage = Stage("training teachers", 100, start_time=0.0)
        >>> stage.advance(25, current_time=90.0)
        >>> stage.line(90.0)
        'training teachers, 25 of 100, 1 min 30 s passed, about 4 min 30 s left'
        """
        phrases = [f"{spelled_seconds(current_time - self.start_time)} passed"]
        if self.num_steps is not None:
            phrases.insert(0, f"{self.num_done} of {self.num_steps}")
        elif self.num_done:
            phrases.insert(0, f"step {self.num_done}")
        seconds_left = self.seconds_left(current_time)
        if seconds_left is not None:
            phrases.append(f"about {spelled_seconds(seconds_left)} left")
        if self.note:
            phrases.append(self.note)
        return ", ".join([self.name, *phrases])


def spelled_seconds(seconds: float) -> str:
    """Returns a duration in words: in seconds, minutes and seconds, or, from one hour on, hours and minutes.

    >>> spelled_seconds(9.7), spelled_seconds(600), spelled_seconds(3725)
    ('10 s', '10 min', '1 h 2 min')
    """
    minutes, whole_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    if minutes and whole_seconds:
        return f"{minutes} min {whole_seconds} s"
    return f"{minutes} min" if minutes else f"{whole_seconds} s"


class Monitor:
    """A monitor of long computations, which shows nothing; subclasses show progress, for example on a terminal."""

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Advance]:
        """Begins a stage for a `with` block, and yields a function that the block calls with the number of steps done.

        Args:
            name: the name of the stage.
            total: the number of all steps; None if it is not known.
        """
        yield _ignore

    def say(self, line: str) -> None:
        """Shows a line to the user at once; here, in the base class, it does nothing."""


StageOpener = Callable[[str, int | None], AbstractContextManager[Advance]]
"""A function that opens a stage by its name and number of steps, None if unknown: `Monitor.stage` or `unwatched`."""


def unwatched(name: str, total: int | None) -> AbstractContextManager[Advance]:
    """Begins a stage for a `with` block as `Monitor.stage` does, but shows nothing."""
    return nullcontext(_ignore)


def _ignore(done: int, note: str = "") -> None:
    """Ignores a report of progress: the number of steps done and a note."""
