"""Dates in other orders than ISO 8601, and dates that stand for a missing date."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import Table, TableSchema
from pate.data.table.cells import as_dates
from pate.data.table.date_column import DateColumn
from pate.data.table.dates import days_as_text, days_of
from pate.data.table.placeholder_dates import placeholder_dates
from pate.data.table.table_file import TableFile
from pate.validation import InvalidValue
from tests.refusals import refused_parameter
from tests.unit.data.split_paths import SplitPaths

pytest.importorskip("pyarrow")

# 40 days in a row. Some are after the 12th of their month, so they tell the order of day and month.
DAYS = [date(2024, 3, 1) + timedelta(days=number) for number in range(40)]
# The first five days of eight months, which do not tell the order of day and month.
EARLY = [date(2024, month, day) for month in range(1, 9) for day in range(1, 6)]


def days_since_1970(year: int, month: int, day: int, hours: float = 0.0) -> float:
    """Returns the number of days from 1970-01-01 to a date, plus `hours` as a part of a day."""
    return (datetime(year, month, day) - datetime(1970, 1, 1)) / timedelta(days=1) + hours / 24


def write_dates(
    folder: Path, date_cells: list[str], *, private_date_cells: list[str] | None = None
) -> Table:
    """Writes three files with a column of dates, and returns their reader.

    Args:
        folder: the folder of the files.
        date_cells: the cells of the public and the test file.
        private_date_cells: the cells of the private file; None for the same cells.
    """
    own_private_cells = date_cells if private_date_cells is None else private_date_cells
    cells_of_split = {"private": own_private_cells, "public": date_cells, "test": date_cells}
    for split_number, (split, dates) in enumerate(cells_of_split.items()):
        rows = []
        for row, cell in enumerate(dates):
            person = f"{split_number}{row}"
            rows.append(f'{person},{row % 7},"{cell}",{row % 2}')
        (folder / f"{split}.csv").write_text("\n".join(["person,age,when,flu", *rows, ""]))
    table = SplitPaths.in_folder(folder=folder, ending=".csv").table_with_labels("flu")
    return replace(table, group="person")


def dates_in_form(form: str, dates: list[date] = DAYS) -> list[str]:
    """Returns dates as text in a form of `strftime`."""
    return [day.strftime(form) for day in dates]


ISO = dates_in_form(form="%Y-%m-%d")


def column_of(table: Table) -> DateColumn:
    """Returns the column `when` of the table's public schema."""
    schema = table.public_schema()
    column = schema.columns[schema.names.index("when")]
    assert isinstance(column, DateColumn), column
    return column


@dataclass(frozen=True)
class Form:
    """A form of dates, and the settings that it needs.

    Attributes:
        text: the form, as `strftime` takes it.
        date_order: the setting `data.date_order`; None if the form needs none.
        first_year: the setting `data.first_year`; None if the form needs none.
    """

    text: str
    date_order: str | None = None
    first_year: int | None = None


FORMS = [
    Form(text="%d.%m.%Y"),
    Form(text="%d. %m. %Y"),
    Form(text="%m/%d/%Y"),
    Form(text="%d/%m/%Y %H:%M"),
    Form(text="%m/%d/%Y %I:%M:%S %p"),
    Form(text="%d-%m-%Y"),
    Form(text="%Y/%m/%d"),
    Form(text="%Y.%m.%d. %H:%M:%S"),
    Form(text="%d %b %Y"),
    Form(text="%d%b%Y"),
    Form(text="%B %d, %Y"),
    Form(text="%a, %d %b %Y %H:%M:%S +0000"),
    Form(text="%d.%m.%y", date_order="dmy", first_year=1930),
    Form(text="%m/%d/%y", date_order="mdy", first_year=2000),
    Form(text="%y-%m-%d", date_order="ymd", first_year=1970),
    Form(text="%d-%b-%y", first_year=1950),
]


