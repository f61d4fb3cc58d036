"""The checkpoints of trained teachers: signed files of several teachers each; and the votes of the teachers in them."""

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
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

from pate.array_types import Float32Array
from pate.device import device_memory
from pate.files.arrays import ArrayForm, read_arrays, write_arrays
from pate.files.atomic import atomic_write, remove_partials, write_text
from pate.files.paths import is_regular, make_folder
from pate.files.reading import damaged
from pate.files.secret import read_secret
from pate.models.teacher import State, Teacher
from pate.threads import one_thread
from pate.validation import InvalidValue, require, require_array, require_count

CHECKPOINT_PATTERN = r"teachers-(\d{6,})-(\d{6,})\.safetensors"
"""The pattern of the name of a file of teachers, with the indices of its first and its last teacher."""

_KEY_PATTERN = re.compile(r"[0-9a-f]{64}\n")  # the content of the file of the key
_LENGTHS_SUFFIX = "/lengths"  # the end of the name of an array of lengths
_SIGNATURE_FIELD = "signature"  # the name of the signature in the metadata of a file
_REMEDY = "remove it, and the same command trains these teachers again from the same records"
_ASK_AGAIN = "remove it, and the same command asks these teachers again"
_ROUNDING = 1e-6  # the largest distance of a confidence from [0, 1]


