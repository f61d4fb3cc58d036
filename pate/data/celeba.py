"""CelebA from the user's own copy: 202,599 photographs of faces, 40 attributes."""

import csv
import hashlib
import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pate.accounting import PrivacyUnit
from pate.data.cache import kept_pixels
from pate.data.copies import remarks_on_copies
from pate.data.dataset import Dataset
from pate.data.image_form import ImageForm
from pate.data.pictures import UNREADABLE, read_picture
from pate.data.shared_records import owner_names
from pate.data.split import Split
from pate.files.disk import file_identity
from pate.progress import StageOpener, unwatched
from pate.validation import (
    InvalidValue,
    require,
    require_choice,
    require_count,
    require_path,
)

ATTRIBUTES = "list_attr_celeba"
SPLITS = "list_eval_partition"
IDENTITIES = "identity_CelebA"
_PLACES = ("", "Anno", "Eval")  # the authors' own folders
_DIGITS = 18  # of a number that fits in 64 bits whatever they are
_SHOWN = 40  # characters of a value that is wrong
IMAGES = "img_align_celeba"
MARKER = "synth_faces.json"  # in a folder whose pictures are cartoons, whatever its lists look like
_ONE_PERSON = PrivacyUnit(f"one identity of {IDENTITIES}, with all its photographs", (IDENTITIES,))
_ONE_PHOTOGRAPH = PrivacyUnit("one photograph")
_PICTURES = (".jpg", ".jpeg", ".png")
_log = logging.getLogger(__name__)
_OFFICIAL = {"private": 0, "public": 1, "test": 2}  # train, validation, test
# photographs that one thread takes: handing over each alone costs a tenth of its decoding
_TOGETHER = 16
_VERSION = 2  # of how photographs become pixels; in the cache's name


class Attributes(NamedTuple):
    """The attribute list."""

    names: tuple[str, ...]
    files: tuple[str, ...]  # a row each
    # rows that the list says it has; the CSV form says nothing, and this is their number
    announced: int
    labels: NDArray[np.bool_]  # [n, num_attributes]


def read_attributes(folder: Path) -> Attributes:
    """Reads `list_attr_celeba`; whether its number of rows will do is the caller's to say."""
    # Text has the number of rows in line 1, which copies that were cut often keep, and the names in line 2; CSV has the
    # names in line 1. Then a row for each image: its file, and 1 or -1 an attribute (1 or 0 in some CSV copies).
    path, rows = _read_rows(folder, ATTRIBUTES)
    first = " ".join(rows[0])[:_SHOWN]
    announced, names = (
        (str(len(rows) - 1), rows[0][1:]) if path.suffix == ".csv" else (first, [*rows, []][1])
    )
    rows = rows[1 if path.suffix == ".csv" else 2 :]
    rule = (
        "the number of images, names in line 2 and a row for each image; of a .csv names and rows"
    )
    require(announced.isdecimal() and bool(names and rows), f"{path.name} line 1", first, rule)
    words = {value for row in rows for value in row[1:]}
    # a copy that mixes them says nothing for certain
    good = {"1", "-1"} if "-1" in words else {"1", "0"}
    for row in rows:
        if len(row) != len(names) + 1 or not good.issuperset(row[1:]):
            pairs = (pair for pair in zip(names, row[1:], strict=False) if pair[1] not in good)
            name, value = next(pairs, ("values", str(len(row) - 1)))
            rule = f"1 or -1, or in all rows 1 or 0, for each of {len(names)} attributes"
            require(False, f"{path.name} row {row[0]}, {name[:_SHOWN]}", value[:_SHOWN], rule)
    files = tuple(row[0] for row in rows)
    require(len(set(files)) == len(files), f"{path.name}", f"{len(files)} rows", "each image once")
    held = np.fromiter(
        (value == "1" for row in rows for value in row[1:]), np.bool_, len(rows) * len(names)
    )
    return Attributes(tuple(names), files, int(announced), held.reshape(len(rows), len(names)))