@pytest.fixture(scope="module")
def iso_inputs(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """Returns the private inputs of the table whose dates are in the form of ISO 8601."""
    return write_dates(folder=tmp_path_factory.mktemp("iso"), date_cells=ISO).load().private.inputs


@pytest.mark.parametrize("form", FORMS, ids=[form.text for form in FORMS])
def test_dates_in_other_orders_have_the_features_of_iso_dates(
    tmp_path: Path, iso_inputs: np.ndarray, form: Form
) -> None:
    """Dates in a form, with the settings that it needs, give the inputs of ISO dates.

    A written and a published schema read the form without the settings.
    """
    bare = write_dates(folder=tmp_path, date_cells=dates_in_form(form=form.text))
    table = replace(bare, date_order=form.date_order, first_year=form.first_year)
    dataset = table.load()
    assert np.array_equal(dataset.private.inputs, iso_inputs)
    schema = dataset.preprocessing
    assert isinstance(schema, TableSchema)
    assert schema.feature_names == ("age", "when")
    schema_path = tmp_path / "schema.yaml"
    table.public_schema().write(schema_path)
    with_schema = replace(bare, schema=str(schema_path)).load()
    assert np.array_equal(with_schema.private.inputs, iso_inputs)
    published = TableSchema.read(schema.plain(), name="x")
    cells = TableFile(tmp_path / "private.csv", setting="data").read()
    assert np.array_equal(published.inputs(cells), iso_inputs)


def test_private_dates_are_read_in_the_public_order(tmp_path: Path) -> None:
    """Private dates that could have the month first are read with the day first if public dates show this order.

    They are also read so beside public ISO dates if `data.date_order` is `dmy`.
    """
    private = dates_in_form(form="%d.%m.%Y", dates=EARLY)
    table = write_dates(
        folder=tmp_path, date_cells=dates_in_form(form="%d.%m.%Y"), private_date_cells=private
    )
    inputs = table.load().private.inputs
    column = column_of(table=table)
    assert column.order == "dmy"
    days_in_march = column.frame_columns(inputs[:, 1:])["when"][10:15]
    assert np.allclose(
        days_in_march, [days_since_1970(year=2024, month=3, day=day) for day in range(1, 6)]
    )
    with_iso_public = write_dates(folder=tmp_path, date_cells=ISO, private_date_cells=private)
    dataset = replace(with_iso_public, date_order="dmy").load()
    assert np.array_equal(dataset.private.inputs, inputs)


def test_private_dates_in_another_order_are_refused(tmp_path: Path) -> None:
    """Private dates with months first are refused beside public dates with days first.

    Private dates with days first are refused beside public dates in ISO form.
    """
    with refused_parameter("data.private.when", rule_words="dates such as 31.01.2025"):
        write_dates(
            folder=tmp_path,
            date_cells=dates_in_form(form="%d.%m.%Y"),
            private_date_cells=dates_in_form(form="%m/%d/%Y"),
        ).load()
    with refused_parameter(
        "data.private.when", rule_words="dates", hint_words="dates in other orders"
    ):
        write_dates(
            folder=tmp_path,
            date_cells=ISO,
            private_date_cells=dates_in_form(form="%d.%m.%Y", dates=EARLY),
        ).load()


@dataclass(frozen=True)
class UnclearCells:
    """Public dates whose order or century is unclear, or whose order is mixed or another than the named one.

    Attributes:
        cells: the dates as text.
        rule_pattern: the rule in the refusal, as a regular expression.
        date_order: the setting `data.date_order` of the run; None if the run has none.
    """

    cells: list[str]
    rule_pattern: str
    date_order: str | None = None


UNCLEAR = {
    "04.03.2024 or": UnclearCells(
        cells=dates_in_form(form="%d.%m.%Y", dates=EARLY),
        rule_pattern=r"dates whose order is plain, and 02\.01\.2024 may be 2024-01-02 \(data\.date_order=dmy\) "
        r"or 2024-02-01 \(data\.date_order=mdy\); 'data\.category=\[when\]' where these are words",
    ),
    "two digits": UnclearCells(
        cells=dates_in_form(form="%d.%m.%y"),
        rule_pattern=r"years of four digits, and there is 01\.03\.24: "
        r"data\.date_order=dmy \(or mdy, ymd\) and data\.first_year",
    ),
    "two digits in an order": UnclearCells(
        cells=dates_in_form(form="%d.%m.%y"),
        rule_pattern=r"years of four digits, and there is 01\.03\.24: .*data\.first_year=1930",
        date_order="dmy",
    ),
    "two digits and a word": UnclearCells(
        cells=dates_in_form(form="%d %b %y"),
        rule_pattern=r"years of four digits, and there is 01 Mar 24: "
        r"data\.first_year=1930 reads two digits, 30 as 1930 and 29 as",
    ),
    "mixed": UnclearCells(
        cells=[day.strftime("%d/%m/%Y" if day.day % 2 else "%m/%d/%Y") for day in DAYS],
        rule_pattern=r"dates in one order, 01/03/2024 and \d\d/\d\d/2024 are in two: mend them in the file",
    ),
    "two marks": UnclearCells(
        cells=[day.strftime("%d.%m.%Y" if day.day % 2 else "%m/%d/%Y") for day in DAYS],
        rule_pattern=r"dates in one order, 01\.03\.2024 and 03/02/2024 are in two: mend them in the file",
    ),
    "another than is named": UnclearCells(
        cells=dates_in_form(form="%m/%d/%Y"),
        rule_pattern=r"dates in the order dmy as data\.date_order says, 03/13/2024 is in another",
        date_order="dmy",
    ),
}


@pytest.mark.parametrize("case", UNCLEAR)
def test_unclear_dates_are_refused_with_the_setting(tmp_path: Path, case: str) -> None:
    """Public dates of unclear order or century are refused, with the setting that decides.

    Dates in mixed orders, or in another order than the named one, are refused without such a setting.
    With `data.category`, the same column is read as words.
    """
    unclear = UNCLEAR[case]
    table = replace(
        write_dates(folder=tmp_path, date_cells=unclear.cells), date_order=unclear.date_order
    )
    with pytest.raises(
        InvalidValue, match=rf"^data\.public\.when: expected {unclear.rule_pattern}"
    ):
        table.load()
    as_words = replace(table, category=("when",)).public_schema()
    assert as_words.columns[1].kind == "category"


@pytest.mark.parametrize("order", ["dmy", "mdy"])
def test_a_setting_names_the_order(tmp_path: Path, order: str) -> None:
    """The range of dates that do not tell their order depends on `date_order`, which is `dmy` or `mdy`."""
    table = write_dates(folder=tmp_path, date_cells=dates_in_form(form="%d.%m.%Y", dates=EARLY))
    column = column_of(table=replace(table, date_order=order))
    last_day = {
        "dmy": days_since_1970(year=2024, month=8, day=5),
        "mdy": days_since_1970(year=2024, month=5, day=8),
    }
    assert column.min == days_since_1970(year=2024, month=1, day=1)
    assert column.max == last_day[order]


def test_a_named_order_that_the_digits_exclude_says_nothing(tmp_path: Path) -> None:
    """A setting of `ymd` says nothing of dates such as 13.03.2024, whose own order `dmy` is taken.

    The setting may be meant for another column of the table, with years of two digits.
    """
    for form, order in (("%d.%m.%Y", "dmy"), ("%m/%d/%Y", "mdy")):
        table = write_dates(folder=tmp_path, date_cells=dates_in_form(form=form))
        assert column_of(table=replace(table, date_order="ymd")).order == order
    days_in_two_orders = write_dates(
        folder=tmp_path, date_cells=dates_in_form(form="%d.%m.%Y", dates=EARLY[1:])
    )
    with pytest.raises(InvalidValue, match=r"02\.01\.2024 may be 2024-01-02"):
        replace(days_in_two_orders, date_order="ymd").load()


def test_column_may_mix_iso_dates_ordered_dates_and_missing_cells(tmp_path: Path) -> None:
    """A column of ISO dates, dates with the day first and a missing cell is a column of dates.

    Its range is that of all these dates.
    """
    cells = [day.strftime("%d.%m.%Y") if day.day % 2 else str(day) for day in DAYS]
    cells[3] = ""
    column = column_of(table=write_dates(folder=tmp_path, date_cells=cells))
    assert (column.min, column.max, column.has_missing) == (
        days_since_1970(year=2024, month=3, day=1),
        days_since_1970(year=2024, month=4, day=9),
        True,
    )


@pytest.mark.parametrize(
    "codes", [["10.1.3", "9.1.2"], ["12-34-5678", "78-12-1234"], ["1.2.3.4", "5.6.7.8"]]
)
def test_codes_similar_to_dates_stay_words(tmp_path: Path, codes: list[str]) -> None:
    """Codes with dots or dashes, such as 10.1.3, are a category and no dates."""
    schema = write_dates(folder=tmp_path, date_cells=codes * 20).public_schema()
    assert schema.columns[1].kind == "category"


@pytest.mark.parametrize(
    ("word", "orders", "first_year", "expected"),
    [
        ("01.02.45", ("dmy",), 1930, days_since_1970(year=1945, month=2, day=1)),
        ("01.02.22", ("dmy",), 1930, days_since_1970(year=2022, month=2, day=1)),
        (
            "12/31/2024 12:30 AM",
            ("mdy",),
            None,
            days_since_1970(year=2024, month=12, day=31, hours=0.5),
        ),
        (
            "31/12/2024 12:30 pm",
            ("dmy",),
            None,
            days_since_1970(year=2024, month=12, day=31, hours=12.5),
        ),
        (
            "31/12/2024 23:00:00 -0130",
            ("dmy",),
            None,
            days_since_1970(year=2025, month=1, day=1, hours=0.5),
        ),
        ("1 September 2024", (), None, days_since_1970(year=2024, month=9, day=1)),
        ("1st Sept. 2024", (), None, days_since_1970(year=2024, month=9, day=1)),
    ],
)
def test_dates_are_parsed_to_known_days(
    word: str, orders: tuple[str, ...], first_year: int | None, expected: float
) -> None:
    """`days_of` reads a date as the expected number of days since 1970, in one of the orders if it has three numbers.

    `first_year` is the earliest year that two digits can mean; None if no year of two digits is allowed.
    """
    parsed = days_of(date_text=word, date_orders=orders, first_year=first_year)
    assert parsed == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "word", ["29.02.2023", "31.04.2024", "00.01.2024", "01.13.2024", "1.2.2024 25:00", "1.1.1"]
)
def test_nonexistent_day_is_refused(word: str) -> None:
    """A day or an hour that does not exist, such as 29.02.2023, or a year of one digit raises `ValueError`."""
    with pytest.raises(ValueError, match=r".*"):
        days_of(date_text=word, date_orders=("dmy",), first_year=1930)


