"""A reader of tables in files: its settings, and how they become a data set.

`Table` holds the settings. `pate/data/table/table_source.py` reads the files that they name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pate.data.dataset import TRAIN_ONLY_RULE, Dataset
from pate.data.private_records import PrivateRecords
from pate.data.split import SPLITS, Split
from pate.data.split_files import require_files_apart
from pate.data.table.column_names import as_column_names, as_name, column_name
from pate.data.table.encoding import UTF_8, require_encoding
from pate.data.table.fingerprints import CellDigest, row_fingerprints
from pate.data.table.number_column import NumberColumn
from pate.data.table.people import People
from pate.data.table.rows import Roles
from pate.data.table.schema import TableSchema, load_settings
from pate.data.table.table_dataset import (
    UNGROUPED,
    make_dataset,
    remarks_on_gaps,
    remarks_on_lost_columns,
)
from pate.data.table.table_settings import TableSettings
from pate.data.table.table_source import TableSource
from pate.data.table.uncertain import UncertainLabels, as_words
from pate.data.texts.tfidf import TfidfVectors
from pate.data.texts.vectors import TextReader
from pate.files.paths import at_home, files_named
from pate.progress import StageOpener, unwatched
from pate.validation import InvalidValue, normalize_field, require, require_count, require_text

# The settings that assign a role other than a feature to columns.
_ROLES = ("labels", "group", "id", "budget", "split", "drop")
# The settings that are lists of columns, those that are paths, and those that are one name or word.
_LISTS = ("labels", "drop", "category", "text")
_PATHS = (*SPLITS, "path", "schema")
_SINGLE_NAMES = ("split", "budget", "id", "true", "label_separator")
_FILES_RULE = (
    "data.private=, data.public= and data.test=, three files; or one for all, data.path=FILE "
    "data.split=COLUMN; pate-schema split=.1,.1 deals one file to three"
)
_LABELS_RULE = "the columns that are labels: 'data.labels=[NAME,NAME]'"
# The largest number of columns that a remark lists.
_MAX_LISTED_COLUMNS = 5


@dataclass(frozen=True)
class Table(TextReader):
    """A reader of CSV, JSON, Parquet, Feather or Arrow files: those of each split, or a table with a column of splits.

    A folder or a pattern such as `data/part-*.parquet` may be named in place of a file. The files in question are read
    in the order of their names, as if they were one file; all must be of one kind and have the same columns.

    Every column becomes features, except labels, group, budget, id, split and dropped columns. A schema determines the
    features. The schema is learned from the public file alone and depends on no private cell. Numbers and dates are
    clipped to the public range and standardized; those with a long tail are then transformed by a power, and
    standardized again. Words are one-hot encoded, with one more category for unknown words. Missing cells have a
    feature of their own if public cells are missing.

    Settings that exclude each other are an `InvalidValue`. An error of `load` names the column, the split and the
    number of wrong cells, but shows no cell.

    Attributes:
        private: the file of the private records.
        public: the file of the public records. The rows are shuffled, and the first of them are the queries. Labels of
            public records only measure, unless `data.public_labels` is set; the file may lack all columns of labels,
            or all their cells.
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
        drop: columns that become no features; only the digest by which a ledger recognizes the records covers them.
        category: columns of codes, whose numbers or dates are treated as words, each a category.
        text: columns of free text, which become vectors by `features=text`, by default tf-idf of public texts.
        schema: the file that `pate-schema` wrote; None learns the schema anew from the public file. Labels and their
            separator, group, id, uncertain labels and the encoding are taken from the file unless they are set here.
            Labels, the id and the dropped columns of the file become no features in any case.
        encoding: the encoding of files of text that are not UTF-8, for all files or by split. Text that is valid UTF-8
            is read as UTF-8 in any case, and a byte-order mark determines the encoding.
        decimal: `comma` for numbers such as 3,5 in files of text; None takes the value in the schema's file, or else a
            point.
        thousands: the mark between thousands, one of . , ' _ or a blank; None as for `decimal`.
        missing: words that mean a missing cell, in addition to null and, in files of text, to empty cells and NA; none
            as for `decimal`. A label whose cell is missing is unknown.
        date_order: `dmy`, `mdy` or `ymd`, the order of dates in numbers such as 04.03.2024 if the public file is
            ambiguous.
        first_year: the earliest year that two digits of dates can mean: with 1930, 45 is 1945 and 22 is 2022.
        true: the word for yes where labels are two other words than 0 and 1, such as ja.
        uncertain: what a cell of a label means that is -1, ? or uncertain: missing (the label is unknown), positive or
            negative; None makes such cells errors. A value also declares that labels may have gaps, which is public,
            whatever the rows hold. None finds out from the rows whether labels have gaps.
        uncertain_words: words that mean the same as -1, ? and uncertain, such as maybe.
        label_separator: the mark between labels where a column lists all labels of a record, such as flu;cough. An
            empty cell or NA lists none there, even if `missing` has NA. For another word in `missing`, all labels of
            the record are unknown.
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
        for setting_name in _PATHS:
            normalize_field(self, setting_name, at_home(getattr(self, setting_name)))
        for setting_name in _LISTS:
            column_names = as_column_names(
                f"data.{setting_name}", values=getattr(self, setting_name)
            )
            normalize_field(self, setting_name, column_names)
        for setting_name in ("missing", "uncertain_words"):
            normalize_field(self, setting_name, as_words(getattr(self, setting_name)))
        self.reading_of_uncertain_cells.require(self.label_separator)
        self._normalize_group()
        for setting_name in _SINGLE_NAMES:
            normalize_field(self, setting_name, as_name(getattr(self, setting_name)))
        for setting_name in (*_PATHS, *_SINGLE_NAMES):
            self._normalize_text(setting_name)
        self._require_encodings()
        if self.true is not None and self.label_separator is not None:
            rule = "nothing beside data.label_separator, whose cells name labels"
            raise InvalidValue("data.true", self.true, rule=rule)
        self._require_one_role_for_each_column()

    def require_settings(self) -> None:
        """Raises `InvalidValue` unless settings name labels, and three files or one file with a column of splits.

        A file that is named twice is refused, too. No table is opened. The schema's file is read if only that may name
        labels.
        """
        paths = {split_name: getattr(self, split_name) for split_name in SPLITS}
        if self.path is not None:
            if any(paths.values()) or self.split is None:
                rule = f"data.split=COLUMN and no other file beside it: {_FILES_RULE}"
                raise InvalidValue("data.path", self.path, rule=rule)
        else:
            for split_name, path in paths.items():
                if path is None or self.split is not None:
                    raise InvalidValue(f"data.{split_name}", path, rule=_FILES_RULE)
            require_files_apart(
                {split_name: files_named(str(path)) for split_name, path in paths.items()}
            )
        labels = self.labels or self.schema_settings.labels
        require(len(labels) > 0, "data.labels", list(labels), _LABELS_RULE)

    def completed(self) -> Self:
        """Returns the reader with settings from the schema's file in place of settings that are not set.

        `load` and `private_records` read the data by the reader that this method returns. Only the schema's file is
        opened here. If the file names a group, the group is adopted; set `group` to protect another unit.
        """
        schema_settings = self.schema_settings
        separator = self.label_separator
        if not self.labels and schema_settings.labels:
            separator = separator or schema_settings.label_separator
        completed = replace(
            self,
            labels=self.labels or schema_settings.labels,
            label_separator=separator,
            group=schema_settings.group if self.group is None else self.group,
            id=schema_settings.id if self.id is None else self.id,
            uncertain=schema_settings.uncertain if self.uncertain is None else self.uncertain,
            uncertain_words=self.uncertain_words or schema_settings.uncertain_words,
            encoding=schema_settings.encoding if self.encoding == UTF_8 else self.encoding,
        )
        if completed == self:
            return self
        return (
            completed if self.text_fit is None else completed.with_text(fit_vectors=self.text_fit)
        )

    def columns_of(self, role: str) -> tuple[str, ...]:
        """Returns the columns that the setting `role`, such as group, names; an empty tuple if it is not set."""
        columns = getattr(self, role) or ()
        return (columns,) if isinstance(columns, str) else columns

    @property
    def reading_of_uncertain_cells(self) -> UncertainLabels:
        """The words in columns of labels that mean uncertain, and how the settings read them."""
        return UncertainLabels(reading=self.uncertain, words=self.uncertain_words)

    @cached_property
    def schema_settings(self) -> TableSettings:
        """The settings of a table that the schema's file stores; the defaults if no setting names such a file."""
        return TableSettings() if self.schema is None else load_settings(path=self.schema)

    def load(self, stage: StageOpener = unwatched) -> Dataset:
        """Reads the files and returns the data set.

        Without `id`, a record id is the number of the row in its file, plus 2**48 times the number of the split.

        Raises:
            InvalidValue: a setting, a column or a cell is wrong.
        """
        return self.completed()._load(open_stage=stage)

    def private_records(self) -> PrivateRecords:
        """Reads only the private file, for a holder who receives the queries from somebody else.

        All holders need the same schema.

        Raises:
            InvalidValue: no setting names a schema, the private file or labels; `budget` or several columns in `group`
                are set; or a cell of the file is wrong.
        """
        if self.schema is None:
            rule = "the file that pate-schema wrote of the public samples, the same at every place"
            raise InvalidValue("data.schema", self.schema, rule=rule)
        if self.private is None:
            raise InvalidValue("data.private", self.private, rule="the file of the private records")
        return self.completed()._private_records()

    def public_schema(self) -> TableSchema:
        """Returns the schema that is learned from the public file.

        The schema has all columns except labels, group, id, budget and dropped ones. Columns of text become vectors.
        """
        return self._with_text_vectors(self._source.public_reading.schema)

    def public_remarks(self) -> tuple[str, ...]:
        """Returns remarks for the owner on how the public columns are read.

        The remarks are on cells that may mean something else, on columns of two numbers alone, on numbers with a long
        tail, and on rows whose owner no setting `group` names.
        """
        reading = self._source.public_reading
        numbers = [column for column in reading.schema.columns if isinstance(column, NumberColumn)]
        # `NumberColumn.fit` takes the distance of two numbers as the unit, without a power. Otherwise the unit is 1, or
        # there is a power.
        names_of_two_valued = [
            column.name for column in numbers if column.power == 1 and column.unit != 1
        ]
        names_of_long_tailed = [column.name for column in numbers if column.power != 1]
        remarks = [line for _, line in reading.column_remarks]
        if names_of_two_valued:
            remarks.append(
                f"data: {_columns_in_words(names_of_two_valued)}: two numbers alone, such as 0 and 1, which are "
                "taken as they are"
            )
        if names_of_long_tailed:
            remarks.append(
                f"data: {_columns_in_words(names_of_long_tailed)}: a few numbers far larger than all others, "
                "which a power brings closer to them; the schema has it as power"
            )
        if self.group is None:
            remarks.append(UNGROUPED)
        return tuple(remarks)

    @cached_property
    def _source(self) -> TableSource:
        """The files that the settings name, as an object that opens each file when it is needed."""
        return TableSource(self)

    def _with_text_vectors(
        self, schema: TableSchema, open_stage: StageOpener = unwatched
    ) -> TableSchema:
        """Returns the schema in which columns of text have vectors, fitted by `text_fit`, or else tf-idf.

        `open_stage` opens the stages that report progress.
        """
        fit_vectors = self.text_fit or TfidfVectors.fit
        return self._source.with_text_vectors(
            schema, fit_vectors=fit_vectors, open_stage=open_stage
        )

    def _load(self, open_stage: StageOpener) -> Dataset:
        """Reads all files and returns the data set, for a reader that `completed` returned."""
        self.require_settings()
        source = self._source
        source.require_columns()
        schema = self._with_text_vectors(source.usable_schema(), open_stage=open_stage)
        cell_notation = source.public_file.spelling(default_spelling=schema.spelling)
        # The cells are read in the notation of these files; the published preprocessing keeps that of the schema.
        spelled_schema = replace(schema, spelling=cell_notation)
        cell_hashers = {
            split_name: CellDigest(cells_are_text=source.table_of_split[split_name].is_text)
            for split_name in ("private", "test")
        }
        encoded_rows_of_splits = {
            split_name: source.read_rows(
                split_name,
                spelled_schema,
                open_stage=open_stage,
                cell_hasher=cell_hashers.get(split_name),
            )
            for split_name in SPLITS
        }

        def compute_fingerprints(split_name: str) -> NDArray[np.uint64]:
            numbered_batches = source.table_of_split[split_name].rows(list(schema.names))
            return row_fingerprints(numbered_batches, schema=spelled_schema)

        return make_dataset(
            encoded_rows_of_splits=encoded_rows_of_splits,
            schema=spelled_schema,
            roles=Roles(group=self.columns_of("group"), id=self.id),
            name=self.name,
            input_kind="features",
            label_names=source.label_form.names,
            seed=self.seed,
            notes=self._notes(),
            preprocessing=schema,
            cell_digests={
                split_name: cell_hasher.hexdigest()
                for split_name, cell_hasher in cell_hashers.items()
            },
            compute_fingerprints=compute_fingerprints,
        )

    def _private_records(self) -> PrivateRecords:
        """Reads the private file and returns its records, for a reader that `completed` returned."""
        require(len(self.labels) > 0, "data.labels", list(self.labels), _LABELS_RULE)
        require(self.budget is None, "data.budget", self.budget, TRAIN_ONLY_RULE)
        owner_columns = self.columns_of("group")
        require(len(owner_columns) < 2, "data.group", list(owner_columns), TRAIN_ONLY_RULE)
        source = self._source
        schema = TableSchema.load(str(self.schema)).without(source.columns_without_features)
        file = source.table_of_split["private"]
        cell_notation = file.spelling(default_spelling=schema.spelling)
        private_cell_hasher = CellDigest(cells_are_text=file.is_text)
        rows = source.read_rows(
            "private",
            schema=replace(schema, spelling=cell_notation),
            cell_hasher=private_cell_hasher,
        )
        record_ids = rows.row_numbers
        if self.id is not None:
            # Records are numbered by their names as people are.
            records = People.from_names(cells_of_splits=[rows.ids], cell_notation=cell_notation)
            record_ids = records.person_arrays_of_splits[0]
        group_ids = record_ids
        remarks: list[str] = []
        if owner_columns:
            [owner_cells] = rows.owner_cells_of_kinds
            people = People.from_names(cells_of_splits=[owner_cells], cell_notation=cell_notation)
            group_ids = people.groups()[0]
            remarks += people.remarks(setting=f"data.group={owner_columns[0]}")
        private = Split(
            inputs=rows.inputs,
            labels=rows.labels,
            record_ids=record_ids,
            group_ids=group_ids,
            known=rows.known,
        )
        label_names = source.label_form.names
        remarks += remarks_on_gaps({"private": private}, label_names=label_names)
        remarks += remarks_on_lost_columns(
            name="data.private",
            columns=schema.columns,
            num_unknown_and_missing=rows.num_unknown_and_missing,
            num_records=len(rows.row_numbers),
        )
        return PrivateRecords(
            name=self.name,
            label_names=label_names,
            records=private,
            preprocessing=schema,
            private_cells=private_cell_hasher.hexdigest(),
            notes=(*self._notes(), *remarks),
            group_unit=Roles(group=owner_columns, id=self.id).group_unit,
        )

    def _normalize_group(self) -> None:
        """Checks the setting `group`, and replaces a list of one column by the column.

        Raises:
            InvalidValue: `group` is an empty list or no name, or `budget` is set although there are several columns.
        """
        group = as_name(self.group)
        budget_column = self.budget
        if group is not None and not isinstance(group, str):
            owner_columns = as_column_names(setting="data.group", values=group)
            if not owner_columns:
                rule = "null, or the columns that say whose a row is"
                raise InvalidValue("data.group", "[]", rule=rule)
            group = owner_columns if len(owner_columns) > 1 else owner_columns[0]
        normalize_field(self, "group", group)
        if not isinstance(group, tuple):
            self._normalize_text("group")
        elif budget_column is not None:
            rule = "one column in data.group beside it"
            raise InvalidValue("data.budget", budget_column, rule=rule)

    def _normalize_text(self, setting_name: str) -> None:
        """Checks the setting called `setting_name`, and replaces the name of a column by the normalized name.

        Raises `InvalidValue` unless the setting is None or a text that is not empty.
        """
        value = getattr(self, setting_name)
        if value is None:
            return
        if not isinstance(value, str) or value == "":
            raise InvalidValue(f"data.{setting_name}", value, rule="a name")
        if setting_name in _ROLES:
            normalize_field(self, setting_name, column_name(value))

    def _require_encodings(self) -> None:
        """Raises `InvalidValue` unless `encoding` is the name of an encoding, or a mapping from splits to names.

        A mapping is refused if `path` names one file for all splits.
        """
        if not isinstance(self.encoding, Mapping):
            require_encoding("data.encoding", self.encoding)
            return
        are_splits = self.encoding.keys() <= set(SPLITS)
        if not are_splits or self.path is not None:
            rule = "an encoding, or one for each split: 'data.encoding={private: cp1252, test: utf-16}'"
            raise InvalidValue("data.encoding", dict(self.encoding), rule=rule)
        for split_name, encoding in self.encoding.items():
            require_encoding(f"data.encoding.{split_name}", encoding)

    def _require_one_role_for_each_column(self) -> None:
        """Raises `InvalidValue` if two settings give roles to the same column; `group` and `id` may share one.

        The roles are label, group, id, budget, split, dropped and text. `text` and `category` may not share one either.
        """
        role_of: dict[str, str] = {}
        for role in (*_ROLES, "text"):
            for column in self.columns_of(role):
                first_role = role_of.setdefault(column, role)
                if first_role != role and {first_role, role} != {"group", "id"}:
                    rule = f"another column than data.{first_role}"
                    raise InvalidValue(f"data.{role}", column, rule=rule)
        repeated = [column for column in self.text if column in self.category]
        if repeated:
            raise InvalidValue("data.text", repeated[0], rule="another column than data.category")

    def _notes(self) -> tuple[str, ...]:
        """Returns remarks for the owner on how labels, files and public columns were read."""
        label_form = self._source.label_form
        notes = [
            f"data.labels={label}: {truths.yes} is 1"
            + ("" if truths.no is None else f", {truths.no} is 0")
            for label, truths in label_form.no_and_yes_words.items()
        ]
        setting = f"data.labels={label_form.column_of_all_labels}"
        label_names = ", ".join(label_form.names)
        if self.labels == (label_form.column_of_all_labels,):
            notes.append(f"{setting}: the labels that the public file names: {label_names}")
        if label_form.num_unknown:
            notes.append(
                f"{setting}: {label_form.num_unknown} rows name a label that is none of {label_names}: it is left out"
            )
        encoding_remarks = [
            line
            for file in self._source.table_of_split.values()
            for line in file.encoding_remarks()
        ]
        notes += dict.fromkeys(encoding_remarks)
        if self.schema is None:
            notes += self.public_remarks()
        elif self.group is None:
            notes.append(UNGROUPED)
        return tuple(notes)


def _columns_in_words(column_names: Sequence[str]) -> str:
    """Returns the names of the first five columns, and the number of all others, as a phrase for a remark."""
    noun = "column" if len(column_names) == 1 else "columns"
    listed = f"{noun} {', '.join(column_names[:_MAX_LISTED_COLUMNS])}"
    num_others = len(column_names) - _MAX_LISTED_COLUMNS
    return f"{listed} and {num_others} more" if num_others > 0 else listed
