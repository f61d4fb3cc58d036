"""Conversion of data frames and mappings of columns to pyarrow tables.

A data frame of any library with Arrow's PyCapsule interface is converted, such as that of polars, which need not be
installed.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pate.data.table.arrow import import_pyarrow
from pate.data.table.cell_words import column_cells
from pate.data.table.column_names import column_name, require_columns
from pate.validation import InvalidValue

# https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
_ARROW_METHODS = ("__arrow_c_stream__", "__arrow_c_array__")

NOTATION_HINT = "pandas.to_numeric and pandas.to_datetime convert cells in another notation"
"""Advice for cells of a DataFrame that are in another notation than the public ones."""


@contextmanager
def hints_for_frames() -> Iterator[None]:
    """Replaces the hint of an `InvalidValue` in a `with` block by one that suits DataFrames.

    Hints name settings for files. An error without a hint stays as it is.
    """
    try:
        yield
    except InvalidValue as error:
        if error.hint:
            error.hint = NOTATION_HINT
        raise


def as_table(data: Any) -> Any:
    """Returns a pyarrow table with the columns of a DataFrame, a pyarrow table or a mapping from names to columns.

    The names are normalized by `column_name`. A DataFrame is one of pandas, or an object with `__arrow_c_stream__` or
    `__arrow_c_array__`, such as a DataFrame of polars, a relation of DuckDB or a pyarrow `RecordBatch`.

    Raises:
        InvalidValue: a column of a mapping or of a DataFrame of pandas has no name or that of another column, columns
            have different lengths, or the data have another type.
    """
    pa = import_pyarrow()
    is_frame = hasattr(data, "iloc") and hasattr(data, "columns")
    if isinstance(data, Mapping) or is_frame:
        names = [column_name(str(key)) for key in data]
        require_columns("data", column_names=names)
        try:
            data = pa.table(
                {name: _as_array(column=data[key]) for name, key in zip(names, data, strict=True)}
            )
        except (pa.ArrowException, TypeError) as error:
            raise InvalidValue(
                "data", rule="columns of numbers, words or dates, of equal length"
            ) from error
    has_arrow = any(hasattr(data, method) for method in _ARROW_METHODS)
    if has_arrow and not isinstance(data, pa.Table):
        with suppress(pa.ArrowException, TypeError, ValueError):  # a single column, for example
            data = pa.table(data)
    if not isinstance(data, pa.Table):
        raise InvalidValue("data", type(data).__name__, rule="a DataFrame, or the name of a file")
    return data.rename_columns(list(map(column_name, data.column_names)))


def _as_array(column: Any) -> Any:
    """Returns a column as a pyarrow array, with NaN as null; cells of a pandas column are read by `column_cells`."""
    return (
        column_cells(column)
        if hasattr(column, "iloc")
        else import_pyarrow().array(column, from_pandas=True)
    )
