"""CelebA from the user's own copy: 202,599 photographs of faces, 40 attributes.

Copies differ. The authors give lists as text, others pass them on as CSV; folders are nested in several ways; some
photographs are missing. The reader takes all of these forms, and refuses what could put one photograph into two splits.
"""

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
from pate.array_types import BoolArray, IntArray
from pate.data.cache import cached_pixels
from pate.data.copies import remarks_on_copies
from pate.data.dataset import Dataset
from pate.data.image_form import ImageForm
from pate.data.owner_names import owner_names
from pate.data.pictures import UNREADABLE, read_picture
from pate.data.split import Split
from pate.files.paths import file_identity
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
_MOST_DIGITS = 18  # of a number that surely fits in 64 bits
_SHOWN = 40  # characters of a wrong value that a message shows
IMAGES = "img_align_celeba"
MARKER = "synth_faces.json"  # a file of folders with drawn faces, see scripts/make_synth_faces.py
_ONE_PERSON = PrivacyUnit(
    words=f"one identity of {IDENTITIES}, with all its photographs", columns=(IDENTITIES,)
)
_ONE_PHOTOGRAPH = PrivacyUnit("one photograph")
_PICTURES = (".jpg", ".jpeg", ".png")
_log = logging.getLogger(__name__)
_OFFICIAL = {"private": 0, "public": 1, "test": 2}  # train, validation, test
# photographs that a thread decodes at a time: handing over each by itself costs a tenth of its decoding
_PHOTOGRAPHS_A_TASK = 16
_VERSION = 2  # of how photographs become pixels; in the cache's name


class Attributes(NamedTuple):
    """The content of `list_attr_celeba`: the files, the names of the attributes, and the attributes of each file."""

    names: tuple[str, ...]
    files: tuple[str, ...]  # the file of each row
    # the number of rows that line 1 announces; of the CSV form, which announces none, the number of rows
    announced: int
    labels: BoolArray  # [n, num_attributes]


def read_attributes(folder: Path) -> Attributes:
    """Reads `list_attr_celeba` from the folder of a copy.

    The number of rows that the first line announces is returned, but not checked.

    Raises:
        InvalidValue: the list is missing, a row has other cells than expected, or an image occurs twice.
    """
    # Text has the number of rows in line 1 (copies that were cut often keep the old number) and the names in line 2.
    # CSV has the names in line 1. Then follows a row for each image: its file, and 1 or -1 for each attribute; some
    # CSV copies have 1 or 0.
    path, rows = _read_rows(folder, list_name=ATTRIBUTES)
    first = " ".join(rows[0])[:_SHOWN]
    if path.suffix == ".csv":
        announced = str(len(rows) - 1)
        names = rows[0][1:]
        rows = rows[1:]
    else:
        announced = first
        names = rows[1] if len(rows) > 1 else []
        rows = rows[2:]
    rule = (
        "the number of images, names in line 2 and a row for each image; of a .csv names and rows"
    )
    require(announced.isdecimal() and bool(names and rows), f"{path.name} line 1", first, rule)
    values = {value for row in rows for value in row[1:]}
    # a copy that mixes 0 and -1 is ambiguous
    allowed = {"1", "-1"} if "-1" in values else {"1", "0"}
    for row in rows:
        if len(row) != len(names) + 1 or not allowed.issuperset(row[1:]):
            pairs = (pair for pair in zip(names, row[1:], strict=False) if pair[1] not in allowed)
            name, value = next(pairs, ("values", str(len(row) - 1)))
            rule = f"1 or -1, or in all rows 1 or 0, for each of {len(names)} attributes"
            place = f"{path.name} row {row[0]}, {name[:_SHOWN]}"
            raise InvalidValue(place, value[:_SHOWN], rule=rule)
    files = tuple(row[0] for row in rows)
    require(len(set(files)) == len(files), f"{path.name}", f"{len(files)} rows", "each image once")
    cells = (value == "1" for row in rows for value in row[1:])
    labels = np.fromiter(cells, np.bool_, len(rows) * len(names)).reshape(len(rows), len(names))
    return Attributes(names=tuple(names), files=files, announced=int(announced), labels=labels)


