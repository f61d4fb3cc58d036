"""Data sets of pictures in a folder, with a table of the labels and the split of each picture."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import PrivacyUnit
from pate.data.copies import remarks_on_copies
from pate.data.dataset import Dataset
from pate.data.image_form import ImageForm
from pate.data.owner_names import owner_names
from pate.data.pictures import UNREADABLE, is_white
from pate.data.pixels import Pixels
from pate.data.split import SPLITS, Split
from pate.data.table.cells import as_texts
from pate.data.table.column import Column, Encoded
from pate.data.table.column_names import as_column_names, as_name, require_column, require_columns
from pate.data.table.labels import Labels
from pate.data.table.people import People, person_name, smallest_of_group
from pate.data.table.rows import Roles, Rows
from pate.data.table.schema import TableSchema
from pate.data.table.spelling import USUAL, CellSpelling, canonical_word
from pate.data.table.table_dataset import (
    UNGROUPED,
    remarks_on_gaps,
    require_apart,
    split_numbers,
)
from pate.data.table.table_file import TableFile
from pate.data.table.uncertain import UncertainLabels, as_words
from pate.files.digests import file_digest
from pate.files.paths import at_home, file_identity
from pate.progress import StageOpener, unwatched
from pate.validation import (
    InvalidValue,
    normalize_field,
    require,
    require_choice,
    require_count,
    require_text,
)


@dataclass(frozen=True)
class PictureColumn(Column):
    """A column of pictures, each of which becomes a row of bytes `[channels * height * width]`."""

    form: ImageForm
    open: Callable[[Any], Any]  # from a cell to a file or an image, or None for neither
    rule: str = "pictures that can be read"
    # the broken rules of pictures that could not be read
    refusals: list[str] = field(default_factory=list, compare=False)

    @property
    def expects(self) -> str:
        """The rule that the first unreadable picture violates, for an error message."""
        has_own_rule = self.refusals and self.refusals[0] != UNREADABLE
        return self.refusals[0] if has_own_rule else self.rule

    def encode(self, cells: Any, spelling: CellSpelling = USUAL) -> Encoded:
        """Reads pictures as rows of bytes `[num_cells, channels * height * width]`.

        A picture that cannot be read is marked as wrong.
        """
        rows: Any = np.zeros((len(cells), *self.form.input_shape), np.uint8)
        wrong = np.zeros(len(cells), np.bool_)
        for place, cell in enumerate(cells.to_pylist()):
            picture = self.open(cell)
            if picture is None:
                wrong[place] = True
                continue
            try:
                rows[place] = self.form.levels(picture, self.name, needs_white=True)
            except InvalidValue as error:
                wrong[place] = True
                self.refusals.append(error.rule)
        return Encoded(rows.reshape(len(rows), -1), wrong, np.zeros(2, np.int64))

    def pixels(self, inputs: NDArray[np.uint8]) -> Pixels:
        """Returns encoded rows `[n, channels * height * width]` as an array-like of n pictures."""
        return Pixels(
            levels=inputs.reshape(-1, *self.form.input_shape),
            rows=np.arange(len(inputs), dtype=np.int64),
        )


def _content_name(path: Path) -> str:
    """Returns the SHA-256 digest of a picture's bytes, which is the same for a copy or a hard link."""
    return "sha256:" + file_digest(
        path, rule="a picture of data.root", remedy="leave the folder alone while it is read"
    )


