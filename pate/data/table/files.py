"""Files of tables, CSV (also gzipped), JSON lines, Parquet, Feather and Arrow: read in batches, or dealt to three."""

import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.split import SPLITS
from pate.data.table.arrow import arrow
from pate.data.table.cells import as_texts, with_missing
from pate.data.table.column_names import column_name, require_column, require_columns
from pate.data.table.encoding import (
    UTF_8,
    encoding_of,
    likely_utf_16,
    lines_of_another_page,
    mixed_lines,
    opened,
    require_encoding,
)
from pate.data.table.people import People
from pate.data.table.spelling import USUAL, Spelling
from pate.files.disk import replacing
from pate.validation import InvalidValue, require, require_count

MISSING_WORDS = (  # cells of a CSV file that are missing values, as pandas reads them
    "", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "null", "NULL", "None", "<NA>", "#N/A", "#NA", "#N/A N/A",
)  # fmt: skip

_KINDS = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet"}
_KINDS |= {
    ".feather": "arrow",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".jsonl": "json",
    ".ndjson": "json",
}
_SEPARATORS = (",", ";", "\t", "|")
_SAYS_SEPARATOR = re.compile(r'"?sep=(.)"?')  # a first line for Excel alone
# a row has to fit into a block
_BATCH_ROWS = 8192
_BLOCK_BYTES = 2**25
_BYTE_ORDER_MARK = "\ufeff"
_BETWEEN_WORDS = ";"  # of lists in JSON, which become cells
_QUOTES = "a closing quote for each opening one"
_LONGEST_HEAD = 2**20
_LARGE_SHARE = 0.2