def read_numbers(folder: Path, list_name: str, file_names: Sequence[str]) -> tuple[IntArray, int]:
    """Reads a list that gives each photograph a whole number, such as `list_eval_partition`.

    Args:
        folder: the folder of the copy.
        list_name: the name of the list, without its ending.
        file_names: the names of the photographs in the attribute list.

    Returns:
        The number of each photograph, int64 `[len(file_names)]`, and the number of rows for photographs not in
        `file_names`.

    Raises:
        InvalidValue: the list is missing, a row has other cells, a photograph occurs twice or not at all, or a number
            has more than 18 digits.
    """
    path, rows = _read_rows(folder, list_name)
    numbers: dict[str, int] = {}
    for row in rows[1:] if path.suffix == ".csv" else rows:
        is_number = len(row) == 2 and row[1].isdecimal() and len(row[1]) <= _MOST_DIGITS
        rule = "a file name, once, and a whole number, and nothing else"
        require(
            is_number and row[0] not in numbers, f"{path.name} row", " ".join(row)[:_SHOWN], rule
        )
        numbers[row[0]] = int(row[1])
    lacking = next((file for file in file_names if file not in numbers), None)
    if lacking is not None:
        rule = f"a row for each image of {ATTRIBUTES}, found none"
        raise InvalidValue(list_name, lacking, rule=rule)
    return np.array([numbers[file] for file in file_names], dtype=np.int64), len(numbers) - len(
        file_names
    )


def find_table(folder: Path, list_name: str) -> Path | None:
    """Returns the path of a list, preferring `.txt` over `.csv`; None if the copy has no such list.

    Args:
        folder: the folder of the copy.
        list_name: the name of the list, without its ending.
    """
    paths = (
        folder / place / f"{list_name}{suffix}" for suffix in (".txt", ".csv") for place in _PLACES
    )
    return next((path for path in paths if path.is_file()), None)


def _read_rows(folder: Path, list_name: str) -> tuple[Path, list[list[str]]]:
    """Returns the path of a list and the cells of each line; raises `InvalidValue` if there is no such list.

    Args:
        folder: the folder of the copy.
        list_name: the name of the list, without its ending.
    """
    path = find_table(folder, list_name)
    if path is None:
        rule = f"{list_name}.txt or {list_name}.csv in it, from where the photographs came from"
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
    # a first column without a name holds the numbers of rows, as pandas writes them
    numbered = not rows[0][0] and min(map(len, rows)) > 1
    return path, [row[1:] for row in rows] if numbered else rows


def _find_photographs(folder: Path, files: Sequence[str]) -> tuple[Path, tuple[str, ...], IntArray]:
    """Finds the file of each photograph.

    Args:
        folder: the folder of the copy.
        files: the names of the photographs in the attribute list.

    Returns:
        The folder of the photographs, the name of each photograph's file, and a stamp of each file, `[len(files)]`. The
        stamp changes when the file does, and is 0 if the file is missing.

    Raises:
        InvalidValue: two names in the list mean the same file, so that a photograph could be both private and public.
    """
    # Photographs may lie in a folder of the same name, as the CSV form is often unpacked, or in the authors' `Img`.
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
                    version = status.st_mtime_ns * 1_000_003 + status.st_size
                    stamps[entry.name] = version % 2**62 + 1
                    inode = (status.st_dev, status.st_ino)
                    identities[entry.name] = inode if status.st_ino else file_identity(entry.path)
    names = tuple(files)
    if not stamps.keys() >= set(files):
        name_of_stem = {_stem(name): name for name in sorted(stamps, reverse=True)}
        names = tuple(
            file if file in stamps else name_of_stem.get(_stem(file), file) for file in files
        )
    listed: set[tuple[int, int] | str] = set()
    for name in names:
        if name not in stamps:
            continue
        if identities[name] in listed:
            rule = "one row for each photograph, two names of the list mean it"
            raise InvalidValue(f"{IMAGES}/{name}", rule=rule)
        listed.add(identities[name])
    return images, names, np.array([stamps.get(name, 0) for name in names], dtype=np.int64)


