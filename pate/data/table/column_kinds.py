"""Kinds of columns: the kind that is inferred from public cells, and its name in a schema's file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pate.data.table.arrow import count_values, import_pyarrow, is_null
from pate.data.table.category_column import CategoryColumn
from pate.data.table.cells import are_all_readable, as_dates, as_numbers, as_texts
from pate.data.table.column import Column, EmptyColumn
from pate.data.table.date_column import DateColumn
from pate.data.table.date_order import UnclearDates, infer_order
from pate.data.table.dates import NoDate
from pate.data.table.number_column import NumberColumn
from pate.data.table.spelling import CellSpelling, canonical_words
from pate.data.table.text_column import TextColumn
from pate.files.reading import DamagedFile
from pate.validation import InvalidValue, as_setting

# The largest number of words of a column that become categories.
_MAX_CATEGORIES = 50
# The number of words that another notation has to read before it is tried on all words.
_SAMPLE_WORDS = 2000
# The largest number of characters of a wrong value in a message.
_MAX_SHOWN = 40
_COLUMNS: tuple[type[Column], ...] = (
    NumberColumn,
    DateColumn,
    CategoryColumn,
    TextColumn,
    EmptyColumn,
)
KINDS = {column.kind: column for column in _COLUMNS}
"""The class of each kind of column, by its name in a schema's file."""


def fit_column(name: str, cells: Any, *, is_code: bool, cell_notation: CellSpelling) -> Column:
    """Returns the column that is learned from public cells: numbers, dates, the 50 most frequent words, or texts.

    If all cells are missing, the result is an `EmptyColumn`, which cannot become a feature. If the 50 most frequent
    words fill less than half of the cells that are not missing, the result is a `TextColumn`, which cannot become a
    feature without text vectors.

    Args:
        name: the name of the column.
        cells: a pyarrow array of the column's public cells, where missing cells are null.
        is_code: whether numbers and dates are treated as words.
        cell_notation: the notation of the public file.

    Raises:
        InvalidValue: the cells are numbers in another notation, or dates of which the order of day and month, or the
            century, is ambiguous.
    """
    numbers = as_numbers(cells, cell_notation=cell_notation)
    if np.isnan(numbers).all():
        return EmptyColumn(name, has_missing=True)
    if are_all_readable(numbers) and not is_code:
        return NumberColumn.fit(name, numbers=numbers)
    if not is_code:
        dates = _fit_dates(name, cells=cells, cell_notation=cell_notation)
        if dates is not None:
            return dates
        _require_no_other_spelling(name, cells=cells, cell_notation=cell_notation)
    words = (
        canonical_words(words=as_texts(cells), number_notation=cell_notation)
        if is_code
        else as_texts(cells)
    )
    count_of_word = count_values(words)
    categories = sorted(count_of_word, key=lambda word: (-count_of_word[word], word))[
        :_MAX_CATEGORIES
    ]
    if 2 * sum(count_of_word[word] for word in categories) < sum(count_of_word.values()):
        return TextColumn(name)
    has_missing = bool(is_null(cells=words).any())
    return CategoryColumn(name, has_missing=has_missing, categories=tuple(sorted(categories)))


def _fit_dates(name: str, cells: Any, cell_notation: CellSpelling) -> DateColumn | None:
    """Returns the column of dates that is learned from public cells; None if a cell is not a date.

    The arguments are those of `fit_column`.

    Raises:
        InvalidValue: the order of day and month, or the century, is ambiguous.
    """
    days = as_dates(cells)
    if are_all_readable(days):
        return DateColumn.fit_dates(name, days=days)
    distinct = as_texts(cells).drop_null().unique().to_pylist()
    try:
        order = infer_order(
            date_texts=distinct,
            named_order=cell_notation.date_order,
            first_year=cell_notation.first_year,
        )
    except NoDate:
        return None
    except UnclearDates as error:
        remedy = f"{as_setting(name='data.category', value=[name])} where these are words"
        raise InvalidValue(f"data.public.{name}", rule=f"{error}; {remedy}") from error
    return DateColumn.fit_dates(
        name,
        days=as_dates(cells, date_orders=(order,), first_year=cell_notation.first_year),
        date_order=order,
    )


def _require_no_other_spelling(name: str, cells: Any, cell_notation: CellSpelling) -> None:
    """Raises `InvalidValue` if all cells of a column are numbers in another notation than `cell_notation`.

    Another notation has another decimal mark or mark between thousands. The error names the fewest settings with which
    the cells can be read.
    """
    distinct = as_texts(cells).drop_null().unique()
    sample = distinct.slice(0, _SAMPLE_WORDS)
    spelling_of_settings = {
        other.setting_names: other.number_notation
        for other in cell_notation.others()
        if are_all_readable(as_numbers(cells=sample, cell_notation=other.number_notation))
        and are_all_readable(as_numbers(cells=distinct, cell_notation=other.number_notation))
    }
    if not spelling_of_settings:
        return
    is_wrong = import_pyarrow().array(
        np.isinf(as_numbers(cells=distinct, cell_notation=cell_notation))
    )
    word = distinct.filter(is_wrong)[0].as_py()
    number_readings = []
    for settings, other_spelling in spelling_of_settings.items():
        if not any(fewer < settings for fewer in spelling_of_settings):
            number = as_numbers(cells=import_pyarrow().array([word]), cell_notation=other_spelling)[
                0
            ]
            number_as_read = np.format_float_positional(number, trim="-")
            number_readings.append(f"{' '.join(sorted(settings))} reads it as {number_as_read}")
    mark = cell_notation.thousands or "nothing"
    rule = (
        f"numbers with a decimal {cell_notation.decimal} and {mark} between thousands, and there is {word}: "
        f"{', '.join(number_readings)}; {as_setting(name='data.category', value=[name])} where these are words"
    )
    raise InvalidValue(f"data.public.{name}", rule=rule)


def read_column(
    name: str, schema_entry: object, *, setting: str, schema_folder: Path | None
) -> Column:
    """Returns the column that an entry in a schema's file describes.

    Args:
        name: the name of the column.
        schema_entry: the content of the file under that name.
        setting: the setting that names the file, for messages.
        schema_folder: the folder of the file, where a column of text has a further file; None if the schema has no
            folder.

    Raises:
        InvalidValue: the kind of column is unknown, or a value is one that `pate-schema` does not write.
        DamagedFile: the file of text vectors is missing, or has another digest than the entry says.
    """
    kind = schema_entry.get("kind") if isinstance(schema_entry, Mapping) else None
    column = KINDS.get(str(kind))
    if column is None or not isinstance(schema_entry, Mapping):
        raise InvalidValue(
            f"{setting}.columns.{name}.kind",
            str(kind)[:_MAX_SHOWN],
            rule=f"one of {', '.join(KINDS)}",
        )
    try:
        if not isinstance(schema_entry.get("missing", False), bool):
            raise TypeError("missing: expected true or false")
        return column.read(name, schema_entry=schema_entry, schema_folder=schema_folder)
    except DamagedFile:
        raise
    except InvalidValue as error:
        name_in_schema_file = f"{setting}.columns.{error.name}"
        raise InvalidValue(name_in_schema_file, error.value, rule=error.rule) from error
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        rule = f"{', '.join(column.keys) or 'values'} as pate-schema writes them for kind: {kind}"
        raise InvalidValue(f"{setting}.columns.{name}", rule=rule) from error
