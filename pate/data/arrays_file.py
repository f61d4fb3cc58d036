"""Data sets from numpy arrays in files: three .npz files, or three folders of .npy files."""

import os
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import PrivacyUnit
from pate.array_types import BoolArray
from pate.data.copies import remarks_on_copies
from pate.data.dataset import TRAIN_ONLY_RULE, Dataset
from pate.data.owner_names import owner_names
from pate.data.pictures import require_image_levels
from pate.data.private_records import PrivateRecords
from pate.data.split import SPLITS, Split
from pate.data.split_files import require_files_apart
from pate.files.array_rows import row_blocks
from pate.files.arrays import UNREADABLE, ArrayForm, read_array, read_arrays
from pate.files.paths import at_home
from pate.files.reading import damaged, reading_file
from pate.validation import InvalidValue, normalize_field, require, require_text

_REMEDY = "save it with numpy.savez(FILE, inputs=…, labels=…)"
_FILE = "an .npz file of inputs"
_MOST_UNPACKED_BYTES = 2**38  # of a file, unpacked
_UNGROUPED = (
    "data: no array `groups`, so each row by itself is protected; with it all rows of a person are"
)
_ONE_GROUP = PrivacyUnit(
    words="one number of the array groups, with all its rows", columns=("groups",)
)
_ONE_ROW = PrivacyUnit("one row")
_FORMS = {"inputs": ArrayForm("biuf"), "labels": ArrayForm(kind="biu", shape=(None, None))}
_OPTIONAL_FORMS = {
    "known": ArrayForm(kind="biu", shape=(None, None)),
    "groups": ArrayForm(kind="iu", shape=(None,)),
    "ids": ArrayForm(kind="iu", shape=(None,)),
    "label_names": ArrayForm(kind="U", shape=(None,)),
    "budgets": ArrayForm(kind="iufU", shape=(None,)),
}


