"""CelebA from the user's own copy: 202,599 photographs of faces, 40 attributes."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from pate.data.cache import PixelCache
from pate.data.celeba.images import decode_images
from pate.data.celeba.photographs import IMAGES, MARKER, find_photographs
from pate.data.celeba.tables import ATTRIBUTES, IDENTITIES, SPLITS, has_table, read_attributes, read_numbers
from pate.data.dataset import Dataset, Split
from pate.data.image_form import ImageForm
from pate.data.pixels import Pixels
from pate.data.stages import Stage, unwatched
from pate.validation import InvalidValue, printable, require_choice, require_count, require_path

_log = logging.getLogger(__name__)
_OFFICIAL = {"private": 0, "public": 1, "test": 2}  # train, validation, test
_LACKING = ("skip", "error")
_VERSION = 1  # of how photographs become pixels; in the cache's name


@dataclass(frozen=True)
class CelebA:
    """Reads the folder that CelebA is distributed as; nothing is fetched.

    The folder has `list_attr_celeba` and `list_eval_partition`, each `.txt` as the authors give it or `.csv` as it is
    often passed on. It has `img_align_celeba/` with the photographs and, if needed, `identity_CelebA`. All of them may
    lie in the authors' `Anno`, `Eval` and `Img`. No checksum is asked for. The official training split is private,
    validation public, test test. A folder that `scripts/make_synth_faces.py` wrote is read likewise, and called
    synthetic.

    Photographs are decoded once, at the size asked for, into a cache of 3 * image_size**2 bytes per photograph,
    and read from there; see `PixelCache` for what a kill or a full disk leaves behind. The inputs of the splits
    are `Pixels`: float32 `[n, 3, image_size, image_size]` that are converted as they are indexed.

    Edge cases: a listed photograph that is not in the folder is passed over with a warning, or refused (`missing`).
    So are one that the list of splits has and that of attributes has not, and a count in the list's first line that
    is not that of its rows. A photograph may be called `.JPG` or `.png` where the list says `.jpg`. One that was
    replaced or turned up is decoded at the next run. A damaged one is refused by name; those before it stay
    decoded.

    Attributes:
        root: the folder, or the one that has it as `celeba` or `CelebA`.
        image_size: height and width of the decoded images, in pixels.
        crop: side of the square in the photograph's middle that is kept, in pixels; None for the largest.
        partition_by_identity: whether the group, hence the unit that epsilon protects, is a person, who is then
            in one teacher only; without it every photograph counts for itself, and somebody with 30 photographs
            is protected for each alone.
        missing: "skip" or "error", what becomes of a copy that lacks photographs.
        limit: at most this many photographs in each split, the first ones listed; None takes all.
        cache: the folder for decoded photographs, as private as they are; None for `pate_cache` in the copy's.

    Source: Z. Liu, P. Luo, X. Wang and X. Tang, "Deep Learning Face Attributes in the Wild", ICCV 2015.
    """

    root: Path | str
    image_size: int = field(default=64, metadata={"public": True})
    crop: int | None = field(default=None, metadata={"public": True})
    partition_by_identity: bool = field(default=False, metadata={"public": True})
    missing: str = field(default="skip", metadata={"public": True})
    limit: int | None = None
    cache: Path | str | None = None

    def __post_init__(self) -> None:
        require_path("data.root", self.root)
        require_count("image_size", self.image_size)
        require_choice("missing", self.missing, _LACKING)
        for name in ("crop", "limit"):
            if getattr(self, name) is not None:
                require_count(name, getattr(self, name))

    def load(self) -> Dataset:
        """Reads the lists and decodes the photographs that the cache lacks.

        Record ids are row numbers of the attribute list from 1, which in the genuine copy are the numbers in
        the file names.

        Raises:
            InvalidValue: a folder, list or split that is not there or not as it should be; an image that
                cannot be decoded; a person in two splits where identities are the groups.
            OSError: the disk is full.
        """
        return self.load_in_stages(unwatched)

    def load_in_stages(self, stage: Stage) -> Dataset:
        """The same, and announces the decoding."""
        folder = self._folder()
        attributes = read_attributes(folder)
        if attributes.announced != len(attributes.files):
            rule = f"{len(attributes.files)}, the rows that follow"
            self._lacks(f"{ATTRIBUTES} line 1={attributes.announced}: expected {rule}")
        split_of = self._splits(folder, attributes.files)
        record_ids = np.arange(1, len(attributes.files) + 1)
        group_ids = self._people(folder, attributes.files) if self.partition_by_identity else record_ids
        found = find_photographs(folder, attributes.files)
        rows_of = {role: self._rows(role, split_of == code, found.stamps > 0) for role, code in _OFFICIAL.items()}

        def decode(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
            return decode_images(found.paths(rows), image_size=self.image_size, crop=self.crop)

        shape = (len(attributes.files), 3, self.image_size, self.image_size)
        cache = PixelCache(self._cache_folder(folder, attributes.files), shape, "decoding photographs")
        levels = cache.fill(np.sort(np.concatenate([*rows_of.values()])), found.stamps, decode, stage)

        def split(rows: NDArray[np.int64]) -> Split:
            inputs = cast(NDArray[np.float32], Pixels(levels, rows))  # reads like one, see `Split`
            return Split(inputs, attributes.labels[rows], record_ids[rows], group_ids[rows])

        private, public, test = (split(rows_of[role]) for role in ("private", "public", "test"))
        real = not (folder / MARKER).exists()
        form = ImageForm(3, self.image_size, self.image_size, "crop") if self.crop is None else None
        return Dataset("celeba", real, "images", attributes.names, private, public, test, preprocessing=form)

    def _folder(self) -> Path:
        root = Path(self.root).expanduser()
        for folder in (root, root / "celeba", root / "CelebA"):
            if has_table(folder, ATTRIBUTES):
                return folder
        rule = f"the folder of your own copy of CelebA, with {ATTRIBUTES}.txt (or .csv), {SPLITS} and {IMAGES}/"
        raise InvalidValue(f"data.root={self.root}: expected {rule}")

    def _people(self, folder: Path, files: tuple[str, ...]) -> NDArray[np.int64]:
        if not has_table(folder, IDENTITIES):
            rule = f"{IDENTITIES}.txt or {IDENTITIES}.csv in it, or data.partition_by_identity=false"
            raise InvalidValue(f"data.root={self.root}: expected {rule}")
        return _in_order(read_numbers(folder, IDENTITIES), IDENTITIES, files)

    def _cache_folder(self, folder: Path, files: tuple[str, ...]) -> Path:
        """One for each list of files, size and crop."""
        parent = folder / "pate_cache" if self.cache is None else Path(self.cache).expanduser()
        digest = hashlib.sha256(repr((_VERSION, self.crop, files)).encode()).hexdigest()[:8]
        return parent / f"celeba-{self.image_size}-{digest}"

    def _rows(self, role: str, listed: NDArray[np.bool_], present: NDArray[np.bool_]) -> NDArray[np.int64]:
        absent = int((listed & ~present).sum())
        rows = np.flatnonzero(listed & present)
        if not len(rows):
            rule = f"the photographs of the {role} split unpacked in {IMAGES}/, found none of {int(listed.sum())}"
            raise InvalidValue(f"data.root={self.root}: expected {rule}")
        if absent:
            rule = f"all {int(listed.sum())} listed photographs of the {role} split, {absent} are missing"
            self._lacks(f"data.root={self.root}: expected {rule}")
        return rows[: self.limit]

    def _lacks(self, message: str) -> None:
        """Refuses an incomplete copy, or says how it is used."""
        if self.missing == "error":
            raise InvalidValue(f"{message}; data.missing=skip goes on with what is there")
        _log.warning("%s; going on with what is there (data.missing=error refuses)", printable(message))

    def _splits(self, folder: Path, files: tuple[str, ...]) -> NDArray[np.int64]:
        listed = read_numbers(folder, SPLITS)
        if others := len(listed.keys() - set(files)):
            self._lacks(f"{ATTRIBUTES}={len(files)} images: expected also the {others} that only {SPLITS} lists")
        numbers = _in_order(listed, SPLITS, files)
        strange = np.flatnonzero(~np.isin(numbers, list(_OFFICIAL.values())))
        if len(strange):
            rule = "0 (training), 1 (validation) or 2 (test)"
            raise InvalidValue(f"{SPLITS} row {files[strange[0]]}={numbers[strange[0]]}: expected {rule}")
        return numbers


def _in_order(numbers: dict[str, int], stem: str, files: tuple[str, ...]) -> NDArray[np.int64]:
    unlisted = next((file for file in files if file not in numbers), None)
    if unlisted is not None:
        raise InvalidValue(f"{stem}={unlisted}: expected a row for each image of {ATTRIBUTES}, found none")
    return np.array([numbers[file] for file in files], dtype=np.int64)
