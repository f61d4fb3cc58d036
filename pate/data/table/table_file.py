"""A table in one file or in several files, read batch by batch: all of its rows, or those of one split."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pate.array_types import IntArray
from pate.data.split import SPLITS
from pate.data.table.arrow import import_pyarrow
from pate.data.table.cells import as_texts
from pate.data.table.column import row_in_words
from pate.data.table.column_names import require_column
from pate.data.table.csv_table import QUOTES_RULE, csv_batches
from pate.data.table.encoding import UTF_8, require_encoding
from pate.data.table.json_lines import JsonLines
from pate.data.table.source_file import BATCH_ROWS, Kind, SourceFile, setting_beside
from pate.data.table.spelling import USUAL, CellSpelling
from pate.data.table.typed_table import common_schema, typed_batches
from pate.files.paths import files_named, is_pattern
from pate.validation import InvalidValue

NumberedBatch = tuple[IntArray, Any]
"""The numbers `[n]` of rows, from 0 and counted as by `TableFile.rows`, and a pyarrow table of these rows."""


@dataclass(frozen=True)
class TableFile:
    """A file that holds a table, or several files of one kind that hold its rows one after the other.

    All files have the same columns. The rows are those of one file into which the files are joined in the order of
    their names. The object may also stand for the rows of one split in a table of several splits.

    Attributes:
        path: the path of the file; or a folder, or a pattern such as `data/part-*.parquet`, see `files_named`.
        setting: the name of the setting that names the path, for messages.
        encoding: the encoding of files of text that are not UTF-8, see `SourceFile.read_in`.
        decimal: `comma` for numbers such as 3,5; None if no setting names the decimal mark.
        thousands: the mark between thousands; None if no setting names one.
        missing: the words that mean a missing cell, in addition to `MISSING_WORDS`; empty if no setting lists any.
        split_column: the column that names the split of a row; None if the table holds one split.
        split_name: the split whose rows are read; None if the table holds one split.
        date_order: the order of day, month and year in dates such as 04.03.2024; None if no setting names one.
        first_year: the earliest year that two digits can mean; None if no setting names one.
        columns_with_whole_lists: the columns in which a JSON list stays a list, see `JsonLines`.
    """

    path: Path
    setting: str
    encoding: str = UTF_8
    decimal: str | None = None
    thousands: str | None = None
    missing: tuple[str, ...] = ()
    split_column: str | None = None
    split_name: str | None = None
    date_order: str | None = None
    first_year: int | None = None
    columns_with_whole_lists: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.spelling().require(setting_prefix=self.setting_name(""))
        require_encoding(self.setting_name("encoding"), self.encoding)

    def setting_name(self, name: str) -> str:
        """Returns the full name of a setting of this table, see `setting_beside`."""
        return setting_beside(file_setting=self.setting, name=name)

    @cached_property
    def source_files(self) -> tuple[SourceFile, ...]:
        """The files that hold the rows, in the order of their names; at least one, and all of one kind.

        Raises:
            InvalidValue: a folder or pattern names no file, or files of an unknown kind or of several kinds.
        """
        source_files = tuple(
            SourceFile(path=path, setting=self.setting, encoding=self.encoding)
            for path in files_named(self.path)
        )
        if len(source_files) <= 0:
            rule = "a folder with a file in it, or a pattern that a file matches"
            raise InvalidValue(self.setting, self.path, rule=rule)
        if len(source_files) > 1 or source_files[0].path != self.path:
            for file in source_files:
                kind = source_files[0].kind
                if file.kind != kind:
                    raise file.refusal(
                        f"files of one kind, and {source_files[0].path.name} is {kind}; a pattern such as "
                        f"{self._folder / '*'}{file.ending} names some files of a folder"
                    )
        return source_files

    @property
    def _folder(self) -> Path:
        return self.path.parent if is_pattern(self.path) else self.path

    @property
    def kind(self) -> Kind:
        """The kind of the files, the same for all: csv, json, parquet or arrow."""
        return self.source_files[0].kind

    @property
    def ending(self) -> str:
        """The ending of the first file's name, such as `.csv` or `.csv.gz`."""
        return self.source_files[0].ending

    @property
    def is_text(self) -> bool:
        """Whether the files hold cells as text (CSV, JSON), and not typed values."""
        return self.source_files[0].is_text

    @property
    def read_in(self) -> str:
        """The encoding in which each file is read; UTF-8 if the files are in different encodings."""
        encodings = {file.read_in for file in self.source_files}
        return encodings.pop() if len(encodings) == 1 else UTF_8

    @property
    def num_bytes(self) -> int:
        """The size of all files on disk, in bytes."""
        return sum(file.path.stat().st_size for file in self.source_files)

    def encoding_remarks(self) -> list[str]:
        """Returns remarks for the owner on files that are not read in UTF-8, or not in the named encoding."""
        remarks = [file.encoding_remark() for file in self.source_files]
        return list(dict.fromkeys(remark for remark in remarks if remark is not None))

    def row_in_words(self, row_number: int) -> str:
        """Returns the place of a row for a message: its number in its file, from 1, and the file if there are several.

        In a table with a column of splits it is the number of the row alone: for a public row its number among public
        rows, and otherwise that in the whole table.

        Args:
            row_number: the number of the row from `rows`, from 0.
        """
        if self.split_column is not None or len(self.source_files) == 1:
            return row_in_words(row_number)
        for source_file in self.source_files:
            num_rows = sum(
                table.num_rows
                for table in self._batches_of(source_file, column_names=self.names[:1])
            )
            if row_number < num_rows:
                return f"{row_in_words(row_number)} of {source_file.path}"
            row_number -= num_rows
        return row_in_words(row_number)

    def spelling(self, default_spelling: CellSpelling = USUAL) -> CellSpelling:
        """Returns the notation of the cells, which settings name in part.

        Args:
            default_spelling: the notation that all other parts are taken from. Its mark between thousands is used only
                if the decimal mark of the result is also that of `default_spelling`.
        """
        decimal = self.decimal
        if decimal is None:  # a mark between thousands is not the decimal mark
            decimal = {".": "comma", ",": "point"}.get(
                self.thousands or "", default_spelling.decimal
            )
        thousands = self.thousands
        if thousands is None and decimal == default_spelling.decimal:
            thousands = default_spelling.thousands
        return CellSpelling(
            decimal=decimal,
            thousands=thousands,
            missing=self.missing or default_spelling.missing,
            date_order=self.date_order or default_spelling.date_order,
            first_year=default_spelling.first_year if self.first_year is None else self.first_year,
        )

    @cached_property
    def names(self) -> list[str]:
        """The names of all columns, without the column that names the split."""
        return [name for name in self._all_names if name != self.split_column]

    @cached_property
    def _json_lines(self) -> dict[Path, JsonLines]:
        """The reader of each file of JSON lines, by the path; a reader looks for the fields of its file only once."""
        return {
            source_file.path: JsonLines(source_file, self.columns_with_whole_lists)
            for source_file in self.source_files
        }

    @cached_property
    def _all_names(self) -> list[str]:
        """The names of all columns, with the column of splits, in the order of the first file.

        Raises:
            InvalidValue: a file has another column than the first one, or lacks one of its columns.
        """
        first_file, *other_files = self.source_files
        names_in_first_file = list(next(self._batches_of(first_file)).column_names)
        for source_file in other_files:
            names_in_file = next(self._batches_of(source_file)).column_names
            for column in dict.fromkeys([*names_in_first_file, *names_in_file]):
                if column not in names_in_file or column not in names_in_first_file:
                    difference = "lacks" if column in names_in_first_file else "also has"
                    raise source_file.refusal(
                        f"the columns of {first_file.path.name} and no others, it {difference} {column}"
                    )
        return names_in_first_file

    @cached_property
    def _schema(self) -> Any:
        """The pyarrow schema of typed files (Parquet, Arrow), with types that hold the cells of all files."""
        empty_tables = [next(self._batches_of(source_file)) for source_file in self.source_files]
        return common_schema(self.source_files, schemas=[table.schema for table in empty_tables])

    def rows(self, column_names: list[str] | None = None) -> Iterator[NumberedBatch]:
        """Yields pairs of row numbers and a pyarrow table, with all rows of this split in order.

        Rows are numbered from 0, over all files. In a table of several splits, public rows are numbered among public
        rows, so that neither a published number nor a number in an error depends on the private rows of the same file.
        Private and test rows have their numbers in the whole table.

        Args:
            column_names: the names of the columns to read; None for all columns.

        Raises:
            InvalidValue: the split has no row, a row is in no split, or `batches` refuses the file.
        """
        if self.split_column is None:
            batches = _numbered(self.batches(column_names))
        else:
            require_column(
                "data.split",
                column_name=self.split_column,
                column_names=self._all_names,
                table_description=self.setting,
            )
            batches = self._rows_of_part(self.split_column, column_names=column_names or self.names)
        num_rows = 0
        for numbers, batch in batches:
            num_rows += batch.num_rows
            if batch.num_rows:
                yield numbers, batch
        if num_rows == 0:
            rows = (
                "at least one row"
                if self.split_column is None
                else f"rows with {self.split_column}={self.split_name}"
            )
            raise InvalidValue(self.setting, rule=f"{rows}, the table has none")

    def _rows_of_part(self, split_column: str, column_names: list[str]) -> Iterator[NumberedBatch]:
        """Yields the batches of `rows` for a table of several splits; a batch may have no rows.

        Only rows in which the column `split_column` has the name of this split are yielded. Any other word than
        private, public or test there is an `InvalidValue`.
        """
        num_rows_of_split = 0
        columns_read = list(dict.fromkeys([*column_names, split_column]))
        for row_numbers, batch in _numbered(self.batches(columns_read)):
            split_words = as_texts(batch.column(split_column)).to_numpy(zero_copy_only=False)
            is_no_split = ~np.isin(split_words, SPLITS)
            if is_no_split.any():
                row = row_in_words(int(row_numbers[is_no_split][0]))
                rule = f"private, public or test, {row} has something else"
                raise InvalidValue("data.split", split_column, rule=rule)
            is_in_split = split_words == self.split_name
            batch = batch.select(column_names).filter(import_pyarrow().array(is_in_split))
            if self.split_name == "public":
                yield np.arange(num_rows_of_split, num_rows_of_split + batch.num_rows), batch
            else:
                yield row_numbers[is_in_split], batch
            num_rows_of_split += batch.num_rows

    def read(self, column_names: list[str] | None = None) -> Any:
        """Returns the rows of this split as one pyarrow table.

        Args:
            column_names: the names of the columns to read; None for all columns.
        """
        return import_pyarrow().concat_tables([table for _, table in self.rows(column_names)])

    def batches(self, column_names: list[str] | None = None) -> Iterator[Any]:
        """Yields pyarrow tables of some thousand rows in order; at least one table, which may have no rows.

        The cells of a file of text are words, unchanged, except that `MISSING_WORDS` become null. An error names the
        problem, such as two columns of the same name or rows of different length, but shows no cell.

        Args:
            column_names: the names of the columns to read; None for all columns.

        Raises:
            InvalidValue: the file cannot be read, is damaged, or is in another encoding.
        """
        if len(self.source_files) == 1:
            yield from self._batches_of(self.source_files[0], column_names)
            return
        column_names = column_names or self._all_names
        if self.is_text:
            for source_file in self.source_files:
                yield from self._batches_of(source_file, column_names=column_names)
        else:
            yield from _of_equal_length(self._typed_alike(column_names))

    def _typed_alike(self, column_names: list[str]) -> Iterator[Any]:
        """Yields pyarrow tables of all typed files, one file after the other, with one type for each column.

        Raises `InvalidValue` if a cell of a file does not fit into the common type.
        """
        schema = import_pyarrow().schema([self._schema.field(column) for column in column_names])
        for source_file in self.source_files:
            for batch in self._batches_of(source_file, column_names=column_names):
                try:
                    alike = batch.cast(schema)
                # The cause is left out, because messages of pyarrow show cells.
                except import_pyarrow().ArrowInvalid:
                    rule = "columns of one type in each file, or whole numbers below 2**53 beside decimals"
                    raise source_file.refusal(rule) from None
                yield alike

    def _batches_of(
        self, source_file: SourceFile, column_names: list[str] | None = None
    ) -> Iterator[Any]:
        """Yields pyarrow tables with the rows of one file, as `batches` does for all files; raises as it does."""
        pa = import_pyarrow()
        kind = source_file.kind
        try:
            if kind == "csv":
                yield from csv_batches(source_file, column_names=column_names)
            elif kind == "json":
                yield from self._json_lines[source_file.path].batches(column_names)
            else:
                yield from typed_batches(source_file, column_names=column_names)
        except UnicodeError as error:
            raise source_file.encoding_refusal() from error
        except (pa.ArrowException, EOFError, gzip.BadGzipFile) as error:
            # without the cause: pyarrow's messages show cells
            if re.search("UTF-?8", str(error)):
                raise source_file.encoding_refusal() from None
            quotes = f", with {QUOTES_RULE}" if kind == "csv" else ""
            raise source_file.refusal(f"a whole {kind} file{quotes}") from None
        except OSError as error:
            reason = error.strerror or "damaged, or of another kind"
            raise source_file.refusal(f"a file that can be read ({reason})") from None


def _of_equal_length(batches: Iterator[Any]) -> Iterator[Any]:
    """Yields the same rows as pyarrow tables of `BATCH_ROWS` rows, across the ends of files; the last has the rest.

    The first table has no rows. Equal batches are needed because digests of private cells depend on which floats lie in
    one batch.
    """
    pa = import_pyarrow()
    waiting_tables = [next(batches)]
    yield waiting_tables[0].slice(0, 0)
    num_waiting = waiting_tables[0].num_rows
    for batch in batches:
        waiting_tables.append(batch)
        num_waiting += batch.num_rows
        while num_waiting >= BATCH_ROWS:
            joined_table = pa.concat_tables(waiting_tables)
            yield joined_table.slice(offset=0, length=BATCH_ROWS)
            waiting_tables = [joined_table.slice(offset=BATCH_ROWS)]
            num_waiting -= BATCH_ROWS
    yield pa.concat_tables(waiting_tables)


def _numbered(batches: Iterator[Any]) -> Iterator[NumberedBatch]:
    num_rows = 0
    for batch in batches:
        yield np.arange(num_rows, num_rows + batch.num_rows), batch
        num_rows += batch.num_rows
