"""A writer of CSV files in which no spreadsheet runs a cell as a formula."""

import csv
import re
from collections.abc import Callable, Iterable
from typing import Any, TextIO

# The beginnings of formulas, their full-width forms included. Spreadsheets skip control characters and blanks.
_FORMULA = re.compile(r"[\t\r\n]|\s*[-=+@\uff1d\uff0b\uff0d\uff20]")
# A number, whose sign is no beginning of a formula.
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def row_writer(open_file: TextIO, line_end: str = "\r\n") -> Callable[[Iterable[Any]], object]:
    """Returns a function that writes a row of cells as CSV.

    A text that a spreadsheet would run as a formula gets an apostrophe at its beginning. Numbers are written unchanged,
    and so are texts of numbers with a sign. None is an empty cell.

    Args:
        open_file: a text file, opened with `newline=""`.
        line_end: the end of each line.
    """
    writer = csv.writer(open_file, lineterminator=line_end)

    def write_row(row: Iterable[Any]) -> object:
        """Writes a row of cells."""
        return writer.writerow([f"'{cell}" if _is_formula(cell) else cell for cell in row])

    return write_row


def _is_formula(cell: Any) -> bool:
    """Returns True if a spreadsheet would run a cell as a formula."""
    return isinstance(cell, str) and bool(_FORMULA.match(cell)) and not _NUMBER.fullmatch(cell)