@dataclass(frozen=True)
class TableFile:
    """A table in a file, or its rows of one split."""

    path: Path  # its ending says what it is: .csv, .csv.gz, .tsv, .parquet, .feather or .arrow
    name: str  # of the setting that names it, for messages
    encoding: str = UTF_8  # of a file of text that is not UTF-8, see `read_in`
    # `comma` where numbers read 3,5; None where nobody said it, as with the other two
    decimal: str | None = None
    thousands: str | None = None  # what stands between thousands
    missing: tuple[str, ...] = ()  # words that are missing cells, beside `MISSING_WORDS`
    # the column that says which split a row is of, where there are several
    split: str | None = None
    part: str | None = None  # the split whose rows are meant then
    # of dates such as 04.03.2024, see `Spelling`; None where nobody said it
    date_order: str | None = None
    first_year: int | None = None  # the earliest year that two digits mean
    # Columns whose lists in JSON stay lists, as the text of one; in others their words are joined, and are one cell.
    whole_lists: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.spelling().require(self._setting)
        require_encoding(self._setting("encoding"), self.encoding)

    def spelling(self, known: Spelling = USUAL) -> Spelling:
        """How its cells are spelled: as settings say, and as is known where they say nothing."""
        decimal = self.decimal or {".": "comma", ",": "point"}.get(
            self.thousands or "", known.decimal
        )
        is_same = (
            known.thousands
            if decimal == known.decimal and self.thousands is None
            else self.thousands
        )
        date_order = self.date_order or known.date_order
        first_year = known.first_year if self.first_year is None else self.first_year
        return Spelling(decimal, is_same, self.missing or known.missing, date_order, first_year)

    def rows(self, columns: list[str] | None = None) -> Iterator[tuple[NDArray[np.int64], Any]]:
        """Yields tables as `batches` does, of the rows that are meant, with their numbers; raises where there are none.

        Numbers are those of the rows in the file, from 0. Public rows are numbered among public rows: where others
        stand in the same file, neither a published number nor an error's depends on how many there are.
        """
        rows_read = 0
        rows_meant = 0
        if self.split is not None:
            require_column("data.split", self.split, self._all_names, self.name)
            wanted_columns = columns or self.names
            columns = list(dict.fromkeys([*wanted_columns, self.split]))
        for batch in self.batches(columns):
            numbers = np.arange(rows_read, rows_read + batch.num_rows)
            rows_read += batch.num_rows
            if self.split is not None:
                split_words = as_texts(batch.column(self.split)).to_numpy(zero_copy_only=False)
                if (strange := ~np.isin(split_words, SPLITS)).any():
                    rule = (
                        f"private, public or test, row {numbers[strange][0] + 1} has something else"
                    )
                    raise InvalidValue("data.split", self.split, rule=rule)
                mine = split_words == self.part
                batch = batch.select(wanted_columns).filter(arrow().array(mine))
                numbers = numbers[mine]
            if self.part == "public":
                numbers = np.arange(rows_meant, rows_meant + batch.num_rows)
            rows_meant += batch.num_rows
            if batch.num_rows:
                yield numbers, batch
        if rows_meant == 0:
            rule = (
                "at least one row" if self.split is None else f"rows with {self.split}={self.part}"
            )
            raise InvalidValue(self.name, rule=f"{rule}, the table has none")

    def read(self, columns: list[str] | None = None) -> Any:
        """Reads the rows of this split, all or some of the columns, as one pyarrow table."""
        return arrow().concat_tables([table for _, table in self.rows(columns)])

    def batches(self, columns: list[str] | None = None) -> Iterator[Any]:
        """Tables of some thousand rows, all or some of the columns, in order; at least one, which may have no row.

        The cells of a CSV file are words as they stand there, null where they are one of `MISSING_WORDS`. What is wrong
        with a file, such as names that occur twice or rows of another length, is said without any cell.
        """
        pa = arrow()
        kind = self._kind
        try:
            yield from {"csv": self._csv, "json": self._json}.get(kind, self._binary)(columns)
        except UnicodeError as error:
            raise self._wrong_encoding() from error
        # pyarrow shows cells, which stay unsaid
        except (pa.ArrowException, EOFError, gzip.BadGzipFile) as error:
            if re.search("UTF-?8", str(error)):
                raise self._wrong_encoding() from None
            rule = f"a whole {kind} file{f', with {_QUOTES}' * (kind == 'csv')}"
            raise self._wrong(rule) from None
        except OSError as error:
            raise self._wrong(
                f"a file that can be read ({error.strerror or 'damaged, or of another kind'})"
            ) from None

    def _wrong(self, rule: str, *, hint: str = "") -> InvalidValue:
        return InvalidValue(self.name, self.path, rule=rule, hint=hint)

    @cached_property
    def read_in(self) -> str:
        """The encoding that a file of text is read in: `encoding`, unless the file's own bytes say UTF-8 or UTF-16."""
        encoding = encoding_of(self.path, self.encoding)
        if encoding != UTF_8 and mixed_lines(self.path, encoding).mostly_utf_8:
            raise self._wrong_encoding()
        return encoding

    def encoding_remark(self) -> str | None:
        """Returns a line for the owner where the file is not read in UTF-8, or not in the encoding that is named."""
        if not self.is_text:
            return None
        if self.read_in == UTF_8:
            return None if self.encoding == UTF_8 else f"{self.name}: read in UTF-8, which it is in"
        lines = mixed_lines(self.path, self.read_in)
        doubt = (
            f"; {lines.utf_8} of its lines beyond ASCII could be UTF-8, too" if lines.utf_8 else ""
        )
        if count := lines_of_another_page(self.path, self.read_in):
            doubt += f"; {count} of its lines have signs within words, as text in mac-roman or cp850 has when it is "
            doubt += "read so; see how names look, and name its encoding"
        return f"{self.name}: read in {self.read_in}, as it is not in UTF-8{doubt}"

    def _wrong_encoding(self) -> InvalidValue:
        """Returns what to raise for text that is not in the encoding that was expected, with the way out."""
        lines = mixed_lines(self.path, self.encoding)
        if lines.mostly_utf_8:
            total = lines.utf_8 + lines.others
            return self._wrong(
                f"text in one encoding, {lines.utf_8} of {total} lines beyond ASCII are UTF-8 and "
                f"line {lines.first_other} is the first that is not: mend these lines in the file"
            )
        encoding = self._likely_utf_16
        if encoding is not None and encoding != self.encoding:
            found = "it looks like UTF-16 without a byte-order mark"
            rule = f"text in {self.encoding}, and {found}: {self._setting('encoding')}={encoding}"
            return self._wrong(rule)
        hint = (
            f"name its encoding: {self._setting('encoding')}=latin-1 or utf-16, say, of old "
            "programs mac-roman or cp850; files in UTF-8 beside it are read as such"
        )
        return self._wrong(f"text in {self.encoding}", hint=hint)

    @property
    def _no_nul_rule(self) -> str:
        encoding = self._likely_utf_16 or "utf-16-le"
        return f"text in UTF-16 with {self._setting('encoding')}={encoding}, or else text without NUL bytes"

    @property
    def _likely_utf_16(self) -> str | None:
        with opened(self.path) as file:
            return likely_utf_16(file.read(_LONGEST_HEAD))

    @cached_property
    def names(self) -> list[str]:  # of all columns but that of splits
        """The names of all columns but the one that says which split a row is in."""
        return [name for name in self._all_names if name != self.split]

    @cached_property
    def _all_names(self) -> list[str]:
        return list(next(self.batches()).column_names)

    @property
    def ending(self) -> str:  # .csv, or .csv.gz
        """The file's ending with its point, such as `.csv` or `.csv.gz`."""
        return "".join(
            self.path.suffixes[-2:] if self.path.suffix == ".gz" else self.path.suffixes[-1:]
        )

    @property
    def is_text(self) -> bool:
        """True where the file holds cells as text (CSV, JSON), rather than typed values."""
        return self._kind in ("csv", "json")

    @property
    def _kind(self) -> str:
        kind = _KINDS.get(self.ending.lower().removesuffix(".gz"))
        rule = f"a file that is there and ends in {', '.join(_KINDS)} or .csv.gz; a spreadsheet is saved as .csv first"
        require(kind is not None and self.path.is_file(), self.name, self.path, rule)
        return str(kind)

    def head(self) -> tuple[list[str], str, int, int]:
        """Of a CSV file the names, each once, the separator, the lines above, and how many columns have no name."""
        skipped = 0
        separator = ""
        with self._opened(newline="") as text:
            line = text.readline().removeprefix("\ufeff")
            while line and ((found := _SAYS_SEPARATOR.fullmatch(line.strip())) or not line.strip()):
                separator = found[1] if found else separator
                line = text.readline()
                skipped = skipped + 1
            require(
                bool(line),
                self.name,
                self.path,
                "a line of names and rows below it, and the file is empty",
            )
            while line.count('"') % 2 and len(line) < _LONGEST_HEAD and (more := text.readline()):
                line += more  # a name with a line break
        if "\0" in line:
            raise self._wrong(self._no_nul_rule)
        require(line.count('"') % 2 == 0, self.name, self.path, _QUOTES)
        separator = separator or max(_SEPARATORS, key=re.sub(r'"[^"]*"', "", line).count)
        names = [
            column_name(name)
            for name in next(csv.reader(io.StringIO(line, newline=""), delimiter=separator))
        ]
        num_names = len(names)
        while num_names > 1 and not names[num_names - 1].strip():
            num_names -= 1
        require_columns(self.name, names[:num_names])
        return names[:num_names], separator, skipped, len(names) - num_names

    def _json(self, columns: list[str] | None) -> Iterator[Any]:
        """Lines of JSON: an object each, whose fields are columns; lists of words become one cell each.

        A field that an object lacks is missing there, wherever in the file it first occurs.
        """
        pa = arrow()
        names = self._json_names
        plain = list(map(column_name, names))
        require_columns(self.name, plain)
        require(
            len(names) > 0, self.name, self.path, "a line for each record, and the file is empty"
        )
        wanted_names = [name for name in names if columns is None or column_name(name) in columns]
        wanted_plain = list(map(column_name, wanted_names))

        def cell(value: Any, column: str) -> str | None:
            if isinstance(value, list):
                if column in self.whole_lists:
                    return json.dumps(value, ensure_ascii=False)
                return _BETWEEN_WORDS.join(map(str, value))
            plain = int(value) if isinstance(value, bool) else value
            word = json.dumps(value) if isinstance(value, dict) else str(plain)
            return None if word in MISSING_WORDS else word

        for rows in self._json_rows():
            arrays = []
            for name, column in zip(wanted_names, wanted_plain, strict=True):
                arrays.append(pa.array([cell(row.get(name), column) for row in rows], pa.string()))
            yield pa.table(arrays, names=wanted_plain).select(columns or wanted_plain)

    @cached_property
    def _json_names(self) -> list[str]:
        """The fields of all lines of JSON, in the order in which they first occur."""
        names = dict[str, None]()
        for rows in self._json_rows():
            for row in rows:
                names.update(dict.fromkeys(row))
        return list(names)

    def _json_rows(self) -> Iterator[list[dict[str, Any]]]:
        """The objects of some thousand lines at a time; empty lines and byte-order marks are passed over."""
        with self._opened() as text:
            while lines := list(islice(text, _BATCH_ROWS)):
                rows = []
                for line in lines:
                    content = line.strip().lstrip(_BYTE_ORDER_MARK)
                    if not content:
                        continue
                    try:
                        row = json.loads(content)
                    except (ValueError, RecursionError) as error:
                        if "\0" in content:
                            raise self._wrong(self._no_nul_rule) from None
                        raise self._wrong(
                            f"an object of JSON in each line ({type(error).__name__})"
                        ) from None
                    if not isinstance(row, dict):
                        raise self._wrong(
                            f"an object of JSON in each line, and one holds a {type(row).__name__}"
                        )
                    rows.append(row)
                yield rows

    def _csv(self, columns: list[str] | None) -> Iterator[Any]:
        pa = arrow()
        (names, separator, skipped, unnamed) = self.head()
        from pyarrow import csv as arrow_csv

        places = list(map(str, range(len(names) + unnamed)))
        # rows with more or fewer cells, which are left out
        count = 0
        broken = list[int]()

        def leave_out(row: Any) -> str:
            broken.append((row.number or 0) - skipped - 1)
            return "skip"

        read = arrow_csv.ReadOptions(
            use_threads=False, block_size=_BLOCK_BYTES, encoding=self.read_in
        )
        read.column_names = places
        read.skip_rows = skipped
        read.skip_rows_after_names = 1  # the names, which may have line breaks
        parse = arrow_csv.ParseOptions(
            delimiter=separator, newlines_in_values=True, invalid_row_handler=leave_out
        )
        texts = dict.fromkeys(places, pa.string())
        convert = arrow_csv.ConvertOptions(
            column_types=texts, null_values=[*MISSING_WORDS], strings_can_be_null=True
        )
        source = pa.input_stream(str(self.path), compression="detect")
        # before a block is read
        yield pa.table({name: pa.array([], pa.string()) for name in columns or names})
        with arrow_csv.open_csv(
            source, read_options=read, parse_options=parse, convert_options=convert
        ) as blocks:
            for batch in (
                block_rows.slice(at, _BATCH_ROWS)
                for block_rows in blocks
                for at in range(0, len(block_rows), _BATCH_ROWS)
            ):
                for column in batch.columns:
                    has_nul = pa.compute.any(pa.compute.match_substring(column, "\0")).as_py()
                    if has_nul:  # the rule reads the file once more
                        raise self._wrong(self._no_nul_rule)
                if any(column.null_count < len(column) for column in batch.columns[len(names) :]):
                    raise self._wrong(
                        "a name for each column, one at the end has cells and no name"
                    )
                count += batch.num_rows
                yield pa.table(batch.columns[: len(names)], names=names).select(columns or names)
                # else it keeps several times what is in use
                pa.default_memory_pool().release_unused()
        if broken:
            ragged = f"{len(broken)} of {count + len(broken)} rows have more or fewer, row {broken[0]} is the first"
            raise self._wrong(
                f"{len(places)} cells in every row, as in the line of names, {ragged}"
            )

    def _binary(self, columns: list[str] | None) -> Iterator[Any]:
        pa = arrow()
        from pyarrow import ipc, parquet

        with ExitStack() as stack:
            if self._kind == "parquet":
                # else it holds all that it will read
                source = parquet.ParquetFile(self.path, pre_buffer=False)
                stack.enter_context(source)
                schema = source.schema_arrow
            else:
                source = stack.enter_context(pa.memory_map(str(self.path)))
                try:
                    file = ipc.open_file(source)
                    batches = (file.get_batch(index) for index in range(file.num_record_batches))
                except pa.ArrowInvalid:
                    source.seek(0)
                    batches = file = ipc.open_stream(source)
                schema = file.schema
            plain = list(map(column_name, schema.names))
            require_columns(self.name, plain)
            wanted_columns = columns or plain
            called = dict(zip(plain, schema.names, strict=True))
            file_names = [called[name] for name in wanted_columns]  # as the file calls them
            if self._kind == "parquet":
                batches = source.iter_batches(_BATCH_ROWS, columns=file_names)
            yield schema.empty_table().select(file_names).rename_columns(wanted_columns)
            for batch in batches:
                yield (
                    pa.Table.from_batches([batch]).select(file_names).rename_columns(wanted_columns)
                )
                # else it keeps several times what is in use
                pa.default_memory_pool().release_unused()

    def _setting(self, name: str) -> str:
        """What a setting of the file is called: of pate-train, whose files are below `data`, or of other commands."""
        return f"data.{name}" if "." in self.name else name

    def _opened(self, newline: str | None = None) -> Any:
        opened = gzip.open if self.path.suffix == ".gz" else open
        # else a byte-order mark is a character
        encoding = "utf-8-sig" if self.read_in == UTF_8 else self.read_in
        return opened(self.path, "rt", encoding=encoding, newline=newline)