@dataclass(frozen=True)
class CheckpointStore:
    """A folder of trained teachers, with consecutive teachers in one file. No epsilon covers it: do not publish it.

    A file stores, for each name of an array, the arrays of its c teachers stacked along a new first axis, `[c, …]`. If
    the arrays have different lengths, they are concatenated, and a further array stores the lengths.

    Formal guarantees:
        * A file appears under its name in one step, once all its bytes are on the disk. So a run that is killed in
          `save` leaves either all teachers of a file or none.
        * The teachers of an incomplete file count as missing, and the next run trains them again. Each file is signed
          by HMAC-SHA256 with a key of 256 random bits. A file is refused if it was altered, or if it comes from another
          run or holds other teachers. If `records_digest` is set, a file of teachers of other records is refused, too.
        * The key is accepted only if it is a plain file that belongs to this user and that no other user may read or
          write. Users who can write beside the folder can replace the key, but cannot make it belong to this user. If
          this user copies a whole folder, with its key, from somebody else, the store does not notice.
        * Files are made with mode 0600, and the folder with mode 0700.

    The store does not know which recipe, data or seeds its files came from. Use a separate folder for each combination,
    and let one process at a time write to it.

    Attributes:
        folder: the folder of the files. The first `save` makes it, in a folder that must exist. The key is a file
            beside it with the name of the folder and the suffix `.key`.
        records_digest: a text that identifies the records of each teacher, such as the digest of a partition; it is
            signed with every file.
    """

    folder: Path | str
    records_digest: str = ""

    @property
    def key(self) -> Path:
        """The path of the file with the secret key that signs checkpoints: that of `folder` with the suffix `.key`."""
        folder = Path(self.folder)
        return folder.with_name(f"{folder.name}.key")

    def missing(self, num_teachers: int) -> list[int]:
        """Returns the indices of the teachers 0..num_teachers-1 that no complete file contains."""
        is_missing_teacher = np.ones(num_teachers, np.bool_)
        for teacher_indices in self._files():
            is_missing_teacher[teacher_indices.start : teacher_indices.stop] = False
        return np.flatnonzero(is_missing_teacher).tolist()

    def save(self, states: Mapping[int, State]) -> None:
        """Writes teachers to files. Consecutive ones share a file if their arrays differ only in values and lengths.

        Args:
            states: the arrays of each teacher, by the teacher's index.
        """
        for teacher_index in states:
            require_count("teacher", teacher_index, minimum=0)

        def key_of_file(position_and_teacher: tuple[int, int]) -> object:
            """Returns a key that is equal for two teachers if they belong to the same file.

            The key has the names, types and shapes of the arrays, the shapes without their first axis. It also has the
            teacher's index minus its position, which is equal for consecutive teachers.

            Args:
                position_and_teacher: the position of a teacher in `states`, in ascending order, and its index.
            """
            position, teacher_index = position_and_teacher
            arrays_by_name = sorted(states[teacher_index].items())
            kinds = [
                (name, array.dtype, array.ndim, array.shape[1:]) for name, array in arrays_by_name
            ]
            return teacher_index - position, kinds

        teacher_indices = sorted(states)
        for _, file_members in groupby(enumerate(teacher_indices), key=key_of_file):
            self._write_file(
                {teacher_index: states[teacher_index] for _, teacher_index in file_members}
            )

    def _write_file(self, states: Mapping[int, State]) -> None:
        """Writes consecutive teachers, by their indices, to one signed file."""
        teacher_indices = list(states)
        first_teacher, last_teacher = teacher_indices[0], teacher_indices[-1]
        checkpoint_file = (
            Path(self.folder) / f"teachers-{first_teacher:06d}-{last_teacher:06d}.safetensors"
        )
        stacked_arrays: State = {}
        for name in states[teacher_indices[0]]:
            arrays_of_teachers = [state[name] for state in states.values()]
            if len({array_of_teacher.shape for array_of_teacher in arrays_of_teachers}) == 1:
                stacked_arrays[name] = np.stack(arrays_of_teachers)
            else:
                stacked_arrays[name] = np.concatenate(arrays_of_teachers)
                stacked_arrays[name + _LENGTHS_SUFFIX] = np.array(
                    [len(array_of_teacher) for array_of_teacher in arrays_of_teachers]
                )
        make_folder(checkpoint_file.parent, existing_parent=checkpoint_file.parent.parent)
        if not os.path.lexists(self.key):
            write_text(path=self.key, text=f"{secrets.token_hex(nbytes=32)}\n")
        signature = self._signature(checkpoint_file, stacked_arrays=stacked_arrays)
        with atomic_write(checkpoint_file) as file:
            file.write(
                save(dict(sorted(stacked_arrays.items())), metadata={_SIGNATURE_FIELD: signature})
            )

    def recover(self) -> None:
        """Removes the half-written and incomplete files that a killed run has left.

        No other process may write to the folder at the same time.
        """
        remove_partials(Path(self.folder), name_patterns=(CHECKPOINT_PATTERN,))
        # Called only to remove the incomplete files; the whole ones are not needed here.
        self._files(on_incomplete=Path.unlink)

    def states(self, num_teachers: int, first_teacher: int = 0) -> Iterator[State]:
        """Yields the states of teachers first_teacher..num_teachers-1 in order; at most one file is in memory.

        If a teacher is missing, the states before it are yielded before the error is raised.

        Args:
            num_teachers: one more than the index of the last teacher that is yielded.
            first_teacher: the index of the first teacher that is yielded.

        Raises:
            InvalidValue: a teacher is missing; or a file was altered, or signed by another run.
        """
        checkpoint_by_teacher_range = self._files()
        next_teacher = first_teacher
        for teacher_indices in sorted(
            checkpoint_by_teacher_range, key=lambda teacher_indices: teacher_indices.start
        ):
            if next_teacher in teacher_indices and next_teacher < num_teachers:
                states_in_file = self._read(
                    checkpoint_by_teacher_range[teacher_indices], teacher_indices=teacher_indices
                )
                first_row = next_teacher - teacher_indices.start
                end_row = num_teachers - teacher_indices.start
                yield from states_in_file[first_row:end_row]
                next_teacher = teacher_indices.stop
        if next_teacher < num_teachers:
            raise damaged(
                Path(self.folder),
                rule=f"teacher {next_teacher}",
                finding="no whole file has it",
                remedy="the same command trains it",
            )

    def load(self, teacher: int) -> State:
        """Returns the state of one teacher; the whole file of the teacher is read.

        Raises:
            InvalidValue: the teacher is missing, or this run did not sign its file.
        """
        return next(self.states(num_teachers=teacher + 1, first_teacher=teacher))

    def _files(self, on_incomplete: Callable[[Path], None] | None = None) -> dict[range, Path]:
        """Returns the path of each complete file, by the range of the indices of its teachers.

        Args:
            on_incomplete: is called with the path of each incomplete file; None ignores incomplete files.

        Raises:
            InvalidValue: a folder, or something else that is no plain file, has the name of a checkpoint.
        """
        whole_files = {}
        for checkpoint_file in Path(self.folder).glob("teachers-*.safetensors"):
            name_match = re.fullmatch(CHECKPOINT_PATTERN, checkpoint_file.name)
            if name_match is None:
                continue
            if not is_regular(checkpoint_file):
                raise damaged(
                    checkpoint_file, rule="a file of teachers", finding="it is none", remedy=_REMEDY
                )
            try:
                # Opening compares the length with the header.
                with safe_open(checkpoint_file, framework="numpy"):
                    first_teacher, last_teacher = map(int, name_match.groups())
                    whole_files[range(first_teacher, last_teacher + 1)] = checkpoint_file
            except SafetensorError:
                if on_incomplete is not None:
                    on_incomplete(checkpoint_file)
        return whole_files

    def _read(self, checkpoint_file: Path, *, teacher_indices: range) -> list[State]:
        """Reads the states of the teachers in a file; raises `InvalidValue` unless this run signed the file.

        Args:
            checkpoint_file: the file.
            teacher_indices: the indices of the teachers in the file, which its name tells.
        """
        try:
            stacked_arrays: State = load_file(checkpoint_file)
            with safe_open(checkpoint_file, framework="numpy") as file:
                stored_signature = (file.metadata() or {}).get(_SIGNATURE_FIELD)
        except SafetensorError as error:
            raise damaged(
                checkpoint_file, rule="a file of teachers", finding=str(error), remedy=_REMEDY
            ) from None
        computed_signature = ""
        if os.path.lexists(self.key):
            computed_signature = self._signature(checkpoint_file, stacked_arrays=stacked_arrays)
        is_own = hmac.compare_digest(computed_signature.encode(), (stored_signature or "").encode())
        if not computed_signature or not is_own:
            raise damaged(
                checkpoint_file,
                rule="teachers that this run signed",
                finding="they are altered, or another's",
                remedy=_REMEDY,
            )
        states: list[State] = [{} for _ in teacher_indices]
        for name, stacked_array in stacked_arrays.items():
            if name.endswith(_LENGTHS_SUFFIX):
                continue
            lengths = stacked_arrays.get(name + _LENGTHS_SUFFIX)
            arrays_of_teachers = (
                stacked_array if lengths is None else np.split(stacked_array, lengths.cumsum()[:-1])
            )
            for state, array_of_teacher in zip(states, arrays_of_teachers, strict=True):
                state[name] = np.asarray(array_of_teacher)
        return states

    def _signature(self, checkpoint_file: Path, *, stacked_arrays: State) -> str:
        """Returns the signature of the arrays in a file, in hexadecimal; its name and `records_digest` are signed, too.

        Raises:
            InvalidValue: the key is missing, damaged, or not only this user's.
        """
        remedy = f"remove it and {self.folder} to train again"
        key_file = self.key
        key_text = read_secret(path=key_file, remedy=remedy)
        if _KEY_PATTERN.fullmatch(key_text) is None:
            raise InvalidValue("secret", key_file, rule=f"64 hexadecimal digits; {remedy}")
        signed_name = (
            f"{checkpoint_file.stem} of {self.records_digest}"
            if self.records_digest
            else checkpoint_file.stem
        )
        signature = hmac.new(
            key=bytes.fromhex(key_text.strip()), msg=repr(signed_name).encode(), digestmod=sha256
        )
        for array_name, array in sorted(stacked_arrays.items()):
            signature.update(repr((array_name, array.dtype.str, array.shape)).encode())
            signature.update(np.ascontiguousarray(array).data)
        return signature.hexdigest()