@dataclass(frozen=True)
class Arrays:
    """A reader of three .npz files, one for each split, or of three folders of .npy files.

    Each file or folder holds arrays by name. n is the number of records in the split, L the number of labels.

    * `inputs`: features `[n, d]`, or images `[n, channels, height, width]` as bytes or as floats in [0, 1];
    * `labels`: 0 and 1, `[n, L]`. Public records may lack labels, which are only used to measure;
    * `known`, optional: 0 and 1, `[n, L]`, 1 for each label that is known. Labels that are not known are neither
      learned nor measured; what `labels` holds for them is not read;
    * `groups`, optional: whole numbers `[n]`, equal for records that belong together, such as those of one person;
    * `budgets`, optional, of private records: the epsilon of the record's group, or the name of a class in `budgets=`;
    * `ids`, optional: whole numbers `[n]` that name the records. The ids of public records are published;
    * `label_names`: texts `[L]`, in at least one of the files, unless the field `labels` holds them.
    """

    private: str | None = None  # file of the private records
    # file of the public records; the first ones are the queries, so shuffle them before you save them
    public: str | None = None
    test: str | None = None  # file of the test set
    # names of the labels; empty for those in the files, or else label_0, label_1, …
    labels: tuple[str, ...] = ()
    # of the data set, in the report and on the card
    name: str = field(default="arrays", metadata={"public": True})

    def __post_init__(self) -> None:
        require_text("data.name", self.name)
        is_list = isinstance(self.labels, (list, tuple))
        are_names = is_list and all(isinstance(label, str) for label in self.labels)
        require(are_names, "data.labels", self.labels, "a list of names: [NAME,NAME]")
        normalize_field(self, "labels", tuple(self.labels))
        for split in SPLITS:
            normalize_field(self, split, at_home(getattr(self, split)))

    def require_settings(self) -> None:
        """Raises `InvalidValue` if a split has no path."""
        for split in SPLITS:
            path = getattr(self, split)
            labels = "and, if they are known, labels" if split == "public" else "and labels"
            require(isinstance(path, str), f"data.{split}", path, f"{_FILE} {labels}")

    def load(self) -> Dataset:
        """Reads the three splits and returns them as a data set.

        Without an array `groups`, each record is a group of its own.

        Raises:
            InvalidValue: a file is missing, one file is named for two splits, an array has the wrong form, or only some
                of the splits have groups.
            DamagedFile: a file cannot be read.
        """
        files = {split: _read(f"data.{split}", file=getattr(self, split)) for split in SPLITS}
        paths = {split: Path(getattr(self, split)) for split in SPLITS}
        require_files_apart(
            {
                split: [path / "inputs.npy" if path.is_dir() else path]
                for split, path in paths.items()
            }
        )
        grouped = [split for split in SPLITS if "groups" in files[split]]
        if 0 < len(grouped) < len(SPLITS):
            lacking = next(split for split in SPLITS if split not in grouped)
            rule = f"also the array groups, as data.{grouped[0]} has it"
            raise InvalidValue(f"data.{lacking}", rule=rule)
        num_public = len(files["public"]["inputs"])
        num_labels = files["private"]["labels"].shape[1]
        # labels that are all False count as not known
        files["public"].setdefault("labels", np.zeros((num_public, num_labels), np.bool_))
        private, public, test = (
            _split(f"data.{name}", index, arrays=files[name]) for index, name in enumerate(SPLITS)
        )
        columns = files["private"]
        copies = remarks_on_copies(private_split=private, public_split=public, test_split=test)
        return Dataset(
            name=self.name,
            real=True,
            kind="images" if private.inputs.ndim == 4 else "features",
            label_names=self._names(files),
            private=private,
            public=public,
            test=test,
            public_ids=files["public"].get("ids", np.arange(len(public))),
            owners=owner_names(records=columns.get("ids"), owners=columns.get("groups")),
            budgets=columns["budgets"].astype(np.str_) if "budgets" in columns else None,
            notes=(*([] if grouped else [_UNGROUPED]), *copies),
            group_unit=_ONE_GROUP if grouped else _ONE_ROW,
        )

    def private_records(self) -> PrivateRecords:
        """Reads only the private records, for a holder who receives the queries from somebody else."""
        arrays = _read(name="data.private", file=self.private)
        require("budgets" not in arrays, "data.private.budgets", "there", TRAIN_ONLY_RULE)
        names = self._names({"private": arrays})
        grouped = "groups" in arrays
        return PrivateRecords(
            self.name,
            label_names=names,
            records=_split("data.private", index=0, arrays=arrays),
            notes=() if grouped else (_UNGROUPED,),
            group_unit=_ONE_GROUP if grouped else _ONE_ROW,
        )

    def _names(self, files: dict[str, dict[str, NDArray[Any]]]) -> tuple[str, ...]:
        num_labels = files["private"]["labels"].shape[1]
        names_in_files = [
            tuple(arrays["label_names"].tolist())
            for arrays in files.values()
            if "label_names" in arrays
        ]
        names = tuple(f"label_{number}" for number in range(num_labels))
        if self.labels:
            names = self.labels
        elif names_in_files:
            names = names_in_files[0]
        rule = f"{num_labels} names, one for each column of labels"
        require(len(names) == num_labels, "data.labels", len(names), rule)
        num_lists = len(set(names_in_files))
        require(num_lists < 2, "label_names", num_lists, "the same in every file")
        return names


def _read(name: str, file: str | None) -> dict[str, NDArray[Any]]:
    """Returns the arrays of a split by name, from an .npz file or from a folder with inputs.npy and labels.npy.

    Args:
        name: the name of the setting that holds the path, for messages.
        file: the path of the file or folder; None if the setting is not set, which is an `InvalidValue`.
    """
    path = Path(file if isinstance(file, str | PathLike) else "")
    is_there = path.is_file() or (path / "inputs.npy").is_file()
    rule = f"{_FILE} that is there, or a folder with inputs.npy and labels.npy"
    require(isinstance(file, str | PathLike) and is_there, name, file, rule)
    required_forms = {**_FORMS}
    if name == "data.public":
        del required_forms["labels"]
    forms = _FORMS | _OPTIONAL_FORMS
    if path.is_file():
        return read_arrays(
            path,
            required_forms,
            optional_forms=forms,
            remedy=_REMEDY,
            max_unpacked_bytes=_MOST_UNPACKED_BYTES,
        )
    return {
        array: read_npy(path / f"{array}.npy", form)
        for array, form in forms.items()
        if array in required_forms or (path / f"{array}.npy").exists()
    }


