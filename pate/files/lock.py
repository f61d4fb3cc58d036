"""Lock files: held by one process at a time, never emptied, never a link to somebody's file."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pate.files.atomic import OWNERS_FILE
from pate.validation import InvalidValue

_HOW = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[int]:
    """Holds a lock file, made with mode 0600 where it is missing; its content is neither read nor changed.

    Args:
        path: the file, in a folder that is there.
        wait: for another process that holds it; else `BlockingIOError` is raised.

    Yields:
        The descriptor.

    Raises:
        InvalidValue: a link, a folder or a pipe has the file's name.
    """
    descriptor = _held(path, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _held(path: Path, how: int) -> int:
    """The lock of the file that has the name now: another process may have removed the one that was opened."""
    while True:
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, how)
            there = os.stat(path, follow_symlinks=False) if os.path.lexists(path) else None
            if there is not None and os.path.samestat(os.fstat(descriptor), there):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _open(path: Path) -> int:
    strange = InvalidValue(f"lock={path}: expected a lock file or none; remove what has its name")
    try:
        descriptor = os.open(path, _HOW, OWNERS_FILE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise strange from error
        raise
    there = os.fstat(descriptor)
    if not stat.S_ISREG(there.st_mode):
        os.close(descriptor)
        raise strange
    if there.st_nlink == 1 and there.st_uid == os.geteuid() and stat.S_IMODE(there.st_mode) != OWNERS_FILE:
        os.fchmod(descriptor, OWNERS_FILE)  # of an earlier version, or made under a strange umask
    return descriptor
