"""Arrays in files: inputs and labels as they are, in one .npz or in several .npy."""

import io
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import PrivacyUnit
from pate.data.copies import remarks_on_copies
from pate.data.dataset import UNIFORM_RULE, Dataset
from pate.data.pictures import require_image_levels
from pate.data.private_records import PrivateRecords
from pate.data.shared_records import owner_names
from pate.data.split import SPLITS, Split, require_files_apart
from pate.files.arrays import UNREADABLE, ArrayForm, read_array, read_arrays, row_blocks
from pate.files.disk import at_home, damaged, read_bytes
from pate.validation import InvalidValue, normalize_field, require, require_text

_REMEDY = "save it with numpy.savez(FILE, inputs=…, labels=…)"
_FILE = "an .npz file of inputs"
_MOST_BYTES = 2**38
_UNGROUPED = (
    "data: no array `groups`, so each row by itself is protected; with it all rows of a person are"
)
_ONE_GROUP = PrivacyUnit("one number of the array groups, with all its rows", ("groups",))
_ONE_ROW = PrivacyUnit("one row")
_FORMS = {"inputs": ArrayForm("biuf"), "labels": ArrayForm("biu", (None, None))}
_BESIDE = {
    "groups": ArrayForm("iu", (None,)),
    "ids": ArrayForm("iu", (None,)),
    "label_names": ArrayForm("U", (None,)),
}
_BESIDE["budgets"] = ArrayForm("iufU", (None,))


@dataclass(frozen=True)
class Arrays:
    """Records in .npz files, or in folders of .npy files, one per split. Each holds arrays by name.

    * `inputs`: numbers `[n, d]`, images `[n, channels, height, width]` as bytes or as floats in [0, 1];
    * `labels`: 0 and 1, `[n, L]`; public records may lack them, as they serve measurements alone;
    * `groups`, where rows belong together: whole numbers `[n]`, the same for rows of one person;
    * `budgets`, of private rows whose groups differ in epsilon: that number, or the name of a class in `budgets=`;
    * `ids`, where records have numbers of their own: whole numbers `[n]`, those of public records are published;
    * `label_names`, in one of the files at least, or `labels=` here: texts `[L]`.
    """

    private: str | None = None  # file of the private records
    # file of the public ones; the first are asked about: shuffle them before you save them
    public: str | None = None
    test: str | None = None  # file of the records that measure
    # names of the labels; none for those of the files, or else label_0, label_1, …
    labels: tuple[str, ...] = ()
    # of the data set, in the report and on the card
    name: str = field(default="arrays", metadata={"public": True})

    def __post_init__(self) -> None:
        require_text("data.name", self.name)
        good = isinstance(self.labels, (list, tuple)) and all(
            isinstance(label, str) for label in self.labels
        )
        require(good, "data.labels", self.labels, "a list of names: [NAME,NAME]")
        normalize_field(self, "labels", tuple(self.labels))
        for split in SPLITS:
            normalize_field(self, split, at_home(getattr(self, split)))

    def require_settings(self) -> None:
        """Raises `InvalidValue` for a split without a path."""
        for split in SPLITS:
            path = getattr(self, split)
            require(isinstance(path, str), f"data.{split}", path, f"{_FILE} with labels")

    def load(self) -> Dataset:
        """Reads the files; groups, where there are none, are the records themselves."""
        files = {split: _read(f"data.{split}", getattr(self, split)) for split in SPLITS}
        paths = {split: Path(getattr(self, split)) for split in SPLITS}
        require_files_apart(
            {split: path / "inputs.npy" if path.is_dir() else path for split, path in paths.items()}
        )
        grouped = [split for split in SPLITS if "groups" in files[split]]
        if 0 < len(grouped) < len(SPLITS):
            lacking = next(split for split in SPLITS if split not in grouped)
            raise InvalidValue(
                f"data.{lacking}", rule=f"also the array groups, as data.{grouped[0]} has it"
            )
        num_rows_and_labels = len(files["public"]["inputs"]), *files["private"]["labels"].shape[1:]
        # not known to `Dataset` where all are False
        files["public"].setdefault("labels", np.zeros(num_rows_and_labels, np.bool_))
        private, public, test = (
            _split(f"data.{name}", place, files[name]) for place, name in enumerate(SPLITS)
        )
        columns = files["private"]
        copies = remarks_on_copies(private, public, test)
        return Dataset(
            name=self.name,
            real=True,
            kind="images" if private.inputs.ndim == 4 else "features",
            label_names=self._names(files),
            private=private,
            public=public,
            test=test,
            public_ids=files["public"].get("ids", np.arange(len(public))),
            owners=owner_names(id=columns.get("ids"), group=columns.get("groups")),
            budgets=columns["budgets"].astype(np.str_) if "budgets" in columns else None,
            notes=(*([] if grouped else [_UNGROUPED]), *copies),
            group_unit=_ONE_GROUP if grouped else _ONE_ROW,
        )

    def private_records(self) -> PrivateRecords:
        """The file of private records alone, for a holder whose queries come from elsewhere."""
        arrays = _read("data.private", self.private)
        require("budgets" not in arrays, "data.private.budgets", "there", UNIFORM_RULE)
        names = self._names({"private": arrays})
        grouped = "groups" in arrays
        return PrivateRecords(
            self.name,
            names,
            _split("data.private", 0, arrays),
            notes=() if grouped else (_UNGROUPED,),
            group_unit=_ONE_GROUP if grouped else _ONE_ROW,
        )

    def _names(self, files: dict[str, dict[str, NDArray[Any]]]) -> tuple[str, ...]:
        count = files["private"]["labels"].shape[1]
        names_in_files = [
            tuple(arrays["label_names"].tolist())
            for arrays in files.values()
            if "label_names" in arrays
        ]
        names = self.labels or (
            names_in_files[0]
            if names_in_files
            else tuple(f"label_{number}" for number in range(count))
        )
        require(
            len(names) == count,
            "data.labels",
            len(names),
            f"{count} names, one for each column of labels",
        )
        require(
            len(set(names_in_files)) < 2,
            "label_names",
            len(set(names_in_files)),
            "the same in every file",
        )
        return names


