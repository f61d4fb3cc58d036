"""Files of tables, read in batches: CSV (also gzipped), Parquet, Feather and Arrow."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from csv import reader
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pate.data.table.cells import arrow
from pate.data.table.schema import require_once
from pate.validation import InvalidValue, require, require_choice

MISSING_WORDS = (
    "", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "null", "NULL", "None", "<NA>", "#N/A", "#NA", "#N/A N/A",
)  # fmt: skip
"""Cells of a CSV file that are missing values, as pandas reads them."""

_KINDS = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet"}
_KINDS |= {".feather": "arrow", ".arrow": "arrow", ".ipc": "arrow"}
_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods", ".numbers")
_SEPARATORS = (",", ";", "\t", "|")
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}  # the first bytes of a file
_COMMA_NUMBER, _POINT_NUMBER = r"^(\s*[+-]?\d+),(\d+\s*)$", r"\1.\2"
_DECIMALS = ("point", "comma")
_BATCH_ROWS, _BLOCK_BYTES = 8192, 2**20


@dataclass(frozen=True)
class TableFile:
    """A table in a file.

    Attributes:
        path: its ending says what it is: .csv, .csv.gz, .tsv, .parquet, .feather or .arrow.
        name: of the setting that names it, for messages.
        encoding: of a CSV file.
        decimal: `comma` where numbers of a CSV file read 3,5; cells that are no such number stay as they are.
    """

    path: Path
    name: str
    encoding: str = "utf-8"
    decimal: str = "point"

    def __post_init__(self) -> None:
        require_choice(self._setting("decimal"), self.decimal, _DECIMALS)

    @property
    def said(self) -> str:
        """Setting and path."""
        return f"{self.name}={self.path}"

    def batches(self, columns: list[str] | None = None) -> Iterator[Any]:
        """Tables of some thousand rows, all or some of the columns, in order; at least one, which may have no row.

        The cells of a CSV file are words, null where they are missing.

        Raises:
            InvalidValue: a file that is not there, is empty or cannot be read; names that occur twice; rows of another
                length. No cell is shown.
        """
        pa, kind = arrow(), self._kind
        try:
            if kind == "csv":
                yield from self._csv(columns)
            elif kind == "parquet":
                yield from self._parquet(columns)
            else:
                yield from self._ipc(columns)
        except UnicodeError as error:
            raise InvalidValue(f"{self.said}: expected {self._other_encoding()}") from error
        except LookupError as error:
            rule = "an encoding, such as latin-1"
            raise InvalidValue(f"{self._setting('encoding')}={self.encoding}: expected {rule}") from error
        except (pa.ArrowException, EOFError, gzip.BadGzipFile) as error:
            raise InvalidValue(f"{self.said}: expected {self._rule(str(error))}") from None
        except OSError as error:
            rule = f"a file that can be read ({error.strerror or 'damaged, or of another kind'})"
            raise InvalidValue(f"{self.said}: expected {rule}") from None

    def read(self, columns: list[str] | None = None) -> Any:
        """All of it."""
        return arrow().concat_tables(list(self.batches(columns)))

    @property
    def names(self) -> list[str]:
        """Its columns."""
        return list(next(self.batches()).column_names)

    @property
    def _kind(self) -> str:
        require(not self.path.is_dir(), self.name, self.path, "a file, and this is a folder")
        require(self.path.is_file(), self.name, self.path, "a file that is there")
        ending = "".join(self.path.suffixes[-2:]).lower() if self.path.suffix == ".gz" else self.path.suffix.lower()
        require(ending not in _SPREADSHEETS, self.name, self.path, "a table: save the spreadsheet as .csv first")
        kind = _KINDS.get(ending.removesuffix(".gz"))
        require(kind is not None, self.name, self.path, f"a file that ends in {', '.join(_KINDS)}, or .csv.gz")
        return str(kind)

    def _rule(self, said: str) -> str:
        """What is wrong, of what pyarrow says; it shows cells, which stay unsaid."""
        if "UTF8" in said or "UTF-8" in said:
            return self._other_encoding()
        if "Empty CSV" in said:
            return "a line of names and rows below it, and the file is empty"
        if "straddling" in said or "quote" in said.lower():
            return "a closing quote for each opening one"
        return f"a whole {self._kind} file"

    def _csv(self, columns: list[str] | None) -> Iterator[Any]:
        pa = arrow()
        from pyarrow import csv

        with self._opened() as file, io.TextIOWrapper(file, self.encoding, newline="") as text:
            head = text.readline()
        require(bool(head.strip()), self.name, self.path, "a line of names and rows below it, and the file is empty")
        separator = max(_SEPARATORS, key=head.count)
        names = next(reader([head.removeprefix("\ufeff")], delimiter=separator))
        require_once(self.name, names)
        broken: list[int] = []

        def skip(row: Any) -> str:
            broken.append(row.number or 0)
            return "skip"

        with csv.open_csv(
            self._source(),
            read_options=csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, encoding=self.encoding),
            parse_options=csv.ParseOptions(
                delimiter=separator, newlines_in_values=True, invalid_row_handler=skip, ignore_empty_lines=True
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=list(MISSING_WORDS),
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        ) as rows:
            count = 0
            yield pa.table({name: pa.array([], pa.string()) for name in columns or names})
            for batch in rows:
                count += batch.num_rows
                yield self._pointed(pa.Table.from_batches([batch]).select(columns or names))
                pa.default_memory_pool().release_unused()  # else it keeps several times what is in use
        if broken:
            rule = f"{len(names)} cells in every row, {len(broken)} of {count + len(broken)} rows have more or fewer"
            raise InvalidValue(f"{self.said}: expected {rule}")

    def _parquet(self, columns: list[str] | None) -> Iterator[Any]:
        pa = arrow()
        from pyarrow import parquet

        with parquet.ParquetFile(self.path, pre_buffer=False) as file:  # else it holds all that it will read
            schema = file.schema_arrow
            require_once(self.name, schema.names)
            yield schema.empty_table().select(columns or schema.names)
            for batch in file.iter_batches(_BATCH_ROWS, columns=columns):
                yield pa.Table.from_batches([batch])
                pa.default_memory_pool().release_unused()  # else it keeps several times what is in use

    def _ipc(self, columns: list[str] | None) -> Iterator[Any]:
        pa = arrow()
        from pyarrow import ipc

        with pa.memory_map(str(self.path)) as source:
            try:
                file = ipc.open_file(source)
                batches = (file.get_batch(index) for index in range(file.num_record_batches))
            except pa.ArrowInvalid:
                source.seek(0)
                file = ipc.open_stream(source)
                batches = iter(file)
            require_once(self.name, file.schema.names)
            yield file.schema.empty_table().select(columns or file.schema.names)
            for batch in batches:
                yield pa.Table.from_batches([batch]).select(columns or file.schema.names)

    def _pointed(self, batch: Any) -> Any:
        """A batch of words, those with a decimal comma with a point where the setting says so."""
        if self.decimal == _DECIMALS[0]:
            return batch
        pa = arrow()
        columns = [pa.compute.replace_substring_regex(each, _COMMA_NUMBER, _POINT_NUMBER) for each in batch.columns]
        return pa.table(columns, names=batch.column_names)

    def _setting(self, name: str) -> str:
        """What a setting of the file is called: of pate-train, whose files are below `data`, or of other commands."""
        return f"data.{name}" if "." in self.name else name

    def _other_encoding(self) -> str:
        """The rule that a file breaks whose text is not in its encoding, and the setting that names another."""
        with self.path.open("rb") as file:
            likely = _MARKS.get(file.read(2), "latin-1")
        others = ("latin-1", "utf-16") if self.encoding == likely else (likely,)
        return f"text in {self.encoding}; name its encoding: {self._setting('encoding')}={' or '.join(others)}, say"

    def _opened(self) -> Any:
        return gzip.open(self.path) if self.path.suffix == ".gz" else self.path.open("rb")

    def _source(self) -> Any:
        return arrow().input_stream(str(self.path), compression="detect")
