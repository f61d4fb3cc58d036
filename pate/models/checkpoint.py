"""Trained teachers on disk: files of many teachers, signed, each whole or not there; and the votes that they cast."""

import hmac
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

from pate.device import device_memory
from pate.files import disk
from pate.files.arrays import ArrayForm, read_arrays
from pate.models.teacher import State, Teacher
from pate.threads import one_thread
from pate.validation import InvalidValue, require, require_array, require_count

_KEY = re.compile(r"[0-9a-f]{64}\n")
# the name of a file of teachers: the indices of its first and its last teacher
CHECKPOINTS = r"teachers-(\d{6,})-(\d{6,})\.safetensors"
_LENGTHS = "/lengths"
_SIGNATURE = "signature"
_REMEDY = "remove it, and the same command trains these teachers again from the same records"
_ASK_AGAIN = "remove it, and the same command asks these teachers again"
_ROUNDING = 1e-6  # by which a confidence may leave [0, 1]


@dataclass(frozen=True)
class CheckpointStore:
    """A folder of trained teachers, consecutive ones in a file. No epsilon covers it: do not publish it.

    A file has each array of its teachers stacked, `[c, …]`. Arrays whose lengths differ are concatenated, and another
    array has their lengths.

    Formal guarantees:
        * A file appears in one step, after its bytes and before its name reach the disk: whatever kills a run, it
          leaves all teachers of a `save` file or none.
        * The teachers of a torn file count as missing, and the next run trains them again. Each file is signed, HMAC
          SHA256 with a key of 256 random bits. A file that was altered, or is another run's or of other teachers, is
          refused. So is a file of other records, if `records` names them.
        * The key counts only if it is a plain file that belongs to this user and that nobody else may read or write.
          Others who can write to the folder can exchange it, but cannot make this user its owner. A whole folder, key
          included, that somebody else made and this user copied is not told apart from one's own.
        * Files have mode 0600, the folder 0700.

    The store does not know which teacher, data or seeds its files came from: one folder for each, and one writer.

    Attributes:
        folder: made by the first `save`, in a folder that exists; the key has its name with `.key` added.
        records: identifies the records of each teacher, such as a partition's digest; signed with every file.
    """

    folder: Path | str
    records: str = ""

    @property
    def key(self) -> Path:
        """The file of the secret key that signs checkpoints."""
        folder = Path(self.folder)
        return folder.with_name(f"{folder.name}.key")

    def missing(self, num_teachers: int) -> list[int]:
        """Returns which of teachers 0..num_teachers-1 are in no whole file."""
        is_missing = np.ones(num_teachers, np.bool_)
        for members in self._files():
            is_missing[members.start : members.stop] = False
        return [int(teacher) for teacher in np.flatnonzero(is_missing)]

    def save(self, states: Mapping[int, State]) -> None:
        """Writes teachers by their indices: a file for each run of consecutive teachers with arrays of one kind."""
        for teacher in states:
            require_count("teacher", teacher, minimum=0)

        def key_of_file(place_and_teacher: tuple[int, int]) -> object:
            """Returns a key that teachers of one file share: of all but the lengths of their arrays."""
            place, teacher = place_and_teacher
            arrays = sorted(states[teacher].items())
            kinds = [(name, array.dtype, array.ndim, array.shape[1:]) for name, array in arrays]
            return teacher - place, kinds  # the difference is equal for consecutive teachers

        for _, places_and_teachers in groupby(enumerate(sorted(states)), key=key_of_file):
            self._write_file({teacher: states[teacher] for _, teacher in places_and_teachers})

    def _write_file(self, states: Mapping[int, State]) -> None:
        """Writes consecutive teachers to a file, with its signature."""
        members = list(states)
        path = Path(self.folder) / f"teachers-{members[0]:06d}-{members[-1]:06d}.safetensors"
        arrays: State = {}
        for name in states[members[0]]:
            parts = [state[name] for state in states.values()]
            if len({part.shape for part in parts}) == 1:
                arrays[name] = np.stack(parts)
            else:
                arrays[name] = np.concatenate(parts)
                arrays[name + _LENGTHS] = np.array([len(part) for part in parts])
        disk.make_folder(path.parent, within=path.parent.parent)
        if not os.path.lexists(self.key):
            disk.write_text(self.key, f"{secrets.token_hex(32)}\n")
        signature = self._signature(path, arrays)
        with disk.replacing(path) as file:
            file.write(save(dict(sorted(arrays.items())), metadata={_SIGNATURE: signature}))

    def recover(self) -> None:
        """Removes files that a killed run left half written, or torn. Nobody else may write here meanwhile."""
        disk.remove_partials(Path(self.folder), (CHECKPOINTS,))
        self._files(on_torn=Path.unlink)

    def states(self, num_teachers: int, first: int = 0) -> Iterator[State]:
        """Yields teachers first..num_teachers-1 in order, with no more than one file of them in memory.

        Raises:
            InvalidValue: a teacher that is missing, or a file that this run did not sign.
        """
        files = self._files()
        for members in sorted(files, key=_start_of):
            path = files[members]
            if first in members and first < num_teachers:
                yield from self._read(members, path)[
                    first - members.start : num_teachers - members.start
                ]
                first = members.stop
        if first < num_teachers:
            remedy = "the same command trains it"
            raise disk.damaged(
                Path(self.folder), f"teacher {first}", "no whole file has it", remedy
            )

    def load(self, teacher: int) -> State:
        """Reads a teacher, and the whole file for it; raises as `states`."""
        return next(self.states(teacher + 1, first=teacher))

    def _files(self, on_torn: Callable[[Path], None] | None = None) -> dict[range, Path]:
        """Returns the whole files of teachers by the indices of their teachers; calls `on_torn` for the others.

        Raises:
            InvalidValue: a folder or another thing that is no file, with the name of one.
        """
        whole_files = {}
        for path in Path(self.folder).glob("teachers-*.safetensors"):
            name = re.fullmatch(CHECKPOINTS, path.name)
            if name is None:
                continue
            if not disk.is_regular(path):
                raise disk.damaged(path, "a file of teachers", "it is none", _REMEDY)
            try:
                with safe_open(path, framework="numpy"):  # compares the length with the header
                    whole_files[range(int(name[1]), int(name[2]) + 1)] = path
            except SafetensorError:
                if on_torn is not None:
                    on_torn(path)
        return whole_files

    def _read(self, members: range, path: Path) -> list[State]:
        """Reads the teachers of a file; raises `InvalidValue` unless this run signed it."""
        try:
            arrays: State = load_file(path)
            with safe_open(path, framework="numpy") as file:
                signature = (file.metadata() or {}).get(_SIGNATURE)
        except SafetensorError as error:
            raise disk.damaged(path, "a file of teachers", str(error), _REMEDY) from None
        own_signature = self._signature(path, arrays) if os.path.lexists(self.key) else ""
        is_own = hmac.compare_digest(own_signature.encode(), (signature or "").encode())
        if not own_signature or not is_own:
            raise disk.damaged(
                path, "teachers that this run signed", "they are altered, or another's", _REMEDY
            )
        states: list[State] = [{} for _ in members]
        for name, array in arrays.items():
            if name.endswith(_LENGTHS):
                continue
            lengths = arrays.get(name + _LENGTHS)
            parts = array if lengths is None else np.split(array, lengths.cumsum()[:-1])
            for state, part in zip(states, parts, strict=True):
                state[name] = np.asarray(part)
        return states

    def _signature(self, path: Path, arrays: State) -> str:
        """Returns the signature of arrays in a file of a name, in hexadecimal; raises `InvalidValue` for a bad key."""
        remedy = f"remove it and {self.folder} to train again"
        text = disk.read_secret(self.key, remedy=remedy)
        if _KEY.fullmatch(text) is None:
            raise InvalidValue("secret", self.key, rule=f"64 hexadecimal digits; {remedy}")
        name = f"{path.stem} of {self.records}" if self.records else path.stem
        signature = hmac.new(bytes.fromhex(text.strip()), repr(name).encode(), sha256)
        for key, array in sorted(arrays.items()):
            signature.update(repr((key, array.dtype.str, array.shape)).encode())
            signature.update(np.ascontiguousarray(array).data)
        return signature.hexdigest()


