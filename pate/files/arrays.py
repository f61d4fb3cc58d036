"""Arrays on disk: .npy and .npz read as numbers alone, whole by their checksum, or mapped; rows spilled to a file."""

import io
import math
import mmap
import os
import struct
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pate.files.disk import FROM_BACKUP, damaged, pack_arrays, reading

Arrays = dict[str, NDArray[Any]]

_OF_ZIP = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError)
_OF_HEADERS = (
    tokenize.TokenError,
    ValueError,
    KeyError,
    TypeError,
    SyntaxError,
    OverflowError,
    MemoryError,
)
# what zipfile and numpy raise on bytes that are no archive of arrays
UNREADABLE = (*_OF_ZIP, *_OF_HEADERS)
_BLOCK = 2**24
_NUMBERS = "biuf"
_MOST_BYTES = 2**28  # of blocks of rows in memory
_PERSISTENT = Path("/var/tmp")
_ROWS = 4096
_RULE = "an .npz file as it was written"
# is no array: numpy before 2.2 took this setting of savez for one, and stored it
_SETTING = "allow_pickle"
# of a zip's member: the lengths of name and extra field are its end
_LOCAL_HEADER = struct.Struct("<26xHH")
_KINDS = {"b": "bits", "i": "integers", "u": "unsigned integers", "f": "floats", "U": "texts"}


def npz_bytes(**arrays: NDArray[Any]) -> bytes:
    """An .npz file without pickles; equal arrays give equal bytes."""
    file = io.BytesIO()
    pack_arrays(file, arrays)
    return file.getvalue()


def arrays_of_npz(content: bytes) -> Arrays:
    """The arrays that `npz_bytes` packed, whatever their names and dtypes, in this version or an earlier one."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files if name != _SETTING}


@dataclass(frozen=True)
class ArrayForm:
    """What an array in a file has to be."""

    kind: str  # numpy's letters of the dtypes that are allowed, such as "b" or "iu"
    # None for a length that may be anything, or for any shape
    shape: tuple[int | None, ...] | None = None

    def mismatch(self, array: NDArray[Any]) -> str:
        """What is wrong with an array, in words; empty where nothing is."""
        if array.dtype.kind not in self.kind:
            return f"dtype {array.dtype}"
        shape = array.shape if self.shape is None else self.shape
        fits = len(shape) == array.ndim and all(
            map(lambda want, n: want in (None, n), shape, array.shape)
        )
        return "" if fits else f"shape {array.shape}"

    def __str__(self) -> str:
        sizes = ("n" if size is None else str(size) for size in self.shape or ())
        shape = "" if self.shape is None else f" [{', '.join(sizes)}]"
        return " or ".join(_KINDS[letter] for letter in self.kind) + shape


def read_arrays(
    path: Path,
    forms: Mapping[str, ArrayForm] | None = None,
    *,
    remedy: str = FROM_BACKUP,
    most: int | None = None,
    beside: Mapping[str, ArrayForm] | None = None,
    mapped: str | None = None,
) -> Arrays:
    """The arrays of an .npz file: those of `forms`, and `beside` them some of others; None takes whatever there is.

    Nothing is unpickled, and a header that promises more than the file holds is refused before memory is taken for it.
    Compressed arrays are refused, or may grow to `most` bytes all together. The array `mapped` stays on disk, a
    read-only `np.memmap`; its bytes are read once, for their checksum.
    Raises `DamagedFile`, or `PermissionError` where this user may not read it.
    """
    all_forms = {**(forms or {}), **(beside or {})}
    with reading(path, rule=_RULE, remedy=remedy, wrong=UNREADABLE):
        arrays = _read(path, most, all_forms, mapped)
    if forms is None:
        return arrays
    if strange := sorted((arrays.keys() - all_forms.keys()) | (forms.keys() - arrays.keys())):
        raise damaged(
            path, f"the arrays {', '.join(sorted(forms))}", f"not so: {', '.join(strange)}", remedy
        )
    for name, array in arrays.items():
        if wrong := all_forms[name].mismatch(array):
            raise damaged(path, f"{name} as {all_forms[name]}", wrong, remedy)
    return arrays


def arrays_of(
    data: bytes, forms: Mapping[str, ArrayForm], *, beside: Mapping[str, ArrayForm] | None = None
) -> Arrays:
    """The arrays of a message, an .npz as bytes, no larger than that; raises one of `UNREADABLE` where it is not so."""
    all_forms = {**forms, **(beside or {})}
    arrays = _read(io.BytesIO(data), len(data), all_forms)
    good = forms.keys() <= arrays.keys() <= all_forms.keys()
    if not good or any(all_forms[name].mismatch(array) for name, array in arrays.items()):
        raise ValueError("arrays of another form")
    return arrays


def read_array(file: IO[bytes], size: int, *, kinds: str = _NUMBERS) -> NDArray[Any]:
    """One array in numpy's format, header and data of `size` bytes, of an allowed dtype; else one of `UNREADABLE`."""
    shape, fortran_order, dtype = read_header(file, size, kinds=kinds)
    num_bytes = size - file.tell()
    data = bytearray()
    while block := file.read(_BLOCK):  # to the end, where a checksum is compared
        data += block
    if len(data) != num_bytes or (
        dtype.kind == "b" and data and np.frombuffer(data, np.uint8).max() > 1
    ):
        raise ValueError("an array that ends early, or bits other than 0 and 1")
    array = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran_order else "C")
    if dtype.kind == "U":
        array.tolist()  # which raises where a code is that of no character
    return array


