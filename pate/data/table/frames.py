"""Conversion of data frames and mappings of columns to pyarrow tables."""

from collections.abc import Mapping
from typing import Any

from pate.data.table.arrow import arrow
from pate.data.table.column_names import column_name, require_columns
from pate.validation import InvalidValue


def as_table(data: Any) -> Any:
    """Returns a pyarrow table with the columns of a DataFrame, a pyarrow table or a mapping from names to columns.

    Raises:
        InvalidValue: a name occurs twice, columns have different lengths, or the data have another type.
    """
    pa = arrow()
    is_frame = hasattr(data, "columns") and hasattr(data, "iloc")
    if isinstance(data, Mapping) or is_frame:
        names = [column_name(str(key)) for key in data]
        require_columns("data", names)
        try:
            data = pa.table(
                {name: _as_array(data[key]) for name, key in zip(names, data, strict=True)}
            )
        except (pa.ArrowException, TypeError) as error:
            raise InvalidValue(
                "data", rule="columns of numbers, words or dates, of equal length"
            ) from error
    if not isinstance(data, pa.Table):
        raise InvalidValue("data", type(data).__name__, rule="a DataFrame, or the name of a file")
    return data.rename_columns(list(map(column_name, data.column_names)))


def _as_array(column: Any) -> Any:
    """Returns a column as a pyarrow array. A pandas series of several types becomes an array of words."""
    pa = arrow()
    try:
        return pa.array(column, from_pandas=True)
    except pa.ArrowException:
        if not hasattr(column, "iloc"):
            raise
        return pa.array(column.astype("string"), pa.string(), from_pandas=True)
