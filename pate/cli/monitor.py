"""The progress monitor of the console: bars on a terminal, lines in a log."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from pate.progress import Advance, Monitor, Stage
from pate.report.console import PlainConsole

# The time between two lines of a log, in seconds.
_SECONDS_BETWEEN_LINES = 20.0
# The shortest wait between two looks at the stages, in seconds; the clock may have passed the due time already.
_MIN_WAIT_S = 0.01
# The name of the thread that shows stages which report nothing for a while.
_WATCHER_NAME = "stages"


class ConsoleMonitor(Monitor):
    """A monitor that shows the progress of stages on standard error.

    On a terminal each stage has a progress bar. Elsewhere a line is printed every 20 s. At the end of a stage that took
    at least `shown_after` seconds and raised no error, a line remains. If the monitor is pickled for another process,
    the copy is a `Monitor` that shows nothing.

    Args:
        console: the console to print on; None for standard error.
        shown_after: a stage that ends within this number of seconds leaves no line.
        clock: returns the time in seconds.
        watches: whether a thread shows stages that report nothing for a while. Without it, `show_if_due` does.
    """

    def __init__(
        self,
        console: Console | None = None,
        *,
        shown_after: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        watches: bool = True,
    ) -> None:
        # Rich would also look at FORCE_COLOR, which notebooks set. A notebook has no room for moving bars.
        is_terminal = sys.stderr.isatty()
        self._console = console or PlainConsole(
            stderr=True, highlight=False, force_terminal=is_terminal
        )
        self._shown_after = shown_after
        self._clock = clock
        self._watches = watches
        self._open_stages: list[Stage] = []  # the innermost stage last
        self._lock = threading.Lock()
        self._last_line_time = clock()
        self._all_stages_ended = threading.Event()
        self._watcher: threading.Thread | None = None
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )

    def __reduce__(self) -> tuple[type[Monitor], tuple[()]]:
        """Returns a monitor that shows nothing, for pickling: worker processes do not write to this screen."""
        return Monitor, ()

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Advance]:
        """Opens a stage, shows it, and yields a function that the `with` block calls with the number of steps done.

        Args:
            name: the name of the stage.
            total: the number of steps; None if it is unknown.
        """
        opened_stage = Stage(name, num_steps=total, start_time=self._clock())
        task = self._bars.add_task(name, total=total, note="")

        def advance(done: int, note: str = "") -> None:
            opened_stage.advance(done, note, current_time=self._clock())
            self._bars.update(task, completed=done, note=note)
            self.show_if_due()

        self._begin(opened_stage)
        try:
            yield advance
        finally:
            self._bars.remove_task(task)
            self._end(opened_stage)
        seconds = self._clock() - opened_stage.start_time
        if seconds >= self._shown_after:
            note = f" ({opened_stage.note})" if opened_stage.note else ""
            self._print(line=f"{name}: {seconds:.1f} s{note}", style="dim")

    def say(self, line: str) -> None:
        """Prints a line that belongs to no stage."""
        self._print(line, style="yellow")

    def show_if_due(self) -> float:
        """Prints the progress of the innermost stage if no line was printed for 20 s.

        A terminal has bars, and nothing is printed there. Returns the time at which the next line is due, by `clock`,
        in seconds.
        """
        with self._lock:
            now = self._clock()
            due_time = self._last_line_time + _SECONDS_BETWEEN_LINES
            line = ""
            if now >= due_time:
                self._last_line_time = now
                due_time = now + _SECONDS_BETWEEN_LINES
                if self._open_stages and not self._console.is_terminal:
                    line = self._open_stages[-1].line(now)
        if line:
            self._console.print(line, style="dim", markup=False, soft_wrap=True)
        return due_time

    def _begin(self, stage: Stage) -> None:
        """Opens a stage. With the first open one, the bars start on a terminal, and elsewhere the watching thread."""
        is_first = not self._open_stages
        self._open_stages.append(stage)
        self._bars.start()
        if is_first and self._watches and not self._console.is_terminal:
            self._last_line_time = self._clock()
            self._all_stages_ended = threading.Event()
            self._watcher = threading.Thread(
                target=self._watch, args=(self._all_stages_ended,), name=_WATCHER_NAME, daemon=True
            )
            self._watcher.start()

    def _end(self, stage: Stage) -> None:
        """Closes a stage. With the last open stage, the bars and the thread that watches stages end."""
        self._open_stages.remove(stage)
        if not self._open_stages:
            self._bars.stop()
            self._all_stages_ended.set()
            if self._watcher is not None:
                self._watcher.join()
                self._watcher = None

    def _watch(self, all_stages_ended: threading.Event) -> None:
        """Calls `show_if_due` whenever a line is due, until `all_stages_ended` is set; has a thread of its own."""
        has_ended = False
        while not has_ended:
            seconds_until_due = self.show_if_due() - self._clock()
            has_ended = all_stages_ended.wait(timeout=max(seconds_until_due, _MIN_WAIT_S))

    def _print(self, line: str, style: str) -> None:
        """Prints a line at once in a style of Rich; the next line on progress follows after 20 s at the earliest."""
        with self._lock:
            self._last_line_time = self._clock()
        self._console.print(line, style=style, markup=False, soft_wrap=True)
