"""Files with other separators, decimal commas, encodings and words for labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pate.data import Table
from pate.data.table.table_file import TableFile
from pate.validation import InvalidValue
from tests.refusals import refused_parameter
from tests.unit.data.split_paths import SplitPaths

pytest.importorskip("pyarrow")

FOREIGN_HEAD = "age;town;ill;well"
PRIVATE_ROWS = ["20.5;Aachen, Stadt;yes;No", "31;Bonn;no;YES", "40.25;Bonn;TRUE;false"]
PUBLIC_ROWS = ["20.5;Bonn;1;0", "50.5;Aachen, Stadt;0;1", "30;Bonn;0;1"]
PUBLIC_ROWS_WITH_UMLAUT = [row.replace("Bonn", "K\u00f6ln") for row in PUBLIC_ROWS]
TEST_ROWS = ["25.5;Bonn;1;0"]


def write_foreign(
    folder: Path,
    *,
    decimal_mark: str = ".",
    encoding: str = "utf-8",
    first_character: str = "",
    private: list[str] = PRIVATE_ROWS,
    public: list[str] = PUBLIC_ROWS,
    test: list[str] = TEST_ROWS,
) -> Table:
    """Writes three files with semicolons as separators, and returns their reader.

    Args:
        folder: the folder of the files private.csv, public.csv and test.csv.
        decimal_mark: the mark that replaces the points in all rows.
        encoding: the encoding of the files.
        first_character: a byte-order mark in front of the text; empty for none.
        private: the private rows.
        public: the public rows.
        test: the rows of the test set.
    """
    rows_of_split = {"private": private, "public": public, "test": test}
    for split, rows in rows_of_split.items():
        text = "\n".join([FOREIGN_HEAD, *rows, ""]).replace(".", decimal_mark)
        (folder / f"{split}.csv").write_text(first_character + text, encoding=encoding)
    return SplitPaths.in_folder(folder=folder, ending=".csv").table_with_labels("ill", "well")


def test_yes_and_no_are_read_as_labels(tmp_path: Path) -> None:
    """Labels written as yes, no, TRUE or false are read as bits."""
    labels = write_foreign(folder=tmp_path).load().private.labels
    assert labels.tolist() == [[True, False], [False, True], [True, False]]


def test_the_letter_y_is_refused_as_a_label(tmp_path: Path) -> None:
    """A label that is written as y is refused, and the error names yes and no."""
    with refused_parameter("data.test.ill", rule_words="yes and no"):
        write_foreign(folder=tmp_path, test=["25.5;Bonn;y;0"]).load()


def test_decimal_comma_is_read_by_its_setting(tmp_path: Path) -> None:
    """Files with decimal commas, read with `decimal=comma`, give the inputs of files with decimal points."""
    expected = write_foreign(folder=tmp_path).load()
    dataset = replace(write_foreign(folder=tmp_path, decimal_mark=","), decimal="comma").load()
    assert np.array_equal(dataset.private.inputs, expected.private.inputs)
    assert dataset.preprocessing == expected.preprocessing  # "Aachen, Stadt" is no number


def test_decimal_comma_without_its_setting_is_refused(tmp_path: Path) -> None:
    """Private decimal commas beside public decimal points are refused, with `data.decimal=comma` as the hint."""
    private = [row.replace(".", ",") for row in PRIVATE_ROWS]
    with refused_parameter(
        "data.private.age",
        rule_words="numbers",
        hint_words="other numbers need data.decimal=comma,",
    ):
        write_foreign(folder=tmp_path, private=private).load()


@pytest.mark.parametrize(
    ("file_setting", "decimal_setting"), [("data.private", "data.decimal"), ("data", "decimal")]
)
def test_decimal_setting_takes_comma_or_point_as_words(
    tmp_path: Path, file_setting: str, decimal_setting: str
) -> None:
    """The mark `,` itself is refused as `decimal`, which takes the words comma and point.

    The error names the setting as it stands beside the setting of the file.
    """
    with refused_parameter(decimal_setting, value=","):
        TableFile(tmp_path / "test.csv", setting=file_setting, decimal=",")


@pytest.mark.parametrize(
    ("encoding", "byte_order_mark"), [("utf-16", ""), ("latin-1", ""), ("utf-8", "\ufeff")]
)
def test_encoding_setting_is_used(tmp_path: Path, encoding: str, byte_order_mark: str) -> None:
    """Files in UTF-16, in latin-1, and in UTF-8 with a byte-order mark are read with their encoding as the setting."""
    table = write_foreign(
        folder=tmp_path,
        encoding=encoding,
        first_character=byte_order_mark,
        public=PUBLIC_ROWS_WITH_UMLAUT,
    )
    dataset = replace(table, encoding=encoding).load()
    assert len(dataset.private) == len(PRIVATE_ROWS)


def test_refusal_of_another_encoding_names_the_setting(tmp_path: Path) -> None:
    """Files in latin-1 are refused without a setting, and the error names the setting and latin-1."""
    table = write_foreign(folder=tmp_path, encoding="latin-1", public=PUBLIC_ROWS_WITH_UMLAUT)
    line = r"expected text in utf-8; name its encoding: (data\.)?encoding=latin-1 or utf-16, say"
    with pytest.raises(InvalidValue, match=line):
        table.load()
    with pytest.raises(InvalidValue, match=line):
        list(TableFile(tmp_path / "public.csv", setting="data").batches())


def test_one_file_for_two_splits_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A public split is refused if it names the private file, by a relative instead of an absolute path."""
    monkeypatch.chdir(tmp_path)
    with refused_parameter("data.public", value="private.csv"):
        replace(write_foreign(folder=tmp_path), public="private.csv").load()


def test_label_in_other_letter_case_is_refused(tmp_path: Path) -> None:
    """`labels=[Ill]` is refused for a column `ill`."""
    with refused_parameter("data.labels", value="Ill"):
        replace(write_foreign(folder=tmp_path), labels=("Ill",)).public_schema()
