"""Files as they are written: whole or not at all, flushed to disk, their owner's alone; so are locks and secrets."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue

OWNERS_FILE, OWNERS_FOLDER = 0o600, 0o700
"""Modes of all that is written, whatever the umask."""

_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
_LONGEST = 4096
_SECRET = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # neither through a link nor waiting for a pipe
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Opens a binary file that takes the name `path` when the block ends, and is removed where the block raises.

    Its mode is 0600 from the first moment. Its folder has to be there: one that vanished is not made anew. The bytes
    are on disk before the name is, and the name before the block is left: after a crash at any moment a reader finds
    the old file or the new one. The partial file carries the process id, since a worker that outlived a killed run may
    be writing the same file.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.unlink(missing_ok=True)  # of an earlier process with this number
        with os.fdopen(os.open(partial, _NEW, OWNERS_FILE), "w+b") as file:
            os.fchmod(file.fileno(), OWNERS_FILE)  # a umask can only take bits away
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        # A full disk tells no name, and others that of the partial file.
        if error.errno is not None and error.filename in (None, partial, str(partial)):
            error.filename = str(path)
        raise
    finally:
        _unlink_if_there(partial)
    sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Writes a UTF-8 file with plain line breaks."""
    with replacing(path) as file:
        file.write(text.encode())


def write_arrays(path: Path, **arrays: NDArray[Any]) -> None:
    """Writes an .npz; equal arrays give equal bytes."""
    with replacing(path) as file:
        np.savez(file, allow_pickle=False, **arrays)


def make_folder(folder: Path, *, within: Path | None = None) -> Path:
    """Makes a folder, and those above it that are missing, with mode 0700 from the first moment; returns it.

    Args:
        folder: left as it is where it is there.
        within: a folder above it that has to be there: one that vanished is not made anew.

    Raises:
        OSError: it cannot be made; `FileExistsError` or `NotADirectoryError` where something else has its name.
    """
    missing = []
    for each in (folder, *folder.parents):
        if each.is_dir():
            break
        if each == within:
            raise FileNotFoundError(errno.ENOENT, "the folder is gone", str(within))
        missing.append(each)
    for each in reversed(missing):
        try:
            os.mkdir(each, OWNERS_FOLDER)
            os.chmod(each, OWNERS_FOLDER)
        except FileExistsError:  # another process was first, or a file has the name
            if not each.is_dir():
                if each != folder:
                    raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(each)) from None
                raise
    return folder


def require_no_links(folder: Path, name: str) -> None:
    """Refuses a folder with a link in it, at any depth: what is written through one lies in a folder of others.

    The folder itself may be one, which the user named, and so may those above it.

    Args:
        folder: that is written into; nothing is refused where it is missing.
        name: of the setting that names it.
    """
    waiting = [str(folder)] if folder.is_dir() else []
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    place = os.path.relpath(entry.path, folder)
                    raise InvalidValue(f"{name}={folder}: expected no links in it, found {place}; remove that")
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


@contextmanager
def owners_umask() -> Iterator[None]:
    """Has all that the process makes in the block be its owner's alone, also what other libraries make."""
    before = os.umask(~OWNERS_FOLDER & 0o777)
    try:
        yield
    finally:
        os.umask(before)


def remove_partials(folder: Path, names: Iterable[str]) -> None:
    """Removes what a killed process half-wrote in a folder under one of its own names (regular expressions).

    Files of others are left, whatever they end in, and so are links and folders.
    """
    if not folder.is_dir() or folder.is_symlink():
        return
    own = re.compile(rf"\.{{1,2}}(?:{'|'.join(names)})(?:\.[\da-f]+\.partial){{1,2}}")
    for entry in os.scandir(folder):
        if own.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
            _unlink_if_there(Path(entry.path))


def sync_folder(folder: Path) -> None:
    """Flushes a folder's entries, so that a new name in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_regular(path: Path) -> bool:
    """Whether it is a file: no folder, no link that leads nowhere, no pipe that would keep a reader waiting."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def _unlink_if_there(path: Path) -> None:
    with suppress(NotADirectoryError):  # a file has its folder's name
        path.unlink(missing_ok=True)


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
        descriptor = _open_lock(path)
        try:
            fcntl.flock(descriptor, how)
            there = os.stat(path, follow_symlinks=False) if os.path.lexists(path) else None
            if there is not None and os.path.samestat(os.fstat(descriptor), there):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _open_lock(path: Path) -> int:
    strange = InvalidValue(f"lock={path}: expected a lock file or none; remove what has its name")
    try:
        descriptor = os.open(path, _LOCK, OWNERS_FILE)
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


def write_secret(path: Path, text: str) -> None:
    """Makes the file with mode 0600 whatever the umask is; it appears whole or not at all.

    Args:
        path: in an existing folder; no other process writes it.
        text: a line.
    """
    with replacing(path) as file:
        file.write(os.fsencode(text))


def read_secret(path: Path, *, remedy: str) -> str:
    """The text of a file that only its owner, who is the user of this process, could read or write.

    Args:
        path: of the file.
        remedy: what to do where it is not as it should be; ends the message.

    Raises:
        InvalidValue: there is none, or a link, a folder or a device, or it has another owner or mode.
    """
    found = _kind_of(path)
    if found != "a file":
        raise InvalidValue(f"secret={path}: expected a file, found {found}; {remedy}")
    try:
        descriptor = os.open(path, os.O_RDONLY | _SECRET)
    except OSError as error:
        raise InvalidValue(f"secret={path}: expected a file that can be read ({error.strerror}); {remedy}") from error
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            rule = f"expected a file of user {os.geteuid()}, who runs this, found one of user {status.st_uid}"
            raise InvalidValue(f"secret={path}: {rule}; {remedy}")
        mode = stat.S_IMODE(status.st_mode)
        if mode != OWNERS_FILE:
            rule = f"expected mode 0600, found {mode:04o}, so that others may know it"
            raise InvalidValue(f"secret={path}: {rule}; {remedy}, or chmod 600 if nobody else could read it")
        return os.fsdecode(os.read(descriptor, _LONGEST))
    finally:
        os.close(descriptor)


def _kind_of(path: Path) -> str:
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    if stat.S_ISREG(mode):
        return "a file"
    return "a link" if stat.S_ISLNK(mode) else "something else"
