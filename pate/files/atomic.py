"""Atomic writes: files that are complete or absent, and readable by their owner alone."""

import os
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pate.files.posix import NO_LINK_NO_WAIT_FLAGS, OWNER_FILE_MODE, fcntl

# The flags of `os.open` for a file that must not exist yet, whose bytes Windows does not translate.
_NEW_FILE_FLAGS = (
    os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINK_NO_WAIT_FLAGS | getattr(os, "O_BINARY", 0)
)


@contextmanager
def atomic_write(path: Path | str) -> Iterator[IO[bytes]]:
    """Opens a new binary file of mode 0600, which gets the name `path` when the `with` block ends without an error.

    An existing file of that name stays unchanged until then, and after an error.
    """
    path = Path(path)
    # The partial name has the numbers of the process and of the thread, because a worker that outlived a killed run, or
    # another thread, may be writing the same file.
    partial_path = path.with_name(f".{path.name}.{os.getpid()}{threading.get_ident()}.partial")
    try:
        # An earlier process with the same number may have left one.
        partial_path.unlink(missing_ok=True)
        with os.fdopen(os.open(partial_path, _NEW_FILE_FLAGS, OWNER_FILE_MODE), "w+b") as file:
            if fcntl is not None:
                os.fchmod(file.fileno(), OWNER_FILE_MODE)  # a umask can only take bits away
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial_path, path)
    except OSError as error:
        # The error of a full disk has no name, and others have the name of the partial file.
        if error.errno is not None and error.filename in (None, partial_path, str(partial_path)):
            error.filename = str(path)
        raise
    finally:
        with suppress(NotADirectoryError):  # a file may have the name of the folder
            partial_path.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_text(path: Path | str, text: str) -> None:
    """Writes a text file in UTF-8 with `atomic_write`; no system changes the line breaks of the text."""
    write_text_parts(path=path, text_parts=[text])


def write_text_parts(path: Path | str, text_parts: Iterable[str]) -> None:
    """Writes a text file as `write_text` does, from parts of the text that need not be in memory together."""
    with atomic_write(path) as file:
        for text_part in text_parts:
            file.write(text_part.encode())


def remove_partials(folder: Path, name_patterns: Iterable[str]) -> None:
    """Removes the half-written files that `atomic_write` of a killed process has left in a folder.

    A folder that is missing or a link is left alone.

    Args:
        folder: the folder.
        name_patterns: regular expressions of the names that the files would have had.
    """
    if not folder.is_dir() or folder.is_symlink():
        return
    # `atomic_write` makes names such as ".run.json.4711140.partial". Version 0.1.0 gave secrets names with hexadecimal
    # digits, and wrote keys to partial files of partial files, such as "..teachers.key.3fa9.partial.81c2.partial".
    partial_name_pattern = re.compile(
        rf"\.{{1,2}}(?:{'|'.join(name_patterns)})(?:\.[\da-f]+\.partial){{1,2}}"
    )
    for entry in os.scandir(folder):
        if partial_name_pattern.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
            Path(entry.path).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Flushes the entries of a folder to the disk, so that a new file name survives a power cut; POSIX only."""
    if fcntl is None:
        return
    folder_descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder_descriptor)
    finally:
        os.close(folder_descriptor)
