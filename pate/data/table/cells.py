"""Conversion of a column's cells to words, numbers or dates, with missing cells marked.

A column is a pyarrow array: of words if the file is text, of typed values if it is Parquet or Arrow. pyarrow converts
whole columns at once. If it refuses a column, Python converts the column word by word, so that an error can name the
row. A word that both accept has the same value in both. Python accepts all words that pyarrow accepts, and others, such
as numbers with digits of other scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from pate.array_types import BoolArray, FloatArray
from pate.data.table.arrow import import_pyarrow, is_null, joined
from pate.data.table.dates import DAY_S, days_of
from pate.data.table.spelling import TRUTH_WORDS, USUAL, CellSpelling, canonical_words

# The names of pyarrow's other types of texts. They are compared by name, because old versions have no views.
_OTHER_TEXTS = ("null", "large_string", "string_view")
_UNITS_OF_A_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
# Floats below this number can be held by an int64.
_WHOLE_BELOW = 2.0**63
# The number of numbers of a column that are looked at first.
_FIRST_NUMBERS = 64
# The first day of the year 1, in seconds since 1970. Python has no earlier dates.
_FIRST_SECOND = -62_135_596_800


def as_texts(cells: Any) -> Any:
    """Returns the cells of a pyarrow column as strings `[num_cells]`, without surrounding blanks; null if empty.

    Each cell is read by itself, so that no cell changes the text of another cell. Whole numbers below 2**63 are
    written as digits, even if their column holds floats. Zeros at the end of typed decimals are removed, because all
    cells of such a column share one number of digits. Bytes that are not UTF-8 become the replacement character U+FFFD.
    """
    pa = import_pyarrow()
    cells = _decoded(cells)
    if pa.types.is_integer(cells.type):
        return cells.cast(pa.string())  # without blanks around it
    if pa.types.is_floating(cells.type):
        texts = _float_texts(cells)
    elif pa.types.is_decimal(cells.type):
        decimals_without_zeros = pa.compute.replace_substring_regex(
            cells.cast(pa.string()), r"(\.\d*?)0+$", r"\1"
        )
        texts = pa.compute.replace_substring_regex(decimals_without_zeros, r"\.$", "")
    else:
        try:
            texts = cells.cast(pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # lists, bytes that are no text
            texts = pa.array(map(_text_of, cells.to_pylist()), pa.string())
    return _trimmed(texts)


def digest_cells(cells: Any) -> Any:
    """Returns the cells of a batch in the type from which `digest_texts` makes the texts of ledgers' digests.

    Floats become whole numbers if all floats of the batch are whole. So a cell may change the text of another cell.

    Args:
        cells: a pyarrow array with all cells of a column in a batch.
    """
    pa = import_pyarrow()
    cells = _decoded(cells)
    if not pa.types.is_floating(cells.type):
        return cells
    values = cells.to_numpy(zero_copy_only=False)
    cells = pa.array(values, pa.float64(), from_pandas=True)
    values = values[~np.isnan(values)]
    # In most columns of fractions, one of the first numbers is not whole. Then the others need not be looked at.
    if _are_whole(values[:_FIRST_NUMBERS]).all() and _are_whole(values).all():
        return cells.cast(pa.int64(), safe=False)
    return cells


def digest_texts(cells: Any) -> Any:
    """Returns cells as the pyarrow strings of which digests in ledgers are made.

    The strings stay as the first ledgers had them, because digests must not change. Features must not be made of them,
    because the text of a number can depend on other cells of its column.

    Args:
        cells: a pyarrow array that `digest_cells` returned, or a part of it.
    """
    pa = import_pyarrow()
    if pa.types.is_floating(cells.type) or pa.types.is_integer(cells.type):
        return cells.cast(pa.string())  # without blanks around it
    try:
        cells = cells.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # lists, bytes that are no text
        words = [None if value is None else str(value) for value in cells.to_pylist()]
        cells = pa.array(words, pa.string())
    return _trimmed(cells)


def as_numbers(cells: Any, cell_notation: CellSpelling = USUAL) -> FloatArray:
    """Returns cells as floats `[num_cells]`: NaN for a missing cell, +inf for a cell that is not a number.

    Truth values become 0 and 1, and durations become seconds. An infinity in a column of floats stays as it is.

    Args:
        cells: a pyarrow array of cells.
        cell_notation: the notation of numbers and missing cells.
    """
    pa = import_pyarrow()
    cells = _decoded(cells)
    if cells.type == pa.string():
        words = cell_notation.number_words(as_texts(cells))
        return _parse(words, parse_all=_cast_numbers, parse_word=_number_of)
    if pa.types.is_duration(cells.type):
        num_units = cells.cast(pa.int64()).cast(pa.float64(), safe=False)
        cells = pa.compute.divide(num_units, _UNITS_OF_A_SECOND[cells.type.unit])
    has_numbers = (
        pa.types.is_integer(cells.type)
        or pa.types.is_floating(cells.type)
        or pa.types.is_boolean(cells.type)
    )
    # Decimals are read by their digits, because a conversion by the scale rounds differently.
    if pa.types.is_decimal(cells.type):
        cells = cells.cast(pa.string()).cast(pa.float64())
        has_numbers = True
    if not has_numbers:
        return np.where(is_null(cells), np.nan, np.inf)
    return np.asarray(cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def as_dates(
    cells: Any, date_orders: Iterable[str | None] = (), first_year: int | None = None
) -> FloatArray:
    """Returns cells as days since 1970, `[num_cells]`: NaN for a missing cell, +inf for a cell that is not a date.

    Args:
        cells: a pyarrow array of words, numbers such as 20250131, or dates.
        date_orders: orders of day, month and year; a word is read in the first that it allows, see `days_of`.
        first_year: the earliest year that two digits can mean; None if a year of two digits is an error.
    """
    pa = import_pyarrow()
    cells = _decoded(cells)
    date_orders = tuple(date_orders)

    def days_of_word(word: str) -> float:
        return days_of(date_text=word, date_orders=date_orders, first_year=first_year)

    is_number = pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type)
    if cells.type == pa.string() or is_number:  # 20250131 is a date in a column of words, too
        return _parse(cell_words=as_texts(cells), parse_all=_cast_days, parse_word=days_of_word)
    if not (pa.types.is_date(cells.type) or pa.types.is_timestamp(cells.type)):
        return np.where(is_null(cells), np.nan, np.inf)
    return np.asarray(
        _cast_days(cells, refuse_fractional_seconds=False).to_numpy(zero_copy_only=False)
    )


def are_all_readable(numbers: FloatArray) -> bool:
    """Returns True if at least one number is finite and none is infinite; +inf marks a wrong cell in `as_numbers`."""
    return not np.isinf(numbers).any() and not np.isnan(numbers).all()


def with_missing(table: Any, cell_notation: CellSpelling) -> Any:
    """Returns a pyarrow table in which cells with a word that `cell_notation.missing` lists are null.

    Numbers are compared by value: -9.0 is missing if the list has -9. A cell of a truth value is never replaced. All
    other cells stay as they are, also texts without a character.
    """
    if not cell_notation.missing:
        return table
    pa = import_pyarrow()
    missing_words = pa.array(cell_notation.missing, pa.string())
    missing_values = canonical_words(missing_words, number_notation=cell_notation)
    numbers = as_numbers(cells=missing_words, cell_notation=cell_notation)
    missing_numbers = numbers[np.isfinite(numbers)]
    columns = []
    for column in table.columns:
        cells = _decoded(column)
        if cells.type == pa.string():
            values = canonical_words(words=as_texts(cells), number_notation=cell_notation)
            is_listed = pa.compute.is_in(values, value_set=missing_values, skip_nulls=True)
        elif pa.types.is_boolean(cells.type):
            # A truth value is never missing, although it is also read as 0 or 1.
            is_listed = pa.array(np.zeros(len(cells), np.bool_))
        else:
            is_listed = pa.array(np.isin(as_numbers(cells), missing_numbers))
        columns.append(pa.compute.if_else(is_listed, pa.scalar(None, cells.type), cells))
    return pa.table(columns, names=table.column_names)


def _decoded(array: Any) -> Any:
    """Returns the cells of a pyarrow array as one array without a dictionary; any type of text becomes string.

    An array of type null becomes a string array, too.
    """
    pa = import_pyarrow()
    array = joined(array)
    if pa.types.is_dictionary(array.type):
        values = _decoded(array.dictionary)  # pyarrow takes nothing from views of strings
        array = pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
    return array.cast(pa.string()) if str(array.type) in _OTHER_TEXTS else array


def _float_texts(cells: Any) -> Any:
    """Returns a pyarrow array of strings `[num_cells]` from one of floats; null for NaN and missing cells.

    Whole numbers whose absolute value is below 2**63 are written as digits.
    """
    pa = import_pyarrow()
    values = np.asarray(cells.cast(pa.float64()).to_numpy(zero_copy_only=False))
    texts = pa.array(values, pa.float64(), from_pandas=True).cast(pa.string())
    is_whole = _are_whole(values)
    digits = pa.array(values[is_whole].astype(np.int64)).cast(pa.string())
    return pa.compute.replace_with_mask(texts, is_whole, digits)


def _are_whole(values: FloatArray) -> BoolArray:
    """Returns True for each float that is whole and below 2**63 in size, bool `[num_values]`; False for NaN."""
    return np.asarray((np.abs(values) < _WHOLE_BELOW) & (np.trunc(values) == values))


def _text_of(value: Any) -> str | None:
    """Returns as text a cell that pyarrow cannot convert to text, such as bytes or a list; None for a missing cell.

    Bytes are read as UTF-8. Another cell becomes the text that `str` makes of it.
    """
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value).encode("utf-8", "replace").decode()


def _trimmed(texts: Any) -> Any:
    """Returns pyarrow strings without surrounding blanks; null for an empty string."""
    pa = import_pyarrow()
    trimmed = pa.compute.utf8_trim_whitespace(texts)
    return pa.compute.if_else(pa.compute.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def _cast_numbers(words: Any) -> Any:
    """Returns pyarrow words as floats; raises an error of pyarrow if a word is no number."""
    return words.cast(import_pyarrow().float64())


def _number_of(word: str) -> float:
    """Returns the number that a word denotes, 0 or 1 for a truth value; raises `ValueError` for another word."""
    truth = TRUTH_WORDS.get(word.lower())
    return float(word) if truth is None else truth


def _cast_days(cells: Any, *, refuse_fractional_seconds: bool = True) -> Any:
    """Returns dates, times or words in ISO 8601 as floats: days since 1970; raises an error of pyarrow for other words.

    Words before the year 1 are refused, as Python refuses them. Otherwise the reading of such a word would depend on
    the other words of its column.

    Args:
        cells: a pyarrow array.
        refuse_fractional_seconds: whether an error is raised if a conversion would lose part of a second.
    """
    pa = import_pyarrow()
    seconds = cells.cast(pa.timestamp("s"), safe=refuse_fractional_seconds).cast(pa.int64())
    are_words = pa.types.is_string(cells.type)
    if are_words and pa.compute.any(pa.compute.less(seconds, _FIRST_SECOND)).as_py():
        raise pa.ArrowInvalid("a date before the year 1")
    return pa.compute.divide(seconds.cast(pa.float64()), DAY_S)


def _parse(
    cell_words: Any, parse_all: Callable[[Any], Any], parse_word: Callable[[str], float]
) -> FloatArray:
    """Returns the numbers `[num_words]` that words denote: NaN for a null, +inf for a word that denotes none.

    Args:
        cell_words: a pyarrow array of words.
        parse_all: converts all words at once, or raises `ArrowInvalid` if it cannot convert one.
        parse_word: converts a single word, or raises `ValueError`; is called for each distinct word if `parse_all`
            fails.
    """
    pa = import_pyarrow()
    try:
        parsed = parse_all(cell_words)
    except pa.ArrowInvalid:
        coded = cell_words.dictionary_encode()
        numbers = np.full(len(coded.dictionary), np.inf)
        for code, word in enumerate(coded.dictionary.to_pylist()):
            with suppress(ValueError, OverflowError):
                numbers[code] = parse_word(word)
        parsed = pa.array(numbers).take(coded.indices)
    values = parsed.to_numpy(zero_copy_only=False)
    return np.where(is_null(cells=cell_words) | np.isfinite(values), values, np.inf)
