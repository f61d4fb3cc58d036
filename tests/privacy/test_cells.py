"""Tables are read so that one private cell changes the features of its own record alone.

The price of a release covers one private record. So the features of all other records, and the published schema, must
be equal whatever a private cell is. That is tested for many odd cells, and for four forms in which pandas may hold a
column: the type that pandas infers, Python objects, and categories of both.
"""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.classifier.frames import encode_records, fit_schema
from pate.data.table.cells import as_dates, as_numbers, as_texts
from pate.data.table.frames import as_table
from pate.data.table.schema import TableSchema
from pate.validation import InvalidValue

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

NUM_ROWS = 40
CHANGED_ROW = 3
MOMENT = pd.Timestamp("2020-01-01 01:02:03")
NANOSECOND = pd.Timedelta(1, "ns")

KINDS: dict[str, list[Any]] = {
    "int": [1, 2, 5],
    "int_beyond_floats": [2**53, 2**53 + 1, 2**62, -(2**62)],
    "float": [0.1 + 0.2, 1e22, 1e-7, 5.0, 123456789.123],
    "bool": [True, False],
    "decimal": [Decimal("1.50"), Decimal("2E+3"), Decimal("1e-9")],
    "word": ["a", "b", "c"],
    "code": ["007", "7", "1_000", "1e3"],
    "bytes": [b"aa", b"bb", "é".encode()],
    "date": [datetime.date(2020, 1, 1), datetime.date(2021, 2, 2)],
    "datetime": [datetime.datetime(2020, 1, 1, 5), datetime.datetime(2021, 2, 2, 0, 0, 0, 7)],
    "timestamp": [MOMENT + NANOSECOND, MOMENT + 1234567 * NANOSECOND, MOMENT],
    "zoned": [MOMENT.tz_localize("Asia/Tokyo"), pd.Timestamp("1950-01-02", tz="Asia/Tokyo")],
    "numpy_date": [np.datetime64("2020-01-01"), np.datetime64("2021-01-01")],
    "time": [datetime.time(8), datetime.time(9, 30), datetime.time(12, 0, 1, 500)],
    "timedelta": [datetime.timedelta(1), datetime.timedelta(2, 3, 4), pd.Timedelta(5, "ms")],
    "uuid": [uuid.UUID(int=number) for number in (1, 2, 3)],
    "period": [pd.Period("2020-01"), pd.Period("2020-02")],
    "interval": list(pd.interval_range(0, 3)),
    "list": [[1, 2], [], ["a"]],
}
ODD_CELLS: list[Any] = [
    None,
    np.nan,
    pd.NA,
    pd.NaT,
    np.datetime64("NaT"),
    "",
    "n/a",
    "x",
    "\ud800",
    "e\u0301",
    "1,5",
    "1.5",
    "1e400",
    "inf",
    "1 234",
    "31.12.2020",
    "12/31/2020",
    "2020-13-45",
    "True",
    np.inf,
    -np.inf,
    -0.0,
    0.1,
    5,
    2**62,
    2**64,
    10**400,
    -1,
    True,
    1 + 2j,
    1 + 0j,
    np.float32(0.1),
    np.int8(1),
    np.bool_(True),
    Fraction(1, 3),
    Decimal("1.234567890123456789"),
    Decimal("NaN"),
    Decimal("sNaN"),
    b"\xff",
    "é".encode(),
    datetime.date(1, 1, 1),
    datetime.datetime.max,
    MOMENT,
    MOMENT + NANOSECOND,
    MOMENT.tz_localize("UTC"),
    pd.Timestamp(np.datetime64("20000-01-01", "s")),
    datetime.time(9),
    pd.Timedelta(3, "s"),
    datetime.timedelta.max,
    uuid.UUID(int=1),
    pd.Period("2020"),
    pd.Interval(0.0, 1.0),
    pd.Interval(0, 1),
    (1, 2),
    [1.0],
    {"a": 1},
    np.array([1.5]),
]


def column_of_inferred_type(cells: list[Any]) -> Any:
    """Returns a pandas Series whose type pandas infers from all cells."""
    return pd.Series(cells)


def column_of_objects(cells: list[Any]) -> Any:
    """Returns a column of Python objects."""
    objects = np.empty(len(cells), dtype=object)
    for row, cell in enumerate(cells):
        objects[row] = cell
    return pd.Series(objects, dtype=object)


def column_of_categories(cells: list[Any]) -> Any:
    """Returns a column of categories, which pandas derives from all cells as Python objects."""
    return column_of_objects(cells).astype("category")


def column_of_inferred_categories(cells: list[Any]) -> Any:
    """Returns a column of categories, which pandas derives from all cells after it has inferred their type."""
    return pd.Series(cells).astype("category")


FORMS = (
    column_of_inferred_type,
    column_of_objects,
    column_of_categories,
    column_of_inferred_categories,
)
MARKED_KINDS = [
    kind if kind in ("word", "date") else pytest.param(kind, marks=pytest.mark.slow)
    for kind in KINDS
]


