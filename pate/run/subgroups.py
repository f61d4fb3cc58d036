"""The subgroups of records that scores are released by: values of columns of a table, or public bands of numbers."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Any

import numpy as np

from pate.array_types import FloatArray, IntArray
from pate.data import Dataset, TableSchema
from pate.data.table.category_column import CategoryColumn
from pate.data.table.number_column import NumberColumn
from pate.run.score_sums import Subgroups
from pate.validation import InvalidValue, nearest_column

# A column of categories may have at most this many values.
_MAX_VALUES = 20
# Numbers are divided into bands at the quartiles, which are rounded to this number of significant digits.
_NUM_BANDS = 4
_NUM_DIGITS = 3


def subgroups_of(dataset: Dataset, column_names: Collection[str]) -> tuple[Subgroups, ...]:
    """Returns, for each column, the division of the test and public records by the column's values.

    A column of categories has the categories of the public file. A column of numbers is cut into bands at the quartiles
    of the public pool. So the names of the values are public. Only which record has which value is private.

    Args:
        dataset: the data set.
        column_names: the names of columns that the student's inputs hold.

    Raises:
        InvalidValue: the inputs are not made from a table, or hold no such column, or a column has too many values.
    """
    if not column_names:
        return ()
    schema = dataset.preprocessing
    if not isinstance(schema, TableSchema):
        rule = "none without a table, whose columns make the subgroups"
        raise InvalidValue("score_groups", list(column_names), rule=rule)
    columns = {
        column.name: column
        for column in schema.columns
        if isinstance(column, (CategoryColumn, NumberColumn))
    }
    for column_name in column_names:
        if column_name not in columns:
            similar_names = nearest_column(column_name, names=sorted(columns)) if columns else ""
            rule = f"columns of categories or numbers among the model's inputs{similar_names}"
            raise InvalidValue("score_groups", column_name, rule=rule)
    test_frame = schema.frame(np.asarray(dataset.test.inputs))
    public_frame = schema.frame(np.asarray(dataset.public.inputs))
    return tuple(
        _division(
            column_name,
            test_column=test_frame[column_name],
            public_column=public_frame[column_name],
        )
        for column_name in column_names
    )


def _division(column_name: str, *, test_column: Any, public_column: Any) -> Subgroups:
    """Returns the division of records by one column of their table.

    Args:
        column_name: the name of the column.
        test_column: the column as a pandas series with a value for each test record.
        public_column: the column as a pandas series with a value for each public record.
    """
    if public_column.dtype == "category":
        column_values = [str(value) for value in public_column.cat.categories]
        if len(column_values) > _MAX_VALUES:
            rule = (
                f"columns of at most {_MAX_VALUES} values, {column_name} has {len(column_values)}"
            )
            raise InvalidValue("score_groups", column_name, rule=rule)
        return Subgroups(
            column_name=column_name,
            value_names=tuple(column_values),
            test_value_indices=np.asarray(test_column.cat.codes, np.int64),
            public_value_indices=np.asarray(public_column.cat.codes, np.int64),
        )
    public_numbers = np.asarray(public_column, np.float64)
    finite_numbers = public_numbers[np.isfinite(public_numbers)]
    column_quartiles = np.quantile(finite_numbers, np.arange(1, _NUM_BANDS) / _NUM_BANDS)
    band_ends = sorted({float(f"{end:.{_NUM_DIGITS}g}") for end in column_quartiles})
    inner = [f"{low:g} to below {high:g}" for low, high in pairwise(band_ends)]
    return Subgroups(
        column_name=column_name,
        value_names=(f"below {band_ends[0]:g}", *inner, f"{band_ends[-1]:g} and above"),
        test_value_indices=_bands(np.asarray(test_column, np.float64), band_ends=band_ends),
        public_value_indices=_bands(public_numbers, band_ends=band_ends),
    )


def _bands(numbers_in_column: FloatArray, *, band_ends: list[float]) -> IntArray:
    """Returns the index of the band that holds each number, int64 `[n]`; -1 for a missing number.

    Band 0 is below the first end; band i begins at the end i - 1.

    Args:
        numbers_in_column: the numbers, `[n]`.
        band_ends: the rising ends between the bands.
    """
    band_indices = np.searchsorted(band_ends, numbers_in_column, side="right")
    return np.where(np.isfinite(numbers_in_column), band_indices, -1).astype(np.int64)
