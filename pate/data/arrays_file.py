"""Data sets from numpy arrays in files: for each split an .npz file, or a folder of .npy files."""

import os
from collections.abc import Mapping
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

_FILE_RULE = "an .npz file of inputs"
_REMEDY = "save it with numpy.savez(FILE, inputs=…, labels=…)"
# The largest size of a file after decompression.
_MAX_UNPACKED_BYTES = 2**38
# The remark for the owner of the records where no array tells which records belong together.
_UNGROUPED = (
    "data: no array `groups`, so each row by itself is protected; with it all rows of a person are"
)
_ONE_GROUP = PrivacyUnit(
    words="one number of the array groups, with all its rows", columns=("groups",)
)
_ONE_ROW = PrivacyUnit("one row")
# The forms of the arrays that each file must have (a public file may lack `labels`), and of those that it may have.
_REQUIRED_FORMS = {
    "inputs": ArrayForm(dtype_kinds="biuf"),
    "labels": ArrayForm(dtype_kinds="biu", shape=(None, None)),
}
_OPTIONAL_FORMS = {
    "known": ArrayForm(dtype_kinds="biu", shape=(None, None)),
    "groups": ArrayForm(dtype_kinds="iu", shape=(None,)),
    "ids": ArrayForm(dtype_kinds="iu", shape=(None,)),
    "label_names": ArrayForm(dtype_kinds="U", shape=(None,)),
    "budgets": ArrayForm(dtype_kinds="iufU", shape=(None,)),
}


@dataclass(frozen=True)
class Arrays:
    """A reader of numpy arrays in files: for each split an .npz file, or a folder of .npy files.

    Each file or folder holds arrays by name. n is the number of records in the split, L the number of labels.

    * `inputs`: features `[n, d]`, or images `[n, channels, height, width]` as bytes or as floats in [0, 1];
    * `labels`: 0 and 1, `[n, L]`. Public records may lack labels, which only measure unless `data.public_labels` is
      set;
    * `known`, optional: 0 and 1, `[n, L]`, 1 for each label that is known. Labels that are not known are neither
      learned nor measured; what `labels` holds for them is not read;
    * `groups`, optional: whole numbers `[n]`, equal for records that belong together, such as those of one person;
    * `budgets`, optional, of private records: the epsilon of the record's group, or the name of a class in `budgets=`;
    * `ids`, optional: whole numbers `[n]` that name the records; no id occurs twice, in one file or in two. Private
      records without ids have the numbers from 0, so if only public ones have ids, these must be larger. The ids of
      public records are published;
    * `label_names`, optional: texts `[L]`, the same in all files that have them.

    Attributes:
        private: the file or folder of the private records.
        public: the file or folder of the public records. The first ones are the queries, so shuffle them before you
            save them.
        test: the file or folder of the test set.
        labels: the names of the labels; empty for the names in the files, or else label_0, label_1, ….
        name: the name of the data set, in the report and on the card.
    """

    private: str | None = None
    public: str | None = None
    test: str | None = None
    labels: tuple[str, ...] = ()
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
            labels_in_words = (
                "and, if they are known, labels" if split == "public" else "and labels"
            )
            require(isinstance(path, str), f"data.{split}", path, f"{_FILE_RULE} {labels_in_words}")

    def load(self) -> Dataset:
        """Reads the three splits and returns them as a data set.

        Without an array `groups`, each record is a group of its own.

        Raises:
            InvalidValue: a file is missing, one file is named for two splits, an array has the wrong form, or only some
                of the splits have groups.
            DamagedFile: a file cannot be read.
        """
        arrays_by_split = {
            split: _read_arrays(setting_name=f"data.{split}", split_path=getattr(self, split))
            for split in SPLITS
        }
        files_of_split = {split: [_input_file(Path(getattr(self, split)))] for split in SPLITS}
        require_files_apart(files_of_split)
        grouped = [split for split in SPLITS if "groups" in arrays_by_split[split]]
        if 0 < len(grouped) < len(SPLITS):
            ungrouped_split = next(split for split in SPLITS if split not in grouped)
            rule = f"also the array groups, as data.{grouped[0]} has it"
            raise InvalidValue(f"data.{ungrouped_split}", rule=rule)
        private_arrays = arrays_by_split["private"]
        public_arrays = arrays_by_split["public"]
        num_public = len(public_arrays["inputs"])
        num_labels = private_arrays["labels"].shape[1]
        # A public pool whose labels are all False counts as unlabeled.
        public_arrays.setdefault("labels", np.zeros((num_public, num_labels), np.bool_))
        private, public, test = (
            _split(setting_name=f"data.{split}", split_number=number, arrays=arrays_by_split[split])
            for number, split in enumerate(SPLITS)
        )
        notes = [] if grouped else [_UNGROUPED]
        notes += remarks_on_copies(private_split=private, public_split=public, test_split=test)
        budgets = private_arrays.get("budgets")
        return Dataset(
            name=self.name,
            real=True,
            kind="images" if private.inputs.ndim == 4 else "features",
            label_names=self._label_names(arrays_by_split),
            private=private,
            public=public,
            test=test,
            public_ids=public_arrays.get("ids", np.arange(len(public))),
            owners=owner_names(
                names_of_records=private_arrays.get("ids"),
                names_of_owners=private_arrays.get("groups"),
            ),
            budgets=None if budgets is None else budgets.astype(np.str_),
            notes=tuple(notes),
            group_unit=_ONE_GROUP if grouped else _ONE_ROW,
        )

    def private_records(self) -> PrivateRecords:
        """Reads only the private records, for a holder who receives the queries from somebody else.

        The fields `public` and `test` need not be set. An array `budgets` is an `InvalidValue`; for other errors see
        `load`.
        """
        arrays = _read_arrays(setting_name="data.private", split_path=self.private)
        if "budgets" in arrays:
            raise InvalidValue("data.private.budgets", "there", rule=TRAIN_ONLY_RULE)
        is_grouped = "groups" in arrays
        return PrivateRecords(
            name=self.name,
            label_names=self._label_names({"private": arrays}),
            records=_split(setting_name="data.private", split_number=0, arrays=arrays),
            notes=() if is_grouped else (_UNGROUPED,),
            group_unit=_ONE_GROUP if is_grouped else _ONE_ROW,
        )

    def _label_names(
        self, arrays_by_split: Mapping[str, Mapping[str, NDArray[Any]]]
    ) -> tuple[str, ...]:
        """Returns the names of the labels.

        The names are those in the field `labels`; if the field is empty, those of the first file with an array
        `label_names`; or else label_0, label_1, ….

        Args:
            arrays_by_split: the arrays of each split by name, by the split's name.

        Raises:
            InvalidValue: the number of names is wrong, or two files have different names.
        """
        num_labels = arrays_by_split["private"]["labels"].shape[1]
        names_in_files = [
            tuple(arrays["label_names"].tolist())
            for arrays in arrays_by_split.values()
            if "label_names" in arrays
        ]
        if self.labels:
            label_names = self.labels
        elif names_in_files:
            label_names = names_in_files[0]
        else:
            label_names = tuple(f"label_{number}" for number in range(num_labels))
        if len(label_names) != num_labels:
            rule = f"{num_labels} names, one for each column of labels"
            raise InvalidValue("data.labels", len(label_names), rule=rule)
        num_different_lists = len(set(names_in_files))
        require(
            num_different_lists < 2, "label_names", num_different_lists, "the same in every file"
        )
        return label_names


