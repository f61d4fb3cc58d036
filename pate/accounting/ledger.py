"""The ledger: what has been spent on one private data set, on disk before anything is released.

One JSON object per line, appended and synchronized to disk before `charge` returns, so that a crash at any moment
leaves every release priced. A line cut off by a crash was never acknowledged, hence nothing was drawn for it; it is
dropped when the ledger is opened again. The first line names the adjacency and delta under which all others are priced.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pate.accounting.accountant import Accountant, require_maker
from pate.accounting.adjacency import Adjacency
from pate.accounting.events import Event
from pate.accounting.ledger_entry import LedgerEntry
from pate.accounting.rdp import RdpAccountant
from pate.accounting.running_total import RunningTotal
from pate.files.atomic import sync_folder
from pate.files.strict_json import to_json_line
from pate.validation import InvalidValue, require_positive, require_probability

_BEGINNING = b'{"ledger": 1'
_IN_MEMORY = threading.Lock()  # for all ledgers without a file


class BudgetExceeded(InvalidValue):
    """A charge would have taken the ledger above its budget; nothing was charged."""


class Ledger:
    """An append-only record of charges, in memory or on disk.

    The total bounds releases whose prices were fixed before the first of them. For prices chosen on the way,
    `max_epsilon` is a bound by `RdpAccountant` at one order and by `ZCdpAccountant`, not by the others
    (docs/proofs/composition.md).

    Args:
        path: the file, made if missing; None keeps the ledger in memory, and in this process.
        adjacency: what all events are priced for.
        target_delta: in (0, 1).
        accountant: makes an empty accountant.
        max_epsilon: a charge that would exceed it is refused; None for no limit.

    Raises:
        InvalidValue: the file was written for another adjacency or delta, or is not a ledger.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
        target_delta: float,
        accountant: Callable[[], Accountant] = RdpAccountant,
        max_epsilon: float | None = None,
    ) -> None:
        self.path = None if path is None else Path(path).absolute()
        self.adjacency = Adjacency.parse(adjacency)
        self.target_delta = require_probability("target_delta", target_delta)
        self.max_epsilon = None if max_epsilon is None else require_positive("max_epsilon", max_epsilon)
        self._accountant = require_maker(accountant)
        self._header = {"ledger": 1, "adjacency": str(self.adjacency), "target_delta": self.target_delta}
        self._charges = _Charges(self._accountant, self.target_delta)
        self._known = b"", 0  # what was read of the file, and how many charges that is
        self._process = os.getpid()
        if self.path is not None:
            with _locked(self.path):
                self._read(self.path)

    def __getstate__(self) -> dict[str, Any]:
        """Refuses to be copied or pickled without a file: what the copy charges would be missing here."""
        self._require_shared(self.path is not None)
        return vars(self)

    @property
    def entries(self) -> list[LedgerEntry]:
        """All charges, in their order, those of other processes included."""
        with _locked(self.path) as path:
            if path is not None:
                self._read(path)
            return self._charges.entries.copy()

    @property
    def epsilon(self) -> float:
        """The total spent, at `target_delta`."""
        with _locked(self.path) as path:
            if path is not None:
                self._read(path)
            return self._charges.total.epsilon()

    def charge(
        self, event: Event, *, adjacency: Adjacency, key: str, description: str = "", noise: str = ""
    ) -> LedgerEntry:
        """Writes a charge and returns it; only after this may anything be drawn.

        Raises:
            BudgetExceeded: the total would exceed `max_epsilon`.
            InvalidValue: the event was made for another adjacency, the key stands for another event, or another
                release used the same noise: prices add up for fresh noise only.
        """
        if adjacency != self.adjacency:
            raise InvalidValue(f"adjacency={adjacency}: expected {self.adjacency}, as this ledger counts")
        self._require_shared(self.path is not None or os.getpid() == self._process)
        with _locked(self.path) as path:
            if path is not None:
                self._read(path)  # another process may have charged meanwhile
            known = self._charges.find(event, key, noise)
            if known is not None:
                return known
            total = self._charges.total.epsilon(event)
            if self.max_epsilon is not None and not total <= self.max_epsilon:
                rule = f"expected at least {total:.4g}, the total with this release"
                raise BudgetExceeded(f"max_epsilon={self.max_epsilon}: {rule}")
            entry = LedgerEntry(key, event, description, total, noise)
            if path is None:
                self._charges.entries.append(entry)
            else:
                _append(path, entry.to_json())
                self._read(path)
        return entry

    def _require_shared(self, shared: bool) -> None:
        if not shared:
            raise InvalidValue("ledger.path=None: expected a file, through which copies know of each other's charges")

    def _read(self, path: Path) -> None:
        """Takes over what is on disk, of which only new lines are parsed; a new file gets its header."""
        before, number = self._known
        content = _complete_content(path) if path.exists() else b""
        if not content.startswith(before):
            raise InvalidValue(f"ledger={path}: expected a file that only grows; charges that were in it are gone")
        if not content:
            content = _append(path, self._header)
        lines = content[len(before) :].splitlines()
        if not before and (header := _parse(path, 1, lines.pop(0))) != self._header:
            raise InvalidValue(f"ledger={path}: expected one for {self._header}, found {header}")
        fresh = [
            LedgerEntry.from_json(_parse(path, place, line), path=path, line=place)
            for place, line in enumerate(lines, start=number + 2)
        ]
        self._charges.entries[number:] = fresh  # what an interrupted reading left behind is written over
        self._known = content, number + len(fresh)


