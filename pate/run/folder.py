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

from pate.files.atomic import write_text
from pate.validation import InvalidValue, require

_LOCK = "run.lock"


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
        """Makes the folder, holds its lock, checks that it is this run's, and clears what a killed run half-wrote.

        Args:
            settings: all that the run depends on, as plain values.

        Raises:
            InvalidValue: another process works on the folder, or it holds something else.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise InvalidValue(f"output_dir={self.path}: expected a folder, found a file") from error
        strange = [e.name for e in self.path.iterdir() if e.name != _LOCK and not e.name.endswith(".partial")]
        if strange and not self._settings.exists():
            rule = f"expected a new folder or a run's own, found {min(strange)} in it"
            raise InvalidValue(f"output_dir={self.path}: {rule}")
        os.chmod(self.path, 0o700)
        with open(self.path / _LOCK, "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InvalidValue(f"output_dir={self.path}: expected a folder that no other run works on") from error
            if self._settings.exists():
                self._check_settings(settings)
            for partial in self.path.rglob(".*.partial"):
                partial.unlink()
            yield

    def claim(self, settings: dict[str, Any], **began_with: str) -> None:
        """Makes the folder this run's, once it is clear that the run can work.

        Args:
            settings: as in `opened`.
            **began_with: digests of what the settings cannot show, the owner's alone: the data, the release.

        Raises:
            InvalidValue: the run began with something else.
        """
        if not self._settings.exists():
            write_text(self._settings, json.dumps(settings, indent=2) + "\n")
        for name, digest in began_with.items():
            path = self.path / f"{name}.sha256"
            if not path.exists():
                write_text(path, digest + "\n", mode=0o600)
            rule = f"the {name} that this run began with; a new output_dir for another"
            require(path.read_text().strip() == digest, name, digest[:12], rule)

    @property
    def _settings(self) -> Path:
        return self.path / "run.json"

    def _check_settings(self, settings: dict[str, Any]) -> None:
        wanted = json.loads(json.dumps(settings))
        found = json.loads(self._settings.read_text())
        if found != wanted:
            asked = dict(_leaves(wanted))
            there = ", ".join(f"{key}={value}" for key, value in sorted(_leaves(found)) if asked.get(key) != value)
            rule = f"expected a new folder or this run's own, found a run with {there or 'other settings'}"
            raise InvalidValue(f"output_dir={self.path}: {rule}")


def _leaves(settings: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each setting by the name that a command line gives it."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
