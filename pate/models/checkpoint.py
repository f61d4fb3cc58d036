"""Trained teachers on disk: many to a file, whole or not there, signed; and what they say when they are asked."""

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
# the name of a file of teachers: its first and its last one
CHECKPOINTS = r"teachers-(\d{6,})-(\d{6,})\.safetensors"
_LENGTHS = "/lengths"
_SIGNATURE = "signature"
_REMEDY = "remove it, and the same command trains these teachers again from the same records"
_ASK_AGAIN = "remove it, and the same command asks these teachers again"
_ROUNDING = 1e-6  # by which a confidence may leave [0, 1]


@dataclass(frozen=True)
class CheckpointStore:
    """A folder of trained teachers, consecutive ones in a file. No epsilon covers it: do not publish it.

    A file has each array of its teachers stacked, `[c, …]`; arrays whose lengths differ lie one behind the other, with
    their lengths beside them.

    Formal guarantees:
        * A file appears in one step, after its bytes and before its name reach the disk: whatever kills a run, it
          leaves all teachers of a `save` file or none.
        * The teachers of a torn file count as missing, and the next run trains them again. Each file is signed, HMAC
          SHA256 with a key of 256 random bits: one that was altered, or is another run's or of other teachers, is
          refused and not used. So is one of other records, where `records` names them.
        * The key counts only if it is a plain file that belongs to this user and that nobody else may read or write.
          Others who can write to the folder can exchange it, but cannot make this user its owner. A whole folder, key
          included, that somebody else made and this user copied is not told apart from one's own.
        * Files have mode 0600, the folder 0700.

    The store does not know which teacher, data or seeds its files came from: one folder for each, and one writer.

    Attributes:
        folder: made by the first `save`, in a folder that is there; the key lies beside it, under its name and `.key`.
        records: says which records each teacher may see, such as a partition's digest; signed with every file.
    """

    folder: Path | str
    records: str = ""

    @property
    def key(self) -> Path:
        """The file of the secret key that signs checkpoints."""
        folder = Path(self.folder)
        return folder.with_name(f"{folder.name}.key")

    def missing(self, num_teachers: int) -> list[int]:
        """Which of teachers 0..num_teachers-1 are in no whole file."""
        lacking = np.ones(num_teachers, np.bool_)
        for members in self._files():
            lacking[members.start : members.stop] = False
        return [int(teacher) for teacher in np.flatnonzero(lacking)]

    def save(self, states: Mapping[int, State]) -> None:
        """Writes teachers by their numbers: a file for each run of consecutive ones that are alike in their arrays."""
        for teacher in states:
            require_count("teacher", teacher, minimum=0)

        def alike(place_and_teacher: tuple[int, int]) -> object:
            """What consecutive teachers of one file have in common: all but the lengths of their arrays."""
            place, teacher = place_and_teacher
            arrays = sorted(states[teacher].items())
            return teacher - place, [
                (name, array.dtype, array.ndim, array.shape[1:]) for name, array in arrays
            ]

        for _, run in groupby(enumerate(sorted(states)), key=alike):
            members = [teacher for _, teacher in run]
            path = Path(self.folder) / f"teachers-{members[0]:06d}-{members[-1]:06d}.safetensors"
            arrays: State = {}
            for name in states[members[0]]:
                parts = [states[teacher][name] for teacher in members]
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
        """Removes what a killed run had half written, and torn files. While nobody else writes here."""
        disk.remove_partials(Path(self.folder), (CHECKPOINTS,))
        self._files(Path.unlink)

    def states(self, num_teachers: int, first: int = 0) -> Iterator[State]:
        """Reads teachers first..num_teachers-1 in order, with no more than one file of them in memory.

        Raises `InvalidValue` for a teacher that is missing, or a file that this run did not sign.
        """
        for members, path in sorted(self._files().items(), key=lambda each: each[0].start):
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
        return next(self.states(teacher + 1, teacher))

    def _files(self, of_torn: Callable[[Path], None] = lambda path: None) -> dict[range, Path]:
        """Files of teachers, by the teachers, that have as many bytes as they say; raises where one is no file."""
        complete = {}
        for path in Path(self.folder).glob("teachers-*.safetensors"):
            if name := re.fullmatch(CHECKPOINTS, path.name):
                if not disk.is_regular(path):
                    raise disk.damaged(path, "a file of teachers", "it is none", _REMEDY)
                try:
                    with safe_open(path, framework="numpy"):
                        complete[range(int(name[1]), int(name[2]) + 1)] = path
                except SafetensorError:
                    of_torn(path)
        return complete

    def _read(self, members: range, path: Path) -> list[State]:
        try:
            arrays: State = load_file(path)
            with safe_open(path, framework="numpy") as file:
                signature = (file.metadata() or {}).get(_SIGNATURE)
        except SafetensorError as error:
            raise disk.damaged(path, "a file of teachers", str(error), _REMEDY) from None
        known = self._signature(path, arrays) if os.path.lexists(self.key) else ""
        if not known or not hmac.compare_digest(known.encode(), (signature or "").encode()):
            raise disk.damaged(
                path, "teachers that this run signed", "they are altered, or another's", _REMEDY
            )
        states: list[State] = [{} for _ in members]
        for key in arrays:
            if not key.endswith(_LENGTHS):
                lengths = arrays.get(key + _LENGTHS)
                each = (
                    np.split(arrays[key], lengths.cumsum()[:-1])
                    if lengths is not None
                    else arrays[key]
                )
                for row, state in enumerate(states):
                    state[key] = np.asarray(each[row])
        return states

    def _signature(self, path: Path, arrays: State) -> str:
        """Of arrays in a file of that name, in hexadecimal; raises `InvalidValue` for a key that is not one."""
        remedy = f"remove it and {self.folder} to train again"
        text = disk.read_secret(self.key, remedy=remedy)
        if _KEY.fullmatch(text) is None:
            raise InvalidValue("secret", self.key, rule=f"64 hexadecimal digits; {remedy}")
        name = f"{path.stem} of {self.records}" if self.records else path.stem
        signed = hmac.new(bytes.fromhex(text.strip()), repr(name).encode(), sha256)
        for key, array in sorted(arrays.items()):
            signed.update(repr((key, array.dtype.str, array.shape)).encode())
            signed.update(np.ascontiguousarray(array).data)
        return signed.hexdigest()