def _stem(name: str) -> str:
    """Returns a photograph's name without `.jpg`, `.jpeg` or `.png`."""
    return PurePath(name).stem if PurePath(name).suffix.lower() in _PICTURES else name


def decode_images(
    image_paths: Sequence[Path], *, image_size: int, crop_pixels: int | None = None
) -> NDArray[np.uint8]:
    """Reads images as uint8 `[num_images, 3, image_size, image_size]`, where 0 is black.

    Each image is cropped to the square in its middle and resized. Pixels that fall onto one pixel are averaged.

    Args:
        image_paths: the files of the images.
        image_size: height and width of the result, in pixels.
        crop_pixels: the side of the square, in pixels; None for the largest square.

    Raises:
        InvalidValue: an image is damaged. The error names all damaged images.
    """
    images = np.empty((len(image_paths), 3, image_size, image_size), dtype=np.uint8)
    damaged: dict[Path, InvalidValue] = {}

    def decode(first_index: int) -> None:
        for row, path in enumerate(
            image_paths[first_index : first_index + _PHOTOGRAPHS_A_TASK], start=first_index
        ):
            try:
                image = read_picture(path, name="image", channels=3, needs_white=True)
            except InvalidValue as error:
                damaged[path] = error
                continue
            side = min(*image.size, crop_pixels or min(image.size))
            left = (image.width - side) // 2
            top = (image.height - side) // 2
            square = (left, top, left + side, top + side)
            resized = image.resize((image_size, image_size), Image.Resampling.BILINEAR, box=square)
            images[row] = np.asarray(resized).transpose(2, 0, 1)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # decoding releases the interpreter
        list(pool.map(decode, range(0, len(image_paths), _PHOTOGRAPHS_A_TASK)))
    if damaged:
        first_path, *other_paths = sorted(damaged)
        names = ", ".join([str(first_path), *(path.name for path in other_paths)])
        first_error = damaged[first_path]
        rule = "a readable image"
        if first_error.rule != UNREADABLE:
            rule += " of 8 bits a channel"
        rule += "; fetch it again, or remove it: a missing one is passed over"
        raise InvalidValue("image", names, rule=rule) from first_error
    return images


