"""An .npz file of which one array stays on disk: too large for memory, and read a part at a time."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.files.arrays import UNREADABLE, ArrayForm, Arrays, check_members, one_line, read_array, read_header
from pate.files.reading import damaged, require_file, unreadable

_RULE = "an .npz file as it was written"
_LOCAL_HEADER = struct.Struct("<26xHH")  # of a zip's member: the lengths of name and extra field are its end
_BLOCK = 2**24


def read_with_one_mapped(path: Path, forms: Mapping[str, ArrayForm], *, mapped: str, remedy: str) -> Arrays:
    """The arrays of an uncompressed .npz, one of them as a read-only `np.memmap` into the file.

    All bytes are read once, block by block, to compare their checksums; a mapped array takes no memory of its own.

    Args:
        path: the file, which may not be changed as long as the mapped array is used.
        forms: the arrays that it has to hold, these and no others.
        mapped: the name of the one that stays on disk.
        remedy: what to do where the file is damaged.

    Raises:
        DamagedFile: no such file, a checksum that fails, arrays that are no numbers or of another form.
        PermissionError: this user may not read it.
    """
    require_file(path, rule=_RULE, remedy=remedy)
    try:
        arrays = _read(path, forms, mapped)
    except OSError as error:
        raise unreadable(path, error, rule=_RULE, remedy=remedy) from error
    except UNREADABLE as error:
        raise damaged(path, _RULE, one_line(error), remedy) from None
    for name, form in forms.items():
        if wrong := form.mismatch(arrays[name]):
            raise damaged(path, f"{name} as {form}", wrong, remedy)
    return arrays


def _read(path: Path, forms: Mapping[str, ArrayForm], mapped: str) -> Arrays:
    with zipfile.ZipFile(path) as archive:
        check_members(archive, None)
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
        if members.keys() != forms.keys():
            raise ValueError(f"other arrays than {', '.join(sorted(forms))}")
        arrays: Arrays = {}
        for name, member in members.items():
            if name == mapped:
                arrays[name] = _map(path, archive, member)
            else:
                with archive.open(member) as file:
                    arrays[name] = read_array(file, member.file_size, kinds=forms[name].kind)
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
