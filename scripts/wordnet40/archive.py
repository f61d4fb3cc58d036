"""An npz file whose bytes depend on nothing but the arrays in it."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip entry can carry
_UNIX = 3


def write_archive(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes named arrays for `numpy.load`: no clock, no platform and no compressor in the bytes."""
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=_EPOCH)
            entry.create_system = _UNIX
            archive.writestr(entry, content.getvalue())
