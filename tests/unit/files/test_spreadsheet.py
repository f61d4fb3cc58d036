"""Text of others in a CSV file is text when a spreadsheet opens it."""

import csv
import io

import pytest

from pate.files.spreadsheet import SpreadsheetRows

FORMULAS = ["=cmd|'/c calc'!A0", "+1+cmd", "-2+3+cmd|' /C calc'!A0", "@SUM(A1:A9)", "-", "-1:00", "\uff1d1+1"]
FORMULAS += [f"{blank}=1+1" for blank in ("\t", "\r", "\n", "  ", "\u00a0")]


@pytest.mark.parametrize("cell", FORMULAS)
def test_a_cell_is_no_formula(cell: str) -> None:
    assert written(cell) == f"'{cell}"


def test_other_cells_numbers_and_none_are_as_csv_has_them() -> None:
    for cell in ("flu", "a=b", "-5", "-0.25", "+1.5e-3", "'=x", "", "patient-7"):
        assert written(cell) == cell
    file = io.StringIO()
    SpreadsheetRows(file, "\n").write([-5, -0.5, None, True])
    assert file.getvalue() == "-5,-0.5,,True\n"


def written(cell: str) -> str:
    file = io.StringIO()
    SpreadsheetRows(file).write([cell, "other"])
    (row,) = csv.reader(io.StringIO(file.getvalue(), newline=""))
    return row[0]