@pytest.mark.parametrize("absent", ["9999-12-31", "1900-01-01", "0001-01-01", "2204-03-05"])
@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y"])
def test_placeholder_date_counts_as_missing(tmp_path: Path, absent: str, form: str) -> None:
    """Cells with a date that is far from all others, such as 9999-12-31, count as missing.

    Every eighth cell has this date. Range and scale of the column do not depend on it, and a remark names this date.
    """
    year, month, day = absent.split("-")
    word = form.replace("%Y", year).replace("%m", month).replace("%d", day)
    cells = dates_in_form(form=form)
    cells[::8] = [word] * 5
    table = write_dates(folder=tmp_path, date_cells=cells)
    dataset = table.load()
    column = column_of(table=table)
    assert (column.min, column.max, column.absent) == (
        days_since_1970(year=2024, month=3, day=2),
        days_since_1970(year=2024, month=4, day=9),
        (absent,),
    )
    assert dataset.private.inputs[::8, 2].tolist() == [1.0] * 5  # the feature of missing cells
    scaled_dates_of_known_cells = np.delete(dataset.private.inputs[:, 1], np.s_[::8])
    assert np.std(scaled_dates_of_known_cells) == pytest.approx(1, abs=1e-5)
    line = (
        f"when: {absent}, in 5 of 40 cells, is far from all other dates and read as a missing cell"
    )
    assert line in dataset.notes
    published = TableSchema.read(table.public_schema().plain(), name="x")
    assert published == table.public_schema()


