"""Rows of a CSV file as pyarrow tables of words.

This module reads the head of the file: the line of names, the separator, and the lines above. The library pyarrow reads
the rows. The library pandas is not used, because it completes rows that have too few cells, and invents names for
columns without a name or with the name of another column.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from pate.data.table.arrow import import_pyarrow
from pate.data.table.column_names import column_name, require_columns
from pate.data.table.source_file import BATCH_ROWS, MISSING_WORDS, SourceFile

QUOTES_RULE = "a closing quote for each opening one"
"""The rule that a CSV file with an open quotation mark violates."""

# The candidates for the separator of cells. The most frequent one is taken, and of several the first.
_SEPARATORS = (",", ";", "\t", "|")
# A first line that tells only Excel the separator.
_EXCEL_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?')
# The number of bytes that pyarrow parses at once. A row has to fit into such a block.
_BLOCK_BYTES = 2**25
# The number of characters from which on a line of names with an open quotation mark is not continued.
_MAX_HEAD = 2**20
_BYTE_ORDER_MARK = "\ufeff"


class CsvHead(NamedTuple):
    """The head of a CSV file: the line with the names of the columns, and what it says of the file.

    Attributes:
        column_names: the distinct names of the columns.
        separator: the character between two cells.
        num_lines_above: the number of lines above the line with the names: empty ones, and one such as sep=; for Excel.
        num_unnamed: the number of columns without a name at the end of a row, whose cells must be empty.
    """

    column_names: list[str]
    separator: str
    num_lines_above: int
    num_unnamed: int


def read_head(source_file: SourceFile) -> CsvHead:
    """Returns the names of the columns and the separator of a CSV file, from its first lines.

    The separator is the most frequent one of , ; | and tab in the line of names, unless a line such as sep=; names it.

    Raises:
        InvalidValue: the file is empty, its head has a NUL byte, a quotation mark is not closed, two columns have the
            same name, or a column before the last named one has none.
    """
    num_lines_above = 0
    separator = ""
    with source_file.open_text(newline="") as text:
        line = text.readline().removeprefix(_BYTE_ORDER_MARK)
        while line and (not line.strip() or _EXCEL_SEPARATOR_LINE.fullmatch(line.strip())):
            if match := _EXCEL_SEPARATOR_LINE.fullmatch(line.strip()):
                separator = match[1]
            num_lines_above += 1
            line = text.readline()
        if not line:
            raise source_file.refusal("a line of names and rows below it, and the file is empty")
        # A name may have a line break within quotation marks.
        while line.count('"') % 2 and len(line) < _MAX_HEAD:
            next_line = text.readline()
            if not next_line:
                break
            line += next_line
    if "\0" in line:
        raise source_file.nul_refusal()
    if line.count('"') % 2:
        raise source_file.refusal(QUOTES_RULE)
    if not separator:
        unquoted = re.sub(r'"[^"]*"', "", line)
        separator = max(_SEPARATORS, key=unquoted.count)
    cells = next(csv.reader(io.StringIO(line, newline=""), delimiter=separator))
    names = list(map(column_name, cells))
    num_names = len(names)
    while num_names > 1 and not names[num_names - 1].strip():
        num_names -= 1
    require_columns(source_file.setting, column_names=names[:num_names])
    return CsvHead(
        column_names=names[:num_names],
        separator=separator,
        num_lines_above=num_lines_above,
        num_unnamed=len(names) - num_names,
    )


def csv_batches(source_file: SourceFile, column_names: list[str] | None) -> Iterator[Any]:
    """Yields the content of a CSV file as pyarrow tables of words. The first table has no rows.

    A cell that is one of `MISSING_WORDS`, such as an empty one or NA, is null. All other cells are unchanged.

    Args:
        source_file: the CSV file.
        column_names: the names of the columns to read; None for all columns.

    Raises:
        InvalidValue: rows have different lengths, a cell has a NUL byte, or a column without a name has a cell. Other
            damage raises an error of pyarrow.
    """
    pa = import_pyarrow()
    from pyarrow import csv as arrow_csv

    head = read_head(source_file)
    column_names = column_names or head.column_names
    # Columns are read under their numbers, because columns at the end may have no name.
    column_numbers_as_names = [
        str(number) for number in range(len(head.column_names) + head.num_unnamed)
    ]
    ragged_row_numbers: list[int] = []

    def skip_row(row: Any) -> str:
        row_number_below_names = (row.number or 0) - head.num_lines_above - 1
        ragged_row_numbers.append(row_number_below_names)
        return "skip"

    read_options = arrow_csv.ReadOptions(
        use_threads=False,
        block_size=_BLOCK_BYTES,
        encoding=source_file.read_in,
        column_names=column_numbers_as_names,
        skip_rows=head.num_lines_above,
        skip_rows_after_names=1,  # the line of names, which may have line breaks
    )
    parse_options = arrow_csv.ParseOptions(
        delimiter=head.separator, newlines_in_values=True, invalid_row_handler=skip_row
    )
    convert_options = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(column_numbers_as_names, pa.string()),
        null_values=[*MISSING_WORDS],
        strings_can_be_null=True,
    )
    # This table comes before a block is read, because names are asked for more often than rows.
    yield pa.table({name: pa.array([], pa.string()) for name in column_names})
    num_rows = 0
    source = pa.input_stream(str(source_file.path), compression="detect")
    with arrow_csv.open_csv(
        source,
        read_options=read_options,
        parse_options=parse_options,
        convert_options=convert_options,
    ) as blocks:
        for block in blocks:
            for first_row in range(0, len(block), BATCH_ROWS):
                batch = block.slice(first_row, BATCH_ROWS)
                _require_clean(source_file, batch, num_names=len(head.column_names))
                num_rows += batch.num_rows
                yield pa.table(
                    batch.columns[: len(head.column_names)], names=head.column_names
                ).select(column_names)
                # Otherwise pyarrow would keep several times the memory that is in use.
                pa.default_memory_pool().release_unused()
    if ragged_row_numbers:
        raise source_file.refusal(
            f"{len(column_numbers_as_names)} cells in every row, as in the line of names, {len(ragged_row_numbers)} of "
            f"{num_rows + len(ragged_row_numbers)} rows have more or fewer, row {ragged_row_numbers[0]} is the first"
        )


def _require_clean(source_file: SourceFile, batch: Any, num_names: int) -> None:
    """Raises `InvalidValue` if a cell has a NUL byte, or a column without a name has a cell.

    Args:
        source_file: the CSV file, for messages.
        batch: a pyarrow table of some rows.
        num_names: the number of columns that have a name; they come first.
    """
    compute = import_pyarrow().compute
    for column in batch.columns:
        if compute.any(compute.match_substring(column, "\0")).as_py():
            raise source_file.nul_refusal()
    if any(column.null_count < len(column) for column in batch.columns[num_names:]):
        raise source_file.refusal("a name for each column, one at the end has cells and no name")
