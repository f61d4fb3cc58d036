"""A ledger without a file: in this process, and gone with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pate.accounting.ledger.entry import LedgerEntry
from pate.accounting.ledger.header import Header
from pate.accounting.ledger.lock import locked


class LedgerMemory:
    """The charges of one process, in their order; see `LedgerFile`."""

    path = None

    def __init__(self, header: Header) -> None:
        self.header, self.entries = header, list[LedgerEntry]()
        self.process = os.getpid()

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Holds the lock of all ledgers in memory."""
        with locked(None):
            yield

    def append(self, entry: LedgerEntry) -> None:
        """Adds a charge, inside of `opened`."""
        self.entries.append(entry)
