"""Rows of CSV files in which a spreadsheet finds no formula."""

import csv
import re
from collections.abc import Callable, Iterable
from typing import Any, TextIO

# the wide forms, too; controls are skipped there
_FORMULA = re.compile(r"[\t\r\n]|\s*[-=+@\uff1d\uff0b\uff0d\uff20]")

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def row_writer(file: TextIO, line_end: str = "\r\n") -> Callable[[Iterable[Any]], object]:
    """Writes rows as CSV to a file that was opened with `newline=""`: what a spreadsheet would run is text there.

    Such a text has an apostrophe in front. A number is written as it is, also a negative one in a text; None is empty.
    """

    def is_formula(cell: Any) -> bool:
        return isinstance(cell, str) and bool(_FORMULA.match(cell)) and not _NUMBER.fullmatch(cell)

    writer = csv.writer(file, lineterminator=line_end)
    return lambda row: writer.writerow([f"'{cell}" if is_formula(cell) else cell for cell in row])