def cast_votes(
    teacher: Teacher,
    store: CheckpointStore,
    num_teachers: int,
    inputs: Float32Array,
    *,
    chunk_size: int = 16,
    scratch: Path | str | None = None,
) -> Iterator[tuple[int, Float32Array]]:
    """Yields the confidences of the teachers in a store, a chunk of teachers at a time.

    A teacher votes for a label if its confidence is at least 0.5.

    Args:
        teacher: the recipe of the teachers.
        store: the trained teachers.
        num_teachers: the number of teachers; teachers 0..num_teachers-1 vote.
        inputs: the inputs of the queries, float32, one entry for each query.
        chunk_size: the greatest number of teachers that are asked at one time.
        scratch: a folder in which confidences are kept, so that a killed run can continue. The caller removes
            the folder. None keeps nothing.

    Yields:
        The index of the chunk's first teacher, and the chunk's confidences, float32 `[num_chunk_teachers, num_queries,
        num_labels]`.

    Raises:
        InvalidValue: a teacher is missing, or its confidences have a wrong shape or are outside [0, 1]; or a file in
            `scratch` is damaged.
        DeviceFull: the memory of the GPU is too small.
    """
    require_count("num_teachers", num_teachers)
    require_count("chunk_size", chunk_size)
    trained_states = store.states(num_teachers)
    advice = "CUDA_VISIBLE_DEVICES= before the command asks them on the processor"
    for first_teacher in range(0, num_teachers, chunk_size):
        end_teacher = min(first_teacher + chunk_size, num_teachers)
        states = list(islice(trained_states, end_teacher - first_teacher))
        teacher_confidences_file = None
        if scratch is not None:
            teacher_confidences_file = (
                Path(scratch) / f"confidences-{first_teacher:06d}-{end_teacher:06d}.npz"
            )
        if teacher_confidences_file is not None and os.path.lexists(teacher_confidences_file):
            confidences_form = ArrayForm(
                dtype_kinds="f", shape=(end_teacher - first_teacher, len(inputs), None)
            )
            stored_arrays = read_arrays(
                teacher_confidences_file, forms={"confidences": confidences_form}, remedy=_ASK_AGAIN
            )
            yield first_teacher, stored_arrays["confidences"]
            continue
        with one_thread(), device_memory(advice=advice):
            confidences = teacher.predict_many(states, inputs=inputs)
        _require_confidences(
            confidences,
            num_teachers=len(states),
            num_queries=len(inputs),
            name_in_error=f"{type(teacher).__name__}.predict_many",
        )
        if teacher_confidences_file is not None:
            make_folder(
                teacher_confidences_file.parent,
                existing_parent=teacher_confidences_file.parent.parent,
            )
            write_arrays(teacher_confidences_file, confidences=confidences)
        yield first_teacher, confidences


def _require_confidences(
    confidences: object, *, num_teachers: int, num_queries: int, name_in_error: str
) -> None:
    """Raises `InvalidValue` unless confidences are in [0, 1], with the shape `[num_teachers, num_queries, num_labels]`.

    Values may leave [0, 1] by rounding, at most 1e-6.

    Args:
        confidences: the confidences to check.
        num_teachers: the number of teachers.
        num_queries: the number of queries.
        name_in_error: the name of the confidences in the error.
    """
    confidences_of_teachers = require_array(name_in_error, confidences)
    fits = confidences_of_teachers.ndim == 3 and confidences_of_teachers.shape[:2] == (
        num_teachers,
        num_queries,
    )
    require(
        fits,
        f"{name_in_error}.shape",
        confidences_of_teachers.shape,
        f"({num_teachers}, {num_queries}, L)",
    )
    in_range = bool(
        ((confidences_of_teachers >= -_ROUNDING) & (confidences_of_teachers <= 1 + _ROUNDING)).all()
    )
    require(in_range, name_in_error, "other numbers or nan", "confidences in [0, 1]")
