"""CelebA from the user's own copy: 202,599 photographs of faces, 40 attributes."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pate.data.celeba.images import decode_images
from pate.data.celeba.tables import ATTRIBUTES, IDENTITIES, SPLITS, has_table, read_attributes, read_numbers
from pate.data.dataset import Dataset, Split
from pate.validation import InvalidValue, require_count

_log = logging.getLogger(__name__)
_OFFICIAL = {"private": 0, "public": 1, "test": 2}  # train, validation, test
_IMAGES = "img_align_celeba"


@dataclass(frozen=True)
class CelebA:
    """Reads the folder that CelebA is distributed as; nothing is fetched.

    The folder has `list_attr_celeba`, `list_eval_partition` (each `.txt` as the authors give it or `.csv`
    as it is often passed on), `img_align_celeba/` with the photographs, and, if needed, `identity_CelebA`.
    The official training split is private, validation public, test test. A listed photograph that is
    not in the folder is passed over, and a warning says how many were.

    Everything is decoded into memory: 12 * image_size**2 bytes an image.

    Attributes:
        root: the folder, or the one that has it as `celeba`.
        image_size: height and width of the decoded images, in pixels.
        partition_by_identity: whether the group, hence the unit that epsilon protects, is a person; without it
            every photograph counts for itself, and somebody with 30 photographs is protected for each alone.
        limit: at most this many photographs in each split, the first ones listed; None takes all.

    Source: Z. Liu, P. Luo, X. Wang and X. Tang, "Deep Learning Face Attributes in the Wild", ICCV 2015.
    """

    root: Path | str
    image_size: int = 64
    partition_by_identity: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        require_count("image_size", self.image_size)
        if self.limit is not None:
            require_count("limit", self.limit)

    def load(self) -> Dataset:
        """Reads the lists and decodes the photographs: images float32 `[n, 3, image_size, image_size]`.

        Record ids are row numbers of the attribute list from 1, which in the genuine copy are the numbers in
        the file names.

        Raises:
            InvalidValue: a folder, list or split that is not there or not as it should be; an image that
                cannot be decoded; a person in two splits where identities are the groups.
        """
        folder = self._folder()
        attributes = read_attributes(folder)
        split_of = _numbers(folder, SPLITS, attributes.files)
        record_ids = np.arange(1, len(attributes.files) + 1)
        group_ids = _numbers(folder, IDENTITIES, attributes.files) if self.partition_by_identity else record_ids
        images = _image_folder(folder)
        present = _present(images, attributes.files)
        rows_of = {role: self._rows(role, split_of == code, present) for role, code in _OFFICIAL.items()}

        def read(rows: NDArray[np.int64]) -> Split:
            paths = [images / attributes.files[row] for row in rows]
            inputs = decode_images(paths, image_size=self.image_size)
            return Split(inputs, attributes.labels[rows], record_ids[rows], group_ids[rows])

        splits = {role: read(rows) for role, rows in rows_of.items()}
        return Dataset(name="celeba", real=True, kind="images", label_names=attributes.names, **splits)

    def _folder(self) -> Path:
        root = Path(self.root).expanduser()
        for folder in (root, root / "celeba"):
            if has_table(folder, ATTRIBUTES):
                return folder
        rule = f"the folder of your own copy of CelebA, with {ATTRIBUTES}.txt (or .csv), {SPLITS} and {_IMAGES}/"
        raise InvalidValue(f"data.root={self.root}: expected {rule}")

    def _rows(self, role: str, listed: NDArray[np.bool_], present: NDArray[np.bool_]) -> NDArray[np.int64]:
        missing = int((listed & ~present).sum())
        rows = np.flatnonzero(listed & present)
        if not len(rows):
            rule = f"at least one photograph of the {role} split in {_IMAGES}/, found none of {int(listed.sum())}"
            raise InvalidValue(f"data.root={self.root}: expected {rule}")
        if missing:
            _log.warning("%s split: %d of %d listed photographs are missing", role, missing, int(listed.sum()))
        return rows[: self.limit]


def _numbers(folder: Path, stem: str, files: tuple[str, ...]) -> NDArray[np.int64]:
    numbers = read_numbers(folder, stem)
    unlisted = next((file for file in files if file not in numbers), None)
    if unlisted is not None:
        raise InvalidValue(f"{stem}={unlisted}: expected a row for each image of {ATTRIBUTES}, found none")
    return np.array([numbers[file] for file in files], dtype=np.int64)


def _image_folder(folder: Path) -> Path:
    nested = folder / _IMAGES / _IMAGES  # as the CSV form is often unpacked
    return nested if nested.is_dir() else folder / _IMAGES


def _present(images: Path, files: tuple[str, ...]) -> NDArray[np.bool_]:
    found = set(os.listdir(images)) if images.is_dir() else set()
    return np.array([file in found for file in files], dtype=np.bool_)