def read_npy(path: Path, form: ArrayForm = ArrayForm("biuf")) -> NDArray[Any]:  # noqa: B008 - it is frozen
    """Returns the array in an .npy file; raises `DamagedFile` if the file holds no array of the expected form."""
    rule = f"an .npy file, {path.stem} as {form}"
    remedy = "save it with numpy.save(FILE, inputs)"
    with reading_file(path, rule=rule, remedy=remedy), path.open("rb") as file:
        try:
            num_bytes = os.fstat(file.fileno()).st_size
            array = read_array(file, num_bytes=num_bytes, dtype_kinds="biufU")
            reason = form.mismatch(array)
        except UNREADABLE as error:
            reason = type(error).__name__
    if reason:
        raise damaged(path, rule, finding=reason, remedy=remedy)
    return array


def _split(name: str, index: int, arrays: dict[str, NDArray[Any]]) -> Split:
    """Returns the split that consists of the given arrays.

    Args:
        name: the name of the setting that holds the split's path, for messages.
        index: the number of the split. Records without ids get ids that no record of another split has.
        arrays: the arrays of the split, by name.

    Raises:
        InvalidValue: lengths or shapes disagree, a label is neither 0 nor 1, or an input is not finite.
    """
    inputs = arrays["inputs"]
    labels = arrays["labels"]
    have_labels = labels.ndim == 2 and len(labels) == len(inputs)
    require(have_labels, f"{name}.labels", labels.shape, f"[{len(inputs)}, L]")
    rule = "[n, d], or images [n, channels, height, width]"
    require(inputs.ndim in (2, 4), f"{name}.inputs", inputs.shape, rule)
    if inputs.ndim == 4:
        require_image_levels(f"{name}.inputs", inputs)
    known = _known(name, arrays["known"], labels.shape) if "known" in arrays else None
    if known is not None:
        labels = np.where(known, labels, 0).astype(labels.dtype)
    _require_bits(f"{name}.labels", labels)
    for column in ("ids", "groups", "budgets"):
        length = len(arrays.get(column, inputs))
        rule = f"{len(inputs)}, one for each record"
        require(length == len(inputs), f"len({name}.{column})", length, rule)
    rows = np.arange(len(inputs), dtype=np.int64)
    ids = arrays["ids"].astype(np.int64) if "ids" in arrays else rows | (index << 48)
    groups = arrays["groups"].astype(np.int64) if "groups" in arrays else ids
    if inputs.dtype == np.uint8 and inputs.ndim == 4:
        return Split.from_pictures(
            all_pictures=inputs,
            row_numbers=rows,
            labels=labels.astype(np.bool_),
            record_ids=ids,
            group_ids=groups,
            known=known,
        )
    numbers = inputs.astype(np.float32, copy=False)
    if not all(np.isfinite(block).all() for block in row_blocks(array=numbers)):
        is_infinite = (~np.isfinite(numbers)).reshape(len(numbers), -1).any(axis=1)
        rule = f"finite numbers, {int(is_infinite.sum())} of {len(numbers)} rows have others"
        raise InvalidValue(f"{name}.inputs", rule=rule)
    return Split(
        inputs=numbers,
        labels=labels.astype(np.bool_, copy=False),
        record_ids=ids,
        group_ids=groups,
        known=known,
    )


def _known(name: str, array: NDArray[Any], labels_shape: tuple[int, ...]) -> BoolArray:
    """Returns which labels are known, or raises `InvalidValue`; `name` is the setting that holds the split's path."""
    rule = f"{list(labels_shape)}, as labels"
    require(array.shape == labels_shape, f"{name}.known", array.shape, rule)
    _require_bits(f"{name}.known", array)
    return array.astype(np.bool_, copy=False)


def _require_bits(name: str, bits: NDArray[Any]) -> None:
    """Raises `InvalidValue` unless all entries of an array `[n, num_labels]` are 0 or 1."""
    if bits.dtype == np.bool_:
        return
    num_wrong = int((~np.isin(bits, (0, 1))).any(axis=1).sum())
    rule = f"0 and 1, {num_wrong} of {len(bits)} rows hold something else"
    if num_wrong > 0:
        raise InvalidValue(name, rule=rule)
