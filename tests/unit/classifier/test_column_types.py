"""The types of a DataFrame's columns that estimators read follow from public rows alone."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from pate.classifier.inputs import with_own_types, with_public_types
from pate.errors import InvalidValue

NUM_ROWS = 8


def frame_of_columns(**columns: Any) -> pd.DataFrame:
    """Returns a DataFrame whose columns are the keyword arguments."""
    return pd.DataFrame(columns)


@pytest.mark.parametrize(
    ("public_cells", "private_cells"),
    [
        (np.arange(4.0), np.arange(NUM_ROWS)),
        (["a", "b", "c", "d"], ["a", "b"] * 4),
        (pd.Categorical(["a", "b", "a", "b"]), ["a", "b"] * 4),
        ([1, 2, 1, 2], np.arange(NUM_ROWS)),
        ([True, False] * 2, [True, False] * 4),
        (pd.Series(["a", None, "b", 3], dtype=object), ["a", None] * 4),
        (["1", "2", "3", "4"], np.arange(NUM_ROWS)),
        (pd.to_datetime(["2024-01-02"] * 4), pd.to_datetime(["2024-03-04"] * NUM_ROWS)),
        (pd.array([1, None, 2, 3], dtype="Int64"), np.arange(NUM_ROWS)),
    ],
    ids=["float", "text", "category", "int", "bool", "object", "digits", "date", "nullable"],
)
@pytest.mark.parametrize(
    "odd_cell", [2, "other", None, 0.5], ids=["number", "text", "missing", "fraction"]
)
def test_one_private_cell_changes_no_other_row(
    public_cells: Any, private_cells: Any, odd_cell: Any
) -> None:
    """If one private cell changes, the records are refused, or the other rows and their types stay as they were.

    The changed cell may give the private column another type in pandas. The column gets the type of the public
    column in any case.
    """
    public_frame = with_own_types(
        public_frame=frame_of_columns(x=public_cells), is_cut_from_records=False
    )
    try:
        before = with_public_types(
            private_frame=frame_of_columns(x=private_cells), public_frame=public_frame
        )
    except InvalidValue as error:
        assert error.name == "X['x']"
        return
    changed_cells = list(private_cells)
    changed_cells[3] = odd_cell
    try:
        after = with_public_types(
            private_frame=frame_of_columns(x=changed_cells), public_frame=public_frame
        )
    except InvalidValue as error:
        assert error.name == "X['x']"
        return
    assert after["x"].dtype == before["x"].dtype == public_frame["x"].dtype
    other_rows = [row for row in range(NUM_ROWS) if row != 3]
    pd.testing.assert_frame_equal(after.iloc[other_rows], before.iloc[other_rows])


def test_whole_numbers_refuse_a_fraction() -> None:
    """A private cell 0.5 in a column that is whole numbers in public is refused, and not cut to 0."""
    public_frame = with_own_types(
        public_frame=frame_of_columns(x=[1, 2]), is_cut_from_records=False
    )
    assert with_public_types(
        private_frame=frame_of_columns(x=[1.0, 3.0]), public_frame=public_frame
    )["x"].tolist() == [1, 3]
    with pytest.raises(InvalidValue) as caught:
        with_public_types(private_frame=frame_of_columns(x=[1.0, 0.5]), public_frame=public_frame)
    assert caught.value.name == "X['x']"


def test_public_rows_drop_categories_of_other_rows() -> None:
    """Public rows that are a slice of a column of categories lose the categories that only the other rows have."""
    categories = pd.Series(pd.Categorical(["a", "b", "secret"]))
    public_frame = with_own_types(
        public_frame=frame_of_columns(x=categories[:2]), is_cut_from_records=True
    )
    assert list(public_frame["x"].cat.categories) == ["a", "b"]


@pytest.mark.parametrize("private_cell", [5, None, "n/a", 0.5])
def test_the_type_of_public_rows_does_not_depend_on_a_cut_cell(private_cell: Any) -> None:
    """Public rows that were cut from a column of numbers are floats, whatever the column's private cell is."""
    public_frame = with_own_types(
        public_frame=frame_of_columns(x=[1, 2, private_cell])[:2], is_cut_from_records=True
    )
    pd.testing.assert_frame_equal(public_frame, frame_of_columns(x=[1.0, 2.0]))


def test_a_public_column_of_truth_values_refuses_words_and_gaps() -> None:
    """A column that is truth values in public refuses a private word or missing cell.

    NumPy would read a word as True, and a missing cell as False.
    """
    public_frame = with_own_types(
        public_frame=frame_of_columns(x=[True, False]), is_cut_from_records=False
    )
    for cell in ("no", None):
        with pytest.raises(InvalidValue):
            with_public_types(
                private_frame=frame_of_columns(x=[True, cell]), public_frame=public_frame
            )
