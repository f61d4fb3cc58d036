"""CelebA from the user's own copy: 202,599 photographs of faces, 40 attributes.

Copies differ. The authors give lists as text, others pass them on as CSV; folders are nested in several ways; some
photographs are missing. The reader takes all of these forms, and refuses what could put one photograph into two splits.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pate.accounting import PrivacyUnit
from pate.array_types import BoolArray, IntArray
from pate.data.cache import cached_pixels
from pate.data.celeba_lists import (
    ATTRIBUTE_LIST,
    IDENTITY_LIST,
    SPLIT_LIST,
    Attributes,
    find_list,
    read_attributes,
    read_numbers,
)
from pate.data.celeba_photographs import IMAGES, PhotographFiles, decode_images
from pate.data.copies import remarks_on_copies
from pate.data.dataset import Dataset
from pate.data.image_form import ImageForm
from pate.data.owner_names import owner_names
from pate.data.split import Split
from pate.progress import StageOpener, unwatched
from pate.validation import InvalidValue, require_choice, require_count, require_path

MARKER = "synth_faces.json"
"""The file that marks a folder of drawn faces, see `scripts/make_synth_faces.py`."""

# The codes in the list of splits: the official training, validation and test split.
_CODE_OF_SPLIT = {"private": 0, "public": 1, "test": 2}
_ONE_PERSON = PrivacyUnit(
    words=f"one identity of {IDENTITY_LIST}, with all its photographs", columns=(IDENTITY_LIST,)
)
_ONE_PHOTOGRAPH = PrivacyUnit("one photograph")
# The version of the decoding, which is part of the cache's name. It changes whenever other pixels are decoded.
_DECODING_VERSION = 2
_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, kw_only=True)  # == of arrays is an array
class _Lists:
    """The lists of a copy, and the photographs that they name.

    Attributes:
        folder: the folder of the copy.
        attributes: the attribute list.
        identities: the number of the person on each listed photograph, int64 `[num_listed]`; None if no valid list has
            them, which is an error where a group is a person.
        photographs: the files of the listed photographs.
        rows_of_split: the photographs of each split that are read, as row numbers in the attribute list.
    """

    folder: Path
    attributes: Attributes
    identities: IntArray | None
    photographs: PhotographFiles
    rows_of_split: Mapping[str, IntArray]


@dataclass(frozen=True)
class CelebA:
    """A reader of the folder in which CelebA is distributed, which downloads nothing.

    The folder holds `list_attr_celeba` and `list_eval_partition`, as `.txt` (the authors' form) or as `.csv` (a common
    copy), the photographs in `img_align_celeba/`, and `identity_CelebA` if persons are needed. The lists may lie in the
    authors' folders `Anno` and `Eval`, the photographs in `Img`. The official training split becomes private, the
    validation split public, and the test split the test set. A folder that `scripts/make_synth_faces.py` wrote is read
    in the same way, and is called synthetic in the report.

    Photographs are decoded once, at the size in use, into a cache of 3 * image_size**2 bytes each, and read from the
    cache as `Pixels`. The next run decodes only photographs that were replaced or added since. A record id is the
    row number in the attribute list, from 1. Public photographs are published under their names in that list. The file
    of a photograph may end in `.JPG` or `.png` where the list has `.jpg`.

    A damaged photograph is always an error that names it. The field `missing` decides how the reader treats gaps:
    "skip" warns and continues, "error" refuses. Gaps are missing photographs, photographs that only the list of splits
    has, and a first line that announces another number of rows.

    Attributes:
        root: the folder of the copy, or the folder that holds it as `celeba` or `CelebA`.
        image_size: height and width of the decoded photographs, in pixels.
        crop: the side of the square in the middle of a photograph that is used, in pixels; None for the largest square.
        partition_by_identity: whether a group is a person. Then epsilon protects a person, whose photographs all have
            one teacher. Otherwise a group is a photograph, and a person with 30 photographs is protected only for each
            of them.
        missing: `skip` or `error`, for a copy with gaps.
        limit: the largest number of photographs in each split, the first ones in the list; None for all.
        cache: the folder of decoded photographs, as private as the photographs; None for `pate_cache` in the copy.

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
        require_choice("missing", self.missing, ("skip", "error"))
        for name in ("crop", "limit"):
            if getattr(self, name) is not None:
                require_count(name, getattr(self, name))

    def load(self, stage: StageOpener = unwatched) -> Dataset:
        """Reads the lists, decodes the photographs that the cache lacks, and returns the data set.

        Raises:
            InvalidValue: a required list is missing or damaged, a photograph is damaged, a split has no photograph, or
                there are gaps and the field `missing` is "error".
            OSError: the disk is full. Photographs that were already decoded stay in the cache.
        """
        celeba_lists = self._read_lists(self._folder())
        splits = self._read_splits(celeba_lists, open_stage=stage)
        private, public, test = splits["private"], splits["public"], splits["test"]
        form = None  # `ImageForm` cannot describe a square of a given side
        if self.crop is None:
            form = ImageForm(channels=3, height=self.image_size, width=self.image_size, fit="crop")
        file_names = np.array(celeba_lists.attributes.file_names)
        private_rows = celeba_lists.rows_of_split["private"]
        identities = celeba_lists.identities
        return Dataset(
            name="celeba",
            real=not (celeba_lists.folder / MARKER).exists(),
            kind="images",
            label_names=celeba_lists.attributes.label_names,
            private=private,
            public=public,
            test=test,
            preprocessing=form,
            public_ids=file_names[celeba_lists.rows_of_split["public"]],
            notes=tuple(
                remarks_on_copies(private_split=private, public_split=public, test_split=test)
            ),
            owners=owner_names(
                names_of_records=file_names[private_rows],
                names_of_owners=None if identities is None else identities[private_rows],
            ),
            group_unit=_ONE_PERSON if self.partition_by_identity else _ONE_PHOTOGRAPH,
        )

    def _read_lists(self, celeba_folder: Path) -> _Lists:
        """Reads the lists of a copy of CelebA, such as that of attributes, and finds the photographs that they name.

        Raises:
            InvalidValue: a required list is missing or damaged, a split has no photograph, or there are gaps, such as
                a listed photograph without a file, and the field `missing` is "error".
        """
        attributes = read_attributes(celeba_folder)
        num_listed = len(attributes.file_names)
        if attributes.num_announced_photographs != num_listed:
            rule = f"{num_listed}, the rows that follow"
            self._refuse_or_warn(
                f"{ATTRIBUTE_LIST} line 1", value=attributes.num_announced_photographs, rule=rule
            )
        split_codes = self._split_codes(celeba_folder, file_names=attributes.file_names)
        identities = self._identities(celeba_folder, file_names=attributes.file_names)
        photographs = PhotographFiles.find(celeba_folder, listed_names=attributes.file_names)
        return _Lists(
            folder=celeba_folder,
            attributes=attributes,
            identities=identities,
            photographs=photographs,
            rows_of_split={
                split: self._rows(
                    split_name=split,
                    is_in_split=split_codes == code,
                    has_file=photographs.file_exists,
                )
                for split, code in _CODE_OF_SPLIT.items()
            },
        )

    def _read_splits(self, celeba_lists: _Lists, *, open_stage: StageOpener) -> dict[str, Split]:
        """Decodes the photographs that the cache lacks, and returns the records of each split, by its name.

        `open_stage` opens the stage that reports progress.
        """
        file_names = celeba_lists.attributes.file_names
        record_ids = np.arange(1, len(file_names) + 1)
        group_ids = record_ids
        if self.partition_by_identity and celeba_lists.identities is not None:
            group_ids = celeba_lists.identities

        def decode(row_numbers: IntArray) -> NDArray[np.uint8]:
            return decode_images(
                image_paths=celeba_lists.photographs.paths(row_numbers),
                image_size=self.image_size,
                crop_side=self.crop,
            )

        pixels = cached_pixels(
            folder=self._cache_folder(celeba_lists.folder, file_names=file_names),
            shape=(len(file_names), 3, self.image_size, self.image_size),
            image_numbers=np.sort(np.concatenate([*celeba_lists.rows_of_split.values()])),
            stamps=celeba_lists.photographs.file_stamps,
            decode=decode,
            stage_name="decoding photographs",
            open_stage=open_stage,
        )
        return {
            split: Split.from_pictures(
                all_pictures=pixels,
                row_numbers=row_numbers,
                labels=celeba_lists.attributes.labels,
                record_ids=record_ids,
                group_ids=group_ids,
            )
            for split, row_numbers in celeba_lists.rows_of_split.items()
        }

    def _split_codes(self, celeba_folder: Path, file_names: Sequence[str]) -> IntArray:
        """Returns the official split of each photograph, int64 `[len(file_names)]`.

        0 is the training split, 1 the validation split, and 2 the test split.

        Args:
            celeba_folder: the folder of the copy.
            file_names: the names of the photographs in the attribute list.

        Raises:
            InvalidValue: the list of splits is missing or damaged, or has a number other than 0, 1 and 2. Also if it
                lists further photographs and the field `missing` is "error".
        """
        codes, num_others = read_numbers(celeba_folder, list_name=SPLIT_LIST, file_names=file_names)
        if num_others:
            rule = f"also the {num_others} that only {SPLIT_LIST} lists"
            self._refuse_or_warn(ATTRIBUTE_LIST, value=f"{len(codes)} images", rule=rule)
        wrong_rows = np.flatnonzero(codes > max(_CODE_OF_SPLIT.values()))
        if len(wrong_rows) > 0:
            row = wrong_rows[0]
            rule = "0 (training), 1 (validation) or 2 (test)"
            raise InvalidValue(f"{SPLIT_LIST} row {file_names[row]}", codes[row], rule=rule)
        return codes

    def _cache_folder(self, celeba_folder: Path, file_names: Sequence[str]) -> Path:
        """Returns the path of the folder for the decoded photographs.

        The folder lies in `cache`, or in `pate_cache` in the folder of the copy. The name of the folder depends on
        `image_size`, `crop` and the names of the photographs, so that other settings get another folder.
        """
        parent = (
            celeba_folder / "pate_cache" if self.cache is None else Path(self.cache).expanduser()
        )
        cache_key = repr((_DECODING_VERSION, self.crop, file_names))
        digest = hashlib.sha256(cache_key.encode()).hexdigest()
        return parent / f"celeba-{self.image_size}-{digest[:8]}"

    def _identities(self, celeba_folder: Path, file_names: Sequence[str]) -> IntArray | None:
        """Returns the number of the person on each photograph in `file_names`, int64 `[len(file_names)]`.

        If `celeba_folder` has no valid list of persons and `partition_by_identity` is false, the result is None.

        Raises:
            InvalidValue: `partition_by_identity` is true, and the list of persons is missing or invalid.
        """
        has_list = find_list(celeba_folder, list_name=IDENTITY_LIST) is not None
        if self.partition_by_identity and not has_list:
            rule = f"{IDENTITY_LIST}.txt or {IDENTITY_LIST}.csv in it, or data.partition_by_identity=false"
            raise InvalidValue("data.root", self.root, rule=rule)
        try:
            return read_numbers(
                celeba_folder, list_name=IDENTITY_LIST, file_names=file_names
            ).numbers
        except InvalidValue:
            # The list is missing or invalid, which matters only if persons are protected.
            if self.partition_by_identity:
                raise
            return None

    def _folder(self) -> Path:
        """Returns the folder of the copy, which has the attribute list: `root`, or `celeba` or `CelebA` in it.

        Raises `InvalidValue` if none of them has the list.
        """
        root = Path(self.root).expanduser()
        for celeba_folder in (root, root / "celeba", root / "CelebA"):
            if find_list(celeba_folder, list_name=ATTRIBUTE_LIST):
                return celeba_folder
        rule = f"the folder of your own copy of CelebA, with {ATTRIBUTE_LIST}.txt (or .csv), {SPLIT_LIST} and {IMAGES}/"
        raise InvalidValue("data.root", self.root, rule=rule)

    def _rows(self, split_name: str, is_in_split: BoolArray, has_file: BoolArray) -> IntArray:
        """Returns the first `limit` photographs of a split whose files exist, as row numbers in the attribute list.

        Args:
            split_name: the split: private, public or test.
            is_in_split: whether each photograph in the attribute list belongs to the split, bool `[num_photographs]`.
            has_file: whether the file of each of these photographs exists, bool `[num_photographs]`.

        Raises:
            InvalidValue: no photograph of the split exists, or some are missing and the field `missing` is "error".
        """
        rows = np.flatnonzero(is_in_split & has_file)
        num_listed = int(is_in_split.sum())
        if len(rows) == 0:
            rule = f"the photographs of the {split_name} split unpacked in {IMAGES}/, found none of {num_listed}"
            raise InvalidValue("data.root", self.root, rule=rule)
        num_missing = num_listed - len(rows)
        if num_missing > 0:
            rule = f"all {num_listed} listed photographs of the {split_name} split, {num_missing} are missing"
            self._refuse_or_warn(name="data.root", value=self.root, rule=rule)
        return rows[: self.limit]

    def _refuse_or_warn(self, name: str, value: object, rule: str) -> None:
        """Raises `InvalidValue` for a gap, such as missing photographs, if `missing` is "error"; else logs a warning.

        Args:
            name: the setting or list in which the gap was found.
            value: the value that was found.
            rule: the text of the message that describes what was expected.
        """
        if self.missing == "error":
            rule = f"{rule}; data.missing=skip goes on with what is there"
            raise InvalidValue(name, value, rule=rule)
        # The warning has the words of the error.
        error = InvalidValue(name, value, rule=rule)
        _log.warning("%s; going on with what is there (data.missing=error refuses)", error)
