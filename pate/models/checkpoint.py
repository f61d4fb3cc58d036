"""Trained teachers on disk: one file each, whole or not there, signed; and what they say when they are asked."""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

from pate.files.arrays import ArrayForm, read_arrays
from pate.files.disk import (
    damaged,
    is_regular,
    make_folder,
    read_secret,
    remove_partials,
    replacing,
    require_file,
    sync_folder,
    write_arrays,
    write_text,
)
from pate.models.teacher import State, Teacher
from pate.networks.device import device_memory, one_thread
from pate.validation import InvalidValue, require_count

_KEY = re.compile(r"[0-9a-f]{64}\n")
_CHUNK = "chunk-"
_WRITERS = 8
_SIGNATURE = "signature"
_REMEDY = "remove it, and the same command trains it again from the same records"
_ASK_AGAIN = "remove it, and the same command asks these teachers again"


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
        folder = Path(self.folder)
        return SigningKey(folder.with_name(f"{folder.name}.key"))

    def has(self, teacher: int) -> bool:
        """Whether there is a file that can be read; raises `InvalidValue` where a folder has its name."""
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

        Raises `InvalidValue` for a chunk that this run did not write.
        """
        remove_partials(Path(self.folder), (r"(?:teacher|chunk)-[-\d]+\.safetensors",))
        for path in sorted(Path(self.folder).glob(f"{_CHUNK}*.safetensors")):
            if is_regular(path):
                self._take_apart(path)

    def load(self, teacher: int) -> State:
        """Reads a teacher; raises `InvalidValue` where there is no file, none that can be read, or not this run's."""
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


@dataclass(frozen=True)
class SigningKey:
    """HMAC-SHA256 with a key of 256 random bits in a file of a run's folder, mode 0600; the first `sign` makes it.

    Formal guarantees:
        * `has_signed` holds only for arrays that the holder of the key signed under the same name.
        * A key counts only if it is a plain file of 64 hexadecimal digits that belongs to this user and that nobody
          else may read or write. Others who can write to the folder can exchange the file, but cannot make this user
          its owner.

    A whole folder, key included, that somebody else made and this user copied is not told apart from one's own.
    """

    path: Path

    def sign(self, name: str, arrays: State) -> str:
        """In hexadecimal; raises `InvalidValue` for a key that is not one."""
        if not os.path.lexists(self.path):
            self._make()
        return self._signature(name, arrays)

    def has_signed(self, name: str, arrays: State, signature: str | None) -> bool:
        """Whether this key gave that signature to these arrays under this name; False without a key."""
        if signature is None or not os.path.lexists(self.path):
            return False
        return hmac.compare_digest(signature.encode(), self._signature(name, arrays).encode())

    def _signature(self, name: str, arrays: State) -> str:
        signed = hmac.new(self._read(), repr(name).encode(), sha256)
        for key, array in sorted(arrays.items()):
            signed.update(repr((key, array.dtype.str, array.shape)).encode())
            signed.update(np.ascontiguousarray(array).data)
        return signed.hexdigest()

    def _make(self) -> None:
        mine = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.partial")
        try:
            write_text(mine, f"{secrets.token_hex(32)}\n")
            with suppress(FileExistsError):  # another process was first
                os.link(mine, self.path)
        finally:
            mine.unlink(missing_ok=True)
        sync_folder(self.path.parent)

    def _read(self) -> bytes:
        remedy = f"remove it and {self.path.with_suffix('')} to train again"
        text = read_secret(self.path, remedy=remedy)
        if _KEY.fullmatch(text) is None:
            raise InvalidValue(f"secret={self.path}: expected 64 hexadecimal digits; {remedy}")
        return bytes.fromhex(text.strip())


def cast_votes(
    teacher: Teacher,
    store: CheckpointStore,
    num_teachers: int,
    inputs: NDArray[np.float32],
    chunk_size: int = 16,
    scratch: Path | None = None,
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Asks the teachers, a chunk at a time: no more than `chunk_size` teachers are in memory.

    Args:
        teacher: the recipe they were trained by.
        store: holds all of them; raises `InvalidValue` where one is missing.
        num_teachers: N.
        inputs: the queries, float32 `[num_queries, …]`.
        chunk_size: teachers asked at once.
        scratch: a folder for what they said, from which a killed run continues; the caller removes it at the end.

    Yields:
        The index of a chunk's first teacher, and confidences float32 `[c, num_queries, num_labels]`; a vote
        is a confidence >= 0.5.
    """
    require_count("num_teachers", num_teachers)
    require_count("chunk_size", chunk_size)
    for first in range(0, num_teachers, chunk_size):
        last = min(first + chunk_size, num_teachers)
        path = None if scratch is None else scratch / f"confidences-{first:06d}-{last:06d}.npz"
        if path is not None and os.path.lexists(path):
            form = ArrayForm("f", (last - first, len(inputs), None))
            yield first, read_arrays(path, {"confidences": form}, remedy=_ASK_AGAIN)["confidences"]
            continue
        states = [store.load(index) for index in range(first, last)]
        with one_thread(), device_memory("CUDA_VISIBLE_DEVICES= before the command asks them on the processor"):
            confidences = teacher.predict_many(states, inputs)
        if path is not None:
            make_folder(path.parent, within=path.parent.parent)
            write_arrays(path, confidences=confidences)
        yield first, confidences
