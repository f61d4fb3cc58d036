"""An .npz file whose main array is written and read a few rows at a time."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from pate.files.arrays import read_array
from pate.files.atomic import replacing

_Header = dict[str, object]


def write_archive(
    path: Path,
    scalars: Mapping[str, int],
    name: str,
    shape: tuple[int, ...],
    blocks: Iterable[NDArray[np.uint8]],
) -> None:
    """Writes whole numbers and one uint8 array, given as blocks of its rows, as an .npz file.

    The file appears under its name complete and flushed to the disk, or not at all. Equal arguments give
    equal bytes: no time stamp goes in.
    """
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for key, value in scalars.items():
            with archive.open(zipfile.ZipInfo(f"{key}.npy"), "w") as member:
                np.lib.format.write_array(member, np.array(value, np.int64))
        with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
            header: _Header = {"descr": "|u1", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(member, header)
            for block in blocks:
                member.write(np.ascontiguousarray(block).data)


def read_scalar(archive: zipfile.ZipFile, name: str) -> int:
    """Reads a whole number that `write_archive` was given; raises one of `UNREADABLE` where there is another thing."""
    with archive.open(f"{name}.npy") as member:
        value = read_array(member, archive.getinfo(f"{name}.npy").file_size)
    if value.shape != () or value.dtype.kind not in "iu":
        raise ValueError(f"{name} is no whole number")
    return int(value)


def read_shape(archive: zipfile.ZipFile, name: str) -> tuple[int, ...]:
    """Reads the shape of the main array and checks that all of its bytes are in the file.

    Raises:
        ValueError: not a uint8 array in C order, or of another length than its header says; others of `UNREADABLE`.
    """
    with archive.open(f"{name}.npy") as member:
        shape = _read_header(member)
        length = member.tell() + math.prod(shape)
    found = archive.getinfo(f"{name}.npy").file_size
    if found != length:
        raise ValueError(f"{name} has {found} bytes where its header promises {length}")
    return shape


def read_blocks(path: Path, name: str, rows: int) -> Iterator[NDArray[np.uint8]]:
    """Yields the main array, up to `rows` rows of it at a time."""
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as member:
        shape = _read_header(member)
        for first in range(0, shape[0], rows):
            count = min(rows, shape[0] - first)
            size = count * math.prod(shape[1:])
            data = member.read(size)
            if len(data) != size:
                raise ValueError("the file ends early")
            yield np.frombuffer(data, np.uint8).reshape(count, *shape[1:])


def _read_header(member: IO[bytes]) -> tuple[int, ...]:
    if np.lib.format.read_magic(member) != (1, 0):
        raise ValueError("another version of numpy's format")
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(member)
    if dtype != np.uint8 or fortran_order:
        raise ValueError(f"expected uint8 in C order, found {str(dtype)[:40]}")
    return shape
