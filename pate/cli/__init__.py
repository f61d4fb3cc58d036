"""The commands, each a Hydra app."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_THRESHOLD = gc.get_threshold()
_SHORTAGES = (
    "can't start new thread",
    "failed to map segment",
    "annot allocate memory",
    "without exception set",
    "without setting an exception",
)
"""What CPython and the dynamic loader say where they have no error of its own for it."""
_WHILE_LOADING = (1_000_000, *_THRESHOLD[1:])


def _told(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Says in one line what is no fault of ours, also where it comes while a command is still loading what it needs.

    That is Ctrl-C, and a machine that has no memory left, or no thread.
    """
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
    elif is_shortage(error):
        line = f"{kind.__name__}: {error}; the same command continues once there is more memory, and threads to start\n"
        with suppress(OSError):
            os.write(2, " ".join(line.split()).encode(errors="backslashreplace") + b"\n")
    else:
        sys.__excepthook__(kind, error, traceback)


def is_shortage(error: BaseException | None) -> bool:
    """Whether the machine lacks memory or a thread: the error says so, or one in whose wake it came."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:  # they may go round in circles
        text = str(error)
        if isinstance(error, MemoryError) or any(said in text for said in _SHORTAGES):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


_BEFORE = sys.unraisablehook


def _unraised(unraised: sys.UnraisableHookArgs) -> None:
    """Says nothing of a thread that found no memory to begin with: it was one that a command can go on without."""
    if not isinstance(unraised.exc_value, MemoryError):
        _BEFORE(unraised)


sys.excepthook, sys.unraisablehook = _told, _unraised

if Path(*sys.argv[:1]).name.startswith("pate-"):  # a command, and not somebody's own program
    gc.set_threshold(*_WHILE_LOADING)  # what is loaded stays


def collect_again() -> None:
    """Has Python look for garbage again, once a command is loaded; not among what is there by now."""
    if gc.get_threshold() == _WHILE_LOADING:
        gc.freeze()
        gc.set_threshold(*_THRESHOLD)
