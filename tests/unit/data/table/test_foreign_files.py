"""Tables as other programs write them: decimal commas, UTF-16, an index, spreadsheets, yes and no."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import ImageFolder, Table
from pate.data.table.files import TableFile
from pate.files.arrays import Spilled
from pate.validation import InvalidValue

pytest.importorskip("pyarrow")

HEAD = "age;town;ill;well"
ROWS = {
    "private": ["20.5;Aachen, Stadt;yes;No", "31;Bonn;no;YES", "40.25;Bonn;TRUE;false"],
    "public": ["20.5;Bonn;1;0", "50.5;Aachen, Stadt;0;1", "30;Bonn;0;1"],
    "test": ["25.5;Bonn;y;0"],
}


def written(folder: Path, *, comma: bool = False, encoding: str = "utf-8", **rows: list[str]) -> dict[str, Any]:
    """Three files and their settings."""
    settings: dict[str, Any] = {"labels": ["ill", "well"]}
    for name, lines in {**ROWS, "test": ["25.5;Bonn;1;0"], **rows}.items():
        text = "\n".join([HEAD, *lines, ""])
        (folder / f"{name}.csv").write_text(text.replace(".", ",") if comma else text, encoding=encoding)
        settings[name] = str(folder / f"{name}.csv")
    return settings


def test_yes_and_no_are_labels_and_other_words_are_not(tmp_path: Path) -> None:
    labels = Table(**written(tmp_path)).load().private.labels
    assert labels.tolist() == [[True, False], [False, True], [True, False]]
    line = r"^data\.test\.ill: expected 0 or 1 in a label's column, 1 of 1 rows .*; yes and no, true and false"
    with pytest.raises(InvalidValue, match=line):
        Table(**written(tmp_path, test=ROWS["test"])).load()


def test_a_decimal_comma_is_read_where_a_setting_says_so(tmp_path: Path) -> None:
    wanted = Table(**written(tmp_path)).load()
    settings = written(tmp_path, comma=True)
    found = Table(**settings, decimal="comma").load()
    assert np.array_equal(found.private.inputs, wanted.private.inputs)
    assert found.preprocessing == wanted.preprocessing  # "Aachen, Stadt" is no number and stays
    Table(**settings, decimal="comma").public_schema().write(tmp_path / "schema.yaml")
    alone = Table(**settings, decimal="comma", schema=str(tmp_path / "schema.yaml")).private_records()
    assert np.array_equal(alone.records.inputs, wanted.private.inputs)
    line = r"^data\.public\.age: expected numbers with a decimal point, these have a comma; data\.decimal=comma reads"
    with pytest.raises(InvalidValue, match=line):
        Table(**settings).load()
    with pytest.raises(InvalidValue, match=r"^data\.decimal=,: expected one of point, comma"):
        Table(**settings, decimal=",").load()
    with pytest.raises(InvalidValue, match=r"^decimal=,: expected one of point, comma"):
        TableFile(tmp_path / "test.csv", "data", decimal=",")
    mixed = written(tmp_path, private=[row.replace(".", ",") for row in ROWS["private"]])
    with pytest.raises(
        InvalidValue, match=r"^data\.private\.age: expected numbers .*; numbers such as 3,5 need data\.decimal=comma$"
    ):
        Table(**mixed).load()


def test_utf_16_is_named_and_read(tmp_path: Path) -> None:
    wanted = Table(**written(tmp_path)).load()
    settings = written(tmp_path, encoding="utf-16")
    with pytest.raises(
        InvalidValue, match=r"^data\.private=\S+: expected text in utf-8; name its encoding: data\.encoding=utf-16, say"
    ):
        Table(**settings).load()
    assert np.array_equal(Table(**settings, encoding="utf-16").load().private.inputs, wanted.private.inputs)
    with pytest.raises(
        InvalidValue, match=r"^data=\S+: expected text in utf-8; name its encoding: encoding=utf-16, say"
    ):
        next(TableFile(tmp_path / "test.csv", "data").batches())


def test_what_is_no_table_is_told_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "book.xlsx").write_bytes(b"PK")
    (tmp_path / "index.csv").write_text(",age\n0,3\n")
    for name, line in (
        ("book.xlsx", "expected a table: save the spreadsheet as .csv first"),
        (".", "expected a file, and this is a folder"),
        ("index.csv", r"expected a name for each column; .* left out by to_csv\(FILE, index=False\)"),
    ):
        with pytest.raises(InvalidValue, match=line):
            next(TableFile(tmp_path / name, "data").batches())


def test_one_file_for_two_splits_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = written(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidValue, match=r"^data\.public=private\.csv: expected another file than data\.private: "):
        Table(**settings | {"public": "private.csv"}).load()


def test_a_label_in_other_letters_is_a_mistake_not_one_that_the_public_file_lacks(tmp_path: Path) -> None:
    settings = written(tmp_path) | {"labels": ["Ill"]}
    with pytest.raises(InvalidValue, match=r"^data\.labels=Ill: expected a column of data\.public \(did you mean ill "):
        Table(**settings).public_schema()
    with pytest.raises(InvalidValue, match=r"^data\.labels=ill: expected a list of columns: data\.labels=\[ill\]$"):
        Table(**settings | {"labels": "ill"})


def test_numbers_of_records_are_told_from_other_numbers(tmp_path: Path) -> None:
    rows = [f"{7000 + row},{row % 9},{row / 2},{'ab'[row % 2]},{row % 2}" for row in range(40)]
    (tmp_path / "public.csv").write_text("\n".join(["contract,age,price,sex,ill", *rows]))
    (line,) = Table(public=str(tmp_path / "public.csv"), labels=("ill",), group="sex").public_remarks()
    assert line.startswith(
        "contract: another number in each row; if it is the number of a record, data.drop=[contract]"
    )


def test_a_large_table_is_the_same_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Table(**written(tmp_path)).load()
    monkeypatch.setattr("pate.data.table.rows.Spilled", partial(Spilled, 0))
    mapped = Table(**written(tmp_path)).load()
    assert isinstance(mapped.private.inputs, np.memmap)
    assert mapped.digest() == held.digest()


def test_pictures_that_are_not_there_are_told_from_broken_ones(tmp_path: Path) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("file,split,sun\na,private,1\nb.png,public,0\nc.png,test,1\n")
    (tmp_path / "c.png").write_bytes(b"no picture")
    settings = {"root": str(tmp_path), "table": str(table), "labels": ["sun"]}
    line = r"^data\.table\.file: expected files that are below data\.root=\S+, endings such as \.png included, 2 of"
    with pytest.raises(InvalidValue, match=line):
        ImageFolder(**settings).load()
    table.write_text(table.read_text().replace("public", "Public"))
    with pytest.raises(InvalidValue, match=r"^data\.split=split: .*, 1 of 3 rows have something else, row 2 is the fi"):
        ImageFolder(**settings).load()