class _Charges:
    """The charges of a ledger in their order, found by key and by noise, and their total."""

    def __init__(self, accountant: Callable[[], Accountant], target_delta: float) -> None:
        self.entries: list[LedgerEntry] = []
        self.total = RunningTotal(self.entries, accountant, target_delta)
        self._of_key: dict[str, int] = {}  # the place of the first charge
        self._of_noise: dict[str, int] = {}
        self._num_placed = 0

    def find(self, event: Event, key: str, noise: str) -> LedgerEntry | None:
        """The entry of the same release, if there is one; raises where key or noise stand for another."""
        for place in range(self._num_placed, len(self.entries)):
            self._of_key.setdefault(self.entries[place].key, place)
            self._of_noise.setdefault(self.entries[place].noise, place)
        self._num_placed = len(self.entries)
        known, used = self._of_key.get(key), self._of_noise.get(noise) if noise else None
        if used is not None and (known is None or used < known):
            raise InvalidValue(f"noise={noise}: expected fresh noise, another release used this generator's numbers")
        if known is None:
            return None
        if self.entries[known].event != event:
            raise InvalidValue(f"key={key}: expected a new key, this one stands for another price")
        return self.entries[known]


def require_ledger(ledger: Any) -> Ledger:
    """Returns the ledger, or raises: a path alone names neither adjacency nor delta."""
    if not isinstance(ledger, Ledger):
        raise InvalidValue(f"ledger={ledger}: expected a pate.accounting.Ledger, such as Ledger(PATH, target_delta=…)")
    return ledger


@contextmanager
def _locked(path: Path | None) -> Iterator[Path | None]:
    """Holds the ledger's lock file, so that no two processes or threads read, decide and append at once."""
    if path is None:
        with _IN_MEMORY:
            yield None
        return
    with open(path.with_name(f".{path.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path


def _append(path: Path, record: dict[str, Any]) -> bytes:
    """Writes one line and waits until it is on disk, its folder's entry included; a failure leaves no trace."""
    line = to_json_line(record).encode() + b"\n"
    with open(path, "ab", buffering=0) as file:  # else what was cut off again would be written when it is closed
        size, left = file.seek(0, os.SEEK_END), memoryview(line)
        try:
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except BaseException:
            os.truncate(path, size)
            raise
    if size == 0:
        sync_folder(path.parent)
    return line


def _complete_content(path: Path) -> bytes:
    """The lines that end in a line break; a torn last line is cut off a ledger, and of no other file."""
    content = path.read_bytes()
    if not content.startswith(_BEGINNING[: len(content)]):
        raise InvalidValue(f"ledger={path}: expected JSON of a ledger on line 1")
    complete = content[: content.rfind(b"\n") + 1]
    if len(complete) < len(content):
        os.truncate(path, len(complete))
    return complete


def _parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise InvalidValue(f"ledger={path}: expected JSON on line {number}") from error
    return record
