"""Arrays in files: .npy and .npz files that are written and read without pickle.

Each array is compared with its checksum, and is then in memory or mapped. A mapped array stays on the disk; only the
pages of it that were read take memory.
"""

import io
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pate.files.atomic import atomic_write
from pate.files.reading import FROM_BACKUP, damaged, reading_file

Arrays = dict[str, NDArray[Any]]

# The errors of zipfile for bytes that are no archive, and of numpy for bytes that are no header of an array.
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError)
_HEADER_ERRORS = (
    tokenize.TokenError,
    ValueError,
    KeyError,
    TypeError,
    SyntaxError,
    OverflowError,
    MemoryError,
)
# The errors of reading bytes that are no archive of arrays.
UNREADABLE = (*_ZIP_ERRORS, *_HEADER_ERRORS)
# The number of bytes that are read at once.
_BLOCK_BYTES = 2**24
# numpy's letters of the dtypes of numbers and truth values.
_NUMBERS = "biuf"
# What the error of a damaged file says of the expected file.
_RULE = "an .npz file as it was written"
# numpy before 2.2 took this setting of `savez` for an array, and stored it.
_SETTING = "allow_pickle"
# The header of a zip's member, which ends with the lengths of the name and the extra field.
_LOCAL_HEADER = struct.Struct("<26xHH")
# The names of numpy's kinds of dtype, by their letters.
_KIND_NAMES = {"b": "bits", "i": "integers", "u": "unsigned integers", "f": "floats", "U": "texts"}


def write_arrays(path: Path | str, **arrays: NDArray[Any]) -> None:
    """Writes arrays as an .npz file without pickle; equal arrays in C order give equal bytes."""
    with atomic_write(path) as file:
        pack_arrays(file, arrays)


