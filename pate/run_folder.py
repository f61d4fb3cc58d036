"""The folder of a run: what may be published apart from what is the owner's alone."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pate.durable import write_text
from pate.validation import InvalidValue


@dataclass(frozen=True)
class RunFolder:
    """Paths of a run. Only `release/` may leave the house; the folder itself has mode 0700.

    Attributes:
        path: made if missing.
    """

    path: Path

    @property
    def release(self) -> Path:
        """What may be published under the stated epsilon, and nothing else."""
        return self.path / "release"

    @property
    def ledger(self) -> Path:
        """What has been spent."""
        return self.path / "ledger.jsonl"

    @property
    def report(self) -> Path:
        """The report as JSON; the last file of a run, so that its presence means completion."""
        return self.path / "report.json"

    @contextmanager
    def opened(self, settings: dict[str, Any]) -> Iterator[None]:
        """Makes the folder, holds its lock, and checks that it is this run's.

        Args:
            settings: all that the run depends on, as plain values.

        Raises:
            InvalidValue: another process works on the folder, or it holds a run with other settings.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        os.chmod(self.path, 0o700)
        with open(self.path / "run.lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InvalidValue(f"output_dir={self.path}: expected a folder that no other run works on") from error
            self._check_settings(settings)
            yield

    def _check_settings(self, settings: dict[str, Any]) -> None:
        path = self.path / "run.json"
        wanted = json.loads(json.dumps(settings))
        if not path.exists():
            write_text(path, json.dumps(wanted, indent=2) + "\n")
        found = json.loads(path.read_text())
        if found != wanted:
            there = ", ".join(f"{key}={found.get(key)}" for key in sorted(found) if found.get(key) != wanted.get(key))
            rule = f"expected a new folder or this run's own, found a run with {there or 'other settings'}"
            raise InvalidValue(f"output_dir={self.path}: {rule}")
