"""The lines of a ledger, each of which carries the digest of the one before, checked as they are read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pate.accounting.ledger.anchor import Anchor
from pate.accounting.ledger.entry import LedgerEntry
from pate.accounting.ledger.header import Header
from pate.validation import InvalidValue

REMEDY = "restore the ledger and its .head from one backup; nothing is released until then"
BEGINNINGS = (b'{"ledger": 1', b'{"ledger": 2')


class DamagedLedger(InvalidValue):
    """A ledger that was edited, shortened, reordered or exchanged; nothing is released under it."""


@dataclass(frozen=True)
class Chain:
    """What was read of a ledger's file.

    Attributes:
        num_lines: how many lines.
        size: how many bytes those are.
        header: the first one; None of an empty file.
        digest: SHA-256 of the last line; empty without one.
        digest_before: that of the line before.
    """

    num_lines: int = 0
    size: int = 0
    header: Header | None = None
    digest: str = ""
    digest_before: str = ""

    def read(self, content: bytes, *, path: Path) -> tuple[Chain, list[LedgerEntry]]:
        """The chain with what a file has grown by, and the new charges.

        Args:
            content: whole lines, those after the ones that were read.
            path: of the ledger.

        Raises:
            DamagedLedger: a line that is no charge, or does not follow the one before.
        """
        lines = content.splitlines(keepends=True)
        header, digest, before, entries = self.header, self.digest, self.digest_before, []
        for number, line in enumerate(lines, start=self.num_lines + 1):
            record = parsed(line, path=path, number=number)
            if header is None:
                header = _header(record, path=path)
            else:
                if header.is_chained and (not isinstance(record, dict) or record.get("previous") != digest):
                    raise damaged(path, number, f"to carry the digest of line {number - 1}, one of both was changed")
                entries.append(_entry(record, path=path, number=number))
            if header.is_chained:
                digest, before = hashlib.sha256(line).hexdigest(), digest
        return Chain(self.num_lines + len(lines), self.size + len(content), header, digest, before), entries

    def following(self, entry: LedgerEntry) -> dict[str, Any]:
        """A charge as the next line has it."""
        assert self.header is not None
        return entry.to_json() | {"previous": self.digest} if self.header.is_chained else entry.to_old_json()

    def is_ahead(self, anchor: Anchor | None, *, torn: bool, path: Path) -> bool:
        """Whether the file has the one line more than its anchor that a crash may leave.

        Args:
            anchor: None where there is none.
            torn: whether a piece of a line comes after the whole ones.
            path: of the ledger.

        Raises:
            DamagedLedger: anything else than the line that the anchor names, or that line and one more.
        """
        if anchor is None:
            if self.num_lines > 1:
                raise DamagedLedger(
                    f"ledger={path}: expected .{path.name}.head beside it, for line {self.num_lines}: {REMEDY}"
                )
            return self.num_lines == 1
        ahead = self.num_lines - anchor.num_lines
        if ahead < 0:
            raise damaged(path, self.num_lines + 1, f"as the first of {-ahead} that were cut off")
        if ahead > 1 or (ahead == 1 and torn) or (ahead == 0 and anchor.unfinished):
            raise damaged(path, anchor.num_lines + 1, "to be known to its .head, which is of another moment")
        if anchor.digest != (self.digest_before if ahead else self.digest):
            raise damaged(path, anchor.num_lines, "as its .head names it, it was changed or is of another ledger")
        return ahead == 1


def damaged(path: Path, number: int, rule: str) -> DamagedLedger:
    """What is said of a line that is not what it should be."""
    return DamagedLedger(f"ledger={path}: expected line {number} {rule}: {REMEDY}")


def parsed(line: bytes, *, path: Path, number: int) -> Any:
    """A line's JSON."""
    try:
        return json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise DamagedLedger(f"ledger={path}: expected JSON on line {number}: {REMEDY}") from error


def _header(record: Any, *, path: Path) -> Header:
    try:
        return Header.from_json(record)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedLedger(f"ledger={path}: expected settings of a ledger on line 1: {REMEDY}") from error


def _entry(record: Any, *, path: Path, number: int) -> LedgerEntry:
    try:
        return LedgerEntry.from_json(record)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise DamagedLedger(f"ledger={path}: expected a charge on line {number}: {REMEDY}") from error
