"""Atomic writes: a file is written under another name, flushed to disk, then renamed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray


@contextmanager
def replacing(path: Path, *, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Opens a binary file that takes the name `path` when the block ends, and is removed where the block raises.

    The folder is made if missing. The bytes are on disk before the name is, and the name before the block is left:
    after a crash at any moment a reader finds the old file or the new one. The partial file carries the process id,
    since a worker that outlived a killed run may be writing the same file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with os.fdopen(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode), "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        if error.errno is not None and error.filename is None:  # as a full disk is told
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_text(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Writes a UTF-8 file with plain line breaks."""
    with replacing(path, mode=mode) as file:
        file.write(text.encode())


def write_arrays(path: Path, **arrays: NDArray[Any]) -> None:
    """Writes an .npz; equal arrays give equal bytes."""
    with replacing(path) as file:
        np.savez(file, allow_pickle=False, **arrays)


def sync_folder(folder: Path) -> None:
    """Flushes a folder's entries, so that a new name in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
