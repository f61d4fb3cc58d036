"""What a command says on the console: its product, and progress, one line a stage, a bar where steps are counted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from pate.data import Dataset
from pate.data.dataset import read
from pate.report.console import PlainConsole
from pate.run.progress import Advance, Monitor, NullMonitor
from pate.validation import require

PRIVATE = "private: no epsilon covers it. It has mode 0600; send it to the aggregator alone, over an encrypted channel"
"""Of a file that a holder sends."""


def print_lines(*lines: str) -> None:
    """Prints lines as they are: nothing in them is markup, and none is cut at the terminal's width."""
    console = PlainConsole(highlight=False)
    for line in lines:
        console.print(Text(line), soft_wrap=True)


class ConsoleMonitor:
    """Shows stages on standard error; a bar on a terminal, a line at the end of each stage anywhere.

    Sent to another process, as with the data that a comparison's workers read for themselves, it shows nothing there.
    """

    def __init__(self, console: Console | None = None) -> None:
        real = sys.stderr.isatty()  # FORCE_COLOR, which notebooks set, is not a wish for bars that move
        self._console = console or PlainConsole(stderr=True, highlight=False, force_terminal=real)
        self._bar: Progress | None = None  # of the outer stage, where one is inside another

    def __reduce__(self) -> tuple[type[NullMonitor], tuple[()]]:
        return NullMonitor, ()

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Advance]:
        """A stage of `total` steps, or of unknown length."""
        started = time.monotonic()
        last = ""
        with self._bars() as bar:
            task = bar.add_task(name, total=total, note="")

            def advance(done: int, note: str = "") -> None:
                nonlocal last
                last = note
                bar.update(task, completed=done, note=note)

            yield advance
            bar.remove_task(task)
        end = f" ({last})" if last else ""
        self._console.print(f"{name}: {time.monotonic() - started:.1f} s{end}", style="dim")

    def say(self, line: str) -> None:
        """A line of its own."""
        self._console.print(line, style="yellow", markup=False, soft_wrap=True)

    @contextmanager
    def _bars(self) -> Iterator[Progress]:
        """The bars on the console, of which there can be one set at a time."""
        if self._bar is not None:
            yield self._bar
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=self._console, transient=True, disable=not self._console.is_terminal) as bar:
            self._bar = bar
            try:
                yield bar
            finally:
                self._bar = None


def watched_load(data: Any, monitor: Monitor) -> Callable[[], Dataset]:
    """How a data set is read, with its stages shown where it has some.

    Raises:
        InvalidValue: no data set, or one of which a setting is missing. It is said here, before anything else is made,
            because a teacher loads torch.
    """
    rule = "a class whose load() gives a pate.data.Dataset"
    require(callable(getattr(data, "load", None)), "data", type(data).__name__, rule)
    if (require_settings := getattr(data, "require_settings", None)) is not None:
        require_settings()
    return partial(read, data, monitor.stage)
