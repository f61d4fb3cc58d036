"""CSV files have no cell that a spreadsheet would run as a formula, whatever a name or a label contains."""

import csv
import io

import pytest

from pate.files.spreadsheet import row_writer

FORMULAS = [
    "=cmd|'/c calc'!A0",
    "+1+cmd",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(A1:A9)",
    "-",
    "-1:00",
    "\uff1d1+1",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "  =1+1",
    "\u00a0=1+1",
]


def written_cells(row: list[object]) -> list[str]:
    """Returns the cells of one row after it was written and read back."""
    file = io.StringIO()
    write_row = row_writer(file)
    write_row(row)
    (cells,) = csv.reader(io.StringIO(file.getvalue(), newline=""))
    return cells


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_gets_an_apostrophe(formula: str) -> None:
    """A text that a spreadsheet would run as a formula is written with an apostrophe in front."""
    assert written_cells(row=[formula]) == [f"'{formula}"]


def test_texts_and_numbers_are_written_as_they_are() -> None:
    """Texts, negative numbers and truth values are written unchanged; None is an empty cell."""
    texts = ["flu", "a=b", "-5", "-0.25", "+1.5e-3", "'=x", "", "patient-7"]
    assert written_cells(row=[*texts, -5, -0.5, None, True]) == [*texts, "-5", "-0.5", "", "True"]
