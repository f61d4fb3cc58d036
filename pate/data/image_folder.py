"""Pictures in folders, and a table of their labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import SPLITS, Dataset, ImageForm, Split, Stage, named_owners, unwatched
from pate.data.table.cells import as_texts, one_spelling, require_columns
from pate.data.table.files import TableFile
from pate.data.table.remarks import UNGROUPED
from pate.data.table.rows import LABEL_HINT, LabelColumns, column_names, require_apart
from pate.validation import (
    InvalidValue,
    as_setting,
    nearest_column,
    require,
    require_choice,
    require_count,
    require_text,
)

_SHOWN = 100


@dataclass(frozen=True)
class ImageFolder:
    """Pictures of any size, and a table that says of each its labels, its split and whose it is."""

    root: str | None = None  # folder of the pictures
    table: str | None = None  # file with a row for each picture: .csv, .parquet and others, as for `Table`
    # column with the picture's path below `root`; it names the record, and is published of public ones.
    file: str = "file"
    labels: tuple[str, ...] = ()  # columns of 0 and 1
    split: str = "split"  # column that says private, public or test
    # column that says which pictures belong together, such as those of a person; None for none.
    group: str | None = None
    image_size: int = field(default=64, metadata={"public": True})  # height and width that pictures are brought to
    channels: int = field(default=3, metadata={"public": True})  # 3 for color, 1 for gray
    fit: str = field(default="crop", metadata={"public": True})  # crop or stretch, see `ImageForm`
    encoding: str = "utf-8"  # of a CSV file
    # of the data set, in the report and on the card.
    name: str = field(default="image_folder", metadata={"public": True})
    seed: int = 0  # of the public pictures' order

    def __post_init__(self) -> None:
        require_text("data.name", self.name)
        require_count("data.seed", self.seed, minimum=0)
        require_count("data.image_size", self.image_size)
        require_choice("data.fit", self.fit, ("crop", "stretch"))
        object.__setattr__(self, "labels", column_names("data.labels", self.labels))

    def require_settings(self) -> None:
        """Raises unless settings name a folder that is there, a table and labels."""
        there = self.root is not None and Path(self.root).is_dir()
        require(there, "data.root", self.root, "the folder of the pictures")
        require(self.table is not None, "data.table", self.table, "the file that says the labels of each picture")
        within = Path(str(self.root), str(self.table))
        there = Path(str(self.table)).exists() or not within.is_file()
        require(there, "data.table", self.table, f"a file that is there: {as_setting('data.table', within)}")
        rule = "the columns that are labels: 'data.labels=[NAME,NAME]'"
        require(len(self.labels) > 0, "data.labels", list(self.labels), rule)

    def load(self, stage: Stage = unwatched) -> Dataset:
        """Reads the table and decodes all pictures, which is announced."""
        self.require_settings()
        file = TableFile(Path(str(self.table)), "data.table", self.encoding)
        columns = [self.file, self.split, *self.labels, *([self.group] if self.group is not None else [])]
        for role, holds in (("file", "paths below data.root"), ("split", "private, public or test")):
            if (named := getattr(self, role)) not in file.names:
                rule = f"a column of data.table that holds {holds}, data.{role}=NAME"
                raise InvalidValue(f"data.{role}={named}: expected {rule}{nearest_column(named, file.names)}")
        require_columns("data.table", file.names, columns)
        table = file.read(list(dict.fromkeys(columns)))
        require(table.num_rows > 0, "data.table", file.path, "at least one row")
        words = {name: _words(table, name) for name in (self.file, self.split, self.group) if name is not None}
        labels, wrong = LabelColumns(self.labels).read(table)
        for name, count in zip(self.labels, wrong.sum(axis=0).tolist(), strict=True):
            if count:
                found = f"{count} of {table.num_rows} rows hold something else"
                rule = f"0 or 1 in a label's column, {found}{LABEL_HINT}"
                raise InvalidValue(f"data.table.{name}: expected {rule}")
        if len(set(words[self.file])) < table.num_rows:
            raise InvalidValue(f"data.table.{self.file}: expected each picture once")
        rows_of = dict(self._rows(words[self.split]))
        form = ImageForm(self.channels, self.image_size, self.image_size, self.fit)
        levels = self._decoded(form, words[self.file], stage)
        whose = words[self.file] if self.group is None else list(map(one_spelling, words[self.group]))
        groups = np.unique(whose, return_inverse=True)[1].astype(np.int64)
        rows_of["public"] = np.random.default_rng(self.seed).permutation(rows_of["public"])
        rows = np.arange(len(levels), dtype=np.int64)
        known = (levels, labels, rows, groups)
        parts: dict[str, Any] = {split: Split.of_pictures(rows_of[split], *known) for split in SPLITS}
        if self.group is not None:
            require_apart("group", self.group, [parts[split].group_ids for split in SPLITS])
        files, private = np.array(words[self.file], np.str_), rows_of["private"]
        owners = named_owners(id=files[private], group=None if self.group is None else np.array(whose)[private])
        return Dataset(
            self.name,
            True,
            "images",
            self.labels,
            **parts,
            preprocessing=form,
            public_ids=files[rows_of["public"]],
            notes=() if self.group is not None else (UNGROUPED,),
            owners=owners,
        )

    def _rows(self, said: list[str]) -> Iterator[tuple[str, NDArray[np.int64]]]:
        strange = [row for row, each in enumerate(said) if each not in SPLITS]
        if strange:
            found = f"{len(strange)} of {len(said)} rows have something else, row {strange[0] + 1} is the first"
            raise InvalidValue(f"data.split={self.split}: expected private, public or test, {found}")
        for split in SPLITS:
            rows = np.flatnonzero(np.array(said) == split).astype(np.int64)
            require(len(rows) > 0, "data.split", self.split, f"rows with {split}, the table has none")
            yield split, rows

    def _decoded(self, form: ImageForm, files: list[str], stage: Stage) -> NDArray[np.uint8]:
        """All pictures as bytes `[n, channels, height, width]`; raises with the number of those that cannot be read."""
        root = Path(str(self.root)).resolve()
        levels = np.empty((len(files), *form.input_shape), np.uint8)
        broken: list[int] = []
        with stage("decoding pictures", len(files)) as advance:
            for place, name in enumerate(files):
                path = (root / name).resolve()
                require(path.is_relative_to(root), f"data.table.{self.file}", "a path", f"one below {self.root}")
                try:
                    levels[place] = form.levels(path, name)
                except InvalidValue:
                    broken.append(place)
                if place % _SHOWN == 0:
                    advance(place)
        absent = [place for place in broken if not (root / files[place]).is_file()]
        for places, rule, verb in (
            (absent, f"files that are below data.root={self.root}, endings such as .png included", "are not"),
            (broken, "pictures that can be read", "cannot"),
        ):
            if places:
                found = f"{len(places)} of {len(files)} {verb}, row {places[0] + 1} is the first"
                raise InvalidValue(f"data.table.{self.file}: expected {rule}, {found}")
        return levels


def _words(table: Any, name: str) -> list[str]:
    """A column as words, none missing."""
    words = as_texts(table.column(name))
    if words.null_count:
        found = f"{words.null_count} of {len(words)} rows have none"
        raise InvalidValue(f"data.table.{name}: expected a value in each row, {found}")
    return list(words.to_pylist())
