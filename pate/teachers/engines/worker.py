"""What worker processes have in common: one thread each, and an end that comes with that of the run."""

from __future__ import annotations

import _thread
import os
import time
from collections.abc import Callable

ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
"""Environment variables of a worker."""

_WATCH_S = 0.1


def end_unless(needed: Callable[[], bool]) -> None:
    """Ends this process soon after it is needed no more, so that it never trains what the next run trains too."""

    def watch() -> None:
        while needed():
            time.sleep(_WATCH_S)
        os._exit(1)

    _thread.start_new_thread(watch, ())  # threading's would wait for ever for one that finds no memory to begin with
