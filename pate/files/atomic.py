"""Atomic writes: a file is written under another name, flushed to disk, then renamed. Its owner alone may read it."""

from __future__ import annotations

import errno
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
        if error.errno is not None and error.filename in (
            None,
            partial,
            str(partial),
        ):  # as a full disk is told; no partial file's name
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
