"""The files of a table, as the settings of a `Table` name them: their columns, their rows, and the public schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pate.data.split import SPLITS
from pate.data.table.column_names import require_column, require_columns
from pate.data.table.column_remarks import remarks_on_columns
from pate.data.table.encoding import UTF_8
from pate.data.table.fingerprints import CellDigest
from pate.data.table.label_form import labels_in_one_column, labels_with_columns
from pate.data.table.labels import Labels
from pate.data.table.remedies import rewriting, ways_out
from pate.data.table.rows import MEGABYTE, Roles, Rows, gather_batches, report_batches
from pate.data.table.schema import TableSchema
from pate.data.table.table_file import NumberedBatch, TableFile
from pate.data.texts.vectors import TextFit
from pate.progress import StageOpener, unwatched
from pate.validation import InvalidValue, as_setting

if TYPE_CHECKING:
    from pate.data.table.table import Table

# The size of files, in MB, from which on the reading of their rows shows progress.
_LARGE_MB = 256
_KILOBYTE = 1000


class PublicReading(NamedTuple):
    """The schema that is learned from the public records, with remarks on their columns.

    Attributes:
        schema: the schema of the public columns that become features.
        column_remarks: pairs of a column's name and a remark on this column.
    """

    schema: TableSchema
    column_remarks: tuple[tuple[str, str], ...]


class TableSource:
    """The files of a table. Each file is opened only when something in it is asked for.

    Args:
        settings: the settings that name the files and the roles of their columns.
    """

    def __init__(self, settings: Table) -> None:
        self._settings = settings

    @cached_property
    def table_of_split(self) -> dict[str, TableFile]:
        """The table of each split that settings name, by split: a file of its own, or its rows in the common file."""
        settings = self._settings
        if settings.path is not None:
            common_file = self._file(
                Path(settings.path), setting_name="data.path", encoding=str(settings.encoding)
            )
            return {
                split: replace(common_file, split_column=settings.split, split_name=split)
                for split in SPLITS
            }
        table_of_split = {}
        for split in SPLITS:
            path = getattr(settings, split)
            if not path:
                continue
            encoding = settings.encoding
            if isinstance(encoding, Mapping):
                encoding = encoding.get(split, UTF_8)
            table_of_split[split] = self._file(
                Path(path), setting_name=f"data.{split}", encoding=encoding
            )
        return table_of_split

    @property
    def public_file(self) -> TableFile:
        """The file of the public records; raises `InvalidValue` if settings name none."""
        if "public" not in self.table_of_split:
            raise InvalidValue("data.public", None, rule="the file of the public records")
        return self.table_of_split["public"]

    @cached_property
    def label_form(self) -> Labels:
        """The reader of labels: which columns hold labels, and how their cells are written.

        This property may read all files, for the words of labels or the names in a column that lists labels.
        """
        settings = self._settings
        if settings.label_separator is None or not settings.labels:
            return labels_with_columns(
                label_names=settings.labels,
                table_files=self.table_of_split.values(),
                word_for_yes=settings.true,
                reading_of_uncertain_cells=settings.reading_of_uncertain_cells,
            )
        return labels_in_one_column(
            label_setting=settings.labels,
            table_files=self.table_of_split.values(),
            public_file=self.table_of_split.get("public"),
            separator=settings.label_separator,
        )

    @cached_property
    def columns_without_features(self) -> set[str]:
        """The names of the columns that do not become features.

        The set has labels, group, budget, id and dropped columns, also those that the schema's file names as label, id
        or dropped.
        """
        columns = {*self.label_form.names, *self.label_form.label_columns}
        for role in ("drop", "group", "budget", "id"):
            columns.update(self._settings.columns_of(role))
        # Columns that the schema's file leaves out stay so, even if settings name other labels or another id.
        schema_settings = self._settings.schema_settings
        columns.update(schema_settings.drop)
        columns.update(schema_settings.labels)
        if schema_settings.id is not None:
            columns.add(schema_settings.id)
        return columns

    @property
    def owner_columns_in_words(self) -> str | None:
        """The columns that name the owner of a row, as text for messages; None if settings name none."""
        return ", ".join(self._settings.columns_of("group")) or None

    def require_columns(self) -> None:
        """Raises `InvalidValue` if a file lacks a column that settings name, or a feature column that another file has.

        A column in `drop` need only be in one file. For exceptions to other settings see `_columns_with_role`.
        """
        column_names_of_split = {split: file.names for split, file in self.table_of_split.items()}
        all_names = dict.fromkeys(
            name for column_names in column_names_of_split.values() for name in column_names
        )
        for column in self._settings.drop:
            require_column(
                "data.drop",
                column_name=column,
                column_names=list(all_names),
                table_description="a file",
            )
        for split, file in self.table_of_split.items():
            self._columns_with_role(
                split_name=split
            )  # refuses a column that settings name and the file lacks
            for name in file.names:
                if name in self.columns_without_features:
                    continue
                lacking = [other for other in SPLITS if name not in column_names_of_split[other]]
                if lacking:
                    remedy = ways_out(
                        column_names=[name], owner_columns_in_words=self.owner_columns_in_words
                    )
                    rule = f"it in every file, data.{lacking[0]} lacks it; {remedy}"
                    raise InvalidValue(f"{file.setting}.{name}", rule=rule)

    @cached_property
    def public_reading(self) -> PublicReading:
        """The schema that is learned from the public records, before texts become vectors, and remarks on its columns.

        Raises:
            InvalidValue: the public file lacks a column that settings name, or no column becomes a feature.
        """
        settings = self._settings
        file = self.public_file
        self._columns_with_role(
            split_name="public"
        )  # refuses a column that settings name and the file lacks
        feature_columns = [name for name in file.names if name not in self.columns_without_features]
        if not feature_columns:
            rule = "a column that is no label, group or id"
            raise InvalidValue(file.setting, file.path, rule=rule)
        for role in ("category", "text"):
            for column in settings.columns_of(role):
                require_column(
                    f"data.{role}",
                    column_name=column,
                    column_names=feature_columns,
                    table_description=f"{file.setting} that is a feature",
                )
        table = file.read(feature_columns)
        schema = TableSchema.fit(
            table,
            code_columns=settings.category,
            text_columns=settings.text,
            spelling=file.spelling(),
        )
        column_remarks = remarks_on_columns(
            table=table.select([name for name in feature_columns if name not in settings.text]),
            schema=schema,
            code_columns=settings.category,
            owner_columns_in_words=self.owner_columns_in_words,
        )
        return PublicReading(schema=schema, column_remarks=tuple(column_remarks))

    def usable_schema(self) -> TableSchema:
        """Returns the schema from the schema's file, or else the one learned from the public records.

        Raises:
            InvalidValue: a column that is not in `text` cannot become a feature; or beside a schema's file, `category`
                or `text` is set, or the public file has a column that the schema lacks.
        """
        settings = self._settings
        public_file = self.public_file
        if settings.schema is None:
            schema, column_remarks = self.public_reading
            schema.require_usable(
                setting_name=public_file.setting,
                # Of several remarks on a column the first one is shown.
                remark_of_column=dict(reversed(column_remarks)),
                text_columns=settings.text,
                owner_columns_in_words=self.owner_columns_in_words,
            )
            return schema
        for role in ("category", "text"):
            columns = list(settings.columns_of(role))
            if columns:
                command = f"{rewriting(public_file.path)} {as_setting(name=role, value=columns)}"
                rule = f"none beside data.schema, whose kinds hold; {command} writes them into a new schema"
                raise InvalidValue(f"data.{role}", f"[{','.join(columns)}]", rule=rule)
        schema = TableSchema.load(settings.schema).without(self.columns_without_features)
        for name in public_file.names:
            if name not in schema.names and name not in self.columns_without_features:
                rule = (
                    f"no other column in {public_file.setting} than it lists, and there is {name}"
                )
                remedy = ways_out(
                    column_names=[name], owner_columns_in_words=self.owner_columns_in_words
                )
                raise InvalidValue("data.schema", settings.schema, rule=f"{rule}; {remedy}")
        schema.require_usable(
            setting_name=public_file.setting,
            owner_columns_in_words=self.owner_columns_in_words,
            public_file_of_new_schema=public_file.path,
        )
        return schema

    def with_text_vectors(
        self, schema: TableSchema, *, fit_vectors: TextFit, open_stage: StageOpener = unwatched
    ) -> TableSchema:
        """Returns the schema in which columns of text become vectors that are fitted to the public texts.

        Without columns of text in the settings, the schema is returned unchanged.

        Args:
            schema: the schema of the public columns.
            fit_vectors: the function that fits vectors to public texts.
            open_stage: opens the stages that report progress.
        """
        text_columns = self._settings.text
        if not text_columns:
            return schema
        return schema.with_text_vectors(
            table=self.public_file.read(list(schema.names)),
            text_columns=text_columns,
            fit_vectors=fit_vectors,
            open_stage=open_stage,
        )

    def read_rows(
        self,
        split_name: str,
        schema: TableSchema,
        *,
        open_stage: StageOpener = unwatched,
        cell_hasher: CellDigest | None = None,
    ) -> Rows:
        """Reads the rows of a split.

        Args:
            split_name: private, public or test.
            schema: encodes the features.
            open_stage: opens the stage that reports progress.
            cell_hasher: receives all cells of the split, with columns that become no features; None if no digest is
                needed.
        """
        file = self.table_of_split[split_name]
        columns = list(dict.fromkeys((*schema.names, *self._columns_with_role(split_name))))
        require_columns(file.setting, column_names=file.names, required=columns)
        if self.label_form.column_of_all_labels is not None and file.kind == "json":
            # Lists of labels are read as they are. In the digest the items of a list are one word, so the file is read
            # once more for the digest.
            if cell_hasher is not None:
                cell_hasher.add_all(file.rows())
                cell_hasher = None
            file = replace(file, columns_with_whole_lists=(self.label_form.column_of_all_labels,))
        numbered_batches = file.rows(columns if cell_hasher is None else None)
        if schema.texts and cell_hasher is not None:
            # The digest depends on the batches of the file, which are joined below.
            numbered_batches = cell_hasher.pass_through(numbered_batches)
            cell_hasher = None
        budget_column = self._settings.budget if split_name == "private" else None
        with _with_progress(
            numbered_batches,
            table_file=file,
            split_name=split_name,
            has_texts=bool(schema.texts),
            open_stage=open_stage,
        ) as reported_batches:
            return Rows(
                reported_batches,
                schema,
                label_form=self.label_form,
                roles=Roles(
                    group=self._settings.columns_of("group"),
                    id=self._settings.id,
                    budget=budget_column,
                ),
                setting_name=file.setting
                if self._settings.path is None
                else f"data.path, {split_name}",
                split_name=split_name,
                cell_hasher=cell_hasher,
                # Vectors of texts use all threads for one batch.
                in_threads=not schema.texts,
                describe_row=file.row_in_words,
            )

    def _file(self, path: Path, setting_name: str, encoding: str) -> TableFile:
        """Returns a file of the table, to be read in the notation that the settings name.

        Args:
            path: the path of the file, a folder or a pattern.
            setting_name: the name of the setting that names the path.
            encoding: the encoding that a setting names.
        """
        settings = self._settings
        return TableFile(
            path=path,
            setting=setting_name,
            encoding=encoding,
            decimal=settings.decimal,
            thousands=settings.thousands,
            missing=settings.missing,
            date_order=settings.date_order,
            first_year=settings.first_year,
        )

    def _columns_with_role(self, split_name: str) -> list[str]:
        """Returns the columns of labels, owners, ids and budgets that the file of a split must have.

        A public file may lack all columns of labels, and only a private file has budgets.

        Raises:
            InvalidValue: the file lacks one of these columns.
        """
        file = self.table_of_split[split_name]
        columns_of_role = {}
        labels = self.label_form.label_columns
        # A label in other letters is a mistake, and not a sign of a file without labels.
        folded_names = {name.casefold() for name in file.names}
        has_some_label = any(label.casefold() in folded_names for label in labels)
        if split_name != "public" or has_some_label:
            columns_of_role["labels"] = labels
        for role in ("group", "id"):
            columns_of_role[role] = self._settings.columns_of(role)
        if split_name == "private":
            columns_of_role["budget"] = self._settings.columns_of("budget")
        for role, columns in columns_of_role.items():
            remedy = ""
            if role == "group" and split_name != "private":
                remedy = "; each person there needs a number, too"
            for column in columns:
                require_column(
                    f"data.{role}",
                    column_name=column,
                    column_names=file.names,
                    table_description=file.setting,
                    remedy=remedy,
                )
        return [column for columns in columns_of_role.values() for column in columns]


@contextmanager
def _with_progress(
    numbered_batches: Iterable[NumberedBatch],
    *,
    table_file: TableFile,
    split_name: str,
    has_texts: bool,
    open_stage: StageOpener,
) -> Iterator[Iterable[NumberedBatch]]:
    """Yields batches that report how far they are read, as the value of a `with` statement.

    A small file without texts reports nothing.

    Args:
        numbered_batches: pairs of row numbers and a pyarrow table, in the order of the file.
        table_file: the file, whose size is the end of the stage.
        split_name: the split that is read, for the name of the stage.
        has_texts: whether columns of text are encoded; if so, batches are joined to larger ones.
        open_stage: opens the stage that reports progress.
    """
    size_mb = table_file.num_bytes // MEGABYTE
    if has_texts:
        size_kb = table_file.num_bytes // _KILOBYTE
        with open_stage(f"texts of {split_name} records, kB", size_kb) as advance:
            yield gather_batches(numbered_batches, file_size_kb=size_kb, report_progress=advance)
    elif size_mb < _LARGE_MB:
        yield numbered_batches
    else:
        with open_stage(f"reading {split_name} rows, MB", size_mb) as advance:
            yield report_batches(numbered_batches, file_size_mb=size_mb, report_progress=advance)
