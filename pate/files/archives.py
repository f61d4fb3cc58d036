"""Archives of arrays (.npz) that are written and read in blocks of rows. Equal arrays give equal bytes."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.files.arrays import UNREADABLE, check_members, read_array, read_header
from pate.files.reading import reading_file


def write_member(archive: zipfile.ZipFile, array_name: str, array: NDArray[Any]) -> None:
    """Writes an array into an archive, without a time stamp, so that equal arrays give equal bytes."""
    with archive.open(zipfile.ZipInfo(f"{array_name}.npy"), "w") as member:
        np.lib.format.write_array(member, array, allow_pickle=False)


def write_rows(
    archive: zipfile.ZipFile,
    name: str,
    shape: tuple[int, ...],
    descr: str,
    blocks: Iterable[NDArray[Any]],
) -> None:
    """Writes an array into an archive, a block of rows at a time.

    Args:
        archive: the archive, open for writing.
        name: the name of the array.
        shape: the shape of the whole array.
        descr: the dtype, as numpy writes it in headers, such as `<f4`.
        blocks: the rows in their order, as arrays.
    """
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
        np.lib.format.write_array_header_1_0(member, header)
        for block in blocks:
            member.write(np.ascontiguousarray(block, dtype=descr).data)


def read_member(
    archive: zipfile.ZipFile, array_name: str, *, dtype_kinds: str = "biuf"
) -> NDArray[Any]:
    """Reads an array from an .npz archive.

    Args:
        archive: the archive, open for reading.
        array_name: the name of the array.
        dtype_kinds: numpy's letters of the allowed dtypes.

    Raises one of `UNREADABLE` (the errors of zipfile and numpy) if the array is missing, damaged or of another dtype.
    """
    member_info = archive.getinfo(f"{array_name}.npy")
    with archive.open(member_info) as member:
        return read_array(member, num_bytes=member_info.file_size, dtype_kinds=dtype_kinds)


def form_of(
    archive: zipfile.ZipFile, array_name: str, *, dtype_kinds: str
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Returns the shape and the dtype of an array in an .npz archive, from the header of the array.

    Args:
        archive: the archive, open for reading.
        array_name: the name of the array.
        dtype_kinds: numpy's letters of the allowed dtypes.

    Raises one of `UNREADABLE` (the errors of zipfile and numpy) for an array that is missing, of another dtype, stored
    by columns, or of another number of bytes than its header states.
    """
    member_info = archive.getinfo(f"{array_name}.npy")
    with archive.open(member_info) as member:
        shape, fortran_order, dtype = read_header(
            member, num_bytes=member_info.file_size, dtype_kinds=dtype_kinds
        )
    if fortran_order:
        raise ValueError(f"expected {dtype} in C order")
    return shape, dtype


def read_rows(
    archive: zipfile.ZipFile, array_name: str, block_rows: int, *, dtype_kinds: str
) -> Iterator[NDArray[Any]]:
    """Yields the rows of an array in an .npz archive, in blocks of up to `block_rows` rows; raises as `form_of`.

    `dtype_kinds` are numpy's letters of the allowed dtypes.
    """
    shape, dtype = form_of(archive, array_name, dtype_kinds=dtype_kinds)
    member_info = archive.getinfo(f"{array_name}.npy")
    with archive.open(member_info) as member:
        read_header(member, num_bytes=member_info.file_size, dtype_kinds=dtype_kinds)
        for first_row in range(0, shape[0], block_rows):
            num_rows = min(block_rows, shape[0] - first_row)
            data = member.read(dtype.itemsize * num_rows * math.prod(shape[1:]))
            yield np.frombuffer(data, dtype).reshape(num_rows, *shape[1:])


@contextmanager
def reading(path: Path | str, rule: str, remedy: str) -> Iterator[zipfile.ZipFile]:
    """Opens an archive of arrays for a `with` block.

    Args:
        path: the file.
        rule: a description of the expected file, for the error.
        remedy: advice for the error.

    Raises:
        DamagedFile: the file is missing or no archive, has compressed arrays or one name twice, or reading in the block
            failed.
    """
    with (
        reading_file(path, rule=rule, remedy=remedy, damage_errors=UNREADABLE),
        zipfile.ZipFile(path) as archive,
    ):
        check_members(archive, max_unpacked_bytes=None)
        yield archive


def holds_member(path: Path | str, array_name: str) -> bool:
    """Returns True if a file is an archive with an array of this name; the array may be damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{array_name}.npy" in archive.namelist()
    except (OSError, *UNREADABLE):
        return False