def _input_file(path: Path) -> Path:
    """Returns the file of a split's inputs: the path itself, or `inputs.npy` in it if it is a folder."""
    return path / "inputs.npy" if path.is_dir() else path


def _read_arrays(setting_name: str, *, split_path: str | None) -> dict[str, NDArray[Any]]:
    """Returns the arrays of a split by name, from an .npz file or from a folder with inputs.npy and labels.npy.

    Args:
        setting_name: the name of the setting that holds the path, for messages.
        split_path: the path of the file or folder. A missing one is an `InvalidValue`, and so is None.
    """
    if not isinstance(split_path, str | PathLike) or not _input_file(Path(split_path)).is_file():
        rule = f"{_FILE_RULE} that is there, or a folder with inputs.npy and labels.npy"
        raise InvalidValue(setting_name, split_path, rule=rule)
    npz_file_or_npy_folder = Path(split_path)
    required_forms = dict(_REQUIRED_FORMS)
    if setting_name == "data.public":
        del required_forms["labels"]
    all_forms = _REQUIRED_FORMS | _OPTIONAL_FORMS
    if npz_file_or_npy_folder.is_file():
        return read_arrays(
            npz_file_or_npy_folder,
            required_forms,
            optional_forms=all_forms,
            remedy=_REMEDY,
            max_unpacked_bytes=_MAX_UNPACKED_BYTES,
        )
    return {
        array_name: read_npy(npz_file_or_npy_folder / f"{array_name}.npy", array_form=form)
        for array_name, form in all_forms.items()
        if array_name in required_forms or (npz_file_or_npy_folder / f"{array_name}.npy").exists()
    }


