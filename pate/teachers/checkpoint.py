"""Trained teachers on disk, one file each, whole or not there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

from pate.durable import replacing
from pate.teachers.teacher import State
from pate.validation import InvalidValue, require_count


@dataclass(frozen=True)
class CheckpointStore:
    """A folder of teachers. No epsilon covers it: it stays with the owner of the data.

    Formal guarantees:
        * `save` replaces a file in one step, after its bytes and before its name reach the disk: a killed
          run leaves the old file or the new one.
        * A file that cannot be read counts as missing, so whatever tore it is repaired by the next run.

    The store does not know which teacher, data or seeds its files came from: one folder for each.

    Attributes:
        folder: made by the first `save`.
    """

    folder: Path

    def has(self, teacher: int) -> bool:
        """Whether there is a file that can be read."""
        try:
            with safe_open(self._path(teacher), framework="numpy"):
                return True
        except (SafetensorError, OSError):
            return False

    def missing(self, num_teachers: int) -> list[int]:
        """Which of teachers 0..num_teachers-1 have no readable file."""
        return [teacher for teacher in range(num_teachers) if not self.has(teacher)]

    def save(self, teacher: int, state: State) -> None:
        """Writes a teacher and waits until it is on the disk."""
        path = self._path(require_count("teacher", teacher, minimum=0))
        with replacing(path) as file:
            file.write(save(dict(sorted(state.items()))))

    def load(self, teacher: int) -> State:
        """Reads a teacher.

        Raises:
            InvalidValue: there is no such file, or it cannot be read.
        """
        try:
            state: State = load_file(self._path(teacher))
        except (SafetensorError, OSError) as error:
            found = f"{self._path(teacher)} ({error})".replace("\n", " ")
            raise InvalidValue(f"teacher={teacher}: expected a checkpoint in {found}") from error
        return state

    def _path(self, teacher: int) -> Path:
        return Path(self.folder) / f"teacher-{teacher:06d}.safetensors"
