"""Columns of numbers and categories: equal values become one feature, however they are written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import Table, TableSchema
from pate.data.list_column import ListColumn
from pate.data.table.category_column import CategoryColumn
from pate.data.table.column_names import require_columns
from pate.data.table.number_column import NumberColumn
from pate.validation import InvalidValue
from tests.refusals import refused_parameter
from tests.unit.data.split_paths import SplitPaths
from tests.unit.data.table.frames import NUM_ROWS, people_frames, write_frames

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")


def fit_schema(name: str, cells: list[Any], *, is_code: bool = False) -> TableSchema:
    """Returns the schema of a public table with one column.

    Args:
        name: the name of the column.
        cells: the cells of the column.
        is_code: whether a setting says that the numbers of the column are codes.
    """
    return TableSchema.fit(pa.table({name: cells}), code_columns=(name,) if is_code else ())


@pytest.mark.parametrize(
    "cells",
    [
        ["3", "12", "3", "x"],
        ["3.0", "12.00", "3.", "x"],
        [3, 12, 3, "x"],
        [3.0, 12, "3.0", "x"],
        np.array([3.0, 12.0, 3.0, np.nan]),
        np.array([3, 12, 3, -1]),
    ],
)
def test_notations_of_one_code_are_one_category(cells: Any) -> None:
    """A code of the public file is one category, whether predictions have it as 3, as 3.0 or as a number.

    Other values are `other`, and so are missing cells, as the public file has none.
    """
    schema = fit_schema(name="ward", cells=[3, 12, 3, 5], is_code=True)
    assert schema.feature_names == ("ward=12", "ward=3", "ward=5", "ward=other")
    features = schema.inputs(pd.DataFrame({"ward": cells}))
    assert features.argmax(axis=1).tolist() == [1, 0, 1, 3]


def test_a_rare_public_word_is_reported_as_no_category() -> None:
    """A remark on a word that only few public rows have says that it is no category, not that the file lacks it."""
    frequent = [f"w{number}" for number in range(50)] * 2
    schema = fit_schema(name="town", cells=[*frequent, "rare"])
    encoded = schema.encode(pa.table({"town": ["rare"]}))
    remarks = schema.unknown_cell_remarks(
        "data.test", num_unknown_and_missing=encoded.num_unknown_and_missing, num_records=1
    )
    assert list(remarks) == [
        "data.test.town: 1 cells, 1 with a word that is no category of the public file"
    ]


def test_distinct_public_words_stay_distinct_categories() -> None:
    """Public words that are equal as numbers, such as 1.1 and 1.10, stay two categories.

    A word that no public row has, such as 1.100, is read as the first of the categories that equal it as numbers. So
    codes of illnesses stay apart, and models that earlier versions published keep their categories.
    """
    schema = fit_schema(name="icd", cells=["250.0", "250.00", "V1", "1.1", "1.10"] * 3)
    names = [name.removeprefix("icd=") for name in schema.feature_names]
    assert names == ["1.1", "1.10", "250.0", "250.00", "V1", "other"]
    features = schema.inputs({"icd": ["250.00", "250.0", "1.10", "1.100", "x"]})
    categories = [names[index] for index in features.argmax(axis=1)]
    assert categories == ["250.00", "250.0", "1.10", "1.1", "other"]


DAYS = ["2025-01-31", "2025-02-01"]


@pytest.mark.parametrize(
    "cells",
    [
        DAYS,
        pa.array(DAYS).cast(pa.timestamp("us")),
        pa.array(DAYS).cast(pa.timestamp("us")).cast(pa.timestamp("ns")),
        [f"{day}T00:00:00.000" for day in DAYS],
    ],
)
def test_notations_of_one_day_are_one_category(cells: Any) -> None:
    """A day as text, as a timestamp, or with a time of 0:00 is one category."""
    schema = fit_schema(name="ward", cells=DAYS, is_code=True)
    assert schema.feature_names == ("ward=2025-01-31", "ward=2025-02-01", "ward=other")
    assert schema.inputs({"ward": cells}).argmax(axis=1).tolist() == [0, 1]


def test_categories_edited_by_hand_are_canonicalized() -> None:
    """Categories of a schema that was edited by hand match cells in other notations of the same value."""
    column = CategoryColumn("ward", has_missing=False, categories=("3.0", "2.50", "007", "true"))
    features = column.encode(pa.array(["3", "2.5", "7", "TRUE", "007"])).features
    assert features.argmax(axis=1).tolist() == [0, 1, 4, 3, 2]
    features = column.encode(pa.array([True, False])).features
    assert features.argmax(axis=1).tolist() == [3, 4]


@pytest.mark.parametrize(
    "cells", [[True, False, None], ["true", "FALSE", ""], [1, 0, None], ["1.0", "0", None]]
)
def test_truth_values_are_0_and_1(cells: list[Any]) -> None:
    """A column of truth values is a column of numbers 0 and 1, in four notations of the same cells."""
    schema = fit_schema(name="old", cells=["True", "False", "True", None])
    assert isinstance(schema.columns[0], NumberColumn)
    assert schema == fit_schema(name="old", cells=[True, False, True, None])
    inputs = schema.inputs(pd.DataFrame({"old": cells}))
    assert np.array_equal(inputs, schema.inputs({"old": [1.0, 0.0, None]}))


@pytest.fixture
def wards(tmp_path: Path) -> Table:
    """Returns the reader of three equal files with the numbers of hospital wards, and days."""
    paths = SplitPaths.in_folder(folder=tmp_path, ending=".csv")
    for path in (paths.private, paths.public, paths.test):
        Path(path).write_text("ward,day,ill\n3,2025-01-31,1\n12,2025-02-01,0\n")
    return paths.table_with_labels("ill")


def test_category_setting_treats_numbers_and_dates_as_words(wards: Table) -> None:
    """`data.category=[ward,day]` gives a feature for each ward's number and each day in the public file."""
    preprocessing = replace(wards, category=("ward", "day")).load().preprocessing
    assert isinstance(preprocessing, TableSchema)
    assert preprocessing.feature_names == (
        "ward=12",
        "ward=3",
        "ward=other",
        "day=2025-01-31",
        "day=2025-02-01",
        "day=other",
    )