def draw_cells(cell_kind: str, num_rows: int, seed: int) -> list[Any]:
    """Returns random cells of a kind, such as words or dates."""
    choices = KINDS[cell_kind]
    indices = np.random.default_rng(seed).integers(len(choices), size=num_rows)
    return [choices[index] for index in indices.tolist()]


def make_frame(column: Any) -> Any:
    """Returns a DataFrame of this column and a column of numbers."""
    return pd.DataFrame({"cell": column, "number": np.arange(float(len(column)))})


def without_changed_row(features: Any) -> Any:
    """Returns the features of all rows but the changed one."""
    return np.delete(features, CHANGED_ROW, axis=0)


def read_cells(table: Any) -> list[Any]:
    """Returns all cells of the first column but the changed one, read as texts, as numbers and as days.

    Args:
        table: a pyarrow table.
    """
    cells = table.column("cell")
    texts = np.array(as_texts(cells).to_pylist(), dtype=object)
    return [
        without_changed_row(readings) for readings in (texts, as_numbers(cells), as_dates(cells))
    ]


def arrays_are_equal(first: Any, second: Any) -> bool:
    """Returns True if two arrays have equal entries, where NaN equals NaN."""
    return bool(np.array_equal(first, second, equal_nan=first.dtype != object))


@cache  # two tests read the same DataFrames
def frames_with_odd_cells(
    cell_kind: str, make_column: Callable[[list[Any]], Any]
) -> list[tuple[Any, Any]]:
    """Returns DataFrames that differ in one cell, each together with that cell.

    DataFrames that pandas refuses to build, such as those with categories of lists, are left out.
    """
    frames = []
    for odd_cell in (*KINDS[cell_kind][:2], *ODD_CELLS):
        cells = draw_cells(cell_kind=cell_kind, num_rows=NUM_ROWS, seed=1)
        cells[CHANGED_ROW] = odd_cell
        with suppress(TypeError, ValueError, OverflowError, AttributeError):
            frames.append((odd_cell, make_frame(column=make_column(cells))))
    return frames


@cache  # two tests read the same tables
def tables_with_odd_cells(
    cell_kind: str, make_column: Callable[[list[Any]], Any]
) -> list[tuple[Any, Any]]:
    """Returns pyarrow tables that differ in one cell, each together with that cell."""
    return [
        (odd_cell, as_table(frame))
        for odd_cell, frame in frames_with_odd_cells(cell_kind=cell_kind, make_column=make_column)
    ]


