"""Signals that end a command: Ctrl-C, SIGTERM and SIGHUP, within a second; a second one kills at once.

What a run keeps is whole at any moment, so that every end is as safe as a kill.
"""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATIENCE_S = 0.4
_TRACKER = b"resource_tracker"  # it cleans up behind its parent, then ends
_NO_WORD_OF_IT = "ignore:resource_tracker:UserWarning"  # it would print what it cleaned up after our last line


class Stopped(KeyboardInterrupt):
    """A signal that asked the command to end.

    Attributes:
        number: which.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(said_of(number))

    @property
    def code(self) -> int:
        """The exit code, as a shell gives it: 130, 143 or 129."""
        return 128 + self.number


def said_of(number: int) -> str:
    """The line that a command ends with."""
    how = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
    return f"{how}; the same command continues where it stopped"


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Has signals raise `Stopped` in the block; one that was ignored before, as under nohup, stays so.

    The block may not end soon: it is in a long computation outside Python, or waits for others at the program's end.
    Then another thread ends the process and all that it started, if the machine has one to give.
    Trackers of shared resources that start after this clean up without a word.
    """
    if _NO_WORD_OF_IT not in sys.warnoptions:
        sys.warnoptions.append(_NO_WORD_OF_IT)  # Python processes that this one starts are given these options
    before = {number: signal.getsignal(number) for number in _ENDING}
    heard = [number for number, how in before.items() if how not in (signal.SIG_IGN, None)]
    if threading.current_thread() is not threading.main_thread() or not heard:
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def stop(number: int, frame: FrameType | None) -> None:
        for each in heard:
            signal.signal(each, signal.SIG_DFL)
        raise Stopped(number)

    _begun(_watch, reading, heard)
    waker = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in heard:
        signal.signal(number, stop)
    try:
        yield
    finally:
        signal.set_wakeup_fd(waker)
        os.close(writing)
        for number in heard:
            if signal.getsignal(number) is stop:
                signal.signal(number, before[number])


def _begun(target: Callable[..., None], *arguments: Any) -> bool:
    """Starts a thread, without which the command goes on where there is none to be had.

    `threading.Thread.start` waits until the thread says that it runs: one that finds no memory to begin with never
    does.
    """
    try:
        _thread.start_new_thread(target, arguments)
    except (RuntimeError, MemoryError):
        return False
    return True


def _leave_soon(code: int) -> None:
    time.sleep(_PATIENCE_S)
    os._exit(code)


def _watch(reading: int, heard: list[signal.Signals]) -> None:
    """Ends the process some time after a signal, if it is still there; the pipe's end is the end of the block."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while told := pipe.read(1):
            if told[0] in heard:
                time.sleep(_PATIENCE_S)
                _end(told[0])


def end_descendants() -> None:
    """Kills what this process started and what that started."""
    for process in descendants(os.getpid()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)


def leave(code: int) -> None:
    """Ends the process with what was registered for its end, such as the semaphores of workers, but no later than soon.

    What is kept is whole. Taking the interpreter down, torch and its threads included, would take seconds.
    """
    if not _begun(_leave_soon, code):
        os._exit(code)
    atexit._run_exitfuncs()
    os._exit(code)


def _end(number: int) -> None:
    end_descendants()
    with suppress(OSError):
        os.write(2, said_of(number).encode() + b"\n")
    os._exit(128 + number)


def descendants(process: int) -> list[int]:
    """The processes that a process started, and those that they started, where the system lists them in /proc."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            parent = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[1])
            if _TRACKER not in (folder / "cmdline").read_bytes():
                children.setdefault(parent, []).append(int(folder.name))
    found, waiting = [], [process]
    while waiting:
        started = children.get(waiting.pop(), [])
        found += started
        waiting += started
    return found
