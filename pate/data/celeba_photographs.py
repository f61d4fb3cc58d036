"""The photographs of CelebA: their files in a copy, and their pixels."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pate.array_types import BoolArray, IntArray
from pate.data.pictures import UNREADABLE, read_picture
from pate.files.paths import file_identity
from pate.validation import InvalidValue

IMAGES = "img_align_celeba"
"""The name of the folder of photographs in a copy."""

# The endings of the names of photographs.
_ENDINGS = (".jpg", ".jpeg", ".png")
# The number of images that a thread decodes at a time: a task for each image would cost a tenth of its decoding.
_IMAGES_PER_TASK = 16


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class PhotographFiles:
    """The files of the photographs in an attribute list.

    Attributes:
        folder: the folder of the files.
        file_names: the name of each photograph's file.
        file_stamps: the stamp of each file, int64 `[num_photographs]`. A stamp changes when the file does, and is 0 if
            the file is missing.
    """

    folder: Path
    file_names: tuple[str, ...]
    file_stamps: IntArray

    @classmethod
    def find(cls, celeba_folder: Path, listed_names: Sequence[str]) -> Self:
        """Finds the file of each photograph. The ending of a file may differ from the listed one.

        Args:
            celeba_folder: the folder of the copy.
            listed_names: the names of the photographs in the attribute list.

        Raises:
            InvalidValue: two names in the list mean the same file, so that a photograph could be both private and
                public.
        """
        photograph_folder = _photograph_folder(celeba_folder)
        version_by_file_name = _file_versions(photograph_folder)
        file_names = tuple(listed_names)
        if not version_by_file_name.keys() >= set(listed_names):
            name_of_stem = {
                _stem(name): name for name in sorted(version_by_file_name, reverse=True)
            }
            file_names = tuple(
                name if name in version_by_file_name else name_of_stem.get(_stem(name), name)
                for name in listed_names
            )
        identities_of_files = [
            version_by_file_name[name].identity_of_file
            for name in file_names
            if name in version_by_file_name
        ]
        if len(set(identities_of_files)) < len(identities_of_files):
            _refuse_repeated_file(file_names, version_by_file_name=version_by_file_name)
        stamps = [
            version_by_file_name[name].stamp if name in version_by_file_name else 0
            for name in file_names
        ]
        return cls(
            folder=photograph_folder,
            file_names=file_names,
            file_stamps=np.array(stamps, dtype=np.int64),
        )

    @property
    def file_exists(self) -> BoolArray:
        """Whether the file of each photograph exists, bool `[num_photographs]`."""
        # The stamp of a missing file is 0.
        return np.asarray(self.file_stamps > 0)

    def paths(self, row_numbers: IntArray) -> list[Path]:
        """Returns the paths of the photographs with the given row numbers in the attribute list, from 0."""
        return [self.folder / self.file_names[row] for row in row_numbers]


class _FileVersion(NamedTuple):
    """The state of a file.

    Attributes:
        identity_of_file: equal for two names of one file.
        stamp: a whole number above 0 that changes when the file does.
    """

    identity_of_file: tuple[int, int] | str
    stamp: int


def _photograph_folder(celeba_folder: Path) -> Path:
    """Returns the folder `img_align_celeba` with the photographs in a copy; it may be missing.

    The folder may lie in the authors' folder `Img`. A CSV copy is often unpacked such that it lies within another
    folder of the same name; then the inner one is returned.
    """
    folders = [
        parent / subfolder
        for parent in (celeba_folder, celeba_folder / "Img")
        for subfolder in (f"{IMAGES}/{IMAGES}", IMAGES)
    ]
    return next((folder for folder in folders if folder.is_dir()), celeba_folder / IMAGES)


def _file_versions(photograph_folder: Path) -> dict[str, _FileVersion]:
    """Returns the identity and the stamp of each file in a folder, by name; empty if there is no such folder."""
    version_by_file_name: dict[str, _FileVersion] = {}
    if not photograph_folder.is_dir():
        return version_by_file_name
    with os.scandir(photograph_folder) as entries:
        for entry in entries:
            if not entry.is_file():
                continue
            status = entry.stat()
            device_and_inode = (status.st_dev, status.st_ino)
            time_and_size = status.st_mtime_ns * 1_000_003 + status.st_size
            version_by_file_name[entry.name] = _FileVersion(
                identity_of_file=device_and_inode if status.st_ino else file_identity(entry.path),
                stamp=time_and_size % 2**62 + 1,
            )
    return version_by_file_name


def _refuse_repeated_file(
    file_names: Sequence[str], version_by_file_name: Mapping[str, _FileVersion]
) -> None:
    """Raises `InvalidValue` for the first file that occurs twice, under one name or under two.

    Args:
        file_names: the names of the files.
        version_by_file_name: the state of each file that exists, by name.
    """
    identities_of_earlier_files: set[tuple[int, int] | str] = set()
    for name in file_names:
        if name not in version_by_file_name:
            continue
        identity_of_file = version_by_file_name[name].identity_of_file
        if identity_of_file in identities_of_earlier_files:
            rule = "one row for each photograph, two names of the list mean it"
            raise InvalidValue(f"{IMAGES}/{name}", rule=rule)
        identities_of_earlier_files.add(identity_of_file)


def _stem(photograph_name: str) -> str:
    """Returns a photograph's name without `.jpg`, `.jpeg` or `.png`, in letters of either case."""
    path = PurePath(photograph_name)
    return path.stem if path.suffix.lower() in _ENDINGS else photograph_name


