"""The progress of stages of long work, shown by a false clock, so that no test waits."""

import io
import threading

import pytest
from rich.console import Console

from pate.cli.monitor import ConsoleMonitor
from pate.progress import Stage, spelled_seconds


class Clock:
    """A clock that stands still unless a test moves it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("seconds", "spelled"),
    [(0.4, "0 s"), (59.6, "1 min"), (61, "1 min 1 s"), (3600, "1 h 0 min"), (7380, "2 h 3 min")],
)
def test_durations_in_words(seconds: float, spelled: str) -> None:
    """A number of seconds is spelled in hours, minutes and seconds."""
    assert spelled_seconds(seconds) == spelled


def test_the_time_left_counts_the_steps_of_this_process_alone() -> None:
    """The time left is estimated from the steps of this process: if 20 teachers took 60 s, 40 more take 120 s.

    Of 100 teachers, 40 were there at the start.
    """
    stage = Stage(name="training teachers", num_steps=100, start_time=5.0)
    stage.advance(40, current_time=5.0)
    assert stage.seconds_left(current_time=5.0) is None
    stage.advance(60, current_time=65.0)
    assert (
        stage.line(current_time=65.0)
        == "training teachers, 60 of 100, 1 min passed, about 2 min left"
    )


def test_the_time_left_does_not_count_preparations() -> None:
    """The time left does not count preparations: if the first of 10 rounds takes 2 s, the other nine take 18 s.

    Making features takes a minute before.
    """
    stage = Stage(name="releasing", num_steps=10, start_time=0.0)
    stage.advance(0, "half of the features", current_time=30.0)
    stage.advance(0, "all features", current_time=60.0)
    assert stage.seconds_left(current_time=61.0) is None
    stage.advance(1, current_time=62.0)
    assert stage.seconds_left(current_time=62.0) == 18.0


def test_a_stage_of_unknown_length_says_its_step_and_the_time() -> None:
    """A stage without a number of steps shows its step, the time passed and the note."""
    stage = Stage(name="training the student", num_steps=None, start_time=0.0)
    assert stage.line(current_time=30.0) == "training the student, 30 s passed"
    stage.advance(7, "loss 0.2", current_time=40.0)
    assert stage.line(current_time=41.0) == "training the student, step 7, 41 s passed, loss 0.2"


def _unwatched_monitor(console: Console, clock: Clock, shown_after: float = 0.0) -> ConsoleMonitor:
    """Returns a monitor of a console, with no thread that watches its stages."""
    return ConsoleMonitor(console, clock=clock, watches=False, shown_after=shown_after)


def _shown_lines(console: Console) -> list[str]:
    """Returns the lines that were written to a console."""
    return [line for line in console.file.getvalue().splitlines() if line]


def test_without_a_terminal_a_line_comes_at_least_every_30_s() -> None:
    """Without a terminal, the innermost stage prints a line at least every 30 s.

    No such line comes 10 s after another. A stage that ends prints its time at once.
    """
    console = Console(file=io.StringIO(), width=200)
    clock = Clock()
    monitor = _unwatched_monitor(console=console, clock=clock)
    with monitor.stage("releases and students", total=4) as advance:
        due = monitor.show_if_due()
        assert due <= 30
        assert not _shown_lines(console)
        clock.seconds = due
        advance(1)
        assert _shown_lines(console) == [
            "releases and students, 1 of 4, 20 s passed, about 1 min left"
        ]
        with monitor.stage("training the student"):
            clock.seconds += 10
            monitor.show_if_due()
            assert len(_shown_lines(console)) == 1
            clock.seconds += 15
            monitor.show_if_due()
            assert _shown_lines(console)[1:] == ["training the student, 25 s passed"]
    assert _shown_lines(console)[2:] == [
        "training the student: 25.0 s",
        "releases and students: 45.0 s",
    ]


def test_on_a_terminal_bars_are_shown_and_no_such_lines() -> None:
    """On a terminal a stage has a bar, and no lines with the time passed."""
    console = Console(file=io.StringIO(), width=200, force_terminal=True)
    clock = Clock()
    monitor = _unwatched_monitor(console=console, clock=clock)
    with monitor.stage("training teachers", total=2) as advance:
        clock.seconds = 60.0
        advance(1)
    assert "passed" not in console.file.getvalue()
    assert "/2" in console.file.getvalue()  # the number of steps beside the bar


def test_a_thread_looks_after_silent_stages_and_ends_with_them() -> None:
    """While stages run, one thread watches them, and afterwards there is none."""

    def watchers() -> int:
        return sum(thread.name == "stages" for thread in threading.enumerate())

    monitor = ConsoleMonitor(Console(file=io.StringIO(), width=200))
    with monitor.stage("outer"), monitor.stage("inner"):
        assert watchers() == 1
    assert watchers() == 0


def test_a_monitor_can_leave_out_short_stages() -> None:
    """With `shown_after=2`, a stage of 1 s prints no line, and a stage of 3 s prints one."""
    console = Console(file=io.StringIO(), width=200)
    clock = Clock()
    monitor = _unwatched_monitor(console=console, clock=clock, shown_after=2.0)
    with monitor.stage("pricing the release"):
        clock.seconds = 1.0
    with monitor.stage("searching for settings that work"):
        clock.seconds = 4.0
    assert _shown_lines(console) == ["searching for settings that work: 3.0 s"]
