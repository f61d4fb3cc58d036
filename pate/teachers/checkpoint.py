"""Trained teachers on disk, one file each, whole or not there."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

from pate.files.atomic import is_regular, make_folder, remove_partials, replacing
from pate.files.reading import damaged, require_file
from pate.teachers.signature import SigningKey
from pate.teachers.teacher import State
from pate.validation import require_count

_CHUNK = "chunk-"
_WRITERS = 8
_SIGNATURE = "signature"
_REMEDY = "remove it, and the same command trains it again from the same records"


@dataclass(frozen=True)
class CheckpointStore:
    """A folder of trained teachers. No epsilon covers it: do not publish it.

    Formal guarantees:
        * `save` replaces a file in one step, after its bytes and before its name reach the disk: a killed
          run leaves the old file or the new one.
        * `save_chunk` does the same for several teachers at once: after a kill `recover` finds all of them or none.
        * A file that cannot be read counts as missing, so whatever tore it is repaired by the next run. Each carries a
          signature by this store's key (`SigningKey`): one that was altered, or comes from another run or teacher, is
          refused and not used. So is one of other records, where `records` names them.
        * Files have mode 0600, the folder 0700.

    The store does not know which teacher, data or seeds its files came from: one folder for each.

    Attributes:
        folder: made by the first `save`, in a folder that is there; the key lies beside it, under its name and `.key`.
        records: says which records each teacher may see, such as a partition's digest; signed with every teacher.
    """

    folder: Path
    records: str = ""

    @property
    def key(self) -> SigningKey:
        """What signs the checkpoints."""
        folder = Path(self.folder)
        return SigningKey(folder.with_name(f"{folder.name}.key"))

    def has(self, teacher: int) -> bool:
        """Whether there is a file that can be read.

        Raises:
            InvalidValue: a folder has its name.
        """
        path = self._path(teacher)
        if not is_regular(path):
            if path.is_dir():
                raise damaged(path, f"the checkpoint of teacher {teacher}", "it is a folder", _REMEDY)
            return False
        try:
            with safe_open(path, framework="numpy"):
                return True
        except (SafetensorError, OSError):
            return False

    def missing(self, num_teachers: int) -> list[int]:
        """Which of teachers 0..num_teachers-1 have no readable file."""
        return [teacher for teacher in range(num_teachers) if not self.has(teacher)]

    def save(self, teacher: int, state: State) -> None:
        """Writes a teacher and waits until it is on the disk."""
        path = self._path(require_count("teacher", teacher, minimum=0))
        self._write(path, state)

    def save_chunk(self, states: Mapping[int, State]) -> None:
        """Writes several teachers in one step: first as one file, which `recover` takes apart after a kill."""
        if len(states) == 1:
            for teacher, state in states.items():
                self.save(teacher, state)
        elif states:
            path = Path(self.folder) / f"{_CHUNK}{min(states):06d}-{max(states):06d}.safetensors"
            named = {f"{teacher}/{name}": array for teacher, state in states.items() for name, array in state.items()}
            self._write(path, named)
            self._take_apart(path)

    def recover(self) -> None:
        """Finishes what a killed `save_chunk` began, removes what was half written. While nobody else writes here.

        Raises:
            InvalidValue: a chunk that this run did not write.
        """
        remove_partials(Path(self.folder), (r"(?:teacher|chunk)-[-\d]+\.safetensors",))
        for path in sorted(Path(self.folder).glob(f"{_CHUNK}*.safetensors")):
            if is_regular(path):
                self._take_apart(path)

    def load(self, teacher: int) -> State:
        """Reads a teacher.

        Raises:
            InvalidValue: there is no such file, it cannot be read, or this run did not write it.
        """
        path, rule = self._path(teacher), f"the checkpoint of teacher {teacher}"
        require_file(path, rule=rule, remedy=_REMEDY)
        try:
            return self._read(path)
        except (SafetensorError, OSError) as error:
            if isinstance(error, PermissionError):
                raise
            raise damaged(path, rule, str(error), _REMEDY) from None

    def _take_apart(self, path: Path) -> None:
        """Writes each teacher of a chunk's file, then removes it; a file that cannot be read is removed at once."""
        try:
            arrays = self._read(path)
        except (SafetensorError, OSError):
            arrays = {}
        states: dict[int, State] = {}
        for name, array in arrays.items():
            index, _, key = name.partition("/")
            states.setdefault(int(index), {})[key] = array
        lacking = [teacher for teacher in states if not self.has(teacher)]
        with ThreadPoolExecutor(_WRITERS) as pool:  # each waits for the disk: together they wait once
            for _ in pool.map(lambda teacher: self.save(teacher, states[teacher]), lacking):
                pass
        path.unlink(missing_ok=True)

    def _write(self, path: Path, arrays: State) -> None:
        make_folder(path.parent, within=path.parent.parent)
        signature = self.key.sign(self._name(path), arrays)
        with replacing(path) as file:
            file.write(save(dict(sorted(arrays.items())), metadata={_SIGNATURE: signature}))

    def _read(self, path: Path) -> State:
        """The arrays of a file, where this run wrote them under that name."""
        arrays: State = load_file(path)
        with safe_open(path, framework="numpy") as file:
            signature = (file.metadata() or {}).get(_SIGNATURE)
        if not self.key.has_signed(self._name(path), arrays, signature):
            raise damaged(path, "a checkpoint that this run signed", "it is altered, or another's", _REMEDY)
        return arrays

    def _name(self, path: Path) -> str:
        return f"{path.stem} of {self.records}" if self.records else path.stem

    def _path(self, teacher: int) -> Path:
        return Path(self.folder) / f"teacher-{teacher:06d}.safetensors"
