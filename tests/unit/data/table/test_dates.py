"""Dates in other orders than ISO 8601, and dates that stand for none."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import Table, TableSchema
from pate.data.table.date_column import DateColumn
from pate.data.table.dates import days_as_text, days_of
from pate.data.table.placeholder_dates import placeholder_dates
from pate.data.table.table_file import TableFile
from pate.validation import InvalidValue
from tests.refusals import Refusal, refused

pytest.importorskip("pyarrow")

DAYS = [date(2024, 3, 1) + timedelta(days=place) for place in range(40)]  # some are above the 12th
EARLY = [date(2024, month, day) for month in range(1, 9) for day in range(1, 6)]  # none is


def days(year: int, month: int, day: int, hours: float = 0.0) -> float:
    return (datetime(year, month, day) - datetime(1970, 1, 1)) / timedelta(days=1) + hours / 24


def written(
    folder: Path, cells: list[str], private: list[str] | None = None, **settings: Any
) -> Table:
    """A reader of three files with a column of dates; the private ones may be others."""
    files = {}
    for place, split in enumerate(("private", "public", "test")):
        column = private if split == "private" and private is not None else cells
        rows = [f'{place}{row},{row % 7},"{cell}",{row % 2}' for row, cell in enumerate(column)]
        files[split] = str(folder / f"{split}.csv")
        Path(files[split]).write_text("\n".join(["person,age,when,flu", *rows, ""]))
    return Table(**files | {"labels": ("flu",), "group": "person"} | settings)


def column_of(table: Table) -> DateColumn:
    schema = table.public_schema()
    (column,) = [each for each in schema.columns if each.name == "when"]
    assert isinstance(column, DateColumn), column
    return column


FORMS = {
    "%d.%m.%Y": {},
    "%d. %m. %Y": {},
    "%m/%d/%Y": {},
    "%d/%m/%Y %H:%M": {},
    "%m/%d/%Y %I:%M:%S %p": {},
    "%d-%m-%Y": {},
    "%Y/%m/%d": {},
    "%Y.%m.%d. %H:%M:%S": {},
    "%d %b %Y": {},
    "%d%b%Y": {},
    "%B %d, %Y": {},
    "%a, %d %b %Y %H:%M:%S +0000": {},
    "%d.%m.%y": {"date_order": "dmy", "first_year": 1930},
    "%m/%d/%y": {"date_order": "mdy", "first_year": 2000},
    "%y-%m-%d": {"date_order": "ymd", "first_year": 1970},
    "%d-%b-%y": {"first_year": 1950},
}


@pytest.mark.parametrize("form", FORMS)
def test_dates_in_other_orders_are_dates(tmp_path: Path, form: str) -> None:
    """The features are those of the same dates in ISO 8601."""
    wanted = written(tmp_path, list(map(str, DAYS))).load()
    table = written(tmp_path, [day.strftime(form) for day in DAYS], **FORMS[form])
    dataset = table.load()
    assert np.array_equal(dataset.private.inputs, wanted.private.inputs)
    schema = dataset.preprocessing
    assert isinstance(schema, TableSchema)
    assert schema.feature_names == ("age", "when")
    path = tmp_path / "schema.yaml"
    table.public_schema().write(path)
    again = written(tmp_path, [day.strftime(form) for day in DAYS], schema=str(path)).load()
    assert np.array_equal(again.private.inputs, wanted.private.inputs)
    published = TableSchema.read(schema.plain(), name="x")
    new = TableFile(Path(str(table.private)), "data")
    read = published.inputs(new.read())
    assert np.array_equal(read, wanted.private.inputs)


def test_private_dates_are_read_in_the_order_of_the_public_file(tmp_path: Path) -> None:
    public = [day.strftime("%d.%m.%Y") for day in DAYS]
    private = [day.strftime("%d.%m.%Y") for day in EARLY]
    table = written(tmp_path, public, private)
    inputs = table.load().private.inputs
    column = column_of(table)
    assert column.order == "dmy"
    assert np.allclose(
        column.frame_columns(inputs[:, 1:])["when"][10:15],
        [days(2024, 3, day) for day in range(1, 6)],
    )
    with refused("data.private.when", rule="dates such as 31.01.2025"):
        written(tmp_path, public, [day.strftime("%m/%d/%Y") for day in DAYS]).load()
    iso = list(map(str, DAYS))
    with refused("data.private.when", rule="dates", hint="dates in other orders"):
        written(tmp_path, iso, private).load()
    assert np.array_equal(
        written(tmp_path, iso, private, date_order="dmy").load().private.inputs, inputs
    )


UNCLEAR = {
    "04.03.2024 or": (
        [day.strftime("%d.%m.%Y") for day in EARLY[1:]],
        {},
        r"dates whose order is plain, and 02\.01\.2024 may be 2024-01-02 \(data\.date_order=dmy\) or 2024-02-01 "
        r"\(data\.date_order=mdy\); 'data\.category=\[when\]' where these are words",
    ),
    "two digits": (
        [day.strftime("%d.%m.%y") for day in DAYS],
        {},
        r"years of four digits, and there is 01\.03\.24: data\.date_order=dmy \(or mdy, ymd\) and data\.first_year",
    ),
    "two digits in an order": (
        [day.strftime("%d.%m.%y") for day in DAYS],
        {"date_order": "dmy"},
        r"years of four digits, and there is 01\.03\.24: .*data\.first_year=1930",
    ),
    "two digits and a word": (
        [day.strftime("%d %b %y") for day in DAYS],
        {},
        r"years of four digits, and there is 01 Mar 24: data\.first_year=1930 reads two digits, 30 as 1930 and 29 as",
    ),
    "mixed": (
        [day.strftime("%d/%m/%Y" if day.day % 2 else "%m/%d/%Y") for day in DAYS],
        {},
        r"dates in one order, 01/03/2024 and \d\d/\d\d/2024 are in two: mend them in the file",
    ),
    "two marks": (
        [day.strftime("%d.%m.%Y" if day.day % 2 else "%m/%d/%Y") for day in DAYS],
        {},
        r"dates in one order, 01\.03\.2024 and 03/02/2024 are in two: mend them in the file",
    ),
    "another than is named": (
        [day.strftime("%m/%d/%Y") for day in DAYS],
        {"date_order": "dmy"},
        r"dates in the order dmy as data\.date_order says, 03/13/2024 is in another",
    ),
}


@pytest.mark.parametrize("case", UNCLEAR)
def test_dates_that_may_be_others_are_refused_with_what_to_set(tmp_path: Path, case: str) -> None:
    cells, settings, line = UNCLEAR[case]
    with pytest.raises(InvalidValue, match=rf"^data\.public\.when: expected {line}"):
        written(tmp_path, cells, **settings).load()
    words = written(tmp_path, cells, **settings, category=("when",)).load().preprocessing
    assert isinstance(words, TableSchema) and words.columns[1].kind == "category"


@pytest.mark.parametrize("order", ["dmy", "mdy"])
def test_a_setting_says_the_order(tmp_path: Path, order: str) -> None:
    cells = [day.strftime("%d.%m.%Y") for day in EARLY]
    column = column_of(written(tmp_path, cells, date_order=order))
    ends = {
        "dmy": (days(2024, 1, 1), days(2024, 8, 5)),
        "mdy": (days(2024, 1, 1), days(2024, 5, 8)),
    }
    assert (column.min, column.max) == ends[order]


def test_iso_and_another_order_in_one_column_and_missing_cells(tmp_path: Path) -> None:
    cells = [day.strftime("%d.%m.%Y") if day.day % 2 else str(day) for day in DAYS]
    cells[3] = ""
    column = column_of(written(tmp_path, cells))
    assert (column.min, column.max, column.missing) == (days(2024, 3, 1), days(2024, 4, 9), True)


@pytest.mark.parametrize(
    "cells", [["10.1.3", "9.1.2"], ["12-34-5678", "78-12-1234"], ["1.2.3.4", "5.6.7.8"]]
)
def test_codes_that_are_no_dates_stay_words(tmp_path: Path, cells: list[str]) -> None:
    schema = written(tmp_path, cells * 20).public_schema()
    assert schema.columns[1].kind == "category"


@pytest.mark.parametrize(
    ("word", "orders", "first_year", "wanted"),
    [
        ("01.02.45", ("dmy",), 1930, days(1945, 2, 1)),
        ("01.02.22", ("dmy",), 1930, days(2022, 2, 1)),
        ("12/31/2024 12:30 AM", ("mdy",), None, days(2024, 12, 31, 0.5)),
        ("31/12/2024 12:30 pm", ("dmy",), None, days(2024, 12, 31, 12.5)),
        ("31/12/2024 23:00:00 -0130", ("dmy",), None, days(2025, 1, 1, 0.5)),
        ("1 September 2024", (), None, days(2024, 9, 1)),
        ("1st Sept. 2024", (), None, days(2024, 9, 1)),
    ],
)
def test_a_date_by_hand(
    word: str, orders: tuple[str, ...], first_year: int | None, wanted: float
) -> None:
    assert days_of(word, orders, first_year) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(
    "word", ["29.02.2023", "31.04.2024", "00.01.2024", "01.13.2024", "1.2.2024 25:00", "1.1.1"]
)
def test_what_is_on_no_calendar_is_no_date(word: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        days_of(word, ("dmy",), 1930)


@pytest.mark.parametrize("absent", ["9999-12-31", "1900-01-01", "0001-01-01", "2204-03-05"])
@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y"])
def test_a_date_for_none_is_a_missing_cell_and_does_not_squeeze_others(
    tmp_path: Path, absent: str, form: str
) -> None:
    year, month, day = absent.split("-")
    word = form.replace("%Y", year).replace("%m", month).replace("%d", day)
    cells = [day.strftime(form) for day in DAYS]
    cells[::8] = [word] * 5
    table = written(tmp_path, cells)
    dataset = table.load()
    column = column_of(table)
    assert (column.min, column.max, column.absent) == (
        days(2024, 3, 2),
        days(2024, 4, 9),
        (absent,),
    )
    assert dataset.private.inputs[::8, 2].tolist() == [1.0] * 5  # the feature of missing cells
    assert np.std(np.delete(dataset.private.inputs[:, 1], np.s_[::8])) == pytest.approx(1, abs=1e-5)
    told = (
        f"when: {absent}, in 5 of 40 cells, is far from all other dates and read as a missing cell"
    )
    assert told in dataset.notes
    published = TableSchema.read(table.public_schema().plain(), name="x")
    assert published == table.public_schema()


def test_a_date_for_none_in_private_rows_alone_is_no_part_of_the_schema(tmp_path: Path) -> None:
    cells = list(map(str, DAYS))
    wanted = written(tmp_path, cells).load()
    dataset = written(tmp_path, cells, ["9999-12-31", *cells[1:]]).load()
    assert dataset.preprocessing == wanted.preprocessing
    assert np.array_equal(dataset.private.inputs[1:], wanted.private.inputs[1:])


@pytest.mark.parametrize(
    "years",
    [
        range(1980, 2024),
        [1990, 2000, 2010, 2020],
        [1926, 1950, 1960, 1970, 1980, 1990],
        [2000, 2020],
    ],
)
def test_dates_that_are_no_farther_apart_than_the_others_are_dates(years: Any) -> None:
    assert placeholder_dates(np.array([days(year, 1, 1) for year in years])) == []


def test_several_dates_for_none_are_all_missing() -> None:
    words = ["0001-01-01", "9999-12-31", "1900-01-01", "9999-12-31T23:59:59"]
    dates = np.array(
        [*(days_of(word) for word in words), *(days(2020, 1, day) for day in range(1, 30)), np.nan]
    )
    assert sorted(map(days_as_text, placeholder_dates(dates))) == sorted(words[:3])


def test_a_frequent_date_that_may_stand_for_none_is_told(tmp_path: Path) -> None:
    births = [f"{1920 + row}-05-0{1 + row % 9}" for row in range(100)]
    (line, *_) = written(tmp_path, births + ["1900-01-01"] * 20).public_remarks()
    assert (
        line
        == "when: 20 of 120 cells are 1900-01-01; 'data.missing=[\"1900-01-01\"]' if that means a missing cell"
    )


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"date_order": "dm"}, refused("data.date_order", "dm")),
        ({"first_year": "1930"}, refused("data.first_year", "1930")),
    ],
)
def test_settings_of_dates_are_checked(
    tmp_path: Path, settings: dict[str, Any], refusal: Refusal
) -> None:
    with refusal:
        written(tmp_path, list(map(str, DAYS)), **settings).load()


@pytest.mark.parametrize("absent", ["9999-12-31T23:59:59.9999999", "9999-12-31 23:59:59.999999"])
def test_the_last_moment_of_a_database_stands_for_none(tmp_path: Path, absent: str) -> None:
    """A double of days has 40 microseconds there, and this is no day of the year 10000."""
    assert days_as_text(float(np.floor(days_of(absent)))) == "9999-12-31"
    column = column_of(written(tmp_path, [*map(str, DAYS), absent]))
    assert column.absent == ("9999-12-31",)
    assert column.max == days(2024, 4, 9)


def test_blanks_of_any_kind_stand_in_dates() -> None:
    assert days_of("13\u00a0Jan\u202f2022") == days(2022, 1, 13)


@pytest.mark.parametrize(
    "form",
    ["%Y-%m", "%m/%Y", "%Y-%j", "%Y-%m-%d 10:30:00 CET", "%a %b %d 10:00:00 %Y", "%d. Brachet %Y"],
)
def test_words_with_years_are_told_to_be_no_dates(tmp_path: Path, form: str) -> None:
    spread = [date(2022, 1, 1) + timedelta(days=29 * place) for place in range(40)]
    lines = written(tmp_path, [day.strftime(form) for day in spread]).public_remarks()
    assert any("when: 40 of 40 cells are words with a year in them (" in line for line in lines), (
        lines
    )
    words = [f"ICD-10-{place % 5}" for place in range(40)]
    assert not any("year" in line for line in written(tmp_path, words).public_remarks())


def test_whole_numbers_that_are_days_are_told(tmp_path: Path) -> None:
    told = "when: whole numbers that may be dates, such as 20240301; written as 2025-01-31 they are dates"
    assert told in written(tmp_path, [day.strftime("%Y%m%d") for day in DAYS]).public_remarks()
    numbers = [str(20240301 + place) for place in range(40)]  # of which 20240332 is no day
    assert not any("dates" in line for line in written(tmp_path, numbers).public_remarks())
