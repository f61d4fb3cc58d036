"""CSV files that people open in a spreadsheet: text of others in them is text, and no formula."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from typing import Any, TextIO

_STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # and their wide forms
_CONTROLS = ("\t", "\r", "\n")  # which a spreadsheet skips before it looks for a formula
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


class SpreadsheetRows:
    """Writes rows as CSV to a file that was opened with `newline=""`.

    What a spreadsheet would run as a formula has an apostrophe in front, which makes it text. A number is written as it
    is, also a negative one in a text; None is an empty cell.
    """

    def __init__(self, file: TextIO, line_end: str = "\r\n") -> None:
        self._writer = csv.writer(file, lineterminator=line_end)

    def write(self, row: Iterable[Any]) -> None:
        self._writer.writerow([f"'{cell}" if _is_formula(cell) else cell for cell in row])


def _is_formula(cell: Any) -> bool:
    if not isinstance(cell, str) or _NUMBER.fullmatch(cell):
        return False
    return cell.startswith(_CONTROLS) or cell.lstrip().startswith(_STARTS)
