"""A reader of tables in files: its settings, and how they become a data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import TRAIN_ONLY_RULE, Dataset
from pate.data.private_records import PrivateRecords
from pate.data.split import SPLITS, Split
from pate.data.split_files import require_files_apart
from pate.data.table.column_names import (
    as_column_names,
    as_name,
    column_name,
    require_column,
    require_columns,
)
from pate.data.table.column_remarks import remarks_on_columns
from pate.data.table.encoding import UTF_8, require_encoding
from pate.data.table.fingerprints import CellDigest, row_numbers
from pate.data.table.label_form import labels_in_one_column, labels_with_columns
from pate.data.table.labels import Labels
from pate.data.table.number_column import NumberColumn
from pate.data.table.people import People
from pate.data.table.remedies import rewriting, ways_out
from pate.data.table.rows import MEGABYTE, Roles, Rows, gather_batches, watched_batches
from pate.data.table.schema import TableSchema, load_settings
from pate.data.table.table_dataset import (
    UNGROUPED,
    make_dataset,
    remarks_on_gaps,
    remarks_on_lost_columns,
)
from pate.data.table.table_file import NumberedBatch, TableFile
from pate.data.table.table_settings import TableSettings
from pate.data.table.uncertain import UncertainLabels, as_words
from pate.data.texts.tfidf import TfidfVectors
from pate.data.texts.vectors import TextReader
from pate.files.paths import at_home, files_named
from pate.progress import StageOpener, unwatched
from pate.validation import (
    InvalidValue,
    as_setting,
    normalize_field,
    require,
    require_count,
    require_text,
)

_ROLES = ("labels", "group", "id", "budget", "split", "drop")
_LISTS = ("labels", "drop", "category", "text")  # settings that are lists of columns
_PATHS = (*SPLITS, "path", "schema")
_FILES_RULE = (
    "data.private=, data.public= and data.test=, three files; or one for all, data.path=FILE "
    "data.split=COLUMN; pate-schema split=.1,.1 deals one file to three"
)
_LABELS_RULE = "the columns that are labels: 'data.labels=[NAME,NAME]'"
_COLUMNS_LISTED = 5
_LARGE_MB = 256  # of files whose reading shows progress


class _PublicReading(NamedTuple):
    """The schema that is learned from the public records, and pairs of a column's name and a remark."""

    schema: TableSchema
    remarks: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Table(TextReader):
    """A reader of CSV, JSON, Parquet, Feather or Arrow files: those of each split, or a table with a column of splits.

    A folder or a pattern such as `data/part-*.parquet` may be named in place of a file. Its files are read in the order
    of their names, as if they were one file. They must be of one kind and have the same columns.

    Every column becomes features, except labels, group, id, split and dropped columns. A schema determines the
    features. The schema is learned from the public file alone and depends on no private cell. Numbers and dates are
    clipped to the public range and standardized; numbers with a long tail are first transformed by a power. Words are
    one-hot encoded, with one more category for unknown words. Missing cells have a feature of their own if public cells
    are missing.

    Settings that exclude each other are an `InvalidValue`. An error of `load` names the column, the split and the
    number of wrong cells, but shows no cell.

    Attributes:
        private: the file of the private records.
        public: the file of the public records. Its rows are shuffled, and the first of them are the queries. Their
            labels are only used to measure: the file may lack all columns of labels, or all their cells.
        test: the file of the test set.
        path: one file for all three splits, in place of the three files.
        split: the column in `path` that holds private, public or test.
        labels: the columns that are labels. With a `label_separator`: the column that lists all labels of a record,
            followed by the names of the labels; or the names of the labels alone. If no names follow the column, the
            labels are those that occur in the public file, never those of private rows.
        group: the column that tells which rows belong together, such as a person: epsilon protects all of them at once.
            None for rows that have nothing to do with each other. A list where rows have several owners, such as a
            patient and a doctor: epsilon protects all rows of each owner, but not who belongs with whom.
        budget: the private column with the epsilon that a group agreed to, or a class of `budgets=`. The column counts
            as public, and nothing protects it.
        id: the column that names each record; None for the number of the row. Public ids are published.
        drop: columns that are not read.
        category: columns of codes, whose numbers or dates are treated as words, each a category.
        text: columns of free text, which become vectors by `features=text`, by default tf-idf of public texts.
        schema: the file that `pate-schema` wrote; None learns the schema anew from the public file. Labels, group, id,
            columns to drop, the separator of labels and the encoding are taken from the file unless they are set here.
        encoding: the encoding of files of text that are not UTF-8, for all files or by split. Text that is valid UTF-8
            is read as UTF-8 in any case, and a byte-order mark determines the encoding.
        decimal: `comma` for numbers such as 3,5 in CSV files; None takes the value in the schema's file, or else a
            point.
        thousands: the mark between thousands, one of . , ' _ or a blank; None as for `decimal`.
        missing: words that mean a missing cell, in addition to empty cells and NA; none as for `decimal`. A label
            whose cell is missing is unknown.
        date_order: `dmy`, `mdy` or `ymd`, the order of dates in numbers such as 04.03.2024 if the public file is
            ambiguous.
        first_year: the earliest year that two digits of dates can mean: with 1930, 45 is 1945 and 22 is 2022.
        true: the word for yes where labels are two other words than 0 and 1, such as ja.
        uncertain: what a cell of a label means that is -1, ? or uncertain: missing (the label is unknown), positive or
            negative; None makes such cells errors. A value also declares that labels may have gaps, which is public,
            whatever the rows hold. None finds out from the rows whether labels have gaps.
        uncertain_words: words that mean the same as -1, ? and uncertain, such as maybe.
        label_separator: the mark between labels where a column lists all labels of a record, such as flu;cough.
        name: the name of the data set, in the report and on the card.
        seed: the seed of the public rows' order; part of the data, not of the noise.
    """

    private: str | None = None
    public: str | None = None
    test: str | None = None
    path: str | None = None
    split: str | None = None
    labels: tuple[str, ...] = ()
    group: str | tuple[str, ...] | None = None
    budget: str | None = None
    id: str | None = None
    drop: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    schema: str | None = None
    encoding: str | Mapping[str, str] = UTF_8
    decimal: str | None = None
    thousands: str | None = None
    missing: tuple[str, ...] = ()
    date_order: str | None = None
    first_year: int | None = None
    true: str | None = None
    uncertain: str | None = None
    uncertain_words: tuple[str, ...] = ()
    label_separator: str | None = None
    name: str = field(default="table", metadata={"public": True})
    seed: int = 0

    def __post_init__(self) -> None:
        require_count("data.seed", self.seed, minimum=0)
        require_text("data.name", self.name)
        for name in _PATHS:
            normalize_field(self, name, at_home(getattr(self, name)))
        for name in _LISTS:
            normalize_field(self, name, as_column_names(f"data.{name}", values=getattr(self, name)))
        for name in ("missing", "uncertain_words"):
            normalize_field(self, name, as_words(getattr(self, name)))
        self._uncertain.require(self.label_separator)
        self._normalize_group()
        for name in ("split", "budget", "id", "true", "label_separator"):
            normalize_field(self, name, as_name(getattr(self, name)))
        for name in (*_PATHS, "split", "budget", "id", "true", "label_separator"):
            self._normalize_name(name)
        self._require_encodings()
        require(
            self.true is None or self.label_separator is None,
            "data.true",
            self.true,
            "nothing beside data.label_separator, whose cells name labels",
        )
        self._require_one_role_for_each_column()

    def _normalize_group(self) -> None:
        """Replaces a list of one column by the column.

        Raises:
            InvalidValue: the list is empty, or budgets are set although there are several columns.
        """
        group = as_name(self.group)
        if group is not None and not isinstance(group, str):
            owners = as_column_names(setting="data.group", values=group)
            rule = "null, or the columns that say whose a row is"
            require(len(owners) > 0, "data.group", "[]", rule)
            group = owners if len(owners) > 1 else owners[0]
        normalize_field(self, "group", group)
        if isinstance(group, tuple):
            rule = "one column in data.group beside it"
            require(self.budget is None, "data.budget", self.budget, rule)
        else:
            self._normalize_name("group")

    def _normalize_name(self, name: str) -> None:
        """Normalizes the value of the setting `name`, if it is the name of a column.

        Raises:
            InvalidValue: the value is neither None nor a text.
        """
        value = getattr(self, name)
        is_name = isinstance(value, str) and value != ""
        require(value is None or is_name, f"data.{name}", value, "a name")
        if name in _ROLES and is_name:
            normalize_field(self, name, column_name(value))

    def _require_encodings(self) -> None:
        """Raises `InvalidValue` unless `encoding` is the name of an encoding, or a mapping from splits to names.

        The mapping is only allowed if each split has a file.
        """
        if not isinstance(self.encoding, Mapping):
            require_encoding("data.encoding", self.encoding)
            return
        rule = "an encoding, or one for each split: 'data.encoding={private: cp1252, test: utf-16}'"
        are_splits = self.encoding.keys() <= set(SPLITS)
        require(are_splits and self.path is None, "data.encoding", dict(self.encoding), rule)
        for split, encoding in self.encoding.items():
            require_encoding(f"data.encoding.{split}", encoding)

    def _require_one_role_for_each_column(self) -> None:
        """Raises `InvalidValue` if two settings name the same column. Only `group` and `id` may do so."""
        role_of: dict[str, str] = {}
        for role in (*_ROLES, "text"):
            for column in self._columns_of(role):
                first_role = role_of.setdefault(column, role)
                may_share = first_role == role or {first_role, role} == {"group", "id"}
                rule = f"another column than data.{first_role}"
                require(may_share, f"data.{role}", column, rule)
        repeated = next((column for column in self.text if column in self.category), None)
        require(repeated is None, "data.text", repeated, "another column than data.category")

    def require_settings(self) -> None:
        """Raises `InvalidValue` unless settings name labels, and three files or one file with a column of splits.

        No file is opened.
        """
        paths = {split: getattr(self, split) for split in SPLITS}
        if self.path is not None:
            is_alone = not any(paths.values()) and self.split is not None
            rule = f"data.split=COLUMN and no other file beside it: {_FILES_RULE}"
            require(is_alone, "data.path", self.path, rule)
        else:
            for split, path in paths.items():
                is_alone = path is not None and self.split is None
                require(is_alone, f"data.{split}", path, _FILES_RULE)
            require_files_apart({split: files_named(str(path)) for split, path in paths.items()})
        labels = self.labels or self._schema_settings.labels
        require(len(labels) > 0, "data.labels", list(labels), _LABELS_RULE)

    def completed(self) -> Self:
        """Returns the reader with settings from the schema's file in place of settings that are not set.

        Only the schema's file is opened. If the file names a group, the group is adopted; set `group` to protect
        another unit.
        """
        settings = self._schema_settings
        separator = self.label_separator
        if not self.labels and settings.labels:
            separator = separator or settings.label_separator
        completed = replace(
            self,
            labels=self.labels or settings.labels,
            label_separator=separator,
            group=settings.group if self.group is None else self.group,
            id=settings.id if self.id is None else self.id,
            uncertain=settings.uncertain if self.uncertain is None else self.uncertain,
            uncertain_words=self.uncertain_words or settings.uncertain_words,
            encoding=settings.encoding if self.encoding == UTF_8 else self.encoding,
        )
        if completed == self:
            return self
        return completed if self.text_fit is None else completed.with_text(self.text_fit)

    @cached_property
    def _schema_settings(self) -> TableSettings:
        """The settings in the schema's file; the defaults if there is no such file."""
        return TableSettings() if self.schema is None else load_settings(self.schema)

    def load(self, stage: StageOpener = unwatched) -> Dataset:
        """Reads the files and returns the data set.

        A record id is the number of the row in its file, with the number of the split in the upper bits.
        """
        return self.completed()._load(stage)

    def _load(self, stage: StageOpener) -> Dataset:
        self.require_settings()
        self._require_columns()
        schema = self._with_text_vectors(self._usable_schema(), stage)
        spelled = replace(schema, spelling=self._public_file.spelling(schema.spelling))
        digest = CellDigest(cells_are_text=self._files["private"].is_text)
        rows = {
            split: self._rows(
                split, spelled, stage=stage, cell_digest=digest if split == "private" else None
            )
            for split in SPLITS
        }

        def fingerprints_of_split(split: str) -> NDArray[np.uint64]:
            return row_numbers(batches=self._files[split].rows(list(schema.names)), schema=spelled)

        return make_dataset(
            rows_of_splits=rows,
            schema=spelled,
            roles=Roles(group=self._columns_of("group"), id=self.id),
            name=self.name,
            input_kind="features",
            label_names=self._label_form.names,
            seed=self.seed,
            notes=self._notes(),
            preprocessing=schema,
            private_cell_digest=digest.hexdigest(),
            fingerprints_of_split=fingerprints_of_split,
        )

    def private_records(self) -> PrivateRecords:
        """Reads only the private file, for a holder who receives the queries from somebody else.

        All holders need the same schema.
        """
        rule = "the file that pate-schema wrote of the public samples, the same at every place"
        require(self.schema is not None, "data.schema", self.schema, rule)
        rule = "the file of the private records"
        require(self.private is not None, "data.private", self.private, rule)
        return self.completed()._private_records()

    def _private_records(self) -> PrivateRecords:
        require(len(self.labels) > 0, "data.labels", list(self.labels), _LABELS_RULE)
        require(self.budget is None, "data.budget", self.budget, TRAIN_ONLY_RULE)
        owners = self._columns_of("group")
        require(len(owners) < 2, "data.group", list(owners), TRAIN_ONLY_RULE)
        schema = TableSchema.load(Path(self.schema or "")).without(self._no_features)
        file = self._files["private"]
        spelling = file.spelling(schema.spelling)
        digest = CellDigest(cells_are_text=file.is_text)
        rows = self._rows("private", replace(schema, spelling=spelling), cell_digest=digest)
        ids = rows.numbers
        if self.id is not None:
            ids = People.from_names(columns=[rows.ids], spelling=spelling).person_of_row[0]
        groups = ids
        remarks: list[str] = []
        if owners:
            people = People.from_names(columns=rows.groups, spelling=spelling)
            groups = people.groups()[0]
            remarks += people.remarks(f"data.group={owners[0]}")
        records = Split(
            inputs=rows.inputs,
            labels=rows.labels,
            record_ids=ids,
            group_ids=groups,
            known=rows.known,
        )
        remarks += remarks_on_gaps({"private": records}, self._label_form.names)
        remarks += remarks_on_lost_columns(
            "data.private", schema.columns, rows.unknown_and_missing, num_records=len(rows.numbers)
        )
        return PrivateRecords(
            name=self.name,
            label_names=self._label_form.names,
            records=records,
            preprocessing=schema,
            private_cells=digest.hexdigest(),
            notes=(*self._notes(), *remarks),
            group_unit=Roles(group=owners, id=self.id).group_unit,
        )

    def public_schema(self) -> TableSchema:
        """Returns the schema of all public columns to which settings assign no other role."""
        return self._with_text_vectors(self._public_reading.schema)

    def _with_text_vectors(
        self, schema: TableSchema, stage: StageOpener = unwatched
    ) -> TableSchema:
        if not self.text:
            return schema
        public = self._public_file.read(list(schema.names))
        fit = self.text_fit or TfidfVectors.fit
        return schema.with_text_vectors(
            table=public, text_columns=self.text, fit_vectors=fit, stage=stage
        )

    def public_remarks(self) -> tuple[str, ...]:
        """Returns remarks for the owner on the public columns: likely misinterpretations, units, and the group."""
        columns = self._public_reading.schema.columns
        numbers = [column for column in columns if isinstance(column, NumberColumn)]
        flags = [column.name for column in numbers if column.power == 1 and column.unit != 1]
        bent = [column.name for column in numbers if column.power != 1]
        remarks = [line for _, line in self._public_reading.remarks]
        if flags:
            remarks.append(
                f"data: {_listed(flags)}: two numbers alone, such as 0 and 1, which are taken as they are"
            )
        if bent:
            remarks.append(
                f"data: {_listed(bent)}: a few numbers far larger than all others, which a power brings "
                "closer to them; the schema has it as power"
            )
        if self.group is None:
            remarks.append(UNGROUPED)
        return tuple(remarks)

    @cached_property
    def _public_reading(self) -> _PublicReading:
        file = self._public_file
        self._role_columns("public")  # raises where the file lacks one
        features = [name for name in file.names if name not in self._no_features]
        require(
            len(features) > 0, file.setting, file.path, "a column that is no label, group or id"
        )
        for role in ("category", "text"):
            for column in self._columns_of(role):
                where = f"{file.setting} that is a feature"
                require_column(f"data.{role}", column, features, where)
        table = file.read(features)
        schema = TableSchema.fit(
            table, code_columns=self.category, text_columns=self.text, spelling=file.spelling()
        )
        without_texts = table.select([name for name in features if name not in self.text])
        remarks = remarks_on_columns(
            table=without_texts,
            schema=schema,
            code_columns=self.category,
            group=self._owner_columns,
        )
        return _PublicReading(schema, tuple(remarks))

    def _usable_schema(self) -> TableSchema:
        """Returns the schema from the schema's file, or else the one learned from the public records.

        Raises:
            InvalidValue: a column cannot become a feature; or beside a schema's file, `category` or `text` is set, or
                the public file has a column that the schema lacks.
        """
        public = self._public_file
        if self.schema is None:
            schema, remarks = self._public_reading
            first_remarks = dict(reversed(remarks))  # on each column
            schema.require_usable(
                setting_name=public.setting,
                remarks=first_remarks,
                text_columns=self.text,
                owner_columns=self._owner_columns,
            )
            return schema
        for role in ("category", "text"):
            columns = list(self._columns_of(role))
            command = f"{rewriting(public.path)} {as_setting(name=role, value=columns)}"
            rule = f"none beside data.schema, whose kinds hold; {command} writes them into a new schema"
            require(not columns, f"data.{role}", f"[{','.join(columns)}]", rule)
        schema = TableSchema.load(Path(self.schema)).without(self._no_features)
        for name in public.names:
            if name not in schema.names and name not in self._no_features:
                rule = f"no other column in {public.setting} than it lists, and there is {name}"
                remedy = ways_out(columns=[name], owner_columns=self._owner_columns)
                raise InvalidValue("data.schema", self.schema, rule=f"{rule}; {remedy}")
        schema.require_usable(
            setting_name=public.setting,
            owner_columns=self._owner_columns,
            source_of_new_schema=public.path,
        )
        return schema

    @cached_property
    def _no_features(self) -> set[str]:
        """The names of the columns that do not become features."""
        columns = {*self._label_form.names, *self._label_form.columns}
        for role in ("drop", "group", "budget", "id"):
            columns |= {*self._columns_of(role)}
        # Columns that the schema's file leaves out stay so, also where settings name other labels or another id.
        settings = self._schema_settings
        columns |= {*settings.drop, *settings.labels}
        if settings.id is not None:
            columns.add(settings.id)
        return columns

    @cached_property
    def _files(self) -> dict[str, TableFile]:
        """The file of each split that settings name: a separate file, or the rows of the split in the common file."""
        if self.path is not None:
            return {
                split: self._file(
                    Path(self.path),
                    name="data.path",
                    encoding=str(self.encoding),
                    column=self.split,
                    part=split,
                )
                for split in SPLITS
            }
        files = {}
        for split in SPLITS:
            path = getattr(self, split)
            if path:
                encoding = self.encoding
                if isinstance(encoding, Mapping):
                    encoding = encoding.get(split, UTF_8)
                files[split] = self._file(Path(path), name=f"data.{split}", encoding=encoding)
        return files

    def _file(
        self,
        path: Path,
        name: str,
        encoding: str,
        *,
        column: str | None = None,
        part: str | None = None,
    ) -> TableFile:
        return TableFile(
            path=path,
            setting=name,
            encoding=encoding,
            decimal=self.decimal,
            thousands=self.thousands,
            missing=self.missing,
            split=column,
            part=part,
            date_order=self.date_order,
            first_year=self.first_year,
        )

    @property
    def _public_file(self) -> TableFile:
        rule = "the file of the public records"
        require("public" in self._files, "data.public", None, rule)
        return self._files["public"]

    def _columns_of(self, role: str) -> tuple[str, ...]:
        """Returns the columns that the setting `role` names."""
        columns = getattr(self, role) or ()
        return (columns,) if isinstance(columns, str) else columns

    @property
    def _owner_columns(self) -> str | None:
        """The columns that name the owner of a row, as text for messages; None if settings name none."""
        return ", ".join(self._columns_of("group")) or None

    def _role_columns(self, split: str) -> list[str]:
        """Returns the columns of labels, owners and ids that the file of a split must have.

        A public file may lack all columns of labels.

        Raises:
            InvalidValue: the file lacks such a column.
        """
        file = self._files[split]
        folded_names = {name.casefold() for name in file.names}
        labels = self._label_form.columns
        columns_of = {role: self._columns_of(role) for role in ("group", "id")}
        if split == "private":
            columns_of["budget"] = self._columns_of("budget")
        # a label in other letters is a mistake, not a file without labels
        if split != "public" or any(label.casefold() in folded_names for label in labels):
            columns_of = {"labels": labels, **columns_of}
        for role, columns in columns_of.items():
            remedy = ""
            if role == "group" and split != "private":
                remedy = "; each person there needs a number, too"
            for column in columns:
                require_column(f"data.{role}", column, file.names, file.setting, remedy=remedy)
        return [column for columns in columns_of.values() for column in columns]

    def _require_columns(self) -> None:
        """Raises `InvalidValue` if a file lacks a column that settings name, or a column that becomes a feature."""
        names_of = {split: file.names for split, file in self._files.items()}
        all_names = list(dict.fromkeys(name for names in names_of.values() for name in names))
        for column in self.drop:
            require_column("data.drop", column, all_names, "a file")
        for split, file in self._files.items():
            self._role_columns(split)
            for name in file.names:
                lacking = [other for other in SPLITS if name not in names_of[other]]
                if lacking and name not in self._no_features:
                    remedy = ways_out(columns=[name], owner_columns=self._owner_columns)
                    rule = f"it in every file, data.{lacking[0]} lacks it; {remedy}"
                    raise InvalidValue(f"{file.setting}.{name}", rule=rule)

    def _rows(
        self,
        split: str,
        schema: TableSchema,
        *,
        stage: StageOpener = unwatched,
        cell_digest: CellDigest | None = None,
    ) -> Rows:
        """Reads the rows of a split.

        Args:
            split: private, public or test.
            schema: encodes the features.
            stage: opens the stage that reports progress.
            cell_digest: receives all cells of the split, with columns that become no features; None if none is needed.
        """
        table = self._files[split]
        required_columns = list(dict.fromkeys((*schema.names, *self._role_columns(split))))
        require_columns(table.setting, table.names, required_columns)
        columns: list[str] | None = required_columns
        if cell_digest is not None:
            columns = None
        if self._label_form.column is not None and table.kind == "json":
            # A list of labels is read as it is, and the digest is that of its items as one word.
            if cell_digest is not None:
                cell_digest.add_all(table.rows())
                cell_digest = None
                columns = required_columns
            table = replace(table, whole_lists=(self._label_form.column,))
        budget = self.budget if split == "private" else None
        roles = Roles(group=self._columns_of("group"), id=self.id, budget=budget)
        batches = table.rows(columns)

        def read(batches: Iterable[NumberedBatch]) -> Rows:
            return Rows(
                batches,
                schema,
                labels=self._label_form,
                roles=roles,
                name=table.setting if self.path is None else f"data.path, {split}",
                split=split,
                cell_digest=cell_digest,
                in_threads=not schema.texts,  # vectors of texts take all threads for one batch
                place_of_row=table.row_in_words,
            )

        if not schema.texts:
            size_mb = table.num_bytes // MEGABYTE
            if size_mb < _LARGE_MB:
                return read(batches)
            with stage(f"reading {split} rows, MB", size_mb) as advance:
                return read(watched_batches(batches, file_size_mb=size_mb, report_progress=advance))
        if cell_digest is not None:  # which depends on the batches as they are in the file
            batches = cell_digest.watched(batches)
            cell_digest = None
        size_kb = table.num_bytes // 1000
        with stage(f"texts of {split} records, kB", size_kb) as advance:
            return read(gather_batches(batches, file_size_kb=size_kb, report_progress=advance))

    @property
    def _uncertain(self) -> UncertainLabels:
        return UncertainLabels(self.uncertain, self.uncertain_words)

    @cached_property
    def _label_form(self) -> Labels:
        files = self._files.values()
        if self.label_separator is None or not self.labels:
            return labels_with_columns(
                label_names=self.labels,
                files=files,
                word_for_yes=self.true,
                uncertain=self._uncertain,
            )
        return labels_in_one_column(
            self.labels,
            files,
            public_file=self._files.get("public"),
            separator=self.label_separator,
        )

    def _notes(self) -> tuple[str, ...]:
        """Returns remarks for the owner on how labels, files and public columns were read."""
        form = self._label_form
        notes = [
            f"data.labels={label}: {truths.yes} is 1, {truths.no} is 0"
            for label, truths in form.truths.items()
        ]
        setting = f"data.labels={form.column}"
        names = ", ".join(form.names)
        if self.labels == (form.column,):
            notes.append(f"{setting}: the labels that the public file names: {names}")
        if form.num_unknown:
            notes.append(
                f"{setting}: {form.num_unknown} rows name a label that is none of {names}: it is left out"
            )
        remarks = [line for table in self._files.values() for line in table.encoding_remarks()]
        notes += dict.fromkeys(remarks)
        if self.schema is None:
            notes += self.public_remarks()
        elif self.group is None:
            notes.append(UNGROUPED)
        return tuple(notes)


def _listed(names: Sequence[str]) -> str:
    """Returns the names of at most five columns as text for a remark."""
    columns = "column" if len(names) == 1 else "columns"
    listed = ", ".join(names[:_COLUMNS_LISTED])
    num_others = len(names) - _COLUMNS_LISTED
    return f"{columns} {listed}" + (f" and {num_others} more" if num_others > 0 else "")