@pytest.mark.parametrize(
    ("column", "rule"), [("wart", "did you mean ward"), ("ill", "that is a feature")]
)
def test_category_setting_of_a_column_that_is_no_feature_is_refused(
    wards: Table, column: str, rule: str
) -> None:
    """`data.category` with an unknown column, or with a label, is refused."""
    with refused_parameter("data.category", value=column, rule_words=rule):
        replace(wards, category=(column,)).load()


def test_category_setting_beside_a_schema_file_is_refused(wards: Table, tmp_path: Path) -> None:
    """`data.category` is refused beside `data.schema`, as the schema decides which columns are categories."""
    wards.public_schema().write(tmp_path / "schema.yaml")
    with refused_parameter("data.category", value="[ward]"):
        replace(wards, category=("ward",), schema=str(tmp_path / "schema.yaml")).load()


def test_schema_with_invalid_categories_is_refused(wards: Table, tmp_path: Path) -> None:
    """A schema that calls a column of numbers a category, but lists no categories, is refused by the column's name."""
    path = tmp_path / "schema.yaml"
    wards.public_schema().write(path)
    path.write_text(path.read_text().replace("kind: number", "kind: category"))
    with refused_parameter(f"data.schema={path}.columns.ward", rule_words="for kind: cat"):
        replace(wards, schema=str(path)).load()