def test_private_placeholder_date_does_not_change_the_schema(tmp_path: Path) -> None:
    """If one private date is 9999-12-31, the schema and all other private inputs stay the same."""
    usual = write_dates(folder=tmp_path, date_cells=ISO).load()
    dataset = write_dates(
        folder=tmp_path, date_cells=ISO, private_date_cells=["9999-12-31", *ISO[1:]]
    ).load()
    assert dataset.preprocessing == usual.preprocessing
    assert np.array_equal(dataset.private.inputs[1:], usual.private.inputs[1:])


@pytest.mark.parametrize(
    "years",
    [
        range(1980, 2024),
        [1990, 2000, 2010, 2020],
        [1926, 1950, 1960, 1970, 1980, 1990],
        [2000, 2020],
    ],
)
def test_evenly_spread_dates_are_not_placeholders(years: Any) -> None:
    """No date is taken for a placeholder if none is far from all others."""
    days_of_cells = np.array([days_since_1970(year=year, month=1, day=1) for year in years])
    assert placeholder_dates(days_of_cells) == []


def test_all_placeholder_dates_count_as_missing() -> None:
    """All three dates that are far from 29 dates within one month are found as placeholders."""
    date_texts = ["0001-01-01", "9999-12-31", "1900-01-01", "9999-12-31T23:59:59"]
    days_of_cells = np.array(
        [
            *(days_of(date_text=date_text) for date_text in date_texts),
            *(days_since_1970(year=2020, month=1, day=day) for day in range(1, 30)),
            np.nan,
        ]
    )
    assert sorted(map(days_as_text, placeholder_dates(days_of_cells))) == sorted(date_texts[:3])


def test_frequent_possible_placeholder_yields_a_remark(tmp_path: Path) -> None:
    """If 20 of 120 dates are 1900-01-01, which is not far from others, a remark proposes `data.missing` for it."""
    births = [f"{1920 + row}-05-0{1 + row % 9}" for row in range(100)]
    table = write_dates(folder=tmp_path, date_cells=births + ["1900-01-01"] * 20)
    expected = "when: 20 of 120 cells are 1900-01-01; 'data.missing=[\"1900-01-01\"]' if that means a missing cell"
    assert table.public_remarks()[0] == expected