def cast_votes(
    teacher: Teacher,
    store: CheckpointStore,
    num_teachers: int,
    inputs: NDArray[np.float32],
    chunk_size: int = 16,
    scratch: Path | str | None = None,
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Asks the teachers of a store about float32 `[num_queries, …]`, with no more than `chunk_size` of them in memory.

    Yields the index of a chunk's first teacher, and confidences float32 `[c, num_queries, num_labels]`; a vote is
    one >= 0.5. They are kept in the folder `scratch`, from which a killed run continues; the caller removes it at the
    end. Raises `InvalidValue` where one of teachers 0..num_teachers-1 is missing.
    """
    require_count("num_teachers", num_teachers)
    require_count("chunk_size", chunk_size)
    trained = store.states(num_teachers)
    for first in range(0, num_teachers, chunk_size):
        last = min(first + chunk_size, num_teachers)
        path = (
            None if scratch is None else Path(scratch) / f"confidences-{first:06d}-{last:06d}.npz"
        )
        states = list(islice(trained, last - first))
        if path is not None and os.path.lexists(path):
            form = ArrayForm("f", (last - first, len(inputs), None))
            yield first, read_arrays(path, {"confidences": form}, remedy=_ASK_AGAIN)["confidences"]
            continue
        with (
            one_thread(),
            device_memory("CUDA_VISIBLE_DEVICES= before the command asks them on the processor"),
        ):
            confidences = teacher.predict_many(states, inputs)
        _require_confidences(
            confidences, (len(states), len(inputs)), f"{type(teacher).__name__}.predict_many"
        )
        if path is not None:
            disk.make_folder(path.parent, within=path.parent.parent)
            disk.write_arrays(path, confidences=confidences)
        yield first, confidences


def _require_confidences(confidences: object, shape: tuple[int, int], name: str) -> None:
    values = require_array(name, confidences)
    require(
        values.ndim == 3 and values.shape[:2] == shape,
        f"{name}.shape",
        values.shape,
        f"({shape[0]}, {shape[1]}, L)",
    )
    good = bool(((values >= -_ROUNDING) & (values <= 1 + _ROUNDING)).all())
    require(good, name, "other numbers or nan", "confidences in [0, 1]")