def cells_with_other_features(features_by_odd_cell: dict[str, Any]) -> list[str]:
    """Returns the cells for which the features of the other rows differ from those for the first cell."""
    expected = next(iter(features_by_odd_cell.values()), None)
    return [
        cell
        for cell, features in features_by_odd_cell.items()
        if not np.array_equal(features, expected)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("make_column", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_texts_numbers_and_dates_of_other_cells_are_equal_in_each_form(
    kind: str, make_column: Callable[[list[Any]], Any]
) -> None:
    """Whichever odd cell one row has, all other cells read as the same texts, numbers and days.

    They read as in a column of Python objects without an odd cell. That holds for each of the four `FORMS`, in which
    pandas may hold the column.
    """
    usual_cells = draw_cells(cell_kind=kind, num_rows=NUM_ROWS, seed=1)
    expected = read_cells(as_table(make_frame(column=column_of_objects(usual_cells))))
    changing_cells = [
        repr(cell)
        for cell, table in tables_with_odd_cells(cell_kind=kind, make_column=make_column)
        if not all(map(arrays_are_equal, read_cells(table), expected))
    ]
    assert not changing_cells


@pytest.mark.parametrize(
    ("make_column", "make_public_column"),
    [
        (column_of_objects, column_of_inferred_type),
        *(pytest.param(make_column, make_column, marks=pytest.mark.slow) for make_column in FORMS),
        pytest.param(column_of_inferred_type, column_of_categories, marks=pytest.mark.slow),
        pytest.param(column_of_inferred_categories, column_of_objects, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("kind", MARKED_KINDS)
def test_a_private_cell_leaves_the_features_of_other_records(
    kind: str,
    make_column: Callable[[list[Any]], Any],
    make_public_column: Callable[[list[Any]], Any],
) -> None:
    """Whichever odd cell one private row has, the features of all other rows are the same.

    The schema is fitted to public cells.
    """
    if kind == "list" and make_public_column in (
        column_of_categories,
        column_of_inferred_categories,
    ):
        pytest.skip("lists are no categories")
    public_cells = draw_cells(cell_kind=kind, num_rows=NUM_ROWS, seed=0)
    schema = fit_schema(make_frame(column=make_public_column(public_cells)))
    features_by_odd_cell = {
        repr(cell): without_changed_row(schema.encode(table).features)
        for cell, table in tables_with_odd_cells(cell_kind=kind, make_column=make_column)
    }
    assert cells_with_other_features(features_by_odd_cell) == []


@pytest.mark.slow
@pytest.mark.parametrize("make_column", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_private_cell_leaves_the_published_schema(
    kind: str, make_column: Callable[[list[Any]], Any]
) -> None:
    """Whichever odd cell one private row has, the schema fitted to the public rows of its table has the same bytes."""
    schemas = {
        repr(cell): json.dumps(fit_schema(frame[NUM_ROWS // 2 :]).plain())
        for cell, frame in frames_with_odd_cells(cell_kind=kind, make_column=make_column)
    }
    assert len(set(schemas.values())) <= 1, schemas


@pytest.mark.parametrize("odd_cell", ODD_CELLS, ids=range(len(ODD_CELLS)))
def test_an_odd_cell_is_read_or_refused_as_wrong(odd_cell: object) -> None:
    """A cell in a column of numbers is read as a number or as missing, or is refused with `InvalidValue`."""
    schema = fit_schema(make_frame(column=pd.Series(np.arange(float(NUM_ROWS)))))
    cells = [1.0] * NUM_ROWS
    cells[CHANGED_ROW] = odd_cell  # type: ignore[call-overload]
    try:
        encoded = encode_records(make_frame(column=column_of_objects(cells)), schema, name="X")
    except InvalidValue as error:
        assert error.name == "X.cell"
    else:
        assert np.isfinite(encoded.features).all()


PARQUET_KINDS = {
    "binary": (pa.binary(), [b"aa", b"bb", "é".encode()], [b"\xff", b"", None, b"\xe9t\xe9"]),
    "string": (pa.string(), ["aa", "bb", "é"], ["", None, "1", "\ufffd"]),
    "float": (pa.float64(), [1.0, 2.0, 7.0], [0.5, None, np.nan, np.inf, 1e300]),
    "float32": (pa.float32(), [1.0, 2.0, 7.0], [0.5, None, np.nan, np.inf]),
    "int": (pa.int64(), [1, 2, 2**53 + 1], [None, -1, 2**62]),
    "decimal": (pa.decimal128(20, 5), [Decimal("1.5"), Decimal(2)], [None, Decimal("0.00001")]),
    "moment": (pa.timestamp("us"), [0, 86_400_000_000, 1], [None, 2**62, -(2**62), 7]),
    "nanosecond": (pa.timestamp("ns"), [0, 86_400_000_000, 1], [None, 2**62, -(2**62), 7]),
    "date": (pa.date32(), [0, 365, 20_000], [None, 2**31 - 1, -(2**31)]),
    "duration": (pa.duration("us"), [0, 1, 10**6], [None, 2**62, -1]),
    "list": (pa.list_(pa.float64()), [[1.0], [2.0, 3.0]], [None, [], [0.5, None]]),
}


@pytest.mark.parametrize("public_kind", ["same", "word", "text", "date", "number"])
@pytest.mark.parametrize("kind", PARQUET_KINDS)
def test_a_cell_of_a_parquet_file_leaves_other_records(
    kind: str, public_kind: str, tmp_path: Path
) -> None:
    """Whichever odd cell one row of a Parquet file has, the features of all other rows are the same.

    That holds for eleven types of the cell's column and five kinds of public column.
    """
    from pyarrow import parquet

    cell_type, usual_cells, odd_cells = PARQUET_KINDS[kind]
    public_cells = {
        "same": pa.array([usual_cells[row % len(usual_cells)] for row in range(60)], cell_type),
        "word": pa.array(["aa", "1", "2.5"] * 20),
        "text": pa.array([f"aa bb {row // 2} 1.0 2" for row in range(60)]),
        "date": pa.array(["1970-01-01", "1971-01-01", "2000-01-01"] * 20),
        "number": pa.array([0.0, 1.0, 2.5] * 20),
    }
    public = pa.table({"cell": public_cells[public_kind], "number": np.arange(60.0)})
    schema = TableSchema.fit(public, text_columns=["cell"] if public_kind == "text" else [])
    if public_kind == "text":
        from pate.data.texts.tfidf import TfidfVectors

        schema = schema.with_text_vectors(
            public, text_columns=["cell"], fit_vectors=TfidfVectors.fit
        )
    features_by_odd_cell = {}
    for file_number, odd_cell in enumerate((*usual_cells[:1], *odd_cells)):
        cells = [usual_cells[row % len(usual_cells)] for row in range(NUM_ROWS)]
        cells[CHANGED_ROW] = odd_cell
        path = tmp_path / f"{file_number}.parquet"
        columns = {"cell": pa.array(cells, cell_type), "number": np.arange(float(NUM_ROWS))}
        parquet.write_table(pa.table(columns), path)
        encoded = schema.encode(parquet.read_table(path))
        features_by_odd_cell[repr(odd_cell)] = without_changed_row(
            np.concatenate([encoded.features, encoded.wrong.astype(np.float32)], axis=1)
        )
    assert cells_with_other_features(features_by_odd_cell) == []