def read_numbers(folder: Path, stem: str, files: Sequence[str]) -> tuple[NDArray[np.int64], int]:
    """A whole number of at most 18 digits for each file of a list, each once; and how many more the list has."""
    path, rows = _read_rows(folder, stem)
    numbers: dict[str, int] = {}
    for row in rows[1:] if path.suffix == ".csv" else rows:
        good = (
            len(row) == 2
            and row[1].isdecimal()
            and len(row[1]) <= _DIGITS
            and row[0] not in numbers
        )
        rule = "a file name, once, and a whole number, and nothing else"
        require(good, f"{path.name} row", " ".join(row)[:_SHOWN], rule)
        numbers[row[0]] = int(row[1])
    if lacking := [file for file in files if file not in numbers]:
        raise InvalidValue(
            stem, lacking[0], rule=f"a row for each image of {ATTRIBUTES}, found none"
        )
    return np.array([numbers[file] for file in files], dtype=np.int64), len(numbers) - len(files)


def find_table(folder: Path, stem: str) -> Path | None:
    """The list of this name, the text form first; None where there is none."""
    paths = (folder / place / f"{stem}{suffix}" for suffix in (".txt", ".csv") for place in _PLACES)
    return next((path for path in paths if path.is_file()), None)


def _read_rows(folder: Path, stem: str) -> tuple[Path, list[list[str]]]:
    path = find_table(folder, stem)
    if path is None:
        rule = f"{stem}.txt or {stem}.csv in it, from where the photographs came from"
        raise InvalidValue("data.root", folder, rule=rule)
    lines = [
        line
        for line in path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
        if line.strip()
    ]
    if path.suffix == ".txt":
        return path, [line.split() for line in lines] or [[]]
    separator = ";" if lines and lines[0].count(";") > lines[0].count(",") else ","
    try:
        rows = list(csv.reader(lines, delimiter=separator, skipinitialspace=True)) or [[""]]
    except csv.Error as error:
        raise InvalidValue(
            str(path), error, rule="a list of images, separated by commas"
        ) from error
    rows = [[field.strip() for field in row] for row in rows]
    # Numbers in front, without a name, as pandas writes those of its rows.
    numbered = not rows[0][0] and min(map(len, rows)) > 1
    return path, [row[1:] for row in rows] if numbered else rows


def _find_photographs(
    folder: Path, files: Sequence[str]
) -> tuple[Path, tuple[str, ...], NDArray[np.int64]]:
    """A copy's folder of photographs, their names, and stamps that change with a file; 0 where it is not there."""
    # They may lie in a folder of the same name, as the CSV form is often unpacked, or in the authors' `Img`.
    places = [
        parent / inner
        for parent in (folder, folder / "Img")
        for inner in (f"{IMAGES}/{IMAGES}", IMAGES)
    ]
    images = next((place for place in places if place.is_dir()), folder / IMAGES)
    stamps: dict[str, int] = {}
    identities: dict[str, tuple[int, int] | str] = {}
    if images.is_dir():
        with os.scandir(images) as entries:
            for entry in entries:
                if entry.is_file():
                    status = entry.stat()
                    stamps[entry.name] = (status.st_mtime_ns * 1_000_003 + status.st_size) % (
                        2**62
                    ) + 1
                    inode = (status.st_dev, status.st_ino)
                    identities[entry.name] = inode if status.st_ino else file_identity(entry.path)

    def loose(name: str) -> str:
        return PurePath(name).stem if PurePath(name).suffix.lower() in _PICTURES else name

    loosely = (
        {}
        if stamps.keys() >= set(files)
        else {loose(name): name for name in sorted(stamps, reverse=True)}
    )
    names = tuple(file if file in stamps else loosely.get(loose(file), file) for file in files)
    taken: set[tuple[int, int] | str] = set()
    for name in (name for name in names if name in stamps):
        if identities[name] in taken:  # otherwise one picture could be private and public
            raise InvalidValue(
                f"{IMAGES}/{name}",
                rule="one row for each photograph, two names of the list mean it",
            )
        taken.add(identities[name])
    return images, names, np.array([stamps.get(name, 0) for name in names], dtype=np.int64)