def _read(name: str, file: str | None) -> dict[str, NDArray[Any]]:
    """The arrays of a split: an .npz file, or the folder of inputs.npy and labels.npy."""
    path = Path(file if isinstance(file, str | PathLike) else "")
    good = isinstance(file, str | PathLike) and (path.is_file() or (path / "inputs.npy").is_file())
    require(good, name, file, f"{_FILE} that is there, or a folder with inputs.npy and labels.npy")
    needed = {**_FORMS}
    forms = _FORMS | _BESIDE
    if name == "data.public":
        del needed["labels"]
    if path.is_file():
        return read_arrays(path, needed, beside=forms, remedy=_REMEDY, most=_MOST_BYTES)
    present = [name for name in forms if name in needed or (path / f"{name}.npy").exists()]
    return {name: read_npy(path / f"{name}.npy", forms[name]) for name in present}


def read_npy(path: Path, form: ArrayForm = ArrayForm("biuf")) -> NDArray[Any]:  # noqa: B008 - it is frozen
    """The array of an .npy file; raises `DamagedFile` where it is none of that form."""
    rule = f"an .npy file, {path.stem} as {form}"
    remedy = "save it with numpy.save(FILE, inputs)"
    content = read_bytes(path, rule=rule, remedy=remedy)
    try:
        array = read_array(io.BytesIO(content), len(content), kinds="biufU")
        wrong = form.mismatch(array)
    except UNREADABLE as error:
        wrong = type(error).__name__
    if wrong:
        raise damaged(path, rule, wrong, remedy)
    return array


def _split(name: str, place: int, arrays: dict[str, NDArray[Any]]) -> Split:
    inputs = arrays["inputs"]
    labels = arrays["labels"]
    require(
        labels.ndim == 2 and len(labels) == len(inputs),
        f"{name}.labels",
        labels.shape,
        f"[{len(inputs)}, L]",
    )
    require(
        inputs.ndim in (2, 4),
        f"{name}.inputs",
        inputs.shape,
        "[n, d], or images [n, channels, height, width]",
    )
    if inputs.ndim == 4:
        require_image_levels(f"{name}.inputs", inputs)
    wrong = 0 if labels.dtype == np.bool_ else int((~np.isin(labels, (0, 1))).any(axis=1).sum())
    if wrong:
        raise InvalidValue(
            f"{name}.labels", rule=f"0 and 1, {wrong} of {len(labels)} rows hold something else"
        )
    for column in ("ids", "groups", "budgets"):
        length = len(arrays.get(column, inputs))
        require(
            length == len(inputs),
            f"len({name}.{column})",
            length,
            f"{len(inputs)}, one for each record",
        )
    rows = np.arange(len(inputs), dtype=np.int64)
    ids = arrays["ids"].astype(np.int64) if "ids" in arrays else rows | (place << 48)
    groups = arrays["groups"].astype(np.int64) if "groups" in arrays else ids
    if inputs.dtype == np.uint8 and inputs.ndim == 4:
        return Split.from_pictures(
            inputs, rows, labels=labels.astype(np.bool_), record_ids=ids, group_ids=groups
        )
    numbers = inputs.astype(np.float32, copy=False)
    if not all(np.isfinite(block).all() for block in row_blocks(numbers)):
        bad = int((~np.isfinite(numbers)).reshape(len(numbers), -1).any(axis=1).sum())
        raise InvalidValue(
            f"{name}.inputs", rule=f"finite numbers, {bad} of {len(numbers)} rows have others"
        )
    return Split(numbers, labels.astype(np.bool_, copy=False), ids, groups)
