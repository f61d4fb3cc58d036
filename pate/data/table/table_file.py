"""A table in a file, or its rows of one split, read batch by batch."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.split import SPLITS
from pate.data.table.arrow import arrow
from pate.data.table.cells import as_texts
from pate.data.table.column_names import require_column
from pate.data.table.csv_table import QUOTES_RULE, csv_batches
from pate.data.table.encoding import require_encoding
from pate.data.table.json_lines import JsonLines
from pate.data.table.source_file import SourceFile
from pate.data.table.spelling import USUAL, CellSpelling
from pate.data.table.typed_table import typed_batches
from pate.validation import InvalidValue

NumberedBatch = tuple[NDArray[np.int64], Any]
"""The numbers `[n]` that rows have in their file, from 0, and a pyarrow table of these rows."""


@dataclass(frozen=True)
class TableFile(SourceFile):
    """A file that holds a table, or the rows of one split in a file of several splits.

    Attributes:
        decimal: `comma` for numbers such as 3,5; None if no setting names the decimal mark.
        thousands: the mark between thousands; None if no setting names one.
        missing: the words that mean a missing cell, in addition to `MISSING_WORDS`; empty if no setting lists any.
        split: the column that names the split of a row; None if the file holds one split.
        part: the split whose rows are read; None if the file holds one split.
        date_order: the order of day, month and year in dates such as 04.03.2024; None if no setting names one.
        first_year: the earliest year that two digits can mean; None if no setting names one.
        whole_lists: the columns in which a JSON list stays a list, see `JsonLines`.
    """

    decimal: str | None = None
    thousands: str | None = None
    missing: tuple[str, ...] = ()
    split: str | None = None
    part: str | None = None
    date_order: str | None = None
    first_year: int | None = None
    whole_lists: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.spelling().require(self.setting_name)
        require_encoding(self.setting_name("encoding"), self.encoding)

    def spelling(self, default_spelling: CellSpelling = USUAL) -> CellSpelling:
        """Returns the notation of the cells.

        Args:
            default_spelling: the notation for the parts that no setting names.
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
        return [name for name in self._all_names if name != self.split]

    @cached_property
    def _json_lines(self) -> JsonLines:
        return JsonLines(self, self.whole_lists)

    @cached_property
    def _all_names(self) -> list[str]:
        return list(next(self.batches()).column_names)

    def rows(self, columns: list[str] | None = None) -> Iterator[NumberedBatch]:
        """Yields batches of this split's rows, with the numbers of the rows.

        Rows are numbered in their file, from 0. Public rows are numbered among public rows, so that neither a published
        number nor a number in an error depends on the private rows of the same file.

        Args:
            columns: the names of the columns to read; None for all columns.

        Raises:
            InvalidValue: the split has no row, a row is in no split, or `batches` refuses the file.
        """
        if self.split is None:
            batches = _numbered(self.batches(columns))
        else:
            require_column("data.split", self.split, self._all_names, self.name)
            batches = self._rows_of_part(self.split, columns=columns or self.names)
        num_rows = 0
        for numbers, batch in batches:
            num_rows += batch.num_rows
            if batch.num_rows:
                yield numbers, batch
        if num_rows == 0:
            rows = (
                "at least one row" if self.split is None else f"rows with {self.split}={self.part}"
            )
            raise InvalidValue(self.name, rule=f"{rows}, the table has none")

    def _rows_of_part(self, split: str, columns: list[str]) -> Iterator[NumberedBatch]:
        """Yields batches of the rows in which the column `split` names this part, with the numbers of the rows."""
        num_of_part = 0
        columns_read = list(dict.fromkeys([*columns, split]))
        for numbers, batch in _numbered(self.batches(columns_read)):
            parts = as_texts(batch.column(split)).to_numpy(zero_copy_only=False)
            is_no_split = ~np.isin(parts, SPLITS)
            if is_no_split.any():
                row = numbers[is_no_split][0] + 1
                rule = f"private, public or test, row {row} has something else"
                raise InvalidValue("data.split", split, rule=rule)
            is_of_part = parts == self.part
            batch = batch.select(columns).filter(arrow().array(is_of_part))
            if self.part == "public":
                yield np.arange(num_of_part, num_of_part + batch.num_rows), batch
            else:
                yield numbers[is_of_part], batch
            num_of_part += batch.num_rows

    def read(self, columns: list[str] | None = None) -> Any:
        """Returns the rows of this split as one pyarrow table.

        Args:
            columns: the names of the columns to read; None for all columns.
        """
        return arrow().concat_tables([table for _, table in self.rows(columns)])

    def batches(self, columns: list[str] | None = None) -> Iterator[Any]:
        """Yields pyarrow tables of some thousand rows in order; at least one table, which may have no rows.

        The cells of a file of text are words, unchanged, except that `MISSING_WORDS` become null. An error names the
        problem, such as two columns of the same name or rows of different length, but shows no cell.

        Args:
            columns: the names of the columns to read; None for all columns.

        Raises:
            InvalidValue: the file cannot be read, is damaged, or is in another encoding.
        """
        pa = arrow()
        kind = self.kind
        try:
            if kind == "csv":
                yield from csv_batches(self, columns)
            elif kind == "json":
                yield from self._json_lines.batches(columns)
            else:
                yield from typed_batches(self, columns)
        except UnicodeError as error:
            raise self.encoding_refusal() from error
        except (pa.ArrowException, EOFError, gzip.BadGzipFile) as error:
            # without the cause: pyarrow's messages show cells
            if re.search("UTF-?8", str(error)):
                raise self.encoding_refusal() from None
            quotes = f", with {QUOTES_RULE}" if kind == "csv" else ""
            raise self.refusal(f"a whole {kind} file{quotes}") from None
        except OSError as error:
            reason = error.strerror or "damaged, or of another kind"
            raise self.refusal(f"a file that can be read ({reason})") from None


def _numbered(batches: Iterator[Any]) -> Iterator[NumberedBatch]:
    num_rows = 0
    for batch in batches:
        yield np.arange(num_rows, num_rows + batch.num_rows), batch
        num_rows += batch.num_rows
