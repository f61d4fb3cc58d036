"""The anchor: beside a ledger, how many lines it has and the digest of the last one, so that none can be cut off.

The chain alone says that lines are in their order and that none is missing between two others; it cannot say that the
last ones are still there. The anchor is a file of two places of 128 bytes, written in turn after the ledger is on
disk. A crash leaves at most the place that was being written unreadable, and the other one then names the line before.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from pate.files.atomic import replacing

SIZE = 128
_CHECK = 32  # hexadecimal digits


class AnchorLost(OSError):
    """An anchor could be neither written nor put back: which of both is on disk is not known."""


@dataclass(frozen=True)
class Anchor:
    """What a ledger held when it was last written.

    Attributes:
        num_lines: the first line included.
        digest: SHA-256 of the last one, its line break included.
        unfinished: whether a crash came while the line after that was being noted.
    """

    num_lines: int
    digest: str
    unfinished: bool = False

    def to_bytes(self) -> bytes:
        """Its place in the file."""
        text = f"{self.num_lines:020d} {self.digest}"
        return f"{text} {_check(text)}".encode().ljust(SIZE - 1) + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes) -> Anchor | None:
        """What a place holds, or None."""
        try:
            words = content.decode("ascii").split()
            found = cls(int(words[0]), words[1])
        except (IndexError, ValueError):
            return None
        return found if content == found.to_bytes() else None


def anchor_path(path: Path) -> Path:
    """Where the anchor of a ledger is."""
    return path.with_name(f".{path.name}.head")


def read_anchor(path: Path) -> Anchor | None:
    """The newest place of a ledger's anchor; None where there is no file.

    Raises:
        ValueError: a file that is no anchor.
        OSError: a link, or a file that cannot be read.
    """
    try:
        descriptor = os.open(anchor_path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        content = os.read(descriptor, 3 * SIZE)
    finally:
        os.close(descriptor)
    places = [Anchor.from_bytes(content[start : start + SIZE]) for start in (0, SIZE)]
    even, odd = places
    if len(content) != 2 * SIZE or (even is None and odd is None):
        raise ValueError("no anchor")
    if even is None or odd is None:
        last = even or odd
        assert last is not None
        if last.num_lines % 2 != (even is None):
            raise ValueError("a place of the other parity")
        return Anchor(last.num_lines, last.digest, unfinished=True)
    if even.num_lines % 2 != 0 or abs(even.num_lines - odd.num_lines) != 1:
        raise ValueError("places that do not follow each other")
    return max(places, key=lambda place: place.num_lines if place else 0)


def begin_anchor(path: Path, anchor: Anchor) -> None:
    """Makes the anchor of a ledger that has one line."""
    before = Anchor(anchor.num_lines - 1, hashlib.sha256().hexdigest())
    with replacing(anchor_path(path)) as file:
        os.fchmod(file.fileno(), 0o600)  # whatever the umask took away
        file.write(before.to_bytes() + anchor.to_bytes())


def move_anchor(path: Path, anchor: Anchor) -> None:
    """Names one more line, on disk; a failure leaves what was there.

    Raises:
        AnchorLost: that failed too.
    """
    descriptor = os.open(anchor_path(path), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        place = anchor.num_lines % 2 * SIZE
        before = os.pread(descriptor, SIZE, place)
        try:
            _write(descriptor, anchor.to_bytes(), place)
        except BaseException:
            try:
                _write(descriptor, before, place)
            except OSError as error:
                raise AnchorLost(error.errno, error.strerror, str(anchor_path(path))) from error
            raise
    finally:
        os.close(descriptor)


def _write(descriptor: int, content: bytes, place: int) -> None:
    if os.pwrite(descriptor, content, place) != len(content):
        raise OSError("an anchor was written in part")
    os.fdatasync(descriptor)


def _check(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_CHECK]