def read_npy(path: Path, array_form: ArrayForm = ArrayForm(dtype_kinds="biuf")) -> NDArray[Any]:  # noqa: B008 - it is frozen
    """Returns the array in an .npy file; raises `DamagedFile` if the file is missing or its array has another form.

    `array_form` is the expected dtype and shape, by default any array of bits or numbers.
    """
    rule = f"an .npy file, {path.stem} as {array_form}"
    remedy = "save it with numpy.save(FILE, inputs)"
    with reading_file(path, rule=rule, remedy=remedy), path.open("rb") as file:
        try:
            num_bytes = os.fstat(file.fileno()).st_size
            array = read_array(file, num_bytes=num_bytes, dtype_kinds="biufU")
            reason = array_form.mismatch(array)
        except UNREADABLE as error:
            reason = type(error).__name__
    if reason:
        raise damaged(path, rule=rule, finding=reason, remedy=remedy)
    return array


def _split(setting_name: str, split_number: int, arrays: Mapping[str, NDArray[Any]]) -> Split:
    """Returns the split that consists of the given arrays.

    Args:
        setting_name: the name of the setting that holds the split's path, for messages.
        split_number: the number of the split, from 0. Records without ids get ids that depend on it, so that records of
            two splits without ids have different ones.
        arrays: the arrays of the split, by name.

    Raises:
        InvalidValue: lengths or shapes disagree, a label is neither 0 nor 1, or an input is not finite or too large.
    """
    inputs = arrays["inputs"]
    labels = arrays["labels"]
    have_labels = labels.ndim == 2 and len(labels) == len(inputs)
    require(have_labels, f"{setting_name}.labels", labels.shape, f"[{len(inputs)}, L]")
    if inputs.ndim not in (2, 4):
        rule = "[n, d], or images [n, channels, height, width]"
        raise InvalidValue(f"{setting_name}.inputs", inputs.shape, rule=rule)
    if inputs.ndim == 4:
        require_image_levels(f"{setting_name}.inputs", images=inputs)
    known = None
    if "known" in arrays:
        known = _known_mask(setting_name, array=arrays["known"], labels_shape=labels.shape)
        labels = np.where(known, labels, 0).astype(labels.dtype)
    _require_bits(f"{setting_name}.labels", bits=labels)
    for array_name in ("ids", "groups", "budgets"):
        length = len(arrays.get(array_name, inputs))
        if length != len(inputs):
            rule = f"{len(inputs)}, one for each record"
            raise InvalidValue(f"len({setting_name}.{array_name})", length, rule=rule)
    row_numbers = np.arange(len(inputs), dtype=np.int64)
    ids = row_numbers | (split_number << 48)
    if "ids" in arrays:
        ids = arrays["ids"].astype(np.int64)
    groups = ids
    if "groups" in arrays:
        groups = arrays["groups"].astype(np.int64)
    if inputs.dtype == np.uint8 and inputs.ndim == 4:
        return Split.from_pictures(
            all_pictures=inputs,
            row_numbers=row_numbers,
            labels=labels.astype(np.bool_),
            record_ids=ids,
            group_ids=groups,
            known=known,
        )
    float_inputs = inputs.astype(np.float32, copy=False)
    if not all(np.isfinite(block).all() for block in row_blocks(array=float_inputs)):
        has_nonfinite_numbers = (
            (~np.isfinite(float_inputs)).reshape(len(float_inputs), -1).any(axis=1)
        )
        num_wrong = int(has_nonfinite_numbers.sum())
        finite_rule = f"finite numbers, {num_wrong} of {len(float_inputs)} rows have others"
        raise InvalidValue(f"{setting_name}.inputs", rule=finite_rule)
    return Split(
        inputs=float_inputs,
        labels=labels.astype(np.bool_, copy=False),
        record_ids=ids,
        group_ids=groups,
        known=known,
    )


def _known_mask(setting_name: str, array: NDArray[Any], labels_shape: tuple[int, ...]) -> BoolArray:
    """Returns which labels of a split are known, bool `[n, num_labels]`.

    Args:
        setting_name: the name of the setting that holds the split's path, for messages.
        array: the array `known` of the split.
        labels_shape: the shape of the split's labels.

    Raises:
        InvalidValue: the array has another shape, or an entry that is neither 0 nor 1.
    """
    if array.shape != labels_shape:
        rule = f"{list(labels_shape)}, as labels"
        raise InvalidValue(f"{setting_name}.known", array.shape, rule=rule)
    _require_bits(f"{setting_name}.known", bits=array)
    return array.astype(np.bool_, copy=False)


def _require_bits(array_name: str, bits: NDArray[Any]) -> None:
    """Raises `InvalidValue` unless all entries of an array `[n, num_labels]` are 0 or 1.

    `array_name` is for the error.
    """
    if bits.dtype == np.bool_:
        return
    num_wrong = int((~np.isin(bits, (0, 1))).any(axis=1).sum())
    if num_wrong > 0:
        rule = f"0 and 1, {num_wrong} of {len(bits)} rows hold something else"
        raise InvalidValue(array_name, rule=rule)
