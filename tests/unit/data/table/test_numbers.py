"""Numbers as files write them: decimal commas, marks between thousands, words for missing cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pate.data import Table, TableSchema
from pate.data.table.cell_words import column_cells
from pate.data.table.cells import as_numbers, as_texts
from pate.data.table.number_column import NumberColumn
from pate.data.table.spelling import CellSpelling
from pate.data.table.table_file import TableFile
from tests.refusals import Refusal, refused_parameter
from tests.unit.data.table.frames import NUM_ROWS, people_frames, write_frames

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")


def write_weights(folder: Path, cells: list[str]) -> Table:
    """Writes three files whose column `weight` repeats the given cells, and returns their reader."""
    frames = people_frames()
    for frame in frames.values():
        frame["weight"] = (cells * NUM_ROWS)[:NUM_ROWS]
    return write_frames(folder=folder, frames=frames)


@pytest.mark.parametrize(
    ("cells", "decimal", "thousands", "numbers"),
    [
        (["950,5", "1.234,5"], "comma", ".", [950.5, 1234.5]),
        (["950", "1.234", "2.500"], None, ".", [950, 1234, 2500]),
        (["950", "1,234.5", "1,234"], None, ",", [950, 1234.5, 1234]),
        (["950", "1\u202f234"], None, " ", [950, 1234]),
        (["950", "1\u2019234.5"], None, "'", [950, 1234.5]),
        (["2,5", "3.5"], "comma", None, [2.5, 3.5]),
    ],
)
def test_numbers_follow_the_marks_in_settings(
    tmp_path: Path,
    cells: list[str],
    decimal: str | None,
    thousands: str | None,
    numbers: list[float],
) -> None:
    """Numbers with decimal commas or marks between thousands are read by the settings `decimal` and `thousands`."""
    table = replace(
        write_weights(folder=tmp_path, cells=cells), decimal=decimal, thousands=thousands
    )
    dataset = table.load()
    assert isinstance(dataset.preprocessing, TableSchema)
    frame = dataset.preprocessing.frame(dataset.private.inputs[: len(cells)])
    assert frame["weight"].round(3).tolist() == numbers


@pytest.mark.filterwarnings("error")
def test_frame_has_the_number_that_all_public_cells_share() -> None:
    """The frame of a column with one public number has this number, also if it is large."""
    column = NumberColumn.fit("year", numbers=np.full(3, 2024.0))
    encoded = column.encode(pa.array([2024.0, 1999.0]))
    assert column.frame_columns(encoded.features)["year"].tolist() == [2024.0, 2024.0]


@pytest.mark.parametrize(
    ("cells", "decimal", "rule"),
    [
        (["950", "1.234"], "comma", "'data.thousands=\".\"' reads it as 1234"),
        (["950,5", "1.234,5"], "comma", "1.234,5: 'data.thousands=\".\"'"),
        (["1,234"], None, "'data.thousands=\",\"' reads it as 1234"),
        (["1,234.5"], None, "'data.thousands=\",\"' reads it as 1234.5"),
        (["1,5", "1,234"], None, "there is 1,5"),
    ],
)
def test_refusal_of_another_notation_names_the_setting(
    tmp_path: Path, cells: list[str], decimal: str | None, rule: str
) -> None:
    """Numbers in another notation than that of the settings are refused, with the setting that reads them."""
    with refused_parameter("data.public.weight", rule_words=rule):
        replace(write_weights(folder=tmp_path, cells=cells), decimal=decimal).load()


@pytest.mark.parametrize(
    ("with_wrong_setting", "refusal"),
    [
        (partial(replace, thousands=";"), refused_parameter("data.thousands", value=";")),
        (partial(replace, missing="?"), refused_parameter("data.missing", value="?")),
        (partial(replace, label_separator=""), refused_parameter("data.label_separator", value="")),
        (partial(replace, private=""), refused_parameter("data.private", value="")),
    ],
    ids=["thousands", "missing", "label_separator", "private"],
)
def test_impossible_settings_are_refused(
    tmp_path: Path, with_wrong_setting: Callable[[Table], Table], refusal: Refusal
) -> None:
    """An impossible mark for thousands, separator of labels or file name is refused by the name of the setting.

    So is a single text in place of a list of words for missing cells.
    """
    table = write_frames(folder=tmp_path, frames=people_frames())
    with refusal:
        with_wrong_setting(table).load()


def test_decimal_mark_and_thousands_mark_must_differ(tmp_path: Path) -> None:
    """`thousands=,` with `decimal=comma` is refused."""
    table = write_frames(folder=tmp_path, frames=people_frames())
    with refused_parameter("data.thousands", value=","):
        replace(table, thousands=",", decimal="comma").load()


def test_word_for_yes_is_refused_with_a_label_separator(tmp_path: Path) -> None:
    """`data.true` beside `data.label_separator` is refused."""
    table = write_frames(folder=tmp_path, frames=people_frames())
    with refused_parameter("data.true", value="ja", rule_words="nothing beside"):
        replace(table, true="ja", label_separator=";")


@pytest.mark.slow
@pytest.mark.parametrize("word", ["?", "-", ".", "missing", "inf", "<60", "70*"])
def test_single_word_among_numbers_yields_a_remark(tmp_path: Path, word: str) -> None:
    """If one of 400 ages is a word, a remark names `data.missing`; with it, the column is one of numbers."""
    frames = people_frames(rows_per_split=400)
    for frame in frames.values():
        frame["age"] = [word, *frame["age"].astype(str)[1:]]
    table = write_frames(folder=tmp_path, frames=frames)
    (line,) = (note for note in table.load().notes if note.startswith("age"))
    assert line.startswith(
        f"age: 399 of 400 cells are numbers, 1 is not ({word}), so all are words; 'data.missing=["
    )
    mended = replace(table, missing=(word,)).load()
    assert isinstance(mended.preprocessing, TableSchema)
    assert mended.preprocessing.feature_names[:2] == ("age", "age=missing")
    assert mended.notes == ()


def test_words_among_numbers_or_dates_yield_a_remark(tmp_path: Path) -> None:
    """A column of percentages yields a remark, and so does a column of dates in which one cell is a word."""
    frames = people_frames()
    for frame in frames.values():
        frame["share"] = [f"{age}%" for age in frame["age"]]
        frame["day"] = ["2025-01-31"] * 59 + ["unknown"]
    share, day = write_frames(folder=tmp_path, frames=frames).load().notes
    assert share.startswith("share: 60 of 60 cells are numbers with something beside them (2")
    assert day.startswith("day: 59 of 60 cells are dates, 1 is not (unknown)")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_missing_words_apply_to_every_kind_of_file(tmp_path: Path, ending: str) -> None:
    """`missing=-9` makes -9.0 a missing cell, in CSV and in Parquet."""
    frames = people_frames()
    for frame in frames.values():
        frame["age"] = [-9.0, *frame["age"][1:]]
    table = write_frames(folder=tmp_path, frames=frames, endings=dict.fromkeys(frames, ending))
    dataset = replace(table, missing=("-9",)).load()
    assert dataset.private.inputs[:, 1].tolist() == [1.0] + [0.0] * 59


@pytest.fixture
def german(tmp_path: Path) -> Table:
    """Returns the reader of files with decimal commas, points between thousands, and ? for missing cells."""
    table = write_weights(folder=tmp_path, cells=["1.234,5", "?"])
    return replace(table, decimal="comma", thousands=".", missing=("?",))


@pytest.mark.slow
def test_schema_stores_the_notation_of_cells(tmp_path: Path, german: Table) -> None:
    """A written schema has the marks of numbers and the words for missing cells.

    A reader with the schema and without settings gives the same inputs.
    """
    german.public_schema().write(tmp_path / "schema.yaml")
    bare = replace(
        german, decimal=None, thousands=None, missing=(), schema=str(tmp_path / "schema.yaml")
    )
    inputs = german.load().private.inputs
    assert np.array_equal(bare.load().private.inputs, inputs)
    assert np.array_equal(bare.private_records().records.inputs, inputs)


def test_published_schema_reads_cells_in_the_public_notation(german: Table) -> None:
    """A published schema reads 1.234,5 as the number 1234.5."""
    schema = TableSchema.read(german.public_schema().plain(), name="x")
    of_word = schema.inputs({"age": [25], "ward": ["a"], "weight": ["1.234,5"]})
    of_number = schema.inputs({"age": [25], "ward": ["a"], "weight": [1234.5]})
    assert np.array_equal(of_word, of_number)


def test_notation_setting_overrides_the_schema(tmp_path: Path, german: Table) -> None:
    """The setting `decimal=point` of a file overrides the schema, whose words for missing cells stay.

    The mark between thousands in the schema is left out, as it belongs to the decimal comma.
    """
    file = TableFile(tmp_path / "private.csv", setting="data", decimal="point")
    spelling = file.spelling(german.public_schema().spelling)
    assert spelling == CellSpelling(decimal="point", thousands=None, missing=("?",))


@pytest.mark.slow
def test_settings_do_not_change_the_private_digest(tmp_path: Path) -> None:
    """The private digest is the same for three settings of how cells are read.

    A ledger recognizes records by this digest. If a changed setting changed it, the records would get a new budget.
    """
    table = write_weights(folder=tmp_path, cells=["1,5", "?"])
    readers = [
        replace(table, category=("weight",)),
        replace(table, decimal="comma"),
        replace(table, decimal="comma", missing=("?",)),
    ]
    assert len({reader.load().private_digest() for reader in readers}) == 1


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_are_seconds(unit: str) -> None:
    """Durations in any unit of Arrow become seconds, and missing ones NaN."""
    durations = pa.array([90, None, 3600], pa.duration("s")).cast(pa.duration(unit))
    np.testing.assert_array_equal(as_numbers(durations), [90.0, np.nan, 3600.0])


def test_infinite_and_huge_numbers_become_distinct_words() -> None:
    """Infinity becomes the word inf, and the numbers 1e19 and 2e19 become different words."""
    assert as_texts(pa.array([1.0, float("inf"), 2.0])).to_pylist()[1] == "inf"
    assert as_texts(pa.array([1e19])).to_pylist() != as_texts(pa.array([2e19])).to_pylist()


def test_numbers_beyond_the_range_of_floats_keep_their_sign() -> None:
    """Whole numbers, fractions and decimals beyond the range of floats become an infinity with their sign."""
    huge = [10**400, Fraction(10**400), Decimal("1e400")]
    column = pd.Series([*huge, *(-number for number in huge)], dtype=object)
    assert column_cells(column).to_pylist() == [np.inf] * 3 + [-np.inf] * 3


def test_words_are_not_canonicalized_in_digests_and_ids() -> None:
    """`as_texts` leaves words such as 3.0 unchanged.

    1.0 and 1 remain two names in the digest of a ledger and in published ids.
    """
    assert as_texts(pa.array(["3.0", "true"])).to_pylist() == ["3.0", "true"]


def test_all_string_types_work_with_older_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyarrow's newer checks of types, `as_texts` returns the texts of columns of strings and of categories."""
    for name in ("is_string_view", "is_binary_view"):  # neither is in pyarrow 15
        monkeypatch.delattr(pa.types, name, raising=False)
    types = [pa.string(), pa.large_string()]
    types += [pa.string_view()] if hasattr(pa, "string_view") else []
    for text in types:
        assert as_texts(pa.array(["flu", None], text)).to_pylist() == ["flu", None]
    assert as_texts(pa.nulls(2)).to_pylist() == [None, None]
    assert as_texts(pa.array(["flu", None]).dictionary_encode()).to_pylist() == ["flu", None]
