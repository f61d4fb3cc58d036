"""A command as a process: signals, standard streams, and lack of memory or threads.

A signal ends a command within a second, and a second signal kills it at once. The files of a run are complete at any
moment, so nothing is lost.
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

# The signals that end a command. Windows has no SIGHUP.
_ENDING_SIGNALS = tuple(
    number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP")
)
# The time between a signal and the end of a process that does not react to it, in seconds.
_SECONDS_UNTIL_FORCED_END = 0.4
# A word in the command line of Python's trackers of shared memory. A tracker cleans up after its parent, then ends.
_TRACKER = b"resource_tracker"
# An option -W for Python, which keeps the trackers from printing warnings after our last line.
_SILENT_TRACKER = "ignore:resource_tracker:UserWarning"
# The standard streams in the order of their file descriptors, with the modes that they are opened in.
_STREAMS = {"stdin": "r", "stdout": "w", "stderr": "w"}
# The name of the error handler that writes characters which an output's encoding lacks.
_PLAIN_LETTERS = "pate.plain_letters"
# Similar ASCII text for characters that messages and names of files often have.
_IN_ASCII = {
    "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{EN DASH}": "-",
    "\N{MINUS SIGN}": "-",
    "\N{PLUS-MINUS SIGN}": "+-",
    "\N{MULTIPLICATION SIGN}": "x",
    "\N{RIGHTWARDS ARROW}": "->",
    "\N{LEFT SINGLE QUOTATION MARK}": "'",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
    "\N{BULLET}": "*",
    "\N{NO-BREAK SPACE}": " ",
}
# Parts of messages of CPython and the dynamic loader, which have no error class for a lack of memory or threads.
_SHORTAGES = (
    "can't start new thread",
    "failed to map segment",
    "annot allocate memory",
    "without exception set",
    "without setting an exception",
)


class Stopped(KeyboardInterrupt):
    """An exception that is raised when a signal asks the command to end.

    Attributes:
        code: the exit code as a shell reports it: 130, 143 or 129.
    """

    def __init__(self, signal_number: int) -> None:
        self.code = 128 + signal_number
        reason = f"ended by {signal.Signals(signal_number).name}"
        if signal_number == signal.SIGINT:
            reason = "interrupted"
        super().__init__(f"{reason}; the same command continues where it stopped")


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Makes SIGINT, SIGTERM and SIGHUP raise `Stopped` within the block.

    A signal that was ignored before, as under nohup, stays ignored. If the process does not end soon after a signal,
    even if the block does, another thread ends the process and all its descendants. Python's trackers of shared memory
    that start later then clean up without a message. Outside the main thread no signal is handled.
    """
    if _SILENT_TRACKER not in sys.warnoptions:
        # Python passes these options on to the processes that it starts.
        sys.warnoptions.append(_SILENT_TRACKER)
    handlers_before = {number: signal.getsignal(number) for number in _ENDING_SIGNALS}
    handled_signals = [
        number
        for number, handler in handlers_before.items()
        if handler not in (signal.SIG_IGN, None)
    ]
    # Python lets no other thread than the main one set handlers.
    is_main_thread = threading.current_thread() is threading.main_thread()
    if not is_main_thread or not handled_signals:
        yield
        return
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)

    def stop(signal_number: int, frame: FrameType | None) -> None:
        for number in handled_signals:  # a second signal kills at once
            signal.signal(number, signal.SIG_DFL)
        raise Stopped(signal_number)

    _start_thread(_end_after_signal, read_end, handled_signals)
    wakeup_fd_before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in handled_signals:
        signal.signal(number, stop)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup_fd_before)
        os.close(write_end)
        for number in handled_signals:
            if signal.getsignal(number) is stop:
                signal.signal(number, handlers_before[number])


def _start_thread(target: Callable[..., None], *arguments: Any) -> bool:
    """Starts a thread that calls `target(*arguments)`; returns False if the system lacks threads or memory.

    The command continues without the thread.
    """
    # `threading.Thread.start` waits until the thread reports that it runs. A thread without memory never does.
    try:
        _thread.start_new_thread(target, arguments)
    except (RuntimeError, MemoryError):
        return False
    return True


def _end_after_signal(pipe_end: int, handled_signals: list[signal.Signals]) -> None:
    """Waits for a signal in a thread, and soon after it ends the process and its descendants.

    It waits `_SECONDS_UNTIL_FORCED_END` seconds, and ends the process even if the `with` block of `ended_by_signals`
    ends meanwhile. It returns if this block ends without a signal.

    Args:
        pipe_end: the end of a pipe into which the interpreter writes the number of each signal.
        handled_signals: the signals that end the process; others are ignored.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING_SIGNALS)
    with os.fdopen(pipe_end, "rb", buffering=0) as pipe:
        # The content is empty as soon as the block closes the other end of the pipe.
        while content := pipe.read(1):
            number = content[0]
            if number in handled_signals:
                time.sleep(_SECONDS_UNTIL_FORCED_END)
                end_descendants()
                with suppress(OSError):
                    os.write(2, f"{Stopped(number)}\n".encode())
                os._exit(128 + number)


def leave(code: int) -> None:
    """Ends the process with an exit code after calling the `atexit` functions. A regular exit would take seconds.

    If these functions take longer than `_SECONDS_UNTIL_FORCED_END` seconds, the process ends without waiting for them.
    If no thread can start to watch over that, they are not called.
    """

    def end_without_waiting() -> None:
        time.sleep(_SECONDS_UNTIL_FORCED_END)
        os._exit(code)

    if _start_thread(end_without_waiting):
        atexit._run_exitfuncs()
    os._exit(code)


def end_descendants() -> None:
    """Kills all descendants of this process but Python's trackers of shared memory, if /proc lists processes."""
    child_process_ids_by_parent: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            # The file stat has a name in parentheses, then the state of the process and the number of its parent.
            fields_behind_name = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            parent_process_id = int(fields_behind_name[1])
            if _TRACKER not in (folder / "cmdline").read_bytes():
                child_process_id = int(folder.name)
                child_process_ids_by_parent.setdefault(parent_process_id, []).append(
                    child_process_id
                )
    process_ids_to_visit = [os.getpid()]
    while process_ids_to_visit:
        parent_process_id = process_ids_to_visit.pop()
        for descendant_id in child_process_ids_by_parent.get(parent_process_id, []):
            process_ids_to_visit.append(descendant_id)
            with suppress(ProcessLookupError, PermissionError):
                os.kill(descendant_id, signal.SIGKILL)


