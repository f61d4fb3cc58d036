"""Faults: the disk fails, or the machine dies, at one of the calls that a run makes to it; then the same command."""

from __future__ import annotations

import builtins
import errno
import io
import os
import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.campaign.runs import SETTINGS, Kind, Truth, faults_of, refusal_faults, unpaid
from benchmarks.campaign.tally import Finding

_AGAIN = 0.3  # how often the continued run fails once more
_KILLED = -9


class Faults:
    """Runs whose disk fails.

    Args:
        folder: for all of them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._truths: dict[Kind, tuple[Truth, int]] = {}

    def attempt(self, rng: random.Random) -> list[Finding]:
        """One run, with one fault or a few."""
        kind = Kind(rng.choice(list(SETTINGS)))
        truth, num_calls = self._truth(kind)
        folder, found = self._folder / "faulty", []
        try:
            while True:
                disk = FaultyDisk(folder, rng.randrange(num_calls), rng.choice(FAILURES))
                ended = kind.start(folder, disk.install).wait()
                where = f"{kind.name}, {disk.failure} at call {disk.at}: "
                if ended.code not in (0, _KILLED):
                    found += [Finding(f.sort, where + f.text) for f in refusal_faults(ended, codes=(1, 2))]
                found += unpaid(folder, truth)
                if rng.random() >= _AGAIN:
                    break
            ended = kind.start(folder).wait()
            ok = ended.code == 0
            last = faults_of(folder, truth, truth.release) if ok else refusal_faults(ended, codes=(0,))
            return found + [Finding(f.sort, f"continued after {where}{f.text}") for f in last]
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _truth(self, kind: Kind) -> tuple[Truth, int]:
        if kind not in self._truths:
            truth = Truth.of(kind, self._folder / f"calm-faults-{kind.name}")
            self._truths[kind] = truth, num_disk_calls(kind, self._folder / "counted")
        return self._truths[kind]


def num_disk_calls(kind: Kind, folder: Path) -> int:
    """How many calls to the disk a run makes; the folder is removed."""
    log = folder.with_suffix(".log")
    kind.start(folder, FaultyDisk(folder, log=log).install).wait()
    shutil.rmtree(folder)
    number = len(log.read_text(encoding="utf-8").splitlines())
    log.unlink()
    return number


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
