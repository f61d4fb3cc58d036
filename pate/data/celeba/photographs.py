"""Which of the listed photographs are in the folder, and which version of each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue

IMAGES = "img_align_celeba"
MARKER = "synth_faces.json"
"""In a folder whose pictures are cartoons, whatever its lists look like."""

_SUFFIXES = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True, eq=False)
class Photographs:
    """What is there of a list of files.

    Attributes:
        folder: where they are.
        names: what each is called there; as in the list where it is not there.
        stamps: int64, a number for each that changes when the file does (its length, or when it was written); 0: not
            there.
    """

    folder: Path
    names: tuple[str, ...]
    stamps: NDArray[np.int64]

    def paths(self, rows: NDArray[np.int64]) -> list[Path]:
        """Of the given rows of the list."""
        return [self.folder / self.names[row] for row in rows]


def find_photographs(folder: Path, files: Sequence[str]) -> Photographs:
    """Looks a copy's photographs up by their names, or else by what comes before `.jpg`, `.JPG` or `.png`.

    Raises:
        InvalidValue: two names of the list that mean one photograph.
    """
    images = _image_folder(folder)
    stamps = _stamps_in(images)
    loosely = {_loose(name): name for name in sorted(stamps, reverse=True)}
    names = tuple(file if file in stamps else loosely.get(_loose(file), file) for file in files)
    there = [name for name in names if name in stamps]
    if len(set(there)) < len(there):  # otherwise one picture could be private and public
        name = next(name for name in there if there.count(name) > 1)
        raise InvalidValue(f"{IMAGES}/{name}: expected one row for each photograph, two names of the list mean it")
    return Photographs(images, names, np.array([stamps.get(name, 0) for name in names], dtype=np.int64))


def _image_folder(folder: Path) -> Path:
    """Also where it lies in one of the same name, as the CSV form is often unpacked, or in the authors' `Img`."""
    parents = (folder, folder / "Img")
    places = [parent / inner for parent in parents for inner in (f"{IMAGES}/{IMAGES}", IMAGES)]
    return next((place for place in places if place.is_dir()), folder / IMAGES)


def _stamps_in(images: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    if images.is_dir():
        with os.scandir(images) as entries:
            for entry in entries:
                if entry.is_file():
                    status = entry.stat()
                    found[entry.name] = (status.st_mtime_ns * 1_000_003 + status.st_size) % (2**62) + 1
    return found


def _loose(name: str) -> str:
    path = PurePath(name)
    return path.stem if path.suffix.lower() in _SUFFIXES else name
