"""Which of the listed photographs are in the folder, and which version of each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

IMAGES = "img_align_celeba"
MARKER = "synth_faces.json"
"""In a folder whose pictures are cartoons, whatever its lists look like."""


def image_folder(folder: Path) -> Path:
    """The folder with the photographs, also where it lies in one of the same name."""
    nested = folder / IMAGES / IMAGES  # as the CSV form is often unpacked
    return nested if nested.is_dir() else folder / IMAGES


def stamps_of(images: Path, files: Sequence[str]) -> NDArray[np.int64]:
    """A number for each file that changes when the file does (its length, or when it was written); 0: not there."""
    found: dict[str, int] = {}
    if images.is_dir():
        with os.scandir(images) as entries:
            for entry in entries:
                if entry.is_file():
                    status = entry.stat()
                    found[entry.name] = (status.st_mtime_ns * 1_000_003 + status.st_size) % (2**62) + 1
    return np.array([found.get(file, 0) for file in files], dtype=np.int64)
