"""Conversion of the columns of pandas to pyarrow arrays, each cell by itself.

The reading of a cell depends on that cell alone. The price of a release covers one private record, so one private cell
must not change how the cells of other records are read. In pandas it could: a column of datetime.time and one empty
text have no common type, one missing cell makes whole numbers floats, and categories are shared by all rows. So
numbers, moments, durations, lists and intervals that pandas holds for equal have one reading, such as 1, 1.0 and True,
or an interval of whole numbers and one of floats.

A column becomes float64 if all of its cells are numbers, and otherwise words. Numbers among words are written so that
`as_numbers` reads the same numbers again.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.table.arrow import import_pyarrow
from pate.data.table.cells import as_texts

# The names of the types of pandas' missing values.
_MISSING_TYPES = ("NAType", "NaTType")
_MICROSECOND = datetime.timedelta(microseconds=1)
_MICROSECONDS_IN_A_SECOND = 1e6


def column_cells(pandas_column: Any) -> Any:
    """Returns a column of pandas as a pyarrow array `[num_cells]`: float64 if all cells are numbers, otherwise strings.

    Whole numbers of at least 2**53 are rounded to floats, as pandas does if a cell of their column is missing. Truth
    values become 0 and 1, and durations seconds. Dates with a time become words in UTC with at most six digits after
    the second. Missing cells are null.
    """
    pa = import_pyarrow()
    from pandas import CategoricalDtype

    if isinstance(pandas_column.dtype, CategoricalDtype):
        categories = column_cells(pandas_column.cat.categories.to_series())
        codes = pandas_column.cat.codes.to_numpy()
        return categories.take(pa.array(codes, mask=codes < 0))
    numbers_or_words = _typed_cells(pandas_column)
    return (
        _cells_one_by_one(pandas_column.tolist()) if numbers_or_words is None else numbers_or_words
    )


def _typed_cells(pandas_column: Any) -> Any:
    """Returns a column of pandas as `_cells_one_by_one` does, but much faster; None for types where this is impossible.

    Numbers, bits, times without a zone and texts are converted as a whole, without a Python object for each cell.
    """
    pa = import_pyarrow()
    from pandas import StringDtype
    from pandas.api.types import infer_dtype

    dtype = pandas_column.dtype
    is_numpy_like = isinstance(dtype, np.dtype) or hasattr(dtype, "numpy_dtype")
    if is_numpy_like and getattr(dtype, "kind", "O") in "iufb":
        values = pandas_column.to_numpy(np.float64, na_value=np.nan)
        return pa.array(values + 0.0, pa.float64(), from_pandas=True)  # -0 becomes 0
    if isinstance(dtype, np.dtype) and dtype.kind == "M":
        return _moment_words(pandas_column.to_numpy())
    is_object = isinstance(dtype, np.dtype) and dtype.kind == "O"
    are_words = is_object and infer_dtype(pandas_column, skipna=True) == "string"
    if are_words or isinstance(dtype, StringDtype):
        try:
            return pa.array(pandas_column, pa.string(), from_pandas=True)
        except (UnicodeEncodeError, pa.ArrowException):  # half of a character
            return None
    return None


def _cells_one_by_one(cell_objects: Iterable[Any]) -> Any:
    """Returns Python objects as a pyarrow array, each read by `_reading`.

    The array has floats if all cells that are not missing are numbers, and otherwise words.
    """
    pa = import_pyarrow()
    readings = [_reading(cell_object) for cell_object in cell_objects]
    is_number = np.array([isinstance(reading, float) for reading in readings], np.bool_)
    is_moment = np.array([isinstance(reading, np.datetime64) for reading in readings], np.bool_)
    numbers = [reading for reading in readings if isinstance(reading, float)]
    if numbers and all(reading is None or isinstance(reading, float) for reading in readings):
        return pa.array(readings, pa.float64())
    words = np.array(readings, object)
    words[is_number] = as_texts(pa.array(numbers, pa.float64())).to_pylist()
    moments = [reading for reading in readings if isinstance(reading, np.datetime64)]
    words[is_moment] = _moment_words(np.array(moments, "datetime64[us]")).to_pylist()
    return pa.array(words, pa.string())


def _reading(cell_object: Any) -> float | str | np.datetime64 | None:
    """Returns what a Python object in a cell means: a number, a point in time, or a word; None for a missing cell.

    A truth value is 0 or 1, and a duration is a number of seconds. A point in time is in UTC, in microseconds. A date
    without a time, a time of day, a list or an interval is a word.
    """
    if cell_object is None or type(cell_object).__name__ in _MISSING_TYPES:
        return None
    if isinstance(cell_object, str):
        return str.__str__(cell_object).encode("utf-8", "replace").decode()
    if isinstance(cell_object, bytes | bytearray):
        return bytes(cell_object).decode("utf-8", "replace")
    if isinstance(cell_object, np.datetime64):
        return None if np.isnat(cell_object) else cell_object.astype("datetime64[us]")
    if isinstance(cell_object, datetime.datetime):
        return _moment(datetime_object=cell_object)
    if isinstance(cell_object, np.timedelta64):
        return (
            None
            if np.isnat(cell_object)
            else _seconds(duration=cell_object.astype("timedelta64[us]").item())
        )
    if isinstance(cell_object, datetime.timedelta):
        return _seconds(duration=cell_object)
    if isinstance(cell_object, datetime.time):
        return cell_object.isoformat(timespec="microseconds")
    number = _number(cell_object)
    if number is None:
        return _text(cell_object)
    return None if np.isnan(number) else number + 0.0  # -0 becomes 0


def _number(cell_object: Any) -> float | None:
    """Returns the float that is nearest to a number; None for an object that is no number.

    A number beyond the range of floats becomes infinite, with its sign. A NaN that Python cannot convert becomes NaN.
    """
    if isinstance(cell_object, complex | np.complexfloating) and cell_object.imag == 0:
        cell_object = cell_object.real
    if isinstance(cell_object, np.bool_):
        return float(cell_object)
    if not isinstance(cell_object, Real | Decimal):
        return None
    try:
        return float(cell_object)
    except OverflowError:
        return -np.inf if cell_object < 0 else np.inf
    except ValueError:  # a signaling NaN of decimal
        return np.nan


def _text(cell: Any) -> str:
    """Returns the text of a cell that is no text, number, time or missing value, such as a list or an interval.

    Each item of a list, tuple or array, and each bound of an interval of pandas, is read as a cell by itself. Any other
    object is converted by `str`.
    """
    if isinstance(cell, np.ndarray):
        cell = cell.tolist() if cell.dtype.kind != "O" else list(cell)
    if isinstance(cell, list | tuple):
        opening, closing = "[]" if isinstance(cell, list) else "()"
        return f"{opening}{', '.join(map(_word_of_part, cell))}{closing}"
    if all(hasattr(cell, name) for name in ("left", "right", "closed")):  # an interval of pandas
        opening = "[" if cell.closed in ("left", "both") else "("
        closing = "]" if cell.closed in ("right", "both") else ")"
        return f"{opening}{_word_of_part(cell.left)}, {_word_of_part(cell.right)}{closing}"
    return str(cell).encode("utf-8", "replace").decode()


def _word_of_part(list_item_or_bound: Any) -> str:
    """Returns an item of a list, or a bound of an interval, as text, with quotation marks if it is a text itself."""
    if isinstance(list_item_or_bound, str | bytes):
        return repr(_reading(list_item_or_bound))
    return str(_cells_one_by_one([list_item_or_bound]).cast(import_pyarrow().string())[0].as_py())


def _moment(datetime_object: datetime.datetime) -> np.datetime64:
    """Returns a date with a time in UTC, rounded down to microseconds. Without a time zone it is in UTC already."""
    # A Timestamp of pandas may lie beyond the years that Python's datetime can hold.
    if hasattr(datetime_object, "to_datetime64"):
        return np.datetime64(datetime_object.to_datetime64().astype("datetime64[us]"))
    if datetime_object.tzinfo is None:
        return np.datetime64(datetime_object, "us")
    local = np.datetime64(datetime_object.replace(tzinfo=None), "us")
    return np.datetime64(
        local - np.timedelta64(datetime_object.utcoffset() or datetime.timedelta(), "us")
    )


def _moment_words(moments: NDArray[np.datetime64]) -> Any:
    """Returns points in time `[num_cells]` as pyarrow words such as 2020-01-31 12:00:00.5; null for NaT."""
    pa = import_pyarrow()
    moment_words = pa.array(moments.astype("datetime64[us]")).cast(pa.string())
    moments_without_zeros = pa.compute.replace_substring_regex(moment_words, r"(\.\d*?)0+$", r"\1")
    return pa.compute.replace_substring_regex(moments_without_zeros, r"\.$", "")


def _seconds(duration: datetime.timedelta | int) -> float:
    """Returns a duration in seconds.

    numpy gives a duration that is too long for Python's `timedelta` as a whole number of microseconds.
    """
    microseconds = duration if isinstance(duration, int) else duration // _MICROSECOND
    return float(microseconds) / _MICROSECONDS_IN_A_SECOND
