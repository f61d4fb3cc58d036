"""What a fit says of its stages, where it is asked to."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stage(name: str, verbose: int) -> Iterator[None]:
    """Says on standard output, as scikit-learn does, what was done and how long it took."""
    started = time.monotonic()
    yield
    if verbose:
        sys.stdout.write(f"[PATEClassifier] {name}: {time.monotonic() - started:.1f} s\n")
