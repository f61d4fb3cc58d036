"""Locks on files, which hold between the processes of one machine."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pate.files.posix import NO_LINK_NO_WAIT_FLAGS, OWNER_FILE_MODE, fcntl, require_posix
from pate.validation import InvalidValue


@contextmanager
def file_lock(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Holds a lock on a file during a `with` block; the file is made if it is missing, and is never read.

    Args:
        path: the lock file.
        wait: true waits while another process or thread holds the lock; false raises an error then.

    Raises:
        BlockingIOError: another process or thread holds the lock, and `wait` is false.
        InvalidValue: the path is no regular file, or the system has no such locks.
    """
    require_posix("lock", path)
    descriptor = _acquire(path, wait=wait)
    try:
        yield
    finally:
        os.close(descriptor)


def _acquire(lock_file: Path, *, wait: bool) -> int:
    """Locks a file and returns its open descriptor; closing the descriptor releases the lock.

    The file is made if it is missing. If another process or thread holds the lock, the function waits, or raises
    `BlockingIOError` if `wait` is false.
    """
    lock_operation = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
    # Another process may remove the file between its opening and its locking. Then the lock on it excludes nobody, so
    # the file that has the name by now is tried.
    while True:
        with ExitStack() as closing:
            descriptor = _open(lock_file)
            closing.callback(os.close, descriptor)
            status_of_opened = os.fstat(descriptor)
            if not stat.S_ISREG(status_of_opened.st_mode):
                raise _no_lock_file(lock_file)
            if (
                status_of_opened.st_nlink == 1
                and status_of_opened.st_uid == os.geteuid()
                and stat.S_IMODE(status_of_opened.st_mode) != OWNER_FILE_MODE
            ):
                os.fchmod(descriptor, OWNER_FILE_MODE)  # the umask may have taken bits away
            fcntl.flock(descriptor, lock_operation)
            status_on_disk = (
                os.stat(lock_file, follow_symlinks=False) if os.path.lexists(lock_file) else None
            )
            if status_on_disk is not None and os.path.samestat(status_of_opened, status_on_disk):
                closing.pop_all()  # the file stays open
                return descriptor


def _open(lock_file: Path) -> int:
    """Opens a lock file, which is made if it is missing, and returns its descriptor."""
    try:
        return os.open(lock_file, os.O_RDWR | os.O_CREAT | NO_LINK_NO_WAIT_FLAGS, OWNER_FILE_MODE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise _no_lock_file(lock_file) from error
        raise


def _no_lock_file(lock_file: Path) -> InvalidValue:
    """Returns the error for a link, folder or pipe that has the name of the lock file."""
    return InvalidValue("lock", lock_file, rule="a lock file or none; remove what has its name")
