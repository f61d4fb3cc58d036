"""A ledger's lock: no two processes or threads read, decide and append at once."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pate.validation import InvalidValue

_IN_MEMORY = threading.Lock()  # for all ledgers without a file


@contextmanager
def locked(path: Path | None) -> Iterator[None]:
    """Holds the lock of a ledger's file, or that of all ledgers in memory."""
    if path is None:
        with _IN_MEMORY:
            yield
        return
    descriptor = _taken(path.with_name(f".{path.name}.lock"))
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # for a process, too, that was forked meanwhile and has it still open
        os.close(descriptor)


def open_own(path: Path, flags: int) -> int:
    """Opens a file of ours: for its owner alone from its creation, and neither a link nor a device.

    Raises:
        InvalidValue: a link, or no plain file.
    """
    beside = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        try:
            descriptor = os.open(path, flags | beside | os.O_CREAT | os.O_EXCL, 0o600)
            os.fchmod(descriptor, 0o600)  # whatever the umask took away
            return descriptor
        except FileExistsError:
            descriptor = os.open(path, flags | beside)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise InvalidValue(f"ledger: expected a plain file at {path}, not a link or a folder; remove it") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InvalidValue(f"ledger: expected a plain file at {path}; remove it")
    return descriptor


def _taken(path: Path) -> int:
    """The lock file, locked; taken anew where somebody removed it meanwhile."""
    while True:
        descriptor = open_own(path, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(path, os.fstat(descriptor)):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_at(path: Path, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.lstat(path), status)
    except FileNotFoundError:
        return False
