"""A ledger's file: read under its lock, appended to, on disk before anything is released.

Each charge is appended and synchronized, then the anchor. What a crash can leave:

* a piece of a line: it was never acknowledged and is cut off;
* a whole line that the anchor does not name yet: it counts, and the anchor is moved to it;
* the anchor's place for that line unreadable: the same.

Anything else is damage, and refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from pate.accounting.ledger.anchor import Anchor, AnchorLost, anchor_path, begin_anchor, move_anchor, read_anchor
from pate.accounting.ledger.chain import BEGINNINGS, REMEDY, Chain, DamagedLedger
from pate.accounting.ledger.entry import LedgerEntry
from pate.accounting.ledger.header import Header
from pate.accounting.ledger.lock import locked, open_own
from pate.files.atomic import sync_folder
from pate.files.strict_json import to_json_line
from pate.validation import InvalidValue

Status = tuple[int, ...]
"""By which a file is known to be as it was. An edit that leaves it changes no total here, and is refused later."""


class LedgerFile:
    """All charges of a file, for whichever data set, in their order.

    Args:
        path: made if missing. Links are followed once, here. One that leads to nothing is refused: its ledger was
            moved, or its disk is not there, and a new one would begin with a fresh budget.
        header: what a new file begins with, and what an existing one is compared with.

    Attributes:
        entries: as of the last time that the file was opened.
    """

    def __init__(self, path: str | os.PathLike[str], header: Header) -> None:
        if os.path.islink(path) and not os.path.exists(path):
            raise InvalidValue(f"ledger={path}: expected a ledger or a new file, found a link to nothing")
        self.path = Path(os.path.realpath(path))
        self.entries: list[LedgerEntry] = []
        self._asked = header
        self._chain, self._content = Chain(), bytearray()
        self._status: Status | None = None  # of the file when its content was what is remembered here
        with self.opened():
            self.header.require_same(header, place=f"ledger={self.path}")

    @property
    def header(self) -> Header:
        """The file's first line."""
        assert self._chain.header is not None
        return self._chain.header

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Holds the lock, with everything read that is on disk; a new file gets its first line."""
        with locked(self.path):
            self._read()
            if not self._chain.num_lines:
                self._append(self._asked.to_json())
            yield

    def append(self, entry: LedgerEntry) -> None:
        """Writes a charge, inside of `opened`."""
        self._append(self._chain.following(entry))

    def _read(self) -> None:
        """Takes over what is on disk, of which only new lines are parsed; nothing is read where nothing changed."""
        anchor, status = self._anchor(), _status(self.path)
        if status is None or status != self._status:
            self._read_changed(anchor, status)
        elif self.header.is_chained and self._chain.is_ahead(anchor, torn=False, path=self.path):
            self._move_anchor(anchor)

    def _read_changed(self, anchor: Anchor | None, status: Status | None) -> None:
        content = b"" if status is None else _content(self.path)
        if not content.startswith(BEGINNINGS) and not _begins(content):
            raise InvalidValue(f"ledger={self.path}: expected JSON of a ledger on line 1")
        whole, known = content[: content.rfind(b"\n") + 1], bytes(self._content[: self._chain.size])
        if not whole.startswith(known):
            rule = f"expected a file that only grows; charges that were in it are gone: {REMEDY}"
            raise DamagedLedger(f"ledger={self.path}: {rule}")
        fresh = whole[len(known) :]
        chain, entries = self._chain.read(fresh, path=self.path)
        is_chained, is_torn = chain.header is None or chain.header.is_chained, whole != content
        is_ahead = is_chained and chain.is_ahead(anchor, torn=is_torn, path=self.path)
        if not is_chained and anchor is not None:
            raise DamagedLedger(f"ledger={self.path}: expected line 1 of the version that its .head is of: {REMEDY}")
        if is_torn:
            _cut(self.path, len(whole))
        self._take(chain, entries, fresh, None if is_torn else status)
        if is_ahead:
            self._move_anchor(anchor)

    def _take(self, chain: Chain, entries: list[LedgerEntry], fresh: bytes, status: Status | None) -> None:
        """Remembers what was read; whatever an interrupted reading left behind is written over."""
        self.entries[max(self._chain.num_lines - 1, 0) :] = entries
        del self._content[self._chain.size :]
        self._content += fresh
        self._chain, self._status = chain, status

    def _move_anchor(self, before: Anchor | None) -> None:
        now = Anchor(self._chain.num_lines, self._chain.digest)
        begin_anchor(self.path, now) if before is None else move_anchor(self.path, now)

    def _anchor(self) -> Anchor | None:
        try:
            return read_anchor(self.path)
        except (OSError, ValueError) as error:
            rule = f"{anchor_path(self.path).name} to name the last line"
            raise DamagedLedger(f"ledger={self.path}: expected {rule}, it was changed: {REMEDY}") from error

    def _append(self, record: dict[str, Any]) -> None:
        """Writes one line, and the anchor, and waits until they are on disk; a failure leaves no trace."""
        line, before = to_json_line(record).encode() + b"\n", self._chain.num_lines
        chain, entries = self._chain.read(line, path=self.path)
        is_chained = chain.header is not None and chain.header.is_chained
        descriptor = open_own(self.path, os.O_RDWR | os.O_APPEND)
        try:
            size, left = os.lseek(descriptor, 0, os.SEEK_END), memoryview(line)
            try:
                while left:
                    left = left[os.write(descriptor, left) :]
                os.fsync(descriptor)
                if not before:
                    sync_folder(self.path.parent)  # the ledger's name, before there is an anchor for it
                if is_chained:
                    now = Anchor(chain.num_lines, chain.digest)
                    move_anchor(self.path, now) if before else begin_anchor(self.path, now)
            except AnchorLost:
                raise  # the line stays: whatever the anchor says, it names this line or the one before
            except BaseException:
                if not is_chained or _still_names(self.path, before):
                    os.ftruncate(descriptor, size)
                raise
            status = _times(os.fstat(descriptor))
        finally:
            os.close(descriptor)
        self._take(chain, entries, line, status)


def first_line(path: Path) -> Header:
    """The header of a file that exists; what comes after it is not looked at.

    Raises:
        InvalidValue: no such file, or one that is no ledger.
    """
    with locked(path) if path.exists() else nullcontext():
        content = _content(path) if path.exists() else b""
    line, complete, _ = content.partition(b"\n")
    if not complete or not line.startswith(BEGINNINGS):
        raise InvalidValue(f"ledger={path}: expected a ledger file")
    chain, _ = Chain().read(line + complete, path=path)
    assert chain.header is not None
    return chain.header


def _still_names(path: Path, num_lines: int) -> bool:
    """Whether the anchor knows of no line after these."""
    try:
        anchor = read_anchor(path)
    except (OSError, ValueError):
        return False
    return num_lines == 0 if anchor is None else anchor.num_lines == num_lines and not anchor.unfinished


def _status(path: Path) -> Status | None:
    try:
        return _times(os.lstat(path))
    except FileNotFoundError:
        return None


def _times(status: os.stat_result) -> Status:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _content(path: Path) -> bytes:
    descriptor = open_own(path, os.O_RDWR)
    with open(descriptor, "rb") as file:
        return file.read()


def _begins(content: bytes) -> bool:
    """Whether this can be a piece of a first line."""
    return any(beginning.startswith(content) for beginning in BEGINNINGS)


def _cut(path: Path, size: int) -> None:
    descriptor = open_own(path, os.O_RDWR)
    try:
        os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)