def decode_images(
    image_paths: Sequence[Path], *, image_size: int, crop_side: int | None = None
) -> NDArray[np.uint8]:
    """Reads images as uint8 `[num_images, 3, image_size, image_size]`, where 0 is black.

    Each image is cropped to the square in its middle and resized. Pixels that fall onto one pixel are averaged.

    Args:
        image_paths: the files of the images.
        image_size: height and width of the result, in pixels.
        crop_side: the side of the square, in pixels; None for the largest square.

    Raises:
        InvalidValue: an image is damaged. The error names all damaged images.
    """
    images = np.empty((len(image_paths), 3, image_size, image_size), dtype=np.uint8)
    error_of_path: dict[Path, InvalidValue] = {}

    def decode_from(first_index: int) -> None:
        """Decodes the images from number `first_index` on, `_IMAGES_PER_TASK` of them, into their rows of `images`.

        Errors of damaged images are collected in `error_of_path`.
        """
        paths = image_paths[first_index : first_index + _IMAGES_PER_TASK]
        for row, path in enumerate(paths, start=first_index):
            try:
                images[row] = _decode_square(path, image_size=image_size, crop_side=crop_side)
            except InvalidValue as error:
                error_of_path[path] = error

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # decoding releases Python's global lock
        # `list` waits for all images, and raises the error of a task that failed.
        list(pool.map(decode_from, range(0, len(image_paths), _IMAGES_PER_TASK)))
    if error_of_path:
        first_path, *other_paths = sorted(error_of_path)
        damaged_names = ", ".join([str(first_path), *(path.name for path in other_paths)])
        first_error = error_of_path[first_path]
        depth = "" if first_error.rule == UNREADABLE else " of 8 bits a channel"
        rule = (
            f"a readable image{depth}; fetch it again, or remove it: a missing one is passed over"
        )
        raise InvalidValue("image", damaged_names, rule=rule) from first_error
    return images


def _decode_square(path: Path, *, image_size: int, crop_side: int | None) -> NDArray[np.uint8]:
    """Returns the square in the middle of an image, resized to `image_size`: uint8 `[3, image_size, image_size]`.

    Args:
        path: the file of the image.
        image_size: height and width of the result, in pixels.
        crop_side: the side of the square, in pixels; None for the largest square.

    Raises:
        InvalidValue: the image is damaged.
    """
    image = read_picture(path, name="image", channels=3, refuses_unknown_white=True)
    side = min(image.size)
    if crop_side is not None:
        side = min(side, crop_side)
    left = (image.width - side) // 2
    top = (image.height - side) // 2
    resized = image.resize(
        (image_size, image_size),
        resample=Image.Resampling.BILINEAR,
        box=(left, top, left + side, top + side),
    )
    return np.moveaxis(np.asarray(resized), source=2, destination=0)
