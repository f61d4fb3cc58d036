"""The commands, each a Hydra app."""

from __future__ import annotations

import gc
import sys
from types import TracebackType


def _told(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Says Ctrl-C in one line, also where it comes while a command is still loading what it needs."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
    else:
        sys.__excepthook__(kind, error, traceback)


sys.excepthook = _told

KEPT_THRESHOLD = gc.get_threshold()
gc.set_threshold(1_000_000, *KEPT_THRESHOLD[1:])  # what is loaded stays; `run_app` restores it for the command's work
