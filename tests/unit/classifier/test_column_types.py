"""The types of a DataFrame's columns, which estimators read: they follow from public rows alone."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from pate.classifier.inputs import with_own_types, with_public_types
from pate.errors import InvalidValue

NUM_ROWS = 8


def frame(**columns: Any) -> pd.DataFrame:
    """Returns a DataFrame of these columns."""
    return pd.DataFrame(columns)


@pytest.mark.parametrize(
    ("public", "private"),
    [
        (np.arange(4.0), np.arange(NUM_ROWS)),
        (["a", "b", "c", "d"], ["a", "b"] * 4),
        (pd.Categorical(["a", "b", "a", "b"]), ["a", "b"] * 4),
    ],
    ids=["float", "text", "category"],
)
@pytest.mark.parametrize("odd_cell", [2, "other", None], ids=["number", "text", "missing"])
def test_one_private_cell_changes_no_other_row(public: Any, private: Any, odd_cell: Any) -> None:
    """One cell of a private column is replaced, so that pandas would give the column another type.

    The records are refused, or all other rows are read as before, with the public column's type.
    """
    public_rows = with_own_types(frame(x=public))
    before = with_public_types(frame(x=private), public_rows)
    changed = list(private)
    changed[3] = odd_cell
    try:
        after = with_public_types(frame(x=changed), public_rows)
    except InvalidValue as error:
        assert error.name == "X['x']"
        return
    assert after["x"].dtype == before["x"].dtype == public_rows["x"].dtype
    rows = [row for row in range(NUM_ROWS) if row != 3]
    pd.testing.assert_frame_equal(after.iloc[rows], before.iloc[rows])


def test_whole_numbers_refuse_a_fraction() -> None:
    """The public column has whole numbers, and a private cell is 0.5: it is refused and not cut to 0."""
    public = with_own_types(frame(x=[1, 2]))
    assert with_public_types(frame(x=[1.0, 3.0]), public)["x"].tolist() == [1, 3]
    with pytest.raises(InvalidValue) as caught:
        with_public_types(frame(x=[1.0, 0.5]), public)
    assert caught.value.name == "X['x']"


def test_public_rows_drop_categories_of_other_rows() -> None:
    """Public rows are cut from a column of categories. The category of the private rows alone is gone."""
    column = pd.Series(pd.Categorical(["a", "b", "secret"]))
    public = with_own_types(frame(x=column[:2]))
    assert list(public["x"].cat.categories) == ["a", "b"]
