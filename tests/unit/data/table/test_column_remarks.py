"""Remarks for the owner on columns: forgotten groups, codes, and columns that tell a model nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import Table
from tests.refusals import refused_parameter
from tests.unit.data.table.frames import people_frames, write_frames
from tests.unit.data.table.small_table import write_lines

pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")


@pytest.mark.parametrize("are_words", [False, True])
def test_missing_group_setting_yields_a_remark(tmp_path: Path, are_words: bool) -> None:
    """A column of students has 21 values in 60 rows, and no group is set: a remark names the column.

    With `group=student`, or the column dropped, there is no such remark.
    """
    frames = people_frames()
    for frame in frames.values():
        students = frame["person"] // 3 * 113 + 34
        frame["student"] = [f"S{number}" for number in students] if are_words else students
    table = write_frames(folder=tmp_path, frames=frames)
    key, rows = replace(table, group=None, drop=("person",)).load().notes
    assert key.startswith(
        "student: 21 values in 60 rows, which become features and are published; data.group=student"
    )
    assert "each row by itself is protected" in rows
    assert replace(table, group="student", drop=("person",)).load().notes == ()
    assert len(replace(table, group=None, drop=("person", "student")).load().notes) == 1


@pytest.fixture(scope="module")
def usual() -> dict[str, Any]:
    """Returns frames of 120 rows that differ only in the person."""
    rows = np.arange(120)
    public = people_frames(rows_per_split=120)["public"].assign(
        weight=np.linspace(40, 120, 120), day=[f"2024-01-{1 + row % 30:02}" for row in rows], one=1
    )
    return {
        split: public.assign(person=frame["person"])
        for split, frame in people_frames(rows_per_split=120).items()
    }


def columns_remarked_on(folder: Path, frames: dict[str, Any]) -> list[str]:
    """Returns the columns of test records for which a remark states that they carry no information."""
    notes = replace(write_frames(folder=folder, frames=frames), drop=("age",)).load().notes
    rule = "every cell is missing, or no"
    return [note.split(":")[0].removeprefix("data.test.") for note in notes if rule in note]


LOST = {
    "other words and no cells": ({"ward": "B", "weight": np.nan}, ["ward", "weight"]),
    "grams, and later days": ({"weight": 50_000.0, "day": "2024-02-01"}, ["weight", "day"]),
    "tons, and another flag": ({"weight": 0.05, "one": 2}, ["weight", "one"]),
}


@pytest.mark.parametrize("case", LOST)
def test_column_without_known_cells_yields_a_remark(
    tmp_path: Path, usual: dict[str, Any], case: str
) -> None:
    """In some columns of the test records, no cell is a number or category that the public records have.

    The remarks name these columns.
    """
    cells, columns = LOST[case]
    test = usual["test"].copy()
    for column, cell in cells.items():
        test[column] = cell
    assert columns_remarked_on(folder=tmp_path, frames=usual | {"test": test}) == columns


@pytest.mark.slow
def test_column_with_one_known_cell_yields_no_remark(tmp_path: Path, usual: dict[str, Any]) -> None:
    """Usual columns, a column with one known word, and numbers at the ends of the public range give no remark."""
    assert columns_remarked_on(folder=tmp_path, frames=usual) == []
    one_known = usual["test"].assign(ward=["b"] + ["B"] * 119)
    assert columns_remarked_on(folder=tmp_path, frames=usual | {"test": one_known}) == []
    at_ends = usual["test"].assign(weight=[40.0] * 60 + [120.0] * 60)
    assert columns_remarked_on(folder=tmp_path, frames=usual | {"test": at_ends}) == []


def test_fewer_than_100_records_yield_no_remark(tmp_path: Path, usual: dict[str, Any]) -> None:
    """Two columns are empty in all of 99 test records. So few records give no remark."""
    test = usual["test"].assign(ward=None, weight=None)[:99]
    assert columns_remarked_on(folder=tmp_path, frames=usual | {"test": test}) == []


def write_rows(folder: Path, head: str, rows: list[str]) -> Table:
    """Writes the same rows into three files, and returns their reader with the label `ill`."""
    for split in ("private", "public", "test"):
        (folder / f"{split}.csv").write_text("\n".join([head, *rows, ""]))
    return Table(
        private=str(folder / "private.csv"),
        public=str(folder / "public.csv"),
        test=str(folder / "test.csv"),
        labels=("ill",),
    )


def test_group_column_missing_in_a_file_is_refused(tmp_path: Path) -> None:
    """The public file lacks the group's column, which is refused.

    A user who dropped the column would protect single rows and not persons.
    """
    table = write_rows(folder=tmp_path, head="who,age,ill", rows=["x,3,1", "y,4,0"])
    (tmp_path / "public.csv").write_text("age,ill\n3,1\n4,0\n")
    with refused_parameter("data.group", value="who"):
        replace(table, group="who").load()


def test_one_refusal_names_all_columns_that_cannot_be_features(tmp_path: Path) -> None:
    """Two columns have a different word in each row. One refusal names both in `data.drop`."""
    rows = [f"name {row},{row},note {row * 7},1" for row in range(200)]
    with refused_parameter("data.public.name", rule_words="'data.drop=[name,note]' leaves"):
        write_rows(folder=tmp_path, head="name,age,note,ill", rows=rows).load()


def test_numbers_with_leading_zeros_yield_a_remark_on_codes(tmp_path: Path) -> None:
    """A column of numbers with leading zeros gives a remark that names `data.category`.

    With this setting there are two other remarks.
    """
    table = write_rows(folder=tmp_path, head="zip,age,ill", rows=["01067,3,1", "53111,4,0"])
    remark = table.public_remarks()[0]
    assert remark.startswith(
        "zip: numbers with a zero in front; if they are codes, 'data.category=[zip]' makes each"
    )
    remarks = replace(table, category=("zip",)).public_remarks()
    assert len(remarks) == 2  # on units, and on the group


def test_column_of_distinct_numbers_yields_a_remark(tmp_path: Path) -> None:
    """A public column has a different number in each row. A remark proposes the column as `data.id`."""
    rows = [f"{7000 + row},{row % 9},{row / 2},{'ab'[row % 2]},{row % 2}" for row in range(40)]
    public = write_lines(
        path=tmp_path / "public.csv", head="contract,age,price,sex,ill", lines=rows
    )
    (line,) = Table(public=public, labels=("ill",), group="sex").public_remarks()
    assert line.startswith(
        "contract: another number in each row; if it is the number of a record, data.id=contract "
    )
