"""A disk that fails at one of the calls that a run makes to it, or a machine that dies there."""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FAILURES = ("ENOSPC", "EIO", "dies before", "dies after", "torn and dies", "torn and ENOSPC")


@dataclass
class FaultyDisk:
    """What `install` puts between a process and the files of one folder.

    Counted are calls of open, write, fsync, replace and truncate. TensorBoard's files are left alone: a thread of its
    own writes them, whenever it comes to it.

    Attributes:
        folder: the only one that fails.
        at: the number of the call that fails, from 0; None for none.
        failure: one of `FAILURES`.
        log: where every call is entered; None for nowhere.
    """

    folder: Path
    at: int | None = None
    failure: str = "ENOSPC"
    log: Path | None = None
    _number: int = 0

    def install(self) -> None:
        """Replaces the functions, for the rest of this process."""
        self._log = None if self.log is None else os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._write = os.write
        module: Any = os
        for name in ("fsync", "replace", "truncate", "open"):
            setattr(module, name, self._watched(name, getattr(os, name)))
        opened = self._watched("open", builtins.open)

        def open_watched(file: Any, *arguments: Any, **options: Any) -> Any:
            made = opened(file, *arguments, **options)
            return WatchedFile(made, self) if self._concerns(file) and made.writable() else made

        fdopen = os.fdopen

        def fdopen_watched(descriptor: int, *arguments: Any, **options: Any) -> Any:
            made = fdopen(descriptor, *arguments, **options)
            return WatchedFile(made, self) if self._concerns(descriptor) and made.writable() else made

        for place, name, made in (
            (builtins, "open", open_watched),
            (io, "open", open_watched),
            (os, "fdopen", fdopen_watched),
        ):
            setattr(place, name, made)

    def step(self, name: str, act: Callable[[], Any], torn: Callable[[], Any] | None = None) -> Any:
        """One call, which fails if it is its turn."""
        number, self._number = self._number, self._number + 1
        if self._log is not None:
            self._write(self._log, f"{name}\n".encode())
        if number != self.at:
            return act()
        if self.failure.startswith("torn") and torn is not None:
            torn()
        if self.failure == "dies after":
            act()
        if "dies" in self.failure:
            os.kill(os.getpid(), signal.SIGKILL)
        code = errno.EIO if self.failure == "EIO" else errno.ENOSPC
        raise OSError(code, os.strerror(code))

    def _watched(self, name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *arguments: Any, **options: Any) -> Any:
            if not self._concerns(target):
                return plain(target, *arguments, **options)
            return self.step(name, lambda: plain(target, *arguments, **options))

        return call

    def _concerns(self, target: Any) -> bool:
        """Whether a path, or what a descriptor stands for, lies in the folder."""
        try:
            path = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else os.fspath(target)
        except (OSError, TypeError):
            return False
        text = path if isinstance(path, str) else os.fsdecode(path)
        return text.startswith(str(self.folder)) and "tensorboard" not in text


class WatchedFile:
    """A file whose writes are counted.

    Args:
        file: the file.
        disk: told of each write.
    """

    def __init__(self, file: Any, disk: FaultyDisk) -> None:
        self._file, self._disk = file, disk

    def write(self, data: Any) -> Any:
        """Writes, or half of it, or fails."""

        def torn() -> None:
            self._file.write(data[: len(data) // 2])
            self._file.flush()

        return self._disk.step("write", lambda: self._file.write(data), torn)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> WatchedFile:
        self._file.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._file.__exit__(*error)

    def __iter__(self) -> Any:
        return iter(self._file)