# Whether the cells of each row are missing, bool `[num_rows]`, and the ward of each row.
HAS_GAP = np.arange(NUM_ROWS) % 7 == 0
WARDS = np.array(["a", "b"])[np.arange(NUM_ROWS) % 2]
# The type of pandas for each column, which has a value of its own for missing cells.
NULLABLE_TYPES = {
    "age": "Int64",
    "weight": "Float64",
    "smokes": "boolean",
    "ward": "string",
    "room": "category",
    "flu": "Int64",
}


def frames_with_gaps() -> dict[str, Any]:
    """Returns the frame of each split, with missing cells, NaN or None, in all columns of features."""
    rows = np.arange(NUM_ROWS)
    features = pd.DataFrame(
        {
            "age": np.where(HAS_GAP, np.nan, rows),
            "weight": np.where(HAS_GAP, np.nan, rows / 2),
            "smokes": np.where(HAS_GAP, None, rows % 2 == 0),
            "ward": np.where(HAS_GAP, None, WARDS),
            "room": np.where(HAS_GAP, None, np.array(["x", "y"])[rows % 2]),
        }
    )
    return {
        split: features.assign(person=frame["person"], flu=frame["flu"])
        for split, frame in people_frames().items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_nullable_columns_give_the_same_features_as_nan_columns(
    tmp_path: Path, ending: str
) -> None:
    """Columns of pandas' nullable types give the features and labels of columns with NaN, from files and from a frame.

    The types are Int64, Float64, boolean, string and category.
    """
    frames = frames_with_gaps()
    expected = replace(write_frames(folder=tmp_path, frames=frames), labels=("flu",)).load()
    nullable = {split: frame.astype(NULLABLE_TYPES) for split, frame in frames.items()}
    table = write_frames(folder=tmp_path, frames=nullable, endings=dict.fromkeys(frames, ending))
    dataset = replace(table, labels=("flu",)).load()
    assert np.array_equal(dataset.private.inputs, expected.private.inputs)
    assert np.array_equal(dataset.private.labels, expected.private.labels)
    schema = dataset.preprocessing
    assert isinstance(schema, TableSchema)
    assert np.array_equal(schema.inputs(nullable["private"]), expected.private.inputs)


def test_column_of_mixed_types_becomes_words(tmp_path: Path) -> None:
    """A column of words that also has a number and missing cells is read as words.

    The number is another category, and the missing cells have the features of missing cells.
    """
    frames = frames_with_gaps()
    dataset = replace(write_frames(folder=tmp_path, frames=frames), labels=("flu",)).load()
    words = [pd.NA if gap else word for gap, word in zip(HAS_GAP, WARDS, strict=True)]
    words[1] = 7
    assert isinstance(dataset.preprocessing, TableSchema)
    inputs = dataset.preprocessing.inputs(frames["private"].assign(ward=words))
    has_usual_cells = np.arange(NUM_ROWS) != 1
    assert inputs[has_usual_cells].tolist() == dataset.private.inputs[has_usual_cells].tolist()
    assert inputs[1, dataset.preprocessing.feature_names.index("ward=other")] == 1


@pytest.mark.parametrize(
    ("missing_column", "guess"),
    [("temp", ""), ("notes", " (did you mean note?)")],
    ids=["no similar name", "a similar name"],
)
def test_a_missing_column_is_guessed_only_from_like_names(missing_column: str, guess: str) -> None:
    """If the column `notes` is missing, the error proposes the column `note`; for `temp` it proposes none."""
    with pytest.raises(InvalidValue) as caught:
        require_columns("data", column_names=("age", "note"), required=(missing_column,))
    assert caught.value.rule == f"also the column {missing_column}{guess}"


def test_list_with_a_number_beyond_float32_is_marked_as_wrong() -> None:
    """A list with the number 1e39 is a wrong cell, without a warning of numpy; so is a list with a missing number."""
    column = ListColumn(name="vector", has_missing=False, length=2)
    encoded = column.encode(cells=pa.array([[1.0, 2.0], [1e39, 2.0], [None, 2.0]]))
    assert encoded.wrong.tolist() == [False, True, True]