def _start_of(members: range) -> int:
    return members.start


def cast_votes(
    teacher: Teacher,
    store: CheckpointStore,
    num_teachers: int,
    inputs: NDArray[np.float32],
    chunk_size: int = 16,
    scratch: Path | str | None = None,
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yields the confidences of a store's teachers, chunk by chunk; a vote is a confidence >= 0.5.

    Args:
        teacher: the recipe of the teachers.
        store: the trained teachers.
        num_teachers: teachers 0..num_teachers-1 are asked.
        inputs: the queries, float32 `[num_queries, …]`.
        chunk_size: number of teachers in memory, at most.
        scratch: a folder that keeps confidences, from which a killed run continues; the caller removes it at the end.

    Yields:
        The index of a chunk's first teacher, and confidences float32 `[c, num_queries, num_labels]`.

    Raises:
        InvalidValue: a teacher is missing, or its confidences have another shape or leave [0, 1].
    """
    require_count("num_teachers", num_teachers)
    require_count("chunk_size", chunk_size)
    trained = store.states(num_teachers)
    advice = "CUDA_VISIBLE_DEVICES= before the command asks them on the processor"
    for first in range(0, num_teachers, chunk_size):
        end = min(first + chunk_size, num_teachers)
        states = list(islice(trained, end - first))
        path = None
        if scratch is not None:
            path = Path(scratch) / f"confidences-{first:06d}-{end:06d}.npz"
        if path is not None and os.path.lexists(path):
            form = ArrayForm("f", (end - first, len(inputs), None))
            yield first, read_arrays(path, {"confidences": form}, remedy=_ASK_AGAIN)["confidences"]
            continue
        with one_thread(), device_memory(advice):
            confidences = teacher.predict_many(states, inputs)
        _require_confidences(
            confidences,
            num_teachers=len(states),
            num_queries=len(inputs),
            name=f"{type(teacher).__name__}.predict_many",
        )
        if path is not None:
            disk.make_folder(path.parent, within=path.parent.parent)
            disk.write_arrays(path, confidences=confidences)
        yield first, confidences


def _require_confidences(
    confidences: object, *, num_teachers: int, num_queries: int, name: str
) -> None:
    """Raises `InvalidValue` unless confidences are in [0, 1], `[num_teachers, num_queries, num_labels]`."""
    values = require_array(name, confidences)
    fits = values.ndim == 3 and values.shape[:2] == (num_teachers, num_queries)
    require(fits, f"{name}.shape", values.shape, f"({num_teachers}, {num_queries}, L)")
    in_range = bool(((values >= -_ROUNDING) & (values <= 1 + _ROUNDING)).all())
    require(in_range, name, "other numbers or nan", "confidences in [0, 1]")