def pack_arrays(open_file: IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes arrays to an open file in the format of `numpy.savez`, without pickle.

    `numpy.savez` has the argument `allow_pickle=False` since numpy 2.2; earlier versions take it for an array.

    Raises:
        ValueError: an array holds Python objects.
    """
    with zipfile.ZipFile(open_file, mode="w", compression=zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", mode="w", force_zip64=True) as open_member:
                np.lib.format.write_array(open_member, np.asanyarray(array), allow_pickle=False)


def npz_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Returns the bytes of an .npz file with named arrays, without pickle.

    Equal arrays in C order give equal bytes.
    """
    open_file = io.BytesIO()
    pack_arrays(open_file, arrays)
    return open_file.getvalue()


def arrays_of_npz(npz_content: bytes) -> Arrays:
    """Returns the arrays from bytes that `npz_bytes` returned, in this or an earlier version of pate."""
    with np.load(io.BytesIO(npz_content), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files if name != _SETTING}


@dataclass(frozen=True)
class ArrayForm:
    """The type and shape that an array in a file must have.

    Attributes:
        dtype_kinds: numpy's letters of the allowed dtypes, such as "b" or "iu".
        shape: the length of each axis, with None for an axis of any length; None instead of a tuple allows any shape.
    """

    dtype_kinds: str
    shape: tuple[int | None, ...] | None = None

    def mismatch(self, array: NDArray[Any]) -> str:
        """Returns a phrase with the wrong dtype or shape of an array; "" if the array has this form."""
        if array.dtype.kind not in self.dtype_kinds:
            return f"dtype {array.dtype}"
        if self.shape is None:
            return ""
        has_rank = len(self.shape) == array.ndim
        has_lengths = has_rank and all(
            expected_length in (None, length)
            for expected_length, length in zip(self.shape, array.shape, strict=True)
        )
        return "" if has_lengths else f"shape {array.shape}"

    def __str__(self) -> str:
        axis_lengths = (
            "n" if axis_length is None else str(axis_length) for axis_length in self.shape or ()
        )
        shape = "" if self.shape is None else f" [{', '.join(axis_lengths)}]"
        return " or ".join(_KIND_NAMES[letter] for letter in self.dtype_kinds) + shape


def read_arrays(
    path: Path,
    forms: Mapping[str, ArrayForm] | None = None,
    *,
    remedy: str = FROM_BACKUP,
    max_unpacked_bytes: int | None = None,
    optional_forms: Mapping[str, ArrayForm] | None = None,
    mapped_array_name: str | None = None,
) -> Arrays:
    """Reads the arrays of an .npz file. A header that states more data than the file has takes no memory.

    Args:
        path: the file.
        forms: the arrays that the file must have, by name; None accepts all arrays of numbers and truth values.
        remedy: advice in the error if the file is damaged.
        max_unpacked_bytes: the most bytes of all arrays after decompression; None refuses compressed arrays.
        optional_forms: arrays that the file may have in addition, by name.
        mapped_array_name: the name of an array that stays on the disk, as a read-only `np.memmap`. Its bytes are read
            once to check their checksum. None maps no array.

    Raises:
        DamagedFile: the file is missing, damaged or no archive; or an array is missing, unknown or of another form.
        PermissionError: this user may not read the file.
    """
    all_forms = {**(forms or {}), **(optional_forms or {})}
    with reading_file(path, rule=_RULE, remedy=remedy, damage_errors=UNREADABLE):
        arrays = _read(
            npz_file=path,
            max_unpacked_bytes=max_unpacked_bytes,
            known_forms=all_forms,
            mapped_array_name=mapped_array_name,
        )
    if forms is None:
        return arrays
    unknown_names = arrays.keys() - all_forms.keys()
    missing_names = forms.keys() - arrays.keys()
    if unknown_names or missing_names:
        rule = f"the arrays {', '.join(sorted(forms))}"
        finding = f"missing or unknown: {', '.join(sorted(unknown_names | missing_names))}"
        raise damaged(path, rule=rule, finding=finding, remedy=remedy)
    for name, array in arrays.items():
        mismatch = all_forms[name].mismatch(array)
        if mismatch:
            raise damaged(
                path, rule=f"{name} as {all_forms[name]}", finding=mismatch, remedy=remedy
            )
    return arrays


def arrays_of(
    npz_bytes: bytes,
    forms: Mapping[str, ArrayForm],
    *,
    optional_forms: Mapping[str, ArrayForm] | None = None,
) -> Arrays:
    """Returns the arrays, by name, from the bytes of an .npz file, such as a message.

    Args:
        npz_bytes: the bytes. Arrays that expand to more bytes than these are refused.
        forms: the arrays that must be there, by name.
        optional_forms: arrays that may be there in addition, by name.

    Raises one of `UNREADABLE` (the errors of zipfile and numpy) for any other bytes.
    """
    all_forms = {**forms, **(optional_forms or {})}
    arrays = _read(
        npz_file=io.BytesIO(npz_bytes), max_unpacked_bytes=len(npz_bytes), known_forms=all_forms
    )
    has_names = forms.keys() <= arrays.keys() <= all_forms.keys()
    if not has_names or any(all_forms[name].mismatch(array) for name, array in arrays.items()):
        raise ValueError("arrays of another form")
    return arrays


def read_array(
    open_file: IO[bytes], num_bytes: int, *, dtype_kinds: str = _NUMBERS
) -> NDArray[Any]:
    """Reads one array in numpy's format from an open file.

    Args:
        open_file: the file, which holds nothing else, at its beginning.
        num_bytes: the number of bytes of header and data together.
        dtype_kinds: numpy's letters of the allowed dtypes.

    Raises one of `UNREADABLE` (the errors of zipfile and numpy) for any other content.
    """
    array_shape, fortran_order, dtype = read_header(open_file, num_bytes, dtype_kinds=dtype_kinds)
    num_data_bytes = num_bytes - open_file.tell()
    data_bytes = bytearray()
    # A member of a zip file compares its checksum when its end is read.
    while byte_block := open_file.read(_BLOCK_BYTES):
        data_bytes += byte_block
    if len(data_bytes) != num_data_bytes:
        raise ValueError("an array that ends early")
    if dtype.kind == "b" and data_bytes and np.frombuffer(data_bytes, np.uint8).max() > 1:
        raise ValueError("bits other than 0 and 1")
    array = np.frombuffer(data_bytes, dtype).reshape(
        array_shape, order="F" if fortran_order else "C"
    )
    if dtype.kind == "U":
        array.tolist()  # raises for a number that stands for no character
    return array


def read_header(
    open_file: IO[bytes], num_bytes: int, *, dtype_kinds: str = _NUMBERS
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Reads the header of an array; afterwards the position in the file is the beginning of the array's data.

    Args:
        open_file: the file, which holds nothing else, at its beginning.
        num_bytes: the number of bytes of header and data together.
        dtype_kinds: numpy's letters of the allowed dtypes.

    Returns:
        The shape; true if the array is stored by columns (Fortran's order); and the dtype.

    Raises one of `UNREADABLE` (the errors of zipfile and numpy) for another dtype, or for a header that does not agree
    with `num_bytes`.
    """
    header_readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        format_version = np.lib.format.read_magic(open_file)
        header_reader = header_readers.get(format_version)
        header = None if header_reader is None else header_reader(open_file)
    except _HEADER_ERRORS:
        # numpy's messages quote the bytes of the header.
        raise ValueError("a header that numpy cannot read") from None
    if header is None:
        raise ValueError(f"format version {format_version}")
    array_shape, fortran_order, dtype = header
    if dtype.kind not in dtype_kinds:
        raise ValueError(f"dtype {str(dtype)[:40]} where numbers are expected")
    num_entries = math.prod(array_shape)
    is_negative = min(array_shape, default=0) < 0
    has_empty_entries = num_entries != 0 and dtype.itemsize == 0  # endless rows in no bytes
    has_size = open_file.tell() + num_entries * dtype.itemsize == num_bytes
    if is_negative or has_empty_entries or not has_size:
        raise ValueError(
            f"{num_bytes} bytes where the header promises {str(array_shape)[:40]} of {dtype}"
        )
    return array_shape, fortran_order, dtype


def is_array_file(first_bytes: bytes) -> bool:
    """Returns True if the first bytes of a file, `first_bytes`, are those of an .npy file."""
    return first_bytes.startswith(np.lib.format.MAGIC_PREFIX)


def check_members(archive: zipfile.ZipFile, max_unpacked_bytes: int | None) -> None:
    """Raises ValueError if an archive has a name twice, or if its arrays would take too much memory.

    Args:
        archive: the archive, open for reading.
        max_unpacked_bytes: the most bytes of all arrays after decompression; None refuses compressed arrays.
    """
    if max_unpacked_bytes is None:
        require_uncompressed(archive)
        return
    _require_distinct_names(archive)
    num_bytes = sum(member_info.file_size for member_info in archive.infolist())
    if num_bytes > max_unpacked_bytes:
        raise ValueError(f"{num_bytes:,} bytes once it is expanded, at most {max_unpacked_bytes:,}")


def require_uncompressed(archive: zipfile.ZipFile) -> None:
    """Raises ValueError if an archive, open for reading, has a name twice or a compressed array."""
    _require_distinct_names(archive)
    member_infos = archive.infolist()
    if any(member_info.compress_type != zipfile.ZIP_STORED for member_info in member_infos):
        raise ValueError("a compressed array")


def _require_distinct_names(archive: zipfile.ZipFile) -> None:
    member_infos = archive.infolist()
    member_names = {member_info.filename for member_info in member_infos}
    if len(member_names) < len(member_infos):
        raise ValueError("an array twice")


def _read(
    npz_file: Path | IO[bytes],
    max_unpacked_bytes: int | None,
    known_forms: Mapping[str, ArrayForm],
    mapped_array_name: str | None = None,
) -> Arrays:
    """Returns the arrays of an .npz archive by name; raises one of `UNREADABLE` if the file is no such archive.

    Args:
        npz_file: the file, or an open file, which cannot be mapped.
        max_unpacked_bytes: as in `read_arrays`.
        known_forms: the forms of arrays, by name. An array whose form allows texts may hold texts; others hold numbers.
        mapped_array_name: as in `read_arrays`.
    """
    with zipfile.ZipFile(npz_file) as archive:
        check_members(archive, max_unpacked_bytes=max_unpacked_bytes)
        arrays: Arrays = {}
        for member_info in archive.infolist():
            name = member_info.filename[:-4]
            ending = member_info.filename[-4:]
            if name == _SETTING:
                continue
            if ending != ".npy" or not name.isidentifier():
                raise ValueError("a member that is no array")
            if name == mapped_array_name and isinstance(npz_file, Path):
                arrays[name] = _map(npz_file, archive=archive, member_info=member_info)
                continue
            may_hold_texts = name in known_forms and "U" in known_forms[name].dtype_kinds
            dtype_kinds = _NUMBERS + "U" if may_hold_texts else _NUMBERS
            with archive.open(member_info) as open_member:
                arrays[name] = read_array(
                    open_member, num_bytes=member_info.file_size, dtype_kinds=dtype_kinds
                )
        return arrays


def _map(npz_file: Path, archive: zipfile.ZipFile, member_info: zipfile.ZipInfo) -> NDArray[Any]:
    """Returns an array of an .npz archive as a read-only `np.memmap`, after a check of its checksum.

    Args:
        npz_file: the file of the archive.
        archive: the same archive, open for reading.
        member_info: the entry of the array, which must not be compressed.

    Raises one of `UNREADABLE` (the errors of zipfile and numpy) for an array that is damaged, empty or stored by
    columns.
    """
    with archive.open(member_info) as open_member:
        array_shape, fortran_order, dtype = read_header(
            open_member, num_bytes=member_info.file_size
        )
        if fortran_order or 0 in array_shape:
            raise ValueError("an array that cannot be mapped")
        header_bytes = open_member.tell()
        # The checksum is compared when the end of the member is read.
        while open_member.read(_BLOCK_BYTES):
            pass
    with npz_file.open("rb") as open_archive:
        open_archive.seek(member_info.header_offset)
        lengths = _LOCAL_HEADER.unpack(open_archive.read(_LOCAL_HEADER.size))
    data_offset = member_info.header_offset + _LOCAL_HEADER.size + sum(lengths) + header_bytes
    return np.memmap(npz_file, dtype, mode="r", offset=data_offset, shape=array_shape)