@dataclass(frozen=True)
class CelebA:
    """A reader of the folder in which CelebA is distributed. It downloads nothing.

    The folder holds `list_attr_celeba` and `list_eval_partition`, as `.txt` (the authors' form) or as `.csv` (a common
    copy). It also holds the photographs in `img_align_celeba/`, and `identity_CelebA` if persons are needed. The lists
    may lie in the authors' folders `Anno` and `Eval`, the photographs in `Img`. The official training split becomes
    private, the validation split public, and the test split the test set. A folder that `scripts/make_synth_faces.py`
    wrote is read in the same way, and is called synthetic in the report.

    Photographs are decoded once, at the size in use, into a cache of 3 * image_size**2 bytes each. They are read from
    the cache as `Pixels`. The next run decodes only photographs that were replaced or added since. A record id is the
    row number in the attribute list, from 1. Public photographs are published under their names in that list. The file
    of a photograph may end in `.JPG` or `.png` where the list has `.jpg`.

    A damaged photograph is always an error that names it. The field `missing` decides how the reader treats gaps:
    "skip" warns and continues, "error" refuses. Gaps are missing photographs, photographs that only the list of splits
    has, and a first line that announces another number of rows.

    Source: Z. Liu, P. Luo, X. Wang and X. Tang, "Deep Learning Face Attributes in the Wild", ICCV 2015.
    """

    root: Path | str  # the folder, or the folder that holds it as `celeba` or `CelebA`
    # height and width of the decoded images, in pixels
    image_size: int = field(default=64, metadata={"public": True})
    # side of the square in the photograph's middle that is kept, in pixels; None for the largest.
    crop: int | None = field(default=None, metadata={"public": True})
    # whether a group is a person: epsilon then protects a person, whose photographs all have one teacher. Otherwise a
    # group is a photograph, and somebody with 30 photographs is protected for each of them only.
    partition_by_identity: bool = field(default=False, metadata={"public": True})
    # "skip" or "error", for a copy that lacks photographs
    missing: str = field(default="skip", metadata={"public": True})
    # at most this many photographs in each split, the first ones listed; None takes all
    limit: int | None = None
    # the folder of decoded photographs, as private as they are; None for `pate_cache` in the copy
    cache: Path | str | None = None

    def __post_init__(self) -> None:
        require_path("data.root", self.root)
        require_count("image_size", self.image_size)
        require_choice("missing", self.missing, ("skip", "error"))
        for name in ("crop", "limit"):
            if getattr(self, name) is not None:
                require_count(name, getattr(self, name))

    def load(self, stage: StageOpener = unwatched) -> Dataset:
        """Reads the lists, decodes the photographs that the cache lacks, and returns the data set.

        Raises:
            InvalidValue: a required list or photograph is missing or damaged.
            OSError: the disk is full. Photographs that were already decoded stay in the cache.
        """
        folder = self._folder()
        attributes = read_attributes(folder)
        if attributes.announced != len(attributes.files):
            rule = f"{len(attributes.files)}, the rows that follow"
            self._report_gap(f"{ATTRIBUTES} line 1", value=attributes.announced, rule=rule)
        split_of = self._split_codes(folder, attributes.files)
        record_ids = np.arange(1, len(attributes.files) + 1)
        identities = self._identities(folder, attributes.files)
        group_ids = record_ids
        if self.partition_by_identity and identities is not None:
            group_ids = identities
        images, names, stamps = _find_photographs(folder, attributes.files)
        rows_of = {
            role: self._rows(split_name=role, is_listed=split_of == code, has_file=stamps > 0)
            for role, code in _OFFICIAL.items()
        }

        def decode(row_numbers: IntArray) -> NDArray[np.uint8]:
            return decode_images(
                image_paths=[images / names[row] for row in row_numbers],
                image_size=self.image_size,
                crop_pixels=self.crop,
            )

        rows = np.sort(np.concatenate([*rows_of.values()]))
        levels = cached_pixels(
            self._cache_folder(folder, attributes.files),
            (len(attributes.files), 3, self.image_size, self.image_size),
            image_numbers=rows,
            stamps=stamps,
            decode=decode,
            name="decoding photographs",
            stage=stage,
        )
        private, public, test = (
            Split.from_pictures(
                all_pictures=levels,
                row_numbers=rows,
                labels=attributes.labels,
                record_ids=record_ids,
                group_ids=group_ids,
            )
            for rows in rows_of.values()
        )
        form = (
            ImageForm(channels=3, height=self.image_size, width=self.image_size, fit="crop")
            if self.crop is None
            else None
        )
        private_rows = rows_of["private"]
        files = np.array(attributes.files)
        return Dataset(
            name="celeba",
            real=not (folder / MARKER).exists(),
            kind="images",
            label_names=attributes.names,
            private=private,
            public=public,
            test=test,
            preprocessing=form,
            public_ids=files[rows_of["public"]],
            notes=tuple(
                remarks_on_copies(private_split=private, public_split=public, test_split=test)
            ),
            owners=owner_names(
                records=files[private_rows],
                owners=None if identities is None else identities[private_rows],
            ),
            group_unit=_ONE_PERSON if self.partition_by_identity else _ONE_PHOTOGRAPH,
        )

    def _split_codes(self, folder: Path, files: Sequence[str]) -> IntArray:
        """Returns the number of each photograph's official split, `[len(files)]`; see `_OFFICIAL`.

        Raises:
            InvalidValue: the list of splits is missing or damaged, or has another number.
        """
        split_of, num_extra = read_numbers(folder, list_name=SPLITS, file_names=files)
        if num_extra:
            rule = f"also the {num_extra} that only {SPLITS} lists"
            self._report_gap(ATTRIBUTES, value=f"{len(split_of)} images", rule=rule)
        strange_rows = np.flatnonzero(split_of > max(_OFFICIAL.values()))
        if len(strange_rows) > 0:
            row = strange_rows[0]
            rule = "0 (training), 1 (validation) or 2 (test)"
            raise InvalidValue(f"{SPLITS} row {files[row]}", split_of[row], rule=rule)
        return split_of

    def _cache_folder(self, folder: Path, files: Sequence[str]) -> Path:
        """Returns the folder of the decoded photographs.

        The name depends on the settings of the decoding and on the listed photographs.
        """
        parent = folder / "pate_cache" if self.cache is None else Path(self.cache).expanduser()
        key = repr((_VERSION, self.crop, files))
        digest = hashlib.sha256(key.encode()).hexdigest()
        return parent / f"celeba-{self.image_size}-{digest[:8]}"

    def _identities(self, folder: Path, files: Sequence[str]) -> IntArray | None:
        """Returns the number of the person on each photograph, int64 `[len(files)]`.

        None if the copy has no valid list of persons and `partition_by_identity` is false.

        Raises:
            InvalidValue: `partition_by_identity` is true, and the list of persons is missing or invalid.
        """
        try:
            rule = (
                f"{IDENTITIES}.txt or {IDENTITIES}.csv in it, or data.partition_by_identity=false"
            )
            require(
                find_table(folder, list_name=IDENTITIES) is not None, "data.root", self.root, rule
            )
            identities, _ = read_numbers(folder, list_name=IDENTITIES, file_names=files)
        except InvalidValue:
            if self.partition_by_identity:
                raise
            return None
        return identities

    def _folder(self) -> Path:
        root = Path(self.root).expanduser()
        for folder in (root, root / "celeba", root / "CelebA"):
            if find_table(folder, list_name=ATTRIBUTES):
                return folder
        rule = f"the folder of your own copy of CelebA, with {ATTRIBUTES}.txt (or .csv), {SPLITS} and {IMAGES}/"
        raise InvalidValue("data.root", self.root, rule=rule)

    def _rows(self, split_name: str, is_listed: BoolArray, has_file: BoolArray) -> IntArray:
        """Returns the row numbers of a split's existing photographs, at most `limit` of them.

        Args:
            split_name: the split: private, public or test.
            is_listed: whether each listed photograph belongs to the split, `[num_listed]`.
            has_file: whether the file of each listed photograph exists, `[num_listed]`.

        Raises:
            InvalidValue: no photograph of the split exists, or some are missing and the field `missing` is "error".
        """
        rows = np.flatnonzero(is_listed & has_file)
        num_listed = int(is_listed.sum())
        rule = f"the photographs of the {split_name} split unpacked in {IMAGES}/, found none of {num_listed}"
        require(len(rows) > 0, "data.root", self.root, rule)
        num_missing = num_listed - len(rows)
        if num_missing > 0:
            rule = f"all {num_listed} listed photographs of the {split_name} split, {num_missing} are missing"
            self._report_gap(name="data.root", value=self.root, rule=rule)
        return rows[: self.limit]

    def _report_gap(self, name: str, value: object, rule: str) -> None:
        """Raises `InvalidValue` for a gap in the copy if the field `missing` is "error"; logs a warning otherwise.

        Args:
            name: the setting or list in which the gap was found.
            value: the value that was found.
            rule: the text of the message that describes what was expected.
        """
        if self.missing == "error":
            rule = f"{rule}; data.missing=skip goes on with what is there"
            raise InvalidValue(name, value, rule=rule)
        line = InvalidValue(name, value, rule=rule)
        _log.warning("%s; going on with what is there (data.missing=error refuses)", line)
