"""Progress on the console: one line a stage, a bar where the number of steps is known."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pate.pipeline import Advance


class ConsoleMonitor:
    """Shows stages on standard error; a bar on a terminal, a line at the end of each stage anywhere."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Advance]:
        """A stage of `total` steps, or of unknown length."""
        started = time.monotonic()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        last = ""
        with Progress(*columns, console=self._console, transient=True, disable=not self._console.is_terminal) as bar:
            task = bar.add_task(name, total=total, note="")

            def advance(done: int, note: str = "") -> None:
                nonlocal last
                last = note
                bar.update(task, completed=done, note=note)

            yield advance
        end = f" ({last})" if last else ""
        self._console.print(f"{name}: {time.monotonic() - started:.1f} s{end}", style="dim")