@dataclass(frozen=True)
class Dealing:
    """Which rows of a file go where. It depends on the seed and on which rows are of one group, and on nothing else."""

    file: TableFile  # all records
    # the column that says which rows belong together; None where each row is by itself
    group: str | None
    public_share: float  # of the groups that become public, at least one
    test_share: float  # of those that measure, at least one; the others are private
    seed: int = 0  # of the order in which groups are dealt

    def __post_init__(self) -> None:
        require_count("seed", self.seed, minimum=0)
        shares = self.public_share, self.test_share
        rule = "two shares above 0, of the public and the test part, that leave a private one: split=.1,.1"
        require(min(shares) > 0 and sum(shares) < 1, "split", f"{shares[0]},{shares[1]}", rule)

    def write(self, folder: Path) -> dict[str, Path]:
        """Writes the parts as files of the same kind, which may not be there yet; rows keep their order."""
        paths = {split: folder / f"{split}{self.file.ending}" for split in SPLITS}
        for path in paths.values():
            require(
                not path.exists(),
                "output",
                path,
                "a folder without such a file, which is kept as it is",
            )
        part_of_row = self.part_of_row()
        # joined ones would be split elsewhere
        file = replace(self.file, whole_lists=tuple(self.file.names))
        with ExitStack() as stack:
            writers = [stack.enter_context(_writer(file, paths[split])) for split in SPLITS]
            for numbers, batch in file.rows():
                for place, write in enumerate(writers):
                    write(batch.filter(arrow().array(part_of_row[numbers] == place)))
        return paths

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """The number of each row's group, `[n]`; without a group column, each row is one."""
        name = self.group
        spelling = self.file.spelling()
        if name is not None:
            require_column("group", name, self.file.names, "data")
        tables = (table for _, table in self.file.rows([name or self.file.names[0]]))
        column = arrow().chunked_array(
            [as_texts(with_missing(table, spelling).column(0)) for table in tables]
        )
        if name is None:
            return np.arange(len(column), dtype=np.int64)
        rule = f"a value in each row, {column.null_count} of {len(column)} rows have none"
        require(column.null_count == 0, "group", name, rule)
        return People.of([column], spelling).merged_by_looks()[0]

    def part_of_row(self) -> NDArray[np.int64]:
        """The place in `SPLITS` of each row, `[n]`."""
        total = int(self.groups.max()) + 1
        shares = (self.public_share, self.test_share)
        public, test = (max(round(share * total), 1) for share in shares)
        require(
            total > public + test,
            "split",
            f"{shares[0]},{shares[1]}",
            f"more than {total} groups of rows",
        )
        # in the order that they are dealt
        part_of_group = np.repeat([1, 2, 0], [public, test, total - public - test])
        return part_of_group[np.argsort(np.random.default_rng(self.seed).permutation(total))][
            self.groups
        ]

    def largest(self) -> str | None:
        """A line where one group has a large part of all rows."""
        counts = np.bincount(self.groups)
        if len(counts) < len(SPLITS) / _LARGE_SHARE or counts.max() < _LARGE_SHARE * counts.sum():
            return None
        return f"group={self.group}: one has {counts.max()} of {counts.sum()} rows, all of which are in one part"


@contextmanager
def _writer(file: TableFile, path: Path) -> Iterator[Callable[[Any], None]]:
    """Writes tables to a file as another is written, which has the same columns."""
    pa = arrow()
    first = next(file.batches())
    with replacing(path) as out:
        if not file.is_text:
            from pyarrow import ipc, parquet

            binary = parquet.ParquetWriter if path.suffix in (".parquet", ".pq") else ipc.new_file
            with binary(pa.PythonFile(out, mode="w"), first.schema) as writer:
                yield writer.write_table
            return
        packed = gzip.GzipFile(fileobj=out, mode="wb", mtime=0) if path.suffix == ".gz" else out
        text = io.TextIOWrapper(packed, file.read_in, newline="")
        if file.ending.removesuffix(".gz").lower() in (".jsonl", ".ndjson"):
            yield lambda table: text.writelines(
                json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()
            )
        else:
            rows = csv.writer(text, delimiter=file.head()[1], lineterminator="\n")
            rows.writerow(first.column_names)
            yield lambda table: rows.writerows(
                zip(*(column.to_pylist() for column in table.columns), strict=True)
            )
        text.flush()
        text.detach()
        if packed is not out:
            packed.close()
