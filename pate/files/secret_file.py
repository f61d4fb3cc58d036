"""A small file that holds a secret: of its owner alone from its first moment, read as it was made or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path

from pate.files.atomic import sync_folder
from pate.validation import InvalidValue

_MODE = 0o600
_LONGEST = 4096
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # neither through a link nor waiting for a pipe


def write_secret(path: Path, text: str) -> None:
    """Makes the file with mode 0600 whatever the umask is; it appears whole or not at all.

    Args:
        path: in an existing folder; no other process writes it.
        text: a line.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, _MODE)
        try:
            os.fchmod(descriptor, _MODE)
            os.write(descriptor, os.fsencode(text))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(partial, path)
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(path.parent)


def read_secret(path: Path, *, remedy: str) -> str:
    """The text of a file that only its owner, who is the user of this process, could read or write.

    Args:
        path: of the file.
        remedy: what to do where it is not as it should be; ends the message.

    Raises:
        InvalidValue: there is none, or a link, a folder or a device, or it has another owner or mode.
    """
    found = _kind(path)
    if found != "a file":
        raise InvalidValue(f"secret={path}: expected a file, found {found}; {remedy}")
    try:
        descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    except OSError as error:
        raise InvalidValue(f"secret={path}: expected a file that can be read ({error.strerror}); {remedy}") from error
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            rule = f"expected a file of user {os.geteuid()}, who runs this, found one of user {status.st_uid}"
            raise InvalidValue(f"secret={path}: {rule}; {remedy}")
        mode = stat.S_IMODE(status.st_mode)
        if mode != _MODE:
            rule = f"expected mode 0600, found {mode:04o}, so that others may know it"
            raise InvalidValue(f"secret={path}: {rule}; {remedy}, or chmod 600 if nobody else could read it")
        return os.fsdecode(os.read(descriptor, _LONGEST))
    finally:
        os.close(descriptor)


def erase_secret(path: Path) -> None:
    """Overwrites a file of the user's with zeros, then removes it; what is no file is left, and a link only removed.

    A file system that journals data or copies on writing, a snapshot, a backup and a flash disk may keep the secret.
    """
    if _kind(path) not in ("a file", "a link"):
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | _FLAGS)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EACCES):
            raise
    else:
        try:
            os.write(descriptor, bytes(os.fstat(descriptor).st_size))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    path.unlink()
    sync_folder(path.parent)


def _kind(path: Path) -> str:
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    if stat.S_ISREG(mode):
        return "a file"
    return "a link" if stat.S_ISLNK(mode) else "something else"