def test_an_unknown_order_is_refused(tmp_path: Path) -> None:
    """`data.date_order=dm` is refused."""
    with refused_parameter("data.date_order", value="dm"):
        replace(write_dates(folder=tmp_path, date_cells=ISO), date_order="dm").load()


def test_text_as_first_year_is_refused(tmp_path: Path) -> None:
    """`data.first_year` as text is refused."""
    year: Any = "1930"
    with refused_parameter("data.first_year", value="1930"):
        replace(write_dates(folder=tmp_path, date_cells=ISO), first_year=year).load()


@pytest.mark.parametrize("absent", ["9999-12-31T23:59:59.9999999", "9999-12-31 23:59:59.999999"])
def test_last_moment_of_year_9999_is_a_placeholder(tmp_path: Path, absent: str) -> None:
    """The last moment of the year 9999 is found as the placeholder 9999-12-31.

    A float64 of days has a resolution of 40 microseconds there, and must not be rounded into the year 10000.
    """
    assert days_as_text(float(np.floor(days_of(date_text=absent)))) == "9999-12-31"
    column = column_of(table=write_dates(folder=tmp_path, date_cells=[*ISO, absent]))
    assert column.absent == ("9999-12-31",)
    assert column.max == days_since_1970(year=2024, month=4, day=9)


@pytest.mark.parametrize("day", ["1400-12-31", "0500-03-03", "0001-01-01"])
def test_last_microsecond_of_an_early_day_is_in_this_day(day: str) -> None:
    """The last microsecond of a day long before 1970 is not rounded into the next day."""
    days = days_of(date_text=f"{day}T23:59:59.999999")
    assert np.floor(days) == days_of(date_text=day)


@pytest.mark.parametrize("other_word", ["2024-01-31", "31 Jan 2024", "none"])
def test_word_before_the_year_1_is_no_date_whatever_the_other_words(other_word: str) -> None:
    """0000-01-01 is not a date beside a date that pyarrow reads, one that only Python reads, or another word."""
    pa = pytest.importorskip("pyarrow")
    assert as_dates(cells=pa.array(["0000-01-01", other_word]))[0] == np.inf


def test_unicode_blanks_are_allowed_in_dates() -> None:
    """A date with non-breaking blanks between its parts is read."""
    assert days_of(date_text="13\u00a0Jan\u202f2022") == days_since_1970(year=2022, month=1, day=13)


@pytest.mark.parametrize(
    "form",
    ["%Y-%m", "%m/%Y", "%Y-%j", "%Y-%m-%d 10:30:00 CET", "%a %b %d 10:00:00 %Y", "%d. Brachet %Y"],
)
def test_words_that_contain_years_yield_a_remark(tmp_path: Path, form: str) -> None:
    """Words that contain a year, but are no dates that can be read, yield a remark."""
    dates = [date(2022, 1, 1) + timedelta(days=29 * number) for number in range(40)]
    table = write_dates(folder=tmp_path, date_cells=dates_in_form(form=form, dates=dates))
    remarks = table.public_remarks()
    expected = "when: 40 of 40 cells are words with a year in them ("
    assert any(expected in remark for remark in remarks), remarks


def test_codes_without_years_yield_no_remark_on_years(tmp_path: Path) -> None:
    """Codes without a year, such as ICD-10-3, yield no remark on years."""
    codes = [f"ICD-10-{number % 5}" for number in range(40)]
    remarks = write_dates(folder=tmp_path, date_cells=codes).public_remarks()
    assert not any("year" in remark for remark in remarks)


def test_whole_numbers_that_look_like_days_yield_a_remark(tmp_path: Path) -> None:
    """Numbers such as 20240301 yield a remark that they may be dates."""
    remarks = write_dates(folder=tmp_path, date_cells=dates_in_form(form="%Y%m%d")).public_remarks()
    line = "when: whole numbers that may be dates, such as 20240301; written as 2025-01-31 they are dates"
    assert line in remarks


def test_whole_numbers_with_one_invalid_day_yield_no_remark(tmp_path: Path) -> None:
    """Whole numbers yield no remark on dates if one of them is no day, such as 20240332."""
    numbers = [*dates_in_form(form="%Y%m%d")[1:], "20240332"]
    remarks = write_dates(folder=tmp_path, date_cells=numbers).public_remarks()
    assert not any("dates" in remark for remark in remarks)