def read_header(
    file: IO[bytes], size: int, *, kinds: str = _NUMBERS
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and dtype of an array; the file is then at its data. As `read_array`."""
    version = np.lib.format.read_magic(file)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"format version {version}")
    shape, fortran_order, dtype = readers[version](file)
    if dtype.kind not in kinds:
        raise ValueError(f"dtype {str(dtype)[:40]} where numbers are expected")
    count = math.prod(shape)
    broken = min(shape, default=0) < 0
    if broken or (count and not dtype.itemsize) or file.tell() + count * dtype.itemsize != size:
        raise ValueError(f"{size} bytes where the header promises {str(shape)[:40]} of {dtype}")
    return shape, fortran_order, dtype


def is_array_file(start: bytes) -> bool:
    """Whether a file that starts like this is an .npy."""
    return start.startswith(np.lib.format.MAGIC_PREFIX)


def check_members(archive: zipfile.ZipFile, most: int | None) -> None:
    """Raises ValueError where a member appears twice, or takes more memory than it should: `most` of `read_arrays`."""
    members = archive.infolist()
    total = sum(member.file_size for member in members)
    names = {member.filename for member in members}
    compressed = any(member.compress_type != zipfile.ZIP_STORED for member in members)
    if len(names) < len(members) or (most is None and compressed):
        raise ValueError("a compressed array, or one twice")
    if most is not None and total > most:
        raise ValueError(f"{total:,} bytes once it is expanded, at most {most:,}")


def _read(
    source: Path | IO[bytes],
    most: int | None,
    known: Mapping[str, ArrayForm],
    mapped: str | None = None,
) -> Arrays:
    with zipfile.ZipFile(source) as archive:
        check_members(archive, most)
        arrays: Arrays = {}
        for member in archive.infolist():
            name = member.filename[:-4]
            ending = member.filename[-4:]
            if name == _SETTING:
                continue
            if ending != ".npy" or not name.isidentifier():
                raise ValueError("a member that is no array")
            if name == mapped and isinstance(source, Path):
                arrays[name] = _map(source, archive, member)
                continue
            kinds = _NUMBERS + "U" if name in known and "U" in known[name].kind else _NUMBERS
            with archive.open(member) as file:
                arrays[name] = read_array(file, member.file_size, kinds=kinds)
        return arrays


def _map(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(member) as file:
        shape, fortran_order, dtype = read_header(file, member.file_size)
        if fortran_order or 0 in shape:
            raise ValueError("an array that cannot be mapped")
        header = file.tell()
        while file.read(_BLOCK):  # to the end, where the checksum is compared
            pass
    with path.open("rb") as raw:
        raw.seek(member.header_offset)
        lengths = _LOCAL_HEADER.unpack(raw.read(_LOCAL_HEADER.size))
    start = member.header_offset + _LOCAL_HEADER.size + sum(lengths) + header
    return np.memmap(path, dtype, mode="r", offset=start, shape=shape)


class Spilled:
    """Collects blocks of rows of one shape and dtype, and gives them below each other.

    Beyond 256 MB they go to a file in TMPDIR or else /var/tmp. It has no name: nobody else can open it, a kill ends it.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._blocks: list[NDArray[Any]] = []
        self._file: BinaryIO | None = None
        self._held = self._rows = 0

    def append(self, block: NDArray[Any]) -> None:
        """Adds rows at the end."""
        self._dtype = block.dtype
        self._shape = block.shape[1:]
        self._rows += len(block)
        self._held += block.nbytes
        self._blocks.append(block)
        if self._file is None and self._held > self.most_bytes:
            folder = (
                None
                if "TMPDIR" in os.environ or not os.access(_PERSISTENT, os.W_OK)
                else str(_PERSISTENT)
            )
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - `whole` closes it
        if self._file is not None:
            for each in self._blocks:
                self._file.write(np.ascontiguousarray(each).data)
            self._blocks.clear()

    def whole(self) -> NDArray[Any]:
        """All rows of at least one block, once: an array, or a read-only `np.memmap` without memory of its own."""
        if self._file is not None:
            self._file.flush()
            with self._file as file:
                return np.memmap(file, self._dtype, mode="r", shape=(self._rows, *self._shape))
        joined = np.empty((self._rows, *self._shape), self._dtype)
        filled = 0
        self._blocks.reverse()
        # each is let go once it is copied, so that hardly more than one copy is held
        while self._blocks:
            block = self._blocks.pop()
            joined[filled : filled + len(block)] = block
            filled += len(block)
        return joined


def let_go(array: Any) -> None:
    """Tells the system that what was read of a mapped array is not needed for now; nothing of any other."""
    while isinstance(array, np.ndarray):
        if isinstance(mapped := array.base, mmap.mmap):
            mapped.madvise(mmap.MADV_DONTNEED)
        array = mapped


def taken(array: Any, rows: NDArray[np.int64] | slice) -> Any:
    """`array[rows]`; of a mapped one a copy, made some thousand rows at a time, each of which is let go again."""
    if not isinstance(array, np.memmap):
        return array[rows]
    places = np.arange(len(array))[rows]
    copy = np.empty((len(places), *array.shape[1:]), array.dtype)
    for first in range(0, len(places), _ROWS):
        copy[first : first + _ROWS] = array[places[first : first + _ROWS]]
        let_go(array)
    return copy


def row_blocks(array: NDArray[Any]) -> Any:
    """An array's rows in blocks of some megabytes, in order; those of a mapped one are let go after use."""
    rows = max(1, 2**24 // max(1, array.itemsize * math.prod(array.shape[1:])))
    for first in range(0, len(array), rows):
        yield array[first : first + rows]
        let_go(array)
