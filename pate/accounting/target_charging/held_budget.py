"""A budget that somebody holds: it exists once, in one process, and answers one caller at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn, SupportsIndex

from pate.validation import InvalidValue


class HeldBudget:
    """What counts down as it answers: a copy of it would answer from the same budget once more.

    Copies and pickles are refused, and so is a process that was forked with it. Threads take turns.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process = os.getpid()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuses `copy.copy`, `copy.deepcopy` and `pickle`."""
        rule = "one that is neither copied nor sent elsewhere, as a copy would spend the same budget again"
        raise InvalidValue(f"session={type(self).__name__}: expected {rule}; ask the one there is")

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """A turn of one thread, from looking at what is left to having counted; its owner may take it again.

        Raises:
            InvalidValue: this process was forked from the one that holds the budget.
        """
        self._require_own_process()  # before the lock, which another thread of the parent may have held at the fork
        with self._lock:
            yield

    def _require_own_process(self) -> None:
        if os.getpid() != self._process:
            rule = f"{self._process}, which holds this {type(self).__name__}; a fork would spend the same budget again"
            raise InvalidValue(f"process={os.getpid()}: expected {rule}")
