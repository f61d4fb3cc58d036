"""Tables in files: private, public and test records, with labels in columns of 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import Dataset, Split
from pate.data.private_records import PrivateRecords
from pate.data.table.cells import arrow, as_numbers, as_texts
from pate.data.table.files import TableFile
from pate.data.table.private_cells import private_cells
from pate.data.table.rows import SPLITS as _SPLITS
from pate.data.table.rows import Roles, Rows, column_names, numbered, require_apart
from pate.data.table.schema import TableSchema, require_columns
from pate.validation import InvalidValue, nearest, require, require_count, require_text

_FEWEST_NUMBERED = 20  # rows that tell numbers of rows from other whole numbers
_ROLES = ("labels", "group", "id", "split", "drop")


@dataclass(frozen=True)
class Table:
    """Records in CSV, Parquet, Feather or Arrow files, one per split, or one for all with a column that says which.

    Every column that is no label, group, id or split and is not dropped becomes features, as a schema says. The schema
    is learned from the public file alone; no private cell has a part in it. Numbers and dates are in units of the
    public spread and within the public range. Words are categories, with one for all others. Missing cells have a
    feature.

    Attributes:
        private: file of the private records.
        public: file of the public ones; its rows are shuffled, and the first of them are asked about. Their labels
            serve measurements alone: the file may lack all columns of labels, or all their cells.
        test: file of the records that measure.
        path: one file for all three, in their place.
        split: its column that holds private, public or test.
        labels: names of the columns that are labels.
        group: column that says which rows belong together, such as a person: epsilon protects all of them at once. None
            for rows that have nothing to do with each other.
        id: column that names each record; None for the number of the row. Public ids are published.
        drop: columns that are not read.
        category: columns of codes: their numbers or dates are words, each a category.
        schema: file that `pate-schema` wrote; None learns it anew from the public file.
        encoding: of CSV files.
        decimal: `comma` where numbers of CSV files read 3,5.
        name: of the data set, in the report and on the card.
        seed: of the public rows' order; part of the data, not of the noise.

    Raises:
        InvalidValue: settings that do not go together. What is wrong with a file is said by `load`, with column, count
            and split, and no cell.
    """

    private: str | None = None
    public: str | None = None
    test: str | None = None
    path: str | None = None
    split: str | None = None
    labels: tuple[str, ...] = ()
    group: str | None = None
    id: str | None = None
    drop: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    schema: str | None = None
    encoding: str = "utf-8"
    decimal: str = "point"
    name: str = field(default="table", metadata={"public": True})
    seed: int = 0

    def __post_init__(self) -> None:
        require_count("data.seed", self.seed, minimum=0)
        require_text("data.name", self.name)
        for name in ("private", "public", "test", "path", "split", "group", "id", "schema"):
            value = getattr(self, name)
            require(value is None or (isinstance(value, str) and value != ""), f"data.{name}", value, "a name")
        for name in ("labels", "drop", "category"):
            object.__setattr__(self, name, column_names(f"data.{name}", getattr(self, name)))
        role_of: dict[str, str] = {}
        for role in _ROLES:
            for column in self._columns(role):
                there = role_of.setdefault(column, role)
                both = {there, role} == {"group", "id"}
                require(there == role or both, f"data.{role}", column, f"another column than data.{there}")

    def load(self) -> Dataset:
        """Reads the files. Record ids are the rows of each file, with its split in the upper bits."""
        self.require_settings()
        self._require_dropped()
        for split in _SPLITS:
            self._require_columns(split)
        schema = self.table_schema
        rows = {split: self._rows(split, schema) for split in _SPLITS}
        ids = self._ids(rows)
        groups = self._groups(rows) if self.group is not None else ids
        shuffled = np.random.default_rng(self.seed).permutation(len(rows["public"].inputs))
        parts = {split: Split(rows[split].inputs, rows[split].labels, ids[split], groups[split]) for split in _SPLITS}
        parts["public"] = parts["public"].take(shuffled)
        public = rows["public"]
        names = public.numbers if public.ids is None else np.array(public.ids.to_pylist(), np.str_)
        return Dataset(
            name=self.name,
            real=True,
            kind="features",
            label_names=self.labels,
            preprocessing=schema,
            public_ids=names[shuffled],
            public_labeled=public.labeled,
            private_cells=private_cells(self._files["private"].batches(), split=self._roles.split),
            **parts,
        )

    def private_records(self) -> PrivateRecords:
        """The file of private records alone, for a holder whose queries come from elsewhere; every holder's schema."""
        rule = "the file that pate-schema wrote of the public samples, the same at every place"
        require(self.schema is not None, "data.schema", self.schema, rule)
        require(self.private is not None, "data.private", self.private, "the file of the private records")
        require(len(self.labels) > 0, "data.labels", list(self.labels), "the columns that are labels")
        schema = TableSchema.load(Path(self.schema or "")).without(set(self._roles.no_features))
        file = self._file(self.private or "", "data.private")
        for role in _ROLES[:-1]:
            self._require_named(self._columns(role), role, file.names, file.name)
        require_columns(file.name, file.names, schema.names)
        columns = list(dict.fromkeys((*schema.names, *self._roles.needed)))
        rows = Rows.read(file.batches(columns), schema, self._roles, name=file.name, split="private")
        ids = rows.numbers if self.id is None else numbered([rows.ids])[0]
        groups = ids if self.group is None else numbered([rows.groups])[0]
        cells = private_cells(file.batches(), split=None)
        return PrivateRecords(self.name, self.labels, Split(rows.inputs, rows.labels, ids, groups), schema, cells)

    def _wanted(self, role: str, split: str, names: list[str]) -> tuple[str, ...]:
        """The columns that a setting names and a file has to have: a public one may have no label at all.

        One that differs in capital letters alone is a label that is misspelled, not one that the file lacks.
        """
        named, there = self._columns(role), {name.casefold() for name in names}
        lacks = not any(name.casefold() in there for name in named)
        return () if (role, split) == ("labels", "public") and lacks else named

    def _columns(self, role: str) -> tuple[str, ...]:
        """The columns that a setting names."""
        named = getattr(self, role) or ()
        return (named,) if isinstance(named, str) else named

    def public_schema(self) -> TableSchema:
        """What the public records say of all columns that settings do not call something else."""
        file = self._public_file
        for role in _ROLES[:-1]:
            self._require_named(self._wanted(role, "public", file.names), role, file.names, file.name)
        table = self._public_features()
        self._require_named(self.category, "category", table.column_names, f"{file.name} that is a feature")
        return TableSchema.of(table, codes=self.category)

    def numbered_columns(self) -> tuple[str, ...]:
        """Features that hold another whole number in each public row, as the numbers of contracts and cases do."""
        table = self._public_features()
        return tuple(name for name in table.column_names if _numbers_rows(table.column(name)))

    def coded_columns(self) -> tuple[str, ...]:
        """Features that are numbers, some of them with a zero in front, as the codes of places have."""
        table = self._public_features()
        return tuple(
            name for name in table.column_names if name not in self.category and _has_codes(table.column(name))
        )

    @cached_property
    def table_schema(self) -> TableSchema:
        """The schema: from its file, or from the public records."""
        if self.schema is not None:
            rule = "none beside data.schema, whose kinds hold; pate-schema category=[…] writes them there"
            require(not self.category, "data.category", list(self.category), rule)
            schema = TableSchema.load(Path(self.schema))
            learned = set(self._roles.no_features)
            schema = schema.without(learned)
            unknown = [name for name in self._names["public"] if name not in {*schema.names, *learned}]
            if unknown:
                rule = f"the column {unknown[0]}, or data.drop=[{unknown[0]}]"
                raise InvalidValue(f"data.schema={self.schema}: expected also {rule}")
        else:
            schema = self.public_schema()
        schema.require_usable("data.public" if self.path is None else "data.path")
        return schema

    @cached_property
    def _roles(self) -> Roles:
        return Roles(self.labels, self.group, self.id, self.split if self.path is not None else None, self.drop)

    @cached_property
    def _files(self) -> dict[str, TableFile]:
        if self.path is not None:
            return dict.fromkeys(_SPLITS, self._file(self.path, "data.path"))
        return {each: self._file(getattr(self, each), f"data.{each}") for each in _SPLITS}

    @property
    def _public_file(self) -> TableFile:
        said, where = (self.path, "data.path") if self.path is not None else (self.public, "data.public")
        require(said is not None, where, said, "the file of the public records")
        return self._file(said or "", where)

    def _file(self, path: str, name: str) -> TableFile:
        return TableFile(Path(path), name, self.encoding, self.decimal)

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        if self.path is not None:
            return dict.fromkeys(_SPLITS, self._files["public"].names)
        return {split: self._files[split].names for split in _SPLITS}

    def require_settings(self) -> None:
        """Returns if settings name three files, or one with a column of splits, and labels. No file is opened.

        Raises:
            InvalidValue: a setting that is missing, or two that contradict each other.
        """
        given = [each for each in _SPLITS if getattr(self, each) is not None]
        if self.path is not None:
            require(not given, "data.path", self.path, f"no data.{given[0] if given else ''} beside it")
            require(self.split is not None, "data.split", self.split, "the column that says private, public or test")
        else:
            require(self.split is None, "data.split", self.split, "data.path= beside it, one file for all splits")
            for split in _SPLITS:
                rule = f"the file of the {split} records; or one file for all, data.path=FILE data.split=COLUMN"
                require(split in given, f"data.{split}", getattr(self, split), rule)
            for split, other in combinations(_SPLITS, 2):
                same = Path(getattr(self, split)).resolve() == Path(getattr(self, other)).resolve()
                rule = f"another file than data.{split}: no record may be in two splits"
                require(not same, f"data.{other}", getattr(self, other), rule)
        rule = "the columns that are labels: data.labels=[NAME,NAME]"
        require(len(self.labels) > 0, "data.labels", list(self.labels), rule)

    def _require_named(self, wanted: tuple[str, ...], role: str, names: list[str], where: str) -> None:
        """Raises unless the columns that a setting names are there."""
        for column in wanted:
            if column not in names:
                said = nearest(column, tuple(names))
                raise InvalidValue(f"data.{role}={column}: expected a column of {where}{said}")

    def _require_dropped(self) -> None:
        """Raises if a column that is dropped is in no file: another one would be a feature unnoticed."""
        there = tuple(dict.fromkeys(name for names in self._names.values() for name in names))
        for column in self.drop:
            if column not in there:
                raise InvalidValue(f"data.drop={column}: expected a column of a file{nearest(column, there)}")

    def _require_columns(self, split: str) -> None:
        """Raises unless a file has the columns that settings name, and those of the public file."""
        names = self._names[split]
        where = self._files[split].name
        for role in _ROLES[:-1]:
            self._require_named(self._wanted(role, split, names), role, names, where)
        everywhere = set.intersection(*(set(each) for each in self._names.values()))
        lost = [name for name in names if name not in everywhere and name not in self._roles.no_features]
        if lost:
            lacking = next(each for each in _SPLITS if lost[0] not in self._names[each])
            rule = f"it in every file, data.{lacking} lacks it; data.drop=[{lost[0]}]"
            raise InvalidValue(f"{where}.{lost[0]}: expected {rule}")

    def _rows(self, split: str, schema: TableSchema) -> Rows:
        file = self._files[split]
        roles = [column for role in _ROLES[:-1] for column in self._wanted(role, split, self._names[split])]
        columns = list(dict.fromkeys((*schema.names, *roles)))
        require_columns(file.name, self._names[split], columns)
        name = file.name if self.path is None else f"data.path, {split}"
        return Rows.read(file.batches(columns), schema, self._roles, name=name, split=split)

    def _public_features(self) -> Any:
        """The public rows and the columns that are features."""
        file, left = self._public_file, set(self._roles.no_features)
        features = [name for name in file.names if name not in left]
        require(len(features) > 0, file.name, file.path, "a column that is no label, group or id")
        splits = () if self._roles.split is None else (self._roles.split,)
        table = file.read([*features, *splits])
        if self._roles.split is not None:
            said = as_texts(table.column(self._roles.split)).array
            table = table.filter(arrow().compute.equal(said, "public").fill_null(False)).select(features)
            self._require_splits(said)
        rule = "at least one row" if self.split is None else f"rows with {self.split}=public"
        require(table.num_rows > 0, file.name, file.path, rule)
        return table

    def _require_splits(self, said: Any) -> None:
        pa = arrow()
        strange = int(pa.compute.sum(pa.compute.invert(pa.compute.is_in(said, pa.array(_SPLITS)))).as_py() or 0)
        if strange:
            rule = f"private, public or test, {strange} of {len(said)} rows have something else"
            raise InvalidValue(f"data.split={self.split}: expected {rule}")

    def _ids(self, rows: dict[str, Rows]) -> dict[str, NDArray[np.int64]]:
        """A number for each record: of its row, or of its name where records have names."""
        if self.id is None:
            return {split: rows[split].numbers | (place << 48) for place, split in enumerate(_SPLITS)}
        ids = numbered([rows[split].ids for split in _SPLITS])
        for split, numbers in zip(_SPLITS, ids, strict=True):
            repeated = len(numbers) - len(np.unique(numbers))
            found = f"{repeated} of {len(numbers)} rows of {split} have that of another row"
            if repeated:
                raise InvalidValue(f"data.id={self.id}: expected another id in each row, {found}")
        require_apart("id", self.id, ids)
        return dict(zip(_SPLITS, ids, strict=True))

    def _groups(self, rows: dict[str, Rows]) -> dict[str, NDArray[np.int64]]:
        groups = numbered([rows[split].groups for split in _SPLITS])
        require_apart("group", self.group, groups)
        return dict(zip(_SPLITS, groups, strict=True))


def _has_codes(column: Any) -> bool:
    words = as_texts(column).array
    return as_numbers(column).fits and bool(
        arrow().compute.any(arrow().compute.match_substring_regex(words, r"^0\d")).as_py()
    )


def _numbers_rows(column: Any) -> bool:
    cells = as_numbers(column)
    whole = cells.fits and not cells.missing.any() and not np.any(cells.values % 1)
    return bool(whole) and len(np.unique(cells.values)) == len(column) >= _FEWEST_NUMBERED
