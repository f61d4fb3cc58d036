"""A disk that fails at one of the calls that a run makes to it, or a machine that dies there."""

from __future__ import annotations

import ctypes
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

FAILURES = ("ENOSPC", "EIO", "dies before", "dies after", "torn and dies", "torn and ENOSPC")
"""Failures, each at its number in faulty_disk.c."""

_SOURCE = Path(__file__).with_name("faulty_disk.c")


def preload(folder: Path) -> dict[str, str]:
    """Compiles the faulty disk; returns the environment that an interpreter needs to load it."""
    library = folder / "faulty_disk.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"], check=True
    )
    return {"LD_PRELOAD": str(library)}


def is_loaded() -> bool:
    """Returns True where this interpreter was started with the faulty disk."""
    return hasattr(ctypes.CDLL(None), "faulty_disk")


@dataclass(frozen=True)
class FaultyDisk:
    """A disk, put by `install` between a process (its SQLite included) and the files of one folder.

    Counted are calls of open to write, write, pwrite, fsync, fdatasync, ftruncate, rename, link and unlink.
    TensorBoard's files never fail, since a thread writes them at moments that vary between runs.
    """

    folder: Path  # the folder whose files fail
    at: int = -1  # the number of the call that fails, from 0; -1 for none
    failure: str = "ENOSPC"  # one of `FAILURES`
    log: Path | None = None  # gets a byte for every call; None for nowhere

    def install(self) -> None:
        """Makes the disk faulty for the rest of this process."""
        log = -1 if self.log is None else os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        place = ctypes.c_char_p(os.fsencode(self.folder))
        ctypes.CDLL(None).faulty_disk(
            place, ctypes.c_long(self.at), FAILURES.index(self.failure), log
        )