def decode_images(
    paths: Sequence[Path], *, image_size: int, crop: int | None = None
) -> NDArray[np.uint8]:
    """Reads images as uint8 `[n, 3, image_size, image_size]`, 0 is black.

    Each is cropped to the square in its middle, of `crop` pixels a side or the largest, and resized, averaging over
    the pixels that fall together. Raises `InvalidValue` with the names of damaged ones.
    """
    images = np.empty((len(paths), 3, image_size, image_size), dtype=np.uint8)
    damaged = dict[Path, InvalidValue]()

    def decode(first: int) -> None:
        for row, path in enumerate(paths[first : first + _TOGETHER], start=first):
            try:
                image = read_picture(path, "image", channels=3, needs_white=True)
            except InvalidValue as error:
                damaged[path] = error
                continue
            side = min(*image.size, crop or min(image.size))
            left = (image.width - side) // 2
            top = (image.height - side) // 2
            square = (left, top, left + side, top + side)
            resized = image.resize((image_size, image_size), Image.Resampling.BILINEAR, box=square)
            images[row] = np.asarray(resized).transpose(2, 0, 1)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # more would wait for each other
        list(pool.map(decode, range(0, len(paths), _TOGETHER)))
    if damaged:
        names = ", ".join([str(min(damaged)), *(path.name for path in sorted(damaged)[1:])])
        first = damaged[min(damaged)]
        rule = (
            "a readable image"
            if first.rule == UNREADABLE
            else "a readable image of 8 bits a channel"
        )
        rule = f"{rule}; fetch it again, or remove it: a missing one is passed over"
        raise InvalidValue("image", names, rule=rule) from first
    return images


