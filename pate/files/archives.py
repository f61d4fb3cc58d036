"""Archives of arrays (.npz) that are written and read in blocks of rows. Equal arrays in C order give equal bytes."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.files.arrays import UNREADABLE, read_array, read_header, require_uncompressed
from pate.files.reading import reading_file


def write_member(archive: zipfile.ZipFile, array_name: str, array: NDArray[Any]) -> None:
    """Writes an array into an archive, without a time stamp, so that equal arrays in C order give equal bytes."""
    with archive.open(zipfile.ZipInfo(f"{array_name}.npy"), "w") as open_member:
        np.lib.format.write_array(open_member, array, allow_pickle=False)


def write_rows(
    archive: zipfile.ZipFile,
    array_name: str,
    array_shape: tuple[int, ...],
    dtype_text: str,
    row_blocks: Iterable[NDArray[Any]],
) -> None:
    """Writes an array into an archive, a block of rows at a time.

    Args:
        archive: the archive, open for writing.
        array_name: the name of the array.
        array_shape: the shape of the whole array.
        dtype_text: the dtype, as numpy writes it in headers, such as `<f4`.
        row_blocks: the rows in their order, as arrays.
    """
    header = {"descr": dtype_text, "fortran_order": False, "shape": array_shape}
    with archive.open(zipfile.ZipInfo(f"{array_name}.npy"), "w", force_zip64=True) as open_member:
        np.lib.format.write_array_header_1_0(open_member, header)
        for row_block in row_blocks:
            open_member.write(np.ascontiguousarray(row_block, dtype=dtype_text).data)


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
    with archive.open(member_info) as open_member:
        return read_array(open_member, num_bytes=member_info.file_size, dtype_kinds=dtype_kinds)


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
    with archive.open(member_info) as open_member:
        array_shape, fortran_order, dtype = read_header(
            open_member, num_bytes=member_info.file_size, dtype_kinds=dtype_kinds
        )
    if fortran_order:
        raise ValueError(f"expected {dtype} in C order")
    return array_shape, dtype


def read_rows(
    archive: zipfile.ZipFile, array_name: str, rows_per_block: int, *, dtype_kinds: str
) -> Iterator[NDArray[Any]]:
    """Yields the rows of an array in an .npz archive, in blocks of up to `rows_per_block` rows; raises as `form_of`.

    `dtype_kinds` are numpy's letters of the allowed dtypes.
    """
    array_shape, dtype = form_of(archive, array_name, dtype_kinds=dtype_kinds)
    member_info = archive.getinfo(f"{array_name}.npy")
    with archive.open(member_info) as open_member:
        read_header(open_member, num_bytes=member_info.file_size, dtype_kinds=dtype_kinds)
        for first_row in range(0, array_shape[0], rows_per_block):
            num_rows = min(rows_per_block, array_shape[0] - first_row)
            block_bytes = open_member.read(dtype.itemsize * num_rows * math.prod(array_shape[1:]))
            yield np.frombuffer(block_bytes, dtype).reshape(num_rows, *array_shape[1:])


@contextmanager
def reading(archive_path: Path | str, rule: str, remedy: str) -> Iterator[zipfile.ZipFile]:
    """Opens an archive of arrays for a `with` block.

    Args:
        archive_path: the file.
        rule: a description of the expected file, for the error.
        remedy: advice for the error.

    Raises:
        DamagedFile: the file is missing or no archive, has compressed arrays or one name twice, or reading in the block
            failed.
    """
    with (
        reading_file(archive_path, rule=rule, remedy=remedy, damage_errors=UNREADABLE),
        zipfile.ZipFile(archive_path) as archive,
    ):
        require_uncompressed(archive)
        yield archive


def holds_member(path: Path | str, array_name: str) -> bool:
    """Returns True if a file is an archive with an array of this name; the array may be damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{array_name}.npy" in archive.namelist()
    except (OSError, *UNREADABLE):
        return False
