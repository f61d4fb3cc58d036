"""Remarks for the owner of data on columns: a forgotten group, codes, and columns without information."""

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
    """A remark names a column with 21 values in 60 rows as a possible group, if no group is set.

    With `group=student`, or if the column is dropped, there is no such remark.
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
    """Returns frames of 120 rows for each split, which differ only in the column of persons."""
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
    rule = "every cell is missing, or has no known word"
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
    """Remarks name the columns in which no test record has a number in the public range, or a public category."""
    cells, columns = LOST[case]
    test = usual["test"].copy()
    for column, cell in cells.items():
        test[column] = cell
    assert columns_remarked_on(folder=tmp_path, frames=usual | {"test": test}) == columns


@pytest.mark.slow
def test_column_with_one_known_cell_yields_no_remark(tmp_path: Path, usual: dict[str, Any]) -> None:
    """A column with one known word, or with numbers at the ends of the public range, yields no remark.

    Columns with the usual cells yield none either.
    """
    assert columns_remarked_on(folder=tmp_path, frames=usual) == []
    one_known = usual["test"].assign(ward=["b"] + ["B"] * 119)
    assert columns_remarked_on(folder=tmp_path, frames=usual | {"test": one_known}) == []
    at_ends = usual["test"].assign(weight=[40.0] * 60 + [120.0] * 60)
    assert columns_remarked_on(folder=tmp_path, frames=usual | {"test": at_ends}) == []


def test_fewer_than_100_records_yield_no_remark(tmp_path: Path, usual: dict[str, Any]) -> None:
    """Two columns that are empty in all test records yield no remark if there are only 99 records."""
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
    """A public file that lacks the column of the group is refused.

    A user who then dropped the column would protect single rows and not persons.
    """
    table = write_rows(folder=tmp_path, head="who,age,ill", rows=["x,3,1", "y,4,0"])
    (tmp_path / "public.csv").write_text("age,ill\n3,1\n4,0\n")
    with refused_parameter("data.group", value="who"):
        replace(table, group="who").load()


def test_one_refusal_names_all_columns_that_cannot_be_features(tmp_path: Path) -> None:
    """One refusal names, in `data.drop`, both columns that have a different word in each row."""
    rows = [f"name {row},{row},note {row * 7},1" for row in range(200)]
    with refused_parameter("data.public.name", rule_words="'data.drop=[name,note]' leaves"):
        write_rows(folder=tmp_path, head="name,age,note,ill", rows=rows).load()


def test_numbers_with_leading_zeros_yield_a_remark_on_codes(tmp_path: Path) -> None:
    """A remark on a public column of numbers with leading zeros proposes the setting `data.category`.

    If that setting names the column, only two other remarks are left: that `age` has no more than two different
    numbers, and that `data.group` names no column.
    """
    table = write_rows(folder=tmp_path, head="zip,age,ill", rows=["01067,3,1", "53111,4,0"])
    remark = table.public_remarks()[0]
    assert remark.startswith(
        "zip: numbers with a zero in front; if they are codes, 'data.category=[zip]' makes each"
    )
    remarks = replace(table, category=("zip",)).public_remarks()
    assert len(remarks) == 2


def test_column_of_distinct_numbers_yields_a_remark(tmp_path: Path) -> None:
    """A remark proposes a public column as `data.id` if it has a different number in each row."""
    rows = [f"{7000 + row},{row % 9},{row / 2},{'ab'[row % 2]},{row % 2}" for row in range(40)]
    public_path = write_lines(
        path=tmp_path / "public.csv", head="contract,age,price,sex,ill", lines=rows
    )
    (line,) = Table(public=public_path, labels=("ill",), group="sex").public_remarks()
    assert line.startswith(
        "contract: another number in each row; if it is the number of a record, data.id=contract "
    )
