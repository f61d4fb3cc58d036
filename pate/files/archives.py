"""Arrays in an .npz archive, written and read a block of rows at a time; equal arrays give equal bytes."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.files import disk
from pate.files.arrays import UNREADABLE, check_members, read_array, read_header


def write_member(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    """Writes an array; equal arrays give equal bytes, as no time stamp goes in."""
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as member:
        np.lib.format.write_array(member, array, allow_pickle=False)


def write_rows(
    archive: zipfile.ZipFile,
    name: str,
    shape: tuple[int, ...],
    descr: str,
    blocks: Iterable[NDArray[Any]],
) -> None:
    """Writes an array of that shape and dtype that is given as blocks of its rows."""
    header: dict[str, Any] = {"descr": descr, "fortran_order": False, "shape": shape}
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
        np.lib.format.write_array_header_1_0(member, header)
        for block in blocks:
            member.write(np.ascontiguousarray(block, dtype=descr).data)


def read_member(archive: zipfile.ZipFile, name: str, *, kinds: str = "biuf") -> NDArray[Any]:
    """An array of those dtypes; raises one of `UNREADABLE` where it is none."""
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as member:
        return read_array(member, info.file_size, kinds=kinds)


def form_of(
    archive: zipfile.ZipFile, name: str, *, kinds: str
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of an array in C order, all bytes of which are in the file."""
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as member:
        shape, fortran_order, dtype = read_header(member, info.file_size, kinds=kinds)
    if fortran_order:
        raise ValueError(f"expected {dtype} in C order")
    return shape, dtype


def read_rows(
    archive: zipfile.ZipFile, name: str, num_rows: int, *, kinds: str
) -> Iterator[NDArray[Any]]:
    """Such an array, up to `num_rows` rows of it at a time."""
    shape, dtype = form_of(archive, name, kinds=kinds)
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as member:
        read_header(member, info.file_size, kinds=kinds)
        for first in range(0, shape[0], num_rows):
            count = min(num_rows, shape[0] - first)
            data = member.read(dtype.itemsize * count * math.prod(shape[1:]))
            yield np.frombuffer(data, dtype).reshape(count, *shape[1:])


@contextmanager
def reading(path: Path | str, rule: str, remedy: str) -> Iterator[zipfile.ZipFile]:
    """An archive of arrays; what reading it raises, as what is wrong with the file."""
    with (
        disk.reading(path, rule=rule, remedy=remedy, wrong=UNREADABLE),
        zipfile.ZipFile(path) as archive,
    ):
        check_members(archive, None)
        yield archive


def holds_member(path: Path | str, name: str) -> bool:
    """Tells whether a file is an archive with an array of that name, damaged or not."""
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{name}.npy" in archive.namelist()
    except (OSError, *UNREADABLE):
        return False