class _LossyStream(io.TextIOWrapper):
    """A text stream that drops text if writing raises `OSError`, so that a closed terminal does not end a run."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            return super().write(text)
        _discard_output(self.fileno())
        return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            _discard_output(self.fileno())


def _discard_output(descriptor: int) -> None:
    """Connects a file descriptor with /dev/null, so that text which is written later, or still buffered, is dropped."""
    # The system gives out the lowest free descriptor, which may be the one that was closed.
    null_descriptor = os.open(os.devnull, os.O_RDWR)
    if null_descriptor != descriptor:
        os.dup2(null_descriptor, descriptor)
        os.close(null_descriptor)


def plain_letters(error: UnicodeError) -> tuple[str | bytes, int]:
    """Returns ASCII text for characters that an encoding lacks, and the position behind them.

    The text is similar for dashes, quotation marks and some other signs. All other characters, such as letters with an
    accent, become escapes.

    It is an error handler for `codecs`. Errors of decoding are raised.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    encodable_letters = [
        _IN_ASCII.get(letter) or letter.encode("ascii", "backslashreplace").decode("ascii")
        for letter in text
    ]
    return "".join(encodable_letters), error.end


def mend_streams() -> None:
    """Repairs the standard streams.

    A closed stream is opened on /dev/null, because the next opened file would get its descriptor. Standard output and
    standard error write the text of `plain_letters` for characters that their encoding, such as ASCII or Latin-1,
    lacks. Standard error also drops text that cannot be written, as to a closed terminal.
    """
    codecs.register_error(_PLAIN_LETTERS, plain_letters)
    # The logger prints no tracebacks where nobody reads its stream, as with `| head`.
    logging.raiseExceptions = False
    for stream_descriptor in range(len(_STREAMS)):
        try:
            os.fstat(stream_descriptor)
        except OSError:
            _discard_output(stream_descriptor)
    for name, mode in _STREAMS.items():
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open to the end
    if type(sys.stdout) is io.TextIOWrapper:
        sys.stdout.reconfigure(errors=_PLAIN_LETTERS)
    if sys.stderr is sys.__stderr__ and type(sys.stderr) is io.TextIOWrapper:
        sys.stderr = _LossyStream(
            sys.stderr.buffer,
            encoding=sys.stderr.encoding,
            errors=_PLAIN_LETTERS,
            line_buffering=True,
        )


def nobody_reads() -> bool:
    """Returns True if standard output is a pipe whose reader has closed it; if so, buffered text is dropped."""
    poll = select.poll()
    no_events = 0  # errors are reported without being asked for
    poll.register(sys.stdout.fileno(), no_events)
    is_closed = any(flags & select.POLLERR for _, flags in poll.poll(0))
    if is_closed:
        _discard_output(sys.stdout.fileno())
    return is_closed


def report_shortages() -> None:
    """Makes Python print one line, without a traceback, for some uncaught errors.

    They are interrupts, each `InvalidValue`, and a lack of memory or threads. A `MemoryError` that cannot be raised, as
    in a thread that could not start, prints nothing.
    """
    previous_hook = sys.unraisablehook

    def handle_unraisable(unraised: sys.UnraisableHookArgs) -> None:
        if not isinstance(unraised.exc_value, MemoryError):
            previous_hook(unraised)

    def handle_uncaught(
        error_class: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        if issubclass(error_class, KeyboardInterrupt):
            sys.stderr.write("interrupted\n")
        elif issubclass(error_class, InvalidValue):
            # The system lacks a package or POSIX that the command needs before it can be loaded.
            sys.stderr.write(f"{error}\n")
            sys.exit(2)
        elif any(_is_lack_of_memory_or_threads(cause) for cause in causes(error)):
            line = (
                f"{error_class.__name__}: {error}; the same command continues once there is "
                "more memory, and threads to start"
            )
            with suppress(OSError):
                os.write(2, " ".join(line.split()).encode(errors="backslashreplace") + b"\n")
        else:
            sys.__excepthook__(error_class, error, traceback)

    sys.excepthook = handle_uncaught
    sys.unraisablehook = handle_unraisable


def _is_lack_of_memory_or_threads(error: BaseException) -> bool:
    """Returns True if an error itself, whatever its causes are, tells a lack of memory or threads."""
    message = str(error)
    return isinstance(error, MemoryError) or any(words in message for words in _SHORTAGES)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yields an error and its causes, each once. The causes of an OmegaConf error may form a cycle."""
    visited: set[int] = set()
    while error is not None and id(error) not in visited:
        yield error
        visited.add(id(error))
        error = error.__cause__ or error.__context__