@dataclass(frozen=True)
class ImageFolder:
    """A reader of a folder of pictures, and of a table with the labels, the split and the owner of each picture."""

    root: str | None = None  # folder of the pictures
    # file with a row for each picture: .csv, .parquet and others, as for `Table`
    table: str | None = None
    # column with the picture's path below `root`. The path names the record; paths of public records are published.
    file: str = "file"
    labels: tuple[str, ...] = ()  # columns of 0 and 1; a missing cell is an unknown label
    missing: tuple[str, ...] = ()  # words that mean a missing cell: see `Table`
    # what -1, ? and uncertain mean as a label: missing, positive or negative, see `Table`
    uncertain: str | None = None
    uncertain_words: tuple[str, ...] = ()  # words that mean the same
    split: str = "split"  # column with the words private, public or test
    # column that names the owner of each picture, such as a person
    group: str | None = None
    # height and width that pictures are brought to
    image_size: int = field(default=64, metadata={"public": True})
    channels: int = field(default=3, metadata={"public": True})  # 3 for color, 1 for gray
    fit: str = field(default="crop", metadata={"public": True})  # crop or stretch, see `ImageForm`
    # the level that is white in gray pictures of more than 8 bits: 65535, or 4095 where a camera has 12 bits
    white: float | None = field(default=None, metadata={"public": True})
    encoding: str = "utf-8"  # of a CSV file
    # of the data set, in report and on card
    name: str = field(default="image_folder", metadata={"public": True})
    seed: int = 0  # of the public pictures' order

    def __post_init__(self) -> None:
        require_text("data.name", self.name)
        require_count("data.seed", self.seed, minimum=0)
        require_count("data.image_size", self.image_size)
        require_choice("data.fit", self.fit, ("crop", "stretch"))
        require(is_white(self.white), "data.white", self.white, "a number > 0, or null")
        for name in ("root", "table"):
            normalize_field(self, name, at_home(getattr(self, name)))
        normalize_field(self, "labels", as_column_names(setting="data.labels", values=self.labels))
        for name in ("file", "split", "group"):
            normalize_field(self, name, as_name(getattr(self, name)))
        for name in ("missing", "uncertain_words"):
            normalize_field(self, name, as_words(getattr(self, name)))
        self._spelling.require(lambda setting: f"data.{setting}")
        self._uncertain.require()

    @property
    def _spelling(self) -> CellSpelling:
        return CellSpelling(missing=self.missing)

    @property
    def _uncertain(self) -> UncertainLabels:
        return UncertainLabels(self.uncertain, self.uncertain_words)

    def require_settings(self) -> None:
        """Raises `InvalidValue` if the folder of pictures is missing, or the table or label columns are not set."""
        has_root = self.root is not None and Path(self.root).is_dir()
        require(has_root, "data.root", self.root, "the folder of the pictures")
        rule = "the file that says the labels of each picture"
        require(self.table is not None, "data.table", self.table, rule)
        rule = "columns: 'data.labels=[NAME,NAME]'"
        require(len(self.labels) > 0, "data.labels", list(self.labels), rule)

    def load(self, stage: StageOpener = unwatched) -> Dataset:
        """Reads the table, decodes all pictures, and returns the data set.

        Raises:
            InvalidValue: a setting is missing, a picture cannot be read, or the table has a picture twice.
        """
        self.require_settings()
        pictures, read = self._read(stage)
        ends = np.cumsum([len(rows.numbers) for rows in read.values()])[:-1]
        files = np.array([name for rows in read.values() for name in rows.record_names], np.str_)
        are_distinct = len(np.unique(files)) == len(files)
        require(are_distinct, f"data.table.{self.file}", "a name twice", "each picture once")
        root = Path(str(self.root)).resolve()
        paths = [(root / name).resolve() for name in files.tolist()]
        rule = (
            "each picture once, under one name: ./a.png, a link to a.png and a.png are one picture"
        )
        are_distinct = len(set(map(file_identity, paths))) == len(paths)
        require(are_distinct, f"data.table.{self.file}", "a picture twice", rule)
        whose = files
        remarks: list[str] = []
        if self.group is not None:
            people = People.from_names([rows.groups[0] for rows in read.values()])
            require_apart("group", self.group, list(people.person_of_row))
            remarks += people.remarks(f"data.group={self.group}")
            words = [
                word for rows in read.values() for word in as_texts(rows.groups[0]).to_pylist()
            ]
            whose = np.array([canonical_word(word) for word in words])
        in_order = np.unique(whose, return_inverse=True)[1].astype(np.int64)
        if self.group is not None:
            in_order = smallest_of_group(
                group_of_row=np.concatenate(people.groups()), number_of_row=in_order
            )
        groups = np.split(in_order, ends)
        order = [np.arange(len(rows), dtype=np.int64) for rows in groups]
        order[1] = np.random.default_rng(self.seed).permutation(order[1])
        record_ids = split_numbers([rows.numbers for rows in read.values()])
        splits = {
            split: Split.from_pictures(
                all_pictures=pictures.pixels(rows.inputs).levels,
                row_numbers=order_of_split,
                labels=rows.labels,
                record_ids=ids,
                group_ids=group_ids,
                known=rows.known,
            )
            for (split, rows), order_of_split, ids, group_ids in zip(
                read.items(), order, record_ids, groups, strict=True
            )
        }
        # three names of each private picture: in the table, of its file, and by its bytes
        owners: list[str] = []
        for name, path in zip(files[: ends[0]].tolist(), paths, strict=False):
            owners += [name, path.relative_to(root).as_posix(), _content_name(path)]
        persons = None
        if self.group is not None:
            private = whose[: ends[0]].tolist()
            names = list(map(person_name, private))
            persons = np.array([*private, *names, *(name.casefold() for name in names)])
        remarks += remarks_on_gaps(splits, self.labels)
        remarks += remarks_on_copies(
            private_split=splits["private"],
            public_split=splits["public"],
            test_split=splits["test"],
        )
        group_unit = PrivacyUnit("one picture")
        if self.group is not None:
            group_unit = PrivacyUnit.of_column(column=self.group, records="pictures")
        return Dataset(
            name=self.name,
            real=True,
            kind="images",
            label_names=self.labels,
            private=splits["private"],
            public=splits["public"],
            test=splits["test"],
            preprocessing=pictures.form,
            public_ids=np.split(files, ends)[1][order[1]],
            public_labeled=read["public"].labeled,
            owners=owner_names(records=np.array(owners), owners=persons),
            notes=(*([UNGROUPED] if self.group is None else []), *remarks),
            group_unit=group_unit,
        )

    def _read(self, stage: StageOpener) -> tuple[PictureColumn, dict[str, Rows]]:
        root = Path(str(self.root)).resolve()
        done = 0
        file = TableFile(Path(str(self.table)), setting="data.table", encoding=self.encoding)
        columns = list(
            dict.fromkeys(
                [self.file, *self.labels, *([self.group] if self.group is not None else [])]
            )
        )
        for role, holds in (
            ("file", "paths below data.root"),
            ("split", "private, public or test"),
        ):
            where = f"data.table that holds {holds}, data.{role}=NAME"
            require_column(f"data.{role}", getattr(self, role), file.names, where)
        require_columns("data.table", file.names, columns)
        roles = Roles(() if self.group is None else (self.group,), self.file)

        def open_picture(name: Any) -> Any:
            nonlocal done
            advance(done := done + 1)
            path = (root / ("" if name is None else str(name).strip())).resolve()
            return path if path.is_relative_to(root) else None

        rule = f"pictures that can be read and lie below data.root={self.root}, endings such as .png included"
        form = ImageForm(
            channels=self.channels,
            height=self.image_size,
            width=self.image_size,
            fit=self.fit,
            white=self.white,
        )
        pictures = PictureColumn(self.file, missing=False, form=form, open=open_picture, rule=rule)
        schema = TableSchema((pictures,), self._spelling)
        total = sum(table.num_rows for table in file.batches(columns[:1]))
        with stage("decoding pictures", total) as advance:
            rows_of = {
                split: replace(file, split=self.split, part=split).rows(columns) for split in SPLITS
            }
            return pictures, {
                split: Rows(
                    batches=rows,
                    schema=schema,
                    labels=Labels(self.labels, uncertain=self._uncertain),
                    roles=roles,
                    name=file.setting,
                    split=split,
                )
                for split, rows in rows_of.items()
            }
