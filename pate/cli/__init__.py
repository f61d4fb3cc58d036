"""The commands, each a Hydra app."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import TracebackType

_THRESHOLD = gc.get_threshold()
_WHILE_LOADING = (1_000_000, *_THRESHOLD[1:])


def _told(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Says Ctrl-C in one line, also where it comes while a command is still loading what it needs."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
    else:
        sys.__excepthook__(kind, error, traceback)


sys.excepthook = _told

if Path(*sys.argv[:1]).name.startswith("pate-"):  # a command, and not somebody's own program
    gc.set_threshold(*_WHILE_LOADING)  # what is loaded stays


def collect_again() -> None:
    """Has Python look for garbage again, once a command is loaded; not among what is there by now."""
    if gc.get_threshold() == _WHILE_LOADING:
        gc.freeze()
        gc.set_threshold(*_THRESHOLD)
