"""A command as a process: the signals that end it, its standard streams, and a machine that lacks memory or threads.

Signals end it within a second, a second one kills at once: what a run keeps is whole at any moment.
"""

from __future__ import annotations

import _thread
import atexit
import codecs
import io
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from pate.validation import InvalidValue

_ENDING = tuple(each for each in signal.Signals if each.name in ("SIGINT", "SIGTERM", "SIGHUP"))
_PATIENCE_S = 0.4
_TRACKER = b"resource_tracker"  # it cleans up behind its parent, then ends
# it would print what it cleaned up after our last line
_NO_WORD_OF_IT = "ignore:resource_tracker:UserWarning"
_STREAMS = {"stdin": "r", "stdout": "w", "stderr": "w"}  # by number
# the name of what writes characters that an output's encoding lacks
_PLAIN_LETTERS = "pate.plain_letters"
_IN_ASCII = {
    "\u2026": "...",
    "\u2013": "-",
    "\u2212": "-",
    "\u00b1": "+-",
    "\u00d7": "x",
    "\u2192": "->",
}
_IN_ASCII |= {
    "\u2018": "'",
    "\u2019": "'",
    "\u201c": '"',
    "\u201d": '"',
    "\u2022": "*",
    "\u00a0": " ",
}
_SHORTAGES = (  # what CPython and the dynamic loader say where they have no error of its own for it
    *("can't start new thread", "failed to map segment", "annot allocate memory"),
    *("without exception set", "without setting an exception"),
)


class Stopped(KeyboardInterrupt):
    """A signal that asked the command to end; `code` is the exit code, as a shell gives it: 130, 143 or 129."""

    def __init__(self, number: int) -> None:
        self.code = 128 + number
        how = (
            "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
        )
        super().__init__(f"{how}; the same command continues where it stopped")


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Has signals raise `Stopped` in the block; one that was ignored before, as under nohup, stays so.

    Where the block does not end soon, in a computation outside Python or at the program's end, another thread ends the
    process and all that it started. Trackers of shared resources that start after this clean up without a word.
    """
    if _NO_WORD_OF_IT not in sys.warnoptions:
        # Python processes that this one starts are given these options
        sys.warnoptions.append(_NO_WORD_OF_IT)
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
    """Starts a thread, without which the command goes on where there is none to be had."""
    # `threading.Thread.start` waits until the thread says that it runs: one that finds no memory to begin never does.
    try:
        _thread.start_new_thread(target, arguments)
    except (RuntimeError, MemoryError):
        return False
    return True


def _watch(reading: int, heard: list[signal.Signals]) -> None:
    """Ends the process some time after a signal, if it is still there; the pipe's end is the end of the block."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while told := pipe.read(1):
            if (number := told[0]) in heard:
                time.sleep(_PATIENCE_S)
                end_descendants()
                with suppress(OSError):
                    os.write(2, f"{Stopped(number)}\n".encode())
                os._exit(128 + number)


def leave(code: int) -> None:
    """Ends the process soon, with what was registered for its end; taking the interpreter down would take seconds."""

    def soon() -> None:
        time.sleep(_PATIENCE_S)
        os._exit(code)

    if _begun(soon):
        atexit._run_exitfuncs()
    os._exit(code)


def end_descendants() -> None:
    """Kills what this process started and what that started, where the system lists them in /proc."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            parent = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[1])
            if _TRACKER not in (folder / "cmdline").read_bytes():
                children.setdefault(parent, []).append(int(folder.name))
    waiting = [os.getpid()]
    while waiting:
        for process in children.get(waiting.pop(), []):
            waiting.append(process)
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)


class _Heedless(io.TextIOWrapper):
    """A stream that drops what it cannot write: a terminal that was closed ends no run."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            return super().write(text)
        _drop(self.fileno())
        return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            _drop(self.fileno())


def _drop(number: int) -> None:
    """Lets all that is written to a stream, and what waits in it, go nowhere from now on; opens one that is closed."""
    null = os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    if null != number:
        os.dup2(null, number)
        os.close(null)


def plain_letters(error: UnicodeError) -> tuple[str | bytes, int]:
    """Writes characters that an encoding lacks by those that look like them, or as an escape: for `codecs`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    written = (
        _IN_ASCII.get(each) or each.encode("ascii", "backslashreplace").decode("ascii")
        for each in text
    )
    return "".join(written), error.end


def mend_streams() -> None:
    """Opens closed standard streams on nothing, and lets the others write text that their encoding lacks.

    The next file would take the number of one that is closed. A terminal or pipe may know ASCII or Latin-1 alone.
    """
    codecs.register_error(_PLAIN_LETTERS, plain_letters)
    # of a stream that nobody reads, as behind `| head`, no traceback is logged
    logging.raiseExceptions = False
    for number in range(len(_STREAMS)):
        try:
            os.fstat(number)
        except OSError:
            _drop(number)
    for name, mode in _STREAMS.items():
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open to the end
    if type(sys.stdout) is io.TextIOWrapper:
        sys.stdout.reconfigure(errors=_PLAIN_LETTERS)
    if sys.stderr is sys.__stderr__ and type(sys.stderr) is io.TextIOWrapper:
        sys.stderr = _Heedless(
            sys.stderr.buffer, sys.stderr.encoding, _PLAIN_LETTERS, line_buffering=True
        )


def nobody_reads() -> bool:
    """Whether standard output is a closed pipe; what is left for it is dropped."""
    pipe = select.poll()
    pipe.register(sys.stdout.fileno(), 0)  # errors alone
    closed = any(flags & select.POLLERR for _, flags in pipe.poll(0))
    if closed:
        _drop(sys.stdout.fileno())
    return closed


def tell_shortages() -> None:
    """Has Python say in one line what is no fault of ours; a thread that found no memory is not missed."""
    before = sys.unraisablehook

    def unraised(unraised: sys.UnraisableHookArgs) -> None:
        if not isinstance(unraised.exc_value, MemoryError):
            before(unraised)

    def told(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        short = any(
            isinstance(each, MemoryError) or any(map(str(each).__contains__, _SHORTAGES))
            for each in causes(error)
        )
        if issubclass(kind, KeyboardInterrupt):  # also while a command is loading
            sys.stderr.write("interrupted\n")
        # no packages, or POSIX: raised before the command could be loaded
        elif issubclass(kind, InvalidValue):
            sys.stderr.write(f"{error}\n")
            sys.exit(2)
        elif short:
            line = (
                f"{kind.__name__}: {error}; the same command continues once there is "
                "more memory, and threads to start"
            )
            with suppress(OSError):
                os.write(2, " ".join(line.split()).encode(errors="backslashreplace") + b"\n")
        else:
            sys.__excepthook__(kind, error, traceback)

    sys.excepthook = told
    sys.unraisablehook = unraised


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those in whose wake it came, each once: OmegaConf's go round in circles."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