@dataclass(frozen=True)
class CelebA:
    """Reads the folder that CelebA is distributed as; nothing is fetched.

    The folder has `list_attr_celeba` and `list_eval_partition`, each `.txt` as the authors give it or `.csv` as it is
    often passed on. It has `img_align_celeba/` with the photographs and, if needed, `identity_CelebA`. All may lie in
    the authors' `Anno`, `Eval` and `Img`. The official training split is private, validation public, test test. A
    folder that `scripts/make_synth_faces.py` wrote is read likewise, and called synthetic.

    Photographs are decoded once, at the size asked for, into a cache of 3 * image_size**2 bytes each, and read from
    there as `Pixels`; one that was replaced or turned up at the next run. Record ids are row numbers of the attribute
    list from 1; public photographs are published under the names that the list gives them. A photograph may be called
    `.JPG` or `.png` where the list says `.jpg`; a damaged one is refused by name. One that is missing, or only in the
    list of splits, and a list whose first line has another count than it has rows, are passed over with a warning, or
    refused (`missing`).

    Source: Z. Liu, P. Luo, X. Wang and X. Tang, "Deep Learning Face Attributes in the Wild", ICCV 2015.
    """

    root: Path | str  # the folder, or the one that has it as `celeba` or `CelebA`
    # height and width of the decoded images, in pixels
    image_size: int = field(default=64, metadata={"public": True})
    # side of the square in the photograph's middle that is kept, in pixels; None for the largest.
    crop: int | None = field(default=None, metadata={"public": True})
    # whether the group, hence the unit that epsilon protects, is a person, who is then in one teacher only; without it
    # every photograph counts for itself, and somebody with 30 photographs is protected for each alone.
    partition_by_identity: bool = field(default=False, metadata={"public": True})
    # or "error": of a copy that lacks photographs
    missing: str = field(default="skip", metadata={"public": True})
    # at most this many photographs in each split, the first ones listed; None takes all
    limit: int | None = None
    # of decoded photographs, as private as they are; None: `pate_cache` in the copy's
    cache: Path | str | None = None

    def __post_init__(self) -> None:
        require_path("data.root", self.root)
        require_count("image_size", self.image_size)
        require_choice("missing", self.missing, ("skip", "error"))
        for name in ("crop", "limit"):
            if getattr(self, name) is not None:
                require_count(name, getattr(self, name))

    def load(self, stage: StageOpener = unwatched) -> Dataset:
        """Reads the lists and decodes what the cache lacks, which is announced; `OSError` for a full disk."""
        folder = self._folder()
        attributes = read_attributes(folder)
        if attributes.announced != len(attributes.files):
            rule = f"{len(attributes.files)}, the rows that follow"
            self._lacks(f"{ATTRIBUTES} line 1", attributes.announced, rule)
        split_of, num_extra = read_numbers(folder, SPLITS, attributes.files)
        if num_extra:
            rule = f"also the {num_extra} that only {SPLITS} lists"
            self._lacks(ATTRIBUTES, f"{len(split_of)} images", rule)
        for row in np.flatnonzero(split_of > max(_OFFICIAL.values()))[:1]:
            rule = "0 (training), 1 (validation) or 2 (test)"
            require(False, f"{SPLITS} row {attributes.files[row]}", split_of[row], rule)
        record_ids = np.arange(1, len(attributes.files) + 1)
        try:
            rule = (
                f"{IDENTITIES}.txt or {IDENTITIES}.csv in it, or data.partition_by_identity=false"
            )
            require(find_table(folder, IDENTITIES) is not None, "data.root", self.root, rule)
            known_by, _ = read_numbers(folder, IDENTITIES, attributes.files)
        except InvalidValue:  # no list says whose photographs they are
            if self.partition_by_identity:
                raise
            known_by = None
        group_ids = record_ids if known_by is None or not self.partition_by_identity else known_by
        images, names, stamps = _find_photographs(folder, attributes.files)
        rows_of = {
            role: self._rows(role, split_of == code, stamps > 0) for role, code in _OFFICIAL.items()
        }

        def decode(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
            return decode_images(
                [images / names[row] for row in rows], image_size=self.image_size, crop=self.crop
            )

        shape = (len(attributes.files), 3, self.image_size, self.image_size)
        parent = folder / "pate_cache" if self.cache is None else Path(self.cache).expanduser()
        digest = hashlib.sha256(repr((_VERSION, self.crop, attributes.files)).encode()).hexdigest()[
            :8
        ]
        place = parent / f"celeba-{self.image_size}-{digest}"
        rows = np.sort(np.concatenate([*rows_of.values()]))
        levels = kept_pixels(
            place, shape, rows, stamps, decode, name="decoding photographs", stage=stage
        )
        private, public, test = (
            Split.from_pictures(
                levels,
                rows,
                labels=attributes.labels,
                record_ids=record_ids,
                group_ids=group_ids,
            )
            for rows in rows_of.values()
        )
        real = not (folder / MARKER).exists()
        form = ImageForm(3, self.image_size, self.image_size, "crop") if self.crop is None else None
        rows = rows_of["private"]
        files = np.array(attributes.files)
        return Dataset(
            "celeba",
            real,
            "images",
            attributes.names,
            private,
            public,
            test,
            preprocessing=form,
            public_ids=files[rows_of["public"]],
            notes=tuple(remarks_on_copies(private, public, test)),
            owners=owner_names(id=files[rows], group=None if known_by is None else known_by[rows]),
            group_unit=_ONE_PERSON if self.partition_by_identity else _ONE_PHOTOGRAPH,
        )

    def _folder(self) -> Path:
        root = Path(self.root).expanduser()
        for folder in (root, root / "celeba", root / "CelebA"):
            if find_table(folder, ATTRIBUTES):
                return folder
        rule = f"the folder of your own copy of CelebA, with {ATTRIBUTES}.txt (or .csv), {SPLITS} and {IMAGES}/"
        raise InvalidValue("data.root", self.root, rule=rule)

    def _rows(
        self, role: str, listed: NDArray[np.bool_], present: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        rows = np.flatnonzero(listed & present)
        count = int(listed.sum())
        rule = f"the photographs of the {role} split unpacked in {IMAGES}/, found none of {count}"
        require(len(rows) > 0, "data.root", self.root, rule)
        if len(rows) < count:
            rule = f"all {count} listed photographs of the {role} split, {count - len(rows)} are missing"
            self._lacks("data.root", self.root, rule)
        return rows[: self.limit]

    def _lacks(self, name: str, value: object, rule: str) -> None:
        """Refuses photographs that are missing, or says so and goes on."""
        if self.missing == "error":
            rule = f"{rule}; data.missing=skip goes on with what is there"
            raise InvalidValue(name, value, rule=rule)
        line = InvalidValue(name, value, rule=rule)
        _log.warning("%s; going on with what is there (data.missing=error refuses)", line)
